"""A stored board in the words and numbers of a page.

The columns of a board as a page shows it: one number each, of the metric that is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from annotation.core.formatting import (
    format_grouped,
    format_range,
)
from annotation.core.text_templates import join_names
from annotation.domain.guidelines import GuidelineDocument, Metric, localize
from annotation.models import Prompt
from benchmark.domain.leaderboards.metrics import (
    ALL,
    SMALL,
    find_metric,
    format_metric_bound,
    format_metric_difference,
    format_metric_value,
    list_metrics,
    list_scopes,
)
from benchmark.domain.leaderboards.responses import (
    ATTACK_METHOD,
    LANGUAGE,
    MALICE,
    METHOD_BY_MALICE,
    SUBCOMPONENT,
    split_crossed,
)
from benchmark.models import BenchmarkRun
from benchmark.views.leaderboards.query import OVERALL


@dataclass(frozen=True)
class MetricNumber:
    """One metric: as text, and on the 0 to 100 axis of a whisker."""

    label: str
    value: str
    interval: str
    at: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class CellView:
    scope: str
    url: str
    n: int
    numbers: tuple[MetricNumber, ...]
    composition: str
    missing: int
    small: bool


def scope_label(document: GuidelineDocument, scope: str | None) -> str:
    if scope is None:
        return _("Overall")
    dimension = document.dimension(scope)
    return _("All responses") if dimension is None else localize(dimension.label, _language())


def metric_label(metric: Metric) -> str:
    """As the guideline calls it, and that lower is better where it is."""
    label = localize(metric.label, _language())
    return _("{metric} (lower is better)").format(metric=label) if metric.better == "lower" else label


def sort_direction(metric: Metric) -> str:
    """For ``aria-sort`` of a column with the best number first."""
    return "descending" if metric.better == "higher" else "ascending"


def _language() -> str:
    return get_language() or "en"


def list_overall_metrics(document: GuidelineDocument) -> list[Metric]:
    return [metric for metric in document.metrics if metric.overall != "none"]


def overall_view(run: BenchmarkRun, row: Mapping[str, Any]) -> CellView:
    document = run.scorer.guideline.document
    cells = row["dimensions"].values()
    return CellView(
        scope="",
        url=cell_url(run, row["model"], None),
        n=row["n"],
        numbers=tuple(
            make_number(document, overall_metric, row["overall"][overall_metric.name])
            for overall_metric in list_overall_metrics(document)
        ),
        composition=format_composition(sum_compositions(cells)),
        missing=sum(cell["missing"] for cell in cells),
        small=any(cell["n"] < SMALL for cell in cells),
    )


def sum_compositions(cells: Any) -> dict[str, int]:
    """The composition of several cells together."""
    summed: dict[str, int] = {}
    for cell in cells:
        for basis, n in cell["composition"].items():
            summed[basis] = summed.get(basis, 0) + n
    return summed


def cell_view(run: BenchmarkRun, model: str, scope: str, cell: Mapping[str, Any]) -> CellView:
    document = run.scorer.guideline.document
    return CellView(
        scope=scope,
        url=cell_url(run, model, scope),
        n=cell["n"],
        numbers=tuple(
            make_number(document, metric, cell[metric.name]) for metric in list_metrics(document, scope)
        ),
        composition=format_composition(cell["composition"]),
        missing=cell["missing"],
        small=cell["n"] < SMALL,
    )


def cell_url(run: BenchmarkRun, model: str, scope: str | None) -> str:
    return cell_address(reverse("run-cell", args=[run.name]), model, scope)


def cell_address(cells: str, model: str, scope: str | None) -> str:
    """``cells`` is the address of the run's cells: a board has hundreds, and looks it up once."""
    place = {"model": model} if scope is None else {"model": model, "dimension": scope}
    return f"{cells}?{urlencode(place)}"


def make_number(
    document: GuidelineDocument, metric: Metric, statistic: Mapping[str, float | None]
) -> MetricNumber:
    value, low, high = (statistic[part] for part in ("value", "low", "high"))
    top = axis_top(document, metric)
    at, at_low, at_high = (
        None if bound is None or top <= 0 else round(100 * bound / top, 2) for bound in (value, low, high)
    )
    interval = format_interval(metric, statistic) or "-"
    return MetricNumber(
        metric_label(metric), format_metric_value(metric, value), interval, at, at_low, at_high
    )


def format_interval(metric: Metric, statistic: Mapping[str, float | None]) -> str:
    """``57.5% to 82.7%``; blank where it is undefined."""
    low, high = statistic["low"], statistic["high"]
    if low is None or high is None:
        return ""
    return format_range(format_metric_bound(metric, low), format_metric_bound(metric, high))


def format_difference_interval(metric: Metric, statistic: Mapping[str, float | None]) -> str:
    low, high = statistic["low"], statistic["high"]
    if low is None or high is None:
        return ""
    return format_range(format_metric_difference(metric, low), format_metric_difference(metric, high))


def attribute_label(attribute: str) -> str:
    """What prompts are grouped by."""
    words = {
        SUBCOMPONENT: _("Subcomponent"),
        ATTACK_METHOD: _("Attack method"),
        MALICE: _("Malice"),
        METHOD_BY_MALICE: _("Attack method and malice"),
        LANGUAGE: _("Language"),
    }
    return words.get(attribute, attribute)


def group_label(document: GuidelineDocument, attribute: str, name: str, scope: str | None) -> str:
    """A subcomponent by its label in its dimension, malice in the reader's language; anything else by its own name."""
    if attribute == MALICE:
        return malice_label(name)
    if attribute == METHOD_BY_MALICE:
        method, malice = split_crossed(name)
        return f"{method} · {malice_label(malice)}"
    dimension = document.dimension(scope or "") if attribute == SUBCOMPONENT else None
    parts = dimension.subcomponents if dimension else ()
    return next((localize(part.label, _language()) for part in parts if part.name == name), name)


def malice_label(malice: str) -> str:
    return str(Prompt.Malice(malice).label) if malice in Prompt.Malice.values else malice


def axis_top(document: GuidelineDocument, metric: Metric) -> float:
    """What a metric can reach at most: the right end of its axis. Not above 0 there is no axis to draw."""
    if metric.kind == "rate":
        return 1.0
    highest = max(
        criterion.values[-1]
        for scope in (document.dimensions_of(metric) or (ALL,))
        for criterion in document.criteria_of(metric, scope if document.dimensions else None)
    )
    return metric.of_mean(highest)


def format_composition(counts: Mapping[str, int]) -> str:
    """``120 gold, 30 out of fold``: what the responses of a cell rest on; nothing of what there is none of."""
    words = {
        "gold": _("{n} gold"),
        "out_of_fold": _("{n} out of fold"),
        "unseen": _("{n} unseen"),
    }
    return (
        join_names(
            [words[basis].format(n=format_grouped(counts[basis])) for basis in words if counts.get(basis)]
        )
        or "-"
    )


def join_heading(head: str, text: str) -> str:
    """``head: text``, with the colon of the language."""
    return _("{head}: {text}").format(head=head, text=text)


BoardRow = Mapping[str, Any]
Statistic = Mapping[str, float | None]
UNDEFINED: Statistic = {"value": None, "low": None, "high": None}


@dataclass(frozen=True)
class BoardColumn:
    """``scope`` None is the overall number."""

    scope: str | None
    metric: Metric

    @property
    def name(self) -> str:
        return self.scope or OVERALL

    def statistic(self, row: BoardRow) -> Statistic:
        """Undefined where the board, perhaps of another version of the guideline, does not have it."""
        cell = row["overall"] if self.scope is None else row["dimensions"].get(self.scope, {})
        statistic: Statistic = cell.get(self.metric.name) or UNDEFINED
        return statistic

    def n(self, row: BoardRow) -> int | None:
        """None where a published row does not tell it."""
        n = row["n"] if self.scope is None else row["dimensions"].get(self.scope, {}).get("n", 0)
        return None if n is None else int(n)

    def composition(self, row: BoardRow) -> dict[str, int]:
        """How many responses rest on what; empty for a board that was not made by a run."""
        summed: dict[str, int] = {}
        for cell in self._cells(row):
            for basis, n in cell.get("composition", {}).items():
                summed[basis] = summed.get(basis, 0) + n
        return summed

    def rank(self, row: BoardRow) -> dict[str, int] | None:
        """The model's rank by this number; None where the board ranks nobody by it."""
        cell = row["dimensions"].get(self.scope or "", {})
        rank: dict[str, int] | None = cell.get("rank") if self.metric.name in cell else None
        return rank

    def ground(self, row: BoardRow) -> str | None:
        """What the number rests on; None of a published one and of one without a response."""
        held = row if self.scope is None else row["dimensions"].get(self.scope, {})
        ground: str | None = held.get("ground")
        return ground

    def state_ground(self, row: BoardRow) -> tuple[str, str]:
        """The ground, and why the number is not compared; blank where there is nothing to say."""
        held = row if self.scope is None else row["dimensions"].get(self.scope, {})
        return held.get("ground") or "", held.get("reason") or ""

    def missing(self, row: BoardRow) -> int:
        return sum(cell.get("missing", 0) for cell in self._cells(row))

    def _cells(self, row: BoardRow) -> Sequence[Mapping[str, Any]]:
        if self.scope is None:
            return list(row["dimensions"].values())
        return [row["dimensions"][self.scope]] if self.scope in row["dimensions"] else []

    def choice_name(self, document: GuidelineDocument) -> str:
        """By what it is chosen: its scope, and its metric where there is one scope alone."""
        return self.name if document.dimensions else self.metric.name

    def label(self, document: GuidelineDocument) -> str:
        return scope_label(document, self.scope)


def list_metric_views(document: GuidelineDocument) -> list[Metric]:
    """The metrics that one can look at the board by, the one that ranks first: those that give other columns."""
    lead = document.metric(document.rank_by)
    if not document.dimensions:
        return [lead]
    views: dict[tuple[tuple[str | None, str], ...], Metric] = {}
    for metric in [lead, *document.metrics]:
        key = tuple((column.scope, column.metric.name) for column in list_columns(document, metric))
        if not any(set(key) <= set(other) for other in views):
            views[key] = metric
    return list(views.values())


def list_columns(document: GuidelineDocument, metric: Metric) -> list[BoardColumn]:
    """The overall number and that of each dimension; where a dimension has not this metric, one of its kind.

    Without dimensions there is one cell, and the columns are the metrics.
    """
    if not document.dimensions:
        return [BoardColumn(None if metric.overall != "none" else ALL, metric) for metric in document.metrics]
    overall = [BoardColumn(None, metric)] if metric in list_overall_metrics(document) else []
    scoped_metrics = [(scope, find_metric(document, scope, metric)) for scope in list_scopes(document)]
    return overall + [
        BoardColumn(scope, scoped_metric)
        for scope, scoped_metric in scoped_metrics
        if scoped_metric is not None
    ]


def heading(
    document: GuidelineDocument, column: BoardColumn, columns: Sequence[BoardColumn]
) -> tuple[str, str]:
    """What stands over a column, and under it the metric where columns have several."""
    several = len({column.metric.name for column in columns}) > 1
    if not document.dimensions:
        return metric_label(column.metric), ""
    return column.label(document), metric_label(column.metric) if several else ""
