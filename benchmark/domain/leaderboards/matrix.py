"""The boards of several datasets and guidelines beside each other: models by boards, and how alike two boards order
them. Pure. docs/leaderboard.md says what is correlated with what.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from annotation.domain.guidelines import GuidelineDocument, Metric
from benchmark.domain.correlations import correlate_numbers
from benchmark.domain.leaderboards.metrics import list_metric_scopes

MIN_CORRELATED = 3
"""Two models are in the same order or in the opposite one: a coefficient of so few says nothing."""


@dataclass(frozen=True)
class MatrixNumber:
    """A model's number on a board, in the metric's own unit (a rate is a share, 0 to 1), with its 95% interval.

    ``n`` is of how many responses, None where a published table does not tell it. ``is_compared``: labels of people
    bear it out, or others published it; else a scorer predicted it, and it is no ground to order models by.
    """

    value: float
    low: float | None
    high: float | None
    n: int | None
    is_compared: bool

    @property
    def statistic(self) -> dict[str, float | None]:
        return {"value": self.value, "low": self.low, "high": self.high}

    def to_json(self) -> dict[str, Any]:
        return {**self.statistic, "n": self.n, "compared": self.is_compared}


@dataclass(frozen=True)
class MatrixColumn:
    """One number of every model of a board: of ``metric``, overall (``scope`` None), else in the first of its
    dimensions.
    """

    metric: Metric
    scope: str | None
    numbers: Mapping[str, MatrixNumber]

    @classmethod
    def build(
        cls, document: GuidelineDocument, metric: Metric, rows: Iterable[Mapping[str, Any]]
    ) -> MatrixColumn:
        """``rows`` are those of a board; a model without the number is left out."""
        scope = None if metric.overall != "none" else list_metric_scopes(document, metric)[0]
        numbers = {
            row["model"]: number for row in rows if (number := _read_number(metric, scope, row)) is not None
        }
        return cls(metric, scope, numbers)

    @property
    def merits(self) -> dict[str, float]:
        """By model that is compared: its number, turned where lower is better, so that more is always better."""
        return {
            model: self.metric.sign * number.value
            for model, number in self.numbers.items()
            if number.is_compared
        }


def choose_metric(document: GuidelineDocument, name: str) -> Metric:
    """The metric of this name, or where the guideline declares none of it the one that its boards are ranked by."""
    return next(
        (metric for metric in document.metrics if metric.name == name), document.metric(document.rank_by)
    )


def _read_number(metric: Metric, scope: str | None, row: Mapping[str, Any]) -> MatrixNumber | None:
    cell = row["dimensions"].get(scope, {}) if scope is not None else row
    statistic = (row["overall"] if scope is None else cell).get(metric.name)
    if not statistic or statistic["value"] is None:
        return None
    return MatrixNumber(
        statistic["value"], statistic["low"], statistic["high"], cell.get("n"), cell.get("reason") is None
    )


@dataclass(frozen=True)
class BoardCorrelation:
    """How alike two columns (``first`` before ``second``, by their places) order the ``n`` models that both compare.

    Spearman's coefficient of their ``merits`` with its 95% interval; None where it is undefined.
    """

    first: int
    second: int
    n: int
    value: float | None
    low: float | None
    high: float | None

    def to_json(self) -> dict[str, Any]:
        statistic = {"value": self.value, "low": self.low, "high": self.high}
        return {"first": self.first, "second": self.second, "n": self.n, "spearman": statistic}


def correlate_columns(columns: Sequence[MatrixColumn]) -> list[BoardCorrelation]:
    """Each two of them once."""
    merits = [column.merits for column in columns]
    correlations = []
    for first, second in combinations(range(len(columns)), 2):
        figures = correlate_numbers(merits[first], merits[second], min_models=MIN_CORRELATED)
        correlations.append(BoardCorrelation(first, second, figures["n"], **figures["spearman"]))
    return correlations


def list_models(columns: Sequence[MatrixColumn]) -> list[str]:
    """Every model of the columns, by name."""
    return sorted(
        {model for column in columns for model in column.numbers}, key=lambda name: (name.lower(), name)
    )


def order_models(models: Sequence[str], column: MatrixColumn) -> list[str]:
    """The compared ones first, best first, then the predicted ones, then those without a number."""

    def sort_key(model: str) -> tuple[int, float]:
        number = column.numbers.get(model)
        if number is None:
            return 2, 0.0
        return int(not number.is_compared), -column.metric.sign * number.value

    return sorted(models, key=sort_key)
