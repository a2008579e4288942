"""No sentence of a scorer's card or of a board stands without the stored fact that it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.utils.translation import override

from tests.documents.messages import list_messages
from tests.documents.result_claims import (
    RESULT_CLAIMS,
    RESULT_RETIRED,
    list_kept_sentences,
    list_result_files,
    may_be_plain,
)
from tests.documents.result_facts import read_scorer_facts
from tests.documents.result_plain import RESULT_PLAIN, RESULT_RULES
from tests.documents.result_search import ResultMaker, read_page, search_results
from tests.documents.search import LANGUAGES, ORIGINS, Maker, find_claims, translate


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("origin", "seed"),
    [
        ("page, disputes undecided", 1),
        ("import, a language model judged", 1),
        ("two batches, one imported", 1),
    ],
)
def test_no_sentence_stands_without_its_fact(origin: str, seed: int):
    total, false = search_results(origin, seed)
    assert total > 60
    assert false == []


def _list_all() -> set[str]:
    return set().union(*(list_messages(path) for path in list_result_files())) | list_kept_sentences()


def test_every_message_of_cards_and_boards_is_registered():
    assert _list_all() - RESULT_CLAIMS.keys() - RESULT_RULES - RESULT_PLAIN == set()


def test_nothing_is_registered_that_is_not_there():
    messages = _list_all()
    assert (RESULT_CLAIMS.keys() | RESULT_RULES | RESULT_PLAIN) - messages == set()
    assert not messages & RESULT_RETIRED.keys()


def test_what_speaks_of_how_something_is_made_is_no_label():
    """A longer message with a word of how figures are made is a claim or a rule, whoever lists it."""
    assert [message for message in RESULT_PLAIN if not may_be_plain(message)] == []
    assert not RESULT_PLAIN & RESULT_RULES
    assert not RESULT_CLAIMS.keys() & (RESULT_PLAIN | RESULT_RULES)


def test_a_page_is_read_block_by_block():
    """Words in inline tags belong to their sentence; a tag of a block, and what is not in the main part, end it."""
    page = "<nav>Boards</nav><main><p>By <b>prompt</b>: 3 folds.</p><img alt='A chart'><td>-</td></main><p>End</p>"
    assert set(read_page(page)) == {"By prompt: 3 folds.", "By", "prompt", ": 3 folds.", "A chart", "-"}


FOLDS = (
    "By prompt: %(n)s folds, all responses to a prompt in one of them, each predicted by the model that learned from"
    " the others."
)


@pytest.mark.django_db
def test_the_search_sees_a_sentence_without_its_fact(settings: Any, tmp_path: Path):
    settings.ASSAY_DATA_DIR = tmp_path
    batches = ORIGINS["import, in words"](Maker(1, tmp_path, (6, 6)))
    scorer = ResultMaker(1, batches).train()[0]
    facts = read_scorer_facts(scorer, batches)
    assert facts.folds == scorer.card["split"]["folds"]
    for language in LANGUAGES:
        with override(language):
            for folds in (facts.folds, facts.folds + 1):
                text = translate(FOLDS) % {"n": folds}
                [(message, holds, _text, values)] = find_claims([text], language, RESULT_CLAIMS)
                assert message == FOLDS
                assert holds(facts, values) is (folds == facts.folds)
        [(_message, holds, _text, values)] = find_claims(["Labels of people"], "en", RESULT_RETIRED)
        assert not holds(facts, values)
