from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from annotation.models.authored import Authored


class Invitation(Authored):
    """A link by which one person makes their own account, with the roles that the manager chose.

    Only the hash of the link's secret is stored: it is shown once, to whoever made it.
    """

    secret_sha256 = models.CharField(max_length=64, unique=True)
    roles = models.JSONField(_("roles"))
    languages = models.JSONField(_("languages"), default=list, blank=True)
    note = models.CharField(_("for whom"), max_length=200, blank=True)
    expires_at = models.DateTimeField(_("expires"))
    accepted_at = models.DateTimeField(_("accepted"), null=True, blank=True)
    accepted_by = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="invitation",
        verbose_name=_("accepted by"),
    )
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True)

    class Meta:
        verbose_name = _("invitation")
        verbose_name_plural = _("invitations")
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.pk}"
