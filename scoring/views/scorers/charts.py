"""The pictures of a scorer's figures: intervals, calibration and what labels bring."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from annotation.core.charts import (
    BLUE,
    DASHES,
    GOLD,
    INK,
    MUTED,
    PADDING,
    Look,
    Spec,
    chart_url,
    draw_band,
    draw_interval,
    draw_line,
    draw_points,
    draw_rules,
    make_looks,
    make_picture,
    make_quantity,
    make_rows,
)
from scoring.views.scorers.wording import FigureRow, ScorerFigure

WIDTH = 560
SQUARE = 250
BAND = 30
STEP = 15
ZERO = {"zero": False}


def _make_chart_url(values: Sequence[Mapping[str, Any]], layer: Sequence[Spec], **size: int) -> str:
    return chart_url(make_picture(layer, values, padding=PADDING, **size))


def _make_number(
    field: str, title: str, domain: Sequence[float] | None = None, number_format: str = ".2f"
) -> Spec:
    scale = None if domain else ZERO
    return make_quantity(
        field, title, domain, scale=scale, format=number_format, tickCount=6, titlePadding=10
    )


def _make_row(label: str, figure: ScorerFigure, **more: Any) -> dict[str, Any]:
    return {
        "label": label,
        "value": figure.value,
        "low": figure.value if figure.low is None else figure.low,
        "high": figure.value if figure.high is None else figure.high,
        **more,
    }


def _choose_looks(field: str, looks: Sequence[Look]) -> tuple[Spec, Spec]:
    legend = {"orient": "top", "columns": 2, "labelLimit": 300, "columnPadding": 60}
    colour, shape = make_looks(field, looks, legend if len(looks) > 1 else None, sort=None)
    if shape["legend"]:
        del shape["legend"]
    return colour, shape


def comparison_chart(rows: Sequence[tuple[str, str, ScorerFigure]]) -> str:
    """Accuracies, one under another: (``scorer``, ``people`` or ``simple``; name; figure)."""
    looks = {
        "scorer": Look(_("this scorer"), GOLD, "circle"),
        "people": Look(_("annotators"), INK, "diamond"),
        "simple": Look(_("without learning"), MUTED, "triangle-up"),
    }
    values = [_make_row(label, figure, kind=looks[kind].word) for kind, label, figure in rows]
    kinds = {kind for kind, *_rest in rows}
    colour, shape = _choose_looks("kind", [look for kind, look in looks.items() if kind in kinds])
    x, y = _make_number("value", _("Accuracy"), (_find_axis_start(values), 1.0)), make_rows("label")
    layer = [
        draw_interval(x, y, color=colour),
        draw_points(x, y, mark={"size": 80}, color=colour, shape=shape),
    ]
    return _make_chart_url(values, layer, width=WIDTH, height=BAND * len(values))


def lines_chart(lines: Sequence[FigureRow]) -> str:
    """A band for each line, in it a mark for each figure that is defined.

    A band is a place among the lines, since a criterion may have the name of a model, or of the total.
    """
    series = {
        "accuracy": Look(_("Scorer, by prompt"), GOLD, "circle"),
        "left_out": Look(_("Scorer, model left out"), BLUE, "square"),
        "annotators": Look(_("Single annotators, against gold"), INK, "diamond"),
        "rules": Look(_("String rules"), MUTED, "cross"),
        "majority": Look(_("Always the commonest level"), MUTED, "triangle-up"),
    }
    values = [
        _make_row(line.label, figure, series=look.word, place=place)
        for place, line in enumerate(lines)
        for name, look in series.items()
        if (figure := getattr(line, name)) is not None
    ]
    words = {value["series"] for value in values}
    looks = [look for look in series.values() if look.word in words]
    colour, shape = _choose_looks("series", looks)
    offset = {"field": "series", "type": "nominal", "sort": [look.word for look in looks]}
    x = _make_number("value", _("Accuracy"), (_find_axis_start(values), 1.0))
    labels = json.dumps([line.label for line in lines])
    y = make_rows("place", labelExpr=f"{labels}[datum.value]")
    layer = [
        draw_interval(x, y, yOffset=offset, color=colour),
        draw_points(x, y, mark={"size": 80}, yOffset=offset, color=colour, shape=shape),
    ]
    return _make_chart_url(values, layer, width=WIDTH, height=STEP * (len(looks) + 1) * len(lines))


def _find_axis_start(rows: Sequence[Mapping[str, Any]]) -> float:
    """A tenth below the lowest whisker, at most 0.5, so that small differences do not look large."""
    lowest = min((row["low"] for row in rows), default=0.0)
    return max(0.0, min(0.5, int(lowest * 10 - 0.5) / 10))


def reliability_chart(bins: Sequence[Mapping[str, Any]]) -> str:
    """Share right by how sure it was; on the dashed line both are the same."""
    x = _make_number("confidence", _("Confidence"), (0, 1), ".1f")
    y = _make_number("accuracy", _("Share that is right"), (0, 1), ".1f")
    legend = {"orient": "bottom", "symbolFillColor": GOLD, "tickCount": 3, "offset": 10}
    size = {**make_quantity("n", _("Predictions"), scale={"range": [30, 500]}), "legend": legend}
    same = {"color": MUTED, "strokeDash": DASHES}
    layer = [
        {
            "data": {"values": [{"at": 0}, {"at": 1}]},
            **draw_line({**x, "field": "at"}, {**y, "field": "at"}, mark=same),
        },
        draw_line(x, y),
        draw_points(x, y, mark={"color": GOLD}, size=size),
    ]
    return _make_chart_url([part for part in bins if part["n"]], layer, width=SQUARE, height=SQUARE)


def coverage_chart(curve: Sequence[Mapping[str, Any]]) -> str:
    """Accuracy where it answers, by the share that it answers."""
    values = [
        {"coverage": point["answered"], **point["accuracy"]}
        for point in curve
        if point["accuracy"]["value"] is not None
    ]
    low = min((point["low"] if point["low"] is not None else point["value"] for point in values), default=0.0)
    x = {**_make_number("coverage", _("Share that it answers"), (0.5, 1), ".0%"), "sort": None}
    y = _make_number("value", _("Accuracy of these"), (max(0.0, int(low * 20) / 20), 1))
    layer = [
        draw_band(x, y, opacity=0.2),
        draw_line(x, y),
        draw_points(x, y, mark={"color": GOLD, "size": 60}),
    ]
    return _make_chart_url(values, layer, width=SQUARE, height=SQUARE)


def curve_chart(points: Sequence[Mapping[str, Any]], ahead: Sequence[tuple[float, float]]) -> str:
    """Accuracy by the number of labels learned from; dashed what the fitted curve says between (labels, accuracy)."""
    values = [
        {"labels": point["labels"], **point["accuracy"]}
        for point in points
        if point["accuracy"]["value"] is not None
    ]
    x = _make_number("labels", _("Labels that it learns from"), None, "d")
    y = _make_number("value", _("Accuracy"))
    fitted = [{"labels": labels, "value": value} for labels, value in ahead]
    layer = [
        {"data": {"values": fitted}, **draw_line(x, y, mark={"color": MUTED, "strokeDash": DASHES})},
        draw_interval(x, y, along="y", mark={"color": GOLD}),
        draw_points(x, y, mark={"color": GOLD, "size": 80}),
    ]
    return _make_chart_url(values, layer, width=WIDTH, height=200)


def differences_chart(rows: Sequence[tuple[str, ScorerFigure, str]], title: str, margin: float | None) -> str:
    """Differences with their intervals about lines at 0 and at minus the margin: (name, difference, outcome)."""
    looks = {
        "not_worse": Look(_("not worse"), GOLD, "circle"),
        "not_shown": Look(_("not shown"), MUTED, "diamond"),
        "worse": Look(_("worse"), BLUE, "cross"),
    }
    values = [_make_row(label, figure, kind=looks[outcome].word) for label, figure, outcome in rows]
    outcomes = {outcome for *_rest, outcome in rows}
    colour, shape = _choose_looks("kind", [look for outcome, look in looks.items() if outcome in outcomes])
    ends = [abs(value[end]) for value in values for end in ("low", "high", "value")]
    reach = max([0.02, margin or 0.0, *ends]) * 1.1
    x, y = _make_number("value", title, (-reach, reach), "+.3f"), make_rows("label")
    layer = [
        *draw_rules([0] if margin is None else [-margin, 0], x=x),
        draw_interval(x, y, color=colour),
        draw_points(x, y, mark={"size": 80}, color=colour, shape=shape),
    ]
    return _make_chart_url(values, layer, width=WIDTH, height=BAND * max(2, len(values)))


def training_chart(points: Sequence[tuple[float, float]], title: str) -> str:
    """What a training told while it ran, point by point."""
    values = [{"at": at, "value": value} for at, value in points]
    line = draw_line(_make_number("at", _("Report"), None, "d"), _make_number("value", title, None, ".3g"))
    return _make_chart_url(values, [line], width=SQUARE, height=140)
