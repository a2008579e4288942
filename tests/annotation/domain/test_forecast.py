"""The forecast of a batch's end: known answers, and what holds for any days."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotation.domain import batches
from annotation.domain.batches import (
    HORIZON,
    NOTHING_DONE,
    NOTHING_LEFT,
    TOO_FEW_DAYS,
    Forecast,
    bound_days,
    join_forecasts,
    mean_per_day,
)

MONDAY = 0
DAYS = st.lists(st.integers(0, 500), min_size=7, max_size=14).filter(any).map(tuple)


def forecast_completion(*, left: int, days: tuple[int, ...], today: int = 0, seed: int = 0) -> Forecast:
    return batches.forecast_completion(left=left, days=days, weekday=MONDAY, today=today, seed=seed)


def test_days_that_are_all_alike_leave_nothing_open() -> None:
    forecast = forecast_completion(left=100, days=(10,) * 7)
    # Ten days at ten a day, of which today is the first.
    assert (forecast.low, forecast.middle, forecast.high) == (9, 9, 9)
    assert forecast.later_than(8) == 1.0
    assert forecast.later_than(9) == 0.0


def test_today_brings_what_is_missing_to_a_whole_day() -> None:
    assert forecast_completion(left=6, days=(10,) * 7, today=4).middle == 0
    assert forecast_completion(left=7, days=(10,) * 7, today=4).middle == 1
    assert forecast_completion(left=10, days=(10,) * 7, today=25).middle == 1


def test_a_week_with_a_weekend_is_about_its_mean() -> None:
    week = (100, 100, 100, 100, 100, 0, 0)
    forecast = forecast_completion(left=5000, days=week * 2)
    assert forecast.low is not None
    assert forecast.middle is not None
    assert forecast.high is not None
    # Fifty working days from a Monday on: weekends bring nothing, and no weekday differs from another.
    assert (forecast.low, forecast.middle, forecast.high) == (67, 67, 67)


def test_a_weekend_that_was_seen_comes_again() -> None:
    """On a Monday after one week: ten on each weekday, nothing at the weekend."""
    forecast = forecast_completion(left=60, days=(10,) * 5 + (0, 0))
    assert (forecast.low, forecast.high) == (7, 7)  # the sixth working day is the next Monday


def test_of_two_ends_the_later_counts() -> None:
    early, late = (forecast_completion(left=left, days=(10, 30, 20, 10, 5, 0, 0)) for left in (100, 400))
    independent, joint = join_forecasts(early, late), join_forecasts(early, late, together=True)
    assert joint == Forecast(late.low, late.middle, late.high, tuple(sorted(late.ends)))
    assert independent.low is not None
    assert late.low is not None
    assert independent.low >= late.low
    same = join_forecasts(late, forecast_completion(left=400, days=(10, 30, 20, 10, 5, 0, 0), seed=1))
    assert same.middle is not None
    assert late.middle is not None
    assert same.middle > late.middle  # the later of two that know nothing of each other


def test_between_which_days_the_work_ends_by_the_pace_alone() -> None:
    assert bound_days(seconds=16 * 3600, people=2) == (0, 7)
    assert bound_days(seconds=17 * 3600, people=2) == (1, 8)
    assert bound_days(seconds=10.0**9, people=1) == (HORIZON, HORIZON)
    assert bound_days(seconds=3600, people=0) is None
    assert bound_days(seconds=0, people=1) is None


def test_the_fewer_days_were_seen_the_wider_is_the_interval() -> None:
    few, many = (
        forecast_completion(left=3000, days=(50, 100, 150, 50, 100, 150, 100)),
        forecast_completion(left=3000, days=(50, 100, 150, 50, 100, 150, 100) * 2),
    )
    assert few.high is not None
    assert few.low is not None
    assert many.high is not None
    assert many.low is not None
    assert few.high - few.low > many.high - many.low > 0


@pytest.mark.parametrize(
    ("left", "days", "reason"),
    [
        (0, (5,) * 7, NOTHING_LEFT),
        (5, (5,) * 6, TOO_FEW_DAYS),
        (5, (), TOO_FEW_DAYS),
        (5, (0,) * 7, NOTHING_DONE),
    ],
)
def test_without_anything_to_go_by_there_is_no_forecast(
    left: int, days: tuple[int, ...], reason: str
) -> None:
    forecast = forecast_completion(left=left, days=days)
    assert (forecast.low, forecast.middle, forecast.high, forecast.reason) == (None, None, None, reason)
    assert forecast.later_than(3) is None


def test_what_takes_years_is_told_as_later_than_the_horizon() -> None:
    forecast = forecast_completion(left=10**9, days=(1,) * 7)
    assert forecast.low == forecast.high == HORIZON


def test_the_mean_of_no_days_is_undefined() -> None:
    assert mean_per_day([]) is None
    assert mean_per_day([4, 0, 2]) == 2.0


@settings(max_examples=40, deadline=None)
@given(left=st.integers(1, 20_000), days=DAYS, today=st.integers(0, 50))
def test_the_interval_is_ordered_and_the_same_each_time(left: int, days: tuple[int, ...], today: int) -> None:
    forecast = forecast_completion(left=left, days=days, today=today)
    assert forecast.low is not None
    assert forecast.middle is not None
    assert forecast.high is not None
    assert 0 <= forecast.low <= forecast.middle <= forecast.high <= HORIZON
    # No day brings more than the best one seen.
    assert forecast.low >= min(HORIZON, -(-left // max(days)) - 1)
    shares = [forecast.later_than(day) for day in range(0, HORIZON + 1, 73)]
    assert all(share is not None and 0 <= share <= 1 for share in shares)
    assert shares == sorted(shares, key=lambda share: -(share or 0))
    batches.forecast_completion.cache_clear()
    assert forecast_completion(left=left, days=days, today=today) == forecast


@settings(max_examples=25, deadline=None)
@given(left=st.integers(1, 5000), more=st.integers(1, 5000), days=DAYS)
def test_more_to_do_never_ends_earlier(left: int, more: int, days: tuple[int, ...]) -> None:
    sooner, later = (
        forecast_completion(left=left, days=days),
        forecast_completion(left=left + more, days=days),
    )
    assert sooner.middle is not None
    assert later.middle is not None
    assert later.middle >= sooner.middle
