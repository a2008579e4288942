"""What comes back from the floor: reasons of adjudicators, notes on a guideline's clauses."""

from __future__ import annotations

import uuid

from django.db import models
from django.utils.translation import gettext_lazy as _

from annotation.models.assignments import Assignment, Task
from annotation.models.base import channel_field


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


class Verdict(models.Model):
    """What an adjudicator thought of a dispute before they saw the labels of others. Written once."""

    assignment = models.OneToOneField(
        Assignment, models.PROTECT, primary_key=True, related_name="verdict", verbose_name=_("assignment")
    )
    labels = models.JSONField(_("labels"))
    rationale = models.TextField(_("rationale"), blank=True)
    seconds = models.FloatField(_("seconds"), null=True, blank=True)
    channel = channel_field()
    created_at = models.DateTimeField(_("created"))

    class Meta:
        verbose_name = _("verdict")
        verbose_name_plural = _("verdicts")

    def __str__(self) -> str:
        return f"{self.assignment_id}"


class Adjudication(models.Model):
    """The third person's decision on the disputed criteria of a task."""

    task = models.OneToOneField(Task, models.PROTECT, related_name="adjudication", verbose_name=_("task"))
    assignment = models.OneToOneField(Assignment, models.PROTECT, related_name="adjudication")
    labels = models.JSONField(_("labels"))
    reason = models.ForeignKey(
        DisputeReason,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="adjudications",
        verbose_name=_("reason"),
        help_text=_("Why the annotators differed; null for decisions made elsewhere."),
    )
    rationale = models.TextField(_("rationale"), blank=True)
    seconds = models.FloatField(_("seconds"), null=True, blank=True)
    receipt = models.UUIDField(_("receipt"), default=uuid.uuid4, unique=True, editable=False)
    idempotency_key = models.CharField(max_length=200)
    body_sha256 = models.CharField(max_length=64)
    channel = channel_field()
    created_at = models.DateTimeField(_("created"))

    class Meta:
        verbose_name = _("adjudication")
        verbose_name_plural = _("adjudications")

    def __str__(self) -> str:
        return str(self.receipt)
