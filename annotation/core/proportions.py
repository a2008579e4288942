"""Shares of a whole, one or many at once, each with Wilson's interval. Pure.

Two comparisons of one person on the same task (with two partners, or on two criteria) tell less than two on different
tasks. So ``measure_rates`` takes Wilson's interval at the effective number of comparisons: the number divided by the
design effect, which is the variance of the share between clusters over that of as many independent comparisons
(E. L. Korn and B. I. Graubard, Survey Methodology 24, 1998; C. Franco et al., Journal of Survey Statistics and
Methodology 7, 2019). Where each cluster holds one comparison, that is Wilson's own interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Z = 1.959963984540054


def wilson(successes: int, n: int, z: float = Z) -> tuple[float, float]:
    """The 95% score interval of a proportion (E. B. Wilson, JASA 22, 1927); never wider than 0 to 1.

    ``z`` is the normal quantile, for another confidence.
    """
    share, square = successes / n, z * z
    centre = (share + square / (2 * n)) / (1 + square / n)
    half = z / (1 + square / n) * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return low, high


Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rate:
    """``equal`` of ``n`` were the same, from ``low`` to ``high`` by a 95% interval; all but n are undefined at 0."""

    equal: int = 0
    n: int = 0
    low: float | None = None
    high: float | None = None

    @property
    def value(self) -> float | None:
        return self.equal / self.n if self.n else None

    def to_json(self) -> dict[str, float | int | None]:
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n}


NO_RATE = Rate()


def measure_rates(
    equal: npt.ArrayLike, group: npt.ArrayLike, cluster: npt.ArrayLike, *, groups: int
) -> Sequence[Rate]:
    """The rate of each of ``groups`` groups, by their numbers; the three columns have a row for each comparison.

    ``cluster`` are any whole numbers that are not negative.
    """
    same = np.asarray(equal, dtype=np.float64)
    of_group, of_cluster = np.asarray(group, dtype=np.int64), np.asarray(cluster, dtype=np.int64)
    if not len(same):
        return [NO_RATE] * groups
    keys, place = np.unique(of_group * (of_cluster.max() + 1) + of_cluster, return_inverse=True)
    size = np.bincount(place).astype(np.float64)
    hits = np.bincount(place, weights=same)
    where = keys // (of_cluster.max() + 1)
    n: Floats = np.bincount(where, weights=size, minlength=groups).astype(np.float64)
    total = np.bincount(where, weights=hits, minlength=groups)
    clusters = np.bincount(where, minlength=groups).astype(np.float64)
    share = np.divide(total, n, out=np.zeros_like(total), where=n > 0)
    left = (hits - share[where] * size) ** 2
    spread = np.bincount(where, weights=left, minlength=groups).astype(np.float64)
    low, high = wilson_bounds(share, _find_effective_numbers(share, n, clusters, spread))
    return [
        Rate(
            int(total[group_number]),
            int(n[group_number]),
            float(low[group_number]),
            float(high[group_number]),
        )
        if n[group_number]
        else NO_RATE
        for group_number in range(groups)
    ]


def _find_effective_numbers(share: Floats, n: Floats, clusters: Floats, spread: Floats) -> Floats:
    """The effective numbers: at most the numbers themselves, and those of the clusters where nothing varies."""
    with np.errstate(divide="ignore", invalid="ignore"):
        between = spread / n**2 * clusters / (clusters - 1)
        independent = share * (1 - share) / (n - 1)
        effective = n * independent / between
    return np.where(np.isfinite(effective) & (effective > 0), np.minimum(effective, n), clusters)


def wilson_bounds(share: Floats, n: Floats) -> tuple[Floats, Floats]:
    """As ``wilson``, at numbers that need not be whole."""
    n = np.maximum(n, 1e-9)
    square = Z * Z
    centre = (share + square / (2 * n)) / (1 + square / n)
    half = Z / (1 + square / n) * np.sqrt(share * (1 - share) / n + square / (4 * n * n))
    low = np.where(share == 0, 0.0, np.maximum(0.0, centre - half))
    return low, np.where(share == 1, 1.0, np.minimum(1.0, centre + half))
