"""A response without a visible character says so wherever it is read; nothing can be marked in it."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.http import HttpResponse
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from annotation.core.errors import Unprocessable
from annotation.domain.annotations import Submission
from annotation.domain.datasets import response_sha256
from annotation.domain.guidelines.prose import is_blank
from annotation.models import Annotation, Batch, Person, Response, Task
from annotation.services.adjudication.disputes import adjudicate, record_verdict
from annotation.services.annotations.submission import submit
from annotation.services.assignments import claim_next_dispute, claim_next_task
from tests.annotation.services.test_evidence import demanding
from tests.annotation.views.test_work_pages import text, visit
from tests.support import label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db

SAID = '<p class="no-text">The response is empty.</p>'
TURN = '<p class="no-text">This turn is empty.</p>'
BLANKS = ["", " ", "\n\n\t", "\u3000\u00a0", "\u200b\u2060\ufeff"]


def batch_of(words: str, people: list[Person], *, turns: list[dict[str, str]] | None = None) -> Batch:
    """A batch of one response, with an adjudicator who is the last of the people."""
    dataset = make_corpus(prompts=1, models=["Only-1B"], dimensions=["safe"])
    response_turns = turns or []
    Response.objects.update(
        text="" if response_turns else words,
        turns=response_turns,
        sha256=response_sha256(words, response_turns),
    )
    return make_batch(demanding(), dataset, annotators=people[:-1], adjudicators=people[-1:])


@pytest.mark.parametrize("words", BLANKS)
@pytest.mark.parametrize(
    ("language", "notice"), [("en", "The response is empty."), ("zh-hans", "回复为空。")]
)
def test_the_item_says_that_its_response_is_empty(
    lin: Person, chen: Person, wu: Person, words: str, language: str, notice: str
) -> None:
    batch_of(words, [lin, chen, wu])
    page = text(visit(lin, language=language).get("/work/first/"))
    assert f'<p class="no-text">{notice}</p>' in page
    assert 'data-turn="' not in page


def test_a_response_with_words_says_nothing_of_the_kind(batch: Batch, lin: Person) -> None:
    page = text(visit(lin).get("/work/first/"))
    assert 'class="no-text"' not in page
    assert 'data-turn="0"' in page


def test_empty_turns_of_a_dialogue_say_so_and_the_others_keep_their_places(
    lin: Person, chen: Person, wu: Person
) -> None:
    turns = [
        {"role": "user", "text": " "},
        {"role": "assistant", "text": ""},
        {"role": "user", "text": "And now?"},
        {"role": "assistant", "text": "Well."},
    ]
    batch_of("", [lin, chen, wu], turns=turns)
    page = text(visit(lin).get("/work/first/"))
    assert page.count(SAID) == page.count(TURN) == 1
    assert 'data-turn="1"' not in page
    assert 'data-turn="3"' in page


def test_disputes_history_tasks_and_corrections_say_so(
    lin: Person, chen: Person, zhou: Person, wu: Person, ma: Person
) -> None:
    batch = batch_of("\n", [lin, chen, wu])
    label_next(batch, lin, 3)
    label_next(batch, chen, 1)  # which needs evidence, and there is nothing to mark
    assert SAID in text(visit(lin).get(f"/history/{get_own_assignment(lin)}/"))
    assert SAID in text(visit(wu).get("/disputes/first/"))
    dispute = claim_next_dispute(batch=batch, person=wu)
    assert dispute is not None
    record_verdict(assignment_id=dispute.pk, person=wu, work=Submission({"compliance": 3}))
    assert SAID in text(visit(wu).get("/disputes/first/"))
    decision = Submission({"compliance": 3}, reason="reading_slip")
    adjudicate(assignment_id=dispute.pk, person=wu, key="k", work=decision)
    assert SAID in text(visit(wu).get(f"/history/{get_own_assignment(wu)}/"))
    revise = {"label.compliance": 2, "rationale": "why", "key": "k"}
    assert visit(lin).post(f"/history/{get_own_assignment(lin)}/revise/", **revise).status_code == 302
    assert SAID in text(visit(ma).get(f"/tasks/{Task.objects.get().pk}/"))
    assert SAID in text(visit(ma).get("/batches/first/items/"))


def get_own_assignment(person: Person) -> object:
    return person.assignments.values_list("pk", flat=True).get()


def test_a_level_that_needs_evidence_does_not_ask_it_of_an_empty_response(
    lin: Person, chen: Person, wu: Person
) -> None:
    batch = batch_of(" ", [lin, chen, wu])
    assert label_next(batch, lin, 1) is not None  # level 1 needs evidence, and there is nothing to mark
    assert Annotation.objects.get().labels == {"compliance": 1}


def test_evidence_in_an_empty_response_is_refused(lin: Person, chen: Person, wu: Person) -> None:
    batch = batch_of("  \n", [lin, chen, wu])
    claim = claim_next_task(batch=batch, person=lin)
    assert claim is not None
    work = Submission(labels={"compliance": 3}, evidence=[{"turn": 0, "start": 0, "end": 2}])
    with pytest.raises(Unprocessable, match="no evidence can be marked in it"):
        submit(assignment_id=claim.pk, person=lin, key=str(uuid4()), work=work)


def test_the_api_gives_the_text_as_it_is(lin: Person, chen: Person, wu: Person) -> None:
    batch_of(" \n", [lin, chen, wu])
    client = Client()
    client.force_login(lin)
    answer: HttpResponse = client.post("/api/v1/batches/first/next/", content_type="application/json")
    assert answer.json()["turns"] == [{"role": "assistant", "text": " \n"}]


@given(st.text(max_size=20))
def test_what_has_a_letter_or_a_sign_is_not_blank(words: str) -> None:
    assert not is_blank(words + "a")
    assert not is_blank("。" + words)
    assert not (is_blank(words) and any(word.isalnum() for word in words))
    assert all(map(is_blank, BLANKS))
