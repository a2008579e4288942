"""Agreement over time: a line in its band, what happened on the way, and the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.utils.translation import gettext

from annotation.core.charts import chart_url
from annotation.core.formatting import format_decimal
from annotation.selectors.agreement.trend import (
    AgreementEvent,
    AgreementPoint,
    TrendSeries,
    list_alarms,
    list_trends,
)
from annotation.views.agreement.charts import TrendEvent, TrendPoint, draw_trend
from annotation.views.agreement.query import TabQuery
from annotation.views.agreement.wording import RELIABLE, STATISTICS, TENTATIVE, format_figure

# One point is no line.
MIN_POINTS = 2


def context(tab_query: TabQuery) -> dict[str, Any]:
    return {
        "series": [series_context(agreement_series, tab_query) for agreement_series in list_series(tab_query)]
    }


def picture_context(tab_query: TabQuery) -> dict[str, Any]:
    """The chart alone, where there is one guideline and more than a day; else nothing."""
    all_series = list_series(tab_query) if tab_query.headline is not None else []
    return (
        {"over_time": draw_series(all_series[0], list_events(all_series[0], tab_query))} if all_series else {}
    )


def list_events(agreement_series: TrendSeries, tab_query: TabQuery) -> list[AgreementEvent]:
    return [*agreement_series.versions, *list_alarms(tab_query.patterns.labels, agreement_series.guideline)]


def list_series(tab_query: TabQuery) -> list[TrendSeries]:
    levels = {row.measurement for row in tab_query.overall}
    statistic = tab_query.choice.statistic
    # Alpha of another level than the scale's would be undefined all along.
    fits = not statistic.startswith("alpha_") or levels == {statistic.removeprefix("alpha_")}
    return list_trends(tab_query.patterns, statistic if fits else "")


def series_context(agreement_series: TrendSeries, tab_query: TabQuery) -> dict[str, Any]:
    events = list_events(agreement_series, tab_query)
    return {
        **draw_series(agreement_series, events),
        "guideline": agreement_series.guideline,
        "rows": [
            point_row(point, agreement_series, tab_query) for point in reversed(agreement_series.points)
        ],
        "events": [{"day": event.day, "words": event_words(event)} for event in events],
    }


def draw_series(agreement_series: TrendSeries, happenings: Sequence[AgreementEvent]) -> dict[str, Any]:
    """The address of the picture and what it shows in words."""
    valued = [point for point in agreement_series.points if point.statistic.value is not None]
    title = str(STATISTICS[agreement_series.statistic])
    picture = {"title": title, "step": agreement_series.step, "chart": "", "events_marked": bool(happenings)}
    if len(valued) < MIN_POINTS:
        return picture
    marks = () if agreement_series.statistic == "percent_agreement" else (TENTATIVE, RELIABLE)
    events = [TrendEvent(event.day.isoformat(), event_words(event)) for event in happenings]
    moments = [build_moment(point) for point in agreement_series.points]
    lowest = min(valued, key=lambda point: point.statistic.value or 0)
    return {
        **picture,
        "chart": chart_url(draw_trend(moments, title=title, marks=marks, events=events)),
        "first": point_words(valued[0]),
        "last": point_words(valued[-1]),
        "lowest": point_words(lowest),
    }


def point_words(point: AgreementPoint) -> str:
    return f"{point.name} {format_decimal(point.statistic.value)}"


def build_moment(point: AgreementPoint) -> TrendPoint:
    statistic = point.statistic
    return TrendPoint(point.start.isoformat(), statistic.value, statistic.low, statistic.high, point.so_far)


def event_words(event: AgreementEvent) -> str:
    if event.kind == "alarm":
        return gettext("alarm: {batch}").format(batch=event.words)
    return event.words


def point_row(point: AgreementPoint, agreement_series: TrendSeries, tab_query: TabQuery) -> dict[str, Any]:
    choice = tab_query.choice
    several = {"guideline": agreement_series.guideline} if tab_query.words.several else {}
    narrowing = choice.narrowing.with_group(several)
    by_week = agreement_series.step == "week"
    narrowing = narrowing.with_group({"week": point.name}) if by_week else replace(narrowing, day=point.name)
    return {
        "name": point.name,
        "n": point.counted.n,
        "disputed": point.counted.disputed,
        "figure": format_figure(point.statistic),
        "so_far": point.so_far,
        "tasks": choice.tasks_url(narrowing),
        "disputes": choice.tasks_url(replace(narrowing, disputed=True)),
    }
