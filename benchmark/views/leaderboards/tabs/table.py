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
from benchmark.domain.leaderboards.board import BIAS, COMPARED
from benchmark.domain.leaderboards.grounds import (
    COMBINED,
    FEW_LABELS,
    MIN_LABELS,
    MIN_PROMPTS,
    NO_GOLD,
    PREDICTED,
    REASONS,
)
from benchmark.domain.leaderboards.metrics import (
    SMALL,
    UNRANKED,
    find_metric,
    format_metric_value,
    format_rank,
    list_metric_scopes,
)
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
    format_difference,
    format_difference_interval,
    format_interval,
    heading,
    join_heading,
    list_columns,
    list_metric_views,
    metric_label,
    scope_label,
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

    ``claim`` is ``highest`` where no model is compared, ``only`` of a single model, ``alone`` of the only compared one,
    ``sure`` where none of the compared models can be first instead, and ``open`` where ``rivals`` of them may be.
    ``compared`` is how many they are, None if they are all.
    """

    claim: str
    lead: HeadlineNumber
    statistic: Statistic
    rivals: int
    compared: int | None
    disagreeing: tuple[HeadlineNumber, ...]
    """The other headline numbers by which another model stands highest."""


def find_leader(run: BenchmarkRun) -> BoardFinding | None:
    """None where nobody has the number that the board is ranked by."""
    column = headline_column(run)
    rows = [row for row in list_board_rows(run) if column.statistic(row)["value"] is not None]
    if not rows:
        return None
    ranked = [row for row in rows if row["rank"] is not None]
    statistic, rivals = column.statistic(rows[0]), 0
    value = statistic["value"]
    assert value is not None
    models = [rows[0]["model"]]
    is_complete = len(ranked) == len(list_board_rows(run))
    if not ranked:
        claim = "highest"
        models = [row["model"] for row in rows if column.statistic(row)["value"] == value]
    elif len(ranked) == 1:
        claim = "only" if is_complete else "alone"
    else:
        rivals = sum(row["rank"]["low"] == 1 for row in ranked[1:])
        # somebody is first, and all others are surely behind someone
        claim = "sure" if ranked[0]["rank"]["high"] == 1 or not rivals else "open"
    lead = HeadlineNumber(headline_label(run, column), column.metric, value, tuple(models))
    return BoardFinding(
        claim,
        lead,
        statistic,
        rivals,
        None if is_complete else len(ranked),
        tuple(_list_disagreeing(run, rows[0]["model"], column)),
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


@dataclass(frozen=True)
class NotComparedCount:
    """So many ``models`` are not compared for this reason; in words: ``wording/not_compared.txt``."""

    code: str
    models: int


@dataclass(frozen=True)
class ComparedModels:
    """``n`` of ``of`` models are compared in a column; about ``labels`` more would let the others that lack labels be.

    ``min_labels`` and ``min_prompts`` are the bounds that the reasons speak of.
    """

    n: int
    of: int
    reasons: tuple[NotComparedCount, ...]
    labels: int
    min_labels: int = MIN_LABELS
    min_prompts: int = MIN_PROMPTS

    @property
    def are_all(self) -> bool:
        return self.n == self.of


def count_compared(run: BenchmarkRun, scope: str | None = None) -> ComparedModels:
    """In the number that the board is ranked by, or in a column; a column without ranks compares as many as it has."""
    column = headline_column(run)
    name = scope or column.name
    rows = list_board_rows(run)
    known = find_board(run).get(COMPARED, {}).get(name) or {"n": len(rows), "of": len(rows)}
    document = run.scorer.guideline.document
    is_ranked = name == column.name
    reasons = [(row if is_ranked else row["dimensions"].get(name, {})).get("reason") for row in rows]
    scopes = list_metric_scopes(document, column.metric) if is_ranked and column.scope is None else (name,)
    return ComparedModels(
        known["n"],
        known["of"],
        tuple(NotComparedCount(code, reasons.count(code)) for code in REASONS if code in reasons),
        sum(
            _count_missing_labels(row, scopes)
            for row, reason in zip(rows, reasons, strict=True)
            if reason in (NO_GOLD, FEW_LABELS)
        ),
    )


def _count_missing_labels(row: BoardRow, scopes: Sequence[str]) -> int:
    """Until each column has as many as a chance sample needs, or all that there are."""
    cells = [row["dimensions"].get(scope, {}) for scope in scopes]
    return sum(
        max(0, min(MIN_LABELS, cell.get("n", 0)) - cell.get("composition", {}).get("gold", 0))
        for cell in cells
    )


@dataclass(frozen=True)
class BiasRow:
    """What the scorer's labels of a model are off by, on ``n`` responses with gold; blank where it is not known."""

    model: str
    n: int
    cells: tuple[tuple[str, str], ...]


def list_bias(run: BenchmarkRun) -> dict[str, Any]:
    """The heads and the rows of the scorer's bias by model; nothing where no response has gold and a prediction."""
    content = find_board(run).get(BIAS) or {"rows": []}
    document = run.scorer.guideline.document
    metric = document.metric(document.rank_by)
    has_overall = any(row["overall"] for row in content["rows"])
    scopes = content.get("scopes", [])
    several = document.dimensions and len(scopes) > 1
    heads = [
        *([_("Overall")] if has_overall else []),
        *([scope_label(document, scope) for scope in scopes] if several or not has_overall else []),
    ]
    rows = []
    for row in content["rows"]:
        statistics = [
            *([row["overall"]] if has_overall else []),
            *([row["dimensions"].get(scope) for scope in scopes] if several or not has_overall else []),
        ]
        if any(statistics):
            cells = tuple(
                (
                    format_difference(metric, statistic["value"]),
                    format_difference_interval(metric, statistic),
                )
                if statistic
                else ("", "")
                for statistic in statistics
            )
            rows.append(BiasRow(row["model"], row["n"], cells))
    return {
        "bias_heads": heads,
        "bias": rows,
        "bias_rate": metric.kind == "rate",
        "bias_metric": metric_label(metric),
    }


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
        "own_ranks": {"n": own, "all": len(ranked), "are_all": len(ranked) == len(rows)}
        if len(ranked) > 1
        else None,
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
    published = list_reference_rows(run, reader) if with_published else []
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
