"""The tables. What never breaks (docs/decisions, DESIGN's invariants) stands here as constraints."""

from annotation.models.batches import (
    PRIORITY_STEP,
    Alarm,
    Batch,
    Membership,
    Panel,
    Stratum,
    Tally,
    Task,
    Watch,
)
from annotation.models.care import CareSettings, Exposure
from annotation.models.channels import Channel
from annotation.models.corpus import Collection, Dataset, EvaluatedModel, Prompt, Response
from annotation.models.floor import DisputeReason, Note
from annotation.models.gold import Export, GoldRelease, ReleasedLabel
from annotation.models.guidelines import Guideline, IntroductionReading
from annotation.models.invitations import Invitation, OneTimeLink, SetupLink
from annotation.models.jobs import Job
from annotation.models.known import KnownItem, KnownTask, Qualification
from annotation.models.people import ADJUDICATOR, ANNOTATOR, MANAGER, RESEARCHER, ROLES, Person
from annotation.models.records import AuditEvent, CacheEntry, Import, ImportedLabel, ResultOpening
from annotation.models.tokens import ApiToken
from annotation.models.work import (
    ADJUDICATION_SLOT,
    Adjudication,
    Annotation,
    Assignment,
    CorrectionRequest,
    Draft,
    GoldLabel,
    SubmissionBlock,
    Verdict,
)

__all__ = [
    "ADJUDICATION_SLOT",
    "ADJUDICATOR",
    "ANNOTATOR",
    "MANAGER",
    "PRIORITY_STEP",
    "RESEARCHER",
    "ROLES",
    "Adjudication",
    "Alarm",
    "Annotation",
    "ApiToken",
    "Assignment",
    "AuditEvent",
    "Batch",
    "CacheEntry",
    "CareSettings",
    "Channel",
    "Collection",
    "CorrectionRequest",
    "Dataset",
    "DisputeReason",
    "Draft",
    "EvaluatedModel",
    "Export",
    "Exposure",
    "GoldLabel",
    "GoldRelease",
    "Guideline",
    "Import",
    "ImportedLabel",
    "IntroductionReading",
    "Invitation",
    "Job",
    "KnownItem",
    "KnownTask",
    "Membership",
    "Note",
    "OneTimeLink",
    "Panel",
    "Person",
    "Prompt",
    "Qualification",
    "ReleasedLabel",
    "Response",
    "ResultOpening",
    "SetupLink",
    "Stratum",
    "SubmissionBlock",
    "Tally",
    "Task",
    "Verdict",
    "Watch",
]
