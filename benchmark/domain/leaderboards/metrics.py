"""The headline numbers that a guideline declares, from the labels that responses were given. Pure.

docs/leaderboard.md says what each number and interval is. Sums and values are exact fractions; only
intervals are floats. Undefined is None. board.py puts them together: board, groups and pairs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from annotation.core.proportions import wilson
from annotation.domain.guidelines import GuidelineDocument, Metric
from benchmark.domain.leaderboards.resampling import (
    RESAMPLES,
    CountedResponse,
    Floats,
    Labels,
    ResponseBlock,
    Value,
    build_blocks,
)

ALL = "all"
"""The name of the only cell of a guideline that has no dimensions."""

SMALL = 30
"""Below so many responses no number stands without its interval."""


@dataclass(frozen=True)
class MetricEstimate:
    """A value with its 95% interval, in the metric's own unit: a rate is a share, 0 to 1."""

    value: Fraction | None = None
    low: float | None = None
    high: float | None = None

    def to_json(self) -> dict[str, float | None]:
        value = None if self.value is None else float(self.value)
        return {"value": value, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class BoardSample:
    """The responses that a board counts, by column, with draws that all its models share."""

    document: GuidelineDocument
    models: tuple[str, ...]
    blocks: Mapping[str, tuple[ResponseBlock, ...]]

    @classmethod
    def build(
        cls,
        document: GuidelineDocument,
        rows: Iterable[CountedResponse],
        *,
        models: Iterable[str] = (),
        seed: int = 0,
    ) -> BoardSample:
        """``models`` are those that have a row on the board even without a response."""
        by_scope: dict[str, list[CountedResponse]] = defaultdict(list)
        names = set(models)
        for row in rows:
            by_scope[row.scope].append(row)
            names.add(row.model)
        blocks = {scope: build_blocks(by_scope[scope], scope, seed) for scope in list_scopes(document)}
        return cls(document, tuple(sorted(names)), blocks)

    def count_labels(self, scope: str, group: tuple[str, str] | None = None) -> dict[str, Counter[Labels]]:
        """By model, how many responses in this column (and group of prompts) were given exactly which labels."""
        counts_by_model: dict[str, Counter[Labels]] = {model: Counter() for model in self.models}
        for block in self.blocks[scope]:
            counts_by_model |= block.count_labels(None if group is None else block.select_units(*group))
        return counts_by_model


@dataclass(frozen=True)
class MetricPart:
    """What some responses add to a metric: ``total`` over ``labels``, as counted and as drawn again."""

    total: Fraction
    labels: int
    drawn_total: Floats
    drawn_labels: Floats
    one_each: bool
    """No prompt has more than one label here."""

    @classmethod
    def zero(cls) -> MetricPart:
        return cls(Fraction(0), 0, np.zeros(RESAMPLES), np.zeros(RESAMPLES), one_each=True)

    def __add__(self, other: MetricPart) -> MetricPart:
        return MetricPart(
            self.total + other.total,
            self.labels + other.labels,
            self.drawn_total + other.drawn_total,
            self.drawn_labels + other.drawn_labels,
            self.one_each and other.one_each,
        )

    @property
    def value(self) -> Fraction | None:
        return self.total / self.labels if self.labels else None

    @property
    def drawn_values(self) -> Floats:
        """The value in each draw; NaN in a draw without a label."""
        labels = np.where(self.drawn_labels > 0, self.drawn_labels, np.nan)
        return np.asarray(self.drawn_total / labels)


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
    criteria = document.criteria_for(_find_dimension(scope, document))
    return {
        criterion.name: {f"{value:g}": counts[criterion.name, value] for value in criterion.values}
        for criterion in criteria
    }


def _find_dimension(scope: str, document: GuidelineDocument) -> str | None:
    return scope if document.dimensions else None


@dataclass(frozen=True)
class MetricTally:
    """A metric over a block: (units, models) sums of ``totals`` and numbers of ``labels``.

    Totals are of a rate the labels at the counted levels, of a mean the values as they are, so that sums of whole
    levels are exact; ``factor`` makes the metric of their mean.
    """

    totals: Floats
    labels: Floats
    factor: Fraction


def tally_metric(
    document: GuidelineDocument, metric: Metric, scope: str, block: ResponseBlock
) -> MetricTally:
    values = [_list_values(document, metric, scope, labels) for labels in block.patterns]
    return MetricTally(
        totals=block.sum_by_model([float(sum(own, Fraction(0))) for own in values]),
        labels=block.sum_by_model([len(own) for own in values]),
        factor=compute_factor(metric),
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


def build_parts(
    sample: BoardSample, metric: Metric, scope: str, group: tuple[str, str] | None = None
) -> dict[str, MetricPart]:
    """By model; of a ``group`` of prompts, (attribute, value), or of the whole column."""
    parts_by_model = {model: MetricPart.zero() for model in sample.models}
    for block in sample.blocks[scope]:
        parts_by_model |= _build_block_parts(sample.document, metric, scope, block, group)
    return parts_by_model


def _build_block_parts(
    document: GuidelineDocument,
    metric: Metric,
    scope: str,
    block: ResponseBlock,
    group: tuple[str, str] | None,
) -> dict[str, MetricPart]:
    keep = np.ones(len(block.groups), dtype=bool) if group is None else block.select_units(*group)
    made = tally_metric(document, metric, scope, block)
    weights = block.weights[1:] if keep.all() else block.weights[1:, keep]
    totals = weights @ made.totals[keep] * float(made.factor)
    labels = weights @ made.labels[keep]
    one_each = made.labels[keep].max(axis=0, initial=0) <= 1
    counts = block.count_labels(None if keep.all() else keep)
    values = {labels_: _list_values(document, metric, scope, labels_) for labels_ in block.patterns}
    return {
        model: MetricPart(
            total=made.factor * sum((sum(values[p]) * n for p, n in counts[model].items()), Fraction(0)),
            labels=sum(len(values[p]) * n for p, n in counts[model].items()),
            drawn_total=totals[:, at],
            drawn_labels=labels[:, at],
            one_each=bool(one_each[at]),
        )
        for at, model in enumerate(block.models)
    }


def estimate_metric(metric: Metric, part: MetricPart) -> MetricEstimate:
    """A rate of single labels has Wilson's interval, everything else the bootstrap's."""
    if part.value is None:
        return MetricEstimate()
    if metric.kind == "rate" and part.one_each:
        return MetricEstimate(part.value, *wilson(int(part.total), part.labels))
    return MetricEstimate(part.value, *compute_percentiles(part.drawn_values))


def estimate_overall(metric: Metric, parts: Sequence[MetricPart]) -> MetricEstimate:
    """The unweighted mean of the unrounded dimension values, undefined if one of them is; or all labels pooled."""
    if metric.overall == "pooled":
        return estimate_metric(metric, pool_parts(parts))
    values = [part.value for part in parts if part.value is not None]
    if len(values) < len(parts):
        return MetricEstimate()
    drawn = np.mean([part.drawn_values for part in parts], axis=0)
    return MetricEstimate(sum(values, Fraction(0)) / len(values), *compute_percentiles(drawn))


def pool_parts(parts: Sequence[MetricPart]) -> MetricPart:
    """All their labels together."""
    return sum(parts, MetricPart.zero())


def compute_percentiles(drawn: Floats) -> tuple[float | None, float | None]:
    """The middle 95% of the draws; undefined where they cannot differ, for that is not certainty."""
    defined = drawn[~np.isnan(drawn)]
    if not defined.size or np.ptp(defined) < 1e-12:
        return None, None
    low, high = np.percentile(defined, [2.5, 97.5])
    return float(low), float(high)


def format_metric_value(metric: Metric, value: float | None) -> str:
    """As published tables print it: a rate ``45.38%``, a score ``79.8``, without trailing zeros; ``-`` if undefined.

    Rounded from the shortest decimal that is this float, so that a tie is one (half to even).
    """
    if value is None:
        return "-"
    exact = Decimal(repr(float(value)))
    return f"{float(round(exact * 100, 2))}%" if metric.kind == "rate" else f"{float(round(exact, 1))}"


def format_metric_bound(metric: Metric, value: float) -> str:
    """An end of an interval, always with one decimal: ``57.5%``."""
    return f"{100 * value:.1f}%" if metric.kind == "rate" else f"{value:.1f}"


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
