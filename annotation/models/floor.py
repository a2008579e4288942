"""What comes back from the floor: reasons of adjudicators, notes on a guideline's clauses."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from annotation.models.authored import Authored
from annotation.models.batches import Task
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
