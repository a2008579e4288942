"""Items whose labels are known: gold checks mixed into the work, and the qualification before it."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from annotation.models.assignments import Task
from annotation.models.base import Authored
from annotation.models.batches import Batch
from annotation.models.datasets import Response


class GoldQuestion(Authored):
    """A response whose labels are known, to be given to the annotators of a batch.

    ``labels`` are the right ones by criterion, ``explanation`` is what who is told reads. An item that is not
    ``active`` is given to nobody any more; what was given stays.
    """

    class Kind(models.TextChoices):
        CHECK = "check", _("check")
        QUALIFICATION = "qualification", _("qualification")

    batch = models.ForeignKey(
        Batch, models.PROTECT, related_name="known_items", verbose_name=_("batch"), db_index=False
    )
    kind = models.CharField(_("kind"), max_length=13, choices=Kind.choices)
    response = models.ForeignKey(Response, models.PROTECT, related_name="+", verbose_name=_("response"))
    labels = models.JSONField(_("labels"))
    explanation = models.TextField(_("explanation"), blank=True)
    position = models.PositiveIntegerField(_("position"))
    active = models.BooleanField(_("active"), default=True)

    class Meta:
        verbose_name = _("gold question")
        verbose_name_plural = _("gold questions")
        ordering = ["batch", "kind", "position"]
        constraints = [
            models.UniqueConstraint(fields=["batch", "response"], name="known_item_once_per_response")
        ]

    def __str__(self) -> str:
        return f"{self.batch_id}/{self.kind}/{self.position}"


class GoldQuestionTask(models.Model):
    """One gold question as it was given to one person: a task like any other, with one place, planned for them alone.

    ``attempt`` counts the rounds of a qualification from 1. From ``told_at`` on the person knows the right labels:
    what they submitted before counts, and cannot be corrected.
    """

    task = models.OneToOneField(
        Task, models.PROTECT, primary_key=True, related_name="known", verbose_name=_("task")
    )
    item = models.ForeignKey(
        GoldQuestion, models.PROTECT, related_name="given", verbose_name=_("gold question"), db_index=False
    )
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="known_tasks", verbose_name=_("person")
    )
    attempt = models.PositiveSmallIntegerField(_("attempt"), default=1)
    told_at = models.DateTimeField(_("told"), null=True, blank=True)

    class Meta:
        verbose_name = _("task of a gold question")
        verbose_name_plural = _("tasks of gold questions")
        constraints = [
            models.UniqueConstraint(fields=["item", "person", "attempt"], name="known_task_once_per_person")
        ]

    def __str__(self) -> str:
        return f"{self.item_id}/{self.person_id}"


class Qualification(models.Model):
    """One person's round of gold questions before a batch opens to them, and how it ended.

    ``value`` with its 95% interval is the batch's statistic over the ``n`` labels of the round; None while it is not
    over, or where it is undefined. ``waived`` by a manager: let in whatever came out.
    """

    class State(models.TextChoices):
        RUNNING = "running", _("running")
        PASSED = "passed", _("passed")
        FAILED = "failed", _("failed")
        WAIVED = "waived", _("let in by a manager")

    batch = models.ForeignKey(
        Batch, models.PROTECT, related_name="qualifications", verbose_name=_("batch"), db_index=False
    )
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="qualifications", verbose_name=_("person")
    )
    attempt = models.PositiveSmallIntegerField(_("attempt"), default=1)
    state = models.CharField(_("state"), max_length=7, choices=State.choices, default=State.RUNNING)
    n = models.PositiveIntegerField(_("labels"), default=0)
    value = models.FloatField(_("value"), null=True, blank=True)
    low = models.FloatField(_("lower bound"), null=True, blank=True)
    high = models.FloatField(_("upper bound"), null=True, blank=True)
    threshold = models.FloatField(_("threshold"), null=True, blank=True)
    started_at = models.DateTimeField(_("started"), default=timezone.now)
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("by"),
    )

    class Meta:
        verbose_name = _("qualification")
        verbose_name_plural = _("qualifications")
        constraints = [
            models.UniqueConstraint(
                fields=["batch", "person", "attempt"], name="qualification_once_per_attempt"
            ),
            models.UniqueConstraint(
                fields=["batch", "person"], condition=Q(state="running"), name="qualification_one_running"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.batch_id}/{self.person_id}/{self.attempt}"
