"""What people say, what the scorer says, and both together: prediction-powered estimates beside their parts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from django.utils.text import capfirst
from django.utils.translation import gettext as _

from annotation.core.charts import chart_url
from annotation.core.formatting import format_decimal, format_grouped
from annotation.core.text_templates import render_text
from annotation.domain.guidelines import GuidelineDocument, Metric
from benchmark.domain.estimates.selection import UNKNOWN, sum_unknown
from benchmark.domain.leaderboards.grounds import COMBINED
from benchmark.domain.leaderboards.metrics import ALL, format_metric_difference, format_metric_value
from benchmark.models import BenchmarkRun
from benchmark.selectors.leaderboards.runs import find_part, list_board_rows
from benchmark.views.leaderboards import charts as charts_views
from benchmark.views.leaderboards.charts import Draw, make_dot, unit_factor
from benchmark.views.leaderboards.formatting import (
    BoardColumn,
    Statistic,
    axis_top,
    format_interval,
    heading,
    join_heading,
    list_columns,
    list_metric_views,
    metric_label,
)
from benchmark.views.leaderboards.query import OVERALL, BoardQuery, Context, choose

KINDS = ("people", "scorer", "combined", "finite")
WITHHELD_KINDS = ("combined", "finite")
"""Those that have no interval, and are not drawn, where the board does not compare a number."""


@dataclass(frozen=True)
class EstimatedNumber:
    """One of the four numbers; blank text where it is undefined."""

    value: str
    interval: str
    n: int | None


@dataclass(frozen=True)
class EstimateRow:
    model: str
    numbers: tuple[EstimatedNumber, ...]
    """In the order of KINDS."""
    weight: str
    bias: str
    unknown_selection: str = ""
    """How many of the labels no known chance has chosen; blank where none."""
    reason: str = ""
    """Why the board does not compare the number: then those of gold and predictions have no interval."""
    on_board: EstimatedNumber | None = None
    """What the board itself says; None where it does not stand beside these."""


def estimates_context(
    run: BenchmarkRun, query: Mapping[str, str], *, public: bool = False, draw: Draw = chart_url
) -> Context:
    content = find_part(run, "estimates")
    if not content or not content["rows"]:
        return {"not_computed": content is None, "too_few": content is not None, "public": public}
    document = run.scorer.guideline.document
    place = BoardQuery.of(query)
    views = {metric_view.name: metric_view for metric_view in list_metric_views(document)}
    lead = views[choose(place.metric, views)]
    columns = {candidate.choice_name(document): candidate for candidate in list_columns(document, lead)}
    scope = choose(place.scope, columns)
    column = columns[scope]
    cells = order_cells(run, content, column.name, column.metric)
    board_rows = {row["model"]: row for row in list_board_rows(run)}
    labels = {
        name: heading(document, candidate, list(columns.values()))[0] for name, candidate in columns.items()
    }
    return {
        "metrics": place.list_choices("metric", {n: metric_label(m) for n, m in views.items()}, lead.name)
        if len(views) > 1
        else [],
        "scopes": place.list_choices("scope", labels, scope),
        "heading": join_heading(labels[scope], metric_label(column.metric)),
        "rate": column.metric.kind == "rate",
        "heads": list_heads(),
        "lines": (
            lines := [
                make_row(
                    model,
                    cell,
                    column.metric,
                    count_unknown_selection(content, model, list_dimensions(document, column)),
                    column.statistic(board_rows[model]),
                )
                for model, cell in cells
            ]
        ),
        "grounds": {column.ground(board_rows[model]) for model, _cell in cells},
        "weighed": any(line.weight for line in lines),
        "withheld": any(line.reason for line in lines),
        "has_finite": any(not line.reason for line in lines),
        "has_other_intervals": column.scope is None
        and column.metric.overall == "mean_of_dimensions"
        and any(column.ground(row) == COMBINED for row in list_board_rows(run)),
        "selections": list_unknown_selection(content, public=public),
        "findings": list_findings(cells, column.metric),
        "charts": draw_charts(document, cells, column.metric, draw),
        "chart_alt": chart_alt(labels[scope], column.metric, cells),
        "none_combined": not any(_has_estimate(cell, "combined") for _model, cell in cells),
    }


def order_cells(
    run: BenchmarkRun, content: Mapping[str, Any], scope: str, metric: Metric
) -> list[tuple[str, Mapping[str, Any]]]:
    """The cells of a scope with their models, in the order of the board; an empty cell where there is nothing."""
    cells = {row["model"]: row["cells"] for row in content["rows"]}
    models = [row["model"] for row in list_board_rows(run) if row["model"] in cells]
    ordered_cells = []
    for model in models:
        metric_cells = cells[model].get(scope) or (cells[model].get(ALL) if scope == OVERALL else None) or {}
        ordered_cells.append((model, metric_cells.get(metric.name) or {}))
    return ordered_cells


def list_heads() -> list[str]:
    """Of the columns with the four numbers, in the order of KINDS."""
    return [capfirst(look.word) for look in charts_views.estimate_looks().values()]


def _has_estimate(cell: Mapping[str, Any], kind: str) -> bool:
    return bool(cell.get(kind)) and cell[kind]["value"] is not None


def make_row(
    model: str,
    cell: Mapping[str, Any],
    metric: Metric,
    unknown_chance: int = 0,
    on_board: Statistic | None = None,
) -> EstimateRow:
    weight, bias = cell.get("weight"), cell.get("bias")
    return EstimateRow(
        model,
        tuple(_estimated_number(cell, kind, metric) for kind in KINDS),
        format_decimal(weight, 2, undefined=""),
        "" if bias is None else format_metric_difference(metric, bias),
        _("{n} not drawn by chance").format(n=format_grouped(unknown_chance)) if unknown_chance else "",
        cell.get("reason") or "",
        None if on_board is None else _estimated_number({"board": on_board}, "board", metric),
    )


def list_dimensions(document: GuidelineDocument, column: BoardColumn) -> Collection[str]:
    """The dimensions that a number is of."""
    if column.scope is None:
        return document.dimensions_of(column.metric) or (ALL,)
    return (column.scope,)


def count_unknown_selection(content: Mapping[str, Any], model: str, dimensions: Collection[str]) -> int:
    """How many of the model's labels in these no known chance has chosen."""
    return sum(
        selected["labels"]
        for selected in content.get("selection") or ()
        if selected["model"] == model and selected["how"] in UNKNOWN and selected["dimension"] in dimensions
    )


def list_unknown_selection(content: Mapping[str, Any], *, public: bool = False) -> list[dict[str, Any]]:
    """Of each batch whose gold no known chance has chosen: how many labels, and why; outsiders read no batch's name.

    Each has a ``code``; in words: ``wording/selection.txt``.
    """
    if "selection" not in content:
        return [{"code": "unknown"}]
    batches = sum_unknown(content["selection"])
    if not batches:
        return []
    return [
        {"code": "assumption"},
        *(
            {
                "code": batch["how"],
                "batch": "" if public else batch["batch"],
                "labels": batch["labels"],
                "without_gold": batch["without_gold"],
            }
            for batch in batches
        ),
    ]


def _estimated_number(cell: Mapping[str, Any], kind: str, metric: Metric) -> EstimatedNumber:
    if not _has_estimate(cell, kind):
        n = cell[kind].get("n") if cell.get(kind) else None
        return EstimatedNumber("", "", n)
    return EstimatedNumber(
        format_metric_value(metric, cell[kind]["value"]),
        format_interval(metric, cell[kind]),
        cell[kind].get("n"),
    )


def list_findings(held: Sequence[tuple[str, Mapping[str, Any]]], metric: Metric) -> list[dict[str, Any]]:
    """What the scorer added, and what trusting it alone would have done, of the models that the board compares.

    Each has a ``topic``: ``gain``, ``bias`` or ``coverage``; in words: ``wording/estimates_finding.txt``.
    """
    both = [
        (model, cell) for model, cell in held if _has_estimate(cell, "combined") and not cell.get("reason")
    ]
    if not both:
        return []
    findings: list[dict[str, Any]] = []
    saved = [
        gain
        for _model, cell in both
        if (gain := measure_narrowing(cell["people"], cell["combined"])) is not None
    ]
    if saved:
        findings.append({"topic": "gain", "gain": median(saved), "n": len(saved)})
    biases = [(model, cell["bias"]) for model, cell in both if cell.get("bias") is not None]
    if biases:
        model, bias = max(biases, key=lambda of_model: abs(of_model[1]))
        mean = sum(value for _model, value in biases) / len(biases)
        findings.append({"topic": "bias", "metric": metric, "model": model, "bias": bias, "mean": mean})
    missed = sum(is_missed(cell) for _model, cell in both)
    return [*findings, {"topic": "coverage", "n": len(both), "missed": missed}]


def measure_narrowing(people: Mapping[str, Any], combined: Mapping[str, Any]) -> float | None:
    """By which share of people's interval the combined one is shorter."""
    widths = []
    for statistic in (people, combined):
        if statistic["low"] is None or statistic["high"] is None:
            return None
        widths.append(statistic["high"] - statistic["low"])
    return 1 - widths[1] / widths[0] if widths[0] > 0 else None


def is_missed(cell: Mapping[str, Any]) -> bool:
    scorer, value = cell["scorer"], cell["combined"]["value"]
    if scorer["low"] is None or scorer["high"] is None:
        return False
    return not scorer["low"] <= value <= scorer["high"]


def draw_charts(
    document: GuidelineDocument, held: Sequence[tuple[str, Mapping[str, Any]]], metric: Metric, draw: Draw
) -> list[str]:
    unit, looks = unit_factor(metric), charts_views.estimate_looks()
    dots = [
        make_dot(model, cell[kind], unit, looks[kind].word)
        for model, cell in held
        for kind in KINDS
        if _has_estimate(cell, kind) and not (cell.get("reason") and kind in WITHHELD_KINDS)
    ]
    if not dots:
        return []
    top = axis_top(document, metric)
    domain = charts_views.axis_domain(dots, 0.0, top * unit) if top > 0 else charts_views.axis_domain(dots)
    models = [model for model, _cell in held if any(dot.model == model for dot in dots)]
    title = metric_label(metric) + (" (%)" if metric.kind == "rate" else "")
    return charts_views.draw_chart(charts_views.draw_estimates(dots, models, title, domain), draw)


def chart_alt(scope: str, metric: Metric, held: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    return render_text(
        "benchmark/wording/estimates_alt.txt",
        scope=scope,
        metric=metric_label(metric),
        finding=next(iter(list_findings(held, metric)), None),
    )
