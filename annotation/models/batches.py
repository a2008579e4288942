from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from annotation.domain.batch_spec import MAX_CHECK_SHARE, MAX_OVERLAP, USUAL_POLICY
from annotation.models.base import Authored
from annotation.models.datasets import Dataset, EvaluatedModel
from annotation.models.guidelines import Guideline
from annotation.models.studies import Archivable, StudyOfBatchManager


class Batch(Archivable, Authored):
    """Responses, one guideline version, the people and the policy."""

    class State(models.TextChoices):
        DRAFT = "draft", _("draft")
        OPEN = "open", _("open")
        PAUSED = "paused", _("paused")
        CLOSED = "closed", _("closed")

    class Pairing(models.TextChoices):
        POOL = "pool", _("pool: anybody of the pool")
        FIXED = "fixed", _("fixed: named pairs")
        BALANCED = "balanced", _("balanced: every pair shares as many")

    class Order(models.TextChoices):
        PROMPTS = "prompts", _("prompt by prompt")
        SHUFFLED = "shuffled", _("shuffled")

    class Plan(models.TextChoices):
        FIXED = "fixed", _("fixed: as many labels as the overlap says")
        OPEN = "open", _("open: at least the overlap, until the collection is ended")

    class Settling(models.TextChoices):
        ADJUDICATE = "adjudicate", _("a third person decides every difference")
        MAJORITY = "majority", _("the majority; without one a third person decides")
        MEDIAN = "median", _("the median; of nominal scales a third person decides")
        EXPERTS = "experts", _("experts: their finals may overrule, unanimity too")
        AGGREGATE = "aggregate", _("a model of all labels; where it is unsure a third person decides")

    class Aggregation(models.TextChoices):
        DAWID_SKENE = "dawid-skene", _("Dawid and Skene's model")
        MACE = "mace", "MACE"

    class AlarmAction(models.TextChoices):
        TELL = "tell", _("tell the managers")
        PAUSE = "pause", _("pause the batch")

    class TextFormat(models.TextChoices):
        AUTO = "auto", _("automatic")
        MARKDOWN = "markdown", _("Markdown")
        PLAIN = "plain", _("plain text")

    class Qualifying(models.TextChoices):
        NONE = "", _("no qualification")
        ACCURACY = "accuracy", _("accuracy against the known labels")
        KAPPA = "kappa", _("kappa against the known labels")

    name = models.CharField(_("name"), max_length=100)
    guideline = models.ForeignKey(
        Guideline, models.PROTECT, related_name="batches", verbose_name=_("guideline")
    )
    state = models.CharField(_("state"), max_length=10, choices=State.choices, default=State.DRAFT)
    overlap = models.PositiveSmallIntegerField(_("overlap"), default=USUAL_POLICY.overlap)
    plan = models.CharField(
        _("plan"),
        max_length=5,
        choices=Plan.choices,
        default=USUAL_POLICY.plan,
        db_default=USUAL_POLICY.plan,
    )
    overlap_share = models.FloatField(
        _("share of items with the overlap"),
        default=USUAL_POLICY.overlap_share,
        db_default=USUAL_POLICY.overlap_share,
    )
    settling = models.CharField(
        _("gold is settled by"),
        max_length=10,
        choices=Settling.choices,
        default=USUAL_POLICY.settling,
        db_default=USUAL_POLICY.settling,
    )
    aggregation = models.CharField(
        _("model of the labels"),
        max_length=11,
        choices=Aggregation.choices,
        default=USUAL_POLICY.aggregation,
        db_default=USUAL_POLICY.aggregation,
    )
    aggregation_threshold = models.FloatField(
        _("probability that settles"),
        default=USUAL_POLICY.aggregation_threshold,
        db_default=USUAL_POLICY.aggregation_threshold,
    )
    # What its guideline judges; a claim asks for it without reading the guideline.
    of_slates = models.BooleanField(_("of slates"), default=False, db_default=False, editable=False)
    collection_ended_at = models.DateTimeField(_("collection ended"), null=True, editable=False)
    pairing = models.CharField(_("pairing"), max_length=10, choices=Pairing.choices, default=Pairing.POOL)
    order = models.CharField(_("order"), max_length=10, choices=Order.choices, default=Order.PROMPTS)
    seed = models.PositiveIntegerField(
        _("seed"),
        default=USUAL_POLICY.seed,
        help_text=_("For the shuffling and the plan: the same seed gives the same order."),
    )
    tolerance = models.FloatField(_("tolerance"), default=USUAL_POLICY.tolerance)
    lease_seconds = models.PositiveIntegerField(_("lease in seconds"), default=USUAL_POLICY.lease_seconds)
    due_date = models.DateField(_("due date"), null=True, blank=True)
    agreement_threshold = models.FloatField(
        _("agreement threshold"),
        null=True,
        blank=True,
        help_text=_("An alarm when the lower bound of Krippendorff's alpha falls below it; empty: none."),
    )
    alarm_action = models.CharField(
        _("at an alarm"), max_length=5, choices=AlarmAction.choices, default=AlarmAction.TELL
    )
    second_reading_share = models.FloatField(
        _("share of repeat adjudications"),
        default=USUAL_POLICY.second_reading_share,
        help_text=_("Of the decided disputes, how many come back to their adjudicator unmarked; 0: none."),
    )
    second_reading_days = models.PositiveSmallIntegerField(
        _("days until a repeat adjudication"),
        default=USUAL_POLICY.second_reading_days,
        help_text=_("Or when the disputes run out."),
    )
    second_adjudicator_share = models.FloatField(
        _("share of second adjudications"),
        default=USUAL_POLICY.second_adjudicator_share,
        db_default=USUAL_POLICY.second_adjudicator_share,
        help_text=_("Of the decided disputes, how many go to another adjudicator unmarked; 0: none."),
    )
    check_share = models.FloatField(
        _("share of gold checks"),
        default=USUAL_POLICY.check_share,
        help_text=_("Of the items that an annotator is given, how many are gold questions; 0: none."),
    )
    check_feedback = models.BooleanField(
        _("feedback on gold checks"),
        default=USUAL_POLICY.check_feedback,
        help_text=_("After a gold question the annotator reads the right label, and why."),
    )
    qualifying = models.CharField(
        _("qualification by"), max_length=8, choices=Qualifying.choices, default=Qualifying.NONE, blank=True
    )
    qualifying_threshold = models.FloatField(
        _("threshold of the qualification"),
        null=True,
        blank=True,
        help_text=_("Who reaches it on the gold questions of the first attempt is given the work."),
    )
    # What was there before batches had formats is shown as it was.
    response_format = models.CharField(
        _("format of responses"),
        max_length=8,
        choices=TextFormat.choices,
        default=USUAL_POLICY.response_format,
        db_default=TextFormat.PLAIN,
    )
    prompt_format = models.CharField(
        _("format of prompts"),
        max_length=8,
        choices=TextFormat.choices,
        default=USUAL_POLICY.prompt_format,
        db_default=TextFormat.PLAIN,
    )
    read_to_end = models.BooleanField(
        _("responses are read to the end"),
        default=USUAL_POLICY.read_to_end,
        db_default=USUAL_POLICY.read_to_end,
    )
    introduction_required = models.BooleanField(
        _("introduction is required"),
        default=USUAL_POLICY.introduction_required,
        db_default=USUAL_POLICY.introduction_required,
    )
    # Moved on whenever labels that were complete leave or come back: what was read of them before is void.
    labels_version = models.PositiveIntegerField(default=0)
    # What is submitted from then on is shown closed in blocks (docs/gold-questions.md); null: at once.
    blocks_since = models.DateTimeField(null=True, editable=False)
    # Where a member of the batch closed it, its results stay sealed for them until somebody else confirms that.
    closed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        editable=False,
        related_name="+",
        verbose_name=_("closed by"),
    )
    closing_confirmed_at = models.DateTimeField(_("closing confirmed"), null=True, editable=False)
    closing_confirmed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        editable=False,
        related_name="+",
        verbose_name=_("closing confirmed by"),
    )

    class Meta:
        verbose_name = _("batch")
        verbose_name_plural = _("batches")
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["study", "name"], name="batch_name_once_per_study"),
            models.CheckConstraint(
                condition=Q(overlap__gte=1, overlap__lte=MAX_OVERLAP), name="batch_overlap_in_range"
            ),
            models.CheckConstraint(
                condition=Q(overlap_share__gt=0, overlap_share__lte=1), name="batch_overlap_a_share"
            ),
            models.CheckConstraint(condition=Q(tolerance__gte=0), name="batch_tolerance_not_negative"),
            models.CheckConstraint(condition=Q(lease_seconds__gte=1), name="batch_lease_positive"),
            models.CheckConstraint(
                condition=Q(agreement_threshold__isnull=True)
                | Q(agreement_threshold__gte=-1, agreement_threshold__lte=1),
                name="batch_threshold_in_range",
            ),
            models.CheckConstraint(
                condition=Q(second_reading_share__gte=0, second_reading_share__lte=1),
                name="batch_second_readings_a_share",
            ),
            models.CheckConstraint(
                condition=Q(second_adjudicator_share__gte=0, second_adjudicator_share__lte=1),
                name="batch_second_adjudications_a_share",
            ),
            models.CheckConstraint(
                condition=Q(check_share__gte=0, check_share__lte=MAX_CHECK_SHARE), name="batch_checks_a_share"
            ),
            models.CheckConstraint(
                condition=Q(qualifying="", qualifying_threshold__isnull=True)
                | Q(
                    qualifying__in=["accuracy", "kappa"],
                    qualifying_threshold__isnull=False,
                    qualifying_threshold__gte=-1,
                    qualifying_threshold__lte=1,
                ),
                name="batch_qualifies_by_a_threshold",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def settles_at_end(self) -> bool:
        """Whether nothing is settled before the manager ends the collection, which is still to come."""
        ends = self.plan == self.Plan.OPEN or self.settling == self.Settling.AGGREGATE
        return ends and self.collection_ended_at is None

    @property
    def is_even(self) -> bool:
        """Whether each item gets as many labels as the overlap says."""
        return self.plan == self.Plan.FIXED and self.overlap_share == 1


class BatchStats(models.Model):
    """What a worker measured of a batch a moment ago, so that no page has to: one row, measured anew.

    ``agreement`` and ``history`` hold what ``selectors/batches/monitoring.py`` reads; ``days`` maps a day to the
    annotations handed in on it, ``decision_days`` to the disputes settled on it, the latest days only. ``complete``
    counts the tasks with all their annotations. ``timed_seconds`` is the time that the latest ``timed`` annotations
    took. ``stuck`` counts the tasks that nobody who works there may take, up to one more than are told. ``took`` is
    what the measuring cost, in seconds; ``final`` says that the batch was closed by then, so that nothing can change
    any more.
    """

    batch = models.OneToOneField(
        Batch, models.CASCADE, primary_key=True, related_name="watch", verbose_name=_("batch")
    )
    at = models.DateTimeField(_("time"))
    complete = models.PositiveIntegerField(default=0)
    agreement = models.JSONField(default=list)
    history = models.JSONField(default=list)
    days = models.JSONField(default=dict)
    decision_days = models.JSONField(default=dict, db_default={})
    timed = models.PositiveIntegerField(default=0)
    timed_seconds = models.FloatField(default=0)
    stuck = models.PositiveIntegerField(default=0, db_default=0)
    took = models.FloatField(default=0)
    final = models.BooleanField(default=False)

    class Meta:
        verbose_name = _("batch statistics")
        verbose_name_plural = _("batch statistics")

    def __str__(self) -> str:
        return f"{self.batch_id}/{self.at}"


class Alarm(models.Model):
    """The agreement of a batch fell below its threshold. It stands until a manager has seen to it.

    ``value``, ``low`` and ``high`` are Krippendorff's alpha with its 95% interval over ``units`` tasks;
    ``criterion`` is empty where several criteria are pooled.
    """

    batch = models.ForeignKey(Batch, models.PROTECT, related_name="alarms", verbose_name=_("batch"))
    at = models.DateTimeField(_("time"))
    criterion = models.CharField(_("criterion"), max_length=100, blank=True)
    value = models.FloatField(_("value"))
    low = models.FloatField(_("lower bound"))
    high = models.FloatField(_("upper bound"))
    units = models.PositiveIntegerField(_("tasks"))
    threshold = models.FloatField(_("threshold"))
    paused = models.BooleanField(_("paused the batch"), default=False)
    seen_at = models.DateTimeField(_("seen"), null=True, blank=True)
    seen_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, blank=True, related_name="+"
    )

    objects = StudyOfBatchManager()

    class Meta:
        verbose_name = _("alarm")
        verbose_name_plural = _("alarms")
        ordering = ["-at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["batch"], condition=Q(seen_at__isnull=True), name="alarm_one_standing"
            )
        ]

    def __str__(self) -> str:
        return f"{self.batch_id}/{self.at}"


class Membership(models.Model):
    """A person's part in a batch. Left people stay (inactive), so that blindness outlives the leaving.

    ``cursor`` says where the next claim begins to look: no task with a smaller rank is free for this person,
    but for those that came back (``Task.requeued``). It spares time and decides nothing; setting it back to
    ``START`` is always right. ``last_prompt`` is the prompt handed out last, which must not come twice running.
    """

    START = -(2**62)

    class Role(models.TextChoices):
        ANNOTATOR = "annotator", _("annotator")
        ADJUDICATOR = "adjudicator", _("adjudicator")

    batch = models.ForeignKey(Batch, models.CASCADE, related_name="memberships", verbose_name=_("batch"))
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="memberships", verbose_name=_("person")
    )
    role = models.CharField(_("role"), max_length=12, choices=Role.choices)
    active = models.BooleanField(_("active"), default=True)
    quota = models.PositiveIntegerField(
        _("quota"), null=True, blank=True, help_text=_("At most this many items; empty: no limit.")
    )
    excluded_dimensions = models.JSONField(_("excluded dimensions"), default=list, blank=True)
    cursor = models.BigIntegerField(default=START)
    last_prompt = models.BigIntegerField(null=True, blank=True)

    class Meta:
        verbose_name = _("membership")
        verbose_name_plural = _("memberships")
        constraints = [
            models.UniqueConstraint(fields=["batch", "person", "role"], name="membership_once_per_role")
        ]
        indexes = [models.Index(fields=["person", "role", "active"], name="membership_of_person")]

    def __str__(self) -> str:
        return f"{self.batch_id}/{self.person_id}/{self.role}"


class Counts(models.Model):
    """Changes of the numbers of tasks in each state, and of annotations: signed, so that they add up."""

    open = models.BigIntegerField(default=0)
    agreed = models.BigIntegerField(default=0)
    disputed = models.BigIntegerField(default=0)
    adjudicated = models.BigIntegerField(default=0)
    withdrawn = models.BigIntegerField(default=0)
    submitted = models.BigIntegerField(default=0)

    class Meta:
        abstract = True


class Stratum(Counts):
    """The tasks of a batch that are alike in kind, dataset, dimension, language and model: what may be asked about
    who may take a task, or how many there are, has one answer for all of them.

    Its own counts are the changes made for the batch as a whole (making tasks, withdrawing them), under the
    lock of the batch; what people's work changed stands in their tallies. The number of anything is the sum.
    """

    batch = models.ForeignKey("Batch", models.PROTECT, related_name="strata", verbose_name=_("batch"))
    kind = models.CharField(_("kind"), max_length=13, default="work")
    dataset = models.ForeignKey(
        Dataset, models.PROTECT, related_name="strata", verbose_name=_("dataset"), db_index=False
    )
    dimension = models.CharField(_("dimension"), max_length=100, blank=True)
    language = models.CharField(_("language"), max_length=20, blank=True)
    model = models.ForeignKey(EvaluatedModel, models.PROTECT, related_name="+", verbose_name=_("model"))

    # What its tasks that are not withdrawn need, together; an open plan may bring more.
    labels_needed = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        verbose_name = _("stratum")
        verbose_name_plural = _("strata")
        constraints = [
            models.UniqueConstraint(
                fields=["batch", "kind", "dataset", "dimension", "language", "model"],
                name="stratum_once_per_batch",
            )
        ]

    def __str__(self) -> str:
        return f"{self.batch_id}/{self.kind}/{self.dimension}/{self.language}/{self.model_id}"


class MemberCounts(Counts):
    """What one member's work changed in one stratum. A row is written by its member's calls alone, in the
    transaction of the change: counting makes nobody wait for anybody.
    """

    stratum = models.ForeignKey(Stratum, models.PROTECT, related_name="tallies")
    membership = models.ForeignKey(Membership, models.PROTECT, related_name="tallies", db_index=False)
    skipped = models.BigIntegerField(default=0)
    # Corrections of labels that agreement counted before: they change no other number.
    revised = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        verbose_name = _("counts of a member")
        verbose_name_plural = _("counts of members")
        constraints = [
            models.UniqueConstraint(fields=["membership", "stratum"], name="tally_once_per_member")
        ]

    def __str__(self) -> str:
        return f"{self.stratum_id}/{self.membership_id}"
