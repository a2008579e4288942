from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from annotation.domain.webhooks.addresses import MAX_URL_CHARACTERS
from annotation.domain.webhooks.events import WebhookEvent, split_events
from annotation.domain.webhooks.signatures import FINGERPRINT_DIGITS
from annotation.models.base import Authored
from annotation.models.studies import Study


class WebhookEndpoint(Authored):
    """A receiver of webhooks: of a study, or of the site where ``study`` is null, which is told of all studies.

    Its secret is not here: it is derived from ``salt`` and the site's key (annotation/domain/webhooks/signatures.py).
    The one before it signs, too, until ``previous_until``.
    """

    class TurnedOff(models.TextChoices):
        """Why it is off; empty while it is on."""

        PERSON = "person", _("by a person")
        FAILING = "failing", _("it failed for too long")
        GONE = "gone", _("the receiver said that it is gone")

    study = models.ForeignKey(
        Study, models.PROTECT, null=True, blank=True, related_name="+", verbose_name=_("study")
    )
    url = models.CharField(_("address"), max_length=MAX_URL_CHARACTERS)
    note = models.CharField(_("note"), max_length=200, blank=True)
    events = models.CharField(_("events"), max_length=300, blank=True, help_text=_("Between commas."))
    base_url = models.CharField(
        _("address of the site"), max_length=200, help_text=_("With it the addresses in messages begin.")
    )
    # Who last said where it goes or took its secret: what is sealed for them is not sent.
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("set up by"),
    )
    salt = models.CharField(max_length=64)
    fingerprint = models.CharField(max_length=FINGERPRINT_DIGITS)
    previous_salt = models.CharField(max_length=64, blank=True)
    previous_until = models.DateTimeField(_("the former secret signs until"), null=True, blank=True)
    turned_off = models.CharField(_("turned off"), max_length=7, choices=TurnedOff.choices, blank=True)
    turned_off_at = models.DateTimeField(_("turned off at"), null=True, blank=True)
    failing_since = models.DateTimeField(_("failing since"), null=True, blank=True)
    accepted_at = models.DateTimeField(_("last accepted"), null=True, blank=True)

    class Meta:
        verbose_name = _("webhook")
        verbose_name_plural = _("webhooks")
        ordering = ["id"]

    def __str__(self) -> str:
        return self.host

    @property
    def host(self) -> str:
        """The receiver, without what an address may hold beside it."""
        return urlsplit(self.url).netloc

    @property
    def is_active(self) -> bool:
        return not self.turned_off

    @property
    def subscribed_events(self) -> list[WebhookEvent]:
        return split_events(self.events)
