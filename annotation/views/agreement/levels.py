"""Which levels are taken for each other: a matrix for each criterion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from annotation.agreement import Value
from annotation.core.formatting import format_compact, format_part
from annotation.selectors.agreement.causes import Matrix, matrices
from annotation.views.agreement.asked import Asked
from annotation.views.levels import criterion_label, level_text

SHADES = 5
SAME, EMPTY = "same", "none"


@dataclass(frozen=True)
class Cell:
    """``n`` None is no cell at all: without people a pair of labels has no order. ``shade`` is a class's ending."""

    n: int | None
    percent: str
    shade: str
    url: str


def context(asked: Asked) -> dict[str, Any]:
    found = matrices(asked.patterns.labels)
    return {
        "matrices": [_matrix(one, asked) for one in found],
        "pairs": _pairs(asked),
        "pair": asked.choice.narrowing.named.get("pair"),
    }


def _pairs(asked: Asked) -> list[tuple[str, str]]:
    """Each pair with the address of its matrices."""
    labels, choice = asked.patterns.labels, asked.choice
    if "pair" in choice.narrowing.named:
        return []
    names = labels.kept("pairs", lambda: [name for name in labels.as_pairs().sorted_by("pair").names if name])
    return [(name, choice.narrowed(choice.narrowing.with_group({"pair": name}))) for name in names]


def _matrix(one: Matrix, asked: Asked) -> dict[str, Any]:
    said = [level_text(one.criterion, value) for value in one.values]
    # Of 100 levels the number alone has room.
    short = [format_compact(value) for value in one.values] if len(one.values) > SHADES + 1 else said
    largest = _largest(one)
    rows = [
        {"head": short[at], "cells": [_cell(one, (at, other), largest, asked) for other in range(len(said))]}
        for at in range(len(said))
    ]
    document = asked.patterns.guidelines
    criterion = next(
        criterion_label(guideline.document, one.criterion.name)
        for guideline in reversed(list(document.values()))
        if guideline.name == one.guideline
    )
    return {
        "id": f"{one.guideline}-{one.criterion.name}",
        "guideline": one.guideline,
        "criterion": criterion,
        "people": one.people,
        "heads": short,
        "rows": rows,
        "total": one.total,
        "differing": one.differing,
    }


def _largest(one: Matrix) -> int:
    """Of the pairs that differ: what all shades are measured by."""
    off = one.counts.copy()
    for place in range(len(off)):
        off[place, place] = 0
    return int(off.max(initial=0))


def _cell(one: Matrix, at: tuple[int, int], largest: int, asked: Asked) -> Cell:
    row, column = at
    if one.people is None and column < row:
        return Cell(None, "", EMPTY, "")
    n = int(one.counts[row, column])
    same = row == column
    shade = SAME if same else str(-(-n * SHADES // largest) if largest else 0)
    return Cell(
        n=n,
        percent=f"{format_part(n, one.total)}%",
        shade=shade,
        url=_tasks(one, (one.values[row], one.values[column]), asked) if n else "",
    )


def _tasks(one: Matrix, levels: Sequence[Value], asked: Asked) -> str:
    guideline = {"guideline": one.guideline} if asked.words.several else {}
    inside = asked.choice.narrowing.with_group({"criterion": one.criterion.name, **guideline})
    return asked.choice.tasks(replace(inside, levels=(levels[0], levels[1])))
