"""Intervals: what prompts add to a statistic, the ends made of it, and differences between two sets of units."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest

from annotation.core.errors import AssayError
from annotation.core.proportions import wilson
from annotation.domain.agreement import (
    FEW_DISPUTES,
    FEW_PROMPTS,
    MORE_THAN_TWO,
    NO_ORDER,
    NO_PAIRS,
    NO_VARIATION,
    ONE_CATEGORY,
    STATISTICS,
    Measurement,
    Pattern,
    PromptCounts,
    Statistic,
    count_by_prompt,
    count_label_patterns,
    intervals,
    join_prompt_counts,
    measure_agreement,
    measure_difference,
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
# What applies to it; sets of options have a distance of their own.
APPLICABLE = [name for name in STATISTICS if name != "alpha_masi"]


def ends(statistic: Statistic) -> tuple[float, float]:
    assert statistic.low is not None
    assert statistic.high is not None
    return statistic.low, statistic.high


def draw_by_prompt(rng: np.random.Generator, prompts: int, responses: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes (N, 2) and prompts (N,): prompts differ in how often their responses are seen alike."""
    prompt = np.repeat(np.arange(prompts), responses)
    agreeing = rng.beta(2.1, 0.9, prompts)
    codes = rng.choice(3, (len(prompt), 2), p=[0.6, 0.3, 0.1])
    is_same = rng.random(len(prompt)) < agreeing[prompt]
    codes[is_same, 1] = codes[is_same, 0]
    return codes, prompt


def test_every_interval_contains_its_value() -> None:
    measured = measure_agreement(DISPUTED, values=SCALE, measurement="interval").statistics
    for statistic in (measured[name] for name in APPLICABLE):
        low, high = ends(statistic)
        assert statistic.value is not None
        assert low < statistic.value < high


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


def test_kinds_left_out_in_pieces_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    in_one_piece = measure_agreement(DISPUTED, values=SCALE, measurement="interval")
    monkeypatch.setattr(intervals, "MAX_CELLS", 30)
    monkeypatch.setattr(statistics, "MAX_CACHED_PATTERNS", 0)
    pieces = measure_agreement(DISPUTED, values=SCALE, measurement="interval")
    for name in APPLICABLE:
        assert ends(pieces.statistics[name]) == pytest.approx(ends(in_one_piece.statistics[name]))


def test_one_response_a_prompt_is_as_if_units_were_drawn() -> None:
    rows = np.array([row for row in Counter(DISPUTED).elements() if None not in row]) - 1
    paired: dict[Pattern, int] = {pattern: n for pattern, n in DISPUTED.items() if None not in pattern}
    by_prompt = measure_agreement(
        count_by_prompt(rows, np.arange(len(rows)), SCALE), values=SCALE, measurement="interval"
    )
    by_unit = measure_agreement(paired, values=SCALE, measurement="interval")
    for name in APPLICABLE:
        statistic = by_prompt.statistics[name]
        assert ends(statistic) == pytest.approx(ends(by_unit.statistics[name]))
        assert statistic.design_effect == pytest.approx(1)


@pytest.mark.parametrize("name", ["alpha_ordinal", "cohen_kappa", "gwet_ac2", "percent_agreement"])
def test_the_variance_is_nearly_that_of_leaving_out_each_prompt_in_turn(name: str) -> None:
    """The plain jackknife, prompt by prompt, on units counted one by one."""
    codes, prompt = draw_by_prompt(np.random.default_rng(3), 60, 6)
    counts = count_by_prompt(codes, prompt, SCALE)
    sample = statistics._build_sample(counts, SCALE)
    rule = statistics._RULES["ordinal"][name]
    influences = intervals.measure_influences(sample, {name: rule.estimate})[name]
    without = [
        measure_agreement(
            count_label_patterns(codes[prompt != left], SCALE),
            values=SCALE,
            measurement="ordinal",
            statistics=[name],
            intervals=False,
        ).statistics[name]
        for left in range(60)
    ]
    values = np.array([statistic.value for statistic in without])
    jackknife = 59 / 60 * float(np.square(values - values.mean()).sum())
    assert influences.variance == pytest.approx(jackknife, rel=0.05)
    assert influences.design_effect is not None
    assert influences.design_effect > 1.1


def test_responses_to_one_prompt_do_not_make_an_interval_narrower() -> None:
    """Each response three times over is three times the units and no more known."""
    codes, prompt = draw_by_prompt(np.random.default_rng(4), 40, 1)
    single = measure_agreement(count_by_prompt(codes, prompt, SCALE), values=SCALE, measurement="nominal")
    tripled = measure_agreement(
        count_by_prompt(np.tile(codes, (3, 1)), np.tile(prompt, 3), SCALE),
        values=SCALE,
        measurement="nominal",
    )
    for name in ("percent_agreement", "gwet_ac1", "fleiss_kappa"):
        assert ends(tripled.statistics[name]) == pytest.approx(ends(single.statistics[name]), abs=0.02)
        assert tripled.statistics[name].design_effect == pytest.approx(3, rel=0.05)
    assert tripled.statistics["gwet_ac1"].standard_error == pytest.approx(
        single.statistics["gwet_ac1"].standard_error, rel=0.02
    )


def test_counts_are_known_by_what_they_hold() -> None:
    codes, prompt = draw_by_prompt(np.random.default_rng(5), 20, 4)
    first, second = (count_by_prompt(codes, prompt, SCALE) for _turn in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert first != count_by_prompt(codes, prompt + 1, SCALE)
    assert first.counts == count_label_patterns(codes, SCALE)
    halves = join_prompt_counts(
        count_by_prompt(codes[prompt % 2 == rest], prompt[prompt % 2 == rest], SCALE) for rest in range(2)
    )
    assert halves.counts == first.counts
    measured = [
        measure_agreement(counts, values=SCALE, measurement="ordinal").statistics["alpha_ordinal"]
        for counts in (halves, first)
    ]
    assert ends(measured[0]) == pytest.approx(ends(measured[1]))


# Where little is known


def with_disputes(prompts: int, disputed: int, units: int = 40) -> PromptCounts:
    codes = np.array([[0, 0], [1, 1]] * (units // 2))
    codes[:disputed, 1] = 1 - codes[:disputed, 1]
    return count_by_prompt(codes, np.arange(units) % prompts, SCALE)


@pytest.mark.parametrize(
    ("prompts", "disputed", "code"), [(9, 8, FEW_PROMPTS), (10, 4, FEW_DISPUTES), (10, 5, None)]
)
def test_a_chance_corrected_figure_of_too_little_has_a_value_and_a_reason(
    prompts: int, disputed: int, code: str | None
) -> None:
    measured = measure_agreement(with_disputes(prompts, disputed), values=SCALE, measurement="ordinal")
    assert (measured.prompts, measured.disputed) == (prompts, disputed)
    for name, statistic in measured.statistics.items():
        if statistic.value is not None:
            expected = None if name == "percent_agreement" else code
            assert (name, statistic.no_interval) == (name, expected)
            assert (statistic.low is None) == (statistic.high is None) == (expected is not None)


def test_percent_agreement_has_an_interval_even_where_all_agree() -> None:
    """Wilson's at as many units as there are prompts, with the quantile of t."""
    measured = measure_agreement(with_disputes(10, 0), values=SCALE, measurement="nominal")
    low, high = ends(measured.statistics["percent_agreement"])
    assert (measured.statistics["percent_agreement"].value, high) == (1, 1)
    quantile = intervals.find_quantile(9, 0.95)
    assert low == pytest.approx(wilson(10, 10, quantile)[0])
    one_prompt = measure_agreement(with_disputes(1, 0), values=SCALE, measurement="nominal")
    assert ends(one_prompt.statistics["percent_agreement"]) == pytest.approx((0, 1), abs=1e-6)


def test_percent_agreement_of_independent_units_is_wilsons() -> None:
    low, high = ends(
        measure_agreement(
            {(1, 1): 900, (1, 2): 100, (2, 2): 1000}, values=SCALE, measurement="nominal"
        ).statistics["percent_agreement"]
    )
    expected = wilson(1900, 2000)
    assert low == pytest.approx(expected[0], abs=0.0001)
    assert expected[1] < high < expected[1] + 0.001  # the t interval's, which is a little above


def test_where_nothing_varies_there_is_no_interval() -> None:
    """Everybody differs in one way alone."""
    measured = measure_agreement({(1, 3): 12}, values=SCALE, measurement="nominal")
    assert measured.statistics["gwet_ac1"].no_interval == NO_VARIATION
    assert measured.statistics["percent_agreement"].value == 0


def test_a_single_unit_has_values_and_no_standard_error() -> None:
    measured = measure_agreement({(1, 2): 1}, values=[1, 2], measurement="nominal").statistics
    assert measured["gwet_ac1"].standard_error is None
    assert measured["gwet_ac1"].value == -1
    assert ends(measured["percent_agreement"]) == pytest.approx((0, 1), abs=1e-6)


def test_without_intervals_there_is_a_value_alone() -> None:
    kappa = measure_agreement(DISPUTED, values=SCALE, measurement="nominal", intervals=False).statistics[
        "cohen_kappa"
    ]
    assert kappa.value is not None
    assert (kappa.low, kappa.high, kappa.no_interval) == (None, None, None)


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
        measure_difference(*pair, values=SCALE, measurement="ordinal", statistic="cohen_kappa")
        for pair in ((DISPUTED, LATER), (LATER, DISPUTED))
    )
    assert forwards.value == pytest.approx(-(back.value or 0))
    assert ends(forwards) == pytest.approx([-end for end in reversed(ends(back))])


def test_equal_units_differ_by_chance_alone_and_by_more_than_either_varies() -> None:
    same = measure_difference(DISPUTED, DISPUTED, values=SCALE, measurement="nominal", statistic="gwet_ac1")
    low, high = ends(same)
    assert same.value == 0
    assert low < 0 < high
    single = measure_agreement(DISPUTED, values=SCALE, measurement="nominal").statistics["gwet_ac1"]
    single_low, single_high = ends(single)
    # To either side the root of the sum of the squares of both arms
    arms = (single_high - (single.value or 0), (single.value or 0) - single_low)
    assert high == pytest.approx(-low) == pytest.approx(math.hypot(*arms))
    assert single.standard_error is not None
    assert same.standard_error == pytest.approx(2**0.5 * single.standard_error)


def test_what_both_have_of_a_prompt_is_no_difference() -> None:
    """The same prompts in both: what varies from prompt to prompt moves both alike."""
    rng = np.random.default_rng(8)
    codes, prompt = draw_by_prompt(rng, 80, 8)
    other, _prompt = draw_by_prompt(np.random.default_rng(9), 80, 8)
    first, copy, foreign = (
        count_by_prompt(labels, prompts, SCALE)
        for labels, prompts in ((codes, prompt), (codes, prompt), (other, prompt + 80))
    )
    widths = [
        ends(measure_difference(first, later, values=SCALE, measurement="nominal", statistic="alpha_nominal"))
        for later in (copy, foreign)
    ]
    low, high = widths[0]
    assert high - low < 0.3 * (widths[1][1] - widths[1][0])


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


def test_a_difference_to_too_little_has_a_value_and_no_interval() -> None:
    result = measure_difference(
        DISPUTED, with_disputes(9, 8), values=SCALE, measurement="nominal", statistic="alpha_nominal"
    )
    assert result.value is not None
    assert (result.low, result.high, result.no_interval) == (None, None, FEW_PROMPTS)
    share = measure_difference(
        DISPUTED, with_disputes(9, 0), values=SCALE, measurement="nominal", statistic="percent_agreement"
    )
    assert ends(share)[0] < (share.value or 0) < ends(share)[1]


# Units of unequal chance of selection


def draw_labels(rng: np.random.Generator, n: int) -> npt.NDArray[np.int64]:
    labels = rng.integers(0, 3, (n, 2))
    labels[rng.random(n) < 0.5, 1] = -1
    is_same = rng.random(n) < 0.6
    labels[is_same, 1] = labels[is_same, 0]
    return labels


@pytest.mark.parametrize("measurement", ["nominal", "ordinal", "interval"])
def test_equal_weights_change_no_digit(measurement: Measurement):
    rng = np.random.default_rng(5)
    labels, prompts = draw_labels(rng, 300), rng.integers(0, 60, 300)
    plain = measure_agreement(
        count_by_prompt(labels, prompts, (1, 2, 3)), values=(1, 2, 3), measurement=measurement
    )
    for weight in (4.0, np.full(300, 4.0), np.r_[np.ones(299), -3.0]):
        counts = count_by_prompt(labels, prompts, (1, 2, 3), weight=weight)
        assert measure_agreement(counts, values=(1, 2, 3), measurement=measurement) == plain


@pytest.mark.parametrize("measurement", ["nominal", "ordinal", "interval"])
def test_a_unit_that_weighs_three_is_as_three_like_it(measurement: Measurement):
    """But for what depends on how many units there are: alpha's small sample and the variance of single units."""
    rng = np.random.default_rng(6)
    labels, prompts = draw_labels(rng, 900), rng.integers(0, 80, 900)
    weight = np.where(labels[:, 0] == 0, 1.0, 3.0)
    weighed, repeated = (
        measure_agreement(counts, values=(1, 2, 3), measurement=measurement).statistics
        for counts in (
            count_by_prompt(labels, prompts, (1, 2, 3), weight=weight),
            count_by_prompt(
                np.repeat(labels, weight.astype(int), axis=0),
                np.repeat(prompts, weight.astype(int)),
                (1, 2, 3),
            ),
        )
    )
    for name, statistic in repeated.items():
        own = weighed[name]
        if statistic.value is None:
            assert own.value is None
            continue
        assert own.value == pytest.approx(statistic.value, abs=0.002)
        assert own.low == pytest.approx(statistic.low, abs=0.01)
        assert own.high == pytest.approx(statistic.high, abs=0.01)


def test_units_of_weight_zero_move_no_figure():
    rng = np.random.default_rng(7)
    labels, prompts = draw_labels(rng, 400), rng.integers(0, 80, 400)
    weight = rng.choice([0.0, 1.5, 4.0], 400)
    counts = count_by_prompt(labels, prompts, (1, 2, 3), weight=weight)
    reduced = count_by_prompt(labels[weight > 0], prompts[weight > 0], (1, 2, 3), weight=weight[weight > 0])
    first, second = (
        measure_agreement(part, values=(1, 2, 3), measurement="ordinal") for part in (counts, reduced)
    )
    assert first.statistics == second.statistics
    assert first.prompts == second.prompts
    assert first.n > second.n


def test_parts_of_one_weight_each_are_joined_with_their_weights():
    rng = np.random.default_rng(8)
    labels, prompts = draw_labels(rng, 200), rng.integers(0, 40, 200)
    weight = np.r_[np.full(100, 2.0), np.full(100, 5.0)]
    complete = count_by_prompt(labels, prompts, (1, 2, 3), weight=weight)
    joined = join_prompt_counts(
        count_by_prompt(labels[part], prompts[part], (1, 2, 3), weight=own)
        for part, own in ((slice(100), 2.0), (slice(100, 200), 5.0))
    )
    first, second = (
        measure_agreement(part, values=(1, 2, 3), measurement="nominal") for part in (complete, joined)
    )
    for name, statistic in first.statistics.items():
        assert second.statistics[name].value == (
            None if statistic.value is None else pytest.approx(statistic.value)
        )
