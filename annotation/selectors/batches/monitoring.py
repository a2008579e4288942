"""What a worker measures of a batch every minute, and the outlook that pages compute from it.

Measuring reads every label of the batch, so no page does it. The outlook tells nothing of a label. ``docs/batches.md``
says what the figures are, the formula of the forecast and what it assumes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, time, timedelta
from functools import reduce
from math import ceil
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import TruncDate
from django.utils import timezone

from annotation.core.errors import N_
from annotation.domain.agreement import Statistic
from annotation.domain.batches import (
    HORIZON,
    MIN_TIMED,
    NOTHING_LEFT,
    TOO_FEW_DAYS,
    Forecast,
    bound_days,
    forecast_completion,
    join_forecasts,
    mean_per_day,
)
from annotation.models import (
    ADJUDICATION_SLOT,
    Alarm,
    Annotation,
    Assignment,
    Batch,
    BatchStats,
    Person,
    Task,
)
from annotation.selectors.access import sealed_batches
from annotation.selectors.agreement import COMPLETE, LabelPatterns, ReportRow
from annotation.selectors.batches.progress import AnnotationProgress, list_batch_rows
from annotation.selectors.counts import count_by_stratum
from annotation.selectors.gold_questions import exclude_gold_questions, has_gold_questions

MAX_DAYS = 14
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
    counted, decided = _parse_days(stats.days), _parse_days(stats.decision_days)
    last = timezone.localdate(stats.at)
    day_counts = list_whole_days(counted, last)
    left = max(0, progress.needed - progress.submitted)
    forecast = _forecast(batch, left, tuple(day_counts), last.weekday(), counted.get(last, 0))
    disputes_left = ceil(disputes or 0)
    has_disputes = False
    if disputes_left and forecast.reason in {None, NOTHING_LEFT}:
        decisions = forecast_completion(
            left=disputes_left,
            days=tuple(list_whole_days(decided, last)),
            weekday=last.weekday(),
            today=decided.get(last, 0),
            seed=1,
        )
        if forecast.reason == NOTHING_LEFT:
            forecast, has_disputes = decisions, True
        elif decisions.reason is None:
            forecast, has_disputes = join_forecasts(forecast, decisions, together=True), True
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
    """The numbers of the latest days before ``last``, at most ``SHOWN`` of them, from the first with any work on."""
    began = min((day for day, n in counted.items() if n), default=last)
    days = [last - timedelta(days=back) for back in range(MAX_DAYS, 0, -1)]
    return [counted.get(day, 0) for day in days if day >= began]


def _forecast(batch: Batch, left: int, day_counts: tuple[int, ...], weekday: int, today: int) -> Forecast:
    if batch.state == Batch.State.CLOSED and left:
        return Forecast(None, None, None, reason=CLOSED)
    return forecast_completion(left=left, days=day_counts, weekday=weekday, today=today)


def _list_latest_days(last: date) -> list[date]:
    return [last - timedelta(days=back) for back in range(MAX_DAYS - 1, -1, -1)]


HISTORY_DAYS = 60
MAX_TIMED = 500
MAX_POINTS = 60
MIN_STEP = 10  # units between two points of the history


@dataclass(frozen=True)
class AgreementFigure:
    """A statistic with its 95% interval; ``value`` None is undefined, and ``reason`` says why. ``no_interval`` is the
    code of why a value has no interval.
    """

    value: float | None
    low: float | None
    high: float | None
    reason: str | None = None
    no_interval: str | None = None


@dataclass(frozen=True)
class AgreementMeasurement:
    """The agreement of one criterion at its own scale's level, or (``criterion`` None) of several pooled as nominal."""

    criterion: str | None
    measurement: str
    n: int
    disputed: int
    alpha: AgreementFigure
    percent: AgreementFigure


@dataclass(frozen=True)
class HistoryPoint:
    """Alpha of the first row when it had ``n`` units."""

    n: int
    value: float
    low: float
    high: float


def list_measured_batches() -> QuerySet[Batch]:
    """The batches to measure: at work or paused, and closed ones until they were measured once more."""
    ended = Q(state=Batch.State.CLOSED, watch__final=True)
    return Batch.objects.exclude(Q(state=Batch.State.DRAFT) | ended).order_by("pk")


def find_batch_stats(batch: Batch) -> BatchStats | None:
    return BatchStats.objects.filter(batch=batch).first()


def list_batch_stats(batches: Sequence[Batch]) -> dict[int, BatchStats]:
    return BatchStats.objects.in_bulk([batch.pk for batch in batches])


def count_complete_tasks(batch: Batch) -> int:
    """The tasks with all their annotations, counted along."""
    return sum(counts[state] for counts in count_by_stratum([batch.pk]).values() for state in COMPLETE)


def measure_agreement(batch: Batch) -> list[dict[str, Any]]:
    """The rows of the batch, the first its headline, as ``Watch.agreement`` keeps them. Reads every label the first
    time in a process, and then those that came since.
    """
    return [
        _row_to_json(counted.row(("percent_agreement", f"alpha_{counted.measurement}")))
        for counted in LabelPatterns([batch]).list_counts()
    ]


def list_agreement_rows(stats: BatchStats | None) -> tuple[AgreementMeasurement, ...]:
    rows = stats.agreement if stats else []
    return tuple(
        AgreementMeasurement(
            **{**row, "alpha": AgreementFigure(**row["alpha"]), "percent": AgreementFigure(**row["percent"])}
        )
        for row in rows
    )


def list_history_points(stats: BatchStats | None) -> tuple[HistoryPoint, ...]:
    return tuple(HistoryPoint(*point) for point in (stats.history if stats else ()))


def append_point(history: list[list[float]], first: AgreementMeasurement | None) -> list[list[float]]:
    """The history and, where enough has come since, the newest value; every other point goes where they are many."""
    if first is None or first.alpha.value is None or first.alpha.low is None or first.alpha.high is None:
        return history
    if history and abs(first.n - history[-1][0]) < MIN_STEP:
        return history
    point = [first.n, first.alpha.value, first.alpha.low, first.alpha.high]
    longer = [*history, point]
    return longer if len(longer) <= MAX_POINTS else longer[::-2][::-1]


def count_days(batch: Batch, stats: BatchStats | None, now: datetime) -> dict[str, int]:
    """The annotations handed in on each of the latest days. A day that was over when it was counted stays counted."""
    today = timezone.localdate(now)
    first = today - timedelta(days=HISTORY_DAYS)
    known = {day: n for day, n in _parse_days(stats.days if stats else {}).items() if day >= first}
    since = max(first, timezone.localdate(stats.at)) if stats else first
    counted = dict.fromkeys((day for day in known if day >= since), 0) | _count_since(batch, since)
    return {day.isoformat(): n for day, n in sorted((known | counted).items()) if n}


def count_decision_days(batch: Batch, now: datetime) -> dict[str, int]:
    """The disputes settled on each of the latest days."""
    since = timezone.localdate(now) - timedelta(days=MAX_DAYS)
    decided = Assignment.objects.filter(
        batch=batch, slot=ADJUDICATION_SLOT, task__kind=Task.Kind.WORK, submitted_at__gte=_start_of(since)
    )
    days = decided.order_by().values_list(TruncDate("submitted_at")).annotate(n=Count("pk"))
    return {day.isoformat(): n for day, n in sorted(days)}


def measure_time(batch: Batch) -> tuple[int, float]:
    """Of the latest annotations: how many were timed, and their seconds together."""
    latest = Assignment.objects.filter(batch=batch, slot__lt=ADJUDICATION_SLOT, submitted_at__isnull=False)
    latest = exclude_gold_questions(latest, has_checks=has_gold_questions(batch))
    ids = list(latest.order_by("-submitted_at").values_list("pk", flat=True)[:MAX_TIMED])
    timed = Annotation.objects.filter(assignment__in=ids, current=True, seconds__gt=0)
    totals = timed.aggregate(n=Count("pk"), seconds=Sum("seconds"))
    return totals["n"], totals["seconds"] or 0.0


def find_standing_alarm(batch: Batch) -> Alarm | None:
    return Alarm.objects.filter(batch=batch, seen_at=None).first()


def list_alarmed(batches: Sequence[Batch]) -> set[int]:
    """Those of the batches on which an alarm stands."""
    ids = [batch.pk for batch in batches]
    return set(Alarm.objects.filter(batch__in=ids, seen_at=None).values_list("batch", flat=True))


def count_standing_alarms() -> int:
    """How many wait to be seen, of batches that are not over: the bar at the top of every manager's page asks."""
    return Alarm.objects.filter(seen_at=None).exclude(batch__state=Batch.State.CLOSED).count()


def _row_to_json(row: ReportRow) -> dict[str, Any]:
    statistics = row.agreement.statistics
    return {
        "criterion": row.criterion,
        "measurement": row.measurement,
        "n": row.agreement.n,
        "disputed": row.agreement.disputed,
        "alpha": asdict(_build_figure(statistics[f"alpha_{row.measurement}"])),
        "percent": asdict(_build_figure(statistics["percent_agreement"])),
    }


def _build_figure(statistic: Statistic) -> AgreementFigure:
    return AgreementFigure(
        statistic.value, statistic.low, statistic.high, statistic.reason, statistic.no_interval
    )


def _parse_days(days: Mapping[str, int]) -> dict[date, int]:
    return {date.fromisoformat(day): n for day, n in days.items()}


def _count_since(batch: Batch, day: date) -> Counter[date]:
    """By the index of the batch's latest submissions; a day is one of the time zone of the pages."""
    handed_in = Assignment.objects.filter(
        batch=batch, slot__lt=ADJUDICATION_SLOT, submitted_at__gte=_start_of(day)
    )
    handed_in = exclude_gold_questions(handed_in, has_checks=has_gold_questions(batch)).order_by()
    counted = handed_in.values_list(TruncDate("submitted_at")).annotate(n=Count("pk"))
    return Counter({submitted_on: n for submitted_on, n in counted if submitted_on is not None})


def _start_of(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min))
