"""Care for those who read: what the pages need to know of it, how much was read today, what is left of a budget."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import get_language

from annotation.guidelines import GuidelineDocument, localized
from annotation.models import (
    ADJUDICATOR,
    ANNOTATOR,
    Assignment,
    Batch,
    CareSettings,
    Exposure,
    Guideline,
    Membership,
    Person,
    Stratum,
)
from annotation.selectors.blindness import sealed_batches
from annotation.statements import first, loaded, rows, stored

# From this severity on an item counts as severe: the middle of the scale of ``Dimension.severity``.
SEVERE = 2


@dataclass(frozen=True)
class Care:
    """What an item's page does for its reader. ``blur``: the text is blurred until it is opened.

    What the managers set is read when it is asked for: the page that goes from item to item has it already.
    """

    blur: bool
    severity: int
    single_keys: bool

    @property
    def break_minutes(self) -> int | None:
        """None: no break is proposed."""
        return self._settings[0]

    @property
    def contacts(self) -> str:
        """Whom to turn to, in the reader's language: plain text with line breaks, or empty."""
        return in_words(json.loads(self._settings[1]))

    @cached_property
    def _settings(self) -> tuple[int | None, str]:
        break_minutes, contacts = first(SETTINGS, [CareSettings.ONE]) or (None, "{}")
        return break_minutes, contacts


def care_for(person: Person, severity: int) -> Care:
    """For an item of this severity."""
    return Care(
        blur=person.blur == Person.Blur.ALWAYS or (person.blur == Person.Blur.SEVERE and severity >= SEVERE),
        severity=severity,
        single_keys=person.single_keys,
    )


SETTINGS = "SELECT break_minutes, help_contacts FROM annotation_caresettings WHERE id = %s"


def in_words(contacts: Mapping[str, str]) -> str:
    """The contacts in the reader's language, else in one that there is."""
    words = {language: text for language, text in contacts.items() if text}
    return localized(words, get_language() or "en") if words else ""


def points_today(person: Person) -> int:
    today = Exposure.objects.filter(person=person, day=timezone.localdate())
    return today.values_list("points", flat=True).first() or 0


@dataclass(frozen=True)
class Read:
    """What one person read: the points of each day asked for, in this order, and their budget."""

    person: Person
    budget: int | None
    points: tuple[int, ...]


def readers(reader: Person) -> QuerySet[Person]:
    """Those who annotate or adjudicate, by name. Nobody of a batch in which the ``reader`` judges blind: how much
    others read there is part of what they must not know.
    """
    working = Person.objects.filter(is_active=True, groups__name__in=[ANNOTATOR, ADJUDICATOR])
    blind = Membership.objects.filter(batch__in=sealed_batches(reader)).values("person")
    return working.exclude(pk__in=blind).order_by("username").distinct()


def read_by(people: Sequence[Person], days: Sequence[date]) -> list[Read]:
    """A line for each of ``people``, two queries."""
    everybodys = _everybodys_budget()
    found = Exposure.objects.filter(person__in=people, day__in=days).values_list("person", "day", "points")
    points = {(person, day): number for person, day, number in found}
    return [
        Read(
            person=one,
            budget=everybodys if one.daily_exposure is None else one.daily_exposure,
            points=tuple(points.get((one.pk, day), 0) for day in days),
        )
        for one in people
    ]


def documents_of(person: Person) -> list[GuidelineDocument]:
    """The guidelines of the batches in which the person works now, each once."""
    working = Batch.objects.exclude(state=Batch.State.CLOSED).filter(
        memberships__person=person, memberships__active=True
    )
    guidelines = Guideline.objects.filter(pk__in=working.values("guideline")).defer("source")
    return [one.document for one in guidelines.order_by("name", "-id")]


def budget_of(person: Person) -> int | None:
    """The points of exposure that the person may come to in a day: their own number, else everybody's; None without
    a limit.
    """
    return _everybodys_budget() if person.daily_exposure is None else person.daily_exposure


def _everybodys_budget() -> int | None:
    return CareSettings.objects.filter(pk=CareSettings.ONE).values_list("daily_exposure", flat=True).first()


def is_used_up(person: Person) -> bool:
    """Whether the person is handed out nothing more of any severity today."""
    budget = budget_of(person)
    return budget is not None and _exposure_with_claims(person) >= budget


def strata_resting(batch: Batch, person: Person, budget: int | None) -> list[int]:
    """The strata of the batch that wait until tomorrow, because the person has used their ``budget`` up: those of
    some severity. No query where there is no budget.
    """
    if budget is None or _exposure_with_claims(person) < budget:
        return []
    document = batch.guideline.document
    strata = Stratum.objects.filter(batch=batch).values_list("pk", "dimension")
    return [pk for pk, dimension in strata if document.severity_of(dimension)]


def _exposure_with_claims(person: Person) -> int:
    """Today's points, and those of what the person has at hand in any batch: in one statement, because an item that
    is submitted meanwhile goes from here to there.
    """
    today = stored(Exposure, "day", timezone.localdate())
    now = stored(Assignment, "lease_expires", timezone.now())
    found = rows(READ_AND_AT_HAND, [person.pk, today, now, person.pk])
    at_hand = [one for one in found if one[1] is not None]
    severities = (
        loaded(Guideline, id=guideline, sha256=sha256).document.severity_of(dimension)
        for _points, guideline, sha256, dimension in at_hand
    )
    return int(found[0][0]) + sum(severities)


READ_AND_AT_HAND = """
SELECT COALESCE((SELECT e.points FROM annotation_exposure e WHERE e.person_id = %s AND e.day = %s), 0),
    g.id, g.sha256, s.dimension
FROM annotation_person p
LEFT JOIN annotation_assignment a ON a.person_id = p.id AND a.state = 'claimed' AND a.lease_expires > %s
LEFT JOIN annotation_task t ON t.id = a.task_id LEFT JOIN annotation_stratum s ON s.id = t.stratum_id
LEFT JOIN annotation_batch b ON b.id = t.batch_id LEFT JOIN annotation_guideline g ON g.id = b.guideline_id
WHERE p.id = %s
"""
