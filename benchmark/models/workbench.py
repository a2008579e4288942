"""The prompt workbench: campaigns, the proposals of their authors, what the targets answered, and the reviews."""

from __future__ import annotations

import uuid
from typing import TypeVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from annotation.models import Collection, Dataset, EvaluatedModel, Guideline, Job, Prompt
from annotation.models.base import Authored
from annotation.models.studies import Archivable, OfStudy, StudyManager
from benchmark.domain.workbench.duplicates import DuplicateThresholds
from benchmark.models.collection import EndpointOrigin
from scoring.models import Scorer

M = TypeVar("M", bound=models.Model)
MAX_TARGETS = 5
FIRST, SECOND = 1, 2
"""The slots of a revision's reviews: the reviewer, and the third person where they and the author differ."""


class StudyOfCampaignManager(StudyManager[M]):
    path = "campaign__study"


class StudyOfProposalManager(StudyManager[M]):
    path = "proposal__campaign__study"


class StudyOfRevisionManager(StudyManager[M]):
    path = "revision__proposal__campaign__study"


class AttackMethod(OfStudy, Authored):
    """How a prompt attacks. ``name`` is what a prompt keeps; the texts are by language."""

    name = models.CharField(_("name"), max_length=100)
    label = models.JSONField(_("label"), default=dict)
    definition = models.JSONField(_("definition"), default=dict)
    examples = models.JSONField(_("examples"), default=dict, blank=True)
    archived_at = models.DateTimeField(_("archived"), null=True, blank=True, editable=False)

    class Meta:
        verbose_name = _("attack method")
        verbose_name_plural = _("attack methods")
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["study", "name"], name="attack_method_once_per_study"),
        ]

    def __str__(self) -> str:
        return self.name


class Campaign(Archivable, Authored):
    """Prompts that people write for a dataset against the targets.

    ``success``: by criterion, the levels of a response that count as a success of the attack. The
    similarities to another text, 0 to 1, from which on a proposal is warned of or blocked are those of
    ``DuplicateThresholds``; ``warn_cosine`` is the cosine of two embeddings from which on the meaning is near, null
    where meanings are not compared. ``disclosure``, by language, is what an author reads before
    joining. ``requests_used`` counts the answers that targets gave and the requests under way. ``collection`` is where
    answers go that become responses.
    """

    class State(models.TextChoices):
        DRAFT = "draft", pgettext_lazy("campaign", "draft")
        OPEN = "open", pgettext_lazy("campaign", "open")
        PAUSED = "paused", pgettext_lazy("campaign", "paused")
        CLOSED = "closed", pgettext_lazy("campaign", "closed")

    name = models.CharField(_("name"), max_length=100)
    dataset = models.ForeignKey(Dataset, models.PROTECT, related_name="+", verbose_name=_("dataset"))
    guideline = models.ForeignKey(Guideline, models.PROTECT, related_name="+", verbose_name=_("guideline"))
    collection = models.ForeignKey(Collection, models.PROTECT, related_name="+", verbose_name=_("collection"))
    state = models.CharField(_("state"), max_length=6, choices=State, default=State.DRAFT)
    is_blind = models.BooleanField(_("targets are blind"), default=False)
    success = models.JSONField(_("levels that count as a success"), default=dict)
    languages = models.JSONField(_("languages"), default=list)
    disclosure = models.JSONField(_("disclosure"), default=dict, blank=True)
    requests_per_person = models.PositiveIntegerField(_("requests per person"), null=True, blank=True)
    max_requests = models.PositiveIntegerField(_("requests in all"), null=True, blank=True)
    requests_used = models.PositiveIntegerField(_("requests used"), default=0)
    warn_jaccard = models.FloatField(_("Jaccard similarity that warns"))
    warn_edit = models.FloatField(_("edit similarity that warns"))
    block_jaccard = models.FloatField(_("Jaccard similarity that blocks"))
    block_edit = models.FloatField(_("edit similarity that blocks"))
    warn_cosine = models.FloatField(_("cosine that warns"), null=True, blank=True)

    class Meta:
        verbose_name = _("campaign")
        verbose_name_plural = _("campaigns")
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["study", "name"], name="campaign_name_once_per_study"),
            models.CheckConstraint(
                condition=Q(warn_jaccard__gt=0, warn_jaccard__lte=F("block_jaccard"), block_jaccard__lte=1)
                & Q(warn_edit__gt=0, warn_edit__lte=F("block_edit"), block_edit__lte=1),
                name="campaign_thresholds_in_order",
            ),
            models.CheckConstraint(
                condition=Q(warn_cosine=None) | Q(warn_cosine__gt=0, warn_cosine__lte=1),
                name="campaign_cosine_in_range",
            ),
            models.CheckConstraint(
                condition=Q(max_requests=None) | Q(requests_used__lte=F("max_requests")),
                name="campaign_within_its_budget",
            ),
        ]

    def __str__(self) -> str:
        return self.title or self.name

    @property
    def thresholds(self) -> DuplicateThresholds:
        return DuplicateThresholds(self.warn_jaccard, self.warn_edit, self.block_jaccard, self.block_edit)


class OfCampaign(models.Model):
    campaign = models.ForeignKey(
        Campaign, models.CASCADE, related_name="%(class)ss", verbose_name=_("campaign")
    )

    objects = StudyOfCampaignManager()

    class Meta:
        abstract = True


class CampaignTarget(OfCampaign):
    """A model that is attacked, at its endpoint; ``settings`` go with every request. ``place`` 1 is A."""

    place = models.PositiveSmallIntegerField(_("place"))
    model = models.ForeignKey(EvaluatedModel, models.PROTECT, related_name="+", verbose_name=_("model"))
    endpoint = models.CharField(_("endpoint"), max_length=500)
    served_model = models.CharField(_("model asked for"), max_length=200)
    settings = models.JSONField(_("generation settings"), default=dict)
    timeout = models.FloatField(_("seconds until a request is given up"), default=60)

    class Meta:
        verbose_name = _("target")
        verbose_name_plural = _("targets")
        ordering = ["campaign", "place"]
        constraints = [
            models.UniqueConstraint(fields=["campaign", "place"], name="campaign_target_once_per_place"),
            models.UniqueConstraint(fields=["campaign", "model"], name="campaign_target_once_per_model"),
            models.CheckConstraint(
                condition=Q(place__gte=1, place__lte=MAX_TARGETS), name="campaign_target_place_in_range"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.campaign_id}/{self.letter}"

    @property
    def letter(self) -> str:
        return chr(ord("A") + self.place - 1)


class Quota(OfCampaign):
    """How many prompts are wanted of a dimension, a subcomponent and a method. ``taken`` are the places that
    proposals hold which are submitted or accepted. A decision may move a proposal into a cell that is full.
    """

    dimension = models.CharField(_("dimension"), max_length=100, blank=True)
    subcomponent = models.CharField(_("subcomponent"), max_length=100, blank=True)
    method = models.ForeignKey(AttackMethod, models.PROTECT, related_name="+", verbose_name=_("method"))
    wanted = models.PositiveIntegerField(_("wanted"))
    per_person = models.PositiveIntegerField(_("per person"), null=True, blank=True)
    taken = models.PositiveIntegerField(_("taken"), default=0)

    class Meta:
        verbose_name = _("quota")
        verbose_name_plural = _("quotas")
        ordering = ["campaign", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["campaign", "dimension", "subcomponent", "method"], name="quota_once_per_cell"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.campaign_id}/{self.dimension}/{self.subcomponent}/{self.method_id}"


class CampaignMember(OfCampaign):
    """``joined_at``: when an author read the disclosure and agreed. ``requests_used`` as of the campaign."""

    class Role(models.TextChoices):
        AUTHOR = "author", pgettext_lazy("campaign", "author")
        REVIEWER = "reviewer", pgettext_lazy("campaign", "reviewer")

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        related_name="campaign_memberships",
        verbose_name=_("person"),
    )
    role = models.CharField(_("role"), max_length=8, choices=Role)
    active = models.BooleanField(_("active"), default=True)
    joined_at = models.DateTimeField(_("joined"), null=True, blank=True)
    requests_used = models.PositiveIntegerField(_("requests used"), default=0)

    class Meta:
        verbose_name = _("member of a campaign")
        verbose_name_plural = _("members of campaigns")
        constraints = [
            models.UniqueConstraint(
                fields=["campaign", "person", "role"], name="campaign_member_once_per_role"
            )
        ]

    def __str__(self) -> str:
        return f"{self.campaign_id}/{self.person_id}/{self.role}"


class Proposal(OfCampaign):
    """A prompt that somebody proposes. What was asked or submitted is in its revisions, which never change.

    ``draft`` is the working copy. ``digest`` is that of the submitted text while the proposal holds it; ``quota`` the
    place that it holds. ``prompt`` is what it became.
    """

    class State(models.TextChoices):
        DRAFT = "draft", pgettext_lazy("proposal", "draft")
        SUBMITTED = "submitted", pgettext_lazy("proposal", "submitted")
        DISPUTED = "disputed", pgettext_lazy("proposal", "disputed")
        ACCEPTED = "accepted", pgettext_lazy("proposal", "accepted")
        RETURNED = "returned", pgettext_lazy("proposal", "returned")
        REJECTED = "rejected", pgettext_lazy("proposal", "rejected")

    HOLDING = (State.SUBMITTED, State.DISPUTED, State.ACCEPTED)
    EDITABLE = (State.DRAFT, State.RETURNED)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="proposals", verbose_name=_("author")
    )
    state = models.CharField(_("state"), max_length=9, choices=State, default=State.DRAFT)
    draft = models.JSONField(_("draft"), default=dict, blank=True)
    digest = models.CharField(max_length=64, blank=True)
    quota = models.ForeignKey(
        Quota, models.PROTECT, null=True, blank=True, related_name="proposals", verbose_name=_("quota")
    )
    prompt = models.OneToOneField(
        Prompt, models.PROTECT, null=True, blank=True, related_name="proposal", verbose_name=_("prompt")
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)
    submitted_at = models.DateTimeField(_("submitted"), null=True, blank=True)
    decided_at = models.DateTimeField(_("decided"), null=True, blank=True)

    class Meta:
        verbose_name = _("proposal")
        verbose_name_plural = _("proposals")
        ordering = ["created_at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["campaign", "digest"],
                condition=Q(state__in=["submitted", "disputed", "accepted"]),
                name="proposal_text_once_per_campaign",
            ),
            models.CheckConstraint(
                condition=Q(state="accepted", prompt__isnull=False)
                | (~Q(state="accepted") & Q(prompt__isnull=True)),
                name="proposal_is_a_prompt_once_accepted",
            ),
        ]
        indexes = [
            models.Index(fields=["campaign", "state", "submitted_at"], name="proposal_queue"),
            models.Index(fields=["campaign", "author"], name="proposal_by_author"),
        ]

    def __str__(self) -> str:
        return str(self.pk)


class ProposalRevision(models.Model):
    """``rationale`` is why the author thinks so; ``duplicate_reason`` why they submit it although it is blocked as
    near to another text, and ``nearness`` whether it was. ``near_meanings`` are the texts of nearly the same meaning,
    ``{"text", "cosine"}`` each: derived, and written once by a worker; null until then. ``key`` is the client's: the
    same one again is the same revision.
    """

    class Nearness(models.TextChoices):
        WARNED = "warn", pgettext_lazy("nearness", "warned of")
        BLOCKED = "block", pgettext_lazy("nearness", "blocked")

    proposal = models.ForeignKey(
        Proposal, models.CASCADE, related_name="revisions", verbose_name=_("proposal")
    )
    number = models.PositiveSmallIntegerField(_("number"))
    key = models.UUIDField(_("key"), default=uuid.uuid4, editable=False)
    text = models.TextField(_("text"))
    digest = models.CharField(max_length=64)
    language = models.CharField(_("language"), max_length=20, blank=True)
    dimension = models.CharField(_("dimension"), max_length=100, blank=True)
    subcomponent = models.CharField(_("subcomponent"), max_length=100, blank=True)
    method = models.ForeignKey(AttackMethod, models.PROTECT, related_name="+", verbose_name=_("method"))
    malice = models.CharField(_("malice"), max_length=8, choices=Prompt.Malice, blank=True)
    rationale = models.TextField(_("rationale"), blank=True)
    duplicate_reason = models.TextField(_("why it is no duplicate"), blank=True)
    nearness = models.CharField(
        _("similarity to another text"), max_length=5, choices=Nearness, blank=True, default=""
    )
    near_meanings = models.JSONField(_("texts of nearly the same meaning"), null=True, blank=True)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    submitted_at = models.DateTimeField(_("submitted"), null=True, blank=True)

    objects = StudyOfProposalManager()

    class Meta:
        verbose_name = _("revision of a proposal")
        verbose_name_plural = _("revisions of proposals")
        ordering = ["proposal", "number"]
        constraints = [
            models.UniqueConstraint(fields=["proposal", "number"], name="proposal_revision_once"),
            models.UniqueConstraint(fields=["proposal", "key"], name="proposal_revision_once_per_key"),
        ]

    def __str__(self) -> str:
        return f"{self.proposal_id}/{self.number}"


class Attempt(models.Model):
    """A revision's text put to a target. ``levels`` are the author's own, by criterion; until they are there the
    scorer's are not shown. ``error`` says why there is no answer, as JSON of ``error_to_json``.
    """

    class State(models.TextChoices):
        ASKED = "asked", pgettext_lazy("attempt", "asked")
        ANSWERED = "answered", pgettext_lazy("attempt", "answered")
        FAILED = "failed", pgettext_lazy("attempt", "failed")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    revision = models.ForeignKey(
        ProposalRevision, models.CASCADE, related_name="attempts", verbose_name=_("revision")
    )
    target = models.ForeignKey(
        CampaignTarget, models.PROTECT, related_name="attempts", verbose_name=_("target")
    )
    state = models.CharField(_("state"), max_length=8, choices=State, default=State.ASKED)
    job = models.ForeignKey(
        Job, models.PROTECT, null=True, blank=True, related_name="+", verbose_name=_("job")
    )
    error = models.JSONField(_("error"), null=True, blank=True)
    asked_at = models.DateTimeField(_("asked"))
    levels = models.JSONField(_("the author's levels"), null=True, blank=True)
    levelled_at = models.DateTimeField(_("levels given"), null=True, blank=True)

    objects = StudyOfRevisionManager()

    class Meta:
        verbose_name = _("attempt")
        verbose_name_plural = _("attempts")
        ordering = ["revision", "target__place"]
        constraints = [
            models.UniqueConstraint(fields=["revision", "target"], name="attempt_once_per_target"),
            models.CheckConstraint(
                condition=Q(levels__isnull=True) | Q(state="answered"),
                name="attempt_answered_before_its_levels",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.revision_id}/{self.target_id}"


class AttemptAnswer(EndpointOrigin):
    """What the target answered, stored once. ``predictions``: by criterion, the share of each level that the scorer
    of that time gave; null where there was none.
    """

    attempt = models.OneToOneField(
        Attempt, models.CASCADE, primary_key=True, related_name="answer", verbose_name=_("attempt")
    )
    text = models.TextField(_("text"), blank=True)
    scorer = models.ForeignKey(
        Scorer, models.PROTECT, null=True, blank=True, related_name="+", verbose_name=_("scorer")
    )
    predictions = models.JSONField(_("predictions"), null=True, blank=True)

    class Meta:
        verbose_name = _("answer of a target")
        verbose_name_plural = _("answers of targets")

    def __str__(self) -> str:
        return str(self.attempt_id)


class Review(models.Model):
    """A reviewer's own dimension, method and malice of a revision, given before the author's are shown, and then the
    decision. It is claimed with a lease. A claim that is given back or runs out before it is judged is deleted; after
    that it has ``ended_at`` and stays, because its reviewer knows what the author says and may not judge once more.
    ``author`` is the proposal's: the database refuses a review by its author.
    """

    class Decision(models.TextChoices):
        ACCEPT = "accept", pgettext_lazy("review", "accept")
        RETURN = "return", pgettext_lazy("review", "return")
        REJECT = "reject", pgettext_lazy("review", "reject")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    revision = models.ForeignKey(
        ProposalRevision, models.CASCADE, related_name="reviews", verbose_name=_("revision")
    )
    slot = models.PositiveSmallIntegerField(_("slot"))
    reviewer = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="reviews", verbose_name=_("reviewer")
    )
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", verbose_name=_("author")
    )
    lease_expires = models.DateTimeField(_("lease expires"))
    dimension = models.CharField(_("dimension"), max_length=100, blank=True)
    subcomponent = models.CharField(_("subcomponent"), max_length=100, blank=True)
    method = models.ForeignKey(
        AttackMethod, models.PROTECT, null=True, blank=True, related_name="+", verbose_name=_("method")
    )
    malice = models.CharField(_("malice"), max_length=8, choices=Prompt.Malice, blank=True)
    judged_at = models.DateTimeField(_("judged"), null=True, blank=True)
    decision = models.CharField(_("decision"), max_length=6, choices=Decision, blank=True)
    reason = models.TextField(_("reason"), blank=True)
    decided_at = models.DateTimeField(_("decided"), null=True, blank=True)
    ended_at = models.DateTimeField(_("claim ended"), null=True, blank=True)

    objects = StudyOfRevisionManager()

    class Meta:
        verbose_name = _("review")
        verbose_name_plural = _("reviews")
        ordering = ["revision", "slot"]
        constraints = [
            models.UniqueConstraint(
                fields=["revision", "slot"], condition=Q(ended_at=None), name="review_once_per_slot"
            ),
            models.UniqueConstraint(fields=["revision", "reviewer"], name="review_once_per_reviewer"),
            models.CheckConstraint(condition=Q(slot__in=[FIRST, SECOND]), name="review_slot_in_range"),
            models.CheckConstraint(condition=~Q(reviewer=F("author")), name="review_never_by_the_author"),
            models.CheckConstraint(
                condition=Q(decision="") | Q(judged_at__isnull=False, ended_at=None),
                name="review_judged_before_decided",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.revision_id}/{self.slot}"
