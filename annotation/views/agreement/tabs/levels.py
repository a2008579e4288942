"""Which levels are taken for each other: a matrix for each criterion.

The prompts that people dispute most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from django.core.paginator import Paginator
from django.utils.http import urlencode

from annotation.core.formatting import format_compact, format_part
from annotation.domain.agreement import Value
from annotation.selectors.agreement.causes import DisputedPrompt, Matrix, Prompts, Split, matrices
from annotation.selectors.guidelines import criterion_label, level_text
from annotation.views.agreement.query import Asked
from annotation.views.agreement.wording import percent

SHADES = 5
SAME, EMPTY = "same", "none"


@dataclass(frozen=True)
class Cell:
    """``n`` None is no cell at all: without people a pair of labels has no order. ``shade`` is a class's ending."""

    n: int | None
    percent: str
    shade: str
    url: str


def levels_context(asked: Asked) -> dict[str, Any]:
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


PAGE = 25
SPLITS = 3


def prompts_context(asked: Asked) -> dict[str, Any]:
    found = Prompts(asked.patterns.labels)
    page = Paginator(cast("Sequence[DisputedPrompt]", found), PAGE).get_page(asked.page)
    return {
        "prompts": [_line(one, asked) for one in page.object_list],
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "query": urlencode(asked.choice.parameters()),
    }


def _line(one: DisputedPrompt, asked: Asked) -> dict[str, Any]:
    choice = asked.choice
    inside = replace(choice.narrowing, prompt=one.prompt.pk)
    return {
        "prompt": one.prompt,
        "n": one.tasks.n,
        "disputed": one.tasks.part,
        "share": percent(one.tasks),
        "alpha": one.alpha,
        "splits": [_split(split, asked, one) for split in one.splits[:SPLITS]],
        "tasks": choice.tasks(inside),
        "disputes": choice.tasks(replace(inside, disputed=True)),
    }


def _split(split: Split, asked: Asked, one: DisputedPrompt) -> dict[str, Any]:
    words = asked.words
    guideline = {"guideline": split.guideline} if words.several else {}
    inside = asked.choice.narrowing.with_group({"criterion": split.criterion, **guideline})
    ends = [words.level(split.guideline, split.criterion, value) for value in (split.low, split.high)]
    return {
        "words": " – ".join(ends),
        "n": split.n,
        "url": asked.choice.tasks(replace(inside, prompt=one.prompt.pk).between(split.low, split.high)),
    }
