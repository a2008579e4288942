"""What may be said of a board: who leads and how surely, what it rests on, and what it took.

The board itself: its table, with its pictures and what may be said of it.

``board_context`` needs no more than the run; with ``public`` nothing in it leads into the product. The parts under
``templates/benchmark/tabs/`` need ``run`` and this context alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _

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
from benchmark.domain.leaderboards.metrics import (
    SMALL,
    UNRANKED,
    find_metric,
    format_metric_value,
    format_rank,
    list_metric_scopes,
)
from benchmark.domain.leaderboards.withholding import NOT_RANKED
from benchmark.models import BenchmarkRun
from benchmark.selectors.leaderboards.runs import find_board, list_board_rows
from benchmark.selectors.published_tables import list_reference_rows
from benchmark.views.leaderboards.charts import (
    Draw,
    Ends,
    axes_by_metric,
    board_charts,
    chart_alt,
    group_by_table,
)
from benchmark.views.leaderboards.formatting import (
    BoardColumn,
    BoardRow,
    Statistic,
    cell_address,
    format_composition,
    format_interval,
    heading,
    join_heading,
    list_columns,
    list_metric_views,
    metric_label,
)
from benchmark.views.leaderboards.query import BoardQuery, Context, choose


@dataclass(frozen=True)
class HeadlineNumber:
    """A number that heads a board, and whose it is."""

    label: str
    metric: Metric
    value: float
    models: tuple[str, ...]


@dataclass(frozen=True)
class BoardFinding:
    """Who stands first by which number, and who does by other numbers; in words: ``wording/board_finding.txt``.

    ``claim`` is ``highest`` where ranks are withheld, ``only`` of a single model, ``sure`` where no other model can be
    first, and ``open`` where ``rivals`` may be first as well.
    """

    claim: str
    lead: HeadlineNumber
    statistic: Statistic
    rivals: int
    disagreeing: tuple[HeadlineNumber, ...]
    """The other headline numbers by which another model stands highest."""


def find_leader(run: BenchmarkRun) -> BoardFinding | None:
    """None where nobody has the number that the board is ranked by."""
    column = headline_column(run)
    rows = [row for row in list_board_rows(run) if column.statistic(row)["value"] is not None]
    if not rows:
        return None
    statistic, rivals = column.statistic(rows[0]), 0
    value = statistic["value"]
    assert value is not None
    models = [rows[0]["model"]]
    if rows[0]["rank"] is None:
        claim = "highest"
        models = [row["model"] for row in rows if column.statistic(row)["value"] == value]
    elif len(rows) == 1:
        claim = "only"
    else:
        rivals = sum(row["rank"]["low"] == 1 for row in rows[1:])
        # somebody is first, and all others are surely behind someone
        claim = "sure" if rows[0]["rank"]["high"] == 1 or not rivals else "open"
    lead = HeadlineNumber(headline_label(run, column), column.metric, value, tuple(models))
    return BoardFinding(
        claim, lead, statistic, rivals, tuple(_list_disagreeing(run, rows[0]["model"], column))
    )


def headline_column(run: BenchmarkRun) -> BoardColumn:
    """The column that the board is ranked by."""
    document = run.scorer.guideline.document
    return _headline_of(document, document.metric(document.rank_by))


def headline_value(run: BenchmarkRun, row: BoardRow) -> float | None:
    """The number that the board is ranked by."""
    return headline_column(run).statistic(row)["value"]


def _headline_of(document: GuidelineDocument, metric: Metric) -> BoardColumn:
    """Its overall number; without one, that of its first dimension."""
    return BoardColumn(None if metric.overall != "none" else list_metric_scopes(document, metric)[0], metric)


def headline_label(run: BenchmarkRun, column: BoardColumn) -> str:
    """The metric, and of which dimension its number is where it has several and no overall."""
    document, metric = run.scorer.guideline.document, column.metric
    label = metric_label(metric)
    several = column.scope is not None and len(list_metric_scopes(document, metric)) > 1
    return join_heading(label, column.label(document)) if several else label


def _list_disagreeing(run: BenchmarkRun, first: str, lead: BoardColumn) -> Iterator[HeadlineNumber]:
    document = run.scorer.guideline.document
    for metric in document.metrics:
        column = _headline_of(document, metric)
        values = {row["model"]: column.statistic(row)["value"] for row in list_board_rows(run)}
        highest = max((value for value in values.values() if value is not None), default=None)
        if column == lead or highest is None or values.get(first) == highest:
            continue
        models = tuple(model for model, value in values.items() if value == highest)
        yield HeadlineNumber(headline_label(run, column), metric, highest, models)


def is_rank_withheld(run: BenchmarkRun) -> bool:
    """Whether ranks are not given, or not in all columns."""
    return bool(find_board(run).get(NOT_RANKED))


def reading_context(run: BenchmarkRun) -> dict[str, Any]:
    """What a reader should know before quoting a rank or a number: ``own_ranks`` and ``predicted_percent``.

    Either is None where there is nothing to say.
    """
    rows = list_board_rows(run)
    ranked = [row for row in rows if row["rank"] is not None]
    own = sum(row["rank"]["low"] == row["rank"]["high"] for row in ranked)
    counts = count_bases(rows)
    predicted = counts.get("out_of_fold", 0) + counts.get("unseen", 0)
    return {
        "own_ranks": {"n": own, "all": len(ranked)} if len(ranked) > 1 else None,
        "predicted_percent": 100 * predicted / sum(counts.values()) if predicted else None,
    }


def count_bases(rows: Sequence[BoardRow]) -> dict[str, int]:
    summed: dict[str, int] = {}
    for row in rows:
        for cell in row["dimensions"].values():
            for basis, n in cell.get("composition", {}).items():
                summed[basis] = summed.get(basis, 0) + n
    return summed


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
    sorted: bool


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


@dataclass(frozen=True)
class BoardLine:
    model: str
    url: str
    rank: str
    leads: bool
    """No other model can be first."""
    composition: str
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
    published = list_reference_rows(run, reader) if with_published else []
    axes = axes_by_metric(document, [*rows, *published], columns)
    names = {column.choice_name(document): column for column in columns}
    by = place.sort and choose(place.sort, names)
    if by:
        rows = _sort_by_column(rows, names[by])
    equal_sizes = [len({column.n(row) for row in rows}) == 1 for column in columns]
    cells = "" if public else reverse("run-cell", args=[run.name])
    several = len(rows) > 1
    ranking = names[by] if by and _has_ranks(document, names[by], rows) else None
    lines = [
        _board_line(row, columns, axes, equal_sizes, ranking, cells=cells, several=several) for row in rows
    ]
    labels = {name: metric_label(view) for name, view in views.items()}
    lead = document.metric(document.rank_by)
    withheld = is_rank_withheld(run)
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
        "finding": find_leader(run),
        **reading_context(run),
        "not_ranked": withheld,
        "has_ranks": not withheld or any(line.rank != UNRANKED for line in lines),
        "tiles": list_tiles(run),
        "small_cells": sum(cell.small for line in lines for cell in line.cells),
        "small": SMALL,
        "left_out": find_board(run).get("left_out", 0),
        "charts": board_charts(document, list_board_rows(run), columns, axes, draw, published=published),
        "chart_alt": chart_alt(run, metric, columns, published),
    }


def _sort_by_column(rows: Sequence[BoardRow], column: BoardColumn) -> list[BoardRow]:
    """The highest first, in the order of the ranks where they are equal; what is undefined comes last."""
    values = [(column.statistic(row)["value"], row) for row in rows]
    known = [(value, row) for value, row in values if value is not None]
    known.sort(key=lambda entry: entry[0], reverse=True)
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
        label, metric, _format_end(column.metric, low), _format_end(column.metric, high), n, url, is_sorted
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
    bases = BoardColumn(None, columns[0].metric).composition(row) if columns else {}
    return BoardLine(
        model=model,
        url=cells and cell_address(cells, model, None),
        rank=format_rank(rank),
        leads=rank is not None and rank["high"] == 1 and several,
        composition=format_composition(bases) if bases else "",
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
    )


def _gold_note(column: BoardColumn, row: BoardRow) -> str:
    """How many responses people labelled; the whole composition stands by its model."""
    bases = column.composition(row)
    return _("{n} gold").format(n=format_grouped(bases["gold"])) if bases.get("gold") else ""


def _axis_position(value: float | None, axis: Ends) -> str:
    low, high = axis
    at = None if value is None or high <= low else 100 * (value - low) / (high - low)
    return format_decimal(at, 1, undefined="")
