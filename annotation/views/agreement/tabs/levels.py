"""Two tabs: the matrices of the levels that two people gave, and the prompts that people dispute most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from django.core.paginator import Paginator

from annotation.core.formatting import format_compact, format_part
from annotation.domain.agreement import Value
from annotation.selectors.agreement.causes import (
    DisputedPrompt,
    DisputedPrompts,
    LevelMatrix,
    LevelSplit,
    list_matrices,
)
from annotation.selectors.guidelines import criterion_label, level_text
from annotation.views.agreement.query import TabQuery
from annotation.views.agreement.wording import format_share

SHADES = 5
SAME, EMPTY = "same", "none"


@dataclass(frozen=True)
class MatrixCell:
    """``n`` None is no cell at all: without people a pair of labels has no order. ``shade`` is a class's ending."""

    n: int | None
    percent: str
    shade: str
    url: str


def levels_context(tab_query: TabQuery) -> dict[str, Any]:
    level_matrices = list_matrices(tab_query.patterns.labels)
    return {
        "matrices": [matrix_table(matrix, tab_query) for matrix in level_matrices],
        "pairs": list_pairs(tab_query),
        "pair": tab_query.choice.narrowing.named.get("pair"),
    }


def list_pairs(tab_query: TabQuery) -> list[tuple[str, str]]:
    """Each pair with the address of its matrices."""
    labels, choice = tab_query.patterns.labels, tab_query.choice
    if "pair" in choice.narrowing.named:
        return []
    names = labels.cache(
        "pairs", lambda: [name for name in labels.as_pairs().sort_by_facet("pair").names if name]
    )
    return [(name, choice.narrowed_url(choice.narrowing.with_group({"pair": name}))) for name in names]


def matrix_table(matrix: LevelMatrix, tab_query: TabQuery) -> dict[str, Any]:
    level_names = [level_text(matrix.criterion, value) for value in matrix.values]
    # Of 100 levels the number alone has room.
    short = (
        [format_compact(value) for value in matrix.values] if len(matrix.values) > SHADES + 1 else level_names
    )
    largest = largest_difference(matrix)
    rows = [
        {
            "head": short[at],
            "cells": [
                build_cell(matrix, (at, other), largest, tab_query) for other in range(len(level_names))
            ],
        }
        for at in range(len(level_names))
    ]
    document = tab_query.patterns.guidelines
    criterion = next(
        criterion_label(guideline.document, matrix.criterion.name)
        for guideline in reversed(list(document.values()))
        if guideline.name == matrix.guideline
    )
    return {
        "id": f"{matrix.guideline}-{matrix.criterion.name}",
        "guideline": matrix.guideline,
        "criterion": criterion,
        "people": matrix.people,
        "heads": short,
        "rows": rows,
        "total": matrix.total,
        "differing": matrix.differing,
    }


def largest_difference(matrix: LevelMatrix) -> int:
    """Of the pairs that differ: what all shades are measured by."""
    off = matrix.counts.copy()
    for place in range(len(off)):
        off[place, place] = 0
    return int(off.max(initial=0))


def build_cell(matrix: LevelMatrix, at: tuple[int, int], largest: int, tab_query: TabQuery) -> MatrixCell:
    row, column = at
    if matrix.people is None and column < row:
        return MatrixCell(None, "", EMPTY, "")
    n = int(matrix.counts[row, column])
    same = row == column
    shade = SAME if same else str(-(-n * SHADES // largest) if largest else 0)
    return MatrixCell(
        n=n,
        percent=f"{format_part(n, matrix.total)}%",
        shade=shade,
        url=cell_tasks_url(matrix, (matrix.values[row], matrix.values[column]), tab_query) if n else "",
    )


def cell_tasks_url(matrix: LevelMatrix, levels: Sequence[Value], tab_query: TabQuery) -> str:
    guideline = {"guideline": matrix.guideline} if tab_query.words.several else {}
    inside = tab_query.choice.narrowing.with_group({"criterion": matrix.criterion.name, **guideline})
    return tab_query.choice.tasks_url(replace(inside, levels=(levels[0], levels[1])))


PAGE = 25
MAX_SPLITS = 3


def prompts_context(tab_query: TabQuery) -> dict[str, Any]:
    disputed_prompts = DisputedPrompts(tab_query.patterns.labels)
    page = Paginator(cast("Sequence[DisputedPrompt]", disputed_prompts), PAGE).get_page(tab_query.page)
    return {
        "prompts": [prompt_row(disputed_prompt, tab_query) for disputed_prompt in page.object_list],
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "query": tab_query.choice.query,
    }


def prompt_row(disputed_prompt: DisputedPrompt, tab_query: TabQuery) -> dict[str, Any]:
    choice = tab_query.choice
    inside = replace(choice.narrowing, prompt=disputed_prompt.prompt.pk)
    return {
        "prompt": disputed_prompt.prompt,
        "n": disputed_prompt.tasks.n,
        "disputed": disputed_prompt.tasks.part,
        "share": format_share(disputed_prompt.tasks),
        "alpha": disputed_prompt.alpha,
        "splits": [
            split_link(split, tab_query, disputed_prompt) for split in disputed_prompt.splits[:MAX_SPLITS]
        ],
        "tasks": choice.tasks_url(inside),
        "disputes": choice.tasks_url(replace(inside, disputed=True)),
    }


def split_link(split: LevelSplit, tab_query: TabQuery, disputed_prompt: DisputedPrompt) -> dict[str, Any]:
    words = tab_query.words
    guideline = {"guideline": split.guideline} if words.several else {}
    inside = tab_query.choice.narrowing.with_group({"criterion": split.criterion, **guideline})
    ends = [words.level(split.guideline, split.criterion, value) for value in (split.low, split.high)]
    return {
        "words": " – ".join(ends),
        "n": split.n,
        "url": tab_query.choice.tasks_url(
            replace(inside, prompt=disputed_prompt.prompt.pk).between(split.low, split.high)
        ),
    }
