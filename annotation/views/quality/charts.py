"""The pictures of one person's part: how they agree from day to day, and how long their items take."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt

from annotation.core.charts import (
    GOLD,
    INK,
    Spec,
    draw_band,
    draw_line,
    draw_points,
    draw_rules,
    make_picture,
    make_quantity,
)
from annotation.selectors.quality import AgreementDay

WIDTH, HEIGHT, LOW = 620, 220, 160
BARS = 24
# The rest of the times stands in the last bar: one long break must not press all others into the first.
MAX_QUANTILE = 0.98


def draw_days(days: Sequence[AgreementDay], *, title: str, since: int | None = None) -> Spec:
    """A dot for each day; a line with its band for the days around each; a dashed line where something changed."""
    lowest = min([0.5, *(day.window_rate.low or 0.0 for day in days)])
    scale = {"domain": [int(lowest * 10) / 10, 1], "clamp": True}
    axis = {"format": "%Y-%m-%d", "tickCount": 6, "labelOverlap": True, "grid": False}
    x = {"field": "day", "type": "temporal", "title": None, "axis": axis}
    y = make_quantity("around", title, scale=scale, format=".0%", tickCount=6)
    changes = [] if since is None else [date.fromordinal(since).isoformat()]
    layer = [
        draw_band(x, y, opacity=0.22),
        draw_line(x, y),
        draw_points(x, {**y, "field": "alone"}, mark={"color": INK, "size": 36, "opacity": 0.55}),
        *draw_rules(changes, x={"type": "temporal", "title": None}),
    ]
    return make_picture(layer, [day_values(day) for day in days], width=WIDTH, height=HEIGHT)


def day_values(day: AgreementDay) -> dict[str, Any]:
    return {
        "day": date.fromordinal(day.day).isoformat(),
        "alone": day.rate.value,
        "around": day.window_rate.value,
        "low": day.window_rate.low,
        "high": day.window_rate.high,
    }


def draw_histogram(
    seconds: npt.NDArray[np.float64], *, title: str, across: str, partner_median: float | None
) -> Spec:
    """How many items took how long; a dashed line at the partners' median on the same items."""
    counts, edges = count_bins(seconds)
    bars = [
        {"from": float(low), "to": float(high), "n": int(n), "none": 0}
        for n, low, high in zip(counts, edges[:-1], edges[1:], strict=True)
    ]
    ends = [0, float(max(edges[-1], partner_median or 0))]
    x = make_quantity("from", across, ends, tickCount=8, grid=False)
    y = make_quantity("n", title, tickMinStep=1, format="d", tickCount=5)
    layer = [
        {
            "mark": {"type": "rect", "color": GOLD, "stroke": None},
            "encoding": {"x": x, "x2": {"field": "to"}, "y": y, "y2": {"field": "none"}},
        },
        *draw_rules(
            [] if partner_median is None else [partner_median], x={"type": "quantitative", "title": across}
        ),
    ]
    return make_picture(layer, bars, width=WIDTH, height=LOW)


def count_bins(seconds: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Counts and their ``BARS`` + 1 edges from 0; whatever is longer stands in the last bar."""
    top = max(float(np.quantile(seconds, MAX_QUANTILE)), 1.0)
    counts, edges = np.histogram(np.minimum(seconds, top), bins=BARS, range=(0, top))
    return counts, edges
