"""The tables. What never breaks (docs/decisions, DESIGN's invariants) stands here as constraints."""

from annotation.models.batches import MAX_OVERLAP, Batch, Membership, Task
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
    GoldLabel,
)

__all__ = [
    "ADJUDICATION_SLOT",
    "ADJUDICATOR",
    "ANNOTATOR",
    "MANAGER",
    "MAX_OVERLAP",
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
    "EvaluatedModel",
    "GoldLabel",
    "GoldRelease",
    "Guideline",
    "Import",
    "Job",
    "Membership",
    "Person",
    "Prompt",
    "ReleasedLabel",
    "Response",
    "Task",
]
