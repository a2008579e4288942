"""Groups of prompts: each model's number by subcomponent, attack method, malice or language, as a heat map and its
table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from annotation.core.formatting import format_range
from annotation.domain.guidelines import GuidelineDocument, Metric
from annotation.models import Person
from benchmark.domain.leaderboards.grounds import PREDICTED
from benchmark.domain.leaderboards.metrics import ALL, SMALL, find_metric, format_metric_value
from benchmark.domain.leaderboards.responses import (
    ATTACK_METHOD,
    ATTRIBUTES,
    LANGUAGE,
    MALICE,
    METHOD_BY_MALICE,
    SUBCOMPONENT,
)
from benchmark.models import BenchmarkRun
from benchmark.selectors.leaderboards.runs import find_part, list_board_rows
from benchmark.selectors.published_tables import list_reference_rows
from benchmark.views.leaderboards.charts import group_by_table
from benchmark.views.leaderboards.formatting import (
    UNDEFINED,
    BoardColumn,
    BoardRow,
    attribute_label,
    format_interval,
    group_label,
    join_heading,
    list_metric_views,
    list_overall_metrics,
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
    n: int | None
    """None where a published table does not tell it."""
    shade: int
    small: bool
    hollow: bool = False


GroupLine = tuple[str, Sequence[GroupCell]]
"""A model with its cells."""


@dataclass(frozen=True)
class GroupReference:
    """The rows of a published table of one language; it has a number in the columns of that language alone."""

    published: Mapping[str, str]
    lines: Sequence[GroupLine]


@dataclass(frozen=True)
class GroupTable:
    """Numbers with their intervals: a column for each group; or, titled, a group with a column for each metric."""

    title: str
    heads: Sequence[GroupHead]
    lines: Sequence[GroupLine]
    references: Sequence[GroupReference] = ()
    prompts: int | None = None
    """Of the group that it is titled after."""


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


def groups_context(
    run: BenchmarkRun,
    query: Mapping[str, str],
    *,
    reader: Person | None,
    public: bool = False,
    with_published: bool = True,
) -> Context:
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
    published = list_reference_rows(run, reader, of_language=True) if with_published else []
    return {
        "attributes": place.list_choices(
            "by", {attribute: attribute_label(attribute) for attribute in attributes}, by
        ),
        "metrics": place.list_choices("metric", labels, metric.name) if len(views) > 1 else [],
        "small": SMALL,
        **heat_context(run, document, content[by], by, metric),
        "tables": list_group_tables(run, content[by], by, metric, published),
    }


def list_group_tables(
    run: BenchmarkRun,
    held: Mapping[str, Any],
    by: str,
    metric: Metric,
    published: Sequence[BoardRow] = (),
) -> list[GroupTable]:
    """The numbers with their intervals; below those of a language the published tables of it. Without dimensions a
    board has its metrics for columns, and so has each language.
    """
    document = run.scorer.guideline.document
    published = published if by == LANGUAGE else ()
    cells = _order_cells(run, held)
    if by == LANGUAGE and not document.dimensions:
        metrics = list_overall_metrics(document) or list(document.metrics)
        heads = [GroupHead(metric_label(own), "", None) for own in metrics]
        return [
            GroupTable(
                join_heading(attribute_label(by), column["name"]),
                heads,
                [(model, [_cell(own[place], of, ()) for of in metrics]) for model, own in cells],
                _list_references(document, published, [(column["name"], of) for of in metrics]),
                column["n_prompts"],
            )
            for place, column in enumerate(held["columns"])
        ]
    columns = [(column["name"], _metric(document, column["scope"], metric)) for column in held["columns"]]
    lines = [
        (model, [_cell(cell, of, ()) for cell, (_name, of) in zip(own, columns, strict=True)])
        for model, own in cells
    ]
    heads = _list_heads(document, held, by, metric)
    return [GroupTable("", heads, lines, _list_references(document, published, columns))]


def _order_cells(run: BenchmarkRun, held: Mapping[str, Any]) -> list[tuple[str, list[Any]]]:
    """By model, in the order of the board."""
    cells = {row["model"]: row["cells"] for row in held["rows"]}
    return [(row["model"], cells[row["model"]]) for row in list_board_rows(run) if row["model"] in cells]


def _list_references(
    document: GuidelineDocument, published: Sequence[BoardRow], columns: Sequence[tuple[str, Metric | None]]
) -> list[GroupReference]:
    """Of the published tables that have a number in these columns, each a group and its metric."""
    references = []
    for rows in group_by_table(published):
        table = rows[0]["published"]
        lines = [
            (
                row["model"],
                [
                    _published_cell(document, row, metric if group == table["language"] else None)
                    for group, metric in columns
                ],
            )
            for row in rows
        ]
        lines = [line for line in lines if any(cell.value for cell in line[1])]
        if lines:
            references.append(GroupReference(table, lines))
    return references


def _published_cell(document: GuidelineDocument, row: BoardRow, metric: Metric | None) -> GroupCell:
    if metric is None:
        return GroupCell("", "", None, 0, small=False)
    is_overall = bool(document.dimensions) or metric.overall != "none"
    statistic = BoardColumn(None if is_overall else ALL, metric).statistic(row)
    value = "" if statistic["value"] is None else format_metric_value(metric, statistic["value"])
    return GroupCell(value, format_interval(metric, statistic), row["n"], 0, small=False)


def list_attributes(content: Mapping[str, Any]) -> list[str]:
    """Those by which there is something to compare: one group alone is the board itself."""
    attributes = [attribute for attribute in ATTRIBUTES if attribute in content]
    return [attribute for attribute in attributes if len(content[attribute]["columns"]) > 1] or attributes


def heat_context(
    run: BenchmarkRun, document: GuidelineDocument, held: Mapping[str, Any], by: str, metric: Metric
) -> Context:
    """The heads, the rows in the order of the board, what the shades mean, and what is lowest and highest."""
    metrics = [_metric(document, column["scope"], metric) for column in held["columns"]]
    cells = _order_cells(run, held)
    bounds = _bounds(
        [
            value
            for _model, own in cells
            for cell, column_metric in zip(own, metrics, strict=True)
            if (value := _statistic(cell, column_metric)["value"]) is not None
        ]
    )
    labels = {metric.name: metric_label(metric) for metric in metrics if metric is not None}
    heads = _list_heads(document, held, by, metric)
    rows = [
        (
            model,
            [_cell(cell, column_metric, bounds) for cell, column_metric in zip(own, metrics, strict=True)],
        )
        for model, own in cells
    ]
    return {
        "heading": attribute_heading(labels.values() or [metric_label(metric)], by),
        "heads": heads,
        "scoped": _scope_spans(heads),
        "rows": rows,
        "any_hollow": any(cell.hollow for _model, row in rows for cell in row),
        "any_small": any(cell.small for _model, row in rows for cell in row),
        "legend": _legend(metric, bounds),
        "findings": list(_list_findings(labels, heads, rows, dict(cells), metrics)),
    }


def _list_heads(
    document: GuidelineDocument, held: Mapping[str, Any], by: str, metric: Metric
) -> list[GroupHead]:
    columns = held["columns"]
    metrics = [_metric(document, column["scope"], metric) for column in columns]
    several = len({own.name for own in metrics if own is not None}) > 1
    return [
        GroupHead(
            group_label(document, by, column["name"], column["scope"]),
            _scope_text(document, column["scope"], metric_label(own) if own and several else ""),
            column["n_prompts"],
        )
        for column, own in zip(columns, metrics, strict=True)
    ]


def _scope_text(document: GuidelineDocument, scope: str | None, metric: str) -> str:
    label = scope_label(document, scope) if scope else ""
    return join_heading(label, metric) if label and metric else label


def attribute_heading(metrics: Iterable[str], attribute: str) -> str:
    """A heading, such as ``Harmless rate by attack method``."""
    words = {
        SUBCOMPONENT: _("{metric} by subcomponent"),
        ATTACK_METHOD: _("{metric} by attack method"),
        MALICE: _("{metric} by malice"),
        METHOD_BY_MALICE: _("{metric} by attack method and malice"),
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
        large = large or [number for number in measured if (number.cell.n or 0) >= MIN_NAMED]
        if large:
            lowest, highest = (pick(large, key=lambda number: number.number) for pick in (min, max))
            is_of_part = len(measured) < len(numbers)
            yield GroupFinding(label if len(labels) > 1 else "", lowest, highest, is_of_part)
