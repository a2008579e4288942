"""Evidence that is quoted in the place of offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotation.domain.quotations import find_quotation, is_no_quotation


def test_every_place_in_the_texts_that_are_there():
    texts = [None, "so good, so good", "好的好的好", ""]
    assert list(find_quotation(" so good\n", texts)) == [(1, 0, 7), (1, 9, 16)]
    assert list(find_quotation("好的好", texts)) == [(2, 0, 3), (2, 2, 5)]
    assert list(find_quotation("bad", texts)) == []


@given(st.lists(st.none() | st.text("ab ", max_size=12), max_size=4), st.text("ab", min_size=1, max_size=3))
def test_each_place_has_the_words(texts: list[str | None], quote: str):
    places = list(find_quotation(quote, texts))
    assert all((texts[turn] or "")[start:end] == quote for turn, start, end in places)
    assert len(set(places)) == len(places)
    assert bool(places) == any(quote in text for text in texts if text is not None)


@pytest.mark.parametrize(
    ("quote", "is_none"),
    [("na", True), (" N/A ", True), ("None", True), ("无", True), ("", True), ("no", False)],
)
def test_words_for_nothing_to_quote(quote: str, is_none: bool):
    assert is_no_quotation(quote) is is_none
