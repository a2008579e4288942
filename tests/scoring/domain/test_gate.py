from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from scoring.domain.gate import REASONS, GateCase, MustFailItem, judge_scorer

CRITERIA = ("fairness", "safety", "morality", "legality", "data_protection")


def exam(
    new: Mapping[str, float], old: Mapping[str, float], *, prompts: int = 100, responses: int = 3
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


def test_a_scorer_made_worse_on_one_criterion_only_is_refused_though_it_is_better_on_the_whole() -> None:
    cases = exam(new=shares(0.95, legality=0.75), old=shares(0.85))
    assert sum(c.new == c.truth for c in cases) > sum(c.old == c.truth for c in cases)
    verdict = judge_scorer(cases)
    assert not verdict["passed"]
    assert [(r["code"], r["criterion"]) for r in verdict["reasons"]] == [("worse", "legality")]
    assert {row["criterion"]: row["passed"] for row in verdict["criteria"]} == {
        criterion: criterion != "legality" for criterion in CRITERIA
    }
    (legality,) = (row for row in verdict["criteria"] if not row["passed"])
    assert legality["n"] == 300
    assert legality["prompts"] == 100
    assert legality["difference"]["value"] == pytest.approx(legality["new"] - legality["old"])
    assert legality["difference"]["low"] < legality["difference"]["value"] < legality["bound"] < 0


def test_a_better_scorer_is_promoted_and_an_equal_one_too() -> None:
    better = judge_scorer(exam(new=shares(0.9), old=shares(0.8)))
    assert (better["passed"], better["reasons"], better["labels"]) == (True, [], 1500)
    assert all(row["difference"]["low"] > 0 for row in better["criteria"])
    equal = judge_scorer(exam(new=shares(0.8), old=shares(0.8)))
    assert equal["passed"]
    assert {row["difference"]["value"] for row in equal["criteria"]} == {0.0}


def test_one_must_fail_item_called_harmless_refuses_the_best_scorer() -> None:
    items = [
        MustFailItem("1", "safety", (3,), 1),
        MustFailItem("2", "safety", (2, 3), 3),
    ]
    verdict = judge_scorer(exam(new=shares(1.0), old=shares(0.5)), items)
    assert not verdict["passed"]
    assert verdict["reasons"] == [{"code": "must_fail", "count": 1}]
    assert [item["passed"] for item in verdict["must_fail"]] == [True, False]
    assert judge_scorer(exam(new=shares(1.0), old=shares(0.5)), items[:1])["passed"]


def test_who_tells_nothing_of_a_must_fail_item_has_not_passed_it() -> None:
    """It called nothing harmless; but who says nothing at all would pass any set."""
    items = [
        MustFailItem("1", "safety", (3,), 1),
        MustFailItem("2", "safety", (3,), None),
        MustFailItem("3", "safety", (30,), None, void=True),
    ]
    verdict = judge_scorer([], items, first=True)
    assert verdict["reasons"] == [
        {"code": "must_fail_untold", "count": 1},
        {"code": "must_fail_void", "count": 1},
    ]
    assert [item["passed"] for item in verdict["must_fail"]] == [True, False, False]


def test_a_criterion_that_the_current_scorer_alone_can_tell_is_told_once() -> None:
    """No answer is wrong, so that it is worse there too; the cause is told, not its figures."""
    cases = exam(new=shares(0.9), old=shares(0.9))
    silent = [replace(case, new=None) if case.criterion == "legality" else case for case in cases]
    verdict = judge_scorer(silent, lost=["legality"])
    assert verdict["reasons"] == [{"code": "cannot_tell", "criterion": "legality"}]
    assert judge_scorer(cases)["passed"]
    assert not judge_scorer([], first=True, lost=["legality"])["passed"]


def test_the_first_scorer_needs_to_pass_the_must_fail_set_alone() -> None:
    assert judge_scorer([], first=True)["passed"]
    refused = judge_scorer([], [MustFailItem("1", "safety", (3,), 3)], first=True)
    assert (refused["passed"], refused["first"]) == (False, True)


def test_what_either_has_learned_from_is_left_out_and_with_nothing_left_nothing_passes() -> None:
    cases = exam(new=shares(0.5), old=shares(0.9), prompts=40, responses=1)
    known = {case.key for case in cases if case.new != case.old}
    verdict = judge_scorer(cases, learned=known)
    # Where they disagree both may have cheated; on what is left they are the same.
    assert verdict["passed"]
    assert (verdict["labels"], verdict["labels_left_out"]) == (len(cases) - len(known), len(known))
    empty_verdict = judge_scorer(cases, learned={case.key for case in cases})
    assert not empty_verdict["passed"]
    assert empty_verdict["reasons"] == [{"code": "nothing_to_compare"}]


def test_no_answer_is_never_right() -> None:
    cases = [GateCase(f"k{i}", f"p{i}", "safety", 3, new=None, old=3) for i in range(10)]
    assert not judge_scorer(cases)["passed"]


def test_a_loss_below_the_smallest_that_is_told_goes_unnoticed_and_one_above_is_found() -> None:
    def lost(prompts: int) -> dict[str, object]:
        cases = [
            GateCase(f"k{i}", f"p{i}", "safety", 3, new=1 if i < prompts else 3, old=3) for i in range(200)
        ]
        (row,) = judge_scorer(cases)["criteria"]
        return row  # type: ignore[no-any-return]

    # (1 - 2/200)^200 = .134 of the draws miss both prompts, (1 - 3/200)^200 = .0487 miss all three.
    assert lost(2)["passed"]
    assert not lost(3)["passed"]
    assert lost(0)["smallest_loss"] == pytest.approx(3 / 200)


def test_responses_to_one_prompt_count_together() -> None:
    """Ten responses to each of two prompts lost are two losses, not twenty."""
    cases = [
        GateCase(f"k{i}.{j}", f"p{i}", "safety", 3, new=1 if i < 2 else 3, old=3)
        for i in range(50)
        for j in range(10)
    ]
    assert judge_scorer(cases)["passed"]
    separate_cases = [
        GateCase(case.key, case.key, case.criterion, case.truth, case.new, case.old) for case in cases
    ]
    assert not judge_scorer(separate_cases)["passed"]


def test_an_equal_scorer_is_refused_no_more_often_than_it_says() -> None:
    """Two scorers of the same quality that err independently: 5% of such tests refuse, by design."""
    chance, refused = np.random.default_rng(1), 0
    for trial in range(200):
        right = chance.random((100, 2)) < 0.85
        cases = [
            GateCase(f"{i}", f"p{i}", "safety", 3, new=3 if a else 1, old=3 if b else 1)
            for i, (a, b) in enumerate(right)
        ]
        refused += not judge_scorer(cases, resamples=400, seed=trial)["passed"]
    # The binomial's 99.9% point for p = .05 is 21 of 200; the bootstrap is a little eager in small samples.
    assert refused <= 21


@pytest.mark.parametrize(("code", "names"), [("worse", {"criterion", "new", "old", "n", "bound"})])
def test_every_reason_can_be_told(code: str, names: set[str]) -> None:
    verdict = judge_scorer(
        exam(new=shares(0.5), old=shares(0.9)), [MustFailItem("1", "safety", (3,), 3)], learned=(), lost=["x"]
    )
    reasons = {reason["code"]: reason for reason in verdict["reasons"]}
    assert reasons[code].keys() == {"code", *names}
    for reason in [*verdict["reasons"], {"code": "nothing_to_compare"}]:
        assert "{" not in REASONS[reason["code"]].format(**reason)


def test_criteria_of_the_guideline_that_no_case_speaks_of_are_named() -> None:
    cases = [case for case in exam(shares(0.9), shares(0.8)) if case.criterion in ("safety", "morality")]
    verdict = judge_scorer(cases, criteria=CRITERIA)
    assert verdict["passed"]
    assert verdict["unjudged"] == ["data_protection", "fairness", "legality"]
    learned = {case.key for case in cases if case.criterion == "safety"}
    assert "safety" in judge_scorer(cases, criteria=CRITERIA, learned=learned)["unjudged"]
    assert judge_scorer(cases, criteria=CRITERIA, first=True)["unjudged"] == []
    other = judge_scorer(cases, criteria=CRITERIA, rescaled=["legality"])
    assert (other["unjudged"], other["rescaled"]) == (["data_protection", "fairness"], ["legality"])
    assert judge_scorer([], criteria=CRITERIA, rescaled=CRITERIA, first=True)["rescaled"] == []
