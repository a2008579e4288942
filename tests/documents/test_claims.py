"""No sentence of a generated document stands without the stored fact that it needs."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from django.utils.translation import override

from annotation.selectors.reports import build_batches_report
from tests.documents.claims import CLAIMS, REPORT, RETIRED, RULES, SHEET
from tests.documents.facts import read_facts
from tests.documents.messages import list_messages
from tests.documents.plain import PLAIN
from tests.documents.search import ORIGINS, Maker, find_claims, list_report_texts, search_origin


@pytest.mark.django_db
@pytest.mark.parametrize("origin", list(ORIGINS))
def test_no_sentence_stands_without_its_fact(origin: str):
    for seed in (1, 2):
        total, false = search_origin(origin, seed)
        assert total > 5, seed
        assert false == [], seed


def test_every_message_of_the_documents_is_registered():
    messages = set().union(*(list_messages(path) for path in (*SHEET, *REPORT)))
    assert messages - CLAIMS.keys() - RULES - PLAIN == set()


def test_nothing_is_registered_that_is_not_there():
    messages = set().union(*(list_messages(path) for path in (*SHEET, *REPORT)))
    assert (CLAIMS.keys() | RULES | PLAIN) - messages == set()
    assert not messages & RETIRED.keys()


@pytest.mark.django_db
@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_the_search_sees_a_sentence_without_its_fact(language: str):
    """The same sentences of work done here, held against the facts of imported labels."""
    with TemporaryDirectory() as folder:
        batches = ORIGINS["page"](Maker(1, Path(folder)))
        elsewhere = ORIGINS["import, nothing written"](Maker(1, Path(folder)))
    report = build_batches_report(batches)
    with override(language):
        texts = list(list_report_texts(report))
    facts = read_facts(elsewhere)
    false = {
        message for message, holds, _text, values in find_claims(texts, language) if not holds(facts, values)
    }
    assert "pairing by the policy of the batch: %(pairing)s" in false
    assert any(message.startswith("annotations given here") for message in false)
