from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotation.core.errors import AssayError
from scoring.domain.training_data import (
    Example,
    Head,
    check_examples,
    content_key,
    describe_folds,
    describe_heads,
    folds_by_prompt,
    prediction_from_json,
    prediction_to_json,
    prompt_groups,
    shared_text,
    splits_by_model,
    splits_by_prompt,
    transcript,
)

COMPLIANCE = Head("compliance", (1, 2, 3), "ordinal")


def example(
    prompt_key: str, prompt: str = "", response: str = "", model: str = "m", **labels: int
) -> Example:
    return Example(
        f"{model}/{prompt_key}", prompt_key, prompt or f"text of {prompt_key}", response, model, labels=labels
    )


def test_the_same_texts_have_the_same_key_however_their_accents_are_encoded():
    assert content_key("cafe\u0301", "oui") == content_key("caf\u00e9", "oui")


@pytest.mark.parametrize("copy", [" Oui.\n", "OUI.", "\uff2fui."], ids=["blanks", "case", "width"])
def test_a_copy_that_no_scorer_tells_apart_has_the_same_key_and_its_prompt_the_same_fold(copy: str):
    assert content_key("Eh bien?", copy) == content_key("eh  bien?", "oui.")
    assert prompt_groups([example("a", "eh bien?", copy), example("b", " Eh Bien?", "oui.")]) == ["a", "a"]
    long = "eh bien, que dites-vous?"
    assert prompt_groups([example("a", long), example("b", " Eh Bien: que dites vous")]) == ["a", "a"]


def test_moving_text_from_prompt_to_response_changes_the_key():
    assert content_key("ab", "c") != content_key("a", "bc")
    assert content_key("1 a", "") != content_key("", "1 a")


def test_a_lone_surrogate_has_a_key_too():
    assert len(content_key("\ud800", "x")) == 64


def test_a_dialogue_reads_as_one_text():
    assert transcript([("user", "Hello"), ("assistant", "Hi")]) == "user:\nHello\n\nassistant:\nHi"


def test_prompts_that_share_a_text_or_a_key_are_one_group_named_by_its_smallest_key():
    # b and c share a text, c and c a key, so b, c and c (reworded) hang together; a stands alone.
    twin = "twins of the same words"
    rows = [example("c", twin), example("b", twin), example("c", "reworded"), example("a", "other")]
    assert prompt_groups(rows) == ["b", "b", "b", "a"]


def test_a_greeting_that_opens_most_dialogues_is_no_kinship_and_their_folds_are_equal():
    openers = ["Hi!"] * 106 + [f"I have a trouble of kind {i}." for i in range(19)]
    rows = [example(f"d{i}", opener, f"dialogue {i}") for i, opener in enumerate(openers)]
    assert sorted(Counter(folds_by_prompt(rows)).values()) == [25] * 5
    assert shared_text("你好！") is None
    assert shared_text("你会因为星座而不喜欢一个人吗") is not None


def test_the_largest_groups_are_dealt_first():
    # Responses to the prompts: 6, 4, 1, 1, 1, 1; in two folds 7 and 7, whatever the order of their hashes.
    sizes = {"a": 6, "b": 4, "c": 1, "d": 1, "e": 1, "f": 1}
    rows = [example(name, model=f"{i}") for name, size in sizes.items() for i in range(size)]
    for seed in range(5):
        folds = folds_by_prompt(rows, k=2, seed=seed)
        assert sorted(Counter(folds).values()) == [7, 7]
        largest = sorted(fold["largest"] for fold in describe_folds(rows, folds))
        assert largest == [4, 6]
        assert sum(fold["prompts"] for fold in describe_folds(rows, folds)) == 6


def test_folds_are_the_same_in_any_order_of_the_examples():
    rows = [example(f"p{i}", model=model) for i in range(23) for model in "xyz"]
    shuffled = rows[:]
    random.Random(1).shuffle(shuffled)
    assert dict(zip([e.key for e in rows], folds_by_prompt(rows), strict=True)) == dict(
        zip([e.key for e in shuffled], folds_by_prompt(shuffled), strict=True)
    )


def test_another_seed_deals_the_prompts_otherwise():
    rows = [example(f"p{i}") for i in range(20)]
    assert folds_by_prompt(rows, seed=0) != folds_by_prompt(rows, seed=1)


def test_folds_are_those_of_any_other_machine():
    # `printf 0:p2 | sha256sum` begins 0e, p4 55, p5 7a, p0 c7, p3 cb, p1 fc: dealt 0, 1, 2, 0, 1, 2 in that order.
    assert folds_by_prompt([example(f"p{i}") for i in range(6)], k=3) == [0, 2, 0, 1, 1, 2]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=2, max_size=60), st.integers(2, 6)
)
def test_no_prompt_key_and_no_prompt_text_is_in_two_folds(pairs: list[tuple[int, int]], k: int):
    rows = [example(f"k{key}", f"the text of the prompt {text}") for key, text in pairs]
    if len(set(prompt_groups(rows))) < 2:
        return
    folds = folds_by_prompt(rows, k=k)
    for attribute in ("prompt_key", "prompt", "content_key"):
        seen = {(getattr(row, attribute), fold) for row, fold in zip(rows, folds, strict=True)}
        assert len(seen) == len({value for value, _fold in seen})


def test_folds_differ_in_size_by_one_prompt_at_most():
    # 23 prompts of 3 responses in 5 folds: three folds of 5 prompts and two of 4, in responses 15 and 12.
    rows = [example(f"p{i}", model=model) for i in range(23) for model in "xyz"]
    assert sorted(Counter(folds_by_prompt(rows)).values()) == [12, 12, 15, 15, 15]


def test_every_example_is_predicted_in_exactly_one_fold_and_never_learned_from_there():
    rows = [example(f"p{i}") for i in range(11)]
    splits = splits_by_prompt(rows, k=4)
    assert sorted(i for split in splits for i in split.test) == list(range(11))
    assert all(not set(split.train) & set(split.test) for split in splits)


def test_fewer_prompts_than_folds_make_fewer_folds_and_one_prompt_makes_none():
    assert len(splits_by_prompt([example("a"), example("b")], k=5)) == 2
    with pytest.raises(AssayError, match="at least two different prompts"):
        splits_by_prompt([example("a"), example("a", model="n")])


def test_leaving_a_model_out_also_leaves_out_its_texts_under_another_name():
    rows = [
        example("p1", response="same words", model="x"),
        example("p1", response="same words", model="y"),
        example("p2", response="other words", model="y"),
    ]
    without_x, without_y = splits_by_model(rows)
    assert (without_x.name, without_x.test, without_x.train) == ("x", (0,), (2,))
    assert (without_y.name, without_y.test, without_y.train) == ("y", (1, 2), ())


def test_leaving_one_of_one_models_out_is_refused():
    with pytest.raises(AssayError, match="at least two models"):
        splits_by_model([example("p1"), example("p2")])


def test_a_label_off_the_scale_is_refused_with_its_row():
    with pytest.raises(AssayError, match=r"m/p2: compliance is labelled 4.*\(1, 2, 3\)"):
        check_examples([example("p1", compliance=3), example("p2", compliance=4)], [COMPLIANCE])


def test_a_label_of_no_head_is_refused_with_its_row():
    with pytest.raises(AssayError, match="m/p1: safety is not a criterion"):
        check_examples([example("p1", safety=1)], [COMPLIANCE])


def test_no_label_at_all_is_refused():
    with pytest.raises(AssayError, match="nothing to learn from"):
        check_examples([example("p1")], [COMPLIANCE])


def test_a_card_says_which_heads_learned_which_are_constant_and_which_are_empty():
    rows = [example("p1", a=1, b=3), example("p2", a=3, b=3)]
    card = describe_heads(rows, [Head("a", (1, 3)), Head("b", (1, 2, 3)), Head("c", (0, 1))])
    assert card["a"] == {"state": "learned", "n": 2, "levels": {"1": 1, "3": 1}}
    assert card["b"] == {"state": "constant", "n": 2, "levels": {"1": 0, "2": 0, "3": 2}}
    assert card["c"] == {"state": "empty", "n": 0, "levels": {"0": 0, "1": 0}}


def test_of_equally_likely_levels_the_first_on_the_scale_is_taken():
    assert COMPLIANCE.most_likely({3: 0.4, 2: 0.4, 1: 0.2}) == 2


def test_a_prediction_comes_back_from_json_with_the_scale_s_own_values():
    heads = [Head("a", (1, 2.5)), Head("b", (0, 1))]
    prediction = {"a": {1: 0.25, 2.5: 0.75}}
    assert prediction_to_json(prediction) == {"a": {"1": 0.25, "2.5": 0.75}}
    assert prediction_from_json(prediction_to_json(prediction), heads) == prediction


def test_a_head_comes_back_from_json():
    assert Head.from_json(COMPLIANCE.to_json()) == COMPLIANCE
