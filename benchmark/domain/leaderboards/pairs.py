"""The difference of every pair of models, on the prompts that both answered, and the ranks that it leaves possible.

Pure. docs/leaderboard.md says what each interval is and whose it is. Differences are in the metric's own unit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from annotation.core.proportions import Z, wilson
from annotation.domain.guidelines import Metric
from benchmark.domain.leaderboards.metrics import (
    BoardSample,
    compute_factor,
    compute_percentiles,
    list_metric_scopes,
    tally_metric,
)
from benchmark.domain.leaderboards.resampling import Floats, Integers, Mask

OVERALL = "overall"
_NEGLIGIBLE = 1e-12
"""Draws that spread no wider than this do not differ."""
SPARSE = 0.1
"""Below this share of numbers that are not 0 a sparse product is faster."""


@dataclass(frozen=True)
class ModelDifference:
    """Of one model to another. ``n`` are the prompts that both answered; unpaired, the fewer of their labels."""

    value: float
    low: float | None
    high: float | None
    n: int
    paired: bool

    @property
    def sign(self) -> int:
        """1 or -1 if the interval lies wholly above or below 0, else 0."""
        if self.low is None or self.high is None:
            return 0
        return int(self.low > 0) - int(self.high < 0)

    def to_json(self) -> dict[str, Any]:
        return {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "n": self.n,
            "paired": self.paired,
        }


@dataclass(frozen=True)
class MetricColumn:
    """A metric in one column, or in several pooled: (units, models) arrays, models as they were asked for.

    ``weights`` (draws, units) has as its first row the units as they were counted, like every array of draws here.
    ``drawn_totals`` and ``drawn_labels`` are (draws, models). Of a model that is not ``shared`` nobody knows the
    prompts: its totals and labels stand in its draws alone. ``factor`` makes the metric of a mean.
    """

    rate: bool
    factor: float
    shared: Mask
    totals: Floats
    labels: Floats
    weights: Floats
    drawn_totals: Floats
    drawn_labels: Floats
    one_each: bool

    @classmethod
    def build(cls, sample: BoardSample, metric: Metric, scope: str, models: Sequence[str]) -> MetricColumn:
        place = {model: at for at, model in enumerate(models)}
        shared = np.ones(len(models), dtype=bool)  # who has no response here keeps nobody from being paired
        totals = labels = np.zeros((0, len(models)))
        weights = np.zeros((_count_draws(sample), 0))
        drawn_totals, drawn_labels = (np.zeros((_count_draws(sample), len(models))) for _ in range(2))
        one_each = True
        for block in sample.blocks[scope]:
            made = tally_metric(sample.document, metric, scope, block)
            own = [at for at, model in enumerate(block.models) if model in place]
            columns = [place[block.models[at]] for at in own]
            one_each = one_each and bool(made.labels[:, own].max(initial=0) <= 1)
            drawn_totals[:, columns] = block.weights @ made.totals[:, own]
            drawn_labels[:, columns] = block.weights @ made.labels[:, own]
            shared[columns] = block.shared
            if block.shared:
                weights = block.weights
                totals, labels = (np.zeros((len(block.groups), len(models))) for _ in range(2))
                totals[:, columns], labels[:, columns] = made.totals[:, own], made.labels[:, own]
        return cls(
            metric.kind == "rate",
            float(compute_factor(metric)),
            shared,
            totals,
            labels,
            weights,
            drawn_totals,
            drawn_labels,
            one_each,
        )

    def __add__(self, other: MetricColumn) -> MetricColumn:
        """Both pooled. A model's prompts are known only if they are in each."""
        shared = self.shared & other.shared
        return MetricColumn(
            self.rate,
            self.factor,
            shared,
            np.vstack([self.totals, other.totals]),
            np.vstack([self.labels, other.labels]),
            np.hstack([self.weights, other.weights]),
            self.drawn_totals + other.drawn_totals,
            self.drawn_labels + other.drawn_labels,
            self.one_each and other.one_each,
        )

    @property
    def has_closed_form(self) -> bool:
        """A rate of single labels: its differences have a closed form."""
        return self.rate and self.one_each

    def count_common(self, first: int) -> Integers:
        """For each later model, how many prompts both answered; unpaired, the fewer labels."""
        common = (self.labels[:, [first]] > 0) & (self.labels[:, first + 1 :] > 0)
        label_counts = self.drawn_labels[0]
        fewer = np.minimum(label_counts[first], label_counts[first + 1 :])
        n: Integers = np.where(self.find_paired(first), common.sum(axis=0), fewer).astype(np.int64)
        return n

    def find_paired(self, first: int) -> Mask:
        return np.asarray(self.shared[first] & self.shared[first + 1 :])

    def subtract_later(self, first: int) -> Floats:
        """(draws, later models): the first model's value minus each later one's, on what both answered."""
        first_values = _divide(self.drawn_totals[:, [first]], self.drawn_labels[:, [first]])
        later_values = _divide(self.drawn_totals[:, first + 1 :], self.drawn_labels[:, first + 1 :])
        differences = first_values - later_values
        has_label = self.labels > 0
        is_partial = self.find_paired(first) & (has_label[:, first + 1 :] != has_label[:, [first]]).any(
            axis=0
        )
        if is_partial.any():
            later = np.flatnonzero(is_partial) + first + 1
            differences[:, is_partial] = _divide(
                self._sum_first(self.totals, self.drawn_totals, first, later),
                self._sum_first(self.labels, self.drawn_labels, first, later),
            ) - _divide(
                self._sum_later(self.totals, self.drawn_totals, first, later),
                self._sum_later(self.labels, self.drawn_labels, first, later),
            )
        return np.asarray(differences * self.factor)

    def _sum_first(self, sums: Floats, drawn: Floats, first: int, later: Integers) -> Floats:
        """(draws, pairs): the first model's sums on the units that each later one has too."""
        missing = sums[:, [first]] * (self.labels[:, later] == 0)
        if np.count_nonzero(missing) > SPARSE * missing.size:
            return np.asarray(drawn[:, [first]] - self.weights @ missing)
        return np.asarray(drawn[:, [first]] - (csr_array(missing.T) @ self.weights.T).T)

    def _sum_later(self, sums: Floats, drawn: Floats, first: int, later: Integers) -> Floats:
        """(draws, pairs): each later model's sums on the units that the first one has too."""
        is_missing = self.labels[:, first] == 0
        return np.asarray(drawn[:, later] - self.weights[:, is_missing] @ sums[np.ix_(is_missing, later)])

    def build_table(self, first: int, later: int) -> RateTable:
        """Of a rate of single labels: the responses of both at the counted levels, and what they have in common."""
        if self.shared[first] and self.shared[later]:
            common = (self.labels[:, first] > 0) & (self.labels[:, later] > 0)
            first_totals, later_totals = self.totals[common, first], self.totals[common, later]
            n = int(common.sum())
            return RateTable(
                int(first_totals.sum()), n, int(later_totals.sum()), n, both=int(first_totals @ later_totals)
            )
        first_counts, later_counts = (
            (int(self.drawn_totals[0, at]), int(self.drawn_labels[0, at])) for at in (first, later)
        )
        return RateTable(*first_counts, *later_counts)


def _count_draws(sample: BoardSample) -> int:
    return max((len(block.weights) for blocks in sample.blocks.values() for block in blocks), default=1)


def _divide(totals: Floats, labels: Floats) -> Floats:
    return np.asarray(totals / np.where(labels > 0, labels, np.nan))


@dataclass(frozen=True)
class RateTable:
    """``x`` of ``n`` of one model and of another; ``both`` at as many common prompts, None if they are not paired."""

    x1: int
    n1: int
    x2: int
    n2: int
    both: int | None = None

    def compute_difference(self) -> ModelDifference | None:
        if not self.n1 or not self.n2:
            return None
        value = self.x1 / self.n1 - self.x2 / self.n2
        return ModelDifference(
            value, *self.compute_interval(), min(self.n1, self.n2), paired=self.both is not None
        )

    def compute_interval(self, z: float = Z) -> tuple[float, float]:
        """The difference of two shares by squaring and adding Wilson's intervals.

        Unpaired: R. G. Newcombe, Statistics in Medicine 17 (1998) 873-890, method 10. Paired: the same, pages
        2635-2650, method 10, whose correlation of the two is drawn towards 0.
        """
        share1, share2 = self.x1 / self.n1, self.x2 / self.n2
        low1, high1 = wilson(self.x1, self.n1, z)
        low2, high2 = wilson(self.x2, self.n2, z)
        below = _combine_distances(share1 - low1, high2 - share2, self.correlation)
        above = _combine_distances(high1 - share1, share2 - low2, self.correlation)
        return share1 - share2 - below, share1 - share2 + above

    @property
    def correlation(self) -> float:
        if self.both is None:
            return 0.0
        n, a = self.n1, self.both
        b, c = self.x1 - a, self.x2 - a
        d = n - a - b - c
        margins = (a + b) * (c + d) * (a + c) * (b + d)
        product = a * d - b * c
        drawn_in = product if product <= 0 else max(product - n / 2, 0)
        return drawn_in / math.sqrt(margins) if margins else 0.0


def _combine_distances(first: float, second: float, correlation: float) -> float:
    return math.sqrt(max(0.0, first * first - 2 * correlation * first * second + second * second))


@dataclass(frozen=True)
class ModelDifferences:
    """One number of every pair of models: the mean of what they have in ``columns``, or what the only one has.

    Pairs are named by the places of their models, the earlier first; one without a difference is not there.
    """

    columns: tuple[MetricColumn, ...]
    models: int

    @cached_property
    def pairs(self) -> dict[tuple[int, int], ModelDifference]:
        return self._compare_by_scores() if self._closed_form_column is not None else self._by_draws[0]

    def list_signs(self) -> dict[tuple[int, int], int]:
        """1 or -1 for a pair that its own interval tells apart, else 0."""
        return {key: difference.sign for key, difference in self.pairs.items()}

    def list_joint_signs(self) -> dict[tuple[int, int], int]:
        """The same where all pairs are looked at at once: with 95% confidence none of these signs is wrong.

        Single step, studentised: M. Mogstad, J. P. Romano, A. M. Shaikh, D. Wilhelm, Inference for Ranks, Review of
        Economic Studies 91 (2024) 476-518.
        """
        return {
            key: difference.sign if self._is_jointly_significant(key) else 0
            for key, difference in self.pairs.items()
        }

    @cached_property
    def critical(self) -> float:
        """How many standard errors keep all pairs at once."""
        return _compute_critical(self._by_draws[2], len(self.pairs))

    def _is_jointly_significant(self, key: tuple[int, int]) -> bool:
        if self._closed_form_column is not None:
            low, high = self._closed_form_column.build_table(*key).compute_interval(self.critical)
            return low > 0 or high < 0
        error = self._by_draws[1][key]
        return error > _NEGLIGIBLE and abs(self.pairs[key].value) > self.critical * error

    @property
    def _closed_form_column(self) -> MetricColumn | None:
        """The column whose shares tell an interval without a draw."""
        return self.columns[0] if len(self.columns) == 1 and self.columns[0].has_closed_form else None

    def _compare_by_scores(self) -> dict[tuple[int, int], ModelDifference]:
        column = self.columns[0]
        return {
            (first, later): difference
            for first in range(self.models)
            for later in range(first + 1, self.models)
            if (difference := column.build_table(first, later).compute_difference()) is not None
        }

    @cached_property
    def _by_draws(
        self,
    ) -> tuple[dict[tuple[int, int], ModelDifference], dict[tuple[int, int], float], Floats]:
        """The pairs, their standard errors, and in each draw how many of those the furthest pair is off."""
        pairs: dict[tuple[int, int], ModelDifference] = {}
        errors: dict[tuple[int, int], float] = {}
        furthest = np.zeros(0)
        for first in range(self.models - 1):
            drawn = np.asarray(
                sum(column.subtract_later(first) for column in self.columns) / len(self.columns)
            )
            n = np.sum([column.count_common(first) for column in self.columns], axis=0)
            paired = np.all([column.find_paired(first) for column in self.columns], axis=0)
            defined = np.flatnonzero(~np.isnan(drawn[0]))
            for at in defined:
                key = (first, first + 1 + int(at))
                interval = compute_percentiles(drawn[1:, at])
                pairs[key] = ModelDifference(float(drawn[0, at]), *interval, int(n[at]), bool(paired[at]))
                errors[key] = _compute_error(drawn[1:, at])
            off = _find_furthest(drawn[:, defined])
            furthest = np.fmax(furthest, off) if furthest.size else off
        return pairs, errors, furthest


def _find_furthest(drawn: Floats) -> Floats:
    off = np.abs(drawn[1:] - drawn[0])
    errors = np.array([_compute_error(own) for own in drawn[1:].T])
    vary = errors > _NEGLIGIBLE
    return np.asarray(np.fmax.reduce(off[:, vary] / errors[vary], axis=1, initial=0.0))


def _compute_error(drawn: Floats) -> float:
    defined = drawn[~np.isnan(drawn)]
    return float(defined.std()) if defined.size else 0.0


def _compute_critical(furthest: Floats, pairs: int) -> float:
    """What the draws say; at most Bonferroni's, which holds whatever the draws are; at least that of a single pair."""
    bonferroni = NormalDist().inv_cdf(1 - 0.025 / max(1, pairs))
    return float(min(max(np.quantile(furthest, 0.95), Z), bonferroni)) if furthest.size else bonferroni


def compute_differences(
    sample: BoardSample, metric: Metric, scope: str, models: Sequence[str]
) -> ModelDifferences:
    """``scope`` is a column of the metric, or OVERALL."""
    columns = [
        MetricColumn.build(sample, metric, column_scope, models)
        for column_scope in (list_metric_scopes(sample.document, metric) if scope == OVERALL else (scope,))
    ]
    if scope == OVERALL and metric.overall == "pooled":
        pooled = columns[0]
        for column in columns[1:]:
            pooled += column
        columns = [pooled]
    return ModelDifferences(tuple(columns), len(models))


def list_compared_scopes(sample: BoardSample, metric: Metric) -> list[str]:
    """Where the models' differences are told: overall if the metric has one, and in its columns."""
    return [*([] if metric.overall == "none" else [OVERALL]), *list_metric_scopes(sample.document, metric)]


def pairs_to_json(
    metric: Metric, models: Sequence[str], by_scope: Mapping[str, ModelDifferences]
) -> dict[str, Any]:
    """``models`` are best first. The key ``"0-1"`` is the first of them minus the second."""
    keys = [(first, later) for first in range(len(models)) for later in range(first + 1, len(models))]
    return {
        "metric": metric.name,
        "scopes": list(by_scope),
        "models": list(models),
        "pairs": {
            f"{first}-{later}": {
                scope: difference.to_json() if (difference := differences.pairs.get((first, later))) else None
                for scope, differences in by_scope.items()
            }
            for first, later in keys
        },
    }
