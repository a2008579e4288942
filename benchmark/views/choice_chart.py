"""The picture of a multiple-choice report."""

from __future__ import annotations

from typing import Any

from annotation.charts import (
    BLUE,
    GOLD,
    SCHEMA,
    Look,
    Spec,
    chart_url,
    draw_interval,
    draw_points,
    make_looks,
    make_picture,
    make_quantity,
)
from benchmark.selectors.choices import ChoiceReportResult
from benchmark.views.charting import PANELS_IN_A_ROW
from benchmark.views.choice_words import columns, measures, row_views


def chart(result: ChoiceReportResult) -> str | None:
    """A panel for each column: dots with their whiskers, two for each model. None where there is nothing to draw."""
    report_measures = measures(result.report.kind)
    points = [
        {
            "model": row.model,
            "panel": label,
            "measure": measure.short,
            "value": number.at,
            "low": number.low,
            "high": number.high,
        }
        for row in row_views(result, report_measures)
        for label, cell in zip(columns(result), row.cells, strict=True)
        for measure, number in zip(report_measures, cell.numbers, strict=True)
        if number.at is not None
    ]
    return (
        chart_url(_chart(points, columns(result), [measure.short for measure in report_measures]))
        if points
        else None
    )


def _chart(points: list[dict[str, Any]], panels: list[str], short: list[str]) -> Spec:
    models = list(dict.fromkeys(point["model"] for point in points))
    marks = zip(short, (GOLD, BLUE), ("circle", "diamond"), strict=False)
    colour, shape = make_looks("measure", [Look(*mark) for mark in marks], {"orient": "top"}, sort=short)
    y = {"field": "model", "type": "nominal", "scale": {"domain": models}, "title": None}
    offset = {"field": "measure", "type": "nominal", "scale": {"domain": short}}
    x = make_quantity("value", "%", scale={"domain": [0, 100]})
    layer = [
        draw_interval(x, y, yOffset=offset, color=colour),
        draw_points(x, y, mark={"size": 60}, yOffset=offset, color=colour, shape=shape),
    ]
    pictures = []
    for panel in panels:
        values = [point for point in points if point["panel"] == panel]
        pictures.append(make_picture(layer, values, title=panel, width=220, height={"step": 18}))
    return {"$schema": SCHEMA, "padding": 16, "columns": PANELS_IN_A_ROW, "concat": pictures}
