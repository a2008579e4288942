"""People and their roles. A role is a Django group; an admin is a superuser."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils.translation import gettext_lazy as _

ANNOTATOR = "annotator"
ADJUDICATOR = "adjudicator"
MANAGER = "manager"
RESEARCHER = "researcher"
ROLES = (ANNOTATOR, ADJUDICATOR, MANAGER, RESEARCHER)


class Person(AbstractUser):
    """Whoever signs in, and whoever labels that were made elsewhere belong to (those cannot sign in)."""

    display_name = models.CharField(_("display name"), max_length=150, blank=True)

    class Meta:
        verbose_name = _("person")
        verbose_name_plural = _("people")

    def __str__(self) -> str:
        return self.display_name or self.username
