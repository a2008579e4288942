"""What is saved on the way: whose it is, what it may hold, and that it fills the page of its item again."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.http import HttpResponse
from django.utils import timezone

from annotation.domain.annotations import Submission
from annotation.models import Annotation, Assignment, Batch, Draft, Guideline, Person
from annotation.selectors.annotations.own_work import list_drafts
from annotation.services.annotations.drafts import save_refused_draft
from annotation.services.annotations.submission import submit
from annotation.services.assignments import TooLate
from tests.annotation.views.test_dispute_pages import two_criteria
from tests.annotation.views.test_work_pages import Visitor, claim, send, text, visit
from tests.support import label, make_batch, make_corpus

pytestmark = pytest.mark.django_db


def save(visitor: Visitor, assignment: Assignment, **fields: object) -> HttpResponse:
    return visitor.post(f"/work/items/{assignment.pk}/draft/", **{"key": "k", **fields})


def test_an_unfinished_item_is_filled_in_again_on_its_page(batch: Batch, lin: Person) -> None:
    visitor, assignment = visit(lin), claim(batch, lin)
    evidence = '[{"turn": 0, "start": 0, "end": 6, "criterion": "compliance", "level": 2}]'
    answer = save(
        visitor, assignment, rationale="half\r\na thought", flags=["unsure"], evidence=evidence, seconds="4.5"
    )
    assert answer.status_code == 204
    draft = Draft.objects.get()
    assert (draft.assignment_id, draft.labels, draft.why, draft.flags) == (
        assignment.pk,
        {},
        None,
        ["unsure"],
    )
    page = text(visitor.get("/work/first/"))
    assert ">half\na thought</textarea>" in page
    assert 'value="unsure" checked' in page
    assert re.search(rf'data-saved="{answer["Assay-Saved"]}"\s+data-seconds="4.5"', page)
    assert "&quot;end&quot;: 6" in page
    save(visitor, assignment, rationale="a whole one", **{"label.compliance": "2"})
    page = text(visitor.get("/work/first/"))
    assert 'value="2" required checked' in page
    assert (Draft.objects.get().labels, Draft.objects.get().evidence) == ({"compliance": 2}, [])


def test_some_of_the_labels_are_enough(lin: Person, chen: Person, wu: Person) -> None:
    assignment = claim(two_criteria(lin, chen, wu), lin)
    assert save(visit(lin), assignment, **{"label.tone": "17", "label.compliance": ""}).status_code == 204
    assert Draft.objects.get().labels == {"tone": 17}


def test_the_item_ahead_brings_its_draft_along(batch: Batch, lin: Person) -> None:
    visitor, first = visit(lin, htmx=True), claim(batch, lin)
    ahead = visitor.post("/work/first/ahead/", had=[str(first.pk)])
    second = Assignment.objects.exclude(pk=first.pk).get()
    save(visitor, second, rationale="begun elsewhere")
    answer = visitor.post("/work/first/ahead/", had=[str(first.pk)])
    assert "begun elsewhere" not in text(ahead)
    assert "begun elsewhere" in text(answer)


def test_the_key_d_extends_the_lease_and_the_quiet_save_does_not(batch: Batch, lin: Person) -> None:
    visitor, assignment = visit(lin), claim(batch, lin)
    ends = timezone.now() + timedelta(minutes=1)
    Assignment.objects.filter(pk=assignment.pk).update(lease_expires=ends)
    save(visitor, assignment, rationale="quietly")
    assignment.refresh_from_db()
    assert assignment.lease_expires == ends
    save(visitor, assignment, rationale="by key", extend="yes")
    assignment.refresh_from_db()
    assert assignment.lease_expires > ends + timedelta(minutes=1)


def test_nobody_saves_or_learns_of_the_item_of_another(
    batch: Batch, lin: Person, chen: Person, wu: Person
) -> None:
    assignment = claim(batch, lin)
    assert save(visit(chen), assignment, rationale="not mine").status_code == 404
    assert save(visit(wu), assignment, rationale="not my role").status_code == 403
    save(visit(lin), assignment, rationale="a private thought")
    partner_assignment = claim(batch, chen)
    assert partner_assignment.task_id == assignment.task_id
    assert "a private thought" not in text(visit(chen).get("/work/first/"))


@pytest.mark.parametrize(
    "fields",
    [
        {"label.compliance": "9"},
        {"label.compliance": "nan"},
        {"label.unknown": "1"},
        {"rationale": "x" * 20_001},
        {"flags": ["<script>"]},
        {"evidence": "[" + "[" * 50_000},
        {"evidence": '[{"turn": {"$gt": 0}}]'},
        {"evidence": '[{"turn": NaN}]'},
        {"evidence": r'[{"criterion": "\u0000"}]'},
        {"evidence": r'[{"criterion": "\ud800"}]'},
        {"evidence": "[" + ",".join(['{"turn": 0, "start": 0, "end": 1}'] * 201) + "]"},
    ],
)
def test_what_no_page_sends_is_refused(batch: Batch, lin: Person, fields: dict[str, object]) -> None:
    assert save(visit(lin), claim(batch, lin), **fields).status_code == 422
    assert not Draft.objects.exists()


def test_hostile_text_comes_back_as_text(batch: Batch, lin: Person) -> None:
    visitor, assignment = visit(lin), claim(batch, lin)
    save(visitor, assignment, rationale='</textarea><script>alert("x")</script>')
    page = text(visitor.get("/work/first/"))
    assert "<script>alert" not in page
    assert "&lt;/textarea&gt;&lt;script&gt;" in page


def test_submitting_ends_the_draft_and_a_straggler_does_not_bring_it_back(batch: Batch, lin: Person) -> None:
    visitor, assignment = visit(lin), claim(batch, lin)
    save(visitor, assignment, rationale="on the way")
    send(visitor, assignment, 3)
    assert not Draft.objects.exists()
    assert save(visitor, assignment, rationale="sent before, arrived after").status_code == 409
    assert not Draft.objects.exists()
    assert Annotation.objects.get().rationale == ""


def test_what_is_skipped_takes_no_draft_and_its_draft_is_over(batch: Batch, lin: Person) -> None:
    visitor, assignment = visit(lin), claim(batch, lin)
    save(visitor, assignment, rationale="begun")
    visitor.post(f"/work/items/{assignment.pk}/skip/", own="too hard")
    assert save(visitor, assignment, rationale="a straggler").status_code == 409
    assert list_drafts(lin) == []


def test_after_the_lease_a_draft_is_kept_all_the_same(batch: Batch, lin: Person) -> None:
    visitor, assignment = visit(lin), claim(batch, lin)
    save(visitor, assignment, rationale="begun")
    assert [(draft.live, draft.why) for draft in list_drafts(lin)] == [(True, "")]
    Assignment.objects.filter(pk=assignment.pk).update(state=Assignment.State.EXPIRED)
    assert save(visitor, assignment, rationale="and finished late").status_code == 204
    (draft,) = list_drafts(lin)
    assert (draft.live, draft.why, draft.rationale) == (False, "", "and finished late")


def test_a_late_save_does_not_hide_why_the_work_was_refused(batch: Batch, lin: Person) -> None:
    assignment = claim(batch, lin)
    Assignment.objects.filter(pk=assignment.pk).update(state=Assignment.State.EXPIRED)
    save_refused_draft(assignment.pk, Submission(labels={"compliance": 3}), TooLate("This batch is closed."))
    save(visit(lin), assignment, rationale="a straggler")
    (draft,) = list_drafts(lin)
    assert draft.why == "This batch is closed."


def test_what_comes_too_late_is_kept_without_what_no_database_keeps(batch: Batch, lin: Person) -> None:
    visitor, assignment = visit(lin), claim(batch, lin)
    Batch.objects.update(state=Batch.State.CLOSED)
    evidence = r'[{"turn": 0, "start": 0, "end": 6, "more": []}, {"turn": NaN}, {"criterion": "\u0000"}]'
    send(visitor, assignment, 3, rationale="late", evidence=evidence, **{"label.a": "nan", "label.\x00": "1"})
    draft = Draft.objects.get()
    assert (draft.labels, draft.rationale) == ({"compliance": 3}, "late")
    assert draft.evidence == [{"turn": 0, "start": 0, "end": 6}]


def test_a_draft_never_enters_what_others_see(guideline: Guideline, lin: Person, chen: Person) -> None:
    """It settles nothing: with the partner's label alone the task stays open."""
    batch = make_batch(
        guideline, make_corpus(prompts=1, models=["m"], name="one"), annotators=[lin, chen], name="one"
    )
    assignment, partner_assignment = claim(batch, lin), claim(batch, chen)
    save(visit(lin), assignment, **{"label.compliance": "3"})
    label(partner_assignment, chen, 3)
    assert batch.tasks.get().state == "open"
    submit(assignment_id=assignment.pk, person=lin, key="k", work=Submission(labels={"compliance": 1}))
    assert batch.tasks.get().state == "disputed"
