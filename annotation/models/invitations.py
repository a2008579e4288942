from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from annotation.models.authored import Authored


class OneTimeLink(Authored):
    """A link that works once. Only the hash of its secret is stored: it is shown once, to whoever made it."""

    secret_sha256 = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField(_("expires"))
    accepted_at = models.DateTimeField(_("accepted"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True)

    class Meta:
        abstract = True


class Invitation(OneTimeLink):
    """A link by which one person makes their own account, with the roles that the manager chose."""

    roles = models.JSONField(_("roles"))
    languages = models.JSONField(_("languages"), default=list, blank=True)
    note = models.CharField(_("for whom"), max_length=200, blank=True)
    accepted_by = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="invitation",
        verbose_name=_("accepted by"),
    )

    class Meta:
        verbose_name = _("invitation")
        verbose_name_plural = _("invitations")
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.pk}"


class SetupLink(OneTimeLink):
    """A link by which somebody who has an account sets their own password.

    The person is told of each link until they have said that they read it; ``seen_at`` is when.
    """

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="setup_links", verbose_name=_("person")
    )
    seen_at = models.DateTimeField(_("seen"), null=True, blank=True)

    class Meta:
        verbose_name = _("set-up link")
        verbose_name_plural = _("set-up links")
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.pk}"
