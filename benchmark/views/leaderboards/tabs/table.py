"""The board itself: its table, with its pictures and what it took.

``board_context`` needs no more than the run; with ``public`` nothing in it leads into the product. The parts under
``templates/benchmark/leaderboards/tabs/`` need ``run`` and this context alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from annotation.core.charts import chart_url
from annotation.core.formatting import (
    format_compact,
    format_decimal,
    format_elapsed,
    format_grouped,
    format_percent_compact,
)
from annotation.core.text_templates import join_names, render_text
from annotation.domain.guidelines import GuidelineDocument, Metric
from annotation.models import Person
from benchmark.domain.leaderboards.grounds import (
    COMBINED,
    PREDICTED,
)
from benchmark.domain.leaderboards.metrics import (
    SMALL,
    UNRANKED,
    find_metric,
    format_metric_value,
    format_rank,
)
from benchmark.domain.leaderboards.responses import LANGUAGE
from benchmark.models import BenchmarkRun
from benchmark.selectors.leaderboards.runs import find_board, list_board_rows
from benchmark.selectors.published_tables import list_reference_rows
from benchmark.views.leaderboards.charts import (
    Draw,
    Ends,
    axes_by_metric,
    axis_domain,
    board_charts,
    chart_alt,
    draw_trade_off,
    group_by_table,
    list_dots,
    unit_factor,
)
from benchmark.views.leaderboards.formatting import (
    BoardColumn,
    BoardRow,
    axis_top,
    cell_address,
    format_composition,
    format_interval,
    heading,
    join_heading,
    list_columns,
    list_metric_views,
    metric_label,
    sort_direction,
)
from benchmark.views.leaderboards.query import GROUPS, BoardQuery, Context, choose
from benchmark.views.leaderboards.tabs.reading import (
    BoardFinding,
    count_bases,
    count_compared,
    find_headline_column,
    find_leader,
    headline_column,
    headline_label,
    list_bias,
    reading_context,
)


def list_tiles(run: BenchmarkRun) -> list[dict[str, Any]]:
    rows = list_board_rows(run)
    counts = count_bases(rows)
    counted = [
        {"label": _("Models"), "value": format_grouped(len(rows)), "note": ""},
        {
            "label": _("Responses"),
            "value": format_grouped(sum(row["n"] for row in rows)),
            "note": format_composition(counts),
        },
    ]
    return counted + list_cost_tiles(run.cost)


def list_cost_tiles(cost: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What scoring took; nothing of a run that predicted nothing."""
    each = cost.get("per_response")
    if each is None:
        return []
    note = render_text("benchmark/wording/cost.txt", cost=cost)
    return [{"label": _("Cost of a response"), "value": format_elapsed(each), "note": note}]


@dataclass(frozen=True)
class BoardHead:
    label: str
    metric: str
    low: str
    high: str
    """What the ends of the whiskers' axis are."""
    n: str
    """Of how many responses, where it is the same in all rows; blank where the rows say it."""
    url: str
    """The board by this column."""
    sorted: str
    """``ascending`` or ``descending`` where the board is ordered by it, the best first; else blank."""


@dataclass(frozen=True)
class BoardCell:
    """A number in its cell. ``x``, ``x1``, ``x2`` are the whisker on its axis, 0 to 100; blank where undefined."""

    url: str
    value: str
    interval: str
    x: str
    x1: str
    x2: str
    note: str
    small: bool
    overall: bool
    hollow: bool
    """It is predicted, and not compared."""


@dataclass(frozen=True)
class BoardLine:
    model: str
    url: str
    rank: str
    leads: bool
    """No other model can be first, of all."""
    composition: str
    hollow: bool
    """The number that it is ranked by is predicted, and not compared."""
    is_partly_gold: bool
    """Some of what that number counts is gold."""
    cells: tuple[BoardCell, ...]


@dataclass(frozen=True)
class ReferenceTable:
    """The rows of one published table, in its own order."""

    name: str
    source: str
    url: str
    lines: tuple[BoardLine, ...]


def board_context(
    run: BenchmarkRun,
    query: Mapping[str, str],
    *,
    reader: Person | None,
    public: bool = False,
    draw: Draw = chart_url,
    with_published: bool = True,
) -> Context:
    document = run.scorer.guideline.document
    place = BoardQuery.of(query)
    views = {metric_view.name: metric_view for metric_view in list_metric_views(document)}
    metric = views[choose(place.metric, views)]
    columns = list_columns(document, metric)
    rows: list[BoardRow] = list(list_board_rows(run))
    published = list_reference_rows(run, reader, of_language=False) if with_published else []
    of_language = list_reference_rows(run, reader, of_language=True) if with_published else []
    axes = axes_by_metric(document, [*rows, *published], columns)
    names = {column.choice_name(document): column for column in columns}
    by = place.sort and choose(place.sort, names)
    if by:
        rows = _sort_by_column(rows, names[by])
    equal_sizes = [len({column.n(row) for row in rows}) == 1 for column in columns]
    cells = "" if public else reverse("run-cell", args=[run.name])
    several = len(rows) > 1 and all(row.get("ground") is None or row["rank"] for row in rows)
    ranking = names[by] if by and _has_ranks(document, names[by], rows) else None
    lines = [
        _board_line(row, columns, axes, equal_sizes, ranking, cells=cells, several=several) for row in rows
    ]
    labels = {name: metric_label(view) for name, view in views.items()}
    lead = document.metric(document.rank_by)
    compared = count_compared(run, ranking.scope if ranking else None)
    finding = find_leader(run)
    return {
        "metrics": place.list_choices("metric", labels, metric.name) if len(views) > 1 else [],
        "metric": metric_label(metric),
        "rank_by": metric_label(lead)
        if ranking is None
        else join_heading(ranking.label(document), metric_label(ranking.metric)),
        "ranked": not by,
        "by_rank": place.link(sort=""),
        "heads": [
            _board_head(
                document, column, columns, rows, axes, url=place.link(sort=name), is_sorted=name == by
            )
            for name, column in names.items()
        ],
        "lines": lines,
        "references": list_reference_tables(published, columns, axes),
        "of_language": [rows[0]["published"] for rows in group_by_table(of_language)],
        "by_language": place.link(view=GROUPS, by=LANGUAGE),
        "finding": finding,
        **trade_off_context(run, finding, draw),
        **reading_context(run),
        "compared": compared,
        "has_ranks": any(line.rank != UNRANKED for line in lines),
        "any_hollow": any(cell.hollow for line in lines for cell in line.cells),
        "public": public,
        **list_bias(run),
        "tiles": list_tiles(run),
        "small_cells": sum(cell.small for line in lines for cell in line.cells),
        "small": SMALL,
        "left_out": find_board(run).get("left_out", 0),
        "charts": board_charts(document, list_board_rows(run), columns, axes, draw, published=published),
        "chart_alt": chart_alt(run, metric, columns, published),
    }


def trade_off_context(run: BenchmarkRun, finding: BoardFinding | None, draw: Draw) -> Context:
    """The number that the board is ranked by against the first headline number that disagrees with it on who is
    best; nothing where none does, or where fewer than two models have both."""
    if finding is None or not finding.disagreeing:
        return {}
    document, rows = run.scorer.guideline.document, list_board_rows(run)
    sides, labels = [], []
    for column in (headline_column(run), find_headline_column(document, finding.disagreeing[0].metric)):
        unit = unit_factor(column.metric)
        dots = {dot.model: dot for dot in list_dots(column, rows, unit=unit)}
        top = axis_top(document, column.metric) * unit
        ends = axis_domain([*dots.values()], 0.0, top) if top > 0 else axis_domain([*dots.values()])
        label = headline_label(run, column)
        sides.append((f"{label}, %" if column.metric.kind == "rate" else label, dots, ends))
        labels.append(label)
    if len(set(sides[0][1]) & set(sides[1][1])) < 2:
        return {}
    return {"trade_off": draw(draw_trade_off(sides[0], sides[1])), "trade_off_numbers": labels}


def _sort_by_column(rows: Sequence[BoardRow], column: BoardColumn) -> list[BoardRow]:
    """The best first, in the order of the ranks where they are equal; what is undefined comes last."""
    values = [(column.statistic(row)["value"], row) for row in rows]
    known = [(value, row) for value, row in values if value is not None]
    known.sort(key=lambda entry: -column.metric.sign * entry[0])
    return [row for _value, row in known] + [row for value, row in values if value is None]


def list_reference_tables(
    published: Sequence[BoardRow], columns: Sequence[BoardColumn], axes: Mapping[str, Ends]
) -> list[ReferenceTable]:
    """Table by table; what others published has no rank and no cell to open."""
    equal_sizes = [False] * len(columns)
    references = []
    for rows in group_by_table(published):
        table = rows[0]["published"]
        lines = tuple(
            _board_line(row, columns, axes, equal_sizes, None, cells="", several=False) for row in rows
        )
        references.append(ReferenceTable(table["name"], table["source"], table["url"], lines))
    return references


def _board_head(
    document: GuidelineDocument,
    column: BoardColumn,
    columns: Sequence[BoardColumn],
    rows: Sequence[BoardRow],
    axes: Mapping[str, Ends],
    *,
    url: str,
    is_sorted: bool,
) -> BoardHead:
    label, metric = heading(document, column, columns)
    low, high = axes[column.metric.name]
    sizes = {column.n(row) or 0 for row in rows}
    n = f"n = {format_grouped(sizes.pop())}" if len(sizes) == 1 else ""
    return BoardHead(
        label,
        metric,
        _format_end(column.metric, low),
        _format_end(column.metric, high),
        n,
        url,
        sort_direction(column.metric) if is_sorted else "",
    )


def _format_end(metric: Metric, value: float) -> str:
    """An end of an axis, a round number."""
    return format_percent_compact(value) if metric.kind == "rate" else format_compact(value)


def _board_line(
    row: BoardRow,
    columns: Sequence[BoardColumn],
    axes: Mapping[str, Ends],
    equal_sizes: Sequence[bool],
    ranking: BoardColumn | None,
    *,
    cells: str,
    several: bool,
) -> BoardLine:
    """``cells`` is the address of the run's cells; blank where nothing leads there. Without ``ranking`` the rank is
    that of the whole board."""
    rank, model = row["rank"] if ranking is None else ranking.rank(row), row["model"]
    ground = row.get("ground") if ranking is None else ranking.ground(row)
    bases = BoardColumn(None, columns[0].metric).composition(row) if columns else {}
    return BoardLine(
        model=model,
        url=cells and cell_address(cells, model, None),
        rank=format_rank(rank),
        leads=rank is not None and rank["high"] == 1 and several,
        composition=format_composition(bases) if bases else "",
        hollow=ground == PREDICTED,
        is_partly_gold=bool((bases if ranking is None else ranking.composition(row)).get("gold")),
        cells=tuple(
            _board_cell(row, column, axes[column.metric.name], cells=cells, equal_size=equal_size)
            for column, equal_size in zip(columns, equal_sizes, strict=True)
        ),
    )


def _has_ranks(document: GuidelineDocument, column: BoardColumn, rows: Sequence[BoardRow]) -> bool:
    """Whether models have a rank in this column: they do by the number that it has on the board as it opens.

    Boards that were computed earlier have none.
    """
    if column.scope is None or column.metric != find_metric(
        document, column.scope, document.metric(document.rank_by)
    ):
        return False
    return any(column.rank(row) for row in rows)


def _board_cell(row: BoardRow, column: BoardColumn, axis: Ends, *, cells: str, equal_size: bool) -> BoardCell:
    statistic, n, missing = column.statistic(row), column.n(row), column.missing(row)
    x, x1, x2 = (_axis_position(statistic[part], axis) for part in ("value", "low", "high"))
    parts = [] if equal_size or n is None else [f"n = {format_grouped(n)}"]
    if column.scope is not None:
        parts.append(_gold_note(column, row))
    if column.ground(row) == COMBINED:
        parts.append(pgettext("number", "combined"))
    if missing:
        parts.append(_("{n} without a value").format(n=missing))
    return BoardCell(
        url=cells and cell_address(cells, row["model"], column.scope),
        value=format_metric_value(column.metric, statistic["value"]),
        interval=format_interval(column.metric, statistic),
        x=x,
        x1=x1,
        x2=x2,
        note=join_names(part for part in parts if part),
        small=0 < (n or 0) < SMALL if column.scope is not None else False,
        overall=column.scope is None,
        hollow=column.ground(row) == PREDICTED,
    )


def _gold_note(column: BoardColumn, row: BoardRow) -> str:
    """How many responses people labelled; the whole composition stands by its model."""
    bases = column.composition(row)
    return _("{n} gold").format(n=format_grouped(bases["gold"])) if bases.get("gold") else ""


def _axis_position(value: float | None, axis: Ends) -> str:
    low, high = axis
    at = None if value is None or high <= low else 100 * (value - low) / (high - low)
    return format_decimal(at, 1, undefined="")
