"""How well annotators agree: percent agreement, Cohen's kappa, Krippendorff's alpha and Gwet's AC1.

The formulas, their sources and the conventions for what is undefined stand in ``docs/agreement.md``.
Units with the same labels are counted, not listed: real data have few distinct patterns of labels, so a
bootstrap over units is one multinomial draw over patterns, and every statistic is a few matrix products.

Shapes: P distinct patterns, R positions (raters), V values of the scale, B weightings of the patterns
(the observed counts, or one resample of them in each row).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import krippendorff
import numpy as np
import numpy.typing as npt

from annotation.errors import N_, AssayError

Value: TypeAlias = int | float
Pattern: TypeAlias = tuple[Value | None, ...]
Patterns: TypeAlias = Mapping[Pattern, int]
"""How many units carry each tuple of labels, by rater position; None where a label is missing."""
Measurement: TypeAlias = Literal["nominal", "ordinal", "interval"]

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

MEASUREMENTS: tuple[Measurement, ...] = ("nominal", "ordinal", "interval")
"""From weakest to strongest: a scale allows the statistics of its own level and of the weaker ones."""

NO_PAIRS = N_("No unit has labels from two annotators.")
ONE_CATEGORY = N_("All labels that can be compared are the same, so agreement by chance is certain.")
MORE_THAN_TWO = N_("Cohen's kappa compares two annotators; here there are more.")
NO_ORDER = N_("The levels of a nominal scale have no order.")
NO_DISTANCES = N_("The levels of this scale have no distances between them.")


@dataclass(frozen=True)
class Statistic:
    """A value with its bootstrap interval; what is undefined is None, and ``reason`` says why."""

    value: float | None
    low: float | None
    high: float | None
    reason: str | None = None


@dataclass(frozen=True)
class Agreement:
    """``n`` units have at least two labels; in ``disputed`` of them the labels are not all equal."""

    n: int
    disputed: int
    statistics: Mapping[str, Statistic]


def agreement(
    patterns: Patterns,
    *,
    values: Sequence[Value],
    measurement: Measurement,
    resamples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Agreement:
    """Every agreement statistic of the units, each with a percentile bootstrap interval over units.

    ``values`` is the whole scale in its order, with the levels that nobody chose; distances on an interval
    scale are differences of values. The result does not depend on the order of ``patterns``.
    """
    units = _tabulate(patterns, tuple(values))
    resampled = _resample(units.counts, resamples=resamples, seed=seed)
    statistics = {
        name: _measure(rule, units, resampled, measurement=measurement, confidence=confidence)
        for name, rule in _RULES.items()
    }
    return Agreement(n=units.n, disputed=units.disputed, statistics=statistics)


def pool(parts: Iterable[tuple[Patterns, Sequence[Value]]]) -> tuple[dict[Pattern, int], tuple[Value, ...]]:
    """Patterns and values of several criteria as one nominal scale: the same value is the same level.

    Each part is one criterion's patterns and its scale; a unit is then one criterion of one response.
    """
    counts: Counter[Pattern] = Counter()
    values: set[Value] = set()
    for patterns, scale in parts:
        counts.update(patterns)
        values.update(scale)
    return dict(counts), tuple(sorted(values))


@dataclass(frozen=True)
class _Units:
    """The distinct patterns with at least one label.

    values: the scale, V of them. counts (P,): units of each pattern. labels (P, R): positions in ``values``,
    -1 where missing.
    """

    values: tuple[Value, ...]
    counts: Ints
    labels: Ints

    @property
    def value_counts(self) -> Ints:
        """(P, V): how many raters gave a unit of the pattern each value, r_ik."""
        counts: Ints = np.count_nonzero(self.labels[:, :, None] == np.arange(len(self.values)), axis=1)
        return counts

    @property
    def labelled(self) -> Ints:
        """(P,): labels on a unit of the pattern, r_i."""
        counts: Ints = np.count_nonzero(self.labels >= 0, axis=1)
        return counts

    @property
    def pairable(self) -> Bools:
        """(P,): whether a unit of the pattern has the two labels that a comparison needs."""
        return self.labelled >= 2

    @property
    def n(self) -> int:
        return int(self.counts[self.pairable].sum())

    @property
    def disputed(self) -> int:
        several = (self.value_counts > 0).sum(axis=1) > 1
        return int(self.counts[several].sum())


def _tabulate(patterns: Patterns, values: tuple[Value, ...]) -> _Units:
    """Patterns in one width and a fixed order, so that a seed gives one result; unlabelled units are left out."""
    index = {value: position for position, value in enumerate(values)}
    width = max((len(pattern) for pattern in patterns), default=0)
    counts: Counter[tuple[int, ...]] = Counter()
    for pattern, count in patterns.items():
        labels = tuple(_code(label, index) for label in pattern)
        counts[labels + (-1,) * (width - len(labels))] += count
    kept = sorted(labels for labels, count in counts.items() if count > 0 and max(labels, default=-1) >= 0)
    return _Units(
        values=values,
        counts=np.array([counts[labels] for labels in kept], dtype=np.int64),
        labels=np.array(kept, dtype=np.int64).reshape(len(kept), width),
    )


def _code(label: Value | None, index: Mapping[Value, int]) -> int:
    if label is None:
        return -1
    if label not in index:
        scale = ", ".join(str(value) for value in index)
        raise AssayError(N_("The label {label} is not on the scale {scale}."), label=label, scale=scale)
    return index[label]


def _resample(counts: Ints, *, resamples: int, seed: int) -> Floats:
    """(B, P): the counts of each pattern in B draws of as many units, with replacement."""
    total = int(counts.sum())
    if total == 0:
        return np.zeros((0, len(counts)))
    draws = np.random.default_rng(seed).multinomial(total, counts / total, size=resamples)
    return draws.astype(np.float64)


_Estimate: TypeAlias = Callable[[_Units, Floats], Floats]
"""(units, weights (B, P)) -> (B,): the statistic under each weighting, nan where it is undefined."""


@dataclass(frozen=True)
class _Rule:
    """How one statistic is estimated, and what it asks of the data.

    ``point`` computes the value on the observed counts where a library does; without it ``estimate`` does.
    """

    estimate: _Estimate
    point: Callable[[_Units], float] | None = None
    needs: Measurement = "nominal"
    two_raters: bool = False

    def obstacle(self, units: _Units, measurement: Measurement) -> str | None:
        """Why the statistic cannot apply to these units on this scale, whatever their labels are."""
        if MEASUREMENTS.index(measurement) < MEASUREMENTS.index(self.needs):
            return NO_ORDER if measurement == "nominal" else NO_DISTANCES
        if self.two_raters and units.labels.shape[1] > 2:
            return MORE_THAN_TWO
        return NO_PAIRS if units.n == 0 else None


def _measure(
    rule: _Rule, units: _Units, resampled: Floats, *, measurement: Measurement, confidence: float
) -> Statistic:
    reason = rule.obstacle(units, measurement)
    if reason is not None:
        return Statistic(None, None, None, reason)
    value = float(rule.estimate(units, units.counts[None, :].astype(np.float64))[0])
    if np.isnan(value):
        return Statistic(None, None, None, ONE_CATEGORY)
    point = value if rule.point is None else rule.point(units)
    return Statistic(point, *_percentiles(rule.estimate(units, resampled), confidence))


def _percentiles(estimates: Floats, confidence: float) -> tuple[float, float] | tuple[None, None]:
    """The central interval of the estimates that are defined."""
    defined = estimates[~np.isnan(estimates)]
    if defined.size == 0:
        return None, None
    low, high = np.quantile(defined, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Element by element, nan where the denominator is zero."""
    quotient = np.full(denominator.shape, np.nan)
    np.divide(numerator, denominator, out=quotient, where=denominator != 0)
    return quotient


def _percent_agreement(units: _Units, weights: Floats) -> Floats:
    """(B,): mean over pairable units of the share of pairs that agree, sum_k r_ik (r_ik - 1) / (r_i (r_i - 1))."""
    agreeing = (units.value_counts * (units.value_counts - 1)).sum(axis=1)
    pairs = units.labelled * (units.labelled - 1)
    shares = agreeing / np.maximum(pairs, 1)
    return _ratio(weights @ shares, weights @ units.pairable.astype(np.float64))


def _cohen_kappa(units: _Units, weights: Floats) -> Floats:
    """(B,): (p_o - p_e) / (1 - p_e), with p_e from each rater's own marginals (Cohen 1960).

    Scaled by n squared, so that all terms are whole numbers and p_e = 1 is recognised exactly.
    """
    table = _contingency(units, weights)
    n = table.sum(axis=(1, 2))
    matches = np.trace(table, axis1=1, axis2=2)
    chance = (table.sum(axis=2) * table.sum(axis=1)).sum(axis=1)
    return _ratio(n * matches - chance, n * n - chance)


def _contingency(units: _Units, weights: Floats) -> Floats:
    """(B, V, V): units by the first rater's value and the second's, where both gave one."""
    size = len(units.values)
    both = units.labels[units.pairable]
    cells = np.zeros((len(both), size * size))
    cells[np.arange(len(both)), both[:, 0] * size + both[:, 1]] = 1
    return (weights[:, units.pairable] @ cells).reshape(-1, size, size)


def _gwet_ac1(units: _Units, weights: Floats) -> Floats:
    """(B,): (p_a - p_e) / (1 - p_e), p_e = sum_k pi_k (1 - pi_k) / (q - 1) over the q values (Gwet 2008).

    pi_k is the mean over all labelled units, those with one label too, of the share of value k.
    A scale of one value leaves p_e = 0.
    """
    shares = units.value_counts / units.labelled[:, None]
    prevalence = (weights @ shares) / weights.sum(axis=1)[:, None]
    spread = (prevalence * (1 - prevalence)).sum(axis=1)
    chance = spread / max(len(units.values) - 1, 1)
    return _ratio(_percent_agreement(units, weights) - chance, 1 - chance)


def _alpha(units: _Units, weights: Floats, *, level: Measurement) -> Floats:
    """(B,): 1 - D_o / D_e = 1 - (n - 1) sum o_ck d_ck / sum n_c n_k d_ck (Krippendorff 2011)."""
    observed = _coincidences(units, weights)
    totals = _pairable_values(units, weights)
    distances = _distances(units.values, totals, level=level)
    disagreement = (observed * distances).sum(axis=(1, 2))
    expected = (totals[:, :, None] * totals[:, None, :] * distances).sum(axis=(1, 2))
    return 1 - _ratio((totals.sum(axis=1) - 1) * disagreement, expected)


def _coincidences(units: _Units, weights: Floats) -> Floats:
    """(B, V, V): o_ck, the pairs of values within units, each unit's pairs weighted by 1 / (r_i - 1)."""
    counts = units.value_counts[units.pairable]
    size = len(units.values)
    pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(size, dtype=np.int64)
    scaled = pairs / (units.labelled[units.pairable] - 1)[:, None, None]
    return (weights[:, units.pairable] @ scaled.reshape(len(counts), size * size)).reshape(-1, size, size)


def _pairable_values(units: _Units, weights: Floats) -> Floats:
    """(B, V): n_c, how often each value occurs in pairable units."""
    return weights[:, units.pairable] @ units.value_counts[units.pairable].astype(np.float64)


def _distances(values: tuple[Value, ...], totals: Floats, *, level: Measurement) -> Floats:
    """(B or 1, V, V): squared distances. Ordinal ones are those between the mid-ranks of the values, because
    n_c + .. + n_k - (n_c + n_k) / 2 is the mid-rank of k less the mid-rank of c.
    """
    if level == "nominal":
        return 1 - np.eye(len(values))[None, :, :]
    ranks = totals.cumsum(axis=1) - totals / 2
    places = ranks if level == "ordinal" else np.array([values], dtype=np.float64)
    return np.square(places[:, :, None] - places[:, None, :])


def _library_alpha(units: _Units, *, level: Measurement) -> float:
    """Alpha of the observed units by the krippendorff package, which takes a row per unit: N x V x V floats."""
    return float(
        krippendorff.alpha(
            value_counts=np.repeat(units.value_counts, units.counts, axis=0),
            value_domain=list(units.values),
            level_of_measurement=level,
        )
    )


def _alpha_rule(level: Measurement) -> _Rule:
    return _Rule(
        estimate=partial(_alpha, level=level), point=partial(_library_alpha, level=level), needs=level
    )


_RULES: Mapping[str, _Rule] = {
    "percent_agreement": _Rule(_percent_agreement),
    "cohen_kappa": _Rule(_cohen_kappa, two_raters=True),
    "alpha_nominal": _alpha_rule("nominal"),
    "alpha_ordinal": _alpha_rule("ordinal"),
    "alpha_interval": _alpha_rule("interval"),
    "gwet_ac1": _Rule(_gwet_ac1),
}
