"""What the page asks of the server while it is read: one item ahead, submits in the background, drafts kept."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from annotation.core.errors import Conflict
from annotation.domain.annotations import Submission
from annotation.models import (
    Annotation,
    Assignment,
    AuditEvent,
    Batch,
    Draft,
    EvaluatedModel,
    Guideline,
    Person,
)
from annotation.services.annotations.drafts import save_refused_draft
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import set_state
from annotation.services.batches.members import set_member_active
from annotation.services.people.people import add_person
from tests.annotation.views.test_work_pages import Visitor, claim, send, text, visit
from tests.support import label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db

# All in all, with who is asking, transactions and savepoints.
QUERIES_AHEAD, QUERIES_SUBMIT = 17, 26


def ahead(visitor: Visitor, *had: Assignment) -> HttpResponse:
    return visitor.post("/work/first/ahead/", had=[str(assignment.pk) for assignment in had])


def item_in(answer: HttpResponse) -> object:
    return answer.context["item"].assignment


def live(person: Person) -> set[object]:
    assignments = Assignment.objects.filter(person=person, state=Assignment.State.CLAIMED)
    return set(assignments.values_list("pk", flat=True))


def asked_in(captured: CaptureQueriesContext) -> int:
    """The questions asked; that PostgreSQL prepares each of them once is not counted."""
    return len([query for query in captured.captured_queries if not query["sql"].startswith("PREPARE")])


def too_late(batch: Batch, person: Person, other_people: list[Person], **more: object) -> Assignment:
    """An item of the person's whose lease ran out and whose places others have taken since."""
    assignment = claim(batch, person)
    Assignment.objects.filter(pk=assignment.pk).update(lease_expires=timezone.now() - timedelta(hours=1))
    for other in other_people:
        while not assignment.task.assignments.filter(person=other, state=Assignment.State.SUBMITTED).exists():
            assert label_next(batch, other, 3)
    return assignment


def test_ahead_is_one_item_more_and_asking_again_gives_the_same(batch: Batch, lin: Person) -> None:
    visitor, first = visit(lin, htmx=True), claim(batch, lin)
    first_answer, second_answer = ahead(visitor, first), ahead(visitor, first)
    assert item_in(first_answer) == item_in(second_answer) != first.pk
    assert live(lin) == {first.pk, item_in(first_answer)}
    assert "work__head" not in text(first_answer)
    assert "no-store" in first_answer["Cache-Control"]


def test_a_tab_that_shows_the_newer_item_gets_the_older_one(batch: Batch, lin: Person) -> None:
    visitor, first = visit(lin, htmx=True), claim(batch, lin)
    second = Assignment.objects.get(pk=item_in(ahead(visitor, first)))
    assert item_in(ahead(visitor, second)) == first.pk
    assert ahead(visitor, first, second).status_code == 204
    assert len(live(lin)) == 2


def test_ahead_is_nothing_where_few_are_left(guideline: Guideline, lin: Person, chen: Person) -> None:
    corpus = make_corpus(prompts=1, models=["m"], name="c")
    batch = make_batch(guideline, corpus, annotators=[lin, chen])
    assert ahead(visit(lin, htmx=True), claim(batch, lin)).status_code == 204


def test_ahead_is_nothing_in_a_batch_that_stopped(batch: Batch, lin: Person) -> None:
    first = claim(batch, lin)
    set_state(batch=batch, state=Batch.State.PAUSED)
    assert ahead(visit(lin, htmx=True), first).status_code == 204


def test_ahead_is_for_those_in_the_batch(batch: Batch, ma: Person, wu: Person) -> None:
    outsider = add_person(name="outsider", roles=["annotator"])
    assert ahead(visit(outsider, htmx=True)).status_code == 404
    for person in (ma, wu):
        assert ahead(visit(person, htmx=True)).status_code == 403
    assert not Assignment.objects.exists()


def test_names_of_no_item_are_overlooked(batch: Batch, lin: Person) -> None:
    answer = visit(lin, htmx=True).post("/work/first/ahead/", had=["nonsense", ""])
    assert answer.status_code == 200


def test_a_background_submit_answers_with_its_receipt_the_progress_and_one_item_ahead(
    batch: Batch, lin: Person
) -> None:
    visitor, first = visit(lin, htmx=True), claim(batch, lin)
    second = item_in(ahead(visitor, first))
    answer = send(visitor, first, 3, next="ahead", had=[str(second)], progress="yes")
    assert answer["Assay-Outcome"] == "taken"
    assert answer["Assay-Receipt"] == str(Annotation.objects.get().receipt)
    assert item_in(answer) not in {first.pk, second}
    assert "1 done, 7 left" in text(answer)
    assert live(lin) == {second, item_in(answer)}


def test_the_same_work_from_a_second_tab_gets_the_first_receipt(batch: Batch, lin: Person) -> None:
    assignment, visitor = claim(batch, lin), visit(lin, htmx=True)
    answers = [send(visitor, assignment, 3, key=key, rationale="so") for key in ("one", "two")]
    assert {answer["Assay-Outcome"] for answer in answers} == {"taken"}
    assert len({answer["Assay-Receipt"] for answer in answers}) == 1


def test_what_is_refused_says_so_and_brings_its_item_back(batch: Batch, lin: Person) -> None:
    assignment, visitor = claim(batch, lin), visit(lin, htmx=True)
    wrong = send(visitor, assignment, 9, rationale="typed", next="ahead")
    assert (wrong.status_code, wrong["Assay-Outcome"], item_in(wrong)) == (422, "refused", assignment.pk)
    assert "typed" in text(wrong)
    send(visitor, assignment, 3)
    other = send(visitor, assignment, 1, next="ahead")
    assert (other.status_code, other["Assay-Outcome"]) == (409, "refused")
    assert "Assay-Receipt" not in other


def test_the_receipt_is_given_though_the_person_left_the_batch_meanwhile(batch: Batch, lin: Person) -> None:
    assignment, visitor = claim(batch, lin), visit(lin, htmx=True)
    send(visitor, assignment, 3, key="k")
    set_member_active(batch=batch, person=lin, role="annotator", active=False, actor=None)
    answer_after = send(visitor, assignment, 3, key="k")
    assert answer_after["Assay-Receipt"] == str(Annotation.objects.get().receipt)
    assert answer_after["HX-Redirect"] == "/work/"


def test_an_item_that_nobody_looked_at_is_given_back(batch: Batch, lin: Person, chen: Person) -> None:
    visitor, first = visit(lin), claim(batch, lin)
    second = item_in(ahead(visit(lin, htmx=True), first))
    url = f"/work/items/{second}/release/"
    assert visit(chen).post(url).status_code == 404
    assert visitor.client.get(url).status_code == 405
    for _ in range(2):
        assert visitor.post(url).status_code == 204
    assert live(lin) == {first.pk}
    send(visitor, first)
    assert visitor.post(f"/work/items/{first.pk}/release/").status_code == 409


def test_the_item_ahead_tells_nothing_of_model_partner_or_prediction(
    batch: Batch, lin: Person, chen: Person
) -> None:
    label_next(batch, chen, 2)
    visitor, first = visit(lin, htmx=True), claim(batch, lin)
    answers = [ahead(visitor, first), send(visitor, first, 3, next="ahead")]
    secrets = [*EvaluatedModel.objects.values_list("name", flat=True), "chen", "zhou", "disput", "Disput"]
    for answer in answers:
        everything_sent = text(answer) + str(answer.headers)
        assert [secret for secret in secrets if secret in everything_sent] == []


def test_an_item_costs_a_small_fixed_number_of_queries(
    guideline: Guideline, lin: Person, chen: Person
) -> None:
    """As many for a long batch as for a short one, and after much work as at the beginning."""
    counts = []
    for name, prompts, done in (("short", 6, 0), ("long", 60, 30)):
        corpus = make_corpus(prompts=prompts, models=["m"], name=name)
        batch = make_batch(guideline, corpus, annotators=[lin, chen], name=name)
        for _ in range(done):
            label_next(batch, lin, 3)
        visitor, assignment = visit(lin, htmx=True), claim(batch, lin)
        with CaptureQueriesContext(connection) as queries:
            page_answer = visitor.post(f"/work/{name}/ahead/", had=[str(assignment.pk)])
        with CaptureQueriesContext(connection) as submitted:
            answer = send(visitor, assignment, 3, next="ahead", had=[str(item_in(page_answer))])
        assert answer["Assay-Outcome"] == "taken"
        counts.append((asked_in(queries), asked_in(submitted)))
    assert counts[0] == counts[1]
    assert counts[0][0] <= QUERIES_AHEAD
    assert counts[0][1] <= QUERIES_SUBMIT


# Drafts.


def test_what_comes_too_late_is_kept_said_and_found_in_my_history(
    batch: Batch, lin: Person, chen: Person, zhou: Person
) -> None:
    assignment, visitor = too_late(batch, lin, [chen, zhou]), visit(lin, htmx=True)
    answer = send(visitor, assignment, 1, rationale="a long thought", next="page")
    assert answer["Assay-Outcome"] == "kept"
    assert "someone else has taken it over" in text(answer)
    assert 'href="/history/#drafts"' in text(answer)
    page = text(visit(lin).get("/history/"))
    for part in ("Saved drafts", "a long thought", "someone else has taken it over", "first"):
        assert part in page
    assert "Saved drafts" not in text(visit(chen).get("/history/"))


def test_a_draft_is_submitted_again_when_its_place_is_free(
    batch: Batch, lin: Person, chen: Person, zhou: Person
) -> None:
    assignment, visitor = too_late(batch, lin, [chen, zhou]), visit(lin)
    send(visitor, assignment, 1, rationale="a long thought", seconds="7.5", flags=["unsure"])
    retry = f"/history/{assignment.pk}/retry/"
    refused = visitor.client.post(retry, follow=True)
    assert "someone else has taken it over" in text(refused)
    assert Draft.objects.count() == 1
    assignment.task.refresh_from_db()
    other = assignment.task.assignments.get(person=chen)
    Annotation.objects.filter(assignment=other).delete()
    Assignment.objects.filter(pk=other.pk).update(state=Assignment.State.RELEASED)
    assignment.task.gold_labels.all().delete()
    assignment.task.state, assignment.task.slots_taken = "open", 1
    assignment.task.save()
    answer = visitor.client.post(retry, follow=True)
    assert "Submitted." in text(answer)
    stored = Annotation.objects.get(assignment=assignment)
    assert (stored.labels, stored.rationale, stored.seconds, stored.flags) == (
        {"compliance": 1},
        "a long thought",
        7.5,
        ["unsure"],
    )
    assert not Draft.objects.exists()
    assert visitor.post(retry).status_code == 404


def test_a_draft_is_discarded_and_that_is_recorded(
    batch: Batch, lin: Person, chen: Person, zhou: Person
) -> None:
    assignment = too_late(batch, lin, [chen, zhou])
    send(visit(lin), assignment, 1)
    url = f"/history/{assignment.pk}/discard/"
    assert visit(chen).post(url).status_code == 404
    assert visit(lin).client.get(url).status_code == 405
    assert "The draft is discarded." in text(visit(lin).client.post(url, follow=True))
    assert not Draft.objects.exists()
    assert AuditEvent.objects.get(verb="discard_draft").actor == lin
    assert visit(lin).post(url).status_code == 404


def test_a_draft_of_what_was_submitted_after_all_is_no_draft_any_more(batch: Batch, lin: Person) -> None:
    """The item came back to the person who had been too late with it."""
    assignment, visitor = claim(batch, lin), visit(lin)
    save_refused_draft(assignment.pk, Submission(labels={"compliance": 1}), Conflict("Somebody else has it."))
    assert len(visitor.get("/history/").context["drafts"]) == 1
    send(visitor, assignment, 3)
    assert visitor.get("/history/").context["drafts"] == []
    assert visitor.post(f"/history/{assignment.pk}/retry/").status_code == 404


def test_hostile_text_in_a_draft_is_escaped(batch: Batch, lin: Person, chen: Person, zhou: Person) -> None:
    assignment = too_late(batch, lin, [chen, zhou])
    send(visit(lin), assignment, 1, rationale="<script>alert(1)</script>")
    page = text(visit(lin).get("/history/"))
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_no_draft_without_a_key(batch: Batch, lin: Person, chen: Person, zhou: Person) -> None:
    """A form that is no submission at all leaves nothing behind."""
    assignment = too_late(batch, lin, [chen, zhou])
    assert send(visit(lin), assignment, 1, key="").status_code == 422
    assert not Draft.objects.exists()
    assert claim_next_task(batch=batch, person=lin) is not None


def test_the_page_after_a_submit_still_says_when_the_batch_is_due(batch: Batch, lin: Person) -> None:
    """The batch comes there by plain SQL, whose dates must be dates on every database."""
    Batch.objects.update(due_date=date(2030, 5, 4))
    answer = send(visit(lin, htmx=True), claim(batch, lin), 3)
    assert "due 2030-05-04" in text(answer)
