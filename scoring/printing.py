"""A scorer's figures as a table of text, for a terminal. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

HEADS = ("", "n", "accuracy", "macro-F1", "calibration error")
EVALUATIONS = {"grouped": "by prompt", "leave_one_model_out": "one model left out"}
BASELINES = {
    "majority": "commonest level",
    "annotators": "annotators, against gold",
    "between_annotators": "annotators, against each other",
}


def figures_table(evaluation: Mapping[str, Any], baselines: Mapping[str, Any]) -> list[str]:
    """The pooled figures of each evaluation with its models and criteria below, then what they stand beside."""
    rows: list[tuple[str, ...]] = [HEADS]
    for name, metrics in evaluation.items():
        rows.append(_row(EVALUATIONS[name], metrics))
        rows += _parts(metrics)
    rows += [_row(BASELINES[name], metrics) for name, metrics in baselines.items()]
    return table(rows)


def _parts(metrics: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """One criterion alone is the pooled figure again."""
    for grouping in ("by_criterion", "by_model"):
        if len(metrics[grouping]) > 1:
            yield from (_row(f"  {name}", figures) for name, figures in metrics[grouping].items())


def _row(name: str, metrics: Mapping[str, Any]) -> tuple[str, ...]:
    error = metrics.get("calibration_error")
    return (
        name,
        str(metrics["n"]),
        statistic(metrics["accuracy"]),
        statistic(metrics["macro_f1"]),
        "-" if error is None else f"{error:.4f}",
    )


def statistic(one: Mapping[str, float | None]) -> str:
    """``0.8991 [0.884, 0.913]``; ``-`` where it is undefined."""
    value, low, high = one["value"], one["low"], one["high"]
    if value is None:
        return "-"
    interval = "[-]" if low is None or high is None else f"[{low:.3f}, {high:.3f}]"
    return f"{value:.4f} {interval}"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with the first column left and the others right."""
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_padded(row, widths)).rstrip() for row in rows]


def _padded(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
        blank = " " * (width - _width(cell))
        yield blank + cell if place else cell + blank


def _width(text: str) -> int:
    """Columns on a terminal, where a Chinese character takes two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
