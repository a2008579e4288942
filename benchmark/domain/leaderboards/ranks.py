"""Ranks among the compared models, and those that their differences leave possible. Pure.

docs/leaderboard.md says what a range promises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from annotation.core.proportions import Z
from benchmark.domain.leaderboards.pairs import ModelDifferences
from benchmark.domain.leaderboards.responses import Floats, Integers, Mask

DRAWS = 8000
"""Normal draws of every model's number, from which the width comes that keeps all pairs at once."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Rank:
    """``low`` to ``high`` holds for all models at once, ``low_each`` to ``high_each`` looks at each pair by itself."""

    value: int
    low: int
    high: int
    low_each: int
    high_each: int

    def to_json(self) -> dict[str, Any]:
        each = {"low": self.low_each, "high": self.high_each}
        return {"value": self.value, "low": self.low, "high": self.high, "each": each}


def rank_models(
    values: Sequence[Fraction | float | None], differences: ModelDifferences
) -> list[Rank | None]:
    """Of models in the order of the differences. Equals share a rank; who is not compared has none."""
    compared = [
        bool(own) and value is not None for own, value in zip(differences.compared, values, strict=True)
    ]
    known = [value for value, own in zip(values, compared, strict=True) if own and value is not None]
    together, each = find_joint_signs(differences), differences.find_signs()
    ranks: list[Rank | None] = []
    for at, (value, own) in enumerate(zip(values, compared, strict=True)):
        if not own or value is None:
            ranks.append(None)
            continue
        rank = 1 + sum(other > value for other in known)
        ranks.append(
            Rank(
                rank,
                *compute_range(rank, together[at], len(known)),
                *compute_range(rank, each[at], len(known)),
            )
        )
    return ranks


def compute_range(rank: int, signs: Integers, models: int) -> tuple[int, int]:
    """The best and worst rank that the signs leave possible, the rank itself always among them."""
    better, worse = int((signs < 0).sum()), int((signs > 0).sum())
    return min(rank, 1 + better), max(rank, models - worse)


def find_joint_signs(differences: ModelDifferences) -> Integers:
    """(models, models) signs of the row's model less the column's: with 95% confidence none of them is wrong."""
    deviations = differences.deviations
    errors = np.hypot(deviations[:, None], deviations[None, :])
    return settle_signs(differences.find_signs, _draw_numbers(differences), errors, differences.is_pair)


def settle_signs(
    find_signs: Callable[[float], Integers], draws: Floats, errors: Floats, is_pair: Mask
) -> Integers:
    """What ``find_signs`` says at the width, in standard errors, that keeps all pairs that are not settled.

    ``draws`` are (models, draws) of how far the models' numbers are off, ``errors`` (models, models) the standard
    errors of their differences. Step-down: pairs whose order is settled no longer widen the intervals of the others.
    J. P. Romano and M. Wolf, Journal of the American Statistical Association 100 (2005) 94-108; for ranks M. Mogstad,
    J. P. Romano, A. M. Shaikh and D. Wilhelm, Review of Economic Studies 91 (2024) 476-518.
    """
    remaining = is_pair.copy()
    signs = np.zeros(remaining.shape, dtype=np.int64)
    while remaining.any():
        signs = find_signs(_compute_width(draws, errors, remaining))
        settled = remaining & (signs > 0)
        if not settled.any():
            break
        remaining &= ~settled
    return signs


def _draw_numbers(differences: ModelDifferences) -> Floats:
    """(models, draws) standard normal numbers times each model's deviation; the same whatever the models are called."""
    draws = np.random.default_rng(0).standard_normal((len(differences.models), DRAWS))
    return np.asarray(draws * np.nan_to_num(differences.deviations)[:, None])


def _compute_width(draws: Floats, errors: Floats, remaining: Mask) -> float:
    """How many standard errors the furthest of the remaining pairs is off in 95% of draws of equal models.

    At least that of a single pair: what looking at all pairs settles, its own interval settles too. A draw that is not
    a number is off by more than any other.
    """
    furthest = np.full(draws.shape[1], -np.inf)
    for first in np.flatnonzero(remaining.any(axis=1)):
        rivals = np.flatnonzero(remaining[first])
        scale = errors[first, rivals][:, None]
        distances = draws[first] - draws[rivals]
        scaled = np.divide(distances, scale, out=np.zeros_like(distances), where=scale > 0)
        furthest = np.maximum(furthest, scaled.max(axis=0))
    furthest[np.isnan(draws).any(axis=0)] = np.inf
    return max(Z, compute_quantile(furthest, CONFIDENCE))


def compute_quantile(values: Floats, share: float) -> float:
    """As numpy's, of values that may be infinite: infinite where either neighbour of the quantile is."""
    ordered = np.sort(values)
    place = share * (len(ordered) - 1)
    below, above = ordered[int(np.floor(place))], ordered[int(np.ceil(place))]
    if not np.isfinite([below, above]).all():
        return float(above if np.isinf(above) else below)
    return float(np.quantile(ordered, share))
