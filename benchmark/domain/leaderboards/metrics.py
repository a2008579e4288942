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
from benchmark.domain.leaderboards.intervals import Balance, MeanMoments, TermBalance, measure_labels
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

    ``responses`` have a label in it; ``sums`` and ``squares`` are those of their own values. ``balance`` is of the mean
    of several terms, which is no sum of parts.
    """

    total: Fraction = Fraction(0)
    labels: int = 0
    responses: int = 0
    sums: float = 0.0
    squares: float = 0.0
    balance: Balance | None = None

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

    @property
    def is_single(self) -> bool:
        """Whether it is of one label of each response."""
        return self.balance is None and self.labels == self.responses

    @property
    def spread(self) -> float:
        return 1.0 if self.balance is None else self.balance.spread

    @property
    def evenness(self) -> float:
        return 1.0 if self.balance is None else self.balance.evenness


@dataclass(frozen=True)
class NumberTerms:
    """What a number of a model is made of: the plain mean of the ``terms``, each over all its labels in the columns.

    They are the metric itself, or (``mean_of_criteria``) the metric of each criterion alone.
    """

    metric: Metric
    scopes: tuple[str, ...]
    terms: tuple[Metric, ...]

    @property
    def is_balanced(self) -> bool:
        """Whether it is of several terms."""
        return len(self.terms) > 1


def build_terms(document: GuidelineDocument, metric: Metric, scope: str | None = None) -> NumberTerms:
    """Of the metric in a column, or (None) over all its columns at once."""
    if scope is not None:
        return NumberTerms(metric, (scope,), (metric,))
    is_mean = metric.overall == "mean_of_criteria"
    terms = document.split_metric(metric) if is_mean else (metric,)
    return NumberTerms(metric, list_metric_scopes(document, metric), terms)


def list_numbers(
    document: GuidelineDocument, metric: Metric, scope: str | None = None
) -> tuple[NumberTerms, ...]:
    """Of the metric in a column, or (None) of its overall: several where that is the mean of independent columns."""
    if scope is None and metric.overall == "mean_of_dimensions":
        return tuple(build_terms(document, metric, own) for own in list_metric_scopes(document, metric))
    return (build_terms(document, metric, scope),)


def list_scopes(document: GuidelineDocument) -> tuple[str, ...]:
    """The columns of the board."""
    return document.dimension_names or (ALL,)


def list_metrics(document: GuidelineDocument, scope: str) -> list[Metric]:
    """The metrics that this column has."""
    return [metric for metric in document.metrics if scope in list_metric_scopes(document, metric)]


def find_metric(document: GuidelineDocument, scope: str, metric: Metric) -> Metric | None:
    """The metric, or the first of its kind and direction where this column does not have it."""
    scope_metrics = list_metrics(document, scope)
    if metric in scope_metrics:
        return metric
    nature = metric.kind, metric.better
    return next((other for other in scope_metrics if (other.kind, other.better) == nature), None)


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
    sums = _sum_values(document, metric, scope, patterns)
    means = {(total, n): float(factor * total / n) if n else math.nan for total, n in set(sums)}
    return np.array([means[own] for own in sums], dtype=float)


def compute_factor(metric: Metric) -> Fraction:
    return (
        Fraction(1)
        if metric.kind == "rate"
        else _to_fraction(metric.multiplier) / _to_fraction(metric.divisor)
    )


def _sum_values(
    document: GuidelineDocument, metric: Metric, scope: str, patterns: Iterable[Labels]
) -> list[tuple[Fraction, int]]:
    """By pattern, what its labels that enter the metric add, and how many they are: of a rate each adds 1 at a counted
    level, else 0; of a mean its value.
    """
    dimension = _find_dimension(scope, document)
    criteria = {criterion.name for criterion in document.criteria_of(metric, dimension)}
    counted = set(metric.levels_for(dimension))
    sums: dict[tuple[Value, ...], tuple[Fraction, int]] = {}
    by_pattern = []
    for labels in patterns:
        own = tuple(sorted(value for criterion, value in labels if criterion in criteria))
        if own not in sums:
            is_rate = metric.kind == "rate"
            worths = (Fraction(value in counted) if is_rate else _to_fraction(value) for value in own)
            sums[own] = sum(worths, Fraction(0)), len(own)
        by_pattern.append(sums[own])
    return by_pattern


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


def build_parts(
    sample: BoardSample, metric: Metric, scope: str, group: tuple[str, str] | None = None
) -> dict[str, MetricPart]:
    """By model; of a ``group`` of prompts, (attribute, value), or of the whole column."""
    column = sample.columns[scope]
    counts = sample.count_labels(scope, group)
    own_sums = _sum_values(sample.document, metric, scope, column.patterns)
    sums = dict(zip(column.patterns, own_sums, strict=True))
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
        known = {labels: n for labels, n in own.items() if sums[labels][1]}
        parts[model] = MetricPart(
            total=factor * sum((sums[labels][0] * n for labels, n in known.items()), Fraction(0)),
            labels=sum(sums[labels][1] * n for labels, n in known.items()),
            responses=sum(known.values()),
            sums=float(sum(means[labels] * n for labels, n in known.items())),
            squares=float(sum(means[labels] ** 2 * n for labels, n in known.items())),
        )
    return parts


def list_number_values(
    sample: BoardSample, number: NumberTerms, group: tuple[str, str] | None = None
) -> tuple[dict[str, Floats], dict[str, Balance]]:
    """By column what each of its responses has in the number, in its own unit; NaN of one without a label in it, and
    of one outside of the ``group``. Of a number of several terms that depends on all responses of the model, whose
    balance is given by name; one that lacks a term has none, and no value.
    """
    terms = {scope: _list_term_values(sample, number, scope, group) for scope in number.scopes}
    if not number.is_balanced:
        return {scope: values[:, 0] for scope, values in terms.items()}, {}
    values = {scope: np.full(len(own), np.nan) for scope, own in terms.items()}
    balances = {}
    for place, model in enumerate(sample.models):
        is_own = {
            scope: (sample.columns[scope].model == place) & ~np.isnan(own).all(axis=1)
            for scope, own in terms.items()
        }
        rows = np.concatenate([own[is_own[scope]] for scope, own in terms.items()])
        if np.isnan(rows).all(axis=0).any():
            continue
        balance = TermBalance.build(rows)
        balances[model] = balance.measure(rows)
        for scope, own in terms.items():
            values[scope][is_own[scope]] = balance.value_responses(own[is_own[scope]])
    return values, balances


def _list_term_values(
    sample: BoardSample, number: NumberTerms, scope: str, group: tuple[str, str] | None
) -> Floats:
    """(responses of the column, terms)."""
    column = sample.columns[scope]
    by_pattern = [
        list_response_values(sample.document, term, scope, column.patterns) for term in number.terms
    ]
    values = np.stack(by_pattern, axis=-1)[column.pattern]
    units = sample.select_units(scope, group)
    return values if units is None else np.where(units[column.unit][:, None], values, np.nan)


def build_number_parts(
    sample: BoardSample, number: NumberTerms, group: tuple[str, str] | None = None
) -> dict[str, MetricPart]:
    """By model; of a ``group`` of prompts, (attribute, value), or of all."""
    by_term = []
    for term in number.terms:
        scopes = [scope for scope in list_metric_scopes(sample.document, term) if scope in number.scopes]
        parts = [build_parts(sample, term, scope, group) for scope in scopes]
        by_term.append({model: pool_parts([own[model] for own in parts]) for model in sample.models})
    if not number.is_balanced:
        return by_term[0]
    values, balances = list_number_values(sample, number, group)
    return {
        model: _balance_part(
            [own[model] for own in by_term],
            np.concatenate([own[sample.columns[scope].model == place] for scope, own in values.items()]),
            balances.get(model),
        )
        for place, model in enumerate(sample.models)
    }


def _balance_part(terms: Sequence[MetricPart], values: Floats, balance: Balance | None) -> MetricPart:
    """The mean of the terms' values, exactly; without labels where one of them has none."""
    if balance is None:
        return MetricPart()
    labels = sum(term.labels for term in terms)
    mean = sum((term.total / term.labels for term in terms), Fraction(0)) / len(terms)
    known = values[~np.isnan(values)]
    return MetricPart(mean * labels, labels, len(known), float(known.sum()), float((known**2).sum()), balance)


def find_ends(document: GuidelineDocument, number: NumberTerms) -> tuple[float, float]:
    """The least and the largest value that a number can have, in its own unit."""
    ranges = [
        [
            find_range(document, term, scope)
            for scope in list_metric_scopes(document, term)
            if scope in number.scopes
        ]
        for term in number.terms
    ]
    lows = [min(low for low, _high in own) for own in ranges if own]
    highs = [max(high for _low, high in own) for own in ranges if own]
    return (float(np.mean(lows)), float(np.mean(highs))) if lows else (0.0, 0.0)


def build_moments(metric: Metric, part: MetricPart, span: float) -> MeanMoments:
    """Of the labels of one number."""
    rate = metric.kind == "rate"
    n, totals, squares = (np.array([float(value)]) for value in (part.responses, part.sums, part.squares))
    moments = measure_labels(n, totals, squares, span, rate=rate, spread=part.spread, evenness=part.evenness)
    return MeanMoments(rate, np.ones(1), *moments)


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
    if part.value is not None and moments is not None and moments.rate and part.is_single:
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


def format_metric_difference(metric: Metric, value: float | None) -> str:
    """With its sign; of rates in percentage points, with two decimals: ``+1.25``. Others have one, or as many as the
    metric declares.
    """
    if value is None:
        return "-"
    unit, usual = (100, 2) if metric.kind == "rate" else (1, 1)
    return f"{value * unit:+.{usual if metric.decimals is None else metric.decimals}f}"


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
