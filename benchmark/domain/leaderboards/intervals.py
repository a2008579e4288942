"""Intervals of numbers that are means over columns: what each column tells of its mean, at any confidence. Pure.

docs/leaderboard.md says what each interval is. The last axis of an array of moments is the columns.

The mean over several terms of the same responses, such as the criteria of a guideline, is no mean of independent
columns: a ``TermBalance`` makes it the mean of one value of each response, and the rest of the board reads that value
as it reads any other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, stdtrit

from annotation.core.proportions import Z
from benchmark.domain.leaderboards.responses import Floats

UNSEEN = 2.0
"""So many labels more, half of them at either end of the scale, are reckoned with in the variance of a mean: labels
that are all alike are not certainty. The estimates reckon with as many."""
DRAWN_IN = 4.0
"""So many labels more, half of them counted, are reckoned with where a rate's columns are weighed against each other
(A. Agresti and B. A. Coull, The American Statistician 52, 1998): a column whose labels are all alike is not certain."""


@dataclass(frozen=True)
class MeanMoments:
    """Of each column its mean, the ``labels`` that a rate rests on, the ``variance`` and ``degrees`` of a mean.

    The number is the ``weights``' sum of the columns' means. ``labels`` are effective ones: so many single labels would
    have the variance that the rate has. NaN where a column has no number.
    """

    rate: bool
    weights: Floats
    means: Floats
    labels: Floats
    variance: Floats
    degrees: Floats

    @property
    def value(self) -> Floats:
        return np.asarray((self.weights * self.means).sum(axis=-1))

    @property
    def columns_variance(self) -> Floats:
        """The variance of each column's mean; of a rate with a few labels more, so that it is never 0."""
        if not self.rate:
            return self.variance
        share = (self.means * self.labels + DRAWN_IN / 2) / (self.labels + DRAWN_IN)
        return np.asarray(share * (1 - share) / self.labels)

    def compute_bounds(self, z: float = Z) -> tuple[Floats, Floats]:
        """(..) low and high, ``z`` normal standard errors wide; 1.96 for 95%. NaN where the labels are too few.

        A rate: Wilson's score interval; of several columns X. Yan and X. G. Su, Statistics in Biopharmaceutical
        Research 2 (2010) 329-335, whose columns' intervals are narrower, so that their mean has the confidence. A mean:
        Student's; of several columns with the degrees of F. E. Satterthwaite, Biometrics Bulletin 2 (1946) 110-114.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            return self._compute_rate_bounds(z) if self.rate else self._compute_mean_bounds(z)

    def _compute_rate_bounds(self, z: float) -> tuple[Floats, Floats]:
        deviations = self.weights * np.sqrt(self.columns_variance)
        narrowed = np.sqrt((deviations**2).sum(axis=-1)) / deviations.sum(axis=-1)
        square = (z * narrowed[..., None]) ** 2 / self.labels
        centre = (self.means + square / 2) / (1 + square)
        half = np.sqrt(square * np.maximum(self.means * (1 - self.means), 0) + square**2 / 4) / (1 + square)
        low, high = np.clip(centre - half, 0, self.means), np.clip(centre + half, self.means, 1)
        return np.asarray((self.weights * low).sum(axis=-1)), np.asarray((self.weights * high).sum(axis=-1))

    def _compute_mean_bounds(self, z: float) -> tuple[Floats, Floats]:
        parts = self.weights**2 * self.variance
        variance = parts.sum(axis=-1)
        degrees = variance**2 / (parts**2 / self.degrees).sum(axis=-1)
        half = np.where(degrees >= 1, stdtrit(np.maximum(degrees, 1), ndtr(z)), np.nan) * np.sqrt(variance)
        value = self.value
        return value - half, value + half


def measure_labels(
    n: Floats,
    totals: Floats,
    squares: Floats,
    span: float,
    *,
    rate: bool,
    spread: Floats | float = 1.0,
    evenness: Floats | float = 1.0,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Means, effective labels, variances and degrees of ``n`` responses with these sums of values and of squares.

    ``span`` is the distance between the ends of the scale. Of a response with several labels in a rate the value is the
    share of them that is counted, which tells more than a single label. ``spread`` and ``evenness`` are those of a
    ``Balance``.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        n = np.where(n > 0, n, np.nan)
        means = totals / n
        around = np.maximum(squares - totals**2 / n, 0)
        unseen = UNSEEN * span**2 / 4
        around_all = around + unseen * spread**2
        variance = around_all / (n - 1 + UNSEEN) / n
        single = n * np.maximum(means * (1 - means), 0) if rate else around
        labels = n * (single + unseen) / around_all
    return means, labels, variance, n * evenness - 1


@dataclass(frozen=True)
class Balance:
    """How unevenly responses count in a mean over terms; both are 1 where each of them has every term.

    ``spread`` is how far the value of a response may lie from the others, as a multiple of the scale (a root mean
    square): one of few that have a term counts for many. ``evenness`` is the share of the responses that as many equal
    ones would be (L. Kish, Survey Sampling, 1965). ``fewest`` is how many have the rarest term.
    """

    spread: float
    evenness: float
    fewest: int


@dataclass(frozen=True)
class TermBalance:
    """Makes of what responses have in each term one value each, whose mean is the plain mean of the terms' means.

    A response moves the mean of a term that it has by its distance to that mean, and the more the fewer have the term:
    its value is the number plus what it moves all terms by, times the number of responses (the number linearised:
    W. G. Cochran, Sampling Techniques, 1977, chapter 6). Of one that has every term, among others that do, that is the
    mean of its terms. Distances are a little larger where few have the term, by what their mean took of them.
    """

    means: Floats
    weights: Floats

    @classmethod
    def build(cls, values: Floats, shares: Floats | None = None) -> TermBalance:
        """``values`` are (responses, terms), NaN where a response has not the term; ``shares`` says for how many each
        response stands. The means of a term that none has are NaN, and so is every value then.
        """
        has_term = ~np.isnan(values)
        shares = np.ones(len(values)) if shares is None else shares
        counted = shares[:, None] * has_term
        n, have = len(values), has_term.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = (counted * np.nan_to_num(values)).sum(axis=0) / counted.sum(axis=0)
            weights = shares.sum() / counted.sum(axis=0) / values.shape[-1]
            lost = np.where(have > 1, have * (n - 1.0) / ((have - 1.0) * n), 1.0)
        return cls(means, weights * np.sqrt(lost))

    @property
    def value(self) -> float:
        return float(self.means.mean())

    def value_responses(self, values: Floats) -> Floats:
        """(responses,): of these, whether the balance was built of them or not; one without any term has the number."""
        own = np.where(np.isnan(values), 0.0, values * self.weights).sum(axis=-1)
        return np.asarray(own + self.value - (~np.isnan(values) * self.weights * self.means).sum(axis=-1))

    def measure(self, values: Floats) -> Balance:
        has_term = ~np.isnan(values)
        pulls = (has_term * self.weights).sum(axis=-1) ** 2
        return Balance(
            float(np.sqrt(pulls.mean())),
            float(pulls.sum() ** 2 / (len(pulls) * (pulls**2).sum())),
            int(has_term.sum(axis=0).min()),
        )
