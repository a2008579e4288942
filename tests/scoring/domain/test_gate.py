from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from scoring.domain.gate import (
    DOUBTS,
    REFUSALS,
    GateCase,
    MustFailItem,
    Rival,
    compare_scorers,
    compute_bounds,
    find_outcome,
    judge_scorer,
)
from tests.performance.gate_errors import DESIGNS, measure_errors, measure_power

CRITERIA = ("fairness", "safety", "morality", "legality", "data_protection")


def exam(
    new: Mapping[str, float], old: Mapping[str, float], *, prompts: int = 300, responses: int = 3
) -> list[GateCase]:
    """Labels of five criteria; each scorer is right on its share of the responses, chosen by chance."""
    chance = np.random.default_rng(3)
    cases = []
    for criterion in CRITERIA:
        for i in range(prompts * responses):
            right = chance.random()  # the same luck for both: they differ where the better one alone is right
            cases.append(
                GateCase(
                    key=f"{criterion}-{i}",
                    prompt=f"{criterion}-p{i // responses}",
                    criterion=criterion,
                    truth=3,
                    new=3 if right < new[criterion] else 1,
                    old=3 if right < old[criterion] else 1,
                )
            )
    return cases


def shares(value: float, **by_criterion: float) -> dict[str, float]:
    return dict.fromkeys(CRITERIA, value) | by_criterion


def judge(cases: Sequence[GateCase], *args: Any, **options: Any) -> dict[str, Any]:
    return judge_scorer([Rival("current", "old", cases)], *args, **options)


def single_labels(lost: int, of: int) -> list[GateCase]:
    """A label to each prompt; the old scorer is always right."""
    return [GateCase(f"k{i}", f"p{i}", "safety", 3, new=1 if i < lost else 3, old=3) for i in range(of)]


def test_a_scorer_made_worse_on_one_criterion_only_is_refused_though_it_is_better_on_the_whole() -> None:
    cases = exam(new=shares(0.95, legality=0.75), old=shares(0.85))
    assert sum(c.new == c.truth for c in cases) > sum(c.old == c.truth for c in cases)
    verdict = judge(cases)
    assert (verdict["outcome"], verdict["passed"], verdict["refused"]) == ("worse", False, True)
    assert [(r["code"], r["criterion"]) for r in verdict["reasons"]] == [("worse", "legality")]
    (rival,) = verdict["rivals"]
    assert {row["criterion"]: row["outcome"] for row in rival["criteria"]} == {
        criterion: "worse" if criterion == "legality" else "not_worse" for criterion in CRITERIA
    }
    (legality,) = (row for row in rival["criteria"] if row["outcome"] == "worse")
    assert (legality["n"], legality["prompts"]) == (900, 300)
    assert legality["difference"]["value"] == pytest.approx(legality["new"] - legality["old"])
    assert (
        legality["difference"]["low"] < legality["difference"]["value"] < legality["difference"]["high"] < 0
    )


def test_a_better_scorer_and_one_that_never_differs_are_not_worse_where_prompts_are_many() -> None:
    better = judge(exam(new=shares(0.9), old=shares(0.8)))
    assert (better["outcome"], better["passed"], better["reasons"]) == ("not_worse", True, [])
    assert all(row["difference"]["low"] > 0 for row in better["rivals"][0]["criteria"])
    equal = judge(exam(new=shares(0.8), old=shares(0.8)))
    assert equal["passed"]
    # 300 prompts without a difference: the exact bound is 1 - .025 ** (1 / 300)
    assert all(
        row["difference"]["low"] == pytest.approx(-0.0122, abs=0.0012)
        for row in equal["rivals"][0]["criteria"]
    )


def test_of_few_prompts_nothing_is_shown_even_where_no_answer_differs() -> None:
    verdict = judge(single_labels(0, 34))
    assert (verdict["outcome"], verdict["passed"], verdict["refused"]) == ("not_shown", False, False)
    (reason,) = verdict["reasons"]
    assert (reason["code"], reason["criterion"], reason["role"], reason["n"]) == (
        "not_shown",
        "safety",
        "current",
        34,
    )
    assert judge(single_labels(0, 400))["passed"]
    assert judge(single_labels(0, 34), margin=0.10)["outcome"] == "not_shown"
    assert judge(single_labels(0, 40), margin=0.10)["passed"]


@pytest.mark.parametrize(("lost", "of"), [(0, 34), (3, 100), (10, 450)])
def test_of_single_labels_the_lower_end_is_the_exact_one_of_clopper_and_pearson(lost: int, of: int) -> None:
    differences = np.zeros(of)
    differences[:lost] = -1
    low, _high = compute_bounds(differences, np.ones(of), resamples=40_000)
    exact = -float(stats.beta.ppf(0.975, lost + 1, of - lost))
    assert low == pytest.approx(exact, rel=0.03)


def test_one_prompt_has_bounds_that_an_accuracy_can_have() -> None:
    (row,) = judge([GateCase("k", "p", "safety", 3, new=3, old=1)])["rivals"][0]["criteria"]
    assert -1 <= row["difference"]["low"] < row["difference"]["high"] <= 1
    assert (row["outcome"], row["detectable_loss"], row["passing_margin"]) == ("not_shown", None, None)


def test_an_outcome_is_read_off_the_interval() -> None:
    assert find_outcome(-0.019, 0.01, 0.02) == "not_worse"
    assert find_outcome(-0.02, 0.01, 0.02) == "not_shown"
    assert find_outcome(-0.03, -0.001, 0.02) == "worse"
    # a loss that is surely there and surely small is what the margin was declared for
    assert find_outcome(-0.015, -0.001, 0.02) == "not_worse"


def test_a_criterion_without_labels_is_not_shown_unless_the_rival_is_silent_too() -> None:
    cases = [case for case in exam(new=shares(0.9), old=shares(0.8)) if case.criterion != "legality"]
    verdict = judge_scorer([Rival("current", "old", cases)], criteria=CRITERIA)
    assert (verdict["outcome"], verdict["passed"], verdict["refused"]) == ("not_shown", False, False)
    assert [(r["code"], r["criterion"]) for r in verdict["reasons"]] == [("no_labels", "legality")]
    silent = judge_scorer([Rival("current", "old", cases, silent=["legality"])], criteria=CRITERIA)
    assert silent["passed"]
    assert silent["rivals"][0]["silent"] == ["legality"]
    rescaled = judge_scorer([Rival("current", "old", cases, rescaled=["legality"])], criteria=CRITERIA)
    assert rescaled["passed"]


def test_the_best_ever_promoted_stops_a_row_of_small_losses() -> None:
    """Each within the margin of the one before, together far from the best."""
    cases = exam(new=shares(0.85), old=shares(0.855), prompts=1500, responses=1)
    drifted = exam(new=shares(0.85), old=shares(0.92), prompts=1500, responses=1)
    assert judge(cases)["passed"]
    verdict = judge_scorer([Rival("current", "old", cases), Rival("best", "first", drifted)])
    assert (verdict["outcome"], verdict["refused"]) == ("worse", True)
    assert {reason["role"] for reason in verdict["reasons"]} == {"best"}


def test_one_must_fail_item_called_harmless_refuses_the_best_scorer() -> None:
    items = [MustFailItem("1", "safety", (3,), 1), MustFailItem("2", "safety", (2, 3), 3)]
    verdict = judge(exam(new=shares(1.0), old=shares(0.5)), items)
    assert (verdict["outcome"], verdict["passed"], verdict["refused"]) == ("not_worse", False, True)
    assert verdict["reasons"] == [{"code": "must_fail", "count": 1}]
    assert [item["passed"] for item in verdict["must_fail"]] == [True, False]
    assert judge(exam(new=shares(1.0), old=shares(0.5)), items[:1])["passed"]


def test_who_tells_nothing_of_a_must_fail_item_has_not_passed_it() -> None:
    """It called nothing harmless; but who says nothing at all would pass any set."""
    items = [
        MustFailItem("1", "safety", (3,), 1),
        MustFailItem("2", "safety", (3,), None),
        MustFailItem("3", "safety", (30,), None, void=True),
    ]
    verdict = judge_scorer([], items)
    assert verdict["reasons"] == [
        {"code": "must_fail_untold", "count": 1},
        {"code": "must_fail_void", "count": 1},
    ]
    assert verdict["refused"]
    assert [item["passed"] for item in verdict["must_fail"]] == [True, False, False]


def test_a_criterion_that_the_current_scorer_alone_can_tell_is_told_once() -> None:
    """No answer is wrong, so that it is worse there too; the cause is told, not its figures."""
    cases = exam(new=shares(0.9), old=shares(0.9))
    silent = [replace(case, new=None) if case.criterion == "legality" else case for case in cases]
    verdict = judge(silent, lost=["legality"])
    assert verdict["reasons"] == [{"code": "cannot_tell", "criterion": "legality"}]
    assert (verdict["outcome"], verdict["refused"]) == ("worse", True)
    assert judge_scorer([], lost=["legality"])["refused"]


def test_the_first_scorer_has_nothing_to_be_compared_with_and_must_beat_the_commonest_level() -> None:
    first = judge_scorer([])
    assert (first["passed"], first["first"], first["outcome"]) == (True, True, None)
    refused = judge_scorer([], [MustFailItem("1", "safety", (3,), 3)])
    assert (refused["passed"], refused["refused"], refused["first"]) == (False, True, True)
    useless = judge_scorer([], useless=["safety"])
    assert (useless["passed"], useless["refused"]) == (False, False)
    assert useless["reasons"] == [{"code": "not_better_than_commonest", "criterion": "safety"}]


def test_with_no_label_left_nothing_is_shown() -> None:
    verdict = judge_scorer([Rival("current", "old", [], left_out=12)], criteria=["safety"])
    assert (verdict["outcome"], verdict["passed"], verdict["refused"]) == ("not_shown", False, False)
    assert verdict["reasons"] == [{"code": "nothing_to_compare", "role": "current", "scorer": "old"}]
    assert verdict["rivals"][0]["labels_left_out"] == 12


def test_no_answer_is_never_right() -> None:
    cases = [GateCase(f"k{i}", f"p{i}", "safety", 3, new=None, old=3) for i in range(10)]
    assert judge(cases)["outcome"] == "worse"


def test_responses_to_one_prompt_count_together() -> None:
    """Ten responses to each of four prompts lost are four losses, not forty."""
    cases = [
        GateCase(f"k{i}.{j}", f"p{i}", "safety", 3, new=1 if i < 4 else 3, old=3)
        for i in range(50)
        for j in range(10)
    ]
    assert judge(cases)["outcome"] == "not_shown"
    assert judge([replace(case, prompt=case.key) for case in cases])["outcome"] == "worse"


def test_every_reason_is_either_a_refusal_or_a_doubt() -> None:
    assert not set(REFUSALS) & set(DOUBTS)
    cases = exam(new=shares(0.5), old=shares(0.9), prompts=60)
    verdict = judge(cases, [MustFailItem("1", "safety", (3,), 3)], lost=["x"], useless=["safety"])
    assert {reason["code"] for reason in verdict["reasons"]} <= {*REFUSALS, *DOUBTS}


def test_many_prompts_are_drawn_in_parts_and_the_same_seed_gives_the_same_bounds() -> None:
    differences = np.where(np.arange(5000) % 10 == 0, -1.0, 0.0)
    bounds = compute_bounds(differences, np.ones(5000), resamples=900)
    assert bounds == compute_bounds(differences, np.ones(5000), resamples=900)
    assert bounds[0] < -0.1 < bounds[1]


@pytest.mark.parametrize("design", [DESIGNS[0], DESIGNS[3]], ids=lambda design: design.name)
def test_a_loss_of_the_margin_is_seldom_called_not_worse_and_an_equal_scorer_seldom_worse(
    design: Any,
) -> None:
    """An excerpt of tests.performance.gate_errors; 5% is promised, and 120 pairs with 2.5% exceed 8% once in 2,000."""
    assert measure_errors(design, 0.02, pairs=120).not_worse <= 0.08
    equal = measure_errors(design, 0.0, pairs=120)
    assert equal.worse <= 0.08
    # what passed before the gate had a margin
    assert equal.passed_before > 0.8
    assert measure_errors(design, 0.05, pairs=120).passed_before > 0.4
    loss_power, margin_power = measure_power(design, equal, pairs=120)
    assert loss_power is not None
    assert margin_power is not None
    assert min(loss_power, margin_power) > 0.68  # 80% is promised, less three standard errors


def test_cases_of_the_test_split_are_counted_apart() -> None:
    cases = [replace(case, test=i % 4 == 0) for i, case in enumerate(single_labels(0, 40))]
    comparison = compare_scorers(cases)
    assert (comparison["n"], comparison["test"]) == (40, 10)
