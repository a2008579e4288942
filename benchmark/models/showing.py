"""What is shown beside and outside of a board: links for outsiders, published tables, plans of what to label next."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from annotation.models import Batch, Dataset
from annotation.models.authored import Authored
from benchmark.models.runs import BenchmarkRun


class ShareLink(Authored):
    """A read-only page of a run for whoever has its address. Only the address's hash is kept, so no row opens it."""

    run = models.ForeignKey(BenchmarkRun, models.CASCADE, related_name="share_links")
    token_sha256 = models.CharField(max_length=64, unique=True)
    note = models.CharField(_("for whom"), max_length=200, blank=True)
    with_published = models.BooleanField(_("with published tables"), default=False)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True)
    last_opened_at = models.DateTimeField(_("last opened"), null=True, blank=True)

    class Meta:
        verbose_name = _("link for outsiders")
        verbose_name_plural = _("links for outsiders")
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"{self.run_id}/{self.pk}"


class PublishedTable(Authored):
    """Numbers that others published by a guideline: reference rows, never measured here.

    ``rows`` are ``[{"model", "dimensions": {scope: {metric: value}}, "overall": {metric: value}, "n": {scope: n}}]``,
    rates as fractions and scores as published; an ``n`` gives a rate its interval. A table of before tables had a
    dataset may have none, and then stands on no board.
    """

    guideline_name = models.CharField(_("guideline"), max_length=100)
    dataset = models.ForeignKey(
        Dataset,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="published_tables",
        verbose_name=_("dataset"),
        help_text=_("Beside whose boards it stands; beside none without it."),
    )
    name = models.CharField(_("name"), max_length=150)
    source = models.TextField(_("source"))
    url = models.URLField(_("address"), max_length=500, blank=True)
    rows = models.JSONField(_("rows"))
    removed_at = models.DateTimeField(_("removed"), null=True, blank=True)

    class Meta:
        verbose_name = _("published table")
        verbose_name_plural = _("published tables")
        ordering = ["guideline_name", "name"]
        constraints = [
            models.UniqueConstraint(
                fields=["guideline_name", "name"],
                condition=models.Q(removed_at__isnull=True),
                name="published_table_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.guideline_name}: {self.name}"


class LabellingPlan(Authored):
    """What to label next for a run, drawn at random within strata, and the batch that was made of it.

    ``strata`` are ``[{"model", "scope", "low", "high", "population", "labelled", "drawn"}, ..]``: responses whose
    predicted probability of its level lies between low and high.
    """

    run = models.ForeignKey(BenchmarkRun, models.PROTECT, related_name="labelling_plans")
    batch = models.OneToOneField(Batch, models.PROTECT, related_name="labelling_plan")
    goal = models.JSONField(_("goal"), default=dict)
    strata = models.JSONField(_("strata"), default=list)
    seed = models.PositiveIntegerField(_("seed"), default=0)

    class Meta:
        verbose_name = _("plan of what to label")
        verbose_name_plural = _("plans of what to label")
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"{self.run_id} -> {self.batch_id}"
