"""People and their roles. A role is a Django group; an admin is a superuser."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils.translation import gettext_lazy as _

from annotation.models.corpus import EvaluatedModel

ANNOTATOR = "annotator"
ADJUDICATOR = "adjudicator"
MANAGER = "manager"
RESEARCHER = "researcher"
ROLES = (ANNOTATOR, ADJUDICATOR, MANAGER, RESEARCHER)


class Person(AbstractUser):
    """Whoever signs in, and whoever labels that were made elsewhere belong to (those cannot sign in)."""

    class Blur(models.TextChoices):
        NEVER = "never", _("never")
        SEVERE = "severe", _("where the dimension is severe")
        ALWAYS = "always", _("always")

    display_name = models.CharField(_("display name"), max_length=150, blank=True)
    # What rules out work: items in other languages, and responses of models that the person has a part in.
    languages = models.JSONField(
        _("languages"),
        default=list,
        blank=True,
        help_text=_("What this person reads; empty: every language."),
    )
    own_models: models.ManyToManyField[EvaluatedModel, models.Model] = models.ManyToManyField(
        EvaluatedModel,
        blank=True,
        related_name="authors",
        verbose_name=_("own models"),
        help_text=_("Models that this person helped to build; their responses go to others."),
    )
    # Nobody is asked why: these dimensions go to others, in every batch.
    opted_out = models.JSONField(_("opted out of"), default=list, blank=True)
    daily_exposure = models.PositiveIntegerField(
        _("daily exposure budget"),
        null=True,
        blank=True,
        help_text=_("In place of everybody's; empty: everybody's."),
    )
    blur = models.CharField(_("blur until opened"), max_length=6, choices=Blur.choices, default=Blur.NEVER)
    single_keys = models.BooleanField(
        _("single keys act"), default=True, help_text=_("Off: every shortcut is pressed with Alt.")
    )

    class Meta:
        verbose_name = _("person")
        verbose_name_plural = _("people")

    def __str__(self) -> str:
        return self.display_name or self.username
