"""The rows of the report: over everything, and by what they are grouped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from django.core.paginator import Paginator
from django.utils.translation import gettext

from annotation.core.charts import chart_url
from annotation.core.formatting import format_decimal
from annotation.domain.agreement import Agreement
from annotation.selectors.agreement import PatternCounts
from annotation.selectors.agreement.weights import summarize_weighings
from annotation.views.agreement.charts import AgreementDot, draw_dots
from annotation.views.agreement.query import AgreementChoice, TabQuery
from annotation.views.agreement.wording import (
    FACETS,
    RELIABLE,
    STATISTICS,
    TENTATIVE,
    FigureWords,
    GuidelineWords,
    alpha_name,
    find_reading,
    format_effect,
    format_figure,
    list_no_intervals,
)

PAGE = 40
# A group of fewer units never stands before those of more: a few disputes say little.
MIN_UNITS = 20


@dataclass(frozen=True)
class AgreementRow:
    """A row as it is shown: undefined figures are None, ``reading`` is a badge's state and word."""

    guideline: str
    criterion: str
    group: tuple[str, ...]
    n: int
    disputed: int
    effect: str
    figures: tuple[FigureWords | None, ...]
    reading: tuple[str, str] | None
    inside: str
    tasks: str
    disputes: str


@dataclass(frozen=True)
class IntraRaterRow:
    """One person's labels of the same responses in several rounds; ``changed``: those that differ."""

    person: str
    guideline: str
    criterion: str
    n: int
    changed: int
    figures: tuple[FigureWords | None, ...]
    """Percent agreement, and alpha at the level of the scale."""


def context(tab_query: TabQuery) -> dict[str, Any]:
    choice = tab_query.choice
    counted_rows = sort_weakest_first(
        pool_criteria(tab_query.patterns.list_counts(choice.grouping)), choice.statistic
    )
    page = Paginator(counted_rows, PAGE).get_page(tab_query.page)
    page_rows = list(page.object_list)
    return {
        "heads": [FACETS[facet] for facet in choice.grouping],
        "by": [
            {"label": label, "url": choice.page_url(by=facet, across=""), "current": facet == choice.by}
            for facet, label in FACETS.items()
        ],
        "crossable": [(name, label) for name, label in FACETS.items() if name != choice.by],
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "query": choice.query,
        **table_context(page_rows, tab_query.words, choice),
        **chart_context(page_rows, choice.statistic, tab_query.words),
        **(intra_rater_context(tab_query) if "round" in choice.grouping else {}),
    }


def intra_rater_context(tab_query: TabQuery) -> dict[str, Any]:
    """How alike each person labelled in several rounds, beside the agreement within each."""
    rows = [
        IntraRaterRow(
            person=row.group["annotator"] or "",
            guideline=row.guideline,
            criterion=tab_query.words.criterion(row.guideline, row.criterion),
            n=row.n,
            changed=row.disputed,
            figures=tuple(
                format_figure(measured.statistics[name])
                for name in ("percent_agreement", alpha_name(row.measurement))
            ),
        )
        for row in tab_query.patterns.list_intra_rater()
        for measured in [row.measure()]
    ]
    return {"by_round": True, "intra_rater": rows}


def pool_criteria(rows: Sequence[PatternCounts]) -> list[PatternCounts]:
    """Of each group and guideline the pooled row where there are several criteria: crossed with the criterion, each
    has a row of its own.
    """
    seen: dict[tuple[object, ...], PatternCounts] = {}
    for row in rows:
        seen.setdefault((row.guideline, *row.group.values()), row)
    return list(seen.values())


def sort_weakest_first(rows: Sequence[PatternCounts], statistic: str) -> list[PatternCounts]:
    """The lowest value first, then groups of few units, and what is undefined last."""

    def order(row: PatternCounts) -> tuple[bool, bool, float]:
        value = row.value(statistic)
        return value is None, row.n < MIN_UNITS, math.inf if value is None else value

    return sorted(rows, key=order)


def table_context(
    rows: Sequence[PatternCounts], words: GuidelineWords, choice: AgreementChoice
) -> dict[str, Any]:
    """The lines with every statistic that any of them has, and why the others are not there."""
    measured = [row.measure() for row in rows]
    statistics = defined_statistics(measured)
    weighings = [row.weighing for row in rows if row.n]
    return {
        "weighing": summarize_weighings(weighings),
        "rows": [
            build_row(row, agreement, statistics, words, choice)
            for row, agreement in zip(rows, measured, strict=True)
        ],
        "columns": [STATISTICS[name] for name in statistics],
        "undefined_reasons": list_undefined_reasons(measured, statistics),
        "no_intervals": list_no_intervals(
            agreement.statistics[name] for name in statistics for agreement in measured
        ),
    }


def defined_statistics(measured: Sequence[Agreement]) -> list[str]:
    """Those that some row has; the first three stand always, so that the columns do not jump about."""
    always = ("percent_agreement", "cohen_kappa", "alpha_nominal")
    return [
        name
        for name in STATISTICS
        if name in always or any(agreement.statistics[name].value is not None for agreement in measured)
    ]


def build_row(
    row: PatternCounts,
    agreement: Agreement,
    statistics: Sequence[str],
    words: GuidelineWords,
    choice: AgreementChoice,
) -> AgreementRow:
    inside = choice.narrowing.with_group(row_facets(row, several=words.several))
    return AgreementRow(
        guideline=row.guideline,
        criterion=words.criterion(row.guideline, row.criterion),
        group=words.group(row),
        n=agreement.n,
        disputed=agreement.disputed,
        effect=format_effect(agreement),
        figures=tuple(format_figure(agreement.statistics[name]) for name in statistics),
        reading=find_reading(agreement.statistics[alpha_name(row.measurement)].low),
        inside="" if inside == choice.narrowing else choice.narrowed_url(inside, view="", by="", across=""),
        tasks=choice.tasks_url(inside),
        disputes=choice.tasks_url(replace(inside, disputed=True)),
    )


def row_facets(row: PatternCounts, *, several: bool) -> dict[str, str | None]:
    """The facets that lead to the row's units and to no others; ``several`` guidelines have rows of their own."""
    criterion = {} if row.group or row.criterion is None else {"criterion": row.criterion}
    return {**row.group, **criterion, **({"guideline": row.guideline} if several else {})}


def list_undefined_reasons(measured: Sequence[Agreement], statistics: Sequence[str]) -> list[str]:
    reasons = [agreement.statistics[name].reason for name in statistics for agreement in measured]
    return [gettext(reason) for reason in dict.fromkeys(reasons) if reason]


def chart_context(rows: Sequence[PatternCounts], statistic: str, words: GuidelineWords) -> dict[str, Any]:
    """The address of the picture and what it shows in words; empty where nothing can be drawn."""
    drawn = zip(rows, row_names(rows, words), strict=True)
    dots = [dot for row, name in drawn if (dot := build_dot(row, name, statistic)) is not None]
    if not dots:
        return {}
    title = str(STATISTICS[statistic])
    marks = () if statistic == "percent_agreement" else (TENTATIVE, RELIABLE)
    lowest, highest = min(dots, key=lambda dot: dot.value), max(dots, key=lambda dot: dot.value)
    return {
        "chart": chart_url(draw_dots(dots, title=title, marks=marks)),
        "chart_title": title,
        "lowest": f"{lowest.label} {format_decimal(lowest.value)}",
        "highest": f"{highest.label} {format_decimal(highest.value)}",
        "left_out": len(rows) - len(dots),
    }


def row_names(rows: Sequence[PatternCounts], words: GuidelineWords) -> list[str]:
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


def build_dot(row: PatternCounts, name: str, statistic: str) -> AgreementDot | None:
    measured = row.measure().statistics[statistic]
    if measured.value is None or measured.low is None or measured.high is None:
        return None
    return AgreementDot(label=name, value=measured.value, low=measured.low, high=measured.high)
