"""Agreement over time: a line in its band, what happened on the way, and the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.utils.translation import gettext

from annotation.core.charts import chart_url
from annotation.core.formatting import format_decimal
from annotation.selectors.agreement.trend import Event, Point, Series, alarms, series
from annotation.views.agreement.charts import Mark, Moment, band_over_time
from annotation.views.agreement.query import TabQuery
from annotation.views.agreement.wording import RELIABLE, STATISTICS, TENTATIVE, figure

# One point is no line.
LEAST_POINTS = 2


def context(asked: TabQuery) -> dict[str, Any]:
    return {"series": [_series(one, asked) for one in _found(asked)]}


def picture(asked: TabQuery) -> dict[str, Any]:
    """The chart alone, where there is one guideline and more than a day; else nothing."""
    found = _found(asked) if asked.headline is not None else []
    return {"over_time": _drawn(found[0], _events(found[0], asked))} if found else {}


def _events(one: Series, asked: TabQuery) -> list[Event]:
    return [*one.versions, *alarms(asked.patterns.labels, one.guideline)]


def _found(asked: TabQuery) -> list[Series]:
    levels = {one.measurement for one in asked.overall}
    chosen = asked.choice.statistic
    # Alpha of another level than the scale's would be undefined all along.
    fits = not chosen.startswith("alpha_") or levels == {chosen.removeprefix("alpha_")}
    return series(asked.patterns, chosen if fits else "")


def _series(one: Series, asked: TabQuery) -> dict[str, Any]:
    events = _events(one, asked)
    return {
        **_drawn(one, events),
        "guideline": one.guideline,
        "lines": [_line(point, one, asked) for point in reversed(one.points)],
        "events": [{"day": event.day, "words": _event(event)} for event in events],
    }


def _drawn(one: Series, happened: Sequence[Event]) -> dict[str, Any]:
    """The address of the picture and what it shows in words."""
    valued = [point for point in one.points if point.statistic.value is not None]
    title = str(STATISTICS[one.statistic])
    about = {"title": title, "step": one.step, "chart": "", "events_marked": bool(happened)}
    if len(valued) < LEAST_POINTS:
        return about
    marks = () if one.statistic == "percent_agreement" else (TENTATIVE, RELIABLE)
    events = [Mark(event.day.isoformat(), _event(event)) for event in happened]
    moments = [_moment(point) for point in one.points]
    lowest = min(valued, key=lambda point: point.statistic.value or 0)
    return {
        **about,
        "chart": chart_url(band_over_time(moments, title=title, marks=marks, events=events)),
        "first": _words(valued[0]),
        "last": _words(valued[-1]),
        "lowest": _words(lowest),
    }


def _words(point: Point) -> str:
    return f"{point.name} {format_decimal(point.statistic.value)}"


def _moment(point: Point) -> Moment:
    one = point.statistic
    return Moment(point.start.isoformat(), one.value, one.low, one.high, point.so_far)


def _event(event: Event) -> str:
    if event.kind == "alarm":
        return gettext("alarm: {batch}").format(batch=event.words)
    return event.words


def _line(point: Point, one: Series, asked: TabQuery) -> dict[str, Any]:
    choice = asked.choice
    several = {"guideline": one.guideline} if asked.words.several else {}
    here = choice.narrowing.with_group(several)
    by_week = one.step == "week"
    here = here.with_group({"week": point.name}) if by_week else replace(here, day=point.name)
    return {
        "name": point.name,
        "n": point.counted.n,
        "disputed": point.counted.disputed,
        "figure": figure(point.statistic),
        "so_far": point.so_far,
        "tasks": choice.tasks_url(here),
        "disputes": choice.tasks_url(replace(here, disputed=True)),
    }
