"""Kappas of a pool of people, against exact arithmetic and against leaving out each prompt in turn."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from annotation.domain.agreement import FEW_PROMPTS, measure_agreement
from annotation.domain.agreement.raters import RaterKappas, measure_rater_kappas


def draw(seed: int, people: int, units: int = 240, prompts: int = 40) -> tuple[np.ndarray, ...]:
    """Codes and people (N, 2), prompts (N,): any two judge a unit, each with a lean of their own."""
    rng = np.random.default_rng(seed)
    person = np.stack([rng.permutation(people)[:2] for _unit in range(units)])
    codes = rng.choice(3, (units, 2), p=[0.5, 0.3, 0.2])
    same = rng.random(units) < 0.6
    codes[same, 1] = codes[same, 0]
    strict = (person == 0) & (rng.random((units, 2)) < 0.3)
    return np.where(strict, 0, codes), person, np.arange(units) % prompts


def measure(codes: np.ndarray, person: np.ndarray, prompt: np.ndarray) -> RaterKappas:
    return measure_rater_kappas(codes, person, prompt, levels=3, no_interval=None)


def test_the_mean_is_over_pairs_weighed_by_their_units() -> None:
    codes, person, prompt = draw(1, 4)
    total, units = Fraction(0), 0
    for pair in combinations(range(4), 2):
        table: Counter[tuple[int, int]] = Counter()
        for labels, people in zip(codes.tolist(), person.tolist(), strict=True):
            if set(people) == set(pair):
                table[tuple(label for _name, label in sorted(zip(people, labels, strict=True)))] += 1
        n = table.total()
        agree = Fraction(sum(table[level, level] for level in range(3)), n)
        chance = sum(
            Fraction(sum(table[level, k] for k in range(3)) * sum(table[k, level] for k in range(3)), n * n)
            for level in range(3)
        )
        total += (agree - chance) / (1 - chance) * n
        units += n
    result = measure(codes, person, prompt)
    assert result.pairs == 6
    assert result.pairwise.value == pytest.approx(float(total / units))


def test_conger_is_cohen_with_two_people() -> None:
    codes, _person, prompt = draw(2, 4)
    person = np.tile([3, 8], (len(codes), 1))
    result = measure(codes, person, prompt)
    patterns = Counter(map(tuple, codes.tolist()))
    cohen = measure_agreement(
        patterns, values=(0, 1, 2), measurement="nominal", statistics=["cohen_kappa"]
    ).statistics["cohen_kappa"]
    assert result.conger.value == pytest.approx(cohen.value)
    assert result.pairwise.value == pytest.approx(cohen.value)
    swapped = measure(codes[:, ::-1], person[:, ::-1], prompt)
    assert swapped.conger.value == pytest.approx(cohen.value)


def test_conger_of_a_pool_by_hand() -> None:
    # Shares of level 0 of three people, two labels each: 1, 1/2, 0; mean 1/2, variance 1/4; of level 1 the same.
    codes = np.array([[0, 0], [0, 1], [1, 1]])
    person = np.array([[0, 1], [0, 2], [1, 2]])
    result = measure_rater_kappas(codes, person, np.arange(3), levels=2, no_interval=FEW_PROMPTS)
    # p_e = 2 (1/4 - (1/4) / 3) = 1/3; two of three agree
    assert result.conger.value == pytest.approx((2 / 3 - 1 / 3) / (1 - 1 / 3))
    assert (result.conger.low, result.conger.no_interval) == (None, FEW_PROMPTS)


@pytest.mark.parametrize("name", ["pairwise", "conger"])
def test_the_interval_is_as_wide_as_leaving_out_each_prompt_says(name: str) -> None:
    codes, person, prompt = draw(3, 4, units=1200, prompts=60)
    statistic = getattr(measure(codes, person, prompt), name)
    values = []
    for left in range(60):
        rest = prompt != left
        values.append(getattr(measure(codes[rest], person[rest], prompt[rest]), name).value)
    error = (59 / 60 * np.square(np.array(values) - np.mean(values)).sum()) ** 0.5
    assert (statistic.high - statistic.value) / 2.0 == pytest.approx(error, rel=0.15)


def test_a_unit_that_weighs_three_is_as_three_like_it() -> None:
    codes, person, prompt = draw(5, 4, units=600, prompts=60)
    weights = np.where(codes[:, 0] == 0, 1.0, 3.0)
    times = weights.astype(int)
    weighed = measure_rater_kappas(codes, person, prompt, levels=3, no_interval=None, weights=weights)
    repeated = measure(codes.repeat(times, axis=0), person.repeat(times, axis=0), prompt.repeat(times))
    for own, same in ((weighed.pairwise, repeated.pairwise), (weighed.conger, repeated.conger)):
        assert own.value == pytest.approx(same.value)
        assert own.low == pytest.approx(same.low, abs=1e-3)
        assert own.high == pytest.approx(same.high, abs=1e-3)
    plain = measure(codes, person, prompt)
    assert measure_rater_kappas(
        codes, person, prompt, levels=3, no_interval=None, weights=np.full(600, 7.0)
    ).conger.value == pytest.approx(plain.conger.value)
