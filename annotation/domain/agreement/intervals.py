"""How sure a statistic is: its variance from leaving units out, summed by prompt, and the interval made of it.

Responses to one prompt are alike, so prompts vary and units do not vary by themselves. A statistic moves by nearly the
sum of what its units move it by, so a prompt's share in the variance is the square of its units' sum. Units of one kind
move it alike, and only one of each kind is left out. ``docs/agreement.md`` has the formulas.

Shapes: M sets of labels, J = 2 M kinds of unit, P prompts, E entries (a kind of unit in a prompt).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import stdtrit

from annotation.core.proportions import Z, wilson_bounds
from annotation.domain.agreement.coefficients import Distances, Estimate, Weighting
from annotation.domain.agreement.patterns import (
    FEW_DISPUTES,
    FEW_PROMPTS,
    FEW_UNCOMMON,
    NO_VARIATION,
    Floats,
    Ints,
    LabelSets,
    PromptCounts,
)

MAX_CELLS = 4_000_000
"""Counts held at a time (32 MB)."""

MIN_PROMPTS = 10
MIN_DISPUTES = 5
MIN_UNCOMMON = 10
MIN_UNCOMMON_SQUARED = 15
"""A chance-corrected statistic of fewer has no interval: ``tests/performance/prompt_coverage.py`` shows why. Where
nearly all labels are of one level, chance is known from the few others; where squares of distances count, from the few
that lie far away.
"""

MIN_VALUE = -1.0
"""No statistic is lower, except on a handful of units."""

EQUAL = 1e-12
"""Estimates that differ by less are the same figure, rounded in another order."""


@dataclass(frozen=True)
class Entries:
    """How the units lie in prompts: n (E,) units of a kind (E,) in one of the prompts, whose keys (P,) ascend. Each of
    the n stands for ``weight`` (E,) units, as many in all as there are; None where each stands for itself.
    """

    kind: Ints
    prompt: Ints
    n: Ints
    keys: Ints
    weight: Floats | None = None

    @classmethod
    def of(cls, units: LabelSets, counts: PromptCounts) -> Entries:
        """The labelled units alone; where they are weighed, those that stand for any."""
        kinds = np.array([units.kinds.get(pattern, -1) for pattern in counts.patterns], dtype=np.int64)
        kind = kinds[counts.place] if len(kinds) else counts.place
        is_labelled, weight = kind >= 0, None
        if counts.weights is not None:
            is_labelled &= counts.weights > 0
            weight, n = counts.weights[is_labelled], counts.n[is_labelled]
            weight = weight * (n.sum() / (weight @ n)) if len(n) else weight
        keys, prompt = np.unique(counts.prompt[is_labelled], return_inverse=True)
        columns = kind[is_labelled], prompt.astype(np.int64), counts.n[is_labelled], keys.astype(np.int64)
        return cls(*columns, weight)

    @cached_property
    def totals(self) -> Ints | Floats:
        """(E,): for how many units those of an entry stand."""
        return self.n if self.weight is None else self.n * self.weight

    def sum_kinds(self, size: int, power: int) -> Floats:
        """(J,): the sum over the units of each kind of their weights, or of the squares of these."""
        weights = self.n * (1.0 if self.weight is None else self.weight**power)
        return np.bincount(self.kind, weights=weights, minlength=size).astype(np.float64)

    def sum_by_prompt(self, of_kinds: Floats) -> Floats:
        """(P,): the sum over a prompt's units of what each kind (J,) has."""
        weights = self.totals * of_kinds[self.kind]
        return np.bincount(self.prompt, weights=weights, minlength=len(self.keys)).astype(np.float64)


@dataclass(frozen=True)
class Sample:
    """The units that are measured; without ``entries`` each is the one unit of a prompt."""

    units: LabelSets
    entries: Entries | None = None

    @cached_property
    def is_weighed(self) -> bool:
        return self.entries is not None and self.entries.weight is not None

    @cached_property
    def kinds(self) -> Floats:
        """(J,): units of each kind. Those have the same labels and, of two raters, the same gave the same. Where units
        are weighed, their weights.
        """
        units = self.units
        if self.entries is not None and self.is_weighed:
            return self.entries.sum_kinds(2 * len(units.counts), 1)
        return np.concatenate([units.counts - units.turned, units.turned]).astype(np.float64)

    @cached_property
    def squares(self) -> Floats:
        """(J,): the sums of the squares of the weights of each kind's units."""
        if self.entries is not None and self.is_weighed:
            return self.entries.sum_kinds(2 * len(self.units.counts), 2)
        return self.kinds

    @cached_property
    def counts(self) -> tuple[Floats, Floats]:
        """(M,) twice: the units with each set of labels, and those of them that are turned."""
        if not self.is_weighed:
            return self.units.counts.astype(np.float64), self.units.turned.astype(np.float64)
        straight, turned = np.split(self.kinds, 2)
        return straight + turned, turned

    @property
    def n(self) -> float:
        """The units with two labels that are measured."""
        if self.entries is None or not self.is_weighed:
            return float(self.units.n)
        return float(self.entries.n @ np.tile(self.units.pairable, 2)[self.entries.kind])

    @property
    def disputed(self) -> float:
        """Those whose labels are not all equal; where units are weighed, as many as of one weight would tell as much
        (Kish 1965).
        """
        if not self.is_weighed:
            return float(self.units.disputed)
        differing = np.tile(np.count_nonzero(self.units.value_counts, axis=1) > 1, 2)
        squares = float(self.squares @ differing)
        return float(self.kinds @ differing) ** 2 / squares if squares else 0.0

    def count_uncommon(self, distances: Floats | None) -> float:
        if not self.is_weighed:
            return self.units.count_uncommon(distances)
        straight, turned = np.split(self.squares, 2)
        return self.units.count_uncommon(distances, counts=self.counts[0], squares=straight + turned)

    @cached_property
    def prompts(self) -> int:
        """Those with a unit that has two labels."""
        if self.entries is None:
            return self.units.n
        return int(np.count_nonzero(self.entries.sum_by_prompt(np.tile(self.units.pairable, 2))))

    def sum_squares(self, of_kinds: Floats) -> float:
        """The sum over prompts of the square of their units' sum, as variances have it: P / (P - 1) times that."""
        if self.entries is None:
            total, prompts = float(self.kinds @ np.square(of_kinds)), float(self.kinds.sum())
        else:
            total = float(np.square(self.entries.sum_by_prompt(of_kinds)).sum())
            prompts = float(len(self.entries.keys))
        return total * prompts / (prompts - 1) if prompts > 1 else math.nan

    def sum_powers(self, of_kinds: Floats) -> tuple[float, float, int]:
        """The sums over prompts of the second and fourth powers of their units' sum, and the number of prompts."""
        if self.entries is None:
            squares = np.square(of_kinds)
            return (
                float(self.kinds @ squares),
                float(self.kinds @ np.square(squares)),
                int(self.kinds.sum()),
            )
        squares = np.square(self.entries.sum_by_prompt(of_kinds))
        return float(squares.sum()), float(np.square(squares).sum()), len(squares)

    def sum_unit_squares(self, of_kinds: Floats) -> float:
        """What ``sum_squares`` would be were each unit a prompt."""
        n = float(self.kinds.sum())
        return float(self.squares @ np.square(of_kinds)) * n / (n - 1) if n > 1 else math.nan


@dataclass(frozen=True)
class Influences:
    """A statistic as observed and what a unit of each kind (J,) adds to it: the sum over all units is 0."""

    observed: float
    sample: Sample
    of_kinds: Floats

    @cached_property
    def variance(self) -> float:
        """By prompts, and no less than if units were drawn by themselves."""
        return float(np.fmax(self.sample.sum_squares(self.of_kinds), self._unit_variance))

    @cached_property
    def _unit_variance(self) -> float:
        return self.sample.sum_unit_squares(self.of_kinds)

    @property
    def design_effect(self) -> float | None:
        """The variance by prompts over that of as many independent units; None where nothing varies."""
        by_prompt, by_unit = self.sample.sum_squares(self.of_kinds), self._unit_variance
        return by_prompt / by_unit if by_unit > EQUAL**2 and not math.isnan(by_prompt) else None

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the variance: prompts less one, and fewer where a few prompts make most of it. Of P
        values with kurtosis k the variance has 2 P / (k - 1) (Satterthwaite 1946).
        """
        return find_freedom(*self.sample.sum_powers(self.of_kinds), prompts=self.sample.prompts)

    def covariance(self, other: Influences) -> float:
        """With a statistic of other units, by the prompts that both have."""
        first, second = self.sample.entries, other.sample.entries
        if first is None or second is None:
            return 0.0
        shared, at, at_other = np.intersect1d(
            first.keys, second.keys, assume_unique=True, return_indices=True
        )
        prompts = len(first.keys) + len(second.keys) - len(shared)
        product = first.sum_by_prompt(self.of_kinds)[at] @ second.sum_by_prompt(other.of_kinds)[at_other]
        return float(product) * prompts / max(1, prompts - 1)


def measure_influences(sample: Sample, formulas: Mapping[str, Estimate]) -> dict[str, Influences]:
    """Each statistic, from leaving out one unit of each kind."""
    parts = [
        [estimate(weighting) for estimate in formulas.values()] for weighting in _iterate_left_out(sample)
    ]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return {name: _build_influences(sample, column) for name, column in zip(formulas, columns, strict=True)}


def measure_values(sample: Sample, formulas: Mapping[str, Estimate]) -> dict[str, float]:
    """Each statistic as observed."""
    counts, turned = sample.counts
    weighting = _weigh(sample.units, counts[None], turned[None])
    return {name: float(estimate(weighting)[0]) for name, estimate in formulas.items()}


def _iterate_left_out(sample: Sample) -> Iterator[Weighting]:
    """The units as observed, and then less one of each kind that occurs: (1 + kinds, M), in pieces."""
    units, sets = sample.units, len(sample.units.counts)
    present = np.flatnonzero(sample.kinds)
    counts, counts_turned = (units.counts, units.turned) if not sample.is_weighed else sample.counts
    steps = _find_steps(sample)
    size = max(1, MAX_CELLS // max(1, 2 * sets))
    for start in range(-1, len(present), size):
        rows = present[max(0, start) : start + size]
        left = np.zeros((len(rows) + (start < 0), 2 * sets))
        left[np.arange(len(rows)) + (start < 0), rows] = steps[rows]
        less, less_turned = left[:, :sets], left[:, sets:]
        yield _weigh(units, counts - less - less_turned, counts_turned - less_turned)


def _find_steps(sample: Sample) -> Floats:
    """(J,): the weight of the unit that is left out of each kind: 1, or of weighed ones a mean over the kind's weight,
    which is never more than all of it.
    """
    if not sample.is_weighed:
        return np.ones(len(sample.kinds))
    return np.divide(sample.squares, sample.kinds, out=np.zeros(len(sample.kinds)), where=sample.kinds > 0)


def _weigh(units: LabelSets, counts: Floats, turned: Floats) -> Weighting:
    return Weighting(units, counts, lambda: turned)


def _build_influences(sample: Sample, column: Floats) -> Influences:
    """A statistic as observed and under the rows that leave a kind out. (n - 1) / n of how far it then lies below the
    mean of such values is what a unit adds; where it is undefined without the unit, nothing is known of that.
    """
    if sample.is_weighed:
        return _build_weighed_influences(sample, column)
    present, left_out = np.flatnonzero(sample.kinds), column[1:]
    kinds = np.where(np.isnan(left_out), 0, sample.kinds[present])
    values = np.where(np.isnan(left_out), 0, left_out)
    n = max(float(kinds.sum()), 1)
    of_kinds = np.zeros(len(sample.kinds))
    of_kinds[present] = np.where(np.isnan(left_out), 0, kinds @ values / n - values) * (n - 1) / n
    return Influences(float(column[0]), sample, of_kinds)


def _build_weighed_influences(sample: Sample, column: Floats) -> Influences:
    """The same for each whole of weight, of which a unit adds as much as it weighs."""
    present, left_out = np.flatnonzero(sample.kinds), column[1:]
    weights, steps = sample.kinds[present], _find_steps(sample)[present]
    n = float(weights.sum())
    is_known = ~np.isnan(left_out)
    added = np.where(is_known, column[0] - np.nan_to_num(left_out), 0) * (n - steps) / (n * steps)
    known_weight = float(weights @ is_known)
    of_kinds = np.zeros(len(sample.kinds))
    of_kinds[present] = np.where(is_known, added - weights @ added / known_weight, 0) if known_weight else 0
    return Influences(float(column[0]), sample, of_kinds)


def find_freedom(squares: float, fourth: float, n: int, *, prompts: int) -> float:
    """From the sums of the second and fourth powers of n values."""
    kurtosis = n * fourth / squares**2 if squares > EQUAL**2 else math.inf
    bound = 2 * n / (kurtosis - 1) if kurtosis > 1 else math.inf
    return max(1.0, min(prompts - 1.0, bound))


@dataclass(frozen=True)
class AgreementInterval:
    """Both ends None where there is none, and then the code of why."""

    low: float | None
    high: float | None
    no_interval: str | None = None


def find_obstacle(sample: Sample, squared: Distances | None) -> str | None:
    """Why a chance-corrected statistic of these units has no interval, whatever it is."""
    if sample.prompts < MIN_PROMPTS:
        return FEW_PROMPTS
    if sample.disputed < MIN_DISPUTES:
        return FEW_DISPUTES
    if squared is None:
        return FEW_UNCOMMON if sample.count_uncommon(None) < MIN_UNCOMMON else None
    uncommon = sample.count_uncommon(squared(sample.units.values))
    return FEW_UNCOMMON if uncommon < MIN_UNCOMMON_SQUARED - EQUAL else None


def build_interval(
    influences: Influences, confidence: float, *, squared: Distances | None = None
) -> AgreementInterval:
    """Of a chance-corrected statistic, by Student's t; ``squared`` are its distances where these are squares.

    Disagreement (1 less the statistic) is above 0 and has a long tail to the right, so its upper end, and with it the
    statistic's lower one, is taken on the scale of its logarithm. The other end is taken as it stands: each end is the
    outer of the two scales.
    """
    obstacle = find_obstacle(influences.sample, squared)
    return make_interval(
        influences.observed, influences.variance, influences.freedom, confidence, obstacle=obstacle
    )


def make_interval(
    observed: float, variance: float, freedom: float, confidence: float, *, obstacle: str | None = None
) -> AgreementInterval:
    """As ``build_interval`` has it, from the variance and its degrees of freedom."""
    error, disagreement = math.sqrt(variance), 1 - observed
    if obstacle is None and (not error > EQUAL or not disagreement > EQUAL):
        obstacle = NO_VARIATION
    if obstacle is not None:
        return AgreementInterval(None, None, obstacle)
    reach = find_quantile(freedom, confidence) * error
    low = max(MIN_VALUE, 1 - disagreement * math.exp(min(reach / disagreement, 700.0)))
    return AgreementInterval(min(low, observed), min(1.0, observed + reach))


def build_share_interval(influences: Influences, confidence: float) -> AgreementInterval:
    """Of percent agreement: Wilson's at the effective number of units (E. L. Korn and B. I. Graubard, Survey
    Methodology 24, 1998), with the quantile of Student's t. That number is the one of which the variance of independent
    units is that by prompts; where no unit differs from another it is the number of prompts. The variance of a few
    rare disputes is as unsure as the share, so the upper end is no lower than that of the t interval.
    """
    sample, share = influences.sample, influences.observed
    variance = influences.variance
    n = sample.n
    scale = (n - 1) / n if n > 1 else 1.0  # for independent units exactly n
    spread = share * (1 - share)
    effective = (
        spread / (variance * scale) if variance > EQUAL**2 and spread > EQUAL else float(sample.prompts)
    )
    quantile = find_quantile(sample.prompts - 1, confidence)
    low, high = wilson_bounds(np.array([share]), np.array([effective * (Z / quantile) ** 2]))
    reach = quantile * math.sqrt(variance) if variance > EQUAL**2 else 0.0
    return AgreementInterval(min(float(low[0]), share), max(float(high[0]), min(1.0, share + reach)))


def build_difference_interval(
    first: Influences, second: Influences, ends: tuple[AgreementInterval, AgreementInterval]
) -> AgreementInterval:
    """Of ``second`` less ``first``, from the ends of both (G. Y. Zou and A. Donner, Statistics in Medicine 27, 2008)
    and how far the two move together on the prompts that both have.
    """
    obstacle = next((end.no_interval for end in ends if end.no_interval), None)
    low_1, high_1, low_2, high_2 = ends[0].low, ends[0].high, ends[1].low, ends[1].high
    if obstacle is not None or low_1 is None or high_1 is None or low_2 is None or high_2 is None:
        return AgreementInterval(None, None, obstacle)
    errors = math.sqrt(first.variance * second.variance)
    correlation = first.covariance(second) / errors if errors > EQUAL**2 else 0.0
    correlation = min(1.0, max(-1.0, correlation))
    difference = second.observed - first.observed
    below = _combine(second.observed - low_2, high_1 - first.observed, correlation)
    above = _combine(high_2 - second.observed, first.observed - low_1, correlation)
    return AgreementInterval(difference - below, difference + above)


def _combine(first: float, second: float, correlation: float) -> float:
    return math.sqrt(max(0.0, first**2 + second**2 - 2 * correlation * first * second))


@lru_cache
def find_quantile(freedom: float, confidence: float) -> float:
    """Of Student's t for both tails; infinite where there is no freedom."""
    return float(stdtrit(freedom, (1 + confidence) / 2)) if freedom > 0 else math.inf
