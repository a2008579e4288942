"""Rates and means from few gold labels and a prediction of everything. Pure.

Prediction-powered inference with a tuned weight (PPI++: Angelopoulos, Duchi, Zrnic, arXiv 2311.01453), within strata
(Fisch et al., arXiv 2406.04291), for two targets: the population that the responses were drawn from, and exactly these
responses. docs/estimates.md has the formulas; what the published intervals lack where labels are few is in
docs/decisions/prediction-powered-numbers.md. Strata are the last axis of every array, so that a simulation computes
thousands of samples at once.

The value is cross-fitted (Zrnic, Candes, arXiv 2309.16598, one label held out at a time): each label is corrected by
the slope that all other labels tune. A slope that is tuned on the labels that it corrects moves the value by points
where a stratum has five of them. The interval is that of the common slope, which covers better where errors are rare,
and reaches as far as the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from annotation.core.proportions import Z

Floats = npt.NDArray[np.float64]
LabelledPair: TypeAlias = tuple[Floats, Floats]
"""The gold labels of a stratum and their predictions, (.., n) each, about their means."""

UNSEEN = 2.0
"""So many labels more are reckoned with in every stratum, as spread as any two can be: few labels that are all alike
are not certainty. Chosen by simulation."""

MIN_SPREAD = 1e-9
"""What responses count unevenly in may have a stratum's mean outside of the scale, and then no spread of single labels:
so little of one makes the interval wide."""

MANY_DEGREES = 1e6
"""Where nothing is left open: Student's quantile is then the normal one."""


@dataclass(frozen=True)
class MetricScale:
    """The values that a metric can have, and whether it is a rate, whose interval is then Wilson's."""

    low: float = 0.0
    high: float = 1.0
    rate: bool = True

    @property
    def unseen(self) -> float:
        """The sum of squares of the ``UNSEEN`` labels: half of them at either end."""
        return UNSEEN * (self.high - self.low) ** 2 / 4


@dataclass(frozen=True)
class StrataMoments:
    """What a cell's strata hold, (.., strata) each; ``products`` and ``squares`` are sums about the means.

    ``gold`` and ``predicted`` are means over the labelled responses, ``everywhere`` is the mean prediction of all.
    ``labels`` has a pair for each stratum.
    """

    population: Floats
    labelled: Floats
    gold: Floats
    predicted: Floats
    everywhere: Floats
    gold_squares: Floats
    predicted_squares: Floats
    products: Floats
    everywhere_squares: Floats
    labels: tuple[LabelledPair, ...]

    @property
    def share(self) -> Floats:
        """Of the population, by stratum."""
        return np.asarray(self.population / self.population.sum(axis=-1, keepdims=True))

    @property
    def unlabelled_share(self) -> Floats:
        """The finite-population correction of each stratum, 1 - n / N."""
        return np.asarray(1 - self.labelled / self.population)


@dataclass(frozen=True)
class Interval:
    """95%; the bounds are NaN where the labels are too few to tell."""

    low: Floats
    high: Floats

    @property
    def width(self) -> Floats:
        return np.asarray(self.high - self.low)


@dataclass(frozen=True)
class Estimate:
    """``weight`` is PPI++'s lambda, 0 to 1. ``variances`` are those of one label, by stratum, after the prediction.

    ``centre`` is the mean that the intervals lie around, ``variance`` its own for the population, ``labels`` as many
    single labels of a rate as would have it, and ``degrees`` are its degrees of freedom.
    """

    value: Floats
    weight: Floats
    combined: Interval
    finite: Interval
    variances: Floats
    centre: Floats
    variance: Floats
    labels: Floats
    degrees: Floats


def build_stratum(gold: npt.ArrayLike, predicted: npt.ArrayLike, remaining: npt.ArrayLike) -> StrataMoments:
    """One stratum: (.., n) gold labels and predictions of the same, (.., N - n) predictions of the rest."""
    y, f, rest = (np.asarray(array, dtype=float) for array in (gold, predicted, remaining))
    all_predictions = np.concatenate([f, rest], axis=-1)
    y_mean, f_mean, mean = (array.mean(axis=-1, keepdims=True) for array in (y, f, all_predictions))
    return StrataMoments(
        population=np.full(y_mean.shape, float(all_predictions.shape[-1])),
        labelled=np.full(y_mean.shape, float(y.shape[-1])),
        gold=y_mean,
        predicted=f_mean,
        everywhere=mean,
        gold_squares=_sum_last((y - y_mean) ** 2),
        predicted_squares=_sum_last((f - f_mean) ** 2),
        products=_sum_last((y - y_mean) * (f - f_mean)),
        everywhere_squares=_sum_last((all_predictions - mean) ** 2),
        labels=((y - y_mean, f - f_mean),),
    )


def _sum_last(values: Floats) -> Floats:
    return np.asarray(values.sum(axis=-1, keepdims=True))


def join_strata(parts: Sequence[StrataMoments]) -> StrataMoments:
    """Several strata of one cell."""
    names = [field.name for field in fields(StrataMoments) if field.name != "labels"]
    joined = {name: np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in names}
    return StrataMoments(**joined, labels=tuple(pair for part in parts for pair in part.labels))


def estimate_mean(strata: StrataMoments, scale: MetricScale, *, weight: float | None = None) -> Estimate:
    """With the weight that makes the interval shortest, or with a given one: 0 is the gold labels alone.

    At weight 0 and in one stratum the interval of a rate is Wilson's, and that of a mean Student's.
    """
    tuned = weight is None
    slope = _tune_slope(strata) if weight is None else _fix_slope(strata, weight)
    moved = _sum_strata(strata.share * (strata.everywhere - strata.predicted))
    centre = _sum_strata(strata.share * strata.gold) + slope * moved
    value = _compute_cross_fitted_mean(strata) if tuned else centre
    degrees = _sum_strata(strata.labelled - 1)
    variances = _compute_variances(strata, scale, slope, degrees, tuned=tuned)
    finite = _sum_strata(strata.share**2 * strata.unlabelled_share * variances / strata.labelled)
    if tuned:
        finite = finite + _compute_slope_error(strata, variances) * moved**2
    spread = _compute_spread(strata, scale, strata.gold_squares)
    single = _compute_spread(strata, scale, _sum_single_labels(strata)) if scale.rate else spread
    single = np.maximum(single, MIN_SPREAD)
    combined = finite + spread / _sum_strata(strata.population)
    degrees = _limit_degrees(strata, variances, degrees - tuned, scale)
    if scale.rate:
        finite = finite * _compute_widening(strata, variances, strata.unlabelled_share)
        combined = combined * _compute_widening(strata, variances, np.ones_like(strata.share))
    quantile = _compute_quantile(scale, degrees)
    inside, value = (np.clip(mean, scale.low, scale.high) for mean in (centre, value))
    return Estimate(
        value=value,
        weight=_compute_weight(strata, slope),
        combined=_extend_interval(_compute_interval(scale, inside, combined, single, quantile), value),
        finite=_extend_interval(_compute_interval(scale, inside, finite, single, quantile), value),
        variances=variances,
        centre=inside,
        variance=combined,
        labels=single / combined,
        degrees=degrees,
    )


def estimate_plain(values: npt.ArrayLike, scale: MetricScale) -> Estimate:
    """The mean of labels alone: ``combined`` is its interval."""
    return estimate_mean(
        build_stratum(values, values, np.zeros((*np.shape(values)[:-1], 0))), scale, weight=0
    )


def _sum_strata(values: Floats) -> Floats:
    return np.asarray(values.sum(axis=-1))


def _tune_slope(strata: StrataMoments) -> Floats:
    """What a prediction counts for, one slope for all strata: lambda N / (N - n), of which PPI++ tunes lambda.

    The one with the least variance: a covariance among the labelled over a variance among all, both summed over strata
    by what they add to the variance of the estimate. It is kept where lambda is from 0 to 1.
    """
    adds = _compute_stratum_factor(strata)
    covariance = _sum_strata(adds * strata.products / strata.labelled)
    return _divide_slope(strata, covariance)


def _compute_stratum_factor(strata: StrataMoments) -> Floats:
    """What a variance in a stratum counts for in that of the estimate."""
    return np.asarray(strata.share**2 * strata.unlabelled_share / strata.labelled)


def _divide_slope(strata: StrataMoments, covariance: Floats) -> Floats:
    """(..) or (.., n) slopes from as many covariances."""
    variance = _sum_strata(_compute_stratum_factor(strata) * strata.everywhere_squares / strata.population)
    most = _find_max_slope(strata)
    if covariance.ndim > variance.ndim:
        variance, most = variance[..., None], most[..., None]
    variance = np.broadcast_to(variance, covariance.shape)
    slope = np.divide(covariance, variance, out=np.zeros_like(covariance), where=variance > 1e-15)
    return np.asarray(np.clip(slope, 0, most))


def _compute_cross_fitted_mean(strata: StrataMoments) -> Floats:
    """The mean of gold, each label corrected by its own slope * (mean of all predictions - own prediction).

    The slope of a label is the one that all other labels tune: without the label i of n the products about the means
    fall by ``n / (n - 1)`` times its own. A stratum of fewer than three labels has no covariance left, and adds none
    to the slopes of its own labels.
    """
    adds = _compute_stratum_factor(strata)
    covariance = adds * strata.products / strata.labelled
    shift = strata.everywhere - strata.predicted
    means = []
    for at, (gold, predicted) in enumerate(strata.labels):
        n = gold.shape[-1]
        rest = _sum_strata(np.delete(covariance, at, axis=-1))[..., None]
        left = strata.products[..., at, None] - n / max(n - 1, 1) * gold * predicted
        own = adds[..., at, None] * left / (n - 1) if n > 2 else np.zeros_like(left)
        slopes = _divide_slope(strata, rest + own)
        means.append(strata.gold[..., at] + (slopes * (shift[..., at, None] - predicted)).mean(axis=-1))
    return _sum_strata(strata.share * np.stack(means, axis=-1))


def _fix_slope(strata: StrataMoments, weight: float) -> Floats:
    return np.asarray(weight * _find_max_slope(strata))


def _find_max_slope(strata: StrataMoments) -> Floats:
    """The slope at lambda 1, N / (N - n); 0 where everything is labelled and predictions count for nothing.

    A stratum that is labelled whole has no part in it: there predictions count for nothing whatever the slope is.
    """
    is_open = strata.labelled < strata.population
    population = _sum_strata(np.where(is_open, strata.population, 0.0))
    left = _sum_strata(strata.population - strata.labelled)
    return np.divide(population, left, out=np.zeros_like(left), where=left > 0)


def _compute_weight(strata: StrataMoments, slope: Floats) -> Floats:
    largest = _find_max_slope(strata)
    return np.divide(slope, largest, out=np.zeros_like(largest), where=largest > 0)


def _compute_variances(
    strata: StrataMoments, scale: MetricScale, slope: Floats, degrees: Floats, *, tuned: bool
) -> Floats:
    """Of what the prediction leaves open of one label, by stratum; larger by what fitting the slope made it smaller."""
    along = slope[..., None]
    squares = strata.gold_squares - 2 * along * strata.products + along**2 * strata.predicted_squares
    fitted = np.where((slope > 0) & tuned, degrees / np.maximum(degrees - 1, 1), 1.0)[..., None]
    return np.asarray((fitted * np.maximum(squares, 0) + scale.unseen) / (strata.labelled - 1 + UNSEEN))


def _compute_slope_error(strata: StrataMoments, variances: Floats) -> Floats:
    """The variance of a slope that is fitted to the labelled responses; nothing where there is no slope to fit."""
    squares = _sum_strata(strata.predicted_squares)
    mean = _sum_strata(strata.share * variances)
    return np.divide(mean, squares, out=np.zeros_like(mean), where=squares > 1e-15)


def _limit_degrees(strata: StrataMoments, variances: Floats, degrees: Floats, scale: MetricScale) -> Floats:
    """Of a mean: those of its strata together, where they are fewer."""
    if scale.rate or strata.labelled.shape[-1] == 1:
        return degrees
    return np.minimum(degrees, _combine_degrees(strata, variances, np.ones_like(strata.share)))


def _compute_widening(strata: StrataMoments, variances: Floats, left: Floats) -> Floats:
    """What the variance of a rate is multiplied by, so that Wilson's interval has Student's quantile.

    In one stratum nothing: there it is sound with the normal one. In several their variances are guessed from the few
    labels of each, and one of them may make most of the whole.
    """
    if strata.labelled.shape[-1] == 1:
        return np.ones(strata.labelled.shape[:-1])
    degrees = _combine_degrees(strata, variances, left)
    return np.asarray((stdtrit(degrees, 0.975) / Z) ** 2)


def _combine_degrees(strata: StrataMoments, variances: Floats, left: Floats) -> Floats:
    """The degrees of freedom of the strata's variances together (Welch, Satterthwaite), ``left`` of each counted.

    The unseen labels count among them, since each variance rests on them too.
    """
    parts = strata.share**2 * left * variances / strata.labelled
    squares = _sum_strata(parts**2 / (strata.labelled - 1 + UNSEEN))
    return np.divide(
        _sum_strata(parts) ** 2, squares, out=np.full_like(squares, MANY_DEGREES), where=squares > 0
    )


def _compute_spread(strata: StrataMoments, scale: MetricScale, squares: Floats) -> Floats:
    """The variance of a label in the whole population, from sums of squares in each stratum."""
    mean = _sum_strata(strata.share * strata.gold)
    within = (squares + scale.unseen) / (strata.labelled - 1 + UNSEEN)
    return _sum_strata(strata.share * (within + (strata.gold - mean[..., None]) ** 2))


def _sum_single_labels(strata: StrataMoments) -> Floats:
    """The sums of squares that 0s and 1s of the same means have: those of the gold itself, if it is such.

    Of a response with several labels in a rate the share is between them, and tells more than one label.
    """
    return np.asarray(strata.labelled * strata.gold * (1 - strata.gold))


def _compute_quantile(scale: MetricScale, degrees: Floats) -> Floats:
    """Wilson's interval is sound with the normal one however few the labels; a mean needs Student's."""
    if scale.rate:
        return np.full(degrees.shape, Z)
    return np.where(degrees >= 1, stdtrit(np.maximum(degrees, 1), 0.975), np.nan)


def _compute_interval(
    scale: MetricScale, value: Floats, variance: Floats, spread: Floats, quantile: Floats
) -> Interval:
    if not scale.rate:
        half = quantile * np.sqrt(variance)
        return Interval(np.maximum(value - half, scale.low), np.minimum(value + half, scale.high))
    # Wilson's interval of as many single labels as would have this variance: spread / variance of them.
    square = quantile**2 * variance / spread
    centre = (value + square / 2) / (1 + square)
    half = np.sqrt(square * np.maximum(value * (1 - value), 0) + square**2 / 4) / (1 + square)
    return Interval(np.clip(centre - half, 0, value), np.clip(centre + half, value, 1))


def _extend_interval(interval: Interval, value: Floats) -> Interval:
    """To the value, where that lies outside; undefined bounds stay so."""
    return Interval(np.minimum(interval.low, value), np.maximum(interval.high, value))
