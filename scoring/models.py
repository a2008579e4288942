"""The registry of scorers and what they predicted. No torch, no scikit-learn here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from annotation.models import EvaluatedModel, GoldRelease, Guideline, Job, OfStudy, Response, Shareable
from annotation.models.base import Authored, WithFiles
from scoring.domain.spec import EMBEDDED, FORMER, Spec


class Scorer(WithFiles, Shareable, Authored):
    """A trained model that predicts gold labels, with its card. ``ready_at`` is null until it is registered."""

    name = models.CharField(_("name"), max_length=100)
    guideline = models.ForeignKey(
        Guideline, models.PROTECT, related_name="scorers", verbose_name=_("guideline")
    )
    release = models.ForeignKey(
        GoldRelease, models.PROTECT, related_name="scorers", verbose_name=_("gold release")
    )
    backbone = models.CharField(_("backbone"), max_length=300)
    config = models.JSONField(_("configuration"), default=dict)
    seed = models.PositiveIntegerField(_("seed"), default=0)
    base = models.ForeignKey(
        "self",
        models.PROTECT,
        null=True,
        blank=True,
        related_name="adaptations",
        verbose_name=_("adapted from"),
    )
    adapted_to = models.ForeignKey(
        EvaluatedModel,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("adapted to"),
    )
    weights_sha256 = models.CharField(max_length=64, blank=True)
    evaluation = models.JSONField(_("evaluation"), default=dict)
    card = models.JSONField(_("card"), default=dict)
    code_version = models.CharField(_("code version"), max_length=100, blank=True)
    job = models.OneToOneField(
        Job, models.PROTECT, null=True, blank=True, related_name="scorer", verbose_name=_("job")
    )
    ready_at = models.DateTimeField(_("ready"), null=True, blank=True)

    class Meta:
        verbose_name = _("scorer")
        verbose_name_plural = _("scorers")
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["study", "name"], name="scorer_name_once_per_study"),
        ]

    def __str__(self) -> str:
        return self.name

    unfinished_files = ("scorers/*/work", "scorers/*/part-*")

    def list_files(self) -> list[Path]:
        return [self.weights_folder] if self.is_ready else []

    def list_names(self, path: str) -> list[str]:
        """By the hash, so that a worker that lost the job replaces no registered weights; as the data folder has them
        where a backup was restored.
        """
        return [self.stored_name, path]

    @property
    def stored_name(self) -> str:
        """Where a bucket has the weights with this hash."""
        return f"scorers/{self.pk}/{self.weights_sha256}"

    def list_needed(self) -> Iterable[Shareable]:
        """The release that it learned from, by which it is judged."""
        return [self.release]

    @property
    def spec(self) -> Spec:
        """What it was made of; a scorer of the first version kept its backbone's name alone."""
        spec_json = self.config.get("spec")
        if spec_json is not None:
            return Spec.from_json(spec_json)
        return Spec(EMBEDDED) if self.backbone == FORMER else Spec("encoder", self.backbone, "full")

    @property
    def is_ready(self) -> bool:
        return self.ready_at is not None

    @property
    def state(self) -> str:
        """``ready``, or what its job is: queued, running, failed or cancelled."""
        if self.is_ready:
            return "ready"
        return self.job.state if self.job is not None else str(Job.State.FAILED)

    @property
    def is_in_training(self) -> bool:
        return not self.is_ready and self.job is not None and not self.job.is_over

    @property
    def folder(self) -> Path:
        """Where its files lie; by number, because a name may hold anything."""
        return Path(settings.ASSAY_DATA_DIR) / "scorers" / str(self.pk)

    @property
    def weights_folder(self) -> Path:
        """Weights, card and out-of-fold predictions: what ``weights_sha256`` is the hash of."""
        return self.folder / "weights"

    @property
    def work_folder(self) -> Path:
        """Folds and checkpoints of a training that is not over."""
        return self.folder / "work"


class Prediction(models.Model):
    """What a scorer says of one criterion of one response.

    ``fold`` is the fold that the predicting model had not seen, or null where the whole content (prompt and
    response) is no part of the scorer's release. There is no third kind: an in-sample prediction is never stored.
    """

    scorer = models.ForeignKey(Scorer, models.CASCADE, related_name="predictions", verbose_name=_("scorer"))
    response = models.ForeignKey(
        Response, models.PROTECT, related_name="predictions", verbose_name=_("response")
    )
    criterion = models.CharField(_("criterion"), max_length=100)
    value = models.FloatField(_("value"))
    probabilities = models.JSONField(_("probabilities"))
    fold = models.PositiveSmallIntegerField(_("fold"), null=True, blank=True)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("prediction")
        verbose_name_plural = _("predictions")
        constraints = [
            models.UniqueConstraint(fields=["scorer", "response", "criterion"], name="prediction_once"),
            models.CheckConstraint(condition=Q(fold__isnull=True) | Q(fold__gte=0), name="prediction_fold"),
        ]

    def __str__(self) -> str:
        return f"{self.scorer_id}/{self.response_id}/{self.criterion}={self.value:g}"


class GateAttempt(OfStudy):
    """The place of a verdict among those of its study and guideline: of two at one moment one comes after the other.

    ``number`` counts from 1 for each guideline of a study, first scorers included; a verdict says itself how many of
    those before it rest on labels of the same datasets. Verdicts of versions without this table have none.
    """

    guideline_name = models.CharField(_("guideline"), max_length=100)
    number = models.PositiveIntegerField(_("number"))
    job = models.OneToOneField(Job, models.PROTECT, related_name="gate_attempt", verbose_name=_("job"))

    class Meta:
        verbose_name = _("gate attempt")
        verbose_name_plural = _("gate attempts")
        ordering = ["guideline_name", "number"]
        constraints = [
            models.UniqueConstraint(
                fields=["study", "guideline_name", "number"], name="gate_attempt_in_order_of_study"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.guideline_name}/{self.number}"


class Promotion(OfStudy, Authored):
    """Which scorer became a study's current one for a guideline, and what the gate had found: the last row counts.

    The versions of a guideline share it, as their releases do. ``number`` counts from 1 for each guideline of a study,
    so that of two promotions at one moment the later is refused. Nothing is deleted: going back is another row.
    ``reason`` is what a researcher said where the gate had not shown that the scorer is not worse; blank of any other
    row.
    """

    class Kind(models.TextChoices):
        PASSED = "passed", _("passed the gate")
        REASON = "reason", _("promoted with a reason")
        BACK = "back", _("went back")

    guideline_name = models.CharField(_("guideline"), max_length=100)
    number = models.PositiveIntegerField(_("number"))
    kind = models.CharField(_("kind"), max_length=6, choices=Kind.choices)
    scorer = models.ForeignKey(Scorer, models.PROTECT, related_name="promotions", verbose_name=_("scorer"))
    replaced = models.ForeignKey(
        Scorer, models.PROTECT, null=True, blank=True, related_name="+", verbose_name=_("replaced")
    )
    verdict = models.JSONField(_("verdict"), default=dict)
    reason = models.TextField(_("reason"), blank=True, default="", db_default="")

    class Meta:
        verbose_name = _("promotion")
        verbose_name_plural = _("promotions")
        ordering = ["guideline_name", "-number"]
        constraints = [
            models.UniqueConstraint(
                fields=["study", "guideline_name", "number"], name="promotion_in_order_of_study"
            ),
            models.CheckConstraint(
                condition=Q(replaced__isnull=True) | ~Q(replaced=models.F("scorer")), name="promotion_changes"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.guideline_name} {self.number}: {self.scorer}"


class RegressionCase(OfStudy, Authored):
    """A response that no scorer of the study and guideline may call harmless: one that does is not promoted.

    ``refused`` are the values of the criterion that it may not be given.
    """

    guideline_name = models.CharField(_("guideline"), max_length=100)
    response = models.ForeignKey(Response, models.PROTECT, related_name="+", verbose_name=_("response"))
    criterion = models.CharField(_("criterion"), max_length=100)
    refused = models.JSONField(_("refused values"))
    reason = models.TextField(_("reason"), blank=True)
    removed_at = models.DateTimeField(_("removed"), null=True, blank=True)

    class Meta:
        verbose_name = _("regression case")
        verbose_name_plural = _("regression cases")
        ordering = ["guideline_name", "pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["study", "guideline_name", "response", "criterion"],
                condition=Q(removed_at__isnull=True),
                name="regression_case_once_per_study",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.guideline_name}: {self.response_id}/{self.criterion}"


class PredictionRequest(Authored):
    """Texts that a program wants predicted, and what a worker said of them.

    ``items`` is ``[{"prompt", "response", "dimension"}, ..]``; ``results`` has an entry for each, in the same order.
    """

    scorer = models.ForeignKey(Scorer, models.PROTECT, related_name="requests", verbose_name=_("scorer"))
    job = models.OneToOneField(Job, models.PROTECT, related_name="prediction_request", verbose_name=_("job"))
    items = models.JSONField(_("items"))
    results = models.JSONField(_("results"), default=list)

    class Meta:
        verbose_name = _("prediction request")
        verbose_name_plural = _("prediction requests")
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.scorer_id}/{self.pk}"
