"""The formulas. Each statistic is 1 - D_o / D_e: the disagreement observed over the disagreement expected by chance.

``docs/agreement.md`` gives each in its author's form with the source. Shapes: M sets of labels, V values of the
scale, B weightings (how many units carry each set: as observed, or in one resample).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np

from annotation.domain.agreement.patterns import Floats, Ints, LabelSets, Value


@dataclass(frozen=True)
class Weighting:
    """counts (B, M): units with each set of labels. ``turn`` gives ``turned`` (B, M) when Cohen's kappa asks for it."""

    units: LabelSets
    counts: Floats
    turn: Callable[[], Floats]

    @cached_property
    def turned(self) -> Floats:
        return self.turn()

    @cached_property
    def n(self) -> Floats:
        """(B,): pairable units."""
        return self.counts @ self.units.pairable

    @cached_property
    def totals(self) -> Floats:
        """(B, V): n_c, the labels with each value in pairable units."""
        return self.counts @ self.units.pairable_counts

    @cached_property
    def labels(self) -> Floats:
        """(B,): n., all labels in pairable units."""
        return sum_rows(self.totals)

    @cached_property
    def prevalence(self) -> Floats:
        """(B, V): pi_k, the mean over all labelled units of the share of value k."""
        return ratio(self.counts @ self.units.shares, sum_rows(self.counts)[:, None])

    @cached_property
    def spread(self) -> Floats:
        """(B,): sum of pi_k (1 - pi_k), how often two labels drawn by prevalence differ."""
        return sum_rows(self.prevalence * (1 - self.prevalence))

    @cached_property
    def marginals(self) -> tuple[Floats, Floats]:
        """(B, V) twice: units by the first rater's value and by the second's, where both gave one."""
        order = np.arange(len(self.units.values))
        present = self.units.pairable_counts > 0
        lower = (present.argmax(axis=1)[:, None] == order) * self.units.pairable[:, None]
        upper = self.units.pairable_counts - lower
        moved = self.turned @ (upper - lower)
        return self.counts @ lower + moved, self.counts @ upper - moved

    @cached_property
    def joint(self) -> JointCounts:
        """Of the units that both raters labelled, by the set of their labels."""
        present = self.units.pairable_counts > 0
        lower, upper = present.argmax(axis=1), present.shape[1] - 1 - present[:, ::-1].argmax(axis=1)
        turned = self.turned * self.units.pairable
        return JointCounts(lower, upper, self.counts * self.units.pairable - turned, turned)

    @cached_property
    def differing(self) -> Floats:
        """(B,): the mean over pairable units of the share of pairs of labels that differ, 1 - p_a."""
        return self.mean_disagreement(nominal(self.units.values))

    def mean_disagreement(self, distances: Floats) -> Floats:
        """(B,): the mean over pairable units of the mean distance between two labels."""
        return ratio(self.counts @ self.units.disagreement(distances), self.n)


@dataclass(frozen=True)
class JointCounts:
    """lower, upper (M,): the places of a set's two values. straight (B, M): units whose first rater gave the lower
    one; turned (B, M): whose second did.
    """

    lower: Ints
    upper: Ints
    straight: Floats
    turned: Floats

    def sum_products(self, first: Floats, second: Floats) -> Floats:
        """(B,): the sum over units of the product of the scores (B, V) that the two raters' values have."""
        straight = first[:, self.lower] * second[:, self.upper]
        turned = first[:, self.upper] * second[:, self.lower]
        return sum_rows(self.straight * straight + self.turned * turned)


Distances: TypeAlias = Callable[[tuple[Value, ...]], Floats]
"""The distance (V, V) between each two levels of a scale."""

Estimate: TypeAlias = Callable[[Weighting], Floats]
"""The statistic (B,) under each weighting, nan where it is undefined."""


def sum_rows(rows: Floats) -> Floats:
    """The sum of each row: for rows of a few numbers five times as fast as ``sum(axis=1)``."""
    return rows @ np.ones(rows.shape[1])


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Element by element, nan where the denominator is zero."""
    quotient = np.full(numerator.shape, np.nan)
    np.divide(numerator, denominator, out=quotient, where=denominator != 0)
    return quotient


# Distances between levels, (V, V): 0 on the diagonal. Kept, because a page measures many groups on few scales.


@lru_cache
def nominal(values: tuple[Value, ...]) -> Floats:
    return 1 - np.eye(len(values))


@lru_cache
def steps(values: tuple[Value, ...]) -> Floats:
    """How many levels apart: the linear weights of kappa."""
    places = np.arange(len(values), dtype=np.float64)
    return np.abs(places[:, None] - places)


@lru_cache
def squared_steps(values: tuple[Value, ...]) -> Floats:
    return steps(values) ** 2


@lru_cache
def squared_differences(values: tuple[Value, ...]) -> Floats:
    places = np.array(values, dtype=np.float64)
    distances: Floats = np.square(places[:, None] - places)
    return distances


@lru_cache
def ordinal_weights(values: tuple[Value, ...]) -> Floats:
    """1 less the ordinal weights of Gwet (2014): the share of pairs of levels between two, C(d + 1, 2) / C(V, 2)."""
    distance = steps(values)
    return _scale_to_largest(distance * (distance + 1) / 2)


@lru_cache
def quadratic_weights(values: tuple[Value, ...]) -> Floats:
    return _scale_to_largest(squared_differences(values))


@lru_cache
def masi(values: tuple[Value, ...]) -> Floats:
    """1 less the measure of agreement on set-valued items of Passonneau (2006): the Jaccard coefficient of the two sets
    times 1 where they are equal, 2/3 where one holds the other, 1/3 where they only meet. A value is the sum of its
    set's options, powers of two.
    """
    sets = np.array(values, dtype=np.int64)
    first, second = sets[:, None], sets[None, :]
    shared, joint = first & second, first | second
    jaccard = np.bitwise_count(shared) / np.maximum(np.bitwise_count(joint), 1)
    holds = (shared == first) | (shared == second)
    monotonicity = np.where(first == second, 1.0, np.where(holds, 2 / 3, np.where(shared > 0, 1 / 3, 0.0)))
    distances: Floats = 1 - jaccard * monotonicity
    return distances


def _scale_to_largest(distances: Floats) -> Floats:
    return distances / (float(distances.max(initial=0)) or 1)


# The statistics


def percent_agreement(weighting: Weighting) -> Floats:
    return 1 - weighting.differing


def cohen_kappa(weighting: Weighting, distances: Distances) -> Floats:
    """Chance from each rater's own marginals (Cohen 1960, 1968). In whole numbers, n squared times both sides."""
    between = distances(weighting.units.values)
    first, second = weighting.marginals
    observed = weighting.counts @ (weighting.units.disagreement(between) * weighting.units.pairable)
    return 1 - ratio(weighting.n * observed, sum_rows((first @ between) * second))


def cohen_kappa_observed(weighting: Weighting) -> Floats:
    """Quadratic weights between the levels that occur, numbered as if there were no others."""
    units = weighting.units
    occurs = (units.counts @ units.pairable_counts) > 0
    places = np.cumsum(occurs) - 1.0
    return cohen_kappa(weighting, lambda _values: np.square(places[:, None] - places))


def spearman(weighting: Weighting) -> Floats:
    """Pearson's correlation of the two raters' mid-ranks (Spearman 1904)."""
    between = _midrank_weights(len(weighting.units.values))
    first, second = weighting.marginals
    # From the mean mid-rank, which is n / 2.
    ranks = first @ between - weighting.n[:, None] / 2, second @ between - weighting.n[:, None] / 2
    spreads = sum_rows(first * np.square(ranks[0])) * sum_rows(second * np.square(ranks[1]))
    return ratio(weighting.joint.sum_products(*ranks), np.sqrt(spreads))


def intraclass(weighting: Weighting, *, average: bool) -> Floats:
    """ICC(2,1), or ICC(2,k) of the raters' average (Shrout and Fleiss 1979), of two raters; levels are numbers.

    Undefined where the variance that is estimated of all labels is not positive: of raters who always contradict each
    other ICC(2,k) would be above 1.
    """
    values = np.array(weighting.units.values, dtype=np.float64)
    first, second = weighting.marginals
    n = np.where(weighting.n > 1, weighting.n, np.nan)
    middle = ((first + second) @ values) / (2 * n)
    scores = values - middle[:, None]
    own = sum_rows(first * np.square(scores)) + sum_rows(second * np.square(scores))
    shared = 2 * weighting.joint.sum_products(scores, scores)
    of_raters = np.square(sum_rows(first * scores)) + np.square(sum_rows(second * scores))
    between_units = (own + shared) / 2
    between_raters = of_raters / n
    rest = (own - between_units - between_raters) / (n - 1)
    units = between_units / (n - 1)
    raters = (between_raters - rest) / n
    total = units + raters if average else units + rest + 2 * raters
    return ratio(units - rest, np.where(total > 0, total, 0))


def scott_pi(weighting: Weighting) -> Floats:
    """Chance from the marginals of both raters together (Scott 1955)."""
    squared = sum_rows(np.square(weighting.totals))
    return 1 - weighting.differing * ratio(np.square(weighting.labels), np.square(weighting.labels) - squared)


def fleiss_kappa(weighting: Weighting) -> Floats:
    """Chance from the prevalences, which with as many labels on each unit are the marginals (Fleiss 1971)."""
    return 1 - ratio(weighting.differing, weighting.spread)


def gwet(weighting: Weighting, distances: Distances) -> Floats:
    """AC1 and AC2: p_e = T_w / (q (q - 1)) sum_k pi_k (1 - pi_k), T_w the sum of the weights (Gwet 2008, 2014)."""
    between = distances(weighting.units.values)
    return 1 - weighting.mean_disagreement(between) / (1 - chance_share(between) * weighting.spread)


def chance_share(distances: Floats) -> float:
    """T_w / (q (q - 1)) of Gwet's coefficients, the weights being 1 - distances; 0 on a scale of one level."""
    levels = len(distances)
    return float((1 - distances).sum()) / (levels * (levels - 1)) if levels > 1 else 0.0


def alpha(weighting: Weighting, distances: Distances) -> Floats:
    """1 - (n. - 1) sum o_ck d_ck / sum n_c n_k d_ck (Krippendorff 2011)."""
    between = distances(weighting.units.values)
    units = weighting.units
    observed = weighting.counts @ (units.disagreement(between) * units.labelled)
    expected = sum_rows((weighting.totals @ between) * weighting.totals)
    return 1 - ratio((weighting.labels - 1) * observed, expected)


def alpha_ordinal(weighting: Weighting) -> Floats:
    """Alpha with the squared distances between mid-ranks, since n_c + .. + n_k - (n_c + n_k) / 2 is the mid-rank of
    k less that of c. The mean mid-rank of all labels is n. / 2, so that the expected sum is their variance.
    """
    totals, labels = weighting.totals, weighting.labels
    ranks = totals @ _midrank_weights(totals.shape[1])
    expected = 2 * labels * sum_rows(totals * np.square(ranks - labels[:, None] / 2))
    first, second, coincidences = _count_coincidences(weighting.units)
    distances = np.square(ranks[:, first] - ranks[:, second])
    observed = sum_rows((weighting.counts @ coincidences) * distances)
    return 1 - ratio((labels - 1) * observed, expected)


def _count_coincidences(units: LabelSets) -> tuple[Ints, Ints, Floats]:
    """The pairs of different values that meet in a unit, and (M, pairs) o_ck + o_kc of a unit with each set."""
    first, second = _index_pairs(len(units.values))
    meeting = units.value_counts[:, first] * units.value_counts[:, second]
    is_met = meeting.any(axis=0)
    scaled = 2 * meeting[:, is_met] / np.maximum(units.labelled - 1, 1)[:, None]
    return first[is_met], second[is_met], scaled


@lru_cache
def _midrank_weights(size: int) -> Floats:
    """(V, V): what each value's labels add to a value's mid-rank: all of the values before it, half of its own."""
    return np.triu(np.ones((size, size))) - np.eye(size) / 2


@lru_cache
def _index_pairs(size: int) -> tuple[Ints, Ints]:
    first, second = np.triu_indices(size, 1)
    return first.astype(np.int64), second.astype(np.int64)


# Closed-form standard errors


def gwet_influence(units: LabelSets, counts: Floats | None = None, *, distances: Distances) -> Floats | None:
    """(M,): what a unit with each set adds to AC1 or AC2, as their standard error over units of an infinite population
    with the raters fixed has it (Gwet 2008; missing labels 2014). The squares of the sums over prompts add up to that
    error's square. None of a single unit. With ``counts`` (M,), the weights of the units with each set, it is what a
    unit adds for each whole of its weight.
    """
    between = distances(units.values)
    of_sets = units.counts if counts is None else counts
    n = float(of_sets.sum())
    if n < 2:
        return None
    share = chance_share(between)
    prevalence = of_sets @ units.shares / n
    chance = share * float(prevalence @ (1 - prevalence))
    agreeing = units.pairable * (1 - units.disagreement(between) - chance)
    own = agreeing * n / float(of_sets @ units.pairable) / (1 - chance)
    value = float(of_sets @ own) / n
    by_chance = share * (units.shares @ (1 - prevalence)) - chance
    influence: Floats = own - 2 * (1 - value) * by_chance / (1 - chance)
    return (influence - value) / n
