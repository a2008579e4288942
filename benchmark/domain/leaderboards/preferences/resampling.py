"""What drawing the prompts anew says of the numbers of a board of comparisons: intervals and ranges of ranks. Pure.

All comparisons of a prompt are drawn together. A draw whose strengths are undefined is neither dropped nor repaired: it
counts as infinitely far off, in every interval and in the width that keeps all pairs. Where there are so many that the
width itself is infinite there is no interval, and no order is settled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, stdtrit

from annotation.core.proportions import Z
from benchmark.domain.leaderboards.preferences.strengths import FittedDraws
from benchmark.domain.leaderboards.ranks import (
    CONFIDENCE,
    Rank,
    compute_quantile,
    compute_range,
    settle_signs,
)
from benchmark.domain.leaderboards.responses import Floats, Integers, Mask

MIN_PROMPTS = 20
"""With fewer there is no interval and no range of ranks."""
MIN_TIE_PROMPTS = 30
"""With fewer nu has no interval: of all pairs on each of 20 prompts, which differ in how decisive they are, it held on
92.5% of 800 boards."""
EQUAL = 1e-9
"""Strengths that differ by less are equal."""


@dataclass(frozen=True)
class ComparedNumber:
    """A number and its 95% interval; None where it is undefined, an end also where it has no bound."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    def to_json(self) -> dict[str, float | None]:
        return {"value": self.value, "low": self.low, "high": self.high}


def widen_quantile(z: float, prompts: int) -> float:
    """What a normal quantile becomes with few prompts: Student's, times what the divisor of the variance lacks."""
    return float(stdtrit(prompts - 1, ndtr(z)) * np.sqrt(prompts / (prompts - 1)))


def bound_number(value: float | None, draws: Floats | None, prompts: int) -> ComparedNumber:
    """As far to either side as 95% of the draws (B,) are from the value, or more where prompts are few.

    P. Hall, Journal of the Royal Statistical Society B 50 (1988) 35-45: symmetric bootstrap intervals; at the level of
    T. C. Hesterberg, The American Statistician 69 (2015) 371-386. NaN is an undefined draw.
    """
    if value is None or draws is None:
        return ComparedNumber(value)
    off = np.abs(np.where(np.isnan(draws), np.inf, draws) - value)
    half = compute_quantile(off, 1 - 2 * float(ndtr(-widen_quantile(Z, prompts))))
    if half < EQUAL or not np.isfinite(half):  # that all are the same is not certainty
        return ComparedNumber(value)
    return ComparedNumber(value, value - half, value + half)


def bound_ties(value: float | None, draws: Floats | None, prompts: int) -> ComparedNumber:
    """Of nu, on the scale of logarithms; 0 has no interval."""
    if not value or draws is None or prompts < MIN_TIE_PROMPTS:
        return ComparedNumber(value)
    with np.errstate(divide="ignore"):
        number = bound_number(float(np.log(value)), np.log(draws), prompts)
    if number.low is None or number.high is None:
        return ComparedNumber(value)
    return ComparedNumber(value, float(np.exp(number.low)), float(np.exp(number.high)))


def rank_strengths(strengths: Floats, draws: FittedDraws | None, prompts: int) -> list[Rank]:
    """(K,) models by their strengths; without draws any rank is possible.

    A pair is settled if its difference is further from 0, in standard errors of the draws, than the draws of the
    furthest pair are from the differences themselves (95% of them, as settle_signs has it; then ``widen_quantile``).
    """
    size = len(strengths)
    values = strengths[:, None] - strengths[None, :]
    no_signs = np.zeros((size, size), dtype=np.int64)
    together, each = (no_signs, no_signs) if draws is None else _find_signs(values, strengths, draws, prompts)
    ranks = []
    for at in range(size):
        rank = 1 + int((values[:, at] > EQUAL).sum())
        ranks.append(
            Rank(rank, *compute_range(rank, together[at], size), *compute_range(rank, each[at], size))
        )
    return ranks


def _find_signs(
    values: Floats, strengths: Floats, draws: FittedDraws, prompts: int
) -> tuple[Integers, Integers]:
    """(K, K) signs that hold for all pairs at once, and each by itself."""
    size = len(strengths)
    no_signs = np.zeros((size, size), dtype=np.int64)
    if draws.exists.sum() < 2:
        return no_signs, no_signs
    own = draws.strengths[draws.exists]
    drawn = own[:, :, None] - own[:, None, :]
    errors = np.std(drawn, axis=0, ddof=1)
    is_pair = ~np.eye(size, dtype=bool) & (errors > EQUAL)  # prompts that are all the same settle nothing
    errors = np.where(is_pair, errors, 1.0)
    undefined = np.full((int((~draws.exists).sum()), size, size), np.inf)
    off = np.concatenate([np.abs(drawn - values) / errors, undefined])
    each = np.array([[_widen(off[:, row, column], prompts) for column in range(size)] for row in range(size)])
    together = settle_signs(
        lambda width: _sign_pairs(values, widen_quantile(width, prompts) * errors, is_pair),
        draws.strengths.T - strengths[:, None],
        errors,
        is_pair,
    )
    return together, _sign_pairs(values, each * errors, is_pair)


def _widen(off: Floats, prompts: int) -> float:
    return widen_quantile(max(Z, compute_quantile(off, CONFIDENCE)), prompts)


def _sign_pairs(values: Floats, half: Floats, is_pair: Mask) -> Integers:
    return np.where(is_pair & (np.abs(values) > half), np.sign(values), 0).astype(np.int64)
