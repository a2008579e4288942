"""The headline numbers that a guideline declares, from the labels that responses were given. Pure.

docs/leaderboard.md says what each number and interval is. Sums and values of labels are exact fractions; intervals are
floats. Undefined is None. board.py puts them together: board, groups and pairs.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from annotation.core.proportions import wilson
from annotation.domain.guidelines import GuidelineDocument, Metric
from benchmark.domain.leaderboards.intervals import MeanMoments, measure_labels
from benchmark.domain.leaderboards.responses import (
    ColumnResponses,
    CountedResponse,
    Floats,
    Labels,
    Mask,
    Value,
)

ALL = "all"
"""The name of the only cell of a guideline that has no dimensions."""

SMALL = 30
"""Below so many responses no number stands without its interval."""


@dataclass(frozen=True)
class MetricEstimate:
    """A value with its 95% interval, in the metric's own unit: a rate is a share, 0 to 1."""

    value: Fraction | float | None = None
    low: float | None = None
    high: float | None = None

    def to_json(self) -> dict[str, float | None]:
        value = None if self.value is None else float(self.value)
        return {"value": value, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class BoardSample:
    """The responses that a board counts, by column."""

    document: GuidelineDocument
    models: tuple[str, ...]
    columns: Mapping[str, ColumnResponses]

    @classmethod
    def build(
        cls, document: GuidelineDocument, rows: Iterable[CountedResponse], *, models: Iterable[str] = ()
    ) -> BoardSample:
        """``models`` are those that have a row on the board even without a response."""
        by_scope: dict[str, list[CountedResponse]] = defaultdict(list)
        names = set(models)
        for row in rows:
            by_scope[row.scope].append(row)
            names.add(row.model)
        ordered = tuple(sorted(names))
        columns = {scope: ColumnResponses.build(by_scope[scope], ordered) for scope in list_scopes(document)}
        return cls(document, ordered, columns)

    def count_labels(self, scope: str, group: tuple[str, str] | None = None) -> dict[str, Counter[Labels]]:
        """By model, how many responses in this column (and group of prompts) were given exactly which labels."""
        return self.columns[scope].count_labels(self.select_units(scope, group))

    def select_units(self, scope: str, group: tuple[str, str] | None) -> Mask | None:
        """Which units of the column are of the group; None for all."""
        return None if group is None else self.columns[scope].select_units(*group)


@dataclass(frozen=True)
class MetricPart:
    """What some responses add to a metric: ``total`` over ``labels``, in the metric's own unit.

    ``responses`` have a label in it; ``sums`` and ``squares`` are those of their own values.
    """

    total: Fraction = Fraction(0)
    labels: int = 0
    responses: int = 0
    sums: float = 0.0
    squares: float = 0.0

    def __add__(self, other: MetricPart) -> MetricPart:
        return MetricPart(
            self.total + other.total,
            self.labels + other.labels,
            self.responses + other.responses,
            self.sums + other.sums,
            self.squares + other.squares,
        )

    @property
    def value(self) -> Fraction | None:
        return self.total / self.labels if self.labels else None


def list_scopes(document: GuidelineDocument) -> tuple[str, ...]:
    """The columns of the board."""
    return document.dimension_names or (ALL,)


def list_metrics(document: GuidelineDocument, scope: str) -> list[Metric]:
    """The metrics that this column has."""
    return [metric for metric in document.metrics if scope in list_metric_scopes(document, metric)]


def find_metric(document: GuidelineDocument, scope: str, metric: Metric) -> Metric | None:
    """The metric, or the first of its kind where this column does not have it."""
    scope_metrics = list_metrics(document, scope)
    return (
        metric
        if metric in scope_metrics
        else next((candidate for candidate in scope_metrics if candidate.kind == metric.kind), None)
    )


def list_metric_scopes(document: GuidelineDocument, metric: Metric) -> tuple[str, ...]:
    """The columns that the metric has a number in."""
    return document.dimensions_of(metric) or (ALL,)


def count_levels(
    document: GuidelineDocument, scope: str, counted: Mapping[Labels, int]
) -> dict[str, dict[str, int]]:
    """By criterion and level, levels that nobody gave included."""
    counts: Counter[tuple[str, Value]] = Counter()
    for labels, responses in counted.items():
        for label in labels:
            counts[label] += responses
    criteria = document.countable_for(_find_dimension(scope, document))
    return {
        criterion.name: {f"{value:g}": counts[criterion.name, value] for value in criterion.values}
        for criterion in criteria
    }


def _find_dimension(scope: str, document: GuidelineDocument) -> str | None:
    return scope if document.dimensions else None


def list_response_values(
    document: GuidelineDocument, metric: Metric, scope: str, patterns: Iterable[Labels]
) -> Floats:
    """By pattern, what a response with these labels has in the metric, in its own unit; NaN without a label in it."""
    factor = compute_factor(metric)
    values = [_list_values(document, metric, scope, labels) for labels in patterns]
    return np.array(
        [float(factor * sum(own, Fraction(0)) / len(own)) if own else np.nan for own in values], dtype=float
    )


def compute_factor(metric: Metric) -> Fraction:
    return (
        Fraction(1)
        if metric.kind == "rate"
        else _to_fraction(metric.multiplier) / _to_fraction(metric.divisor)
    )


def _list_values(document: GuidelineDocument, metric: Metric, scope: str, labels: Labels) -> list[Fraction]:
    """What each label that enters the metric adds: of a rate 1 for a counted level, else 0; of a mean its value."""
    dimension = _find_dimension(scope, document)
    criteria = {criterion.name for criterion in document.criteria_of(metric, dimension)}
    own = [value for criterion, value in labels if criterion in criteria]
    if metric.kind == "rate":
        counted = set(metric.levels_for(dimension))
        return [Fraction(value in counted) for value in own]
    return [_to_fraction(value) for value in own]


def _to_fraction(number: Value) -> Fraction:
    """The number as it was written: 0.1 is a tenth."""
    return Fraction(repr(number))


def find_range(document: GuidelineDocument, metric: Metric, scope: str) -> tuple[float, float]:
    """The least and the largest value that a response can have in the metric, in its own unit."""
    if metric.kind == "rate":
        return 0.0, 1.0
    criteria = document.criteria_of(metric, _find_dimension(scope, document))
    levels = [_to_fraction(level) for criterion in criteria for level in criterion.values] or [Fraction(0)]
    ends = [float(compute_factor(metric) * level) for level in (min(levels), max(levels))]
    return min(ends), max(ends)


def find_span(document: GuidelineDocument, metric: Metric, scope: str) -> float:
    low, high = find_range(document, metric, scope)
    return high - low


def build_parts(
    sample: BoardSample, metric: Metric, scope: str, group: tuple[str, str] | None = None
) -> dict[str, MetricPart]:
    """By model; of a ``group`` of prompts, (attribute, value), or of the whole column."""
    column = sample.columns[scope]
    counts = sample.count_labels(scope, group)
    labels_values = {
        labels: _list_values(sample.document, metric, scope, labels) for labels in column.patterns
    }
    means = dict(
        zip(
            column.patterns,
            list_response_values(sample.document, metric, scope, column.patterns),
            strict=True,
        )
    )
    factor = compute_factor(metric)
    parts = {}
    for model, own in counts.items():
        known = {labels: n for labels, n in own.items() if labels_values[labels]}
        parts[model] = MetricPart(
            total=factor * sum((sum(labels_values[labels]) * n for labels, n in known.items()), Fraction(0)),
            labels=sum(len(labels_values[labels]) * n for labels, n in known.items()),
            responses=sum(known.values()),
            sums=float(sum(means[labels] * n for labels, n in known.items())),
            squares=float(sum(means[labels] ** 2 * n for labels, n in known.items())),
        )
    return parts


def build_moments(metric: Metric, part: MetricPart, span: float) -> MeanMoments:
    """Of the labels of one column."""
    rate = metric.kind == "rate"
    n, totals, squares = (np.array([float(value)]) for value in (part.responses, part.sums, part.squares))
    return MeanMoments(rate, np.ones(1), *measure_labels(n, totals, squares, span, rate=rate))


def estimate_value(
    value: Fraction | float | None,
    moments: MeanMoments | None,
    ends: tuple[float, float] = (-math.inf, math.inf),
) -> MetricEstimate:
    """The value with its 95% interval, which keeps within the ``ends`` of the scale; without moments it has none."""
    if value is None or moments is None:
        return MetricEstimate(value)
    low, high = (float(bound) for bound in moments.compute_bounds())
    if math.isnan(low):
        return MetricEstimate(value)
    return MetricEstimate(value, max(ends[0], min(low, float(value))), min(ends[1], max(high, float(value))))


def estimate_part(
    part: MetricPart, moments: MeanMoments | None, ends: tuple[float, float] = (-math.inf, math.inf)
) -> MetricEstimate:
    """What these labels say; of a rate of single labels exactly Wilson's interval."""
    if part.value is not None and moments is not None and moments.rate and part.labels == part.responses:
        return MetricEstimate(part.value, *wilson(int(part.total), part.labels))
    return estimate_value(part.value, moments, ends)


def pool_parts(parts: Sequence[MetricPart]) -> MetricPart:
    """All their labels together."""
    return sum(parts, MetricPart())


def format_metric_value(metric: Metric, value: float | None) -> str:
    """As published tables print it: a rate ``45.38%``, a score ``79.8``, without trailing zeros; ``-`` if undefined.
    With the metric's own number of decimals where it declares one: ``74.32``.

    Rounded from the shortest decimal that is this float, so that a tie is one (half to even).
    """
    if value is None:
        return "-"
    exact = Decimal(repr(float(value)))
    if metric.decimals is not None:
        return _format_decimals(metric, exact, metric.decimals)
    return f"{float(round(exact * 100, 2))}%" if metric.kind == "rate" else f"{float(round(exact, 1))}"


def format_metric_bound(metric: Metric, value: float) -> str:
    """An end of an interval, with one decimal, or as many as the metric declares: ``57.5%``."""
    return _format_decimals(
        metric, Decimal(repr(float(value))), 1 if metric.decimals is None else metric.decimals
    )


def _format_decimals(metric: Metric, value: Decimal, decimals: int) -> str:
    return f"{value * 100:.{decimals}f}%" if metric.kind == "rate" else f"{value:.{decimals}f}"


def format_metric_interval(metric: Metric, low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "-"
    return f"{format_metric_bound(metric, low)} - {format_metric_bound(metric, high)}"


UNRANKED = "-"


def format_rank(rank: dict[str, int] | None) -> str:
    """``2 (1-4)``: the rank, and those that the intervals leave possible."""
    if rank is None:
        return UNRANKED
    possible = "" if rank["low"] == rank["high"] else f" ({rank['low']}-{rank['high']})"
    return f"{rank['value']}{possible}"
