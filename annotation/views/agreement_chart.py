"""The pictures of the agreement pages: a dot for each row's value with a whisker for its interval, and a line over
time in its band. Plain Vega-Lite, since altair takes longer to check a chart than the page to count it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from annotation.charts import GOLD, INK, MUTED

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
WIDTH = 620
STEP = 28
HEIGHT = 220
LONGEST_LABEL = 360  # pixels; a longer one ends in an ellipsis
LOWEST = 0.6  # scales go down at least to here
BLUE = "#3b5b92"


@dataclass(frozen=True)
class Dot:
    label: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Moment:
    """``day`` is an ISO date; the value and its interval are those of its day or week, None where undefined."""

    day: str
    value: float | None
    low: float | None
    high: float | None
    so_far: float | None


@dataclass(frozen=True)
class Mark:
    """Something that happened on a day."""

    day: str
    words: str


def dot_and_whisker(dots: Sequence[Dot], *, title: str, marks: Sequence[float]) -> dict[str, Any]:
    """The dots in their order from above, the scale up to 1; ``marks`` are lines to read the values by."""
    axis = {"ticks": False, "domain": False, "labelColor": INK, "labelLimit": LONGEST_LABEL}
    y = {"field": "label", "type": "nominal", "sort": None, "title": None, "axis": axis}
    scale = {"domain": _domain([dot.low for dot in dots]), "nice": False}
    x = {
        "field": "value",
        "type": "quantitative",
        "title": title,
        "scale": scale,
        "axis": {"format": ".2f", "tickCount": 6},
    }
    whisker = {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}, "y": y}
    return {
        "$schema": SCHEMA,
        "data": {"values": [asdict(dot) for dot in dots]},
        "width": WIDTH,
        "height": {"step": STEP},
        "layer": [
            *_lines(marks, "x", x),
            {"mark": {"type": "rule", "strokeWidth": 2, "color": GOLD}, "encoding": whisker},
            {
                "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1, "color": GOLD},
                "encoding": {"x": x, "y": y},
            },
        ],
    }


def band_over_time(
    moments: Sequence[Moment], *, title: str, marks: Sequence[float], events: Sequence[Mark]
) -> dict[str, Any]:
    """The value of each day or week in its band, and (broken) what it was over everything until then; ``events`` stand
    where they happened.
    """
    lows = [one for moment in moments for one in (moment.low, moment.so_far, moment.value) if one is not None]
    scale = {"domain": _domain(lows), "nice": False, "clamp": True}
    axis = {"format": "%m-%d", "labelAngle": 0, "tickCount": 8, "grid": False, "labelOverlap": True}
    x = {"field": "day", "type": "temporal", "title": None, "axis": axis}
    y = {"field": "value", "type": "quantitative", "title": title, "scale": scale, "axis": {"format": ".2f"}}

    def of(field: str) -> dict[str, Any]:
        return {**y, "field": field}

    drawn = {"filter": "isValid(datum.value)"}
    return {
        "$schema": SCHEMA,
        "data": {"values": [asdict(moment) for moment in moments]},
        "width": WIDTH,
        "height": HEIGHT,
        "layer": [
            *_lines(marks, "y", y),
            {
                "transform": [{"filter": "isValid(datum.low)"}],
                "mark": {"type": "area", "opacity": 0.22, "color": GOLD},
                "encoding": {"x": x, "y": of("low"), "y2": {"field": "high"}},
            },
            {
                "transform": [{"filter": "isValid(datum.so_far)"}],
                "mark": {"type": "line", "color": BLUE, "strokeDash": [6, 3], "strokeWidth": 1.5},
                "encoding": {"x": x, "y": of("so_far")},
            },
            {
                "transform": [drawn],
                "mark": {
                    "type": "line",
                    "color": GOLD,
                    "strokeWidth": 2,
                    "point": {"color": GOLD, "size": 40},
                },
                "encoding": {"x": x, "y": y},
            },
            *_events(events),
        ],
    }


def _events(events: Sequence[Mark]) -> list[dict[str, Any]]:
    if not events:
        return []
    data = {"values": [asdict(event) for event in events]}
    x = {"field": "day", "type": "temporal", "title": None}
    text = {
        "type": "text",
        "align": "left",
        "baseline": "top",
        "dx": 4,
        "fontSize": 11,
        "color": INK,
        "limit": 200,
    }
    return [
        {"data": data, "mark": {"type": "rule", "color": INK, "strokeWidth": 1}, "encoding": {"x": x}},
        {
            "data": data,
            "mark": text,
            "encoding": {"x": x, "y": {"value": 2}, "text": {"field": "words", "type": "nominal"}},
        },
    ]


def _domain(lows: Sequence[float]) -> list[float]:
    """From a tenth below the lowest, at least from 0.6, so that small differences do not look large."""
    return [min(LOWEST, int(min(lows) * 10 - 1) / 10), 1]


def _lines(marks: Sequence[float], channel: str, like: dict[str, Any]) -> list[dict[str, Any]]:
    """On the channel of the values, with its scale and title."""
    if not marks:
        return []
    return [
        {
            "data": {"values": [{"mark": mark} for mark in marks]},
            "mark": {"type": "rule", "color": MUTED, "strokeDash": [4, 4], "opacity": 0.7},
            "encoding": {channel: {**like, "field": "mark"}},
        }
    ]
