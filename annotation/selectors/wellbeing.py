"""Annotator wellbeing: the display settings of an item's page, today's exposure, and what is left of a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import get_language

from annotation.core.study_scope import build_study_filter
from annotation.domain.guidelines import GuidelineDocument, localize
from annotation.models import (
    ADJUDICATOR,
    ANNOTATOR,
    Batch,
    Exposure,
    Guideline,
    Membership,
    Person,
    Stratum,
    StudyMembership,
    WellbeingSettings,
)
from annotation.models.sql.counts import read_exposure
from annotation.selectors.access import sealed_batches

# From this severity on an item counts as severe: the middle of the scale of ``Dimension.severity``.
SEVERE = 2


@dataclass(frozen=True)
class ItemWellbeing:
    """What an item's page does for its reader. ``blur``: the text is blurred until it is opened.

    What the managers set is read when it is asked for: the page that goes from item to item has it already.
    """

    blur: bool
    severity: int
    single_keys: bool

    @property
    def break_minutes(self) -> int | None:
        """None: no break is proposed."""
        return self._settings.break_minutes

    @property
    def contacts(self) -> str:
        """Whom to turn to, in the reader's language: plain text with line breaks, or empty."""
        return localize_contacts(self._settings.help_contacts)

    @cached_property
    def _settings(self) -> WellbeingSettings:
        settings = WellbeingSettings.objects.only("break_minutes", "help_contacts")
        return settings.filter(pk=WellbeingSettings.ONE).first() or WellbeingSettings()


def build_item_wellbeing(person: Person, severity: int) -> ItemWellbeing:
    """For an item of this severity."""
    return ItemWellbeing(
        blur=person.blur == Person.Blur.ALWAYS or (person.blur == Person.Blur.SEVERE and severity >= SEVERE),
        severity=severity,
        single_keys=person.single_keys,
    )


def localize_contacts(contacts: Mapping[str, str]) -> str:
    """The contacts in the reader's language, else in one that there is."""
    words = {language: text for language, text in contacts.items() if text}
    return localize(words, get_language() or "en") if words else ""


def exposure_today(person: Person) -> int:
    today = Exposure.objects.filter(person=person, day=timezone.localdate())
    return today.values_list("points", flat=True).first() or 0


@dataclass(frozen=True)
class ExposureRow:
    """One person's exposure: the points of each of the days, in their order, and the budget."""

    person: Person
    budget: int | None
    points: tuple[int, ...]


def list_readers(reader: Person) -> QuerySet[Person]:
    """Those who annotate or adjudicate, by name. Nobody of a batch in which the ``reader`` judges blind: how much
    others read there is part of what they must not know.
    """
    roles = StudyMembership.objects.filter(role__in=[ANNOTATOR, ADJUDICATOR], **build_study_filter("study"))
    working = Person.objects.filter(is_active=True, pk__in=roles.values("person"))
    blind = Membership.objects.filter(batch__in=sealed_batches(reader)).values("person")
    return working.exclude(pk__in=blind).order_by("username").distinct()


def list_exposure_rows(people: Sequence[Person], days: Sequence[date]) -> list[ExposureRow]:
    """A row for each of ``people``, two queries."""
    default_budget = _find_default_budget()
    rows = Exposure.objects.filter(person__in=people, day__in=days).values_list("person", "day", "points")
    points = {(person, day): number for person, day, number in rows}
    return [
        ExposureRow(
            person=person,
            budget=default_budget if person.daily_exposure is None else person.daily_exposure,
            points=tuple(points.get((person.pk, day), 0) for day in days),
        )
        for person in people
    ]


def list_working_documents(person: Person) -> list[GuidelineDocument]:
    """The guidelines of the batches in which the person works now, each once."""
    working = Batch.objects.exclude(state=Batch.State.CLOSED).filter(
        memberships__person=person, memberships__active=True
    )
    guidelines = Guideline.objects.filter(pk__in=working.values("guideline")).defer("source")
    return [guideline.document for guideline in guidelines.order_by("name", "-id")]


def find_exposure_budget(person: Person) -> int | None:
    """The points of exposure that the person may come to in a day: their own number, else everybody's; None without
    a limit.
    """
    return _find_default_budget() if person.daily_exposure is None else person.daily_exposure


def _find_default_budget() -> int | None:
    return (
        WellbeingSettings.objects.filter(pk=WellbeingSettings.ONE)
        .values_list("daily_exposure", flat=True)
        .first()
    )


def is_budget_used_up(person: Person) -> bool:
    """Whether the person is handed out nothing more of any severity today."""
    budget = find_exposure_budget(person)
    return budget is not None and _sum_exposure(person) >= budget


def list_resting_strata(batch: Batch, person: Person, budget: int | None) -> list[int]:
    """The strata of the batch that wait until tomorrow, because the person has used their ``budget`` up: those of
    some severity. No query where there is no budget.
    """
    if budget is None or _sum_exposure(person) < budget:
        return []
    document = batch.guideline.document
    strata = Stratum.objects.filter(batch=batch).values_list("pk", "dimension")
    return [pk for pk, dimension in strata if document.severity_of(dimension)]


def _sum_exposure(person: Person) -> int:
    """Today's points, and those of the items that the person has in progress in any batch."""
    exposure = read_exposure(person.pk)
    return exposure.points + sum(
        guideline.document.severity_of(dimension) for guideline, dimension in exposure.in_progress
    )
