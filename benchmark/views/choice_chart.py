"""The picture of a multiple-choice report."""

from __future__ import annotations

from typing import Any

from annotation.charts import GOLD, chart_url
from benchmark.selectors.choices import Result
from benchmark.views.charting import BLUE, PANELS_IN_A_ROW, SCHEMA
from benchmark.views.choice_words import columns, measures, row_views


def chart(result: Result) -> str | None:
    """A panel for each column: dots with their whiskers, two for each model. None where there is nothing to draw."""
    shown = measures(result.report.kind)
    points = [
        {
            "model": row.model,
            "panel": label,
            "measure": measure.short,
            "value": one.at,
            "low": one.low,
            "high": one.high,
        }
        for row in row_views(result, shown)
        for label, cell in zip(columns(result), row.cells, strict=True)
        for measure, one in zip(shown, cell.numbers, strict=True)
        if one.at is not None
    ]
    return chart_url(_chart(points, columns(result), [one.short for one in shown])) if points else None


def _chart(points: list[dict[str, Any]], panels: list[str], short: list[str]) -> dict[str, Any]:
    models = list(dict.fromkeys(point["model"] for point in points))
    colour = {
        "field": "measure",
        "type": "nominal",
        "sort": short,
        "title": None,
        "scale": {"domain": short, "range": [GOLD, BLUE]},
        "legend": {"orient": "top"},
    }
    shape = {**colour, "scale": {"domain": short, "range": ["circle", "diamond"]}}
    place = {
        "y": {"field": "model", "type": "nominal", "scale": {"domain": models}, "title": None},
        "yOffset": {"field": "measure", "type": "nominal", "scale": {"domain": short}},
    }
    axis = {"title": "%", "scale": {"domain": [0, 100]}}
    x = {"field": "value", "type": "quantitative", **axis}
    layer = [
        {
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "color": colour},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
            "encoding": {"x": x, "color": colour, "shape": shape},
        },
    ]
    return {
        "$schema": SCHEMA,
        "padding": 16,
        "columns": PANELS_IN_A_ROW,
        "concat": [
            {
                "title": panel,
                "data": {"values": [point for point in points if point["panel"] == panel]},
                "width": 220,
                "height": {"step": 18},
                "encoding": place,
                "layer": layer,
            }
            for panel in panels
        ],
    }
