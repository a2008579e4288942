"""The picture of the agreement report: a dot for each row's value, a whisker for its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from annotation.charts import GOLD, INK, MUTED

if TYPE_CHECKING:
    import altair

WIDTH = 620
STEP = 28
LONGEST_LABEL = 360  # pixels; a longer one ends in an ellipsis


@dataclass(frozen=True)
class Dot:
    label: str
    value: float
    low: float
    high: float


def dot_and_whisker(dots: Sequence[Dot], *, title: str, marks: Sequence[float]) -> altair.LayerChart:
    """The dots in their order from above, the scale up to 1; ``marks`` are lines to read the values by."""
    import altair as alt

    data = alt.Data(values=[asdict(dot) for dot in dots])
    axis = alt.Axis(ticks=False, domain=False, labelColor=INK, labelLimit=LONGEST_LABEL)
    y = alt.Y("label:N", sort=None, title=None, axis=axis)
    scale = alt.Scale(domain=_domain(dots), nice=False)
    x = alt.X("value:Q", title=title, scale=scale, axis=alt.Axis(format=".2f", tickCount=6))
    whiskers = alt.Chart(data).mark_rule(strokeWidth=2, color=GOLD).encode(x=alt.X("low:Q"), x2="high:Q", y=y)
    points = alt.Chart(data).mark_point(filled=True, size=90, opacity=1, color=GOLD).encode(x=x, y=y)
    return alt.layer(*_lines(alt, marks, scale), whiskers, points).properties(
        width=WIDTH, height=alt.Step(STEP)
    )


def _domain(dots: Sequence[Dot]) -> list[float]:
    """From a tenth below the lowest whisker, at least from 0.6, so that small differences do not look large."""
    lowest = min(dot.low for dot in dots)
    return [min(0.6, int(lowest * 10 - 1) / 10), 1.0]


def _lines(alt: Any, marks: Sequence[float], scale: Any) -> list[Any]:
    data = alt.Data(values=[{"mark": mark} for mark in marks])
    line = alt.Chart(data).mark_rule(color=MUTED, strokeDash=[4, 4], opacity=0.7)
    return [line.encode(x=alt.X("mark:Q", scale=scale, title=None))] if marks else []
