"""The columns of a board as a page shows it: one number each, of the metric that is looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from annotation.guidelines import GuidelineDocument, Metric
from benchmark.views.board_place import OVERALL
from benchmark.views.presenting import metric_label, overall_metrics, scope_label

from ..figures.metrics import ALL, metric_in, scopes

Row = Mapping[str, Any]
Statistic = Mapping[str, float | None]
UNDEFINED: Statistic = {"value": None, "low": None, "high": None}


@dataclass(frozen=True)
class Column:
    """``scope`` None is the overall number."""

    scope: str | None
    metric: Metric

    @property
    def name(self) -> str:
        return self.scope or OVERALL

    def statistic(self, row: Row) -> Statistic:
        """Undefined where the board, perhaps of another version of the guideline, does not have it."""
        cell = row["overall"] if self.scope is None else row["dimensions"].get(self.scope, {})
        statistic: Statistic = cell.get(self.metric.name) or UNDEFINED
        return statistic

    def n(self, row: Row) -> int | None:
        """None where a published row does not tell it."""
        n = row["n"] if self.scope is None else row["dimensions"].get(self.scope, {}).get("n", 0)
        return None if n is None else int(n)

    def composition(self, row: Row) -> dict[str, int]:
        """How many responses rest on what; empty for a board that was not made by a run."""
        summed: dict[str, int] = {}
        for cell in self._cells(row):
            for basis, n in cell.get("composition", {}).items():
                summed[basis] = summed.get(basis, 0) + n
        return summed

    def rank(self, row: Row) -> dict[str, int] | None:
        """The model's rank by this number; None where the board ranks nobody by it."""
        cell = row["dimensions"].get(self.scope or "", {})
        rank: dict[str, int] | None = cell.get("rank") if self.metric.name in cell else None
        return rank

    def missing(self, row: Row) -> int:
        return sum(cell.get("missing", 0) for cell in self._cells(row))

    def _cells(self, row: Row) -> Sequence[Mapping[str, Any]]:
        if self.scope is None:
            return list(row["dimensions"].values())
        return [row["dimensions"][self.scope]] if self.scope in row["dimensions"] else []

    def named(self, document: GuidelineDocument) -> str:
        """By what it is chosen: its scope, and its metric where there is one scope alone."""
        return self.name if document.dimensions else self.metric.name

    def label(self, document: GuidelineDocument) -> str:
        return scope_label(document, self.scope)


def metric_views(document: GuidelineDocument) -> list[Metric]:
    """The metrics that one can look at the board by, the one that ranks first: those that give other columns."""
    lead = document.metric(document.rank_by)
    if not document.dimensions:
        return [lead]
    views: dict[tuple[tuple[str | None, str], ...], Metric] = {}
    for metric in [lead, *document.metrics]:
        key = tuple((column.scope, column.metric.name) for column in columns_of(document, metric))
        if not any(set(key) <= set(other) for other in views):
            views[key] = metric
    return list(views.values())


def columns_of(document: GuidelineDocument, metric: Metric) -> list[Column]:
    """The overall number and that of each dimension; where a dimension has not this metric, one of its kind.

    Without dimensions there is one cell, and the columns are the metrics.
    """
    if not document.dimensions:
        return [Column(None if metric.overall != "none" else ALL, metric) for metric in document.metrics]
    overall = [Column(None, metric)] if metric in overall_metrics(document) else []
    scoped_metrics = [(scope, metric_in(document, scope, metric)) for scope in scopes(document)]
    return overall + [
        Column(scope, scoped_metric) for scope, scoped_metric in scoped_metrics if scoped_metric is not None
    ]


def heading(document: GuidelineDocument, column: Column, columns: Sequence[Column]) -> tuple[str, str]:
    """What stands over a column, and under it the metric where columns have several."""
    several = len({column.metric.name for column in columns}) > 1
    if not document.dimensions:
        return metric_label(column.metric), ""
    return column.label(document), metric_label(column.metric) if several else ""
