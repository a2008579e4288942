"""The pictures of a scorer's figures, as plain Vega-Lite: intervals, calibration and what labels bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from annotation.charts import GOLD, INK, MUTED, chart_url
from scoring.views.figures import Figure, Line

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
WIDTH = 560
SQUARE = 250
BAND = 30
STEP = 15
BLUE = "#3b5b92"
PADDING = {"left": 26, "top": 6, "right": 18, "bottom": 6}
"""A browser's fonts are wider than those that the drawing was measured with."""
Spec = dict[str, Any]


def _drawn(values: Sequence[Mapping[str, Any]], layer: list[Spec], **size: int) -> str:
    data = {"values": list(values)}
    return chart_url({"$schema": SCHEMA, "data": data, "padding": PADDING, **size, "layer": layer})


def _names(**axis: Any) -> Spec:
    """Labels down the left side, in the order of the rows."""
    shown = {"ticks": False, "domain": False, "labelColor": INK, **axis}
    return {"field": "label", "type": "nominal", "sort": None, "title": None, "axis": shown}


def _across(field: str, title: str, domain: Sequence[float] | None = None, form: str = ".2f") -> Spec:
    scale = {"domain": list(domain), "nice": False} if domain else {"zero": False}
    axis = {"format": form, "tickCount": 6, "titlePadding": 10}
    return {"field": field, "type": "quantitative", "title": title, "scale": scale, "axis": axis}


def _row(label: str, figure: Figure, **more: Any) -> dict[str, Any]:
    return {
        "label": label,
        "value": figure.value,
        "low": figure.value if figure.low is None else figure.low,
        "high": figure.value if figure.high is None else figure.high,
        **more,
    }


def _told_apart(field: str, known: Sequence[tuple[str, str, str]]) -> tuple[Spec, Spec]:
    """Colour and shape by name, never colour alone; ``known`` are (name, colour, shape)."""
    names = [name for name, *_rest in known]
    base = {"field": field, "type": "nominal", "sort": None, "title": None}
    legend = {"orient": "top", "columns": 2, "labelLimit": 300, "columnPadding": 60}
    colour = {
        **base,
        "scale": {"domain": names, "range": [one for _n, one, _s in known]},
        "legend": legend if len(names) > 1 else None,
    }
    shape = {**base, "scale": {"domain": names, "range": [one for *_rest, one in known]}}
    return colour, shape if len(names) > 1 else {**shape, "legend": None}


def beside_chart(rows: Sequence[tuple[str, str, Figure]]) -> str:
    """Accuracies, one under another: (``scorer``, ``people`` or ``simple``; name; figure)."""
    looks = {
        "scorer": (_("this scorer"), GOLD, "circle"),
        "people": (_("people"), INK, "diamond"),
        "simple": (_("without learning"), MUTED, "triangle-up"),
    }
    values = [_row(label, figure, kind=looks[kind][0]) for kind, label, figure in rows]
    known = [look for kind, look in looks.items() if any(kind == row[0] for row in rows)]
    colour, shape = _told_apart("kind", known)
    y = _names()
    x = _across("value", _("Accuracy"), (_lowest(values), 1.0))
    layer: list[Spec] = [
        {
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {"y": y, "x": {**x, "field": "low"}, "x2": {"field": "high"}, "color": colour},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1},
            "encoding": {"y": y, "x": x, "color": colour, "shape": shape},
        },
    ]
    return _drawn(values, layer, width=WIDTH, height=BAND * len(values))


def lines_chart(lines: Sequence[Line]) -> str:
    """A band for each criterion or model, in it a mark for each figure that is defined."""
    series = [
        ("accuracy", _("Scorer, by prompt"), GOLD, "circle"),
        ("left_out", _("Scorer, model left out"), BLUE, "square"),
        ("annotators", _("Single annotators, against gold"), INK, "diamond"),
        ("rules", _("String rules"), MUTED, "cross"),
        ("majority", _("Always the commonest level"), MUTED, "triangle-up"),
    ]
    values = [
        _row(line.label, figure, series=label)
        for line in lines
        for name, label, *_look in series
        if (figure := getattr(line, name)) is not None
    ]
    kept = [(label, *look) for _name, label, *look in series if any(v["series"] == label for v in values)]
    colour, shape = _told_apart("series", [(name, str(one), str(two)) for name, one, two in kept])
    y = _names()
    offset = {"field": "series", "type": "nominal", "sort": [name for name, *_rest in kept]}
    x = _across("value", _("Accuracy"), (_lowest(values), 1.0))
    layer: list[Spec] = [
        {
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {
                "y": y,
                "yOffset": offset,
                "x": {**x, "field": "low"},
                "x2": {"field": "high"},
                "color": colour,
            },
        },
        {
            "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1},
            "encoding": {"y": y, "yOffset": offset, "x": x, "color": colour, "shape": shape},
        },
    ]
    return _drawn(values, layer, width=WIDTH, height=STEP * (len(kept) + 1) * len(lines))


def _lowest(rows: Sequence[Mapping[str, Any]]) -> float:
    """A tenth below the lowest whisker, at most 0.5, so that small differences do not look large."""
    lowest = min((row["low"] for row in rows), default=0.0)
    return max(0.0, min(0.5, int(lowest * 10 - 0.5) / 10))


def reliability_chart(bins: Sequence[Mapping[str, Any]]) -> str:
    """Share right by how sure it was; on the dashed line both are the same."""
    values = [one for one in bins if one["n"]]
    x = _across("confidence", _("How sure it is"), (0, 1), ".1f")
    y = _across("accuracy", _("Share that is right"), (0, 1), ".1f")
    size = {"field": "n", "type": "quantitative", "title": _("Predictions"), "scale": {"range": [30, 500]}}
    size |= {"legend": {"orient": "bottom", "symbolFillColor": GOLD, "tickCount": 3, "offset": 10}}
    layer: list[Spec] = [
        {
            "data": {"values": [{"at": 0}, {"at": 1}]},
            "mark": {"type": "line", "color": MUTED, "strokeDash": [5, 4]},
            "encoding": {"x": {**x, "field": "at"}, "y": {**y, "field": "at"}},
        },
        {"mark": {"type": "line", "color": GOLD, "strokeWidth": 2}, "encoding": {"x": x, "y": y}},
        {
            "mark": {"type": "point", "filled": True, "color": GOLD, "opacity": 1},
            "encoding": {"x": x, "y": y, "size": size},
        },
    ]
    return _drawn(values, layer, width=SQUARE, height=SQUARE)


def coverage_chart(curve: Sequence[Mapping[str, Any]]) -> str:
    """Accuracy where it answers, by the share that it answers."""
    values = [
        {"coverage": one["answered"], **one["accuracy"]}
        for one in curve
        if one["accuracy"]["value"] is not None
    ]
    low = min((value["low"] if value["low"] is not None else value["value"] for value in values), default=0.0)
    x = {**_across("coverage", _("Share that it answers"), (0.5, 1), ".0%"), "sort": None}
    y = _across("value", _("Accuracy of these"), (max(0.0, int(low * 20) / 20), 1), ".2f")
    layer: list[Spec] = [
        {
            "mark": {"type": "area", "color": GOLD, "opacity": 0.2},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
        },
        {"mark": {"type": "line", "color": GOLD, "strokeWidth": 2}, "encoding": {"x": x, "y": y}},
        {
            "mark": {"type": "point", "filled": True, "color": GOLD, "size": 60, "opacity": 1},
            "encoding": {"x": x, "y": y},
        },
    ]
    return _drawn(values, layer, width=SQUARE, height=SQUARE)


def curve_chart(points: Sequence[Mapping[str, Any]], ahead: Sequence[tuple[float, float]]) -> str:
    """Accuracy by the number of labels learned from; dashed what the fitted curve says between (labels, accuracy)."""
    values = [
        {"labels": point["labels"], **point["accuracy"]}
        for point in points
        if point["accuracy"]["value"] is not None
    ]
    x = _across("labels", _("Labels that it learns from"), None, "d")
    y = _across("value", _("Accuracy"), None)
    fitted = [{"labels": labels, "value": value} for labels, value in ahead]
    layer: list[Spec] = [
        {
            "data": {"values": fitted},
            "mark": {"type": "line", "color": MUTED, "strokeDash": [5, 4], "strokeWidth": 2},
            "encoding": {"x": x, "y": y},
        },
        {
            "mark": {"type": "rule", "color": GOLD, "strokeWidth": 2},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
        },
        {
            "mark": {"type": "point", "filled": True, "color": GOLD, "size": 80, "opacity": 1},
            "encoding": {"x": x, "y": y},
        },
    ]
    return _drawn(values, layer, width=WIDTH, height=200)


def differences_chart(rows: Sequence[tuple[str, Figure, bool]], title: str) -> str:
    """Differences with their intervals about a line at 0: (name, difference, whether it is worse)."""
    values = [_row(label, figure, kind=_("worse") if bad else _("not worse")) for label, figure, bad in rows]
    both = [(_("not worse"), GOLD, "circle"), (_("worse"), BLUE, "cross")]
    known = [one for one in both if any(value["kind"] == one[0] for value in values)]
    colour, shape = _told_apart("kind", known)
    reach = max([0.02, *(abs(value[end]) for value in values for end in ("low", "high", "value"))]) * 1.1
    y, x = _names(), _across("value", title, (-reach, reach), "+.3f")
    layer: list[Spec] = [
        {
            "data": {"values": [{"at": 0}]},
            "mark": {"type": "rule", "color": MUTED, "strokeDash": [5, 4], "strokeWidth": 2},
            "encoding": {"x": {**x, "field": "at"}},
        },
        {
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {"y": y, "x": {**x, "field": "low"}, "x2": {"field": "high"}, "color": colour},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1},
            "encoding": {"y": y, "x": x, "color": colour, "shape": shape},
        },
    ]
    return _drawn(values, layer, width=WIDTH, height=BAND * max(2, len(values)))


def training_chart(points: Sequence[tuple[float, float]], title: str) -> str:
    """What a training told while it ran, point by point."""
    values = [{"at": at, "value": value} for at, value in points]
    x = _across("at", _("Report"), None, "d")
    y = _across("value", title, None, ".3g")
    layer: list[Spec] = [
        {"mark": {"type": "line", "color": GOLD, "strokeWidth": 2}, "encoding": {"x": x, "y": y}}
    ]
    return _drawn(values, layer, width=SQUARE, height=140)
