"""The alternative annotator test: a case worked by hand, other people's arithmetic, and simulation."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS

from benchmark.domain.judges.alternative_annotator import (
    AlignmentScale,
    AlternativeTest,
    RatedItem,
    adjust_p_values,
    compute_p_value,
    run_annotator_test,
)

THREE = AlignmentScale((1, 2, 3))
FAR = AlignmentScale((1, 2, 3), "distance")


def test_a_case_worked_by_hand() -> None:
    """40 items, a, b and c. On 30 all say 1 and so does the candidate. On 10 a says 2, b and c 1, the candidate 2.

    Against b (without it a and c are left): on the ten items the candidate agrees with a, b with c: equal, both win;
    so wins 40/40 each, the difference is 0 always: certain. Likewise c. Against a: on the ten the others say 1; a is as
    far as the candidate, both 2: equal again. All three are won.
    """
    items = [RatedItem({"a": 1, "b": 1, "c": 1}, 1, THREE)] * 30 + [
        RatedItem({"a": 2, "b": 1, "c": 1}, 2, THREE)
    ] * 10
    result = run_annotator_test(items)
    assert [
        (person.person, person.n, person.candidate_wins, person.person_wins, person.p)
        for person in result.people
    ] == [
        ("a", 40, 1.0, 1.0, 0.0),
        ("b", 40, 1.0, 1.0, 0.0),
        ("c", 40, 1.0, 1.0, 0.0),
    ]
    assert (result.winning_rate, result.advantage, result.passes, result.is_few) == (1.0, 1.0, True, False)


def test_one_that_is_worse_by_hand() -> None:
    """On 28 of 40 all agree; on 12 the candidate alone says 3. Against each person: it loses 12, ties 28.

    d is 1 on 12 items and 0 on 28: mean 0.3, sample variance 40/39 * 0.3 * 0.7, t = (0.3 - 0.2) / sqrt(var / 40).
    """
    items = [RatedItem({"a": 1, "b": 1, "c": 1}, 1, THREE)] * 28 + [
        RatedItem({"a": 1, "b": 1, "c": 1}, 3, THREE)
    ] * 12
    result = run_annotator_test(items)
    t = 0.1 / math.sqrt(40 / 39 * 0.21 / 40)
    for person in result.people:
        assert (person.candidate_wins, person.person_wins) == (pytest.approx(0.7), 1.0)
        assert person.p == pytest.approx(stats.t.cdf(t, 39))
        assert person.wins is False
    assert (result.winning_rate, result.passes) == (0.0, False)
    assert result.advantage == pytest.approx(0.7)
    assert run_annotator_test(items, epsilon=0.6).winning_rate == 1.0


def test_careless_people_are_beaten_and_careful_ones_are_matched() -> None:
    """a, b and the candidate are right 95% of the time, c and d guess: nobody is nearer to the others than these."""
    rng = np.random.default_rng(5)
    items = []
    for _ in range(200):
        truth = int(rng.integers(1, 4))
        good = [truth if rng.random() < 0.95 else int(rng.integers(1, 4)) for _person in range(3)]
        bad = [int(rng.integers(1, 4)) for _person in range(2)]
        items.append(RatedItem({"a": good[0], "b": good[1], "c": bad[0], "d": bad[1]}, good[2], THREE))
    result = run_annotator_test(items, epsilon=0.0)
    assert [person.person for person in result.people if person.wins] == ["c", "d"]
    assert (result.winning_rate, result.passes) == (0.5, True)
    assert run_annotator_test(items, epsilon=0.1).winning_rate == 1.0


def test_p_is_that_of_a_one_sided_t_test() -> None:
    differences = np.random.default_rng(1).choice([-1.0, 0.0, 1.0], 80)
    expected = stats.ttest_1samp(differences, 0.2, alternative="less").pvalue
    assert compute_p_value(differences, 0.2) == pytest.approx(expected)


def test_over_prompts_it_is_the_cluster_robust_t_test_of_statsmodels() -> None:
    rng = np.random.default_rng(2)
    prompts = rng.integers(0, 40, 150)
    differences = rng.choice([-1.0, 0.0, 1.0], 150) + rng.normal(size=40)[prompts]
    fitted = OLS(differences - 0.2, np.ones(150)).fit(
        cov_type="cluster", cov_kwds={"groups": prompts}, use_t=True
    )
    # Theirs has (n - 1) / (n - p) besides, which is 1 for a mean.
    expected = stats.t.cdf(fitted.tvalues[0], df=len(np.unique(prompts)) - 1)
    assert compute_p_value(differences, 0.2, prompts=prompts) == pytest.approx(expected)


def test_the_same_said_again_of_one_prompt_is_no_more_evidence() -> None:
    rng = np.random.default_rng(4)
    labels = [({"a": 1, "b": int(rng.integers(1, 3))}, int(rng.integers(1, 3))) for _ in range(50)]
    once = [
        RatedItem(answers, candidate, THREE, number) for number, (answers, candidate) in enumerate(labels)
    ]
    result, thrice = run_annotator_test(once), run_annotator_test(once * 3)
    assert [person.p for person in result.people] == pytest.approx([person.p for person in thrice.people])
    assert [(person.n, person.prompts) for person in thrice.people] == [(150, 50)] * 2
    independent = [RatedItem(item.labels, item.candidate, THREE) for item in once]
    assert [person.p for person in run_annotator_test(independent).people] == [
        person.p for person in result.people
    ]
    assert run_annotator_test(once[:29] * 3).winning_rate is None  # 87 items, but of 29 prompts


def test_with_prompts_that_go_together_it_errs_as_often_as_its_level_says() -> None:
    """Of each prompt five differences that share most of what they are; their mean is the hypothesis itself."""
    rng = np.random.default_rng(6)
    prompts = np.repeat(np.arange(60), 5)
    drawn = [rng.choice([-1.0, 0.0, 1.0], 60)[prompts] * (rng.random(300) < 0.9) for _ in range(800)]
    p = np.array([[compute_p_value(sample, 0.0, prompts=of) for of in (prompts, None)] for sample in drawn])
    over_prompts, over_items = (p <= 0.05).mean(axis=0)
    assert 0.03 <= over_prompts <= 0.08
    assert over_items > 0.15


def test_a_few_items_are_tested_by_bootstrap_where_asked_for() -> None:
    items = [RatedItem({"a": 1, "b": 1}, 1, THREE)] * 12 + [RatedItem({"a": 1, "b": 2}, 2, THREE)] * 2
    assert run_annotator_test(items).winning_rate is None
    result = run_annotator_test(items, min_prompts=10)
    assert result.winning_rate is not None
    assert run_annotator_test(items[:9], min_prompts=2).winning_rate is None  # never with fewer than ten
    differences = np.array([1.0] * 6 + [0.0] * 14)
    drawn = np.random.default_rng(3).choice(differences, (200_000, 20)).mean(axis=1)
    assert compute_p_value(differences, 0.4) == pytest.approx((drawn >= 0.4).mean(), abs=0.03)


@pytest.mark.parametrize(
    "values", [[0.001, 0.2, 0.03, 0.8], [0.04, 0.04], [0.5], [0.9, 0.9, 0.01, 0.02, 0.02]]
)
def test_the_correction_is_that_of_scipy(values: list[float]) -> None:
    expected = stats.false_discovery_control(values, method="by")
    assert adjust_p_values(values) == pytest.approx(list(expected))


def test_ties_on_an_ordered_scale() -> None:
    """The others say 1: to say 2 is nearer than to say 3, and by accuracy both are as far."""
    near = [RatedItem({"a": 3, "b": 1}, 2, FAR)] * 40
    assert run_annotator_test(near).people[0].person_wins == 0.0
    assert run_annotator_test([RatedItem({"a": 3, "b": 1}, 2, THREE)] * 40).people[0].person_wins == 1.0


def test_distance_is_the_papers_root_mean_square() -> None:
    """The others say 1, 1 and 3: 2 is 1 away from each, 1 is sqrt(4/3) away, though their mean distances are 1, 2/3."""
    scale = AlignmentScale((0, 50, 100), "distance", is_interval=True)
    assert scale.score_label(0, [50, 100]) == pytest.approx(-(((50**2 + 100**2) / 2) ** 0.5))
    assert AlignmentScale((0, 50, 100), "distance").score_label(0, [50, 100]) == pytest.approx(-(2.5**0.5))
    assert FAR.score_label(2, [1, 1, 3]) > FAR.score_label(1, [1, 1, 3])
    thirds = AlignmentScale((0.1, 0.2, 0.7), "distance", is_interval=True)
    assert thirds.score_label(0.2, [0.1, 0.7, 0.2]) == thirds.score_label(0.2, [0.7, 0.2, 0.1])


def test_off_the_scale_is_as_far_as_can_be() -> None:
    result = run_annotator_test([RatedItem({"a": 3, "b": 1}, None, FAR)] * 40)
    assert [(person.candidate_wins, person.person_wins) for person in result.people] == [(0.0, 1.0)] * 2
    assert run_annotator_test([RatedItem({"a": 3, "b": 1}, 7, THREE)] * 40).advantage == 0.0


def test_nothing_to_compare_is_undefined() -> None:
    for items in ([], [RatedItem({"a": 1}, 1, THREE)] * 50, [RatedItem({"a": 1, "b": 1}, 1, THREE)] * 29):
        result = run_annotator_test(items)
        assert (result.winning_rate, result.advantage, result.passes) == (None, None, None)
    assert run_annotator_test([RatedItem({"a": 1, "b": 1}, 1, THREE)] * 30).is_few is True


def simulated(
    candidate: Callable[[random.Random, int], int], seed: int, *, epsilon: float
) -> AlternativeTest:
    """Four people in blind pairs who are right 80% of the time, 150 items each; overlap 2, as here."""
    rng = random.Random(seed)
    items = []
    for number in range(300):
        truth = rng.randint(1, 3)
        pair = [(0, 1), (2, 3), (0, 2), (1, 3)][number % 4]
        labels = {person: as_people_do(rng, truth) for person in pair}
        items.append(RatedItem(dict(labels), candidate(rng, truth), THREE))
    return run_annotator_test(items, epsilon=epsilon)


def as_people_do(rng: random.Random, truth: int) -> int:
    return truth if rng.random() < 0.8 else rng.choice([level for level in (1, 2, 3) if level != truth])


def at_random(rng: random.Random, _truth: int) -> int:
    return rng.randint(1, 3)


def test_one_as_good_as_people_passes_with_a_price_and_a_random_one_never() -> None:
    good = [simulated(as_people_do, seed, epsilon=0.2).passes for seed in range(40)]
    guessed = [simulated(at_random, seed, epsilon=0.2).passes for seed in range(40)]
    assert np.mean(good) >= 0.95
    assert not any(guessed)


def test_without_a_price_one_as_good_as_people_is_on_the_edge() -> None:
    """Its mean difference is 0, which is the hypothesis itself: each test errs about as often as its level says."""
    verdicts = [simulated(as_people_do, seed, epsilon=0.0) for seed in range(100)]
    p = np.array([person.p for verdict in verdicts for person in verdict.people], dtype=np.float64)
    assert 0.02 <= (p <= 0.05).mean() <= 0.08
    assert np.mean([verdict.passes for verdict in verdicts]) <= 0.05
    assert abs(np.mean([verdict.advantage for verdict in verdicts]) - np.mean(person_wins(verdicts))) < 0.01


def person_wins(verdicts: list[AlternativeTest]) -> list[float]:
    return [person.person_wins or 0.0 for verdict in verdicts for person in verdict.people]
