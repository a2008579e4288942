"""What a worker measures of a batch every minute, and what pages read of it.

Measuring reads every label of the batch, so no page does it. What is computed from it when a batch will be done is in
outlook.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import TruncDate
from django.utils import timezone

from annotation.domain.agreement import Statistic
from annotation.models import (
    ADJUDICATION_SLOT,
    Alarm,
    Annotation,
    Assignment,
    Batch,
    BatchStats,
    Task,
)
from annotation.selectors.agreement import COMPLETE, LabelPatterns, ReportRow
from annotation.selectors.counts import count_by_stratum
from annotation.selectors.gold_questions import exclude_gold_questions, has_gold_questions

MAX_DAYS = 14
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


def list_stuck(batches: Sequence[Batch]) -> dict[int, int]:
    """Those of the batches with tasks that nobody who works there may take, and how many these are."""
    stuck = BatchStats.objects.filter(batch__in=[batch.pk for batch in batches], stuck__gt=0)
    return dict(stuck.values_list("batch", "stuck"))


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
    known = {day: n for day, n in parse_days(stats.days if stats else {}).items() if day >= first}
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


def parse_days(days: Mapping[str, int]) -> dict[date, int]:
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
