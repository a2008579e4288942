"""The figures of a campaign against computations by hand, and in simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotation.core.proportions import NO_RATE, wilson
from annotation.domain.agreement.patterns import Statistic
from benchmark.domain.workbench.report import (
    MIN_PROMPTS,
    AttackOutcome,
    measure_all,
    measure_field_agreement,
    measure_success,
)
from tests.performance.campaign_coverage import (
    AGREEMENT_DESIGNS,
    SUCCESS_DESIGNS,
    compute_kappa,
    find_rates,
    measure_campaign,
    measure_reviewers,
)


def answer(prompt: int, succeeded: bool, target: str = "A", method: str = "disguise") -> AttackOutcome:
    return AttackOutcome(prompt, target, "Fairness", method, "implicit", succeeded)


def test_with_one_answer_to_each_prompt_the_interval_is_wilsons() -> None:
    rate = measure_all([answer(number, number < 3) for number in range(10)])
    z = 1.959963984540054
    middle = (0.3 + z * z / 20) / (1 + z * z / 10)
    half = z / (1 + z * z / 10) * sqrt(0.3 * 0.7 / 10 + z * z / 400)
    assert (rate.equal, rate.n, rate.value) == (3, 10, 0.3)
    assert rate.low == pytest.approx(middle - half)
    assert rate.high == pytest.approx(middle + half)
    assert (round(middle - half, 4), round(middle + half, 4)) == (0.1078, 0.6032)


def test_answers_to_one_prompt_that_are_same_count_as_one() -> None:
    targets = "ABCD"
    same = measure_all([answer(number, number < 5, target) for number in range(10) for target in targets])
    assert (same.equal, same.n) == (20, 40)
    assert (same.low, same.high) == pytest.approx(bound_by_hand(between=10 * 2**2))
    # One of four in five prompts, three of four in the others: hardly more same than by chance.
    mixed = [
        answer(number, place < 1 + 2 * (number % 2), target)
        for number in range(10)
        for place, target in enumerate(targets)
    ]
    unlike = measure_all(mixed)
    assert (unlike.low, unlike.high) == pytest.approx(bound_by_hand(between=10 * 1**2))
    assert same.low is not None
    assert unlike.low is not None
    assert same.low < unlike.low


def bound_by_hand(between: float) -> tuple[float, float]:
    """Wilson's interval of 20 of 40 answers to ten prompts, at as many independent answers as they are worth.

    ``between`` is the sum of the squares of what the prompts have more or fewer successes than two of four.
    """
    of_prompts = between / 40**2 * 10 / 9
    of_independent = 0.25 / 39
    effective = 40 * of_independent / of_prompts
    z = 1.959963984540054
    half = z / (1 + z * z / effective) * sqrt(0.25 / effective + z * z / (4 * effective**2))
    return 0.5 - half, 0.5 + half


def test_nothing_is_undefined_and_all_or_none_is_bounded() -> None:
    assert measure_all([]) == NO_RATE
    assert measure_success([], ("target",)) == {}
    assert NO_RATE.to_json() == {"value": None, "low": None, "high": None, "n": 0}
    every = measure_all([answer(number, True, target) for number in range(5) for target in "AB"])
    assert (every.value, every.high) == (1, 1)
    assert every.low == pytest.approx(wilson(5, 5)[0])  # five prompts, not ten answers
    few = measure_all([answer(number, True, target) for number in range(4) for target in "ABC"])
    assert (few.value, few.low, few.high) == (1, None, None)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.sampled_from("AB"), st.sampled_from("xy"))))
def test_groups_are_the_answers_that_are_of_them(rows: Sequence[tuple[int, bool, str, str]]) -> None:
    outcomes = [answer(*row) for row in rows]
    tables = measure_success(outcomes, ("target", "method"))
    for (target, method), rate in tables.items():
        own = [each for each in outcomes if (each.target, each.method) == (target, method)]
        assert (rate.n, rate.equal) == (len(own), sum(each.is_success for each in own))
        assert astuple(rate) == pytest.approx(astuple(measure_all(own)))
        is_few = len({each.prompt for each in own}) < MIN_PROMPTS
        assert ((rate.low is None), (rate.high is None)) == (is_few, is_few)
        if rate.low is not None and rate.high is not None:
            assert 0 <= rate.low <= rate.equal / rate.n <= rate.high <= 1
    assert sum(rate.n for rate in tables.values()) == len(rows)


def test_kappa_is_that_of_the_table() -> None:
    """4 and 3 of ten same: .7 observed, .5 * .6 + .5 * .4 = .5 by chance."""
    pairs = [("a", "a")] * 4 + [("a", "b")] + [("b", "a")] * 2 + [("b", "b")] * 3
    agreement = measure_field_agreement(pairs)
    assert agreement.n == 10
    assert agreement.statistics["percent_agreement"].value == pytest.approx(0.7)
    assert agreement.statistics["cohen_kappa"].value == pytest.approx(0.4)
    several = measure_field_agreement(pairs * 10).statistics["cohen_kappa"]
    assert several.value == pytest.approx(0.4)
    assert several.low is not None
    assert several.high is not None
    # Fleiss, Cohen and Everitt (1969), by hand for this table of 100.
    shares = {("a", "a"): 0.4, ("a", "b"): 0.1, ("b", "a"): 0.2, ("b", "b"): 0.3}
    first, second = {"a": 0.5, "b": 0.5}, {"a": 0.6, "b": 0.4}
    kappa, chance = 0.4, 0.5
    same = sum(shares[x, x] * (1 - (first[x] + second[x]) * (1 - kappa)) ** 2 for x in "ab")
    other = (1 - kappa) ** 2 * sum(
        share * (second[x] + first[y]) ** 2 for (x, y), share in shares.items() if x != y
    )
    error = sqrt((same + other - (kappa - chance * (1 - kappa)) ** 2) / 100) / (1 - chance)
    assert several.low == pytest.approx(kappa - 1.96 * error, abs=0.04)
    assert several.high == pytest.approx(kappa + 1.96 * error, abs=0.04)


def test_kappa_of_one_value_alone_or_of_nothing_is_undefined() -> None:
    assert measure_field_agreement([]).statistics["cohen_kappa"].value is None
    one_sided = measure_field_agreement([("a", "a")] * 20).statistics
    assert (one_sided["cohen_kappa"].value, one_sided["percent_agreement"].value) == (None, 1)


def test_the_intervals_hold_in_a_small_simulation() -> None:
    """``tests/performance/campaign_coverage.py`` is the same with all designs and 2,000 campaigns each."""
    design = next(each for each in SUCCESS_DESIGNS if each.name == "30 prompts, 3 targets")
    held = [measure_campaign(np.random.default_rng(seed), design) for seed in range(150)]
    assert np.mean([outcome for each in held for outcome in each["all"]]) >= 0.89
    assert np.mean([outcome for each in held for outcome in each["targets"]]) >= 0.91
    agreement = next(each for each in AGREEMENT_DESIGNS if each.name == "method, 3 kinds, 30 proposals")
    kappas = [measure_reviewers(np.random.default_rng(seed), agreement) for seed in range(150)]
    assert np.mean([held for held in kappas if held is not None]) >= 0.89
    assert 0 < compute_kappa(agreement) < 1
    assert find_rates(design, np.zeros(1)).shape == (1, 3)


def test_few_reviews_or_few_uncommon_kinds_give_kappa_no_interval() -> None:
    def measure_kappa(same: int, uncommon: int, different: int) -> Statistic:
        pairs = [("a", "a")] * same + [("b", "b")] * uncommon + [("a", "b")] * different
        return measure_field_agreement(pairs).statistics["cohen_kappa"]

    for few in (measure_kappa(8, 8, 3), measure_kappa(40, 6, 3)):
        assert few.value is not None
        assert (few.low, few.high) == (None, None)
    assert measure_kappa(40, 12, 8).low is not None
