"""Benchmark runs: one scorer over the responses of some models on a dataset.

What is shown beside and outside of a board: links for outsiders, published tables, plans of what to label next.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from annotation.models import (
    Archivable,
    Batch,
    Collection,
    Dataset,
    EvaluatedModel,
    GoldRelease,
    Job,
    ReleasedLabel,
    Response,
)
from annotation.models.base import Authored
from annotation.models.studies import StudyOfScorerManager
from scoring.models import Prediction, Scorer


class Retraining(Authored):
    """One press of the button: a scorer from a release, and the guideline's runs again with it."""

    release = models.ForeignKey(
        GoldRelease, models.PROTECT, related_name="retrainings", verbose_name=_("gold release")
    )
    scorer = models.OneToOneField(Scorer, models.PROTECT, related_name="retraining", verbose_name=_("scorer"))

    objects = StudyOfScorerManager()

    class Meta:
        verbose_name = _("retraining")
        verbose_name_plural = _("retrainings")
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.release} -> {self.scorer}"


class BenchmarkRun(Archivable, Authored):
    """``replaces`` is the run that this one repeats with a newer scorer; the old one stays as it was."""

    name = models.CharField(_("name"), max_length=150)
    scorer = models.ForeignKey(Scorer, models.PROTECT, related_name="runs", verbose_name=_("scorer"))
    dataset = models.ForeignKey(Dataset, models.PROTECT, related_name="runs", verbose_name=_("dataset"))
    collection = models.ForeignKey(
        Collection, models.PROTECT, related_name="runs", verbose_name=_("collection")
    )
    evaluated_models = models.ManyToManyField(EvaluatedModel, related_name="runs", verbose_name=_("models"))
    replaces = models.ForeignKey(
        "self", models.PROTECT, null=True, blank=True, related_name="replaced_by", verbose_name=_("replaces")
    )
    retraining = models.ForeignKey(
        Retraining, models.PROTECT, null=True, blank=True, related_name="runs", verbose_name=_("retraining")
    )
    job = models.OneToOneField(
        Job, models.PROTECT, null=True, blank=True, related_name="benchmark_run", verbose_name=_("job")
    )
    code_version = models.CharField(_("code version"), max_length=100, blank=True)
    weights_sha256 = models.CharField(max_length=64, blank=True)
    board = models.JSONField(_("board"), default=dict)
    cost = models.JSONField(
        _("cost"), default=dict, help_text=_("What scoring took: responses, seconds and processor seconds.")
    )
    finished_at = models.DateTimeField(_("finished"), null=True, blank=True)

    class Meta:
        verbose_name = _("benchmark run")
        verbose_name_plural = _("benchmark runs")
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["study", "name"], name="run_name_once_per_study"),
        ]

    def __str__(self) -> str:
        return self.name


class BoardPart(models.Model):
    """What a finished run has beside its board, by name: groups, pairs, estimates. Read only where it is shown."""

    run = models.ForeignKey(BenchmarkRun, models.CASCADE, related_name="parts")
    name = models.CharField(_("name"), max_length=50)
    content = models.JSONField(_("content"))

    class Meta:
        verbose_name = _("part of a board")
        verbose_name_plural = _("parts of boards")
        constraints = [models.UniqueConstraint(fields=["run", "name"], name="board_part_once")]

    def __str__(self) -> str:
        return f"{self.run_id}/{self.name}"


class RunItem(models.Model):
    """One value that a leaderboard cell counts, and where it came from.

    A gold item names the prediction of its response too, where there is one: what the scorer would have said.
    """

    class Basis(models.TextChoices):
        GOLD = "gold", _("gold")
        OUT_OF_FOLD = "out_of_fold", _("out of fold")
        UNSEEN = "unseen", _("unseen")

    run = models.ForeignKey(BenchmarkRun, models.CASCADE, related_name="items")
    response = models.ForeignKey(Response, models.PROTECT, related_name="+")
    criterion = models.CharField(_("criterion"), max_length=100)
    value = models.FloatField(_("value"))
    basis = models.CharField(_("basis"), max_length=11, choices=Basis.choices)
    released_label = models.ForeignKey(ReleasedLabel, models.PROTECT, null=True, blank=True, related_name="+")
    prediction = models.ForeignKey(Prediction, models.PROTECT, null=True, blank=True, related_name="+")

    class Meta:
        verbose_name = _("run item")
        verbose_name_plural = _("run items")
        constraints = [
            models.UniqueConstraint(fields=["run", "response", "criterion"], name="run_item_once"),
            models.CheckConstraint(
                condition=Q(basis="gold", released_label__isnull=False)
                | (~Q(basis="gold") & Q(prediction__isnull=False)),
                name="run_item_has_its_basis",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.run_id}/{self.response_id}/{self.criterion}"


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


class PublishedTable(Archivable, Authored):
    """Numbers that others published by a guideline: reference rows, never measured here.

    ``rows`` are ``[{"model", "dimensions": {scope: {metric: value}}, "overall": {metric: value}, "n": {scope: n}}]``,
    rates as fractions and scores as published; an ``n`` gives a rate its interval. A table of the prompts of one
    ``language`` stands beside that group of them, any other beside the board. A table of before tables had a dataset
    may have none, and then stands on no board.
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
    language = models.CharField(
        _("language"),
        max_length=20,
        blank=True,
        default="",
        db_default="",
        help_text=_("Of whose prompts alone its numbers are; empty: of all."),
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
                fields=["study", "guideline_name", "name"],
                condition=models.Q(removed_at__isnull=True),
                name="published_table_once_per_study",
            )
        ]

    def __str__(self) -> str:
        return f"{self.guideline_name}: {self.name}"


class LabelPlan(Authored):
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
        verbose_name = _("label plan")
        verbose_name_plural = _("label plans")
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"{self.run_id} -> {self.batch_id}"
