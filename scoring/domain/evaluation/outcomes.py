"""What came of each head: labels, predictions and how sure they were, as arrays; and draws of whole prompts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from scoring.domain.tables import NO_LABEL, LabelPlaces, PredictionTable
from scoring.domain.training_data import Example, Head, prompt_groups

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Statistic = dict[str, float | None]

RESAMPLES = 1000
EXACT_IN_FLOAT32 = 2**24
"""Whole numbers below this are exact as 32-bit floats, and so are their sums in any order."""
MULTINOMIALS_AT_A_TIME = 64
DRAWS_AT_A_TIME = 256
"""Draws that are wide numbers at once: of many prompts all of them would be hundreds of megabytes."""
MIN_SPREAD = 1e-12
"""Draws that spread no wider than this do not differ."""


@dataclass(frozen=True)
class Outcomes:
    """What came of one head: an entry for each response that has a label and a prediction of it.

    ``row`` is the response's place among the examples, ``truth`` and ``predicted`` are places on the scale. ``shares``
    (n, levels) are the probabilities; ``rates`` (n, levels) how often each level was learned by what predicted, which
    is all that a scorer can say that knows no text. Without them nothing is compared with the rates.
    """

    head: Head
    row: npt.NDArray[np.int64]
    truth: npt.NDArray[np.int64]
    predicted: npt.NDArray[np.int64]
    confidence: Array
    shares: Array
    rates: Array | None = None

    @property
    def correct(self) -> Mask:
        right: Mask = self.truth == self.predicted
        return right

    def select_rows(self, keep: Mask) -> Outcomes:
        """The outcomes of the examples that ``keep`` says."""
        return self.select(keep[self.row])

    def select(self, keep: Mask) -> Outcomes:
        """The outcomes that ``keep``, an entry for each, says."""
        return Outcomes(
            self.head,
            self.row[keep],
            self.truth[keep],
            self.predicted[keep],
            self.confidence[keep],
            self.shares[keep],
            None if self.rates is None else self.rates[keep],
        )


def collect_outcomes(
    labels: LabelPlaces, predictions: PredictionTable, rates: PredictionTable | None = None
) -> list[Outcomes]:
    """Of each head of the predictions. ``rates`` are how often what predicted each response had learned each level."""
    return list(_collect_outcomes(labels, predictions, rates))


def _collect_outcomes(
    labels: LabelPlaces, predictions: PredictionTable, rates: PredictionTable | None
) -> Iterator[Outcomes]:
    for column, head in enumerate(predictions.heads):
        rows = np.flatnonzero((labels[:, column] != NO_LABEL) & predictions.is_predicted(head))
        shares = predictions.select(head)[rows]
        learned = None if rates is None else np.nan_to_num(rates.select(head)[rows])
        # Of equal ones the first on the scale, as ``Head.most_likely``.
        predicted, confidence = shares.argmax(axis=1), shares.max(axis=1, initial=0.0)
        truth = labels[rows, column].astype(np.int64)
        yield Outcomes(head, rows, truth, predicted, confidence, shares, learned)


@dataclass(frozen=True)
class Draws:
    """Prompts drawn with replacement, the same draws for every figure.

    ``group`` is each example's group of prompts; ``times`` (groups, 1 + resamples) how often each group is drawn,
    the first column being the data as they are.
    """

    group: npt.NDArray[np.int64]
    times: npt.NDArray[np.uint8]

    @classmethod
    def draw_prompts(cls, examples: Sequence[Example], *, resamples: int = RESAMPLES, seed: int = 0) -> Draws:
        names = prompt_groups(examples)
        order = {name: i for i, name in enumerate(sorted(set(names)))}
        group = np.array([order[name] for name in names], dtype=np.int64)
        return cls(group, _draw_times(len(order), resamples, seed))

    @cached_property
    def _most(self) -> float:
        """How often a group is drawn at most."""
        return float(self.times.max(initial=1))

    def sum_cells(
        self,
        rows: npt.NDArray[np.int64],
        cells: npt.NDArray[np.int64],
        values: npt.NDArray[Any],
        count: int,
    ) -> Array:
        """(1 + resamples, count): the sum, in each draw, of the values of each cell. A value is of the response in its
        row, and belongs to the cell in its place; most groups of prompts have nothing in most cells."""
        from scipy import sparse

        groups, place = np.unique(self.group[rows], return_inverse=True)
        table = sparse.csr_matrix((values, (cells, place)), shape=(count, len(groups)))
        is_exact = values.dtype.kind == "i" and table.sum() * self._most < EXACT_IN_FLOAT32
        kind = np.float32 if is_exact else np.float64
        table = table.astype(kind)
        parts = [
            table @ self.times[groups, start : start + DRAWS_AT_A_TIME].astype(kind)
            for start in range(0, self.times.shape[1], DRAWS_AT_A_TIME)
        ]
        return np.hstack(parts).T.astype(np.float64)

    def count_confusion(self, outcomes: Outcomes) -> DrawnConfusion:
        """Only the groups that have an outcome are counted; the rest add nothing to any draw."""
        levels = len(outcomes.head.values)
        cells = outcomes.truth * levels + outcomes.predicted
        drawn = self.sum_cells(outcomes.row, cells, np.ones(len(cells), np.int64), levels * levels)
        return DrawnConfusion(
            outcomes.head, np.unique(self.group[outcomes.row]), drawn.reshape(-1, levels, levels)
        )

    def mean_of_hits(self, head_outcomes: Sequence[Outcomes], hits: Sequence[npt.NDArray[Any]]) -> Statistic:
        """The mean of ``hits``, an entry for each outcome, with its interval."""
        row = np.concatenate([each.row for each in head_outcomes] or [np.zeros(0, np.int64)])
        values = np.concatenate([*hits, np.zeros(0, np.bool_)])
        if values.dtype == np.bool_:
            values = values.astype(np.int64)
        cells = np.repeat([0, 1], len(row))
        drawn = self.sum_cells(np.tile(row, 2), cells, np.concatenate([values, np.ones_like(values)]), 2)
        with np.errstate(invalid="ignore", divide="ignore"):
            draws = drawn[:, 0] / drawn[:, 1]
        return percentile_statistic(draws, len(np.unique(self.group[row])))


@dataclass(frozen=True)
class DrawnConfusion:
    """(1 + resamples, truth, predicted): the confusion counts of one head in each draw; the first is the data.

    ``groups`` are the groups of prompts that have an outcome.
    """

    head: Head
    groups: npt.NDArray[np.int64]
    drawn: Array

    @property
    def counts(self) -> Array:
        counts: Array = self.drawn[0]
        return counts


def draw_groups(groups: int, *, resamples: int, seed: int) -> npt.NDArray[np.float32]:
    """(groups, 1 + resamples): how often each group is drawn; the first column is the data as they are."""
    return _draw_times(groups, resamples, seed).astype(np.float32)


@lru_cache(maxsize=1)
def _draw_times(groups: int, resamples: int, seed: int) -> npt.NDArray[np.uint8]:
    """The same figures of the same prompts are drawn once. That one of very many groups is drawn more than 255 times
    has a chance below 1e-500."""
    drawn = np.ones((groups, 1 + resamples), np.uint8)
    if groups:
        chance, shares = np.random.default_rng(seed), np.full(groups, 1 / groups)
        for start in range(1, 1 + resamples, MULTINOMIALS_AT_A_TIME):
            block = drawn[:, start : start + MULTINOMIALS_AT_A_TIME]
            block[:] = chance.multinomial(groups, shares, block.shape[1]).T
    drawn.flags.writeable = False
    return drawn


def percentile_statistic(draws: Array, groups: int) -> Statistic:
    """The first draw is the value. One group alone has no spread to draw an interval from.

    Nor have draws that are all the same: that two of two are right is no certainty.
    """
    spread = draws[1:][~np.isnan(draws[1:])]
    varies = groups > 1 and len(spread) and np.ptp(spread) > MIN_SPREAD
    low, high = np.percentile(spread, [2.5, 97.5]) if varies else (np.nan, np.nan)
    return {"value": to_finite(draws[0]), "low": to_finite(low), "high": to_finite(high)}


def to_finite(value: float) -> float | None:
    """A float that is a number, or None."""
    return float(value) if np.isfinite(value) else None
