"""Multiple-choice questions of judged responses: which pairs are drawn, and what is said of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotation.core.errors import AssayError
from benchmark.domain.multiple_choice.questions import (
    JudgedResponse,
    LabelCondition,
    QuestionRules,
    make_questions,
)

SCALES = {"grade": (1, 2, 3), "safety": (0, 1)}


def judged(prompt: str, text: str, model: str = "M", **labels: float) -> JudgedResponse:
    return JudgedResponse(
        prompt=f"d/{prompt}",
        key=prompt,
        question=f"Question {prompt}?",
        category="law",
        language="zh",
        text=text,
        model=model,
        labels=labels,
    )


def rules(safe: str = "grade>=2", unsafe: str = "grade<=1", n: int = 1, seed: int = 0) -> QuestionRules:
    return QuestionRules(LabelCondition.parse(safe), LabelCondition.parse(unsafe), SCALES, n, seed)


@pytest.mark.parametrize(
    ("text", "levels"),
    [("grade>=2", [2, 3]), (" grade <= 2 ", [1, 2]), ("grade=3", [3]), ("grade>=2.5", [3])],
)
def test_a_condition_names_levels(text: str, levels: list[int]) -> None:
    condition = LabelCondition.parse(text)
    assert [level for level in SCALES["grade"] if condition.holds(level)] == levels


@pytest.mark.parametrize("text", ["", "grade", "grade>2", "grade>=", "grade>=high", ">=2", "grade>=2 or 3"])
def test_what_is_no_condition_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(AssayError, match="as in safety>=1"):
        LabelCondition.parse(text)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"safe": "harm>=1"}, "no labels of harm; it has: grade, safety"),
        ({"safe": "grade>=4"}, "No level of grade is grade>=4; its levels are 1, 2, 3"),
        ({"unsafe": "grade<=2"}, "2 would be safe and unsafe"),
        ({"n": 0}, "at least 1 question, not 0"),
    ],
)
def test_rules_that_cannot_be_are_refused(changed: dict[str, object], message: str) -> None:
    with pytest.raises(AssayError, match=message):
        rules(**changed).check()  # type: ignore[arg-type]


def test_a_prompt_with_both_sides_is_a_question_and_any_other_is_counted() -> None:
    made = make_questions(
        [
            judged("1", "good", "A", grade=3),
            judged("1", "bad", "B", grade=1),
            judged("2", "good", grade=3),
            judged("3", "bad", grade=1),
            judged("4", "unlabelled", safety=1),
        ],
        rules(),
    )
    (question,) = made.questions
    assert question.to_row() == {
        "id": "1",
        "prompt": "Question 1?",
        "category": "law",
        "pos_resp": "good",
        "neg_resp": "bad",
        "pos_type": "grade=3",
        "neg_type": "grade=1",
        "difficulty_level": "easy",
    }
    assert (made.prompts, made.one_sided) == (4, 3)


def test_what_both_conditions_hold_for_is_on_neither_side() -> None:
    both = judged("1", "mixed", grade=3, safety=0)
    made = make_questions([both, judged("1", "bad", grade=1, safety=0)], rules("grade>=3", "safety<=0"))
    assert not made.questions


def test_equal_texts_are_no_choice() -> None:
    pair = [judged("1", "same ", grade=3), judged("1", " same", grade=1)]
    assert not make_questions(pair, rules()).questions
    other = judged("1", "another", grade=1)
    (question,) = make_questions([*pair, other], rules()).questions
    assert question.unsafe == other


@pytest.mark.parametrize(("safe", "unsafe", "difficulty"), [(3, 1, "easy"), (2, 1, "hard"), (3, 2, "hard")])
def test_neighbours_on_the_scale_are_hard(safe: int, unsafe: int, difficulty: str) -> None:
    pair = [judged("1", "good", grade=safe), judged("1", "bad", grade=unsafe)]
    conditions = rules(f"grade={safe}", f"grade={unsafe}")
    (question,) = make_questions(pair, conditions).questions
    assert question.difficulty == difficulty


def test_a_scale_of_two_levels_says_nothing_of_difficulty() -> None:
    pair = [judged("1", "good", safety=1), judged("1", "bad", safety=0)]
    (question,) = make_questions(pair, rules("safety>=1", "safety<=0")).questions
    assert "difficulty_level" not in question.to_row()


@given(good=st.integers(1, 5), bad=st.integers(1, 5), n=st.integers(1, 30), seed=st.integers(0, 9))
def test_each_pair_is_drawn_once_and_responses_as_evenly_as_can_be(
    good: int, bad: int, n: int, seed: int
) -> None:
    responses = [judged("1", f"good {i}", f"A{i}", grade=3) for i in range(good)]
    responses += [judged("1", f"bad {i}", f"B{i}", grade=1) for i in range(bad)]
    made = make_questions(responses, rules(n=n, seed=seed))
    pairs = [(question.safe.text, question.unsafe.text) for question in made.questions]
    assert len(pairs) == len(set(pairs)) == min(n, good * bad)
    assert len({question.id for question in made.questions}) == len(pairs)
    for side, size in (("safe", good), ("unsafe", bad)):
        uses = made.count_models(side)
        counts = [uses[model] for model in uses] + [0] * (size - len(uses))
        assert max(counts) - min(counts) <= 1
    made_anew = make_questions(list(reversed(responses)), rules(n=n, seed=seed))
    assert [question.to_row() for question in made_anew.questions] == [
        question.to_row() for question in made.questions
    ]


def test_a_model_with_more_than_half_of_the_safe_side_is_named() -> None:
    def build(models: str) -> object:
        responses = []
        for number, model in enumerate(models):
            responses += [judged(str(number), "good", model, grade=3), judged(str(number), "bad", grade=1)]
        return make_questions(responses, rules()).to_json()["dominant"]

    assert build("AAB") == {"model": "A", "share": pytest.approx(2 / 3)}
    assert build("AABB") is None
    assert build("") is None


def test_ids_of_two_datasets_do_not_meet() -> None:
    pair = [judged("1", "good", grade=3), judged("1", "bad", grade=1)]
    other_pair = [
        JudgedResponse("e/1", "1", "Other?", "", "zh", text, "M", {"grade": grade})
        for text, grade in (("well", 3), ("ill", 1))
    ]
    made = make_questions([*pair, *other_pair], rules())
    assert [question.id for question in made.questions] == ["d/1", "e/1"]
    long = [
        JudgedResponse("d/" + "x" * 199, "x" * 199, "Long?", "", "zh", text, "M", {"grade": grade})
        for text, grade in (("well", 3), ("ill", 1))
    ]
    (question,) = make_questions(long, rules()).questions
    assert len(question.id) == 16
