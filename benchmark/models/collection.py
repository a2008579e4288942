"""Gathering responses from an endpoint: one model's answers to one dataset, in one collection."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from annotation.models import Collection, Dataset, EvaluatedModel, Job, Prompt, Response
from annotation.models.base import Authored
from annotation.models.studies import StudyOfDatasetManager


class EndpointRun(Authored):
    """What one model is asked at an endpoint about each prompt of a dataset, for the responses of one collection.

    ``settings`` are what is sent with every request (temperature, max_tokens ..); never a key.

    Going on after a stop is another job of the same row. ``lost`` are answers that were under way when a worker
    stopped: they are asked for again, and at most those in flight. ``requests`` counts every request that was sent,
    ``seconds`` the time in which a job was at it.
    """

    model = models.ForeignKey(EvaluatedModel, models.PROTECT, related_name="+", verbose_name=_("model"))
    dataset = models.ForeignKey(Dataset, models.PROTECT, related_name="+", verbose_name=_("dataset"))
    collection = models.ForeignKey(Collection, models.PROTECT, related_name="+", verbose_name=_("collection"))
    endpoint = models.CharField(_("endpoint"), max_length=500)
    served_model = models.CharField(_("model asked for"), max_length=200)
    settings = models.JSONField(_("generation settings"), default=dict)
    concurrency = models.PositiveSmallIntegerField(_("requests at once"), default=16)
    timeout = models.FloatField(_("seconds until a request is given up"), default=120)
    job = models.ForeignKey(
        Job, models.PROTECT, null=True, blank=True, related_name="+", verbose_name=_("job")
    )
    requests = models.PositiveIntegerField(_("requests"), default=0)
    lost = models.PositiveIntegerField(_("answers lost to a stop"), default=0)
    seconds = models.FloatField(_("seconds"), default=0)
    finished_at = models.DateTimeField(_("finished"), null=True, blank=True)

    class Meta:
        abstract = True
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"{self.model}: {self.dataset} {self.collection}".strip()


class EndpointOrigin(models.Model):
    """How an answer came about. ``served_model`` and ``fingerprint`` are what the endpoint said that answered."""

    served_model = models.CharField(_("model that answered"), max_length=200, blank=True)
    fingerprint = models.CharField(_("fingerprint"), max_length=200, blank=True)
    finish_reason = models.CharField(_("why it ended"), max_length=50, blank=True)
    prompt_tokens = models.PositiveIntegerField(_("tokens of the prompt"), null=True, blank=True)
    completion_tokens = models.PositiveIntegerField(_("tokens of the response"), null=True, blank=True)
    seconds = models.FloatField(_("seconds"))
    attempts = models.PositiveSmallIntegerField(_("attempts"))
    answered_at = models.DateTimeField(_("answered"))

    class Meta:
        abstract = True


class EndpointFailure(models.Model):
    """What got no answer however often it was asked; asked again when the run goes on."""

    status = models.PositiveSmallIntegerField(_("HTTP status"), null=True, blank=True)
    error = models.TextField(_("error"))
    attempts = models.PositiveSmallIntegerField(_("attempts"))
    failed_at = models.DateTimeField(_("failed"), auto_now_add=True)

    class Meta:
        abstract = True


class CollectionRun(EndpointRun):
    """One response to each prompt.

    Of several samples each is a run with a collection and a seed of its own. ``sample`` is its number from 1 on, None
    where there is one alone, and ``first`` the run of the first sample, None in that run itself. One job fills them.
    """

    first = models.ForeignKey(
        "self",
        models.PROTECT,
        null=True,
        blank=True,
        related_name="further_samples",
        verbose_name=_("first sample"),
    )
    sample = models.PositiveSmallIntegerField(_("sample"), null=True, blank=True)

    objects = StudyOfDatasetManager()

    class Meta(EndpointRun.Meta):
        verbose_name = _("response collection")
        verbose_name_plural = _("response collections")
        constraints = [
            models.UniqueConstraint(fields=["model", "dataset", "collection"], name="collection_run_once"),
            models.UniqueConstraint(fields=["first", "sample"], name="collection_sample_once"),
        ]


class PendingRequest(models.Model):
    """A prompt that was sent and not answered yet. What a dead worker left of these is what it lost."""

    run = models.ForeignKey(CollectionRun, models.CASCADE, related_name="pending")
    prompt = models.ForeignKey(Prompt, models.CASCADE, related_name="+")

    class Meta:
        verbose_name = _("request under way")
        verbose_name_plural = _("requests under way")
        constraints = [models.UniqueConstraint(fields=["run", "prompt"], name="pending_ask_once")]

    def __str__(self) -> str:
        return f"{self.run_id}/{self.prompt_id}"


class FailedRequest(EndpointFailure):
    """A prompt without an answer."""

    run = models.ForeignKey(CollectionRun, models.CASCADE, related_name="failures")
    prompt = models.ForeignKey(Prompt, models.CASCADE, related_name="+", verbose_name=_("prompt"))

    class Meta:
        verbose_name = _("request without an answer")
        verbose_name_plural = _("requests without an answer")
        constraints = [models.UniqueConstraint(fields=["run", "prompt"], name="failed_ask_once")]

    def __str__(self) -> str:
        return f"{self.run_id}/{self.prompt_id}: {self.status}"


class CollectedResponse(EndpointOrigin):
    """How a response came about."""

    response = models.OneToOneField(
        Response, models.PROTECT, related_name="collected", verbose_name=_("response")
    )
    run = models.ForeignKey(CollectionRun, models.PROTECT, related_name="collected")

    class Meta:
        verbose_name = _("collected response")
        verbose_name_plural = _("collected responses")

    def __str__(self) -> str:
        return f"{self.run_id}/{self.response_id}"
