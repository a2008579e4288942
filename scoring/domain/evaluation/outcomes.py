"""What came of each head: labels, predictions and how sure they were, as arrays; and draws of whole prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from scoring.domain.training_data import Example, Head, Prediction, prompt_groups

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Statistic = dict[str, float | None]

RESAMPLES = 1000
EXACT_IN_FLOAT32 = 2**24
"""Whole numbers below this are exact as 32-bit floats, and so are their sums in any order."""
DRAWS_AT_A_TIME = 64
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
    examples: Sequence[Example],
    predictions: Sequence[Prediction],
    head: Head,
    rates: Sequence[Prediction] | None = None,
) -> Outcomes:
    """``rates``, an entry for each example, are how often what predicted it had learned each level."""
    name, position = head.criterion, {value: place for place, value in enumerate(head.values)}
    rows, truth = [], []
    for row, (example, prediction) in enumerate(zip(examples, predictions, strict=True)):
        if name in example.labels and name in prediction:
            rows.append(row)
            truth.append(position[example.labels[name]])
    shares = _to_table([predictions[row] for row in rows], head)
    learned = None if rates is None else _to_table([rates[row] for row in rows], head)
    # Of equal ones the first on the scale, as ``Head.most_likely``.
    return Outcomes(
        head,
        np.array(rows, np.int64),
        np.array(truth, np.int64),
        shares.argmax(axis=1),
        shares.max(axis=1, initial=0.0),
        shares,
        learned,
    )


def _to_table(predictions: Sequence[Prediction], head: Head) -> Array:
    """(n, levels): zeros where a criterion is not predicted."""
    name, zeros = head.criterion, dict.fromkeys(head.values, 0.0)
    rows = [[p.get(name, zeros).get(value, 0.0) for value in head.values] for p in predictions]
    return np.array(rows, dtype=np.float64).reshape(-1, len(head.values))


@dataclass(frozen=True)
class Draws:
    """Prompts drawn with replacement, the same draws for every figure.

    ``group`` is each example's group of prompts; ``weights`` (groups, 1 + resamples) how often each group is drawn,
    the first column being the data as they are.
    """

    group: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32]

    @classmethod
    def draw_prompts(cls, examples: Sequence[Example], *, resamples: int = RESAMPLES, seed: int = 0) -> Draws:
        names = prompt_groups(examples)
        order = {name: i for i, name in enumerate(sorted(set(names)))}
        group = np.array([order[name] for name in names], dtype=np.int64)
        return cls(group, draw_groups(len(order), resamples=resamples, seed=seed))

    @cached_property
    def _most(self) -> float:
        """How often a group is drawn at most."""
        return float(self.weights.max(initial=1))

    def sum_groups(self, table: npt.NDArray[Any], groups: npt.NDArray[np.int64]) -> Array:
        """(1 + resamples, columns): the sum, in each draw, of the rows of these groups (groups, columns)."""
        weights = self.weights if len(groups) == len(self.weights) else self.weights[groups]
        if table.dtype.kind == "i" and table.sum() * self._most < EXACT_IN_FLOAT32:
            return (table.T.astype(np.float32) @ weights).T.astype(np.float64)
        draws = range(0, weights.shape[1], DRAWS_AT_A_TIME)
        parts = [table.T @ weights[:, start : start + DRAWS_AT_A_TIME].astype(np.float64) for start in draws]
        return np.hstack(parts).T

    def count_confusion(self, outcomes: Outcomes) -> DrawnConfusion:
        """Only the groups that have an outcome are counted; the rest add nothing to any draw."""
        levels = len(outcomes.head.values)
        groups, place = np.unique(self.group[outcomes.row], return_inverse=True)
        table = np.zeros((len(groups), levels, levels), np.int64)
        np.add.at(table, (place, outcomes.truth, outcomes.predicted), 1)
        drawn = self.sum_groups(table.reshape(len(groups), levels * levels), groups)
        return DrawnConfusion(outcomes.head, groups, drawn.reshape(-1, levels, levels))

    def mean_of_hits(self, head_outcomes: Sequence[Outcomes], hits: Sequence[npt.NDArray[Any]]) -> Statistic:
        """The mean of ``hits``, an entry for each outcome, with its interval."""
        group = self.group[np.concatenate([each.row for each in head_outcomes] or [np.zeros(0, np.int64)])]
        groups, place = np.unique(group, return_inverse=True)
        values = np.concatenate([*hits, np.zeros(0, np.bool_)])
        summed = np.bincount(place, weights=values, minlength=len(groups))
        if values.dtype == np.bool_:
            summed = summed.astype(np.int64)
        sums = self.sum_groups(summed[:, None], groups)[:, 0]
        counts = self.sum_groups(np.bincount(place, minlength=len(groups))[:, None], groups)[:, 0]
        with np.errstate(invalid="ignore", divide="ignore"):
            draws = sums / counts
        return percentile_statistic(draws, len(groups))


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
    drawn = np.ones((groups, 1 + resamples), np.float32)
    if groups:
        chance, shares = np.random.default_rng(seed), np.full(groups, 1 / groups)
        for start in range(1, 1 + resamples, DRAWS_AT_A_TIME):
            block = drawn[:, start : start + DRAWS_AT_A_TIME]
            block[:] = chance.multinomial(groups, shares, block.shape[1]).T
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
