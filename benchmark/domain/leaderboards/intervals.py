"""Intervals of numbers that are means over columns: what each column tells of its mean, at any confidence. Pure.

docs/leaderboard.md says what each interval is. The last axis of every array is the columns.
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
    n: Floats, totals: Floats, squares: Floats, span: float, *, rate: bool
) -> tuple[Floats, Floats, Floats, Floats]:
    """Means, effective labels, variances and degrees of ``n`` responses with these sums of values and of squares.

    ``span`` is the distance between the ends of the scale. Of a response with several labels in a rate the value is the
    share of them that is counted, which tells more than a single label.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        n = np.where(n > 0, n, np.nan)
        means = totals / n
        around = np.maximum(squares - totals**2 / n, 0)
        unseen = UNSEEN * span**2 / 4
        variance = (around + unseen) / (n - 1 + UNSEEN) / n
        single = n * np.maximum(means * (1 - means), 0) if rate else around
        labels = n * (single + unseen) / (around + unseen)
    return means, labels, variance, n - 1
