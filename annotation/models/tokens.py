from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy


class ApiToken(models.Model):
    """By which a program speaks in its owner's name. Only its hash is stored: the owner reads it once.

    It has ended for good where ``ended_at`` says so; nothing takes that back.
    """

    class Scope(models.TextChoices):
        WORK = "work", pgettext_lazy("scope", "work")
        READ = "read", pgettext_lazy("scope", "read")
        MANAGE = "manage", pgettext_lazy("scope", "manage")

    class Ended(models.TextChoices):
        REVOKED = "revoked", _("revoked")
        PASSWORD = "password", _("the password changed")
        ROLE = "role", _("a group was taken away")
        ACCOUNT = "account", _("the account was deactivated")

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="tokens", verbose_name=_("person")
    )
    name = models.CharField(_("name"), max_length=100)
    sha256 = models.CharField(max_length=64, unique=True)
    scope = models.CharField(_("scope"), max_length=6, choices=Scope)
    created_at = models.DateTimeField(_("created"))
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    last_used_at = models.DateTimeField(_("last used"), null=True, blank=True)
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)
    ended_why = models.CharField(_("why it ended"), max_length=8, choices=Ended, blank=True)

    class Meta:
        verbose_name = _("API token")
        verbose_name_plural = _("API tokens")
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.name
