from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from annotation.models.authored import Authored
from annotation.models.corpus import Response
from annotation.models.guidelines import Guideline

MAX_OVERLAP = 5


class Batch(Authored):
    """Responses, one guideline version, the people and the policy."""

    class State(models.TextChoices):
        DRAFT = "draft", _("draft")
        OPEN = "open", _("open")
        PAUSED = "paused", _("paused")
        CLOSED = "closed", _("closed")

    class Pairing(models.TextChoices):
        POOL = "pool", _("pool: any two of the pool")

    name = models.CharField(_("name"), max_length=100, unique=True)
    guideline = models.ForeignKey(
        Guideline, models.PROTECT, related_name="batches", verbose_name=_("guideline")
    )
    state = models.CharField(_("state"), max_length=10, choices=State.choices, default=State.DRAFT)
    overlap = models.PositiveSmallIntegerField(_("overlap"), default=2)
    pairing = models.CharField(_("pairing"), max_length=10, choices=Pairing.choices, default=Pairing.POOL)
    tolerance = models.FloatField(_("tolerance"), default=0)
    lease_seconds = models.PositiveIntegerField(_("lease in seconds"), default=1800)
    due_date = models.DateField(_("due date"), null=True, blank=True)

    class Meta:
        verbose_name = _("batch")
        verbose_name_plural = _("batches")
        ordering = ["-created_at", "-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(overlap__gte=1, overlap__lte=MAX_OVERLAP), name="batch_overlap_1_to_5"
            ),
            models.CheckConstraint(condition=Q(tolerance__gte=0), name="batch_tolerance_not_negative"),
            models.CheckConstraint(condition=Q(lease_seconds__gte=1), name="batch_lease_positive"),
        ]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """A person's part in a batch. Left people stay (inactive), so that blindness outlives the leaving."""

    class Role(models.TextChoices):
        ANNOTATOR = "annotator", _("annotator")
        ADJUDICATOR = "adjudicator", _("adjudicator")

    batch = models.ForeignKey(Batch, models.CASCADE, related_name="memberships", verbose_name=_("batch"))
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="memberships", verbose_name=_("person")
    )
    role = models.CharField(_("role"), max_length=12, choices=Role.choices)
    active = models.BooleanField(_("active"), default=True)

    class Meta:
        verbose_name = _("membership")
        verbose_name_plural = _("memberships")
        constraints = [
            models.UniqueConstraint(fields=["batch", "person", "role"], name="membership_once_per_role")
        ]
        indexes = [models.Index(fields=["person", "role", "active"], name="membership_of_person")]

    def __str__(self) -> str:
        return f"{self.batch_id}/{self.person_id}/{self.role}"


class Task(models.Model):
    """One response in one batch.

    ``slots_taken`` counts the claimed and submitted annotation slots; it changes only under the lock of this
    row, together with the assignment that takes or frees a slot, and the database refuses more than ``overlap``.
    """

    class Kind(models.TextChoices):
        WORK = "work", _("work")
        CHECK = "check", _("check")
        QUALIFICATION = "qualification", _("qualification")

    class State(models.TextChoices):
        OPEN = "open", _("open")
        AGREED = "agreed", _("agreed")
        DISPUTED = "disputed", _("disputed")
        ADJUDICATED = "adjudicated", _("adjudicated")
        WITHDRAWN = "withdrawn", _("withdrawn")

    batch = models.ForeignKey(Batch, models.PROTECT, related_name="tasks", verbose_name=_("batch"))
    response = models.ForeignKey(Response, models.PROTECT, related_name="tasks", verbose_name=_("response"))
    kind = models.CharField(_("kind"), max_length=13, choices=Kind.choices, default=Kind.WORK)
    state = models.CharField(_("state"), max_length=11, choices=State.choices, default=State.OPEN)
    overlap = models.PositiveSmallIntegerField(_("overlap"))
    slots_taken = models.PositiveSmallIntegerField(default=0)
    priority = models.SmallIntegerField(_("priority"), default=0)
    position = models.PositiveIntegerField(_("position"), help_text=_("The order in the batch, from 0."))
    settled_at = models.DateTimeField(_("settled"), null=True, blank=True)

    class Meta:
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        constraints = [
            models.UniqueConstraint(fields=["batch", "response"], name="task_once_per_response"),
            models.CheckConstraint(
                condition=Q(slots_taken__lte=F("overlap")), name="task_slots_within_overlap"
            ),
        ]
        indexes = [
            models.Index(fields=["batch", "state", "-priority", "position"], name="task_in_order"),
            models.Index(
                fields=["batch", "-priority", "position"],
                condition=Q(state="open", slots_taken__lt=F("overlap")),
                name="task_with_free_slot",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.batch_id}/{self.position}"
