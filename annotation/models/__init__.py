"""The tables. What never breaks (docs/decisions, DESIGN's invariants) stands here as constraints."""

from annotation.models.batches import (
    MAX_OVERLAP,
    PRIORITY_STEP,
    Batch,
    Membership,
    Panel,
    Stratum,
    Tally,
    Task,
)
from annotation.models.corpus import Collection, Dataset, EvaluatedModel, Prompt, Response
from annotation.models.gold import GoldRelease, ReleasedLabel
from annotation.models.guidelines import Guideline
from annotation.models.jobs import Job
from annotation.models.people import ADJUDICATOR, ANNOTATOR, MANAGER, RESEARCHER, ROLES, Person
from annotation.models.records import AuditEvent, Import
from annotation.models.work import (
    ADJUDICATION_SLOT,
    Adjudication,
    Annotation,
    Assignment,
    CorrectionRequest,
    Draft,
    GoldLabel,
)

__all__ = [
    "ADJUDICATION_SLOT",
    "ADJUDICATOR",
    "ANNOTATOR",
    "MANAGER",
    "MAX_OVERLAP",
    "PRIORITY_STEP",
    "RESEARCHER",
    "ROLES",
    "Adjudication",
    "Annotation",
    "Assignment",
    "AuditEvent",
    "Batch",
    "Collection",
    "CorrectionRequest",
    "Dataset",
    "Draft",
    "EvaluatedModel",
    "GoldLabel",
    "GoldRelease",
    "Guideline",
    "Import",
    "Job",
    "Membership",
    "Panel",
    "Person",
    "Prompt",
    "ReleasedLabel",
    "Response",
    "Stratum",
    "Tally",
    "Task",
]
