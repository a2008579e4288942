"""Judgements of two responses to one prompt, and what they come to when they are counted. Pure.

Shapes: N comparisons, K models, R rows of a design (different ordered pairs, and differences of length), P prompts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from annotation.core.proportions import wilson_bounds
from benchmark.domain.leaderboards.responses import Floats, Integers

FIRST, TIE, SECOND = 1, 0, -1
"""Which of the two is preferred: the response that was displayed first, neither, or the other."""
ShareOfPoints = tuple[float | None, float | None, float | None]
"""A share with the low and the high end of its interval."""
MIN_SPREAD = 1e-18


@dataclass(frozen=True, eq=False)
class PairwiseComparisons:
    """The arrays have an entry for each comparison (N,). Whatever breaks that is a ValueError.

    ``first`` and ``second`` are places in ``models``: ``first`` was displayed first, or on the left. ``prompt`` is any
    whole number; comparisons of one prompt are drawn together. ``length_difference`` is the logarithm of the first
    response's length over the second's. A comparison counts as many times as ``weights`` says.
    """

    models: tuple[str, ...]
    first: Integers
    second: Integers
    outcome: Integers
    prompt: Integers
    length_difference: Floats | None = None
    weights: Floats | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", tuple(self.models))
        if len(set(self.models)) < len(self.models):
            raise ValueError("models: a name stands there twice")
        for name in ("first", "second", "outcome", "prompt"):
            object.__setattr__(self, name, _check_integers(name, getattr(self, name)))
        for name in ("length_difference", "weights"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _check_floats(name, getattr(self, name)))
        self._check_columns()

    def _check_columns(self) -> None:
        for name in ("second", "outcome", "prompt", "length_difference", "weights"):
            column = getattr(self, name)
            if column is not None and len(column) != len(self.first):
                raise ValueError(f"{name}: {len(column)} entries, where first has {len(self.first)}")
        for name in ("first", "second"):
            column = getattr(self, name)
            if len(column) and not (column.min() >= 0 and column.max() < len(self.models)):
                raise ValueError(f"{name}: not the place of a model (0 to {len(self.models) - 1})")
        if (self.first == self.second).any():
            raise ValueError("second: a model is compared with itself")
        if not np.isin(self.outcome, (FIRST, TIE, SECOND)).all():
            raise ValueError("outcome: not 1, 0 or -1")
        if self.weights is not None and (self.weights <= 0).any():
            raise ValueError("weights: not above 0")

    @cached_property
    def counts(self) -> Floats:
        """(N,): the weights, or 1."""
        return np.ones(len(self.first)) if self.weights is None else self.weights

    @cached_property
    def clusters(self) -> Integers:
        """(N,): the prompts, numbered from 0."""
        return np.asarray(np.unique(self.prompt, return_inverse=True)[1], dtype=np.int64)

    @cached_property
    def prompts(self) -> int:
        return int(self.clusters.max(initial=-1)) + 1


def _check_integers(name: str, column: Any) -> Integers:
    array = np.asarray(column)
    if array.ndim != 1:
        raise ValueError(f"{name}: {array.ndim} dimensions instead of 1")
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{name}: not whole numbers")
    return array.astype(np.int64)


def _check_floats(name: str, column: Any) -> Floats:
    array = np.asarray(column, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name}: {array.ndim} dimensions instead of 1")
    if not np.isfinite(array).all():
        raise ValueError(f"{name}: an entry is not a finite number")
    return array


@dataclass(frozen=True, eq=False)
class DesignCounts:
    """``wins`` (of the model displayed first), ``losses`` and ``ties`` are (R, P) sums of the comparisons' counts."""

    models: int
    prompts: int
    first: Integers
    second: Integers
    length: Floats
    wins: csr_array
    losses: csr_array
    ties: csr_array

    @classmethod
    def build(cls, comparisons: PairwiseComparisons, *, ties: bool, length: bool) -> DesignCounts:
        """``ties`` says whether they count, ``length`` whether rows differ by the difference of length."""
        is_counted = (comparisons.outcome != TIE) | ties
        first, second = comparisons.first[is_counted], comparisons.second[is_counted]
        difference = comparisons.length_difference
        lengths = difference[is_counted] if length and difference is not None else np.zeros(len(first))
        keys = np.stack([first.astype(np.float64), second.astype(np.float64), lengths], axis=1)
        rows, row = np.unique(keys, axis=0, return_inverse=True)
        place = (row.reshape(-1), comparisons.clusters[is_counted])
        outcome, counts = comparisons.outcome[is_counted], comparisons.counts[is_counted]
        wins, losses, even = (
            csr_array((counts * (outcome == sort), place), shape=(len(rows), comparisons.prompts))
            for sort in (FIRST, SECOND, TIE)
        )
        return cls(
            len(comparisons.models),
            comparisons.prompts,
            rows[:, 0].astype(np.int64),
            rows[:, 1].astype(np.int64),
            rows[:, 2],
            wins,
            losses,
            even,
        )

    def draw(self, drawn: Floats) -> tuple[Floats, Floats, Floats]:
        """Wins, losses and ties (B, R), where the prompts are drawn as often as ``drawn`` (P, B) says."""
        wins, losses, ties = ((part @ drawn).T for part in (self.wins, self.losses, self.ties))
        return np.asarray(wins), np.asarray(losses), np.asarray(ties)


@dataclass(frozen=True, eq=False)
class WinTable:
    """(K, K), of the row's model against the column's: ``n`` comparisons, of which ``wins`` and ``ties``."""

    models: tuple[str, ...]
    n: Floats
    wins: Floats
    ties: Floats

    @property
    def rates(self) -> Floats:
        """Wins, a tie being half of each, by comparison; NaN of models that were never compared."""
        return _divide(self.wins + self.ties / 2, self.n)

    def to_json(self) -> list[dict[str, Any]]:
        """Each ordered pair of models; the rate of models that were never compared is None."""
        rates = self.rates
        return [
            {
                "model": self.models[row],
                "rival": self.models[column],
                "n": to_count(self.n[row, column]),
                "wins": to_count(self.wins[row, column]),
                "ties": to_count(self.ties[row, column]),
                "losses": to_count(self.wins[column, row]),
                "win_rate": None if np.isnan(rates[row, column]) else float(rates[row, column]),
            }
            for row in range(len(self.models))
            for column in range(len(self.models))
            if row != column
        ]


def count_wins(comparisons: PairwiseComparisons) -> WinTable:
    size = len(comparisons.models)
    wins, ties = np.zeros((size, size)), np.zeros((size, size))
    first, second, counts = comparisons.first, comparisons.second, comparisons.counts
    for outcome, winner, loser in ((FIRST, first, second), (SECOND, second, first)):
        is_own = comparisons.outcome == outcome
        np.add.at(wins, (winner[is_own], loser[is_own]), counts[is_own])
    is_tie = comparisons.outcome == TIE
    np.add.at(ties, (first[is_tie], second[is_tie]), counts[is_tie])
    ties += ties.T
    return WinTable(comparisons.models, wins + wins.T + ties, wins, ties)


def measure_first_share(comparisons: PairwiseComparisons) -> tuple[ShareOfPoints, float]:
    """Of the decided comparisons the share that the response displayed first won, and their number."""
    is_decided = comparisons.outcome != TIE
    counts = comparisons.counts[is_decided]
    won = (comparisons.outcome[is_decided] == FIRST).astype(np.float64)
    return measure_share(won, counts, comparisons.clusters[is_decided]), float(counts.sum())


def measure_win_rate(comparisons: PairwiseComparisons, model: int) -> ShareOfPoints:
    """Of all comparisons of the model, a tie being half a win."""
    is_own = (comparisons.first == model) | (comparisons.second == model)
    side = np.where(comparisons.first[is_own] == model, 1, -1)
    points = (1 + side * comparisons.outcome[is_own]) / 2
    return measure_share(points, comparisons.counts[is_own], comparisons.clusters[is_own])


def measure_share(points: Floats, counts: Floats, cluster: Integers) -> ShareOfPoints:
    """The mean of points from 0 to 1, with Wilson's interval at the effective number of comparisons.

    That is their number divided by the design effect of the prompts, as annotation/core/proportions.py has it: at most
    the number itself, and that of the prompts where nothing varies.
    """
    n = float(counts.sum())
    if not n:
        return None, None, None
    share = float((counts * points).sum() / n)
    clusters = len(np.unique(cluster))
    spread = float((np.bincount(cluster, weights=counts * (points - share)) ** 2).sum())
    effective: float = clusters
    if spread > MIN_SPREAD * n**2 and clusters > 1:
        between = spread / n**2 * clusters / (clusters - 1)
        most = n**2 / float((counts**2).sum())
        effective = min(share * (1 - share) / between * most / max(most - 1, 1), most)
    low, high = wilson_bounds(np.array([share]), np.array([effective]))
    return share, float(low[0]), float(high[0])


def to_count(value: float) -> int | float:
    """A sum of weights as it is, of comparisons a whole number."""
    return int(value) if float(value).is_integer() else float(value)


def _divide(part: Floats, total: Floats) -> Floats:
    return np.asarray(np.divide(part, total, out=np.full_like(part, np.nan), where=total > 0))
