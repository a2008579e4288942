from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from annotation.core.error_messages import error_from_json
from annotation.models.base import Authored
from annotation.models.studies import Study


class Job(Authored):
    """Long work as a row. A message only says that there is a row to claim (docs/decisions/jobs-are-rows.md).

    ``study`` is what the work is limited to; of the site's own jobs it is null.

    ``history`` is what the live page draws: ``[{"at": fraction, "stage": .., "name": .., "value": ..}, ..]``.
    """

    class State(models.TextChoices):
        QUEUED = "queued", _("queued")
        RUNNING = "running", _("running")
        DONE = "done", _("done")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")

    study = models.ForeignKey(
        Study, models.PROTECT, null=True, blank=True, related_name="+", verbose_name=_("study")
    )
    kind = models.CharField(_("kind"), max_length=50)
    title = models.CharField(_("title"), max_length=200, blank=True)
    payload = models.JSONField(_("payload"), default=dict)
    state = models.CharField(_("state"), max_length=9, choices=State.choices, default=State.QUEUED)
    depends_on = models.ForeignKey("self", models.PROTECT, null=True, blank=True, related_name="dependents")
    attempt = models.PositiveSmallIntegerField(_("attempt"), default=0)
    worker = models.CharField(_("worker"), max_length=100, blank=True)
    deaths = models.PositiveSmallIntegerField(
        _("deaths"),
        default=0,
        db_default=0,
        help_text=_("Workers that died over it in a row and got no further."),
    )
    heartbeat = models.DateTimeField(_("heartbeat"), null=True, blank=True)
    suspected_at = models.DateTimeField(_("suspected to be dead since"), null=True, blank=True)
    is_stopping = models.BooleanField(_("the worker is stopping"), default=False, db_default=False)
    progress = models.FloatField(_("progress"), default=0, help_text=_("From 0 to 1."))
    furthest = models.FloatField(
        _("furthest"), default=0, db_default=0, help_text=_("The progress that an earlier worker came to.")
    )
    stage = models.CharField(_("stage"), max_length=200, blank=True)
    history = models.JSONField(_("history"), default=list)
    result = models.JSONField(_("result"), default=dict)
    error = models.TextField(_("error"), blank=True)
    log = models.TextField(
        _("log"), blank=True, default="", db_default="", help_text=_("What was logged while it failed.")
    )
    trace_parent = models.CharField(
        _("trace"), max_length=55, blank=True, default="", db_default="", help_text=_("Of what queued it.")
    )
    cancel_requested = models.BooleanField(_("cancel requested"), default=False)
    started_at = models.DateTimeField(_("started"), null=True, blank=True)
    finished_at = models.DateTimeField(_("finished"), null=True, blank=True)

    class Meta:
        verbose_name = _("job")
        verbose_name_plural = _("jobs")
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["heartbeat"], condition=Q(state="running"), name="job_running"),
            models.Index(fields=["created_at"], condition=Q(state="queued"), name="job_queued"),
            # Of most kinds there are few beside the predictions.
            models.Index(fields=["kind"], name="job_kind"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"

    @property
    def error_text(self) -> str:
        """Why it failed, in the reader's language; ``error`` has it in English."""
        stored = self.result.get("error") if self.error else None
        return error_from_json(stored) if stored else self.error

    @property
    def is_over(self) -> bool:
        return self.state in {self.State.DONE, self.State.FAILED, self.State.CANCELLED}
