"""Who is much faster than the others, and whose labels come in no time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr, bdtrc, bdtrik  # scipy.stats would make every start a second longer

from annotation.raters import findings
from annotation.raters.findings import CONFIDENCE, Finding, Kind, beyond, undefined
from annotation.raters.labels import Floats, Table

TOLERATED = 0.4
"""Of the usual time: so fast somebody may be."""
INSTANT = 0.2
"""Of the usual time: a label that took less came in no time."""
FEW_INSTANT = 0.1
"""So large a share of labels in no time may be accidents."""


@dataclass(frozen=True)
class Speed:
    finding: Finding
    pace: float | None
    instant: float | None


def speeds(table: Table) -> dict[int, Speed]:
    """By person (as counted from 0). The usual time is the middle one of all people's medians."""
    timed = np.isfinite(table.seconds) & (table.seconds >= 0)
    own = [np.sort(table.seconds[timed & (table.person == one)]) for one in range(table.people)]
    known = [seconds for seconds in own if len(seconds) >= findings.ENOUGH]
    usual = float(np.median([np.median(seconds) for seconds in known])) if known else 0.0
    alone = len(known) < findings.ENOUGH_PEOPLE or usual <= 0
    return {one: _speed(seconds, usual, alone) for one, seconds in enumerate(own)}


def _speed(seconds: Floats, usual: float, alone: bool) -> Speed:
    n = len(seconds)
    if n < findings.ENOUGH:
        return Speed(undefined(findings.FEW_TIMED, n), None, None)
    middle, (low, high) = float(np.median(seconds)), _of_median(seconds)
    if alone:
        return Speed(Finding(middle, low, high, n, None, None, reason=findings.ONE_TIMED), None, None)
    instant = int((seconds < INSTANT * usual).sum())
    score, p, kind = max(_pace(seconds, usual), _instants(instant, n))
    finding = Finding(middle, low, high, n, score, min(1.0, 2 * p), kind=kind)
    return Speed(finding, middle / usual, instant / n)


def _of_median(seconds: Floats) -> tuple[float, float]:
    """The interval between order statistics that covers the median whatever the distribution is."""
    n = len(seconds)
    below = _least(n, (1 - CONFIDENCE) / 2)
    return float(seconds[max(below - 1, 0)]), float(seconds[min(n - below, n - 1)])


def _least(n: int, share: float) -> int:
    """How many of ``n`` throws of a coin are heads at most, with a probability of ``share`` or more."""
    found = math.ceil(bdtrik(share, n, 0.5))
    rounded_up = found > 0 and bdtr(found - 1, n, 0.5) >= share  # the inverse is of real numbers
    return found - 1 if rounded_up else found


def _pace(seconds: Floats, usual: float) -> tuple[float, float, Kind]:
    """On logarithms, because times are skewed; the median, and its error from the middle half of the labels."""
    logarithms = np.log(np.maximum(seconds, 0.1))
    low, middle, high = np.quantile(logarithms, [0.25, 0.5, 0.75])
    error = 1.2533 * (high - low) / 1.349 / math.sqrt(len(seconds))
    score, p = beyond(math.log(TOLERATED * usual) - float(middle), float(error))
    return score, p, "pace"


def _instants(instant: int, n: int) -> tuple[float, float, Kind]:
    expected = FEW_INSTANT * n
    score = (instant - expected) / math.sqrt(expected * (1 - FEW_INSTANT))
    return score, float(bdtrc(instant - 1, n, FEW_INSTANT)), "instant"
