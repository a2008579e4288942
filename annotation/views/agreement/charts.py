"""The pictures of the agreement pages: a dot for each row's value with a whisker for its interval, and a line over
time in its band.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from annotation.core.charts import (
    BLUE,
    GOLD,
    INK,
    Spec,
    draw_band,
    draw_interval,
    draw_line,
    draw_points,
    draw_rules,
    make_picture,
    make_quantity,
    make_rows,
)

WIDTH = 620
STEP = 28
HEIGHT = 220
MAX_LABEL_PIXELS = 360  # pixels; a longer one ends in an ellipsis
MAX_SCALE_START = 0.6  # scales go down at least to here
GUIDE_STYLE = {"strokeDash": [4, 4], "opacity": 0.7, "strokeWidth": 1}


@dataclass(frozen=True)
class AgreementDot:
    label: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class TrendPoint:
    """``day`` is an ISO date; the value and its interval are those of its day or week, None where undefined."""

    day: str
    value: float | None
    low: float | None
    high: float | None
    so_far: float | None


@dataclass(frozen=True)
class TrendEvent:
    """Something that happened on a day."""

    day: str
    words: str


def draw_dots(dots: Sequence[AgreementDot], *, title: str, marks: Sequence[float]) -> Spec:
    """The dots in their order from above, the scale up to 1; ``marks`` are lines to read the values by."""
    y = make_rows("label", labelLimit=MAX_LABEL_PIXELS)
    x = make_quantity("value", title, scale_domain([dot.low for dot in dots]), format=".2f", tickCount=6)
    layer = [
        *draw_rules(marks, mark=GUIDE_STYLE, x=x),
        draw_interval({"type": "quantitative"}, y, mark={"color": GOLD}),
        draw_points(x, y, mark={"size": 90, "color": GOLD}),
    ]
    return make_picture(layer, [asdict(dot) for dot in dots], width=WIDTH, height={"step": STEP})


def draw_trend(
    moments: Sequence[TrendPoint], *, title: str, marks: Sequence[float], events: Sequence[TrendEvent]
) -> Spec:
    """The value of each day or week in its band, and (broken) what it was over everything until then; ``events`` stand
    where they happened.
    """
    lows = [low for moment in moments for low in (moment.low, moment.so_far, moment.value) if low is not None]
    axis = {"format": "%m-%d", "labelAngle": 0, "tickCount": 8, "grid": False, "labelOverlap": True}
    x = {"field": "day", "type": "temporal", "title": None, "axis": axis}
    y = make_quantity("value", title, scale_domain(lows), scale={"clamp": True}, format=".2f")
    so_far = {"color": BLUE, "strokeDash": [6, 3], "strokeWidth": 1.5}
    layer = [
        *draw_rules(marks, mark=GUIDE_STYLE, y=y),
        filter_valid("low", draw_band(x, y, opacity=0.22)),
        filter_valid("so_far", draw_line(x, {**y, "field": "so_far"}, mark=so_far)),
        filter_valid("value", draw_line(x, y, mark={"point": {"color": GOLD, "size": 40}})),
        *draw_events(events),
    ]
    return make_picture(layer, [asdict(moment) for moment in moments], width=WIDTH, height=HEIGHT)


def filter_valid(field: str, layer: Spec) -> Spec:
    return {"transform": [{"filter": f"isValid(datum.{field})"}], **layer}


def draw_events(events: Sequence[TrendEvent]) -> list[Spec]:
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


def scale_domain(lows: Sequence[float]) -> list[float]:
    """From a tenth below the lowest, at least from 0.6, so that small differences do not look large."""
    return [min(MAX_SCALE_START, int(min(lows) * 10 - 1) / 10), 1]
