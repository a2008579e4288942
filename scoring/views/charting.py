"""The picture of a scorer's figures: its accuracy with intervals, beside people and the commonest level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext as _

from annotation.charts import GOLD, INK, MUTED, chart_url
from scoring.views.figures import Figure, Line

WIDTH = 560
STEP = 15
BLUE = "#3b5b92"


def figures_chart(lines: Sequence[Line]) -> str:
    """The address of the drawing: a band for each line, in it a mark for each figure that is defined."""
    import altair as alt

    series = _series()
    rows = [
        row
        for line in lines
        for name, label, _colour, _shape in series
        if (row := _row(line.label, label, getattr(line, name)))
    ]
    labels = [label for name, label, *_rest in series if any(row["series"] == label for row in rows)]
    kept = [one for one in series if one[1] in labels]
    data = alt.Data(values=rows)
    y = alt.Y("label:N", sort=None, title=None, axis=alt.Axis(ticks=False, domain=False, labelColor=INK))
    offset = alt.YOffset("series:N", sort=labels)
    scale = alt.Scale(domain=[_lowest(rows), 1.0], nice=False)
    x = alt.X("value:Q", title=_("Accuracy"), scale=scale, axis=alt.Axis(format=".2f", tickCount=6))
    colour = alt.Color(
        "series:N",
        title=None,
        sort=labels,
        scale=alt.Scale(domain=labels, range=[one[2] for one in kept]),
        legend=alt.Legend(orient="top", columns=2, labelLimit=300, columnPadding=60),
    )
    shape = alt.Shape(
        "series:N", title=None, sort=labels, scale=alt.Scale(domain=labels, range=[one[3] for one in kept])
    )
    base = alt.Chart(data).encode(y=y, yOffset=offset, color=colour)
    whiskers = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2="high:Q")
    points = base.mark_point(filled=True, size=80, opacity=1).encode(x=x, shape=shape)
    height = STEP * (len(labels) + 1) * len(lines)
    return chart_url(alt.layer(whiskers, points).properties(width=WIDTH, height=height))


def _series() -> list[tuple[str, str, str, str]]:
    """Field, name, colour and shape; never told apart by colour alone."""
    return [
        ("accuracy", _("Scorer, by prompt"), GOLD, "circle"),
        ("left_out", _("Scorer, model left out"), BLUE, "square"),
        ("annotators", _("Single annotators, against gold"), INK, "diamond"),
        ("majority", _("Always the commonest level"), MUTED, "triangle-up"),
    ]


def _row(label: str, series: str, figure: Figure | None) -> dict[str, Any] | None:
    if figure is None:
        return None
    return {
        "label": label,
        "series": series,
        "value": figure.value,
        "low": figure.value if figure.low is None else figure.low,
        "high": figure.value if figure.high is None else figure.high,
    }


def _lowest(rows: Sequence[dict[str, Any]]) -> float:
    """A tenth below the lowest whisker, at most 0.5, so that small differences do not look large."""
    lowest = min((row["low"] for row in rows), default=0.0)
    return max(0.0, min(0.5, int(lowest * 10 - 0.5) / 10))
