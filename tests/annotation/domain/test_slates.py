"""Slates as rules: the orders in which they are read, what an answer means, and what a guideline may ask of them."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import chisquare

from annotation.core.errors import AssayError, Unprocessable
from annotation.domain.datasets import response_sha256
from annotation.domain.guidelines import Criterion, GuidelineDocument
from annotation.domain.guidelines.entries import (
    NONE,
    TIE,
    list_rankings,
    move_entries,
    name_ranking,
    read_ranking,
    write_ranking,
)
from annotation.domain.slates import (
    EntryOrders,
    Preference,
    build_turns,
    choose_sets,
    draw_order,
    list_preferences,
    name_models,
    place_label,
)
from tests.annotation.slates import BEST, slate_document

OWN = {
    "name": "own",
    "label": BEST["label"],
    "question": BEST["question"],
    "applies_to": "all",
    "kind": "text",
}


def best(**changes: Any) -> Criterion:
    return Criterion.model_validate({**BEST, **changes})


@pytest.mark.parametrize("entries", [2, 3, 4, 5])
def test_a_person_reads_each_entry_equally_often_at_each_position(entries: int) -> None:
    for person in range(3):
        counts = Counter(
            (place, position)
            for number in range(entries * 20)
            for position, place in enumerate(
                draw_order(seed=1, person=person, number=number, entries=entries)
            )
        )
        assert set(counts.values()) == {20}
        assert len(counts) == entries * entries


def test_the_positions_of_a_thousand_claims_pass_a_chi_squared_test() -> None:
    claims = [
        draw_order(seed=9, person=person, number=number, entries=3)
        for person in range(10)
        for number in range(100)
    ]
    for place in (1, 2, 3):
        counts = Counter(order.index(place) for order in claims)
        assert chisquare([counts[position] for position in range(3)]).pvalue > 0.01
    # Within blocks the order is not the same for everybody, and all orders of two occur.
    assert len({tuple(claims[start : start + 100]) for start in range(0, 1000, 100)}) == 10


def test_models_stand_equally_often_at_each_place_of_the_slates() -> None:
    orders = EntryOrders(seed=4)
    counts = Counter(
        (model, place) for _slate in range(30) for place, model in enumerate(orders.arrange(["a", "b", "c"]))
    )
    assert set(counts.values()) == {10}


def test_pairs_are_made_of_each_prompt_or_balanced() -> None:
    sources, prompts = ["a", "b", "c", "d"], list(range(60))
    every = Counter(pair for _prompt, pair in choose_sets(sources, prompts, pairs="all", seed=1))
    assert set(every.values()) == {60}
    assert len(every) == 6
    balanced = list(choose_sets(sources, prompts, pairs="balanced", seed=1))
    assert sorted(prompt for prompt, _pair in balanced) == prompts
    assert set(Counter(pair for _prompt, pair in balanced).values()) == {10}
    assert balanced == list(choose_sets(sources, prompts, pairs="balanced", seed=1))
    with pytest.raises(AssayError, match="2 to 5"):
        list(choose_sets(list("abcdef"), prompts, pairs=None, seed=1))


@given(st.lists(st.integers(1, 5), min_size=2, max_size=5))
def test_a_ranking_is_kept_whatever_numbers_it_came_in(ranks: list[int]) -> None:
    value = write_ranking(ranks)
    assert value in list_rankings(len(ranks), ties=True)
    dense = read_ranking(value)
    for (a, x), (b, y) in permutations(zip(ranks, dense, strict=True), 2):
        assert (a < b) == (x < y)
    assert write_ranking(dense) == value


@given(st.integers(2, 5).flatmap(lambda n: st.tuples(st.permutations(range(1, n + 1)), st.integers(0, 4))))
def test_an_answer_reads_in_another_order_and_back(drawn: tuple[list[int], int]) -> None:
    order, place = drawn
    place = place % len(order) + 1
    position = move_entries(place, order, kind="best")
    assert order[position - 1] == place
    flags = move_entries(1 << place - 1, order, kind="best", several=True)
    assert flags == 1 << position - 1
    back = [order.index(place) + 1 for place in range(1, len(order) + 1)]
    for ranking in list_rankings(len(order), ties=True)[:50]:
        moved = move_entries(ranking, order, kind="ranking")
        assert move_entries(moved, back, kind="ranking") == ranking
    assert move_entries(NONE, order, kind="best") == NONE
    assert move_entries(TIE, order, kind="best") == TIE


def test_the_numbers_of_rankings_with_and_without_ties() -> None:
    assert [len(list_rankings(n, ties=True)) for n in (2, 3, 4, 5)] == [3, 13, 75, 541]
    assert [len(list_rankings(n, ties=False)) for n in (2, 3, 4, 5)] == [2, 6, 24, 120]
    assert name_ranking(212)["en"] == "2 > 1 = 3"


def test_what_a_label_prefers() -> None:
    assert list_preferences(best(), 2, 3) == [Preference(2, 1), Preference(2, 3)]
    assert list_preferences(best(none=True), NONE, 3) == []
    assert list_preferences(best(ties=True), TIE, 2) == [Preference(1, 2, is_tie=True)]
    assert list_preferences(best(several=True), 5, 3) == [Preference(1, 2), Preference(3, 2)]
    ranking = best(entries="ranking", ties=True)
    assert list_preferences(ranking, 211, 3) == [
        Preference(2, 1),
        Preference(3, 1),
        Preference(2, 3, is_tie=True),
    ]


def test_labels_are_checked_against_the_slate() -> None:
    of_three = best(none=True).at_entries(3)
    assert [of_three.check(value) for value in (0, 1, 3)] == [0, 1, 3]
    for wrong in (4, -1, "na", None, 1.5):
        with pytest.raises(Unprocessable):
            of_three.check(wrong)
    several = best(several=True, none=True).at_entries(3)
    assert several.check([1, 4]) == 5
    assert several.check(0) == 0
    for wrong in (8, [1, 8], [0, 1]):
        with pytest.raises(Unprocessable):
            several.check(wrong)
    ranking = best(entries="ranking", ties=True).at_entries(3)
    assert ranking.check([2, 1, 3]) == 213
    assert ranking.check(112) == 112
    for wrong in (21, 1123, 113, [1, 2], [1, 2, 9], "213"):
        with pytest.raises(Unprocessable):
            ranking.check(wrong)
    with pytest.raises(Unprocessable):
        best(entries="ranking").at_entries(3).check(112)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"entries": "ranking", "none": True}, "cannot be asked with"),
        ({"entries": "ranking", "several": True}, "cannot be asked with"),
        ({"several": True, "ties": True}, "cannot be asked with"),
        ({"entries": None, "ties": True, "scale": []}, "Only a choice among entries"),
        ({"kind": "level", "measurement": "ordinal"}, "has no entries"),
        ({"scale": [{"value": 1, "name": {"en": "x"}, "definition": {"en": "x"}}]}, "only none"),
    ],
)
def test_what_cannot_be_asked_of_entries_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        best(**changes)


def test_entries_are_those_of_slates() -> None:
    assert GuidelineDocument.model_validate(slate_document()).asks_of_turns
    for document, words in (
        (slate_document(unit="response"), "Only slates have entries"),
        (slate_document({**OWN, "or_if": {"criterion": "best", "is": 1}}), "before or_if"),
    ):
        with pytest.raises(ValidationError, match=words):
            GuidelineDocument.model_validate(document)


def test_a_text_may_hang_on_two_answers() -> None:
    score = {
        **{name: BEST[name] for name in ("label", "question", "applies_to")},
        "name": "score",
        "kind": "level",
        "measurement": "interval",
        "range": {"min": 1, "max": 10},
        "scale": [
            {"value": value, "name": {"en": "x", "zh": "x"}, "definition": {"en": "x", "zh": "x"}}
            for value in (1, 10)
        ],
        "asked_if": {"criterion": "best", "at_least": 1},
    }
    own = {
        **OWN,
        "asked_if": {"criterion": "best", "is": -1},
        "or_if": {"criterion": "score", "at_most": 4},
    }
    document = GuidelineDocument.model_validate(slate_document(score, own))
    for labels, is_asked in (
        ({"best": -1}, True),
        ({"best": 2, "score": 4}, True),
        ({"best": 2, "score": 5}, False),
    ):
        assert document.criterion("own").is_asked(labels) is is_asked


def test_names_and_hashes() -> None:
    assert name_models([("b", ""), ("a", "")]) == "a | b"
    assert name_models([("a", "s-2"), ("a", "s-1")]) == "a@s-1 | a@s-2"
    long = name_models([("x" * 90, ""), ("y" * 90, "")])
    assert len(long) == 100
    turns = [[{"role": "assistant", "text": text}] for text in "ab"]
    assert response_sha256("", build_turns(turns)) != response_sha256("", build_turns(turns[::-1]))
    assert response_sha256("", build_turns(turns)) != response_sha256("", [*turns[0], *turns[1]])
    sources = [("a", "one"), ("b", "two")]
    assert [place_label(label, sources) for label in ("a", "b@two", "tie", "none", 2, "c")] == [
        1,
        2,
        TIE,
        NONE,
        2,
        "c",
    ]
