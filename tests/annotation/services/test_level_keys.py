"""Which key chooses which level: the one of its value, and where that cannot be, the one on its button."""

from __future__ import annotations

import re

import pytest
from django.utils.safestring import SafeString
from hypothesis import given, settings
from hypothesis import strategies as st

from annotation.models import Dataset, Person
from annotation.views.guidelines.questions import build_question
from tests.annotation.several_criteria import LEVELS, as_criterion, criterion, guideline_of, scale
from tests.annotation.views.test_work_pages import text, visit
from tests.support import examples, make_batch


def keys(*values: float) -> list[str]:
    question = build_question(as_criterion(*values), "en", guide=SafeString())
    return [card.key for card in question.cards]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1, 3), ["1", "3"]),
        ((1, 2, 3), ["1", "2", "3"]),
        ((0, 1), ["0", "1"]),
        ((0, 4, 9), ["0", "4", "9"]),
        (range(1, 11), [*"1234567890"]),
        (range(10), [*"0123456789"]),
        ((5, 10), ["5", "0"]),
        ((0, 5, 10), ["1", "2", "3"]),  # 10 has no key beside a level 0: they are counted
        ((-1, 0, 1), ["1", "2", "3"]),
        ((0.5, 1, 1.5), ["1", "2", "3"]),
        ((20, 40, 60), ["1", "2", "3"]),
    ],
)
def test_a_level_has_the_key_of_its_value(values: tuple[float, ...], expected: list[str]) -> None:
    assert keys(*values) == expected


numbers = st.one_of(st.integers(-3, 12), st.sampled_from([0.5, 1.5, 2.25, 100]))


@settings(max_examples=examples(100))
@given(st.lists(numbers, min_size=2, max_size=10, unique=True))
def test_no_two_levels_share_a_key_and_a_digit_never_means_another_digit(values: list[float]) -> None:
    values = sorted(values)
    given_keys = keys(*values)
    assert len(set(given_keys)) == len(values)
    assert all(re.fullmatch(r"\d", key) for key in given_keys)
    if all(value in range(10) for value in values):
        assert given_keys == [str(value) for value in values]


@pytest.mark.django_db
def test_the_page_shows_each_key_on_its_level(dataset: Dataset, lin: Person, chen: Person) -> None:
    legality = criterion("legality", scale({1: LEVELS[1], 3: LEVELS[3]}))
    make_batch(guideline_of("two-levels", [legality]), dataset, annotators=[lin, chen])
    page = text(visit(lin).get("/work/first/"))
    assert re.findall(r'data-digit="(\d)"', page) == ["1", "3"]
    assert re.findall(
        r'<kbd class="key" aria-hidden="true">(\d)</kbd>\s*<span class="level__name"', page
    ) == [
        "1",
        "3",
    ]
