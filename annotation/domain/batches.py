"""When a batch will be done: an interval of days, never a single day. From what was done on the latest days, and
before there are enough of them from the pace alone.

A Bayesian bootstrap over days (Rubin 1981). Each of ``FUTURES`` futures weighs the observed days by a draw from
Dirichlet(1, .., 1), which is what so few days leave unknown of the rate, and then draws its coming days from them,
which is how much one day differs from another. ``docs/batches.md`` says what this assumes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from annotation.core.errors import N_

FUTURES = 1000
MIN_DAYS = 7
"""A whole week: before, nobody knows what a weekend brings (``tests.performance.end_coverage``)."""
SATURDAY = 5
LOST = 3
"""Days by which the weights count fewer than were seen: with as many the mean of so few varies less than it does."""
# Beyond that many days nothing is told but that it is later.
HORIZON = 730
LOW, HIGH = 0.1, 0.9
HOURS_A_DAY = (1, 8)
"""Between which a day of somebody's work lies, before any whole day was seen."""
MIN_TIMED = 10
"""Annotations whose time was measured, from which on there is a pace."""
CHUNK = 64

TOO_FEW_DAYS = N_("Fewer than seven whole days of work have been seen.")
NOTHING_DONE = N_("Nothing was done on the latest days.")
NOTHING_LEFT = N_("Nothing is left to annotate.")

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Forecast:
    """Days from today until the last annotation: 0 is today. ``low`` to ``high`` holds the middle 80% of the futures.

    A day of ``HORIZON`` means that day or later. Undefined where ``reason`` says why; then all is None.
    """

    low: int | None
    middle: int | None
    high: int | None
    ends: tuple[int, ...] = ()
    reason: str | None = None

    def later_than(self, days: int) -> float | None:
        """The share of the futures that end more than ``days`` days from today."""
        if not self.ends:
            return None
        return sum(end > days for end in self.ends) / len(self.ends)


@lru_cache(maxsize=256)
def forecast_completion(
    *, left: int, days: tuple[int, ...], weekday: int, today: int = 0, seed: int = 0
) -> Forecast:
    """``left`` annotations remain; ``days`` are the numbers of the latest whole days, ``today`` is today's until now.

    ``weekday`` is that of today, Monday 0. A coming day of a weekend is drawn from those of weekends, another one from
    the others. Today counts as one more day: what it brings yet is what a whole day brings, less what it has brought.
    """
    if left <= 0:
        return _make_undefined(NOTHING_LEFT)
    if len(days) < MIN_DAYS:
        return _make_undefined(TOO_FEW_DAYS)
    if not any(days):
        return _make_undefined(NOTHING_DONE)
    ends = _simulate_ends(left, days, weekday, today, np.random.default_rng(seed))
    low, middle, high = (int(day) for day in _find_quantiles(ends, (LOW, 0.5, HIGH)))
    return Forecast(low, middle, high, tuple(int(end) for end in ends))


class Work(NamedTuple):
    """``left`` to be done; ``days`` are the numbers done on the latest whole days, ``today`` is today's until now."""

    left: int
    days: tuple[int, ...]
    today: int = 0


def forecast_batch(labels: Work, disputes: Work, *, weekday: int) -> tuple[Forecast, bool]:
    """Of the last label and the last settled dispute, and whether the disputes are counted: they are left out where
    too little is known of how they are settled, and where the labels have no forecast.
    """
    forecast = forecast_completion(left=labels.left, days=labels.days, weekday=weekday, today=labels.today)
    if not disputes.left or forecast.reason not in {None, NOTHING_LEFT}:
        return forecast, False
    settling = forecast_completion(
        left=disputes.left, days=disputes.days, weekday=weekday, today=disputes.today, seed=1
    )
    if forecast.reason == NOTHING_LEFT:
        return settling, True
    if settling.reason is not None:
        return forecast, False
    return join_forecasts(forecast, settling, together=True), True


def join_forecasts(first: Forecast, second: Forecast, *, together: bool = False) -> Forecast:
    """Of the later of two ends. Neither tells anything of the other; or they go ``together``, as the labels of a batch
    and the settling of its disputes do, and whichever is late, both are. Both forecasts must be defined.
    """
    both = np.array(first.ends), np.array(second.ends)
    ends = np.maximum(*(np.sort(ends) for ends in both)) if together else np.maximum(*both)
    low, middle, high = (int(day) for day in _find_quantiles(ends, (LOW, 0.5, HIGH)))
    return Forecast(low, middle, high, tuple(int(end) for end in ends))


def bound_days(*, seconds: float, people: int) -> tuple[int, int] | None:
    """Days from today until so many seconds of work are done, if each of the people works the more, and the fewer, of
    ``HOURS_A_DAY`` from today on. None without anybody.
    """
    if people < 1 or seconds <= 0:
        return None
    fewer, more = HOURS_A_DAY
    hours = seconds / 3600 / people
    return tuple(min(HORIZON, max(1, ceil(hours / a_day)) - 1) for a_day in (more, fewer))  # type: ignore[return-value]


def mean_per_day(days: Sequence[int]) -> float | None:
    """The mean of whole days, those without work among them; None where there is none."""
    return sum(days) / len(days) if days else None


def _make_undefined(reason: str) -> Forecast:
    return Forecast(None, None, None, reason=reason)


def _simulate_ends(
    left: int, days: tuple[int, ...], weekday: int, today: int, random: np.random.Generator
) -> Ints:
    """(FUTURES,): the day on which each future is done, at most HORIZON."""
    is_weekend = (weekday + np.arange(-len(days), HORIZON)) % 7 >= SATURDAY
    kinds = []
    for kind in (False, True):
        seen = np.array(days, dtype=np.int64)[is_weekend[: len(days)] == kind]
        # (FUTURES, D): the chance that a day of that future is like each of the observed days, added up.
        weights = np.full(len(seen), max(len(seen) - LOST, 1) / max(len(seen), 1))
        kinds.append((seen, random.dirichlet(weights, size=FUTURES).cumsum(axis=1)))
    done: Ints = np.zeros(FUTURES, dtype=np.int64)
    ends: Ints = np.full(FUTURES, HORIZON, dtype=np.int64)
    for start in range(0, HORIZON, CHUNK):
        # Drawn for those too that are done: the same future then has the same days, however much is left.
        number = min(CHUNK, HORIZON - start)
        weekdays, weekends = (_draw_days(seen, shares, number, random) for seen, shares in kinds)
        coming = is_weekend[len(days) + start : len(days) + start + number]
        drawn = np.where(coming, weekends, weekdays)
        if start == 0:
            drawn[:, 0] = np.maximum(0, drawn[:, 0] - today)
        reached = done[:, None] + drawn.cumsum(axis=1)
        enough = reached >= left
        now = (ends == HORIZON) & enough.any(axis=1)
        ends[now] = start + enough[now].argmax(axis=1)
        done = reached[:, -1]
        if (ends < HORIZON).all():
            break
    return ends


def _draw_days(seen: Ints, shares: npt.NDArray[np.float64], number: int, random: np.random.Generator) -> Ints:
    """(FUTURES, number): days for each of the futures, each like one of those seen."""
    draws = random.random((len(shares), number))
    picked: Ints = seen[(draws[:, :, None] > shares[:, None, :-1]).sum(axis=2)]
    return picked


def _find_quantiles(ends: Ints, shares: Sequence[float]) -> Ints:
    """Days that occurred, so that an interval never ends between two days."""
    days: Ints = np.quantile(ends, list(shares), method="inverted_cdf").astype(np.int64)
    return days
