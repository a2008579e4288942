"""A person's own numbers: how their labels compare with gold, and how much they do (history.py says what may be told).

Nothing here compares a person with another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from statistics import median
from typing import TypeAlias

from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import TruncDate
from django.utils import timezone

from annotation.domain.guidelines import GuidelineDocument
from annotation.models import (
    ADJUDICATION_SLOT,
    Adjudication,
    Annotation,
    Assignment,
    Batch,
    GoldLabel,
    Person,
    Task,
    Verdict,
)
from annotation.selectors.access import sealed_batches
from annotation.selectors.annotations.closings import filter_closed
from annotation.selectors.annotations.history import (
    list_labels_with_gold,
    list_overruled_labels,
    list_submitted,
    midnight,
)

Places: TypeAlias = Counter[tuple[int, str]]
"""How many by batch and dimension."""
PACE_DAYS = 30


@dataclass(frozen=True)
class OwnCounts:
    """The person's annotations in one batch and dimension. ``closed``: over for them; ``decided`` by an adjudicator;
    ``overruled``: settled with another value.

    ``compared`` counts their labels that have gold, ``equal`` those that are equal to it; both None until the batch's
    results open to them, for before that they would tell how many of the others are disputed.
    """

    batch: str
    dimension: str
    document: GuidelineDocument
    closed: int
    decided: int
    overruled: int
    compared: int | None
    equal: int | None


@dataclass(frozen=True)
class GoldConfusion:
    """How often each (mine, final) pair of values came, in the closed batches of one guideline version."""

    guideline: str
    document: GuidelineDocument
    criterion: str
    counts: Mapping[tuple[float, float], int]


def list_own_counts(person: Person) -> list[OwnCounts]:
    """By batch, the newest first, and dimension; only where something is over. Four counts of the database."""
    ended = filter_closed(list_submitted(person).exclude(slot=ADJUDICATION_SLOT))
    closed = _count_by_place(ended)
    decided = _count_by_place(ended.filter(task__state=Task.State.ADJUDICATED))
    overruled = _count_by_place(ended.filter(pk__in=list_overruled_labels(person).values("assignment")))
    compared, equal = Places(), Places()
    for pk, dimension, _criterion, own, final, n in _count_compared(person):
        compared[pk, dimension] += n
        equal[pk, dimension] += n if own == final else 0
    batches = Batch.objects.select_related("guideline").in_bulk({pk for pk, _dimension in closed})
    sealed = set(sealed_batches(person).values_list("pk", flat=True))
    tallies = []
    for place in sorted(closed, key=lambda place: (-place[0], place[1])):
        batch = batches[place[0]]
        is_open = batch.pk not in sealed
        tallies.append(
            OwnCounts(
                batch=batch.name,
                dimension=place[1],
                document=batch.guideline.document,
                closed=closed[place],
                decided=decided[place],
                overruled=overruled[place],
                compared=compared[place] if is_open else None,
                equal=equal[place] if is_open else None,
            )
        )
    return tallies


def _count_by_place(assignments: QuerySet[Assignment]) -> Places:
    rows = assignments.values_list("batch", "task__stratum__dimension").annotate(n=Count("pk")).order_by()
    return Places({(batch, dimension): n for batch, dimension, n in rows})


def _count_compared(person: Person) -> list[tuple[int, str, str, float, float, int]]:
    """(batch, dimension, criterion, mine, final, how often) in batches whose results are open. A label that nobody
    else gave (``single``) is its own gold: nothing to compare.
    """
    labels = (
        list_labels_with_gold(person)
        .filter(mine__isnull=False, final__isnull=False)
        .exclude(assignment__batch__in=sealed_batches(person))
    )
    rows = labels.exclude(source=GoldLabel.Source.SINGLE).values_list(
        "assignment__batch", "assignment__task__stratum__dimension", "criterion", "mine", "final"
    )
    return list(rows.annotate(n=Count("pk")).order_by())


def list_confusions(person: Person) -> list[GoldConfusion]:
    """One for each guideline version and criterion, in order of their names."""
    rows = _count_compared(person)
    batches = Batch.objects.select_related("guideline").in_bulk({row[0] for row in rows})
    counts: dict[tuple[str, str], Counter[tuple[float, float]]] = {}
    documents: dict[str, GuidelineDocument] = {}
    for pk, _dimension, criterion, own, final, n in rows:
        guideline = batches[pk].guideline
        documents[str(guideline)] = guideline.document
        counts.setdefault((str(guideline), criterion), Counter())[own, final] += n
    return [
        GoldConfusion(guideline, documents[guideline], criterion, counts[guideline, criterion])
        for guideline, criterion in sorted(counts)
    ]


@dataclass(frozen=True)
class PaceDay:
    """What the person submitted on one day of the site's time zone."""

    day: date
    labels: int
    decisions: int

    @property
    def items(self) -> int:
        return self.labels + self.decisions


@dataclass(frozen=True)
class OwnPace:
    """The last ``PACE_DAYS`` days, today the last. Seconds are medians over them, None where none were measured;
    ``today`` is the time spent today on what was submitted, in seconds.
    """

    days: tuple[PaceDay, ...]
    seconds_label: float | None
    seconds_decision: float | None
    today: float | None


def measure_own_pace(person: Person) -> OwnPace:
    today = timezone.localdate()
    first = today - timedelta(days=PACE_DAYS - 1)
    recent = {"assignment__person": person, "assignment__submitted_at__gte": midnight(first)}
    labels = Annotation.objects.filter(**recent)
    # The times of repeat adjudications count for nothing: they may differ from those of first decisions.
    decisions = Adjudication.objects.filter(task__kind=Task.Kind.WORK, **recent)
    verdicts = Verdict.objects.filter(assignment__task__kind=Task.Kind.WORK, **recent)
    at_work = (labels, decisions, verdicts)
    return OwnPace(
        days=_list_days(person, first, today),
        seconds_label=_find_median(labels.filter(revision=1)),
        seconds_decision=_find_median(decisions),
        today=_sum_known([_sum_seconds_since(rows, midnight(today)) for rows in at_work]),
    )


def _list_days(person: Person, first: date, last: date) -> tuple[PaceDay, ...]:
    decided = Q(slot=ADJUDICATION_SLOT)
    since = list_submitted(person).filter(submitted_at__gte=midnight(first))
    counted = since.annotate(day=TruncDate("submitted_at")).values_list("day").order_by()
    rows = counted.annotate(labels=Count("pk", filter=~decided), decisions=Count("pk", filter=decided))
    counted_days = {day: PaceDay(day, labels, decisions) for day, labels, decisions in rows}
    days = (first + timedelta(days=place) for place in range((last - first).days + 1))
    return tuple(counted_days.get(day, PaceDay(day, 0, 0)) for day in days)


def _find_median(rows: QuerySet[Annotation] | QuerySet[Adjudication]) -> float | None:
    measured = rows.values_list("seconds", flat=True).order_by()
    seconds = [value for value in measured if value is not None]
    return median(seconds) if seconds else None


def _sum_seconds_since(
    rows: QuerySet[Annotation] | QuerySet[Adjudication] | QuerySet[Verdict], start: datetime
) -> float | None:
    seconds: float | None = rows.filter(created_at__gte=start).aggregate(sum=Sum("seconds"))["sum"]
    return seconds


def _sum_known(parts: Collection[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None
