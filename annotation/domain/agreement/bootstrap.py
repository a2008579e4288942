"""Resampling of units by resampling how many carry each set of labels, and the interval of the estimates.

Shapes: M sets of labels, J kinds of unit, B resamples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from statistics import NormalDist

import numpy as np

from annotation.domain.agreement.coefficients import Estimate, Weighting
from annotation.domain.agreement.patterns import Floats, Ints, LabelSets

MAX_CELLS = 4_000_000
"""Resampled counts held at a time (32 MB)."""

MAX_KINDS = 1000
"""With more kinds of unit than this none is left out, and the interval takes the estimates as not skewed."""

NORMAL = NormalDist()
EQUAL = 1e-12
"""Estimates that differ by less are the same figure, rounded in another order."""


@dataclass(frozen=True)
class Estimates:
    """A statistic as observed and under each resample (B,).

    falls (J,): how far it lies below the mean of such values when one unit of a kind is left out. kinds (J,): how many
    units are of each kind.
    """

    observed: float
    resampled: Floats
    falls: Floats
    kinds: Floats

    def minus(self, other: Estimates) -> Estimates:
        """The difference to an independent sample."""
        return Estimates(
            self.observed - other.observed,
            self.resampled - other.resampled,
            np.concatenate([self.falls, -other.falls]),
            np.concatenate([self.kinds, other.kinds]),
        )

    @property
    def acceleration(self) -> float:
        """How the spread changes with the value, from the skewness of the falls (Efron 1987)."""
        spread = float(self.kinds @ np.square(self.falls))
        return float(self.kinds @ self.falls**3) / (6 * spread**1.5) if spread > EQUAL**2 else 0.0


def estimate_statistics(
    units: LabelSets, formulas: Mapping[str, Estimate], *, resamples: int, seed: int, stream: int = 0
) -> dict[str, Estimates]:
    """Each statistic, all on the same resamples. Another ``stream`` of the same seed is independent of the first."""
    head = _Head.of(units)
    parts = [
        [estimate(weighting) for estimate in formulas.values()]
        for weighting in _iterate_weightings(units, head, resamples, (seed, stream))
    ]
    columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    return {name: head.part(column) for name, column in zip(formulas, columns, strict=True)}


@dataclass(frozen=True)
class _Head:
    """The first rows of what is measured: the observed counts, then those with a unit of each kind left out.

    Units are of one kind when they have the same labels and, of two raters, the same rater gave the same label.
    counts and turned (1 + J, M) as in ``Weighting``; kinds (J,).
    """

    counts: Floats
    turned: Floats
    kinds: Floats

    @classmethod
    def of(cls, units: LabelSets) -> _Head:
        straight = units.counts - units.turned
        by_kind = np.concatenate([straight, units.turned])
        present = np.flatnonzero(by_kind) if np.count_nonzero(by_kind) <= MAX_KINDS else np.zeros(0, np.int64)
        rows = np.arange(1, len(present) + 1)
        left = np.zeros((len(present) + 1, len(by_kind)))
        left[rows, present] = 1
        less, less_turned = left[:, : len(units.counts)], left[:, len(units.counts) :]
        return cls(
            units.counts - less - less_turned, units.turned - less_turned, by_kind[present].astype(np.float64)
        )

    def part(self, column: Floats) -> Estimates:
        """One statistic under the head's rows and then the resamples."""
        left_out, resampled = column[1 : len(self.counts)], column[len(self.counts) :]
        kinds = np.where(np.isnan(left_out), 0, self.kinds)
        values = np.where(np.isnan(left_out), 0, left_out)
        falls = kinds @ values / max(kinds.sum(), 1) - values
        return Estimates(float(column[0]), resampled, falls, kinds)


def _iterate_weightings(
    units: LabelSets, head: _Head, resamples: int, key: tuple[int, int]
) -> Iterator[Weighting]:
    """The head's rows, then draws of as many units with replacement: multinomial draws of the counts.

    The sets of labels are drawn first; who of two raters gave which of two labels is drawn within them, from other
    random numbers, and only when asked for. So a statistic has one interval, whatever is measured beside it.
    """
    sets, orders = _make_generator(*key, 0), _make_generator(*key, 1)
    total = int(units.counts.sum())
    size = max(1, MAX_CELLS // len(units.counts))
    for start in range(0, max(resamples, 1), size):
        drawn = sets.multinomial(total, units.counts / total, size=min(size, resamples - start))
        turn = partial(_draw_orders, units, drawn, orders)
        if start:
            yield Weighting(units, drawn.astype(np.float64), turn)
        else:
            yield Weighting(
                units, np.concatenate([head.counts, drawn]), partial(_stack_rows, head.turned, turn)
            )


def _draw_orders(units: LabelSets, drawn: Ints, orders: np.random.Generator) -> Floats:
    """(B, M): of the units drawn with each set, those where the first of two raters gave the later value."""
    mixed = np.flatnonzero(units.turned)
    turned = np.zeros(drawn.shape)
    turned[:, mixed] = orders.binomial(drawn[:, mixed], units.turned[mixed] / units.counts[mixed])
    return turned


def _stack_rows(head: Floats, rest: Callable[[], Floats]) -> Floats:
    return np.concatenate([head, rest()])


def _make_generator(*key: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(_mix_seed(key)))


@lru_cache
def _mix_seed(key: tuple[int, ...]) -> np.random.SeedSequence:
    """Mixed once: on small data it would take longer than the arithmetic."""
    return np.random.SeedSequence(key)


def interval(estimates: Estimates, confidence: float) -> tuple[float, float] | tuple[None, None]:
    """The bias-corrected and accelerated percentile interval over the resamples where the statistic is defined.

    It always holds the value. Formula: Efron 1987; with ties the bias counts half of them.
    """
    ordered = np.sort(estimates.resampled)  # nan comes last
    ordered = ordered[: len(ordered) - np.count_nonzero(np.isnan(ordered))]
    if not len(ordered):
        return None, None
    below, upto = np.searchsorted(ordered, [estimates.observed - EQUAL, estimates.observed + EQUAL])
    share = (below + upto) / 2 / len(ordered)
    bias = NORMAL.inv_cdf(share) if 0 < share < 1 else 0.0
    low, high = (
        _interpolate_quantile(ordered, _adjust_tail(tail, bias, estimates.acceleration))
        for tail in ((1 - confidence) / 2, (1 + confidence) / 2)
    )
    return min(low, estimates.observed), max(high, estimates.observed)


def _adjust_tail(tail: float, bias: float, acceleration: float) -> float:
    """The percentile to read where plain percentiles would read ``tail``."""
    shifted = bias + NORMAL.inv_cdf(tail)
    stretch = 1 - acceleration * shifted
    return NORMAL.cdf(bias + shifted / stretch) if stretch > 0 else tail


def _interpolate_quantile(ordered: Floats, share: float) -> float:
    """Between the two nearest in proportion, as numpy's default does, which takes ten times as long on so few."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return float(ordered[below] + (place - below) * (ordered[above] - ordered[below]))
