from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from annotation.models.batches import Batch
from annotation.models.studies import Study
from annotation.models.webhooks.endpoints import WebhookEndpoint


class WebhookDelivery(models.Model):
    """An event for one endpoint: written in the transaction of the event, and sent by a job until it is accepted.

    ``message_id`` is the same for all endpoints of the event, over all attempts and when it is sent again. ``tries``
    are those of the schedule under way, ``attempts`` all that there were: by them a worker claims the next one.
    What is sent is built of ``type``, ``target`` and ``occurred_at``, which never change.
    """

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting")
        ACCEPTED = "accepted", _("accepted")
        FAILED = "failed", _("failed")

    endpoint = models.ForeignKey(
        WebhookEndpoint,
        models.CASCADE,
        related_name="deliveries",
        verbose_name=_("webhook"),
        db_index=False,
    )
    message_id = models.CharField(_("id"), max_length=40)
    type = models.CharField(_("event"), max_length=30)
    target = models.CharField(_("target"), max_length=200)
    study = models.ForeignKey(
        Study, models.PROTECT, null=True, blank=True, related_name="+", verbose_name=_("study")
    )
    # Of what tells how labels compare: it waits while the batch is sealed for the endpoint's owner.
    batch = models.ForeignKey(
        Batch, models.CASCADE, null=True, blank=True, related_name="+", verbose_name=_("batch")
    )
    occurred_at = models.DateTimeField(_("time"))
    state = models.CharField(_("state"), max_length=8, choices=State.choices, default=State.WAITING)
    tries = models.PositiveSmallIntegerField(_("tries"), default=0)
    attempts = models.PositiveIntegerField(_("attempts"), default=0)
    next_attempt_at = models.DateTimeField(_("next attempt"), null=True, blank=True)
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)

    class Meta:
        verbose_name = _("delivery of a webhook")
        verbose_name_plural = _("deliveries of webhooks")
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["endpoint", "message_id"], name="webhook_delivery_once")
        ]
        indexes = [
            models.Index(
                fields=["endpoint", "next_attempt_at"],
                condition=Q(state="waiting"),
                name="webhook_delivery_waiting",
            ),
            models.Index(fields=["endpoint", "-id"], name="webhook_delivery_history"),
            models.Index(fields=["ended_at"], name="webhook_delivery_ended"),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.message_id}"


class WebhookAttempt(models.Model):
    """One request to the receiver. It is written before the request is sent: where its process was killed before the
    answer was written down, ``seconds`` stays null.
    """

    delivery = models.ForeignKey(
        WebhookDelivery,
        models.CASCADE,
        related_name="attempt_rows",
        verbose_name=_("delivery"),
        db_index=False,
    )
    number = models.PositiveIntegerField(_("number"))
    at = models.DateTimeField(_("time"))
    seconds = models.FloatField(_("seconds"), null=True, blank=True)
    status = models.PositiveSmallIntegerField(_("status"), null=True, blank=True)
    trouble = models.CharField(_("trouble"), max_length=12, blank=True)
    detail = models.CharField(_("detail"), max_length=200, blank=True)

    class Meta:
        verbose_name = _("attempt of a delivery")
        verbose_name_plural = _("attempts of deliveries")
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["delivery", "number"], name="webhook_attempt_number")]

    def __str__(self) -> str:
        return f"{self.delivery_id}/{self.number}"

    @property
    def is_accepted(self) -> bool:
        return self.seconds is not None and not self.trouble
