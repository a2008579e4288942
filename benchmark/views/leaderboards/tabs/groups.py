"""Groups of prompts: each model's number by subcomponent, attack method or language, as a heat map and its table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from annotation.core.formatting import format_range
from annotation.domain.guidelines import GuidelineDocument, Metric
from benchmark.domain.leaderboards.grounds import PREDICTED
from benchmark.domain.leaderboards.metrics import SMALL, find_metric, format_metric_value
from benchmark.domain.leaderboards.responses import ATTACK_METHOD, ATTRIBUTES, LANGUAGE, SUBCOMPONENT
from benchmark.models import BenchmarkRun
from benchmark.selectors.leaderboards.runs import find_part, list_board_rows
from benchmark.views.leaderboards.formatting import (
    UNDEFINED,
    attribute_label,
    format_interval,
    group_label,
    join_heading,
    list_metric_views,
    metric_label,
    scope_label,
)
from benchmark.views.leaderboards.query import BoardQuery, Context, choose

SHADES = 5
MIN_NAMED = 10
"""Responses of a cell that is named as the lowest or the highest: of a few, chance makes 0% and 100%."""


@dataclass(frozen=True)
class GroupHead:
    label: str
    scope: str
    """Its dimension, where columns have one; and its metric, where they have several."""
    prompts: int | None
    """None where nobody knows which prompts the responses answer."""


@dataclass(frozen=True)
class GroupCell:
    """``shade`` from 1 (lowest) to 5; 0 where undefined. ``hollow``: predicted, and not compared."""

    value: str
    interval: str
    n: int
    shade: int
    small: bool
    hollow: bool = False


@dataclass(frozen=True)
class GroupNumber:
    """A model's number in a group of prompts."""

    model: str
    group: str
    cell: GroupCell
    number: float


@dataclass(frozen=True)
class GroupFinding:
    """The lowest and the highest number of a metric that rest on gold and on enough responses; where none rests on
    enough, of those that rest on ``MIN_NAMED`` or more.

    In words: ``wording/groups_finding.txt``. ``metric`` is blank where there is one alone.
    """

    metric: str
    lowest: GroupNumber
    highest: GroupNumber
    is_of_part: bool
    """Hollow numbers are left out."""


def groups_context(run: BenchmarkRun, query: Mapping[str, str], *, public: bool = False) -> Context:
    """``not_computed`` where the run has no groups: it was finished before they were computed, or no prompt has any."""
    content = find_part(run, "groups")
    if not content:
        return {"not_computed": content is None, "too_few": content is not None, "public": public}
    document = run.scorer.guideline.document
    place = BoardQuery.of(query)
    attributes = list_attributes(content)
    by = choose(place.by, attributes)
    views = {metric_view.name: metric_view for metric_view in list_metric_views(document)}
    metric = views[choose(place.metric, views)]
    labels = {name: metric_label(view) for name, view in views.items()}
    return {
        "attributes": place.list_choices(
            "by", {attribute: attribute_label(attribute) for attribute in attributes}, by
        ),
        "metrics": place.list_choices("metric", labels, metric.name) if len(views) > 1 else [],
        "small": SMALL,
        **heat_context(run, document, content[by], by, metric),
    }


def list_attributes(content: Mapping[str, Any]) -> list[str]:
    """Those by which there is something to compare: one group alone is the board itself."""
    attributes = [attribute for attribute in ATTRIBUTES if attribute in content]
    return [attribute for attribute in attributes if len(content[attribute]["columns"]) > 1] or attributes


def heat_context(
    run: BenchmarkRun, document: GuidelineDocument, held: Mapping[str, Any], by: str, metric: Metric
) -> Context:
    """The heads, the rows in the order of the board, what the shades mean, and what is lowest and highest."""
    columns = held["columns"]
    metrics = [_metric(document, column["scope"], metric) for column in columns]
    cells = {row["model"]: row["cells"] for row in held["rows"]}
    ordered = [row["model"] for row in list_board_rows(run) if row["model"] in cells]
    bounds = _bounds(
        [
            value
            for model in ordered
            for cell, column_metric in zip(cells[model], metrics, strict=True)
            if (value := _statistic(cell, column_metric)["value"]) is not None
        ]
    )
    labels = {metric.name: metric_label(metric) for metric in metrics if metric is not None}
    heads = [
        GroupHead(
            group_label(document, by, column["name"], column["scope"]),
            _scope_text(
                document,
                column["scope"],
                labels[column_metric.name] if column_metric and len(labels) > 1 else "",
            ),
            column["n_prompts"],
        )
        for column, column_metric in zip(columns, metrics, strict=True)
    ]
    rows = [
        (
            model,
            [
                _cell(cell, column_metric, bounds)
                for cell, column_metric in zip(cells[model], metrics, strict=True)
            ],
        )
        for model in ordered
    ]
    return {
        "heading": attribute_heading(labels.values() or [metric_label(metric)], by),
        "heads": heads,
        "scoped": _scope_spans(heads),
        "rows": rows,
        "any_hollow": any(cell.hollow for _model, row in rows for cell in row),
        "any_small": any(cell.small for _model, row in rows for cell in row),
        "legend": _legend(metric, bounds),
        "findings": list(_list_findings(labels, heads, rows, cells, metrics)),
    }


def _scope_text(document: GuidelineDocument, scope: str | None, metric: str) -> str:
    label = scope_label(document, scope) if scope else ""
    return join_heading(label, metric) if label and metric else label


def attribute_heading(metrics: Iterable[str], attribute: str) -> str:
    """A heading, such as ``Harmless rate by attack method``."""
    words = {
        SUBCOMPONENT: _("{metric} by subcomponent"),
        ATTACK_METHOD: _("{metric} by attack method"),
        LANGUAGE: _("{metric} by language"),
    }
    return words[attribute].format(metric=" / ".join(metrics))


def _metric(document: GuidelineDocument, scope: str | None, metric: Metric) -> Metric | None:
    return metric if scope is None else find_metric(document, scope, metric)


def _statistic(cell: Mapping[str, Any] | None, metric: Metric | None) -> Mapping[str, float | None]:
    statistic: Mapping[str, float | None] | None = cell.get(metric.name) if cell and metric else None
    return statistic or UNDEFINED


def _bounds(values: Sequence[float]) -> list[float]:
    """The ends of the five shades, from the lowest number to the highest; none where they cannot differ."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    if high <= low:
        return []
    return [low + (high - low) * step / SHADES for step in range(SHADES + 1)]


def _cell(cell: Mapping[str, Any] | None, metric: Metric | None, bounds: Sequence[float]) -> GroupCell:
    statistic, n = _statistic(cell, metric), int(cell["n"]) if cell else 0
    value = statistic["value"]
    if metric is None or value is None:
        return GroupCell("", "", n, 0, small=False)
    shade = sum(value >= bound for bound in bounds[:SHADES]) if bounds else 1
    return GroupCell(
        format_metric_value(metric, value),
        format_interval(metric, statistic),
        n,
        max(1, shade),
        small=n < SMALL,
        hollow=cell is not None and cell.get("ground") == PREDICTED,
    )


def _scope_spans(heads: Sequence[GroupHead]) -> list[tuple[str, int]]:
    """The dimensions over the columns, with how many each spans; empty where columns have none."""
    spans: list[tuple[str, int]] = []
    for head in heads:
        if spans and spans[-1][0] == head.scope:
            spans[-1] = (head.scope, spans[-1][1] + 1)
        else:
            spans.append((head.scope, 1))
    return spans if any(scope for scope, _n in spans) else []


def _legend(metric: Metric, bounds: Sequence[float]) -> list[tuple[int, str]]:
    return [
        (
            shade,
            format_range(
                format_metric_value(metric, bounds[shade - 1]), format_metric_value(metric, bounds[shade])
            ),
        )
        for shade in range(1, SHADES + 1)
        if bounds
    ]


def _list_findings(
    labels: Mapping[str, str],
    heads: Sequence[GroupHead],
    rows: Sequence[tuple[str, Sequence[GroupCell]]],
    cells: Mapping[str, Sequence[Mapping[str, Any] | None]],
    metrics: Sequence[Metric | None],
) -> Iterator[GroupFinding]:
    """Of each metric that has numbers."""
    for name, label in labels.items():
        numbers = [
            GroupNumber(model, head.label, cell, value)
            for model, row in rows
            for place, (head, cell) in enumerate(zip(heads, row, strict=True))
            if (metric := metrics[place]) is not None
            and metric.name == name
            and (value := _statistic(cells[model][place], metric)["value"]) is not None
        ]
        measured = [number for number in numbers if not number.cell.hollow]
        large = [number for number in measured if not number.cell.small]
        large = large or [number for number in measured if number.cell.n >= MIN_NAMED]
        if large:
            lowest, highest = (pick(large, key=lambda number: number.number) for pick in (min, max))
            is_of_part = len(measured) < len(numbers)
            yield GroupFinding(label if len(labels) > 1 else "", lowest, highest, is_of_part)
