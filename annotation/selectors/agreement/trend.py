"""Agreement over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from operator import itemgetter

from django.utils import timezone

from annotation.domain.agreement import PromptCounts, Statistic, join_prompt_counts
from annotation.domain.agreement.disagreement import count_patterns, cross_groupings, group_units
from annotation.models import Alarm
from annotation.selectors.agreement.labels import ComparableLabels
from annotation.selectors.agreement.report import NO_COUNTS, LabelPatterns, PatternCounts, to_exact_counts

# Work of more days than this is told by weeks.
MAX_DAYS = 45


@dataclass(frozen=True)
class AgreementPoint:
    """The units that were complete on a day, or in the week that begins on it; ``so_far`` is of all until its end."""

    start: date
    name: str
    counted: PatternCounts
    statistic: Statistic
    so_far: float | None


@dataclass(frozen=True)
class AgreementEvent:
    """What may have changed agreement: the first day of a guideline's version, or an alarm."""

    day: date
    kind: str
    words: str


@dataclass(frozen=True)
class TrendSeries:
    """One guideline's agreement, by ``step`` day or week."""

    guideline: str
    step: str
    statistic: str
    points: tuple[AgreementPoint, ...]
    versions: tuple[AgreementEvent, ...]


def list_trends(patterns: LabelPatterns, statistic: str = "") -> list[TrendSeries]:
    """Of each guideline; without a ``statistic`` by alpha at the level of its scale."""
    return patterns.labels.cache(f"series {statistic}", lambda: _build_series(patterns, statistic))


def _build_series(patterns: LabelPatterns, statistic: str) -> list[TrendSeries]:
    labels = patterns.labels
    days, _place = labels.units.kinds("finished")
    step = "week" if len(days) and days[-1] - days[0] >= MAX_DAYS else "day"
    overall: dict[str, PatternCounts] = {}
    for counted in patterns.list_counts():
        overall.setdefault(counted.guideline, counted)
    counts = _count_steps(labels, step)
    return [
        TrendSeries(
            guideline=counted.guideline,
            step=step,
            statistic=statistic or f"alpha_{counted.measurement}",
            points=_build_points(
                counts.get(counted.guideline, []), counted, statistic or f"alpha_{counted.measurement}"
            ),
            versions=_list_versions(labels, counted.guideline),
        )
        for counted in overall.values()
        if counted.n
    ]


def _count_steps(labels: ComparableLabels, step: str) -> dict[str, list[tuple[date, str, PromptCounts]]]:
    """Of each guideline the sets of labels of each step, criteria pooled by value."""
    guideline = group_units(labels.units.kinds("stratum"), labels.guideline_of, str)
    start = (lambda day: date.fromordinal(day - (day - 1) % 7)) if step == "week" else date.fromordinal
    steps = group_units(labels.units.kinds("finished"), start, lambda day: day)
    guideline_steps = cross_groupings([guideline, steps], len(labels.units))
    counts_by_guideline: dict[str, list[tuple[date, str, PromptCounts]]] = {}
    for (name, day), counts in count_patterns(labels.units, guideline_steps, labels.weights).items():
        iso = day.isocalendar()
        step_name = f"{iso.year}-W{iso.week:02}" if step == "week" else day.isoformat()
        counts_by_guideline.setdefault(name, []).append((day, step_name, counts))
    return counts_by_guideline


def _build_points(
    steps: Sequence[tuple[date, str, PromptCounts]], overall: PatternCounts, statistic: str
) -> tuple[AgreementPoint, ...]:
    so_far = NO_COUNTS
    points = []
    for day, name, counts in steps:
        exact_counts = to_exact_counts(counts, overall.values)
        so_far = join_prompt_counts([so_far, exact_counts])
        counted = _replace_counts(overall, exact_counts)
        measurement = counted.measure((statistic,)).statistics[statistic]
        points.append(
            AgreementPoint(day, name, counted, measurement, _replace_counts(overall, so_far).value(statistic))
        )
    return tuple(points)


def _replace_counts(overall: PatternCounts, counts: PromptCounts) -> PatternCounts:
    return replace(overall, group={}, counts=counts)


def _list_versions(labels: ComparableLabels, guideline: str) -> tuple[AgreementEvent, ...]:
    """The first day of each version, where there are several."""
    groups = labels.sort_by_facet("guideline_version")
    first: dict[str, int] = {}
    for at, name in enumerate(groups.names):
        days = labels.units.finished[groups.place == at]
        if name is not None and name.partition("@")[0] == guideline and len(days):
            first[name] = int(days.min())
    if len(first) < 2:
        return ()
    by_day = sorted(first.items(), key=itemgetter(1))
    return tuple(AgreementEvent(date.fromordinal(day), "version", name) for name, day in by_day)


def list_alarms(labels: ComparableLabels, guideline: str) -> list[AgreementEvent]:
    """Read anew each time: an alarm is raised after its labels came."""
    batches = [
        batch.pk for batch in labels.batches if labels.guidelines[batch.guideline_id].name == guideline
    ]
    raised = Alarm.objects.filter(batch__in=batches).select_related("batch").order_by("at")
    return [AgreementEvent(timezone.localdate(alarm.at), "alarm", alarm.batch.name) for alarm in raised]
