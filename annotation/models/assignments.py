from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from annotation.domain.assignments.eligibility import ADJUDICATION_SLOT, MAX_SLOT, RETIRED_SLOT
from annotation.domain.guidelines.entries import MAX_ENTRIES
from annotation.models.batches import Batch, Membership, Stratum
from annotation.models.datasets import Prompt, Response

# A step of priority moves a task by more places than a batch can have.
PRIORITY_STEP = 2**32


class Panel(models.Model):
    """The people for whom a task is planned: nobody else is given it. ``key`` is their memberships' ids,
    ascending and joined by hyphens; ``tasks_planned`` is how many tasks are planned for them now. ``named`` are
    the pairs that the manager named for the pairing ``fixed``; the others were made by a plan.
    """

    batch = models.ForeignKey(Batch, models.PROTECT, related_name="panels", verbose_name=_("batch"))
    key = models.CharField(max_length=200)
    tasks_planned = models.PositiveIntegerField(default=0)
    named = models.BooleanField(default=False)
    members: models.ManyToManyField[Membership, models.Model] = models.ManyToManyField(
        Membership, related_name="panels"
    )

    class Meta:
        verbose_name = _("panel")
        verbose_name_plural = _("panels")
        constraints = [models.UniqueConstraint(fields=["batch", "key"], name="panel_once_per_batch")]

    def __str__(self) -> str:
        return f"{self.batch_id}/{self.key}"


class Task(models.Model):
    """One response in one batch.

    ``slots_taken`` counts the claimed and submitted annotation slots; it changes only under the lock of this
    row, together with the assignment that takes or frees a slot, and the database refuses more than ``overlap``.
    ``rank`` is the order in which tasks are handed out, the smallest first. ``requeued`` marks a task that came
    back or was moved ahead: it may be free for people whose cursor is beyond it.

    A task of kind ``repeat`` is a decided dispute that comes back to its adjudicator, unmarked, from ``due_at`` on, to
    measure their intra-rater agreement; one of kind ``second`` goes to another adjudicator, to measure the agreement
    between them. ``repeats`` is the task that was decided; its gold stays what it is.
    """

    class Kind(models.TextChoices):
        WORK = "work", _("work")
        CHECK = "check", _("check")
        QUALIFICATION = "qualification", _("qualification")
        REPEAT = "repeat", _("repeat adjudication")
        SECOND = "second", _("second adjudication")

    class State(models.TextChoices):
        OPEN = "open", _("open")
        AGREED = "agreed", _("agreed")
        DISPUTED = "disputed", _("disputed")
        ADJUDICATED = "adjudicated", _("adjudicated")
        WITHDRAWN = "withdrawn", _("withdrawn")

    # The indexes below begin with the batch; nobody looks for tasks by stratum, panel or prompt alone.
    batch = models.ForeignKey(
        Batch, models.PROTECT, related_name="tasks", verbose_name=_("batch"), db_index=False
    )
    response = models.ForeignKey(Response, models.PROTECT, related_name="tasks", verbose_name=_("response"))
    prompt = models.ForeignKey(
        Prompt, models.PROTECT, related_name="+", verbose_name=_("prompt"), db_index=False
    )
    stratum = models.ForeignKey(
        Stratum, models.PROTECT, related_name="tasks", verbose_name=_("stratum"), db_index=False
    )
    panel = models.ForeignKey(
        Panel,
        models.PROTECT,
        related_name="tasks",
        null=True,
        blank=True,
        verbose_name=_("panel"),
        db_index=False,
    )
    kind = models.CharField(_("kind"), max_length=13, choices=Kind.choices, default=Kind.WORK)
    state = models.CharField(_("state"), max_length=11, choices=State.choices, default=State.OPEN)
    overlap = models.PositiveSmallIntegerField(_("overlap"))
    slots_taken = models.PositiveSmallIntegerField(default=0)
    priority = models.SmallIntegerField(_("priority"), default=0)
    position = models.PositiveIntegerField(_("position"), help_text=_("The order in the batch, from 0."))
    rank = models.BigIntegerField()
    requeued = models.BooleanField(default=False)
    settled_at = models.DateTimeField(_("settled"), null=True, blank=True)
    repeats = models.ForeignKey(
        "self",
        models.PROTECT,
        related_name="repeat_tasks",
        null=True,
        blank=True,
        verbose_name=_("repeats"),
        db_index=False,
    )
    due_at = models.DateTimeField(_("due"), null=True, blank=True)

    class Meta:
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        constraints = [
            # A gold question is a task of its own for each person who is given it.
            models.UniqueConstraint(
                fields=["batch", "response"], condition=Q(kind="work"), name="task_once_per_response"
            ),
            models.CheckConstraint(condition=Q(kind="work") | Q(overlap=1), name="task_known_has_no_overlap"),
            models.CheckConstraint(
                condition=Q(slots_taken__lte=F("overlap")), name="task_slots_within_overlap"
            ),
            models.CheckConstraint(
                condition=Q(rank=F("position") - F("priority") * PRIORITY_STEP), name="task_rank_is_the_order"
            ),
            models.UniqueConstraint(
                fields=["repeats", "kind"], condition=Q(repeats__isnull=False), name="task_decided_again_once"
            ),
            models.CheckConstraint(
                condition=Q(kind__in=["repeat", "second"], repeats__isnull=False, due_at__isnull=False)
                | Q(~Q(kind__in=["repeat", "second"]), repeats__isnull=True, due_at__isnull=True),
                name="task_decided_again_has_its_dispute",
            ),
        ]
        indexes = [
            models.Index(
                fields=["batch", "state", "due_at"],
                condition=Q(repeats__isnull=False),
                name="task_repeats_by_due",
            ),
            models.Index(fields=["batch", "state", "rank"], name="task_in_order"),
            models.Index(
                fields=["batch", "rank"],
                condition=Q(state="open", slots_taken__lt=F("overlap")),
                name="task_with_free_slot",
            ),
            models.Index(
                fields=["batch", "rank"],
                condition=Q(state="open", requeued=True, slots_taken__lt=F("overlap")),
                name="task_requeued",
            ),
            models.Index(
                fields=["batch", "-priority", "prompt"], condition=Q(state="disputed"), name="task_disputed"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.batch_id}/{self.position}"


# What measures adjudicators: its decisions settle nothing, and no count of the work tells of it.
DECIDED_AGAIN = (Task.Kind.REPEAT, Task.Kind.SECOND)


class Assignment(models.Model):
    """One person's claim on a task, with a lease. ``id`` is what the person sees: it tells nothing.

    ``shown_order``: of a slate the places of its entries in the order in which this person reads them, as in ``312``.
    """

    class State(models.TextChoices):
        CLAIMED = "claimed", _("claimed")
        SUBMITTED = "submitted", _("submitted")
        RELEASED = "released", _("released")
        EXPIRED = "expired", _("expired")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    # Each claim writes every index: those below serve these three as well.
    batch = models.ForeignKey(
        Batch, models.PROTECT, related_name="assignments", verbose_name=_("batch"), db_index=False
    )
    task = models.ForeignKey(
        Task, models.PROTECT, related_name="assignments", verbose_name=_("task"), db_index=False
    )
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        related_name="assignments",
        verbose_name=_("person"),
        db_index=False,
    )
    slot = models.PositiveSmallIntegerField()
    state = models.CharField(_("state"), max_length=9, choices=State.choices, default=State.CLAIMED)
    claimed_at = models.DateTimeField(_("claimed"))
    lease_expires = models.DateTimeField(_("lease expires"))
    submitted_at = models.DateTimeField(_("submitted"), null=True, blank=True)
    skip_reason = models.CharField(_("reason for skipping"), max_length=500, blank=True)
    shown_order = models.CharField(
        _("order of the entries"), max_length=MAX_ENTRIES, blank=True, default="", db_default=""
    )

    class Meta:
        verbose_name = _("assignment")
        verbose_name_plural = _("assignments")
        constraints = [
            models.UniqueConstraint(fields=["task", "person"], name="assignment_once_per_person"),
            models.UniqueConstraint(
                fields=["task", "slot"],
                condition=Q(state__in=["claimed", "submitted"]),
                name="assignment_once_per_live_slot",
            ),
            models.CheckConstraint(
                condition=Q(slot=ADJUDICATION_SLOT) | Q(~Q(slot=RETIRED_SLOT), slot__lte=MAX_SLOT),
                name="assignment_slot_in_range",
            ),
        ]
        indexes = [
            models.Index(
                fields=["person", "batch", "claimed_at"], condition=Q(state="claimed"), name="assignment_live"
            ),
            models.Index(
                fields=["batch", "lease_expires"], condition=Q(state="claimed"), name="assignment_by_lease"
            ),
            models.Index(
                fields=["person", "batch"],
                condition=Q(state__in=["released", "expired"], skip_reason=""),
                name="assignment_given_back",
            ),
            models.Index(fields=["person", "-submitted_at"], name="assignment_history"),
            models.Index(fields=["batch", "-submitted_at"], name="assignment_of_batch"),
        ]

    def __str__(self) -> str:
        return str(self.id)

    def list_shown_places(self) -> tuple[int, ...]:
        """Of a slate the places of its entries as they are shown; empty of a single response."""
        return tuple(map(int, self.shown_order))

    @property
    def is_adjudication(self) -> bool:
        return self.slot == ADJUDICATION_SLOT

    @property
    def severity(self) -> int:
        """The points of exposure that the guideline gives to reading this item."""
        return self.batch.guideline.document.severity_of(self.task.stratum.dimension)
