"""Care for those who read: how much a person may be exposed to in a day, when to rest, whom to turn to."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class WellbeingSettings(models.Model):
    """What the managers set for everybody: one row, ``ONE``. A point of exposure is a step of severity
    (``Dimension.severity``) of an item that was read.
    """

    ONE = 1

    daily_exposure = models.PositiveIntegerField(
        _("daily exposure budget"),
        null=True,
        blank=True,
        help_text=_("Points a day, the severities of the items added up; empty: no limit."),
    )
    break_minutes = models.PositiveSmallIntegerField(
        _("minutes until a break"),
        null=True,
        blank=True,
        help_text=_("After so many minutes of work the page proposes a break; empty: never."),
    )
    help_contacts = models.JSONField(
        _("help contacts"), default=dict, blank=True, help_text=_("By language: whom to turn to, as text.")
    )

    class Meta:
        verbose_name = _("wellbeing settings")
        verbose_name_plural = _("wellbeing settings")
        constraints = [models.CheckConstraint(condition=Q(id=1), name="care_settings_one_row")]

    def __str__(self) -> str:
        return "care"


class Exposure(models.Model):
    """The points of one person on one day (of the site's time zone): of what they submitted or skipped."""

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="exposures", verbose_name=_("person")
    )
    day = models.DateField(_("day"))
    points = models.PositiveIntegerField(_("points"), default=0)

    class Meta:
        verbose_name = _("exposure")
        verbose_name_plural = _("exposures")
        constraints = [models.UniqueConstraint(fields=["person", "day"], name="exposure_once_per_day")]

    def __str__(self) -> str:
        return f"{self.person_id}/{self.day}"
