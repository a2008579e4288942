"""When a batch, and all batches at work, will be done: what pages compute from what a worker measured (monitoring.py).

It tells nothing of a label. ``docs/batches.md`` says what the figures are, the formula of the forecast and what it
assumes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import reduce
from math import ceil

from django.utils import timezone

from annotation.core.errors import N_
from annotation.domain.batches import (
    HORIZON,
    MIN_TIMED,
    TOO_FEW_DAYS,
    Forecast,
    Work,
    bound_days,
    forecast_batch,
    join_forecasts,
    mean_per_day,
)
from annotation.models import Batch, BatchStats, Person
from annotation.selectors.access import sealed_batches
from annotation.selectors.batches.monitoring import MAX_DAYS, list_batch_stats, parse_days
from annotation.selectors.batches.progress import AnnotationProgress, list_batch_rows

HOUR = 3600
CLOSED = N_("The batch is closed.")


@dataclass(frozen=True)
class Outlook:
    """``days`` are the latest ones, the last of them the day of the counting, which is not over. ``per_day`` is the
    mean of the ``seen`` whole days since work began, ``per_hour`` the annotations in an hour of the time that people
    took.

    ``early`` are the days from today of the earliest and the latest end by the pace alone, where too few whole days
    were seen for a forecast. ``has_disputes`` says whether the end counts the settling of the ``disputes_left``.
    """

    at: datetime
    days: tuple[tuple[date, int], ...]
    seen: int
    per_day: float | None
    per_hour: float | None
    left: int
    forecast: Forecast
    early: tuple[int, int] | None
    people: int
    disputes_left: int
    has_disputes: bool
    due: date | None

    @property
    def low(self) -> date | None:
        return self._day(self.early[0] if self.early else self.forecast.low)

    @property
    def high(self) -> date | None:
        return self._day(self.early[1] if self.early else self.forecast.high)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to be labelled or settled."""
        return not self.left and not self.disputes_left

    @property
    def is_open_ended(self) -> bool:
        """Whether the later end is beyond what is told."""
        return (self.early[1] if self.early else self.forecast.high) == HORIZON

    @property
    def late(self) -> float | None:
        """How probable it is that the last annotation comes after the due date, 0 to 1."""
        return None if self.due is None else self.forecast.later_than((self.due - self._first).days)

    @property
    def most(self) -> int:
        return max((n for _day, n in self.days), default=0)

    @property
    def _first(self) -> date:
        return self.days[-1][0]

    def _day(self, days: int | None) -> date | None:
        return None if days is None else self._first + timedelta(days=days)


def build_outlook(
    batch: Batch,
    stats: BatchStats | None,
    progress: AnnotationProgress,
    *,
    people: int,
    disputes: float | None,
) -> Outlook | None:
    """``people`` are those who annotate now. ``disputes`` are those that are left to be settled or expected, None for a
    reader who may not know of them. None where no worker has counted yet.
    """
    if stats is None:
        return None
    counted, decided = parse_days(stats.days), parse_days(stats.decision_days)
    last = timezone.localdate(stats.at)
    day_counts = list_whole_days(counted, last)
    left = max(0, progress.needed - progress.submitted)
    disputes_left = ceil(disputes or 0)
    if batch.state == Batch.State.CLOSED and left:
        forecast, has_disputes = Forecast(None, None, None, reason=CLOSED), False
    else:
        forecast, has_disputes = forecast_batch(
            Work(left, tuple(day_counts), counted.get(last, 0)),
            Work(disputes_left, tuple(list_whole_days(decided, last)), decided.get(last, 0)),
            weekday=last.weekday(),
        )
    early = None
    if forecast.reason == TOO_FEW_DAYS and stats.timed >= MIN_TIMED:
        seconds = (left + disputes_left) * stats.timed_seconds / stats.timed
        early = bound_days(seconds=seconds, people=people)
        has_disputes = bool(disputes_left)
    return Outlook(
        at=stats.at,
        days=tuple((day, counted.get(day, 0)) for day in _list_latest_days(last)),
        seen=len(day_counts),
        per_day=mean_per_day(day_counts),
        per_hour=stats.timed * HOUR / stats.timed_seconds if stats.timed_seconds else None,
        left=left,
        forecast=forecast,
        early=early,
        people=people,
        disputes_left=disputes_left,
        has_disputes=has_disputes,
        due=batch.due_date,
    )


@dataclass(frozen=True)
class LabellingEnd:
    """When the last of several batches will be done. ``is_early`` where the pace alone says so of one of them, whose
    range is then that of all; ``unknown`` is the number of batches of which nothing can be said yet.
    """

    low: date | None
    high: date | None
    is_open_ended: bool
    is_early: bool
    has_disputes: bool
    unknown: int


def join_outlooks(outlooks: Iterable[Outlook | None]) -> LabellingEnd | None:
    """None where nothing is left to be done."""
    waiting = [outlook for outlook in outlooks if outlook is None or not outlook.is_done]
    known = [outlook for outlook in waiting if outlook is not None and outlook.low is not None]
    if not waiting:
        return None
    is_early = any(outlook.early for outlook in known)
    low = max((outlook.low for outlook in known if outlook.low), default=None)
    high = max((outlook.high for outlook in known if outlook.high), default=None)
    is_open_ended = any(outlook.is_open_ended for outlook in known)
    if known and not is_early:
        joined = replace(known[0], forecast=reduce(join_forecasts, (outlook.forecast for outlook in known)))
        low, high, is_open_ended = joined.low, joined.high, joined.is_open_ended
    return LabellingEnd(
        low,
        high,
        is_open_ended,
        is_early,
        all(outlook.has_disputes or not outlook.disputes_left for outlook in known),
        len(waiting) - len(known),
    )


def find_labelling_end(person: Person) -> LabellingEnd | None:
    """Of the batches at work that are not sealed for the person."""
    at_work = Batch.objects.filter(state__in=(Batch.State.OPEN, Batch.State.PAUSED)).select_related(
        "guideline"
    )
    rows = list_batch_rows(list(at_work.exclude(pk__in=sealed_batches(person).values("pk"))), person)
    stats = list_batch_stats([row.batch for row in rows])
    return join_outlooks(
        build_outlook(
            row.batch,
            stats.get(row.batch.pk),
            row.overall,
            people=row.annotators,
            disputes=row.disputes_left,
        )
        for row in rows
    )


def list_whole_days(counted: Mapping[date, int], last: date) -> Sequence[int]:
    """The numbers of the latest days before ``last``, at most ``MAX_DAYS`` of them, from the first with any work on."""
    began = min((day for day, n in counted.items() if n), default=last)
    days = [last - timedelta(days=back) for back in range(MAX_DAYS, 0, -1)]
    return [counted.get(day, 0) for day in days if day >= began]


def _list_latest_days(last: date) -> list[date]:
    return [last - timedelta(days=back) for back in range(MAX_DAYS - 1, -1, -1)]
