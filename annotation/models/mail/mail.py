from __future__ import annotations

from uuid import uuid4

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from annotation.models.jobs import Job
from annotation.models.people import Invitation
from annotation.models.studies import Study

MAX_ADDRESS_LENGTH = 254


class MailProfile(models.Model):
    """The address of a person and what is sent there. ``address`` is one that the person has confirmed, or empty;
    ``address_key`` is the same for addresses that differ in case alone.

    ``pending_address`` waits to be confirmed until ``pending_until``, by a link of whose secret the hash stands here.
    """

    class Digest(models.TextChoices):
        OFF = "off", pgettext_lazy("digest", "none")
        DAILY = "daily", pgettext_lazy("digest", "every day")
        WEEKLY = "weekly", pgettext_lazy("digest", "every week, on Monday")

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="mail_profile", verbose_name=_("person")
    )
    address = models.CharField(_("address"), max_length=MAX_ADDRESS_LENGTH, blank=True)
    address_key = models.CharField(max_length=MAX_ADDRESS_LENGTH, blank=True, editable=False)
    confirmed_at = models.DateTimeField(_("confirmed"), null=True, blank=True)
    pending_address = models.CharField(_("new address"), max_length=MAX_ADDRESS_LENGTH, blank=True)
    pending_sha256 = models.CharField(max_length=64, blank=True, editable=False)
    pending_until = models.DateTimeField(_("to be confirmed until"), null=True, blank=True)
    language = models.CharField(_("language"), max_length=7, choices=settings.LANGUAGES)
    alarms = models.BooleanField(_("alarms"), default=True)
    failed_jobs = models.BooleanField(_("failed jobs"), default=True)
    due_dates = models.BooleanField(_("due dates"), default=True)
    digest = models.CharField(_("digest"), max_length=6, choices=Digest, default=Digest.OFF)

    class Meta:
        verbose_name = _("mail profile")
        verbose_name_plural = _("mail profiles")
        indexes = [
            models.Index(fields=["address_key"], condition=~Q(address_key=""), name="mail_address"),
            models.Index(fields=["digest"], condition=~Q(digest="off"), name="mail_digest"),
        ]

    def __str__(self) -> str:
        return f"{self.person_id}"


class OutgoingMail(models.Model):
    """A mail that is to be sent, written in the transaction of what causes it. Its words are found when it is sent.

    ``address`` is that of who has no profile; else it is the profile's of the moment when it is sent. ``key`` is the
    same for what must be sent once, such as a digest of a day. While it is being sent, ``job`` and ``job_attempt`` say
    by whom: where that attempt of that job runs no more, the mail is free again.
    """

    class State(models.TextChoices):
        WAITING = "waiting", pgettext_lazy("mail", "waiting")
        SENDING = "sending", pgettext_lazy("mail", "being sent")
        SENT = "sent", pgettext_lazy("mail", "sent")
        FAILED = "failed", pgettext_lazy("mail", "not sent")
        DROPPED = "dropped", pgettext_lazy("mail", "not needed any more")

    uuid = models.UUIDField(unique=True, default=uuid4, editable=False)
    kind = models.CharField(_("kind"), max_length=20)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="mails",
        verbose_name=_("person"),
    )
    address = models.CharField(_("address"), max_length=MAX_ADDRESS_LENGTH, blank=True)
    language = models.CharField(_("language"), max_length=7, blank=True)
    study = models.ForeignKey(
        Study, models.SET_NULL, null=True, blank=True, related_name="+", verbose_name=_("study")
    )
    invitation = models.ForeignKey(
        Invitation,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="mails",
        verbose_name=_("invitation"),
    )
    payload = models.JSONField(_("payload"), default=dict)
    key = models.CharField(max_length=150, null=True, blank=True, unique=True, editable=False)
    state = models.CharField(_("state"), max_length=8, choices=State, default=State.WAITING)
    created_at = models.DateTimeField(_("created"))
    due_at = models.DateTimeField(_("next attempt"))
    expires_at = models.DateTimeField(_("given up after"))
    attempts = models.PositiveSmallIntegerField(_("attempts"), default=0)
    job = models.ForeignKey(Job, models.SET_NULL, null=True, blank=True, related_name="+")
    job_attempt = models.PositiveSmallIntegerField(null=True, blank=True)
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)
    error = models.CharField(_("error"), max_length=300, blank=True)

    class Meta:
        verbose_name = _("mail")
        verbose_name_plural = _("mails")
        indexes = [
            models.Index(fields=["due_at"], condition=Q(state="waiting"), name="mail_waiting"),
            models.Index(fields=["id"], condition=Q(state="sending"), name="mail_sending"),
            models.Index(fields=["ended_at"], condition=Q(state="failed"), name="mail_failed"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"
