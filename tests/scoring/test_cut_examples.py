"""Whether the page and the command are to say that an encoder did not read all of its examples."""

from __future__ import annotations

from typing import Any

import pytest

from scoring.management.tables import list_further_lines
from scoring.selectors.scorers import CutExamples, find_cut_examples

CUT = {"n": 6, "of": 100, "max_tokens": 768}


@pytest.mark.parametrize(
    ("details", "cut"),
    [
        ({}, None),
        ({"cut": CUT}, CutExamples(6, 100, 768)),
        ({"cut": CUT | {"n": 5}}, None),
        ({"members": {"ngram": {}, "encoder": {"cut": CUT}}}, CutExamples(6, 100, 768)),
        ({"cut": {"n": 0, "of": 0, "max_tokens": 768}}, None),
    ],
)
def test_more_than_a_twentieth_is_worth_a_warning(details: dict[str, Any], cut: CutExamples | None):
    card = {"details": details}
    assert find_cut_examples(card) == cut
    lines = list_further_lines({"grouped": {}}, card | {"split": {"sizes": [1]}, "held_out": 1})
    assert any("6 of 100 examples are longer than 768 tokens" in line for line in lines) == (cut is not None)
