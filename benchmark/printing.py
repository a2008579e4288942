"""A leaderboard as a table of text, for a terminal. Pure."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any

from annotation.guidelines import GuidelineDocument, Metric
from benchmark.metrics import SMALL, metrics_in, printed, printed_interval, scopes

LETTERS = 5
"""Of a dimension's name, over the number of its responses."""


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
    """Best first, under two lines of heads: what of, over the names of its metrics.

    With a small cell on it the intervals are printed, asked for or not.
    """
    intervals = intervals or has_small_cell(board)
    columns = _columns(document)
    groups = [("", 2), *_groups(columns, intervals=intervals), ("n", len(scopes(document)))]
    head = ["model", "rank"]
    head += [name for _scope, metric in columns for name in _names(metric, document, intervals=intervals)]
    head += [scope[:LETTERS].rstrip() for scope in scopes(document)]
    body = [_line(row, columns, document, intervals=intervals) for row in board["rows"]]
    return _under(groups, [head, *body])


def _groups(columns: Sequence[tuple[str | None, Metric]], *, intervals: bool) -> list[tuple[str, int]]:
    """The title of each part of the board, and over how many columns it stands."""
    sizes = Counter(scope for scope, _metric in columns)
    return [(scope or "overall", size * (2 if intervals else 1)) for scope, size in sizes.items()]


def _under(groups: Sequence[tuple[str, int]], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    titles, at = [], 0
    for title, size in groups:
        span = sum(widths[at : at + size]) + 2 * (size - 1)
        widths[at] += max(0, _width(title) - span)
        titles.append(_pad(title, max(span, _width(title)), left=False))
        at += size
    return ["  ".join(titles).rstrip(), *(_joined(row, widths) for row in rows)]


def has_small_cell(board: dict[str, Any]) -> bool:
    return any(0 < cell["n"] < SMALL for row in board["rows"] for cell in row["dimensions"].values())


def _columns(document: GuidelineDocument) -> list[tuple[str | None, Metric]]:
    """The overall numbers, then those of each dimension."""
    overall: list[tuple[str | None, Metric]] = [
        (None, one) for one in document.metrics if one.overall != "none"
    ]
    return overall + [(scope, one) for scope in scopes(document) for one in metrics_in(document, scope)]


def _names(metric: Metric, document: GuidelineDocument, *, intervals: bool) -> list[str]:
    name = short(metric.name, document)
    return [name, "95%"] if intervals else [name]


def short(name: str, document: GuidelineDocument) -> str:
    """A metric's name without the words that all metrics begin with: ``rate`` of ``harmless_rate``."""
    words = [one.name.split("_") for one in document.metrics]
    shared = 0
    while len(words) > 1 and all(len(one) > shared + 1 and one[shared] == words[0][shared] for one in words):
        shared += 1
    return "_".join(name.split("_")[shared:])


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
