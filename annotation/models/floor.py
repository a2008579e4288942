"""What comes back from the floor: reasons of adjudicators, notes on a guideline's clauses, second readings."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from annotation.models.authored import Authored
from annotation.models.batches import Batch, Task
from annotation.models.channels import channel_field
from annotation.models.guidelines import Guideline


class DisputeReason(models.Model):
    """Why two annotators differed; the managers edit the list. One that was used is retired, never deleted."""

    key = models.SlugField(_("key"), max_length=50, unique=True)
    words = models.JSONField(_("words"), help_text=_("By language."))
    makes_note = models.BooleanField(
        _("makes a note"),
        default=False,
        help_text=_("A decision for this reason leaves a note on the clause."),
    )
    position = models.PositiveSmallIntegerField(_("position"), default=0)
    active = models.BooleanField(_("active"), default=True)

    class Meta:
        verbose_name = _("reason for a dispute")
        verbose_name_plural = _("reasons for disputes")
        ordering = ["position", "id"]

    def __str__(self) -> str:
        return self.key


class Note(Authored):
    """A remark on one clause of a guideline version, for the next one: a criterion, a level of it, or (empty) all.

    It tells of labels: whoever must be blind to the batch of its task must not read it before the batch closes.
    """

    class Source(models.TextChoices):
        FLAG = "flag", _("flag of an annotator")
        ADJUDICATION = "adjudication", _("adjudication")
        MANAGER = "manager", _("manager")

    guideline = models.ForeignKey(
        Guideline, models.PROTECT, related_name="notes", verbose_name=_("guideline")
    )
    criterion = models.CharField(_("criterion"), max_length=100, blank=True)
    level = models.FloatField(_("level"), null=True, blank=True)
    text = models.TextField(_("text"), blank=True)
    source = models.CharField(_("source"), max_length=12, choices=Source.choices)
    task = models.ForeignKey(
        Task, models.PROTECT, null=True, blank=True, related_name="notes", verbose_name=_("task")
    )
    resolved_at = models.DateTimeField(_("resolved"), null=True, blank=True)
    resolved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, blank=True, related_name="+"
    )

    class Meta:
        verbose_name = _("note")
        verbose_name_plural = _("notes")
        ordering = ["-id"]
        constraints = [
            # A flag that is sent again, in a correction say, is the same note.
            models.UniqueConstraint(
                fields=["task", "created_by", "source", "criterion"],
                condition=models.Q(task__isnull=False),
                name="note_once_per_task_and_author",
            )
        ]

    def __str__(self) -> str:
        return f"{self.guideline_id}/{self.criterion}"


class SecondReading(models.Model):
    """A decided task that comes back to its adjudicator, unmarked, to measure their consistency.

    ``id`` stands in every address where an assignment's would, and tells nothing. It never changes gold.
    """

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting")
        CLAIMED = "claimed", _("claimed")
        SUBMITTED = "submitted", _("submitted")
        DROPPED = "dropped", _("dropped")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    batch = models.ForeignKey(
        Batch, models.PROTECT, related_name="second_readings", verbose_name=_("batch"), db_index=False
    )
    task = models.OneToOneField(Task, models.PROTECT, related_name="second_reading", verbose_name=_("task"))
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        related_name="second_readings",
        verbose_name=_("person"),
        db_index=False,
    )
    state = models.CharField(_("state"), max_length=9, choices=State.choices, default=State.WAITING)
    due_at = models.DateTimeField(_("due"))
    claimed_at = models.DateTimeField(_("claimed"), null=True, blank=True)
    lease_expires = models.DateTimeField(_("lease expires"), null=True, blank=True)
    verdict = models.JSONField(_("verdict"), null=True, blank=True)
    labels = models.JSONField(_("labels"), null=True, blank=True)
    reason = models.ForeignKey(
        DisputeReason, models.PROTECT, null=True, blank=True, related_name="+", verbose_name=_("reason")
    )
    rationale = models.TextField(_("rationale"), blank=True)
    seconds = models.FloatField(_("seconds"), null=True, blank=True)
    receipt = models.UUIDField(_("receipt"), default=uuid.uuid4, unique=True, editable=False)
    idempotency_key = models.CharField(max_length=200, blank=True)
    body_sha256 = models.CharField(max_length=64, blank=True)
    channel = channel_field()
    submitted_at = models.DateTimeField(_("submitted"), null=True, blank=True)

    class Meta:
        verbose_name = _("second reading")
        verbose_name_plural = _("second readings")
        indexes = [models.Index(fields=["person", "batch", "state", "due_at"], name="second_reading_queue")]

    def __str__(self) -> str:
        return str(self.id)
