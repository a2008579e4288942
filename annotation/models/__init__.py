"""The tables. What never breaks (docs/decisions, DESIGN's invariants) stands here as constraints."""

from annotation.domain.assignments.eligibility import ADJUDICATION_SLOT
from annotation.domain.permissions import ADJUDICATOR, ANNOTATOR, MANAGER, RESEARCHER, ROLES, VIEWER
from annotation.models.adjudication import Adjudication, DisputeReason, Verdict
from annotation.models.annotations import Annotation, CorrectionRequest, Draft, ItemMessage, SubmissionBlock
from annotation.models.assignments import (
    DECIDED_AGAIN,
    PRIORITY_STEP,
    Assignment,
    Panel,
    Task,
)
from annotation.models.audit import (
    AuditEvent,
    AuditRewrite,
    AuditSeal,
    CacheEntry,
    ChartEntry,
    ImportedLabel,
    ResultOpening,
    StudyDeletion,
)
from annotation.models.base import Channel, WithFiles
from annotation.models.batches import Alarm, Batch, BatchStats, MemberCounts, Membership, Stratum
from annotation.models.datasets import (
    Collection,
    Dataset,
    DialogueFault,
    EvaluatedModel,
    Prompt,
    Response,
    Slate,
    SlateEntry,
)
from annotation.models.gold_questions import GoldQuestion, GoldQuestionTask, Qualification
from annotation.models.guidelines import Guideline, GuidelineNote, IntroductionReading
from annotation.models.imports import HeaderMapping, Import
from annotation.models.jobs import Job
from annotation.models.mail.mail import MailProfile, OutgoingMail
from annotation.models.people import (
    ITEM_DISPLAY,
    ApiToken,
    IdempotencyKey,
    Invitation,
    OneTimeLink,
    Person,
    SetupLink,
    SignInSession,
)
from annotation.models.releases import (
    BatchDraw,
    Export,
    GoldLabel,
    GoldRelease,
    LabelPosterior,
    ReleasedLabel,
)
from annotation.models.studies import Archivable, OfStudy, Shareable, Study, StudyMembership
from annotation.models.webhooks.deliveries import WebhookAttempt, WebhookDelivery
from annotation.models.webhooks.endpoints import WebhookEndpoint
from annotation.models.wellbeing import Exposure, WellbeingSettings

__all__ = [
    "ADJUDICATION_SLOT",
    "ADJUDICATOR",
    "ANNOTATOR",
    "DECIDED_AGAIN",
    "ITEM_DISPLAY",
    "MANAGER",
    "PRIORITY_STEP",
    "RESEARCHER",
    "ROLES",
    "VIEWER",
    "Adjudication",
    "Alarm",
    "Annotation",
    "ApiToken",
    "Archivable",
    "Assignment",
    "AuditEvent",
    "AuditRewrite",
    "AuditSeal",
    "Batch",
    "BatchDraw",
    "BatchStats",
    "CacheEntry",
    "Channel",
    "ChartEntry",
    "Collection",
    "CorrectionRequest",
    "Dataset",
    "DialogueFault",
    "DisputeReason",
    "Draft",
    "EvaluatedModel",
    "Export",
    "Exposure",
    "GoldLabel",
    "GoldQuestion",
    "GoldQuestionTask",
    "GoldRelease",
    "Guideline",
    "GuidelineNote",
    "HeaderMapping",
    "IdempotencyKey",
    "Import",
    "ImportedLabel",
    "IntroductionReading",
    "Invitation",
    "ItemMessage",
    "Job",
    "LabelPosterior",
    "MailProfile",
    "MemberCounts",
    "Membership",
    "OfStudy",
    "OneTimeLink",
    "OutgoingMail",
    "Panel",
    "Person",
    "Prompt",
    "Qualification",
    "ReleasedLabel",
    "Response",
    "ResultOpening",
    "SetupLink",
    "Shareable",
    "SignInSession",
    "Slate",
    "SlateEntry",
    "Stratum",
    "Study",
    "StudyDeletion",
    "StudyMembership",
    "SubmissionBlock",
    "Task",
    "Verdict",
    "WebhookAttempt",
    "WebhookDelivery",
    "WebhookEndpoint",
    "WellbeingSettings",
    "WithFiles",
]
