"""The pictures of one person's part: how they agree from day to day, and how long their items take. Plain Vega-Lite."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt

from annotation.charts import GOLD, INK, MUTED
from annotation.selectors.quality import Day

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
WIDTH, HEIGHT, LOW = 620, 220, 160
BARS = 24
# The rest of the times stands in the last bar: one long break must not press all others into the first.
LONGEST = 0.98


def over_days(days: Sequence[Day], *, title: str, since: int | None = None) -> dict[str, Any]:
    """A dot for each day; a line with its band for the days around each; a dashed line where something changed."""
    lowest = min([0.5, *(one.around.low or 0.0 for one in days)])
    scale = {"domain": [int(lowest * 10) / 10, 1], "clamp": True}
    axis = {"format": "%Y-%m-%d", "tickCount": 6, "labelOverlap": True, "grid": False}
    x = {"field": "day", "type": "temporal", "title": None, "axis": axis}

    def y(field: str) -> dict[str, Any]:
        shown = {"format": ".0%", "tickCount": 6}
        return {"field": field, "type": "quantitative", "title": title, "scale": scale, "axis": shown}

    return {
        "$schema": SCHEMA,
        "data": {"values": [_day(one) for one in days]},
        "width": WIDTH,
        "height": HEIGHT,
        "layer": [
            {
                "mark": {"type": "area", "opacity": 0.22, "color": GOLD},
                "encoding": {"x": x, "y": y("low"), "y2": {"field": "high"}},
            },
            {
                "mark": {"type": "line", "color": GOLD, "strokeWidth": 2},
                "encoding": {"x": x, "y": y("around")},
            },
            {
                "mark": {"type": "point", "filled": True, "color": INK, "size": 36, "opacity": 0.55},
                "encoding": {"x": x, "y": y("alone")},
            },
            *_rule("temporal", None if since is None else date.fromordinal(since).isoformat()),
        ],
    }


def _day(one: Day) -> dict[str, Any]:
    return {
        "day": date.fromordinal(one.day).isoformat(),
        "alone": one.alone.value,
        "around": one.around.value,
        "low": one.around.low,
        "high": one.around.high,
    }


def _rule(kind: str, at: str | float | None, title: str | None = None) -> list[dict[str, Any]]:
    """A dashed line from top to bottom; none where there is no place for it."""
    if at is None:
        return []
    mark = {"type": "rule", "color": MUTED, "strokeDash": [5, 4], "strokeWidth": 2}
    encoding = {"x": {"field": "at", "type": kind, "title": title}}
    return [{"data": {"values": [{"at": at}]}, "mark": mark, "encoding": encoding}]


def histogram(
    seconds: npt.NDArray[np.float64], *, title: str, across: str, others: float | None
) -> dict[str, Any]:
    """How many items took how long; a dashed line at the partners' median on the same items."""
    counts, edges = bins(seconds)
    bars = [
        {"from": float(low), "to": float(high), "n": int(n), "none": 0}
        for n, low, high in zip(counts, edges[:-1], edges[1:], strict=True)
    ]
    x = {
        "field": "from",
        "type": "quantitative",
        "title": across,
        "scale": {"domain": [0, float(max(edges[-1], others or 0))], "nice": False},
        "axis": {"tickCount": 8, "grid": False},
    }
    axis = {"tickMinStep": 1, "format": "d", "tickCount": 5}
    y = {"field": "n", "type": "quantitative", "title": title, "axis": axis}
    return {
        "$schema": SCHEMA,
        "data": {"values": bars},
        "width": WIDTH,
        "height": LOW,
        "layer": [
            {
                "mark": {"type": "rect", "color": GOLD, "stroke": None},
                "encoding": {"x": x, "x2": {"field": "to"}, "y": y, "y2": {"field": "none"}},
            },
            *_rule("quantitative", others, across),
        ],
    }


def bins(seconds: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Counts and their ``BARS`` + 1 edges from 0; whatever is longer stands in the last bar."""
    top = max(float(np.quantile(seconds, LONGEST)), 1.0)
    counts, edges = np.histogram(np.minimum(seconds, top), bins=BARS, range=(0, top))
    return counts, edges
