"""The models of a study by its boards: one number of each board, and how alike two boards order the models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.core.charts import chart_url
from annotation.core.formatting import UNDEFINED, format_decimal, format_interval
from annotation.core.http import as_attachment
from annotation.domain.permissions import READ_BOARDS
from annotation.services.audit import record_file
from annotation.views.access import act_required, person_of
from benchmark.domain.correlations import MIN_MODELS
from benchmark.domain.leaderboards.matrix import MIN_CORRELATED, BoardCorrelation, MatrixNumber, order_models
from benchmark.domain.leaderboards.metrics import format_metric_value
from benchmark.selectors.leaderboards.matrix import BoardMatrix, MatrixBoard, build_matrix
from benchmark.views.leaderboards import formatting
from benchmark.views.leaderboards.charts import (
    HOLLOW,
    PREDICTED_DOT,
    Dot,
    Ends,
    axis_domain,
    draw_trade_off,
    make_dot,
    unit_factor,
)
from benchmark.views.leaderboards.formatting import (
    axis_top,
    join_heading,
    list_metric_views,
    metric_label,
    scope_label,
    sort_direction,
)
from benchmark.views.leaderboards.query import check_choice

CHOICES = ("metric", "first", "second", "sort")


@dataclass(frozen=True)
class MatrixHead:
    """What stands over a board's column. ``key`` names it in addresses; ``url`` is the board, ``sort_url`` this page
    ordered by it, ``sorting`` how it is ordered where it is by this.
    """

    key: str
    name: str
    url: str
    metric: str
    origin: str
    is_published: bool
    sort_url: str
    sorting: str


@dataclass(frozen=True)
class BoardMatrixCell:
    """A number as it is printed; ``value`` is ``-`` and ``interval`` blank where it is undefined, ``n`` None where
    nobody tells it. ``is_hollow``: predicted, and not compared.
    """

    value: str
    interval: str
    n: int | None
    url: str = ""
    is_hollow: bool = False


NO_NUMBER = BoardMatrixCell(UNDEFINED, "", None)


@require_GET
@never_cache
@act_required(READ_BOARDS)
def matrix(request: HttpRequest) -> HttpResponseBase:
    """``?metric=`` is what boards are compared by that have it, ``first`` and ``second`` are the boards of the scatter
    plot, ``sort`` the board by which the models are ordered; ``json`` gives what the command prints.
    """
    stated = {name: request.GET.get(name, "") for name in CHOICES}
    board_matrix = build_matrix(person_of(request), stated["metric"])
    if "json" in request.GET:
        record_file(actor=person_of(request), target="page:board-matrix", file="boards.json")
        return as_attachment(JsonResponse(board_matrix.to_json()), "boards.json")
    return _render_page(request, board_matrix, stated)


def _render_page(request: HttpRequest, board_matrix: BoardMatrix, stated: Mapping[str, str]) -> HttpResponse:
    boards = {_board_key(board): board for board in board_matrix.boards}
    for name in ("first", "second", "sort"):
        if stated[name]:
            check_choice(stated[name], boards)
    context = {
        "sealed": board_matrix.sealed,
        "heads": [_build_head(key, board, stated) for key, board in boards.items()],
        "lines": _list_lines(board_matrix, boards.get(stated["sort"])),
        "by_name": _link(stated, sort="") if stated["sort"] else "",
        "metrics": _list_metrics(board_matrix, stated["metric"]),
        "correlations": _list_correlations(board_matrix),
        "any_hollow": board_matrix.has_predicted,
        "min_correlated": MIN_CORRELATED,
        "min_models": MIN_MODELS,
        "json_url": f"?{urlencode({'metric': stated['metric'], 'json': ''})}",
        "sort": stated["sort"],
        **_scatter_context(board_matrix, boards, stated),
    }
    return render(request, "benchmark/leaderboards/matrix.html", context)


def _board_key(board: MatrixBoard) -> str:
    """``run:NAME``, or of a published table ``table:NUMBER``."""
    return f"run:{board.name}" if board.table is None else f"table:{board.table.pk}"


def _link(stated: Mapping[str, str], **changes: str) -> str:
    parameters = {**stated, **changes}
    return f"?{urlencode({name: value for name, value in parameters.items() if value})}"


def _list_metrics(board_matrix: BoardMatrix, current: str) -> list[tuple[str, str, bool]]:
    """(name, label, whether it is chosen)."""
    return [(name, metric_label(metric), name == current) for name, metric in board_matrix.metrics.items()]


def _build_head(key: str, board: MatrixBoard, stated: Mapping[str, str]) -> MatrixHead:
    metric = board.column.metric
    return MatrixHead(
        key,
        board.name,
        _board_url(board),
        _number_label(board),
        f"{board.origin} · {board.guideline}" if board.origin else board.guideline,
        board.table is not None,
        _link(stated, sort=key),
        sort_direction(metric) if stated["sort"] == key else "",
    )


def _number_label(board: MatrixBoard) -> str:
    label = metric_label(board.column.metric)
    scope = board.column.scope
    is_whole = scope is None or not board.document.dimensions
    return label if is_whole else join_heading(label, scope_label(board.document, scope))


def _board_url(board: MatrixBoard) -> str:
    """The board by the number that stands here, where it can be looked at by it."""
    if board.table is not None:
        return reverse("published-table", args=[board.table.pk])
    address, metric = reverse("run", args=[board.name]), board.column.metric.name
    is_view = metric in [view.name for view in list_metric_views(board.document)[1:]]
    return f"{address}?{urlencode({'metric': metric})}" if is_view else address


def _list_lines(
    board_matrix: BoardMatrix, sorted_by: MatrixBoard | None
) -> list[tuple[str, list[BoardMatrixCell]]]:
    """A model with a cell for each board."""
    models = list(board_matrix.models)
    if sorted_by is not None:
        models = order_models(models, sorted_by.column)
    boards = [(board, _board_url(board)) for board in board_matrix.boards]
    return [
        (model, [_build_cell(board, board.column.numbers.get(model), url) for board, url in boards])
        for model in models
    ]


def _build_cell(board: MatrixBoard, number: MatrixNumber | None, url: str) -> BoardMatrixCell:
    if number is None:
        return NO_NUMBER
    metric = board.column.metric
    return BoardMatrixCell(
        format_metric_value(metric, number.value),
        formatting.format_interval(metric, number.statistic),
        number.n,
        url,
        not number.is_compared,
    )


def _list_correlations(board_matrix: BoardMatrix) -> list[tuple[str, list[BoardMatrixCell | None]]]:
    """A board with a cell for each board, None of itself; nothing of fewer than two."""
    cells: dict[tuple[int, int], BoardMatrixCell] = {}
    for correlation in board_matrix.correlations:
        cell = _build_correlation(correlation)
        cells[correlation.first, correlation.second] = cells[correlation.second, correlation.first] = cell
    places = range(len(board_matrix.boards))
    if not cells:
        return []
    return [
        (board.name, [cells.get((row, column)) for column in places])
        for row, board in enumerate(board_matrix.boards)
    ]


def _build_correlation(correlation: BoardCorrelation) -> BoardMatrixCell:
    return BoardMatrixCell(
        format_decimal(correlation.value),
        format_interval(correlation.low, correlation.high),
        correlation.n,
    )


def _scatter_context(
    board_matrix: BoardMatrix, boards: Mapping[str, MatrixBoard], stated: Mapping[str, str]
) -> dict[str, Any]:
    """Two boards against each other: those that are asked for, or the two that have most models in common."""
    keys = list(boards)
    if len(keys) < 2:
        return {}
    widest = max(board_matrix.correlations, key=lambda correlation: (correlation.n, -correlation.first))
    first = stated["first"] or keys[widest.first]
    second = stated["second"] or next(
        (key for key in (keys[widest.second], keys[widest.first]) if key != first), keys[0]
    )
    context: dict[str, Any] = {"first": first, "second": second}
    if first == second:
        return context
    sides = [_build_side(boards[key]) for key in (first, second)]
    if not set(sides[0][1]) & set(sides[1][1]):
        return context
    places = {keys.index(first), keys.index(second)}
    correlation = next(
        correlation
        for correlation in board_matrix.correlations
        if {correlation.first, correlation.second} == places
    )
    return context | {
        "chart": chart_url(draw_trade_off(sides[0], sides[1])),
        "chart_names": [boards[key].name for key in (first, second)],
        "chart_correlation": _build_correlation(correlation),
        "chart_is_defined": correlation.value is not None,
    }


def _build_side(board: MatrixBoard) -> tuple[str, Mapping[str, Dot], Ends]:
    """The title, the dots by model and the ends of the axis, the better one last."""
    metric = board.column.metric
    unit = unit_factor(metric)
    dots = {
        model: make_dot(model, number.statistic, unit, _kind(board, number))
        for model, number in board.column.numbers.items()
    }
    top = axis_top(board.document, metric) * unit
    low, high = axis_domain([*dots.values()], 0.0, top) if top > 0 else axis_domain([*dots.values()])
    ends = (low, high) if metric.better == "higher" else (high, low)
    title = f"{board.name} · {_number_label(board)}"
    return f"{title}, %" if metric.kind == "rate" else title, dots, ends


def _kind(board: MatrixBoard, number: MatrixNumber) -> str:
    if not number.is_compared:
        return PREDICTED_DOT
    return HOLLOW if board.table is not None else ""
