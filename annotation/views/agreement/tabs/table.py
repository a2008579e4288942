"""The rows of the report: over everything, and by what they are grouped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from django.core.paginator import Paginator
from django.utils.http import urlencode
from django.utils.translation import gettext

from annotation.core.charts import chart_url
from annotation.core.formatting import format_decimal
from annotation.domain.agreement import Agreement
from annotation.selectors.agreement import Counted
from annotation.views.agreement.charts import Dot, dot_and_whisker
from annotation.views.agreement.query import TabQuery, AgreementChoice
from annotation.views.agreement.wording import (
    FACETS,
    RELIABLE,
    STATISTICS,
    TENTATIVE,
    Figure,
    Words,
    alpha_of,
    figure,
    reading,
)

PAGE = 40
# A group of fewer units never stands before those of more: a few disputes say little.
LEAST = 20


@dataclass(frozen=True)
class Line:
    """A row as it is shown: undefined figures are None, ``reading`` is a badge's state and word."""

    guideline: str
    criterion: str
    group: tuple[str, ...]
    n: int
    disputed: int
    figures: tuple[Figure | None, ...]
    reading: tuple[str, str] | None
    inside: str
    tasks: str
    disputes: str


def context(asked: TabQuery) -> dict[str, Any]:
    choice = asked.choice
    found = weakest_first(one_of_each(asked.patterns.counted(choice.grouping)), choice.statistic)
    page = Paginator(found, PAGE).get_page(asked.page)
    shown = list(page.object_list)
    return {
        "heads": [FACETS[facet] for facet in choice.grouping],
        "by": [
            {"label": label, "url": choice.page_url(by=facet, across=""), "current": facet == choice.by}
            for facet, label in FACETS.items()
        ],
        "crossable": [(name, label) for name, label in FACETS.items() if name != choice.by],
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "query": urlencode(choice.parameters()),
        **table(shown, asked.words, choice),
        **chart(shown, choice.statistic, asked.words),
    }


def one_of_each(rows: Sequence[Counted]) -> list[Counted]:
    """Of each group and guideline the pooled row where there are several criteria: crossed with the criterion, each
    has a row of its own.
    """
    seen: dict[tuple[object, ...], Counted] = {}
    for row in rows:
        seen.setdefault((row.guideline, *row.group.values()), row)
    return list(seen.values())


def weakest_first(rows: Sequence[Counted], statistic: str) -> list[Counted]:
    """The lowest value first, then groups of few units, and what is undefined last."""

    def order(one: Counted) -> tuple[bool, bool, float]:
        value = one.value(statistic)
        return value is None, one.n < LEAST, math.inf if value is None else value

    return sorted(rows, key=order)


def table(rows: Sequence[Counted], words: Words, choice: AgreementChoice) -> dict[str, Any]:
    """The lines with every statistic that any of them has, and why the others are not there."""
    measured = [row.measured() for row in rows]
    shown = _shown(measured)
    return {
        "lines": [_line(one, found, shown, words, choice) for one, found in zip(rows, measured, strict=True)],
        "columns": [STATISTICS[name] for name in shown],
        "why": _reasons(measured, shown),
    }


def _shown(measured: Sequence[Agreement]) -> list[str]:
    """Those that some row has; the first three stand always, so that the columns do not jump about."""
    always = ("percent_agreement", "cohen_kappa", "alpha_nominal")
    return [
        name
        for name in STATISTICS
        if name in always or any(one.statistics[name].value is not None for one in measured)
    ]


def _line(one: Counted, measured: Agreement, shown: Sequence[str], words: Words, choice: AgreementChoice) -> Line:
    inside = choice.narrowing.with_group(inside_of(one, several=words.several))
    return Line(
        guideline=one.guideline,
        criterion=words.criterion(one.guideline, one.criterion),
        group=words.group(one),
        n=measured.n,
        disputed=measured.disputed,
        figures=tuple(figure(measured.statistics[name]) for name in shown),
        reading=reading(measured.statistics[alpha_of(one.measurement)]),
        inside="" if inside == choice.narrowing else choice.narrowed_url(inside, view="", by="", across=""),
        tasks=choice.tasks_url(inside),
        disputes=choice.tasks_url(replace(inside, disputed=True)),
    )


def inside_of(one: Counted, *, several: bool) -> dict[str, str | None]:
    """The facets that lead to the row's units and to no others; ``several`` guidelines have rows of their own."""
    criterion = {} if one.group or one.criterion is None else {"criterion": one.criterion}
    return {**one.group, **criterion, **({"guideline": one.guideline} if several else {})}


def _reasons(measured: Sequence[Agreement], shown: Sequence[str]) -> list[str]:
    found = [one.statistics[name].reason for name in shown for one in measured]
    return [gettext(reason) for reason in dict.fromkeys(found) if reason]


def chart(rows: Sequence[Counted], statistic: str, words: Words) -> dict[str, Any]:
    """The address of the picture and what it shows in words; empty where nothing can be drawn."""
    drawn = zip(rows, _names(rows, words), strict=True)
    dots = [dot for one, name in drawn if (dot := _dot(one, name, statistic)) is not None]
    if not dots:
        return {}
    title = str(STATISTICS[statistic])
    marks = () if statistic == "percent_agreement" else (TENTATIVE, RELIABLE)
    lowest, highest = min(dots, key=lambda dot: dot.value), max(dots, key=lambda dot: dot.value)
    return {
        "chart": chart_url(dot_and_whisker(dots, title=title, marks=marks)),
        "chart_title": title,
        "lowest": f"{lowest.label} {format_decimal(lowest.value)}",
        "highest": f"{highest.label} {format_decimal(highest.value)}",
        "left_out": len(rows) - len(dots),
    }


def _names(rows: Sequence[Counted], words: Words) -> list[str]:
    """What tells each row from the others: its group, and guideline and criterion where there are several. What is
    called the same twice running is said once; where that would make two rows alike, they keep their bare names.
    """
    criteria, guidelines = {row.criterion for row in rows}, {row.guideline for row in rows}
    called, bare = [], []
    for row in rows:
        before = [row.guideline] if len(guidelines) > 1 else []
        several = len(criteria) > 1 or not row.group
        criterion = [words.criterion(row.guideline, row.criterion)] if several else []
        group = [value or "-" for value in words.group(row)]
        called.append(" · ".join(part for part, _same in groupby([*before, *criterion, *group])))
        bare.append(" · ".join([*before, *[row.criterion or "-"] * several, *map(str, row.group.values())]))
    return called if len(set(called)) == len(called) else bare


def _dot(one: Counted, name: str, statistic: str) -> Dot | None:
    found = one.measured().statistics[statistic]
    if found.value is None or found.low is None or found.high is None:
        return None
    return Dot(label=name, value=found.value, low=found.low, high=found.high)
