from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from annotation.models.authored import Authored
from annotation.models.batches import Batch, Task
from annotation.models.work import Adjudication, GoldLabel


class GoldRelease(Authored):
    """A frozen, content-hashed set of gold labels (docs/gold.md describes the canonical form that is hashed)."""

    name = models.CharField(_("name"), max_length=100, unique=True)
    batches = models.ManyToManyField(Batch, related_name="releases", verbose_name=_("batches"))
    sha256 = models.CharField(max_length=64)
    labels = models.PositiveIntegerField(_("labels"))
    adjudicated = models.PositiveIntegerField(_("adjudicated"))
    manifest = models.JSONField(_("manifest"), default=dict)

    class Meta:
        verbose_name = _("gold release")
        verbose_name_plural = _("gold releases")
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return self.name


class ReleasedLabel(models.Model):
    """A gold label as it stood when the release was cut. Never changed afterwards."""

    release = models.ForeignKey(GoldRelease, models.CASCADE, related_name="items")
    gold_label = models.ForeignKey(GoldLabel, models.PROTECT, related_name="+")
    task = models.ForeignKey(Task, models.PROTECT, related_name="released_labels")
    criterion = models.CharField(_("criterion"), max_length=100)
    value = models.FloatField(_("value"))
    source = models.CharField(_("source"), max_length=16, choices=GoldLabel.Source.choices)
    adjudication = models.ForeignKey(Adjudication, models.PROTECT, null=True, blank=True, related_name="+")

    class Meta:
        verbose_name = _("released label")
        verbose_name_plural = _("released labels")
        constraints = [
            models.UniqueConstraint(fields=["release", "task", "criterion"], name="released_label_once")
        ]

    def __str__(self) -> str:
        return f"{self.release_id}/{self.task_id}/{self.criterion}"
