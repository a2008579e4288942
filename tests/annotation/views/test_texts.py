"""How a batch shows its texts: as each looks, as Markdown, or as they are written."""

from __future__ import annotations

import pytest

from annotation.domain.batch_spec import Policy, Terms
from annotation.domain.datasets import response_sha256
from annotation.models import Batch, Guideline, Person, Prompt, Response
from annotation.services.batches.policy import set_terms
from annotation.views.texts import render_text
from tests.annotation.views.test_work_pages import text, visit
from tests.support import make_batch, make_corpus

pytestmark = pytest.mark.django_db

MARKDOWN = "Say **no** to [it](https://example.org).\n\n- one\n- two"
LIST = "- one\n- two"


@pytest.fixture
def batch(guideline: Guideline, lin: Person) -> Batch:
    dataset = make_corpus(prompts=1, models=["Only-1B"], dimensions=["safe"])
    Response.objects.update(text=MARKDOWN, sha256=response_sha256(MARKDOWN, []))
    Prompt.objects.update(text=LIST)
    return make_batch(guideline, dataset, annotators=[lin], policy=Policy(overlap=1))


def open_item(person: Person, batch: Batch) -> str:
    return text(visit(person).get(f"/work/{batch.name}/"))


def test_a_text_is_shown_as_it_looks(batch: Batch, lin: Person) -> None:
    page = open_item(lin, batch)
    assert (batch.response_format, batch.prompt_format) == ("auto", "auto")
    assert '<strong data-at="6">no</strong>' in page
    assert '<span class="md-link" data-address="https://example.org" data-at="15">it</span>' in page
    assert f'<span data-at="0">{LIST}</span>' in page  # a list alone is no sign of Markdown
    assert '<a href="https://example.org' not in page


@pytest.mark.parametrize(("text_format", "items"), [("markdown", 4), ("plain", 0)])
def test_the_batch_says_how_its_texts_are_shown(
    batch: Batch, lin: Person, ma: Person, text_format: str, items: int
) -> None:
    set_terms(batch=batch, terms=Terms(response_format=text_format, prompt_format=text_format), actor=ma)
    page = open_item(lin, batch)
    assert page.count("<li data-at") == items
    assert ('data-view="source"' in page) == (text_format == "markdown")


def test_an_unknown_format_is_refused(batch: Batch) -> None:
    with pytest.raises(Exception, match="There is no text format html; choose one of: auto, markdown, plain"):
        Terms(response_format="html")


def test_the_manager_chooses_on_the_policy_page(batch: Batch, ma: Person) -> None:
    visitor = visit(ma)
    address = f"/batches/{batch.name}/policy/"
    page = text(visitor.get(address))
    assert "Format of responses" in page
    form = {
        "lease_minutes": 30,
        "alarm_action": "tell",
        "second_reading_percent": 5,
        "second_reading_days": 14,
    }
    answer = visitor.post(address, **{**form, "response_format": "plain", "prompt_format": "markdown"})
    assert answer.status_code == 302
    batch.refresh_from_db()
    assert (batch.response_format, batch.prompt_format) == ("plain", "markdown")
    visitor.post(address, **form)  # a request that says nothing of texts leaves them
    batch.refresh_from_db()
    assert (batch.response_format, batch.prompt_format) == ("plain", "markdown")
    assert "plain text" in text(visitor.get(f"/batches/{batch.name}/"))


def test_a_manager_reads_the_response_as_the_annotators_do(batch: Batch, ma: Person) -> None:
    page = text(visit(ma).get(f"/tasks/{batch.tasks.get().pk}/"))
    assert '<strong data-at="6">no</strong>' in page
    Batch.objects.update(response_format="plain")
    page = text(visit(ma).get(f"/tasks/{batch.tasks.get().pk}/"))
    assert "<strong data-at" not in page
    assert "Say **no** to" in page


def test_a_text_that_is_too_long_for_markdown_is_shown_as_it_is() -> None:
    assert render_text("**no**" * 10, "markdown").markdown
    assert not render_text("**no** " * 20_000, "markdown").markdown
