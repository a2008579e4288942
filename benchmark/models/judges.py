"""Judges: language models, or labels from elsewhere, that say what people would."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from annotation.models import (
    Archivable,
    Collection,
    Dataset,
    EvaluatedModel,
    GoldRelease,
    Guideline,
    Job,
    OfStudy,
    Response,
)
from annotation.models.base import Authored
from annotation.models.studies import StudyOfJudgeManager


class JudgeTemplate(OfStudy, Authored):
    """How a judge is asked by guidelines of one name; a changed text is the next ``number``, none is ever changed."""

    guideline_name = models.CharField(_("guideline"), max_length=100)
    number = models.PositiveIntegerField(_("version"))
    system = models.TextField(_("system prompt"), blank=True)
    text = models.TextField(_("text"))
    note = models.CharField(_("note"), max_length=300, blank=True)

    class Meta:
        verbose_name = _("judge's template")
        verbose_name_plural = _("judges' templates")
        ordering = ["guideline_name", "-number"]
        constraints = [
            models.UniqueConstraint(
                fields=["study", "guideline_name", "number"], name="judge_template_version_of_study"
            )
        ]

    def __str__(self) -> str:
        return f"{self.guideline_name} {self.number}"


class Judge(Archivable, Authored):
    """``source`` says where imported labels come from; an endpoint's judge has an endpoint, model and template."""

    class Kind(models.TextChoices):
        ENDPOINT = "endpoint", _("endpoint")
        IMPORTED = "imported", _("imported")

    name = models.CharField(_("name"), max_length=100)
    guideline = models.ForeignKey(
        Guideline, models.PROTECT, related_name="judges", verbose_name=_("guideline")
    )
    kind = models.CharField(_("kind"), max_length=8, choices=Kind.choices)
    source = models.TextField(_("source"), blank=True)
    template = models.ForeignKey(
        JudgeTemplate,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="judges",
        verbose_name=_("template"),
    )
    endpoint = models.CharField(_("endpoint"), max_length=500, blank=True)
    served_model = models.CharField(_("model asked for"), max_length=200, blank=True)
    settings = models.JSONField(_("generation settings"), default=dict)

    class Meta:
        verbose_name = _("judge")
        verbose_name_plural = _("judges")
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["study", "name"], name="judge_name_once_per_study"),
            models.CheckConstraint(
                condition=Q(kind="imported", template__isnull=True)
                | (Q(kind="endpoint", template__isnull=False) & ~Q(endpoint="")),
                name="judge_has_its_source",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class JudgeRun(Authored):
    """A judge asked about the responses of some models to one dataset. Going on after a stop is another job."""

    judge = models.ForeignKey(Judge, models.PROTECT, related_name="judgings", verbose_name=_("judge"))
    dataset = models.ForeignKey(Dataset, models.PROTECT, related_name="+", verbose_name=_("dataset"))
    collection = models.ForeignKey(Collection, models.PROTECT, related_name="+", verbose_name=_("collection"))
    evaluated_models = models.ManyToManyField(EvaluatedModel, related_name="+", verbose_name=_("models"))
    concurrency = models.PositiveSmallIntegerField(_("requests at once"), default=16)
    timeout = models.FloatField(_("seconds until a request is given up"), default=120)
    job = models.ForeignKey(
        Job, models.PROTECT, null=True, blank=True, related_name="judgings", verbose_name=_("job")
    )
    requests = models.PositiveIntegerField(_("requests"), default=0)
    failures = models.JSONField(
        _("failures"), default=list, help_text=_("The last ones: response, status, error.")
    )

    objects = StudyOfJudgeManager()

    class Meta:
        verbose_name = _("judge run")
        verbose_name_plural = _("judge runs")
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"{self.judge}: {self.dataset}"


class JudgeLabel(models.Model):
    """What a judge says of one criterion of one response.

    ``value`` is null where what it said is no level of the scale: that counts as wrong, and is shown as such. ``said``
    is its answer, or the label as it stood in the file.
    """

    judge = models.ForeignKey(Judge, models.CASCADE, related_name="labels")
    response = models.ForeignKey(Response, models.PROTECT, related_name="judge_labels")
    criterion = models.CharField(_("criterion"), max_length=100)
    value = models.FloatField(_("value"), null=True, blank=True)
    probabilities = models.JSONField(_("probabilities"), default=dict)
    said = models.TextField(_("said"), blank=True)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("judge's label")
        verbose_name_plural = _("judges' labels")
        constraints = [
            models.UniqueConstraint(fields=["judge", "response", "criterion"], name="judge_label_once")
        ]

    def __str__(self) -> str:
        return f"{self.judge_id}/{self.response_id}/{self.criterion}={self.value}"


class JudgeComparison(models.Model):
    """Judges, scorers and people compared on a release by a job, and kept.

    ``request`` is what was asked for, ``key`` the hash of what the ``document`` rests on, read before it was built.
    """

    release = models.ForeignKey(
        GoldRelease, models.CASCADE, related_name="judge_comparisons", verbose_name=_("gold release")
    )
    request = models.JSONField(_("request"), default=dict)
    request_sha256 = models.CharField(max_length=64)
    key = models.CharField(max_length=64, blank=True)
    document = models.JSONField(_("document"), null=True)
    built_at = models.DateTimeField(_("built"), null=True)
    job = models.ForeignKey(
        Job, models.SET_NULL, null=True, blank=True, related_name="+", verbose_name=_("job")
    )

    class Meta:
        verbose_name = _("judge comparison")
        verbose_name_plural = _("judge comparisons")
        constraints = [
            models.UniqueConstraint(fields=["release", "request_sha256"], name="judge_comparison_once")
        ]

    def __str__(self) -> str:
        return f"{self.release_id}/{self.request_sha256[:8]}"
