"""A leaderboard as a table of text, for a terminal. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

from annotation.guidelines import GuidelineDocument, Metric
from benchmark.metrics import SMALL, metrics_in, printed, printed_interval, scopes


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with the first column left and the others right; wide (Chinese) characters take two places."""
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    return [_joined(row, widths) for row in rows]


def _joined(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(row, widths, strict=True)
    return "  ".join([_pad(*first, left=True), *(_pad(*one, left=False) for one in others)]).rstrip()


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _pad(text: str, width: int, *, left: bool) -> str:
    blank = " " * (width - _width(text))
    return text + blank if left else blank + text


def board_table(board: dict[str, Any], document: GuidelineDocument, *, intervals: bool) -> list[str]:
    """Best first. With a small cell on it the intervals are printed, asked for or not."""
    rows = board["rows"]
    intervals = intervals or has_small_cell(board)
    columns = _columns(document)
    head = ["model", "rank"]
    head += [name for scope, metric in columns for name in _names(scope, metric, intervals)]
    head += [f"n {scope}" for scope in scopes(document)]
    body = [_line(row, columns, document, intervals=intervals) for row in rows]
    return table([head, *body])


def has_small_cell(board: dict[str, Any]) -> bool:
    return any(0 < cell["n"] < SMALL for row in board["rows"] for cell in row["dimensions"].values())


def _columns(document: GuidelineDocument) -> list[tuple[str | None, Metric]]:
    """The overall numbers, then those of each dimension."""
    overall: list[tuple[str | None, Metric]] = [
        (None, one) for one in document.metrics if one.overall != "none"
    ]
    return overall + [(scope, one) for scope in scopes(document) for one in metrics_in(document, scope)]


def _names(scope: str | None, metric: Metric, intervals: bool) -> list[str]:
    name = f"{scope or 'overall'} {metric.name}"
    return [name, "95%"] if intervals else [name]


def _line(
    row: dict[str, Any],
    columns: Sequence[tuple[str | None, Metric]],
    document: GuidelineDocument,
    *,
    intervals: bool,
) -> list[str]:
    cells = [row["model"], printed_rank(row["rank"])]
    for scope, metric in columns:
        held = row["overall"] if scope is None else row["dimensions"][scope]
        statistic = held[metric.name]
        cells.append(printed(metric, statistic["value"]))
        if intervals:
            cells.append(printed_interval(metric, statistic["low"], statistic["high"]))
    return cells + [str(row["dimensions"][scope]["n"]) for scope in scopes(document)]


def printed_rank(rank: dict[str, int] | None) -> str:
    """``2 (1-4)``: the rank, and those that the intervals leave possible."""
    if rank is None:
        return "-"
    possible = "" if rank["low"] == rank["high"] else f" ({rank['low']}-{rank['high']})"
    return f"{rank['value']}{possible}"
