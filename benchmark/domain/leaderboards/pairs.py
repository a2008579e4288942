"""The difference of every pair of models: on the prompts that both answered, or each on its own. Pure.

docs/leaderboard.md says what each interval is and whose it is. Differences are in the metric's own unit; the arrays of
pairs are (models, models), the model of the row less that of the column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from annotation.core.proportions import Z
from annotation.domain.guidelines import Metric
from benchmark.domain.leaderboards.grounds import COMBINED, BoardNumber, BoardNumbers
from benchmark.domain.leaderboards.intervals import MeanMoments, measure_labels
from benchmark.domain.leaderboards.metrics import (
    BoardSample,
    NumberTerms,
    find_ends,
    list_metric_scopes,
    list_number_values,
    list_numbers,
)
from benchmark.domain.leaderboards.responses import Floats, Integers, Mask

OVERALL = "overall"
SPARSE = 0.1
"""Below this share of numbers that are not 0 a sparse product is faster."""
MIN_COMMON = 0.5
"""The share of the fewer responses of two models that must be to common prompts, for them to be compared on these
alone: on few of them much of what both were measured on would be lost."""


@dataclass(frozen=True)
class ModelDifference:
    """Of one model to another. ``n`` are the prompts that both answered; unpaired, the fewer of their responses.

    Of models that are not ``compared`` there is no interval.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    paired: bool
    compared: bool = True

    @property
    def sign(self) -> int:
        """1 or -1 if the interval lies wholly above or below 0, else 0."""
        if self.low is None or self.high is None:
            return 0
        return int(self.low > 0) - int(self.high < 0)

    def to_json(self) -> dict[str, Any]:
        stated = {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "n": self.n,
            "paired": self.paired,
        }
        return stated if self.compared else stated | {"compared": False}


@dataclass(frozen=True)
class _CommonSums:
    """A number over the prompts that both models of a pair answered.

    ``n`` counts them; ``totals`` and ``squares`` are of the row's model, ``products`` of both.
    """

    n: Floats
    totals: Floats
    squares: Floats
    products: Floats

    @classmethod
    def build(cls, sample: BoardSample, number: NumberTerms) -> _CommonSums:
        """Models in the order of the sample."""
        size = len(sample.models)
        n, totals, squares, products = (np.zeros((size, size)) for _ in range(4))
        by_scope, _balances = list_number_values(sample, number)
        for scope, values in by_scope.items():
            column = sample.columns[scope]
            has_value = ~np.isnan(values)
            place = (column.unit[has_value], column.model[has_value])
            shape = (len(column.groups), size)
            labels, sums, square_sums = (
                csr_array((entries, place), shape=shape)
                for entries in (np.ones(len(place[0])), values[has_value], values[has_value] ** 2)
            )
            n += _multiply(labels, labels)
            totals += _multiply(sums, labels)
            squares += _multiply(square_sums, labels)
            products += _multiply(sums, sums)
        return cls(n, totals, squares, products)

    def take(self, places: Integers) -> _CommonSums:
        """Models in another order."""
        grid = np.ix_(places, places)
        return _CommonSums(self.n[grid], self.totals[grid], self.squares[grid], self.products[grid])

    def compute_covariance(self, *, rate: bool) -> Floats:
        """Of the two models' means; of a rate drawn towards 0 as R. G. Newcombe does (method 10, 1998)."""
        product = self.n * self.products - self.totals * self.totals.T
        if rate:
            product = np.where(product > 0, np.maximum(product - self.n / 2, 0), product)
        return _divide(product, self.n**3)

    @property
    def variance(self) -> Floats:
        """Of the row model's mean, as the covariance has it."""
        return _divide(np.maximum(self.n * self.squares - self.totals**2, 0), self.n**3)


def _multiply(first: csr_array, second: csr_array) -> Floats:
    """(models, models) sums over units, without an array of units by pairs."""
    if first.shape[0] * first.shape[1] and first.nnz > SPARSE * first.shape[0] * first.shape[1]:
        return np.asarray(first.toarray().T @ second.toarray())
    return np.asarray((first.T @ second).toarray())


def _divide(values: Floats, by: Floats) -> Floats:
    return np.asarray(np.divide(values, by, out=np.zeros_like(values, dtype=float), where=by > 0))


@dataclass(frozen=True)
class ModelDifferences:
    """One number of every pair of models: ``rows`` is what the row's model has where it meets the column's.

    ``correlation`` is that of the two numbers over their common prompts, 0 where they are not paired, which makes an
    interval wider: what is hard for one model is hard for another.
    """

    models: tuple[str, ...]
    rows: MeanMoments
    correlation: Floats
    n: Integers
    paired: Mask
    compared: Mask
    """By model."""
    deviations: Floats
    """By model: the standard error of its own number."""
    shifts: Floats
    """By model: its number less the centre of its interval; 0 but of combined numbers."""

    @cached_property
    def values(self) -> Floats:
        """NaN where either model has no number."""
        value = self.rows.value
        return np.asarray(value - value.T)

    @cached_property
    def is_pair(self) -> Mask:
        """Of two compared models that differ in their place."""
        both = self.compared[:, None] & self.compared[None, :]
        return np.asarray(both & ~np.eye(len(self.models), dtype=bool) & ~np.isnan(self.values))

    def compute_bounds(self, z: float = Z) -> tuple[Floats, Floats]:
        """The distances to the ends of both models' intervals, squared and added less what they have in common.

        Of two rates in one column that is R. G. Newcombe's interval, Statistics in Medicine 17 (1998): 873-890
        unpaired, 2635-2650 paired, method 10 of each; of several columns that of X. Yan and X. G. Su, Statistics in
        Biopharmaceutical Research 2 (2010) 329-335. NaN where it is undefined.
        """
        low, high = self.rows.compute_bounds(z)
        value = self.rows.value
        below, above = value - low, high - value
        down = _combine_distances(below, above.T, self.correlation)
        up = _combine_distances(above, below.T, self.correlation)
        return self.values - down, self.values + up

    @cached_property
    def pairs(self) -> dict[tuple[int, int], ModelDifference]:
        """By the places of both, the earlier first; one without a difference is not there."""
        low, high = self.compute_bounds()
        differences = {}
        for first in range(len(self.models)):
            for later in range(first + 1, len(self.models)):
                at = first, later
                if np.isnan(self.values[at]):
                    continue
                is_stated = self.is_pair[at] and not np.isnan(low[at])
                value = float(self.values[at] + self.shifts[first] - self.shifts[later])
                differences[at] = ModelDifference(
                    value,
                    min(float(low[at]), value) if is_stated else None,
                    max(float(high[at]), value) if is_stated else None,
                    int(self.n[at]),
                    bool(self.paired[at]),
                    bool(self.is_pair[at]),
                )
        return differences

    def find_signs(self, z: float = Z) -> Integers:
        """(models, models): 1 where the row's model is surely higher at this width, -1 where lower, else 0."""
        low, high = self.compute_bounds(z)
        with np.errstate(invalid="ignore"):
            signs = (low > 0).astype(np.int64) - (high < 0).astype(np.int64)
        return np.where(self.is_pair, signs, 0)


def _combine_distances(first: Floats, second: Floats, correlation: Floats) -> Floats:
    squares = first * first - 2 * correlation * first * second + second * second
    return np.asarray(np.sqrt(np.maximum(squares, 0)))


def compute_differences(
    numbers: BoardNumbers, metric: Metric, scope: str, models: Sequence[str], *, as_labels: bool = False
) -> ModelDifferences:
    """``scope`` is a column of the metric, or OVERALL. ``as_labels`` takes predictions for the truth too."""
    independent = list_numbers(numbers.document, metric, None if scope == OVERALL else scope)
    built = [_PairColumn.build(numbers, number, models, as_labels=as_labels) for number in independent]
    own_numbers = [_find_number(numbers, model, metric, scope) for model in models]
    compared = [as_labels or number.is_compared for number in own_numbers]
    weights = np.full(len(built), 1 / len(built))
    rows = MeanMoments(
        metric.kind == "rate",
        weights,
        *(
            np.stack([getattr(column.rows, name) for column in built], axis=-1)
            for name in ("means", "labels", "variance", "degrees")
        ),
    )
    covariance = sum(weights[0] ** 2 * column.covariance for column in built)
    variance = (weights**2 * np.stack([column.plain_variance for column in built], axis=-1)).sum(axis=-1)
    spread = np.sqrt(np.maximum(variance * variance.T, 0))
    return ModelDifferences(
        tuple(models),
        rows,
        np.clip(_divide(np.asarray(covariance), spread), -1, 1),
        np.sum([column.n for column in built], axis=0).astype(np.int64),
        np.all([column.paired for column in built], axis=0),
        np.array(compared, dtype=bool),
        np.array([_find_deviation(number.moments) for number in own_numbers], dtype=float),
        np.array([0.0 if as_labels else _find_shift(number) for number in own_numbers]),
    )


def _find_number(numbers: BoardNumbers, model: str, metric: Metric, scope: str) -> BoardNumber:
    return (
        numbers.find_overall(model, metric) if scope == OVERALL else numbers.find_number(model, metric, scope)
    )


def _find_shift(number: BoardNumber) -> float:
    """The interval of a combined number lies around another centre than the number (docs/estimates.md)."""
    if number.ground.name != COMBINED or number.value is None or number.moments is None:
        return 0.0
    return float(number.value) - float(number.moments.value)


def _find_deviation(moments: MeanMoments | None) -> float:
    """Half of the interval that is one standard error to either side."""
    if moments is None:
        return float("nan")
    low, high = moments.compute_bounds(1.0)
    return float(high - low) / 2


@dataclass(frozen=True)
class _PairColumn:
    """A number of a difference, one of the independent ones that it is the mean of. ``plain_variance`` is that of the
    row's mean without labels that nobody saw.
    """

    rows: MeanMoments
    covariance: Floats
    plain_variance: Floats
    n: Integers
    paired: Mask

    @classmethod
    def build(
        cls,
        numbers: BoardNumbers,
        number: NumberTerms,
        models: Sequence[str],
        *,
        as_labels: bool,
    ) -> _PairColumn:
        places = np.array([numbers.sample.models.index(model) for model in models], dtype=np.int64)
        common = _CommonSums.build(numbers.sample, number).take(places)
        low, high = find_ends(numbers.document, number)
        span = high - low
        rate = number.metric.kind == "rate"
        own = _OwnMoments.build(numbers, number, models, span, as_labels=as_labels)
        fewer = np.minimum(own.responses[:, None], own.responses[None, :])
        paired = (
            own.is_labels[:, None] & own.is_labels[None, :] & (common.n >= np.maximum(MIN_COMMON * fewer, 1))
        )
        on_common = measure_labels(
            common.n,
            common.totals,
            common.squares,
            span,
            rate=rate,
            spread=own.spread[:, None],
            evenness=own.evenness[:, None],
        )
        means, labels, variance, degrees = (
            np.where(paired, shared, np.broadcast_to(single[:, None], paired.shape))
            for shared, single in zip(on_common, own.moments, strict=True)
        )
        rows = MeanMoments(rate, np.ones(1), means, labels, variance, degrees)
        plain = np.where(paired, common.variance, _divide(means * (1 - means), labels) if rate else variance)
        known = numbers.sample.columns
        is_known = np.all([known[scope].known[places] for scope in number.scopes], axis=0)
        return cls(
            rows,
            np.where(paired, common.compute_covariance(rate=rate), 0.0),
            np.nan_to_num(plain),
            np.where(paired, common.n, fewer).astype(np.int64),
            # Who has no response here keeps nobody from being paired.
            paired | ((fewer == 0) & is_known[:, None] & is_known[None, :]),
        )


@dataclass(frozen=True)
class _OwnMoments:
    """By model, its own number; ``is_labels`` says that it is of labels alone, ``spread`` and ``evenness`` how unevenly
    its responses count in it.
    """

    moments: tuple[Floats, Floats, Floats, Floats]
    is_labels: Mask
    responses: Floats
    spread: Floats
    evenness: Floats

    @classmethod
    def build(
        cls,
        numbers: BoardNumbers,
        number: NumberTerms,
        models: Sequence[str],
        span: float,
        *,
        as_labels: bool,
    ) -> _OwnMoments:
        by_model = numbers.list_parts(number)
        responses, sums, squares, spread, evenness = (
            np.array([getattr(by_model[model], name) for model in models], dtype=float)
            for name in ("responses", "sums", "squares", "spread", "evenness")
        )
        rate = number.metric.kind == "rate"
        moments = np.array(
            measure_labels(responses, sums, squares, span, rate=rate, spread=spread, evenness=evenness)
        )
        is_labels = np.ones(len(models), dtype=bool)
        for at, model in enumerate([] if as_labels else models):
            board_number = numbers.find_terms_number(model, number)
            is_labels[at] = board_number.part is not None
            if board_number.part is None and board_number.moments is not None:
                own = board_number.moments
                moments[:, at] = own.means[0], own.labels[0], own.variance[0], own.degrees[0]
        return cls((moments[0], moments[1], moments[2], moments[3]), is_labels, responses, spread, evenness)


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
