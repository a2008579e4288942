"""The tables by the names that the database has for them, so that a table that is renamed is renamed here."""

from __future__ import annotations

from annotation.models import (
    Adjudication,
    Annotation,
    ApiToken,
    Assignment,
    Batch,
    Collection,
    Dataset,
    DisputeReason,
    Draft,
    EvaluatedModel,
    Exposure,
    GoldLabel,
    GoldQuestion,
    GoldQuestionTask,
    GoldRelease,
    Guideline,
    GuidelineNote,
    Import,
    ImportedLabel,
    MemberCounts,
    Membership,
    Panel,
    Person,
    Prompt,
    Qualification,
    ReleasedLabel,
    Response,
    Stratum,
    StudyMembership,
    Task,
    WebhookDelivery,
    WebhookEndpoint,
    WellbeingSettings,
)

ASSIGNMENTS = Assignment._meta.db_table
ADJUDICATIONS = Adjudication._meta.db_table
ANNOTATIONS = Annotation._meta.db_table
BATCHES = Batch._meta.db_table
CARE_SETTINGS = WellbeingSettings._meta.db_table
COLLECTIONS = Collection._meta.db_table
DATASETS = Dataset._meta.db_table
DRAFTS = Draft._meta.db_table
EXPOSURES = Exposure._meta.db_table
GOLD_LABELS = GoldLabel._meta.db_table
GUIDELINES = Guideline._meta.db_table
GUIDELINE_NOTES = GuidelineNote._meta.db_table
IMPORTED_LABELS = ImportedLabel._meta.db_table
IMPORTS = Import._meta.db_table
KNOWN_ITEMS = GoldQuestion._meta.db_table
KNOWN_TASKS = GoldQuestionTask._meta.db_table
MEMBERS_OF_PANELS = Panel.members.through._meta.db_table
MEMBERSHIPS = Membership._meta.db_table
MODELS = EvaluatedModel._meta.db_table
MODELS_OF_PEOPLE = Person.own_models.through._meta.db_table
PEOPLE = Person._meta.db_table
PROMPTS = Prompt._meta.db_table
QUALIFICATIONS = Qualification._meta.db_table
REASONS = DisputeReason._meta.db_table
RELEASED_LABELS = ReleasedLabel._meta.db_table
RELEASED_BATCHES = GoldRelease.batches.through._meta.db_table
RESPONSES = Response._meta.db_table
STRATA = Stratum._meta.db_table
STUDY_MEMBERSHIPS = StudyMembership._meta.db_table
TALLIES = MemberCounts._meta.db_table
TASKS = Task._meta.db_table
TOKENS = ApiToken._meta.db_table
WEBHOOK_DELIVERIES = WebhookDelivery._meta.db_table
WEBHOOK_ENDPOINTS = WebhookEndpoint._meta.db_table
