"""The agreement page: whether the labels can be trusted, and where they cannot."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.agreement import Statistic
from annotation.charts import chart_url
from annotation.errors import N_, AssayError
from annotation.guidelines import GuidelineDocument
from annotation.models import MANAGER, RESEARCHER, Guideline
from annotation.selectors.agreement import (
    FACETS,
    Grouping,
    LabelPatterns,
    ReportRow,
    batches_for,
)
from annotation.selectors.blindness import sealed_batches
from annotation.views.access import has_role, person_of, role_required
from annotation.views.agreement_chart import Dot, dot_and_whisker
from annotation.views.levels import criterion_label, dimension_label, level_text, subcomponent_label

STATISTICS: dict[str, str | Promise] = {
    "percent_agreement": gettext_lazy("Percent agreement"),
    "cohen_kappa": gettext_lazy("Cohen's kappa"),
    "alpha_nominal": gettext_lazy("Alpha, nominal"),
    "alpha_ordinal": gettext_lazy("Alpha, ordinal"),
    "alpha_interval": gettext_lazy("Alpha, interval"),
    "gwet_ac1": gettext_lazy("Gwet's AC1"),
}
FACET_LABELS: dict[str, str | Promise] = {
    "dimension": gettext_lazy("Dimension"),
    "subcomponent": gettext_lazy("Subcomponent"),
    "model": gettext_lazy("Model"),
    "pair": gettext_lazy("Pair"),
    "guideline_version": gettext_lazy("Guideline version"),
}
# The customary marks for alpha: K. Krippendorff, Content Analysis (2004), chapter 11.
RELIABLE, TENTATIVE = 0.8, 0.667
DRAWN = 40
CONFUSIONS = 10


@dataclass(frozen=True)
class Choice:
    """What the page's address chooses."""

    batch: str
    by: str
    across: str
    statistic: str

    @property
    def grouping(self) -> Grouping:
        return tuple(dict.fromkeys(facet for facet in (self.by, self.across) if facet))

    def address(self, **changes: str) -> str:
        parts = {"batch": self.batch, "by": self.by, "across": self.across, "statistic": self.statistic}
        return "?" + urlencode({name: value for name, value in {**parts, **changes}.items() if value})


class Words:
    """What guidelines call their parts in the reader's language: each by its latest version that has the part."""

    def __init__(self, guidelines: Iterable[Guideline]) -> None:
        self._documents: dict[str, list[GuidelineDocument]] = defaultdict(list)
        for guideline in sorted(guidelines, key=lambda one: -one.pk):
            self._documents[guideline.name].append(guideline.document)

    def criterion(self, guideline: str, name: str | None) -> str:
        """Without a name several of them, pooled."""
        if name is None:
            return gettext("all criteria pooled")
        return self._called(criterion_label, guideline, name)

    def group(self, row: ReportRow) -> tuple[str, ...]:
        """The values of the row's facets; empty where a prompt has none."""
        return tuple(self._value(row.guideline, facet, value or "") for facet, value in row.group.items())

    def _value(self, guideline: str, facet: str, value: str) -> str:
        label = {"dimension": dimension_label, "subcomponent": subcomponent_label}.get(facet)
        return self._called(label, guideline, value) if label and value else value

    def _called(self, label: Callable[[GuidelineDocument, str], str], guideline: str, name: str) -> str:
        said = (label(document, name) for document in self._documents[guideline])
        return next((words for words in said if words != name), name)


@dataclass(frozen=True)
class Figure:
    value: str
    interval: str


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


@require_GET
@never_cache
@role_required(MANAGER, RESEARCHER)
def agreement(request: HttpRequest) -> HttpResponse:
    person, choice = person_of(request), _choice(request)
    patterns = LabelPatterns(batches_for(person, choice.batch))
    rows, words = patterns.report([choice.grouping]), Words(patterns.guidelines.values())
    overall = [row for row in rows if not row.group]
    choice = replace(choice, statistic=choice.statistic or _usual_statistic(overall))
    grouped = _weakest_first([row for row in rows if row.group], choice.statistic)
    shown = _shown_statistics(rows)
    context = {
        "choice": choice,
        "manages": has_role(person, MANAGER),
        "tabs": _tabs(choice),
        "batches": batches_for(person).order_by("name"),
        "sealed": sealed_batches(person).count(),
        "facets": [(name, FACET_LABELS[name]) for name in FACETS if name != choice.by],
        "statistics": STATISTICS.items(),
        "headline": _headline(overall),
        "columns": [STATISTICS[name] for name in shown],
        "several": len({row.guideline for row in rows}) > 1,
        "overall": [_line(row, shown, words) for row in overall],
        "groups": [_line(row, shown, words) for row in grouped],
        "group_heads": [FACET_LABELS[facet] for facet in choice.grouping],
        "anything": any(row.agreement.n for row in rows),
        "reasons": _reasons(rows, shown),
        "confusions": _confusions(patterns, words),
        **_chart(grouped or overall, choice, words),
    }
    return render(request, "annotation/agreement/page.html", context)


def _choice(request: HttpRequest) -> Choice:
    given = {name: request.GET.get(name, "").strip() for name in ("batch", "by", "across", "statistic")}
    for name, known in (("by", FACETS), ("across", FACETS), ("statistic", tuple(STATISTICS))):
        if given[name] and given[name] not in known:
            raise AssayError(
                N_("{value} cannot be chosen here; choose one of: {known}."),
                value=given[name],
                known=", ".join(known),
            )
    return Choice(**given)


def _usual_statistic(overall: Sequence[ReportRow]) -> str:
    """Alpha at the level of the scale where all scales have the same, else the one that every scale allows."""
    levels = {row.measurement for row in overall}
    return f"alpha_{levels.pop()}" if len(levels) == 1 else "alpha_nominal"


def _tabs(choice: Choice) -> list[dict[str, Any]]:
    tabs = [("", gettext("Everything")), *FACET_LABELS.items()]
    return [
        {"label": label, "url": choice.address(by=name, across=""), "current": name == choice.by}
        for name, label in tabs
    ]


def _weakest_first(rows: Sequence[ReportRow], statistic: str) -> list[ReportRow]:
    """The lowest value first, and what is undefined last: this is where the labels cannot be trusted."""

    def order(row: ReportRow) -> float:
        value = row.agreement.statistics[statistic].value
        return math.inf if value is None else value

    return sorted(rows, key=order)


def _shown_statistics(rows: Sequence[ReportRow]) -> list[str]:
    """Those that some row has; the first three stand always, so that the columns do not jump about."""
    always = ("percent_agreement", "cohen_kappa", "alpha_nominal")
    return [
        name
        for name in STATISTICS
        if name in always or any(row.agreement.statistics[name].value is not None for row in rows)
    ]


def _alpha(row: ReportRow) -> Statistic:
    """Alpha at the level of the row's own scale: what a row is read by."""
    return row.agreement.statistics[f"alpha_{row.measurement}"]


def _reading(row: ReportRow) -> tuple[str, str] | None:
    """By the lower end of alpha's interval, so that a few units cannot pass for reliable."""
    low = _alpha(row).low
    if low is None:
        return None
    if low >= RELIABLE:
        return "success", gettext("Reliable")
    if low >= TENTATIVE:
        return "warning", gettext("Tentative")
    return "error", gettext("Not established")


def _headline(overall: Sequence[ReportRow]) -> dict[str, Any] | None:
    """The figures at the top: of the one guideline, its criteria pooled where there are several."""
    if not overall or len({row.guideline for row in overall}) > 1 or not overall[0].agreement.n:
        return None
    row = overall[0]
    figures = [row.agreement.statistics[name] for name in ("percent_agreement", "cohen_kappa")]
    named = [
        STATISTICS["percent_agreement"],
        STATISTICS["cohen_kappa"],
        STATISTICS[f"alpha_{row.measurement}"],
    ]
    reading = _reading(row)
    return {
        "n": row.agreement.n,
        "disputed": row.agreement.disputed,
        "tiles": [_tile(label, one) for label, one in zip(named, [*figures, _alpha(row)], strict=True)],
        "reading": reading,
        "verdict": _VERDICTS[reading[0]] if reading else None,
    }


_VERDICTS: dict[str, str | Promise] = {
    "success": gettext_lazy("The labels can be relied on: alpha's interval lies above 0.800."),
    "warning": gettext_lazy("Fit for tentative conclusions: alpha's interval reaches below 0.800."),
    "error": gettext_lazy("Do not rely on these labels yet: alpha's interval reaches below 0.667."),
}


def _tile(label: str | Promise, statistic: Statistic) -> dict[str, Any]:
    figure = _figure(statistic)
    return {
        "label": label,
        "value": figure.value if figure else None,
        "note": figure.interval if figure else "",
    }


def _line(row: ReportRow, shown: Sequence[str], words: Words) -> Line:
    return Line(
        guideline=row.guideline,
        criterion=words.criterion(row.guideline, row.criterion),
        group=words.group(row),
        n=row.agreement.n,
        disputed=row.agreement.disputed,
        figures=tuple(_figure(row.agreement.statistics[name]) for name in shown),
        reading=_reading(row),
    )


def _figure(statistic: Statistic) -> Figure | None:
    if statistic.value is None:
        return None
    if statistic.low is None or statistic.high is None:
        return Figure(f"{statistic.value:.3f}", "")
    return Figure(f"{statistic.value:.3f}", f"{statistic.low:.3f} – {statistic.high:.3f}")


def _reasons(rows: Sequence[ReportRow], shown: Sequence[str]) -> list[str]:
    found = [row.agreement.statistics[name].reason for name in shown for row in rows]
    return [gettext(reason) for reason in dict.fromkeys(found) if reason]


def _confusions(patterns: LabelPatterns, words: Words) -> list[dict[str, Any]]:
    return [
        {
            "criterion": words.criterion(one.guideline, one.criterion.name),
            "guideline": one.guideline,
            "low": level_text(one.criterion, one.low),
            "high": level_text(one.criterion, one.high),
            "count": one.count,
        }
        for one in patterns.confusions()[:CONFUSIONS]
    ]


def _chart(rows: Sequence[ReportRow], choice: Choice, words: Words) -> dict[str, Any]:
    """The address of the picture and what it shows in words; empty where nothing can be drawn."""
    named = zip(rows, _names(rows, words), strict=True)
    dots = [dot for row, name in named if (dot := _dot(row, name, choice.statistic)) is not None][:DRAWN]
    if not dots:
        return {}
    title = str(STATISTICS[choice.statistic])
    marks = () if choice.statistic == "percent_agreement" else (TENTATIVE, RELIABLE)
    lowest, highest = min(dots, key=lambda dot: dot.value), max(dots, key=lambda dot: dot.value)
    return {
        "chart": chart_url(dot_and_whisker(dots, title=title, marks=marks)),
        "chart_title": title,
        "lowest": f"{lowest.label} {lowest.value:.3f}",
        "highest": f"{highest.label} {highest.value:.3f}",
        "left_out": len(rows) - len(dots),
    }


def _names(rows: Sequence[ReportRow], words: Words) -> list[str]:
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


def _dot(row: ReportRow, name: str, statistic: str) -> Dot | None:
    one = row.agreement.statistics[statistic]
    if one.value is None or one.low is None or one.high is None:
        return None
    return Dot(label=name, value=one.value, low=one.low, high=one.high)
