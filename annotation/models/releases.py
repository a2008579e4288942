from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from annotation.domain.adjudication import SettledValue
from annotation.domain.guidelines import Label
from annotation.domain.releases.canonical import number
from annotation.models.adjudication import Adjudication
from annotation.models.assignments import Task
from annotation.models.base import Authored, WithFiles
from annotation.models.batches import Batch
from annotation.models.datasets import Dataset
from annotation.models.jobs import Job
from annotation.models.studies import Shareable


class GoldLabel(models.Model):
    """The settled value of one criterion of one task, with its source."""

    class Source(models.TextChoices):
        SINGLE = "single", _("single")
        UNANIMOUS = "unanimous", _("unanimous")
        WITHIN_TOLERANCE = "within_tolerance", _("within tolerance")
        MAJORITY = "majority", _("majority")
        MEDIAN = "median", _("median")
        AGGREGATED = "aggregated", _("aggregated")
        ADJUDICATED = "adjudicated", _("adjudicated")
        EXPERT = "expert", _("expert")

    task = models.ForeignKey(
        Task, models.PROTECT, related_name="gold_labels", verbose_name=_("task"), db_index=False
    )
    criterion = models.CharField(_("criterion"), max_length=100)
    value = models.FloatField(_("value"), null=True, blank=True, help_text=_("Empty: not applicable."))
    source = models.CharField(_("source"), max_length=16, choices=Source.choices)
    created_at = models.DateTimeField(_("created"))

    class Meta:
        verbose_name = _("gold label")
        verbose_name_plural = _("gold labels")
        constraints = [models.UniqueConstraint(fields=["task", "criterion"], name="gold_label_once")]

    def __str__(self) -> str:
        return f"{self.task_id}/{self.criterion}={self.label}"

    @classmethod
    def settle(cls, task: Task, criterion: str, settled: SettledValue, now: datetime) -> Self:
        """Not written yet."""
        return cls(task=task, criterion=criterion, created_at=now, **cls.to_columns(settled))

    @staticmethod
    def to_columns(settled: SettledValue) -> dict[str, Any]:
        """The columns in which the settled value stands, which everything that writes gold labels fills."""
        value = None if isinstance(settled.value, str) else settled.value
        return {"value": value, "source": settled.source}

    @property
    def label(self) -> Label:
        """As an annotation has it."""
        return number(self.value)


class LabelPosterior(models.Model):
    """What the model of a batch's labels said of one criterion of a task when the collection ended: the probability of
    each level, by its value. Written once, and never computed again.
    """

    task = models.ForeignKey(
        Task, models.PROTECT, related_name="posteriors", verbose_name=_("task"), db_index=False
    )
    criterion = models.CharField(_("criterion"), max_length=100)
    probabilities = models.JSONField(_("probabilities"))

    class Meta:
        verbose_name = _("probabilities of the levels")
        verbose_name_plural = _("probabilities of the levels")
        constraints = [models.UniqueConstraint(fields=["task", "criterion"], name="label_posterior_once")]

    def __str__(self) -> str:
        return f"{self.task_id}/{self.criterion}"


class BatchDraw(models.Model):
    """How chance chose the responses of a batch. Never changed afterwards.

    ``strata`` are ``annotation.domain.releases.selection.DrawnStratum`` as JSON. ``imported`` says that the draw was
    made on another site, which has the whole pool.
    """

    batch = models.OneToOneField(Batch, models.CASCADE, related_name="draw", verbose_name=_("batch"))
    strata = models.JSONField(_("strata"), default=list)
    imported = models.BooleanField(_("imported"), default=False)

    class Meta:
        verbose_name = _("draw of a batch")
        verbose_name_plural = _("draws of batches")

    def __str__(self) -> str:
        return f"{self.batch_id}"


class GoldRelease(Shareable, Authored):
    """A frozen, content-hashed set of gold labels (docs/gold.md describes the canonical form that is hashed)."""

    name = models.CharField(_("name"), max_length=100)
    batches = models.ManyToManyField(Batch, related_name="releases", verbose_name=_("batches"))
    sha256 = models.CharField(max_length=64)
    labels = models.PositiveIntegerField(_("labels"))
    adjudicated = models.PositiveIntegerField(_("adjudicated"))
    manifest = models.JSONField(_("manifest"), default=dict)
    about = models.TextField(
        _("about"), blank=True, help_text=_("Why it was made and for what, as its datasheet says it.")
    )
    supersedes = models.ForeignKey(
        "self",
        models.PROTECT,
        null=True,
        blank=True,
        related_name="superseded_by",
        verbose_name=_("supersedes"),
    )

    class Meta:
        verbose_name = _("gold release")
        verbose_name_plural = _("gold releases")
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["study", "name"], name="release_name_once_per_study"),
            models.CheckConstraint(
                condition=Q(supersedes__isnull=True) | ~Q(supersedes=F("id")), name="release_not_its_own_heir"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def list_needed(self) -> Iterable[Shareable]:
        """The datasets whose responses it has labels of."""
        return Dataset._base_manager.filter(strata__batch__releases=self).distinct()


class ReleasedLabel(models.Model):
    """A gold label as it stood when the release was cut. Never changed afterwards."""

    release = models.ForeignKey(GoldRelease, models.CASCADE, related_name="items")
    gold_label = models.ForeignKey(GoldLabel, models.PROTECT, related_name="+")
    task = models.ForeignKey(Task, models.PROTECT, related_name="released_labels")
    criterion = models.CharField(_("criterion"), max_length=100)
    value = models.FloatField(_("value"), null=True, blank=True, help_text=_("Empty: not applicable."))
    source = models.CharField(_("source"), max_length=16, choices=GoldLabel.Source.choices)
    adjudication = models.ForeignKey(Adjudication, models.PROTECT, null=True, blank=True, related_name="+")
    chance = models.FloatField(
        _("chance of selection"),
        null=True,
        blank=True,
        help_text=_("With which its response came to have gold; empty where nobody knows it."),
    )

    class Meta:
        verbose_name = _("released label")
        verbose_name_plural = _("released labels")
        constraints = [
            models.UniqueConstraint(fields=["release", "task", "criterion"], name="released_label_once")
        ]

    def __str__(self) -> str:
        return f"{self.release_id}/{self.task_id}/{self.criterion}"


class Export(WithFiles, Authored):
    """A release written into files by a job, and kept until somebody discards it.

    ``options`` are those of the format (``pseudonyms``: whether people are named by pseudonyms). ``folder`` is
    below ASSAY_DATA_DIR; ``files`` are ``{"name", "bytes", "sha256"}`` each, once all of them are verified.
    """

    release = models.ForeignKey(
        GoldRelease, models.CASCADE, related_name="exports", verbose_name=_("gold release")
    )
    format = models.CharField(_("format"), max_length=20)
    options = models.JSONField(_("options"), default=dict)
    job = models.OneToOneField(
        Job, models.SET_NULL, null=True, blank=True, related_name="export", verbose_name=_("job")
    )
    folder = models.CharField(max_length=200, blank=True)
    files = models.JSONField(_("files"), default=list)
    rows = models.PositiveIntegerField(_("rows"), default=0)
    verified_at = models.DateTimeField(_("verified"), null=True, blank=True)

    class Meta:
        verbose_name = _("export")
        verbose_name_plural = _("exports")
        ordering = ["-created_at", "-id"]

    unfinished_files = ("exports/*.part",)

    def __str__(self) -> str:
        return f"{self.release_id}/{self.format}"

    def list_files(self) -> list[Path]:
        """Those that were verified."""
        return [Path(settings.ASSAY_DATA_DIR) / self.folder / file["name"] for file in self.files]
