"""Intervals: the bootstrap over units by way of their counts, and differences between two sets of units."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from annotation.core.errors import AssayError
from annotation.domain.agreement import (
    MORE_THAN_TWO,
    NO_ORDER,
    NO_PAIRS,
    ONE_CATEGORY,
    STATISTICS,
    Pattern,
    Statistic,
    bootstrap,
    count_label_patterns,
    measure_agreement,
    measure_difference,
    patterns,
    statistics,
)

DISPUTED: dict[Pattern, int] = {
    (1, 1): 50,
    (1, 2): 9,
    (2, 1): 4,
    (2, 2): 30,
    (2, 3): 6,
    (3, 3): 40,
    (3, None): 8,
}
SCALE = [1, 2, 3]


def ends(statistic: Statistic) -> tuple[float, float]:
    assert statistic.low is not None
    assert statistic.high is not None
    return statistic.low, statistic.high


def test_every_interval_contains_its_value() -> None:
    for statistic in measure_agreement(DISPUTED, values=SCALE, measurement="interval").statistics.values():
        low, high = ends(statistic)
        assert statistic.value is not None
        assert low < statistic.value < high


def test_a_seed_gives_one_result_and_another_seed_another() -> None:
    first, repeated, other = (
        measure_agreement(DISPUTED, values=SCALE, measurement="interval", seed=seed) for seed in (7, 7, 8)
    )
    assert first == repeated
    for name in STATISTICS:
        assert first.statistics[name].value == other.statistics[name].value
        assert ends(first.statistics[name]) != ends(other.statistics[name])


def test_the_order_and_width_of_the_patterns_do_not_matter() -> None:
    turned: dict[Pattern, int] = dict(reversed(DISPUTED.items()))
    del turned[(3, None)]
    turned[(3,)] = 8
    assert measure_agreement(turned, values=SCALE, measurement="interval") == measure_agreement(
        DISPUTED, values=SCALE, measurement="interval"
    )


def test_a_short_pattern_and_its_padded_form_are_added_up() -> None:
    split: dict[Pattern, int] = {(1, 1): 3, (1, 2): 1, (1,): 2, (1, None): 5}
    combined: dict[Pattern, int] = {(1, 1): 3, (1, 2): 1, (1, None): 7}
    assert measure_agreement(split, values=[1, 2], measurement="nominal") == measure_agreement(
        combined, values=[1, 2], measurement="nominal"
    )


@pytest.mark.parametrize("name", STATISTICS)
def test_a_statistic_is_the_same_alone_and_among_all(name: str) -> None:
    together = measure_agreement(DISPUTED, values=SCALE, measurement="interval").statistics[name]
    single = measure_agreement(DISPUTED, values=SCALE, measurement="interval", statistics=[name])
    assert single.statistics == {name: together}


def test_what_is_kept_of_a_result_cannot_be_changed_by_its_reader() -> None:
    first = measure_agreement(DISPUTED, values=SCALE, measurement="nominal")
    assert isinstance(first.statistics, dict)
    first.statistics.clear()
    assert set(measure_agreement(DISPUTED, values=SCALE, measurement="nominal").statistics) == set(STATISTICS)


def test_many_patterns_are_measured_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    cached = measure_agreement(DISPUTED, values=SCALE, measurement="interval")
    before = statistics._measure_cached.cache_info()
    monkeypatch.setattr(statistics, "MAX_CACHED_PATTERNS", 3)
    assert measure_agreement(DISPUTED, values=SCALE, measurement="interval") == cached
    assert statistics._measure_cached.cache_info() == before


def test_an_unknown_statistic_is_refused() -> None:
    with pytest.raises(AssayError, match="There is no agreement statistic kappa; choose among: percent_agr"):
        measure_agreement(DISPUTED, values=SCALE, measurement="nominal", statistics=["kappa"])


def test_less_confidence_gives_a_narrower_interval() -> None:
    wide, narrow = (
        ends(
            measure_agreement(DISPUTED, values=SCALE, measurement="nominal", confidence=level).statistics[
                "gwet_ac1"
            ]
        )
        for level in (0.95, 0.5)
    )
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


# Against scipy, which draws the units one by one


def units() -> np.ndarray:
    rows = [pattern for pattern in Counter(DISPUTED).elements() if None not in pattern]
    return np.array(rows, dtype=np.float64)


def kappa_of(first: np.ndarray, second: np.ndarray, axis: int = -1) -> np.ndarray:
    observed = (first == second).mean(axis=axis)
    chance = sum((first == v).mean(axis=axis) * (second == v).mean(axis=axis) for v in SCALE)
    return (observed - chance) / (1 - chance)


def interval_alpha_of(first: np.ndarray, second: np.ndarray, axis: int = -1) -> np.ndarray:
    """With two labels on each unit and squared differences: 1 - (2n - 1) sum of squares within / 2n over all."""
    both = np.concatenate([first, second], axis=axis)
    within = np.square(first - second).sum(axis=axis)
    labels = both.shape[axis]
    return 1 - (labels - 1) * within / (2 * labels * both.var(axis=axis) * labels / 2)


@pytest.mark.parametrize(
    ("name", "statistic"), [("cohen_kappa", kappa_of), ("alpha_interval", interval_alpha_of)]
)
def test_the_interval_is_that_of_drawing_units_one_by_one(name: str, statistic: object) -> None:
    paired: dict[Pattern, int] = {pattern: n for pattern, n in DISPUTED.items() if None not in pattern}
    result = measure_agreement(paired, values=SCALE, measurement="interval", resamples=9999).statistics[name]
    rows = units()
    assert result.value == pytest.approx(statistic(*rows.T))  # type: ignore[operator]
    expected = stats.bootstrap(
        tuple(rows.T),
        statistic,
        n_resamples=9999,
        paired=True,
        vectorized=True,
        method="BCa",
        rng=1,
        batch=2000,
    ).confidence_interval
    # Both are about 0.16 wide; the ends differ by Monte Carlo error alone, about 0.001 each.
    assert ends(result) == pytest.approx((expected.low, expected.high), abs=0.006)


def test_resamples_in_pieces_are_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    in_one_piece = measure_agreement(DISPUTED, values=SCALE, measurement="interval", resamples=4000)
    monkeypatch.setattr(bootstrap, "MAX_CELLS", 1000)
    monkeypatch.setattr(statistics, "MAX_CACHED_PATTERNS", 0)
    pieces = measure_agreement(DISPUTED, values=SCALE, measurement="interval", resamples=4000)
    for name in STATISTICS:
        assert ends(pieces.statistics[name]) == pytest.approx(ends(in_one_piece.statistics[name]), abs=0.01)


def test_with_very_many_kinds_of_unit_none_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    many = count_label_patterns(np.sort(rng.integers(0, 11, size=(3000, 4)), axis=1))
    exact = measure_agreement(many, values=range(11), measurement="nominal", statistics=["alpha_nominal"])
    monkeypatch.setattr(bootstrap, "MAX_KINDS", 10)
    monkeypatch.setattr(statistics, "MAX_CACHED_PATTERNS", 0)
    skewless = measure_agreement(many, values=range(11), measurement="nominal", statistics=["alpha_nominal"])
    assert ends(skewless.statistics["alpha_nominal"]) == pytest.approx(
        ends(exact.statistics["alpha_nominal"]), abs=0.001
    )


# Where there is little or nothing to resample


def test_resamples_in_which_a_statistic_is_undefined_are_left_out() -> None:
    # A resample of two units is all 1 or all 2 half of the time, and kappa is undefined there.
    kappa = measure_agreement({(1, 1): 1, (2, 2): 1}, values=[1, 2], measurement="nominal").statistics[
        "cohen_kappa"
    ]
    assert kappa == Statistic(1, 1, 1)


def test_a_single_unit_has_values_and_no_standard_error() -> None:
    statistics = measure_agreement({(1, 2): 1}, values=[1, 2], measurement="nominal").statistics
    assert statistics["percent_agreement"] == Statistic(0, 0, 0)
    assert statistics["gwet_ac1"].standard_error is None
    assert statistics["gwet_ac1"].value == -1


def test_without_resamples_there_is_a_value_and_no_interval() -> None:
    kappa = measure_agreement(DISPUTED, values=SCALE, measurement="nominal", resamples=0).statistics[
        "cohen_kappa"
    ]
    assert kappa.value is not None
    assert (kappa.low, kappa.high) == (None, None)


# Differences

LATER: dict[Pattern, int] = {(1, 1): 150, (1, 2): 5, (2, 2): 90, (2, 3): 4, (3, 3): 120}


def test_a_difference_is_the_later_statistic_less_the_earlier() -> None:
    result = measure_difference(
        DISPUTED, LATER, values=SCALE, measurement="ordinal", statistic="alpha_ordinal"
    )
    before, after = (
        measure_agreement(patterns, values=SCALE, measurement="ordinal").statistics["alpha_ordinal"].value
        for patterns in (DISPUTED, LATER)
    )
    assert before is not None
    assert after is not None
    assert result.value == pytest.approx(after - before)
    low, high = ends(result)
    assert 0 < low < after - before < high


def test_turned_round_a_difference_changes_its_sign() -> None:
    forwards, back = (
        measure_difference(
            *pair, values=SCALE, measurement="ordinal", statistic="cohen_kappa", resamples=8000
        )
        for pair in ((DISPUTED, LATER), (LATER, DISPUTED))
    )
    assert forwards.value == pytest.approx(-(back.value or 0))
    assert ends(forwards) == pytest.approx([-end for end in reversed(ends(back))], abs=0.006)


def test_equal_units_differ_by_chance_alone_and_by_more_than_either_varies() -> None:
    same = measure_difference(DISPUTED, DISPUTED, values=SCALE, measurement="nominal", statistic="gwet_ac1")
    low, high = ends(same)
    assert same.value == 0
    assert low < 0 < high
    # Independent resamples: the spread of the difference is the root of two times that of one
    single = measure_agreement(DISPUTED, values=SCALE, measurement="nominal").statistics["gwet_ac1"]
    single_low, single_high = ends(single)
    assert (high - low) / (single_high - single_low) == pytest.approx(2**0.5, rel=0.1)
    assert single.standard_error is not None
    assert same.standard_error == pytest.approx(2**0.5 * single.standard_error)


@pytest.mark.parametrize(
    ("other", "statistic", "reason"),
    [
        ({}, "percent_agreement", NO_PAIRS),
        ({(1, 1): 5}, "alpha_nominal", ONE_CATEGORY),
        ({(1, 2, 3): 4}, "cohen_kappa", MORE_THAN_TWO),
        (DISPUTED, "alpha_ordinal", NO_ORDER),
    ],
)
def test_a_difference_to_what_is_undefined_is_undefined_for_its_reason(
    other: dict[Pattern, int], statistic: str, reason: str
) -> None:
    for pair in ((DISPUTED, other), (other, DISPUTED)):
        result = measure_difference(*pair, values=SCALE, measurement="nominal", statistic=statistic)
        assert result == Statistic(None, None, None, reason)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    """Two raters who both see the same draw with probability 0.6, else each another: alpha is 0.6 in the population."""
    rng = np.random.default_rng(6)
    covered = 0
    for _ in range(120):
        draws = rng.choice(3, size=(2, 150), p=[0.5, 0.3, 0.2])
        draws[1] = np.where(rng.random(150) < 0.6, draws[0], draws[1])
        result = measure_agreement(
            count_label_patterns(draws.T, SCALE),
            values=SCALE,
            measurement="nominal",
            statistics=["alpha_nominal"],
        )
        low, high = ends(result.statistics["alpha_nominal"])
        covered += low <= 0.6 <= high
    # 114 expected; 107 is three standard deviations of a binomial below
    assert 107 <= covered < 120


def test_the_head_leaves_out_each_kind_of_unit_once() -> None:
    head = bootstrap._Head.of(patterns.tabulate({(1, 2): 3, (2, 1): 2, (2, 2): 4}, [1, 2]))
    rows = {tuple(row) for row in np.concatenate([head.counts, head.turned], axis=1).tolist()}
    # Sets {1, 2} (5 units, 2 of them turned) and {2, 2}; less one (1, 2), one (2, 1) or one (2, 2)
    assert rows == {(5, 4, 2, 0), (4, 4, 2, 0), (4, 4, 1, 0), (5, 3, 2, 0)}
    assert sorted(head.kinds.tolist()) == [2, 3, 4]
