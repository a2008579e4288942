"""The annotator's pages: home, work, undo, history; by plain form posts, as a browser without scripts sends them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from uuid import uuid4

import pytest
from django.conf import settings
from django.http import HttpResponse
from django.test import Client

from annotation.domain.annotations import Submission
from annotation.models import (
    Annotation,
    Assignment,
    Batch,
    CorrectionRequest,
    EvaluatedModel,
    Guideline,
    Person,
    Prompt,
)
from annotation.services.annotations.submission import submit as submit_work
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import set_state
from annotation.services.people.people import add_person
from tests.support import FLAMES_GUIDELINE, label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db
CLOSED = "This item is closed; your correction was sent to the manager."


@dataclass(frozen=True)
class Visitor:
    client: Client
    htmx: bool = False

    def get(self, url: str) -> HttpResponse:
        return self.client.get(url, headers=self._headers())

    def post(self, url: str, **data: object) -> HttpResponse:
        return self.client.post(url, data, headers=self._headers())

    def _headers(self) -> dict[str, str]:
        return {"HX-Request": "true"} if self.htmx else {}


def visit(person: Person, *, htmx: bool = False, language: str = "en") -> Visitor:
    client = Client()
    client.force_login(person)
    client.cookies[settings.LANGUAGE_COOKIE_NAME] = language
    return Visitor(client=client, htmx=htmx)


def claim(batch: Batch, person: Person) -> Assignment:
    assignment = claim_next_task(batch=batch, person=person)
    assert assignment is not None
    return assignment


def send(visitor: Visitor, assignment: Assignment, value: object = 3, **more: object) -> HttpResponse:
    data = {"label.compliance": value, "key": str(uuid4()), **more}
    return visitor.post(f"/work/items/{assignment.pk}/submit/", **data)


def revise(visitor: Visitor, assignment: Assignment, value: object, **more: object) -> HttpResponse:
    data = {"label.compliance": value, "key": str(uuid4()), **more}
    return visitor.post(f"/history/{assignment.pk}/revise/", **data)


def text(answer: HttpResponse) -> str:
    """The page, with its own line breaks between tags and in them as single blanks or none."""
    page = re.sub(r"<[^>]*>", lambda tag: re.sub(r"\s+", " ", tag[0]), answer.content.decode())
    return re.sub(r"(<p class=\"no-text\">)\s+|\s+(?=</p>)", r"\1", page)


@pytest.mark.parametrize(("person", "place"), [("lin", "/work/"), ("wu", "/disputes/")])
def test_each_role_lands_on_what_it_does_next(
    batch: Batch, person: str, place: str, request: pytest.FixtureRequest
) -> None:
    answer = visit(request.getfixturevalue(person)).get("/")
    assert (answer.status_code, answer["Location"]) == (302, place)


def test_who_has_several_roles_lands_where_something_waits(batch: Batch, wu: Person) -> None:
    both = add_person(name="both", roles=["annotator", "adjudicator"])
    assert visit(both).get("/")["Location"] == "/work/"  # no batch has them yet
    batch.memberships.create(person=both, role="adjudicator")
    assert visit(both).get("/")["Location"] == "/work/"  # no dispute waits
    make_dispute(batch)
    assert visit(both).get("/")["Location"] == "/disputes/"
    batch.memberships.create(person=both, role="annotator")
    assert visit(both).get("/")["Location"] == "/work/"


def make_dispute(batch: Batch) -> None:
    for name, value in (("lin", 1), ("chen", 3)):
        label_next(batch, Person.objects.get(username=name), value)


def test_who_has_no_role_is_told_whom_to_ask(stranger: Person, ma: Person) -> None:
    answer = visit(stranger).get("/")
    assert answer.status_code == 200
    assert "You have no role here yet" in text(answer)
    assert "<li>ma</li>" in text(answer)


@pytest.mark.parametrize("url", ["/work/", "/work/first/", "/work/first/undo/"])
def test_other_roles_cannot_open_work(
    batch: Batch, ma: Person, he: Person, wu: Person, stranger: Person, url: str
) -> None:
    for person in (ma, he, wu, stranger):
        assert visit(person).get(url).status_code == 403


def test_who_is_not_signed_in_is_sent_to_sign_in(batch: Batch) -> None:
    answer = Client().get("/work/")
    assert answer["Location"] == "/sign-in/?next=/work/"


def test_an_annotator_who_is_not_in_the_batch_learns_nothing_of_it(batch: Batch) -> None:
    outsider = visit(add_person(name="outsider", roles=["annotator"]))
    closed_page, nowhere = outsider.get("/work/first/"), outsider.get("/work/nowhere/")
    assert closed_page.status_code == nowhere.status_code == 404
    assert "No batch is named first." in text(closed_page)
    assert outsider.get("/work/first/undo/")["Location"] == "/work/first/"


def test_one_open_batch_is_entered_at_once(batch: Batch, lin: Person) -> None:
    assert visit(lin).get("/work/")["Location"] == "/work/first/"
    assert visit(lin).get("/work/?list").status_code == 200


def test_several_batches_are_listed_with_progress(
    batch: Batch, guideline: Guideline, lin: Person, chen: Person
) -> None:
    label_next(batch, lin, 3)
    make_batch(guideline, make_corpus(prompts=1, models=["m"], name="b"), annotators=[lin, chen], name="two")
    page = text(visit(lin).get("/work/"))
    assert "1 done, 7 left" in page
    assert "0 done, 1 left" in page


def test_without_an_open_batch_the_page_says_what_happens_next(batch: Batch, lin: Person) -> None:
    set_state(batch=batch, state=Batch.State.PAUSED)
    assert "When a manager opens a batch with you in it" in text(visit(lin).get("/work/"))


def test_the_item_page_holds_the_item_its_guideline_and_the_levels(batch: Batch, lin: Person) -> None:
    answer = visit(lin).get("/work/first/")
    page = text(answer)
    assert "Question number 0?" in page
    assert "Answer 0 to question 0." in page
    assert "The response gives nothing of what was asked for." in page
    for value in (1, 2, 3):
        assert f'name="label.compliance" value="{value}"' in page
    assert "no-store" in answer["Cache-Control"]


def test_the_guideline_is_in_the_readers_language(batch: Batch, lin: Person) -> None:
    page = text(visit(lin, language="zh-hans").get("/work/first/"))
    assert "回复没有给出任何所要的内容。" in page
    assert "The response gives nothing" not in page


def test_the_same_item_comes_back_until_it_is_decided(batch: Batch, lin: Person) -> None:
    visitor = visit(lin)
    first, second = visitor.get("/work/first/").context["item"], visitor.get("/work/first/").context["item"]
    assert first.assignment == second.assignment
    assert Assignment.objects.filter(person=lin).count() == 1


def test_no_page_tells_the_model_the_partner_or_a_prediction(batch: Batch, lin: Person, chen: Person) -> None:
    label_next(batch, chen, 2)
    visitor = visit(lin)
    assignment = claim(batch, lin)
    pages = [visitor.get(url) for url in ("/work/first/", "/work/?list")]
    pages += [send(visitor, assignment, 1)]
    pages += [visitor.get(url) for url in ("/history/", f"/history/{assignment.pk}/", "/work/first/undo/")]
    pages += [revise(visitor, assignment, 3)]
    secrets = [*EvaluatedModel.objects.values_list("name", flat=True), "chen", "zhou", "disput", "Disput"]
    for answer in pages:
        content = text(answer) + str(answer.headers)
        assert [secret for secret in secrets if secret in content] == []


def test_hostile_text_is_escaped(batch: Batch, lin: Person) -> None:
    Prompt.objects.update(text="<script>alert(1)</script>")
    page = text(visit(lin).get("/work/first/"))
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_submitting_stores_the_work_and_leads_to_the_next(batch: Batch, lin: Person) -> None:
    assignment = claim(batch, lin)
    answer = send(visit(lin), assignment, 2, rationale="one\r\ntwo", seconds="12.5", flags=["unsure"])
    assert (answer.status_code, answer["Location"]) == (302, "/work/first/")
    stored = Annotation.objects.get()
    assert (stored.labels, stored.rationale, stored.seconds, stored.flags) == (
        {"compliance": 2},
        "one\ntwo",
        12.5,
        ["unsure"],
    )


def test_htmx_gets_the_next_item_in_the_same_answer(batch: Batch, lin: Person) -> None:
    assignment = claim(batch, lin)
    answer = send(visit(lin, htmx=True), assignment)
    assert answer.status_code == 200
    assert "<html" not in text(answer)
    assert answer.context["item"].assignment != assignment.pk
    assert answer.context["progress"].done == 1


def test_the_same_key_twice_stores_one(batch: Batch, lin: Person) -> None:
    assignment = claim(batch, lin)
    for _ in range(2):
        assert send(visit(lin), assignment, 2, key="k").status_code == 302
    assert Annotation.objects.count() == 1


def test_a_second_different_answer_becomes_a_correction_to_confirm(batch: Batch, lin: Person) -> None:
    """Its first sending arrived although its answer was lost: with the same key or another."""
    assignment, visitor = claim(batch, lin), visit(lin)
    send(visitor, assignment, 2, key="k")
    for key in ("k", "other"):
        answer = send(visitor, assignment, 3, key=key, rationale="better")
        assert answer.status_code == 409
        assert "This item was submitted already" in text(answer)
        assert f"/history/{assignment.pk}/revise/" in text(answer)
        assert 'value="3" required checked' in text(answer)
        assert "better" in text(answer)
    assert Annotation.objects.get().labels == {"compliance": 2}


@pytest.mark.parametrize("value", ["9", "2.5", "nan", "harmless", ""])
def test_a_label_off_the_scale_is_refused_and_the_rest_stays(batch: Batch, lin: Person, value: str) -> None:
    answer = send(visit(lin), claim(batch, lin), value, rationale="still here", key="k1")
    assert answer.status_code == 422
    assert "use one of 1, 2, 3" in text(answer) or "give one of 1, 2, 3" in text(answer)
    assert "still here" in text(answer)
    assert 'name="key" value="k1"' in text(answer)
    assert not Annotation.objects.exists()


def test_a_form_without_a_key_is_refused(batch: Batch, lin: Person) -> None:
    assert send(visit(lin), claim(batch, lin), 2, key="").status_code == 422
    assert not Annotation.objects.exists()


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf", "soon", "1e9", ""])
def test_impossible_seconds_hold_nothing_up(batch: Batch, lin: Person, seconds: str) -> None:
    send(visit(lin), claim(batch, lin), 2, seconds=seconds)
    assert Annotation.objects.get().seconds is None


def test_somebody_elses_item_does_not_exist(batch: Batch, lin: Person, chen: Person) -> None:
    hers, visitor = claim(batch, chen), visit(lin)
    assert send(visitor, hers).status_code == 404
    for action in ("skip", "extend"):
        answer = visitor.post(f"/work/items/{hers.pk}/{action}/", reason="", own="mine now")
        assert answer.status_code == 404
    label_next(batch, chen, 1)
    assert visitor.get(f"/history/{hers.pk}/").status_code == 404
    assert revise(visitor, hers, 3).status_code == 404
    assert Annotation.objects.get().labels == {"compliance": 1}


def test_nothing_is_changed_by_a_get(batch: Batch, lin: Person) -> None:
    assignment = claim(batch, lin)
    for action in ("submit", "skip", "extend"):
        assert visit(lin).get(f"/work/items/{assignment.pk}/{action}/").status_code == 405


def test_a_skip_needs_a_reason_and_never_comes_back(batch: Batch, lin: Person) -> None:
    assignment, visitor = claim(batch, lin), visit(lin)
    url = f"/work/items/{assignment.pk}/skip/"
    refused = visitor.post(url, reason="", own="  ")
    assert refused.status_code == 422
    assert "<span>Choose a reason for skipping this item" in text(refused)
    assert visitor.post(url, reason="made up", own="").status_code == 422
    assert visitor.post(url, own="I know the author")["Location"] == "/work/first/"
    assignment.refresh_from_db()
    assert (assignment.state, assignment.skip_reason) == ("released", "I know the author")
    seen = set()
    while (answer := visitor.get("/work/first/")).context.get("item"):
        seen.add(answer.context["item"].assignment)
        label_next(batch, lin, 3)
    assert len(seen) == 7
    assert assignment.pk not in seen


def test_an_empty_batch_says_what_happens_next(batch: Batch, lin: Person) -> None:
    while label_next(batch, lin, 3):
        pass
    page = text(visit(lin).get("/work/first/"))
    assert "Nothing more for you in first" in page
    assert "come back later" in page


def test_a_paused_batch_still_takes_what_is_at_hand_and_then_says_so(batch: Batch, lin: Person) -> None:
    assignment = claim(batch, lin)
    set_state(batch=batch, state=Batch.State.PAUSED)
    answer = visit(lin).client.post(
        f"/work/items/{assignment.pk}/submit/", {"label.compliance": 2, "key": "k"}, follow=True
    )
    assert Annotation.objects.count() == 1
    assert "The batch first is not open." in text(answer)
    left = send(visit(lin, htmx=True), assignment, 2, key="k")
    assert left["HX-Redirect"] == "/work/"


def test_what_comes_too_late_is_said_and_work_goes_on(
    batch: Batch, lin: Person, chen: Person, zhou: Person
) -> None:
    assignment = claim(batch, lin)
    Assignment.objects.filter(pk=assignment.pk).update(lease_expires=assignment.claimed_at)
    label_next(batch, chen, 3)
    label_next(batch, zhou, 3)
    answer = send(visit(lin, htmx=True), assignment)
    assert "someone else has taken it over" in text(answer)
    assert answer.context["item"].assignment != assignment.pk


def test_the_lease_is_extended(batch: Batch, lin: Person) -> None:
    assignment = claim(batch, lin)
    assert visit(lin).post(f"/work/items/{assignment.pk}/extend/").status_code == 204
    before = assignment.lease_expires
    assignment.refresh_from_db()
    assert assignment.lease_expires > before
    send(visit(lin), assignment)
    assert visit(lin).post(f"/work/items/{assignment.pk}/extend/").status_code == 409


def test_undo_leads_to_the_last_one(batch: Batch, lin: Person) -> None:
    visitor = visit(lin)
    assert visitor.get("/work/first/undo/")["Location"] == "/work/first/"
    label_next(batch, lin, 3)
    last = claim(batch, lin)
    send(visitor, last, 1)
    assert visitor.get("/work/first/undo/")["Location"] == f"/history/{last.pk}/?back=work"


def test_a_correction_of_an_open_item_is_a_new_revision(batch: Batch, lin: Person) -> None:
    assignment, visitor = claim(batch, lin), visit(lin)
    evidence = [{"turn": 0, "start": 0, "end": 3}]
    work = Submission(labels={"compliance": 1}, evidence=evidence)
    submit_work(assignment_id=assignment.pk, person=lin, key="k", work=work)
    answer = revise(visitor, assignment, 2, reason="misread", back="work")
    assert answer["Location"] == "/work/first/"
    current = Annotation.objects.get(current=True)
    assert (current.labels, current.revision, current.reason) == ({"compliance": 2}, 2, "misread")
    assert current.evidence == [{**evidence[0], "criterion": "compliance", "level": 1}]
    assert "corrected" in text(visitor.get("/history/"))


@pytest.mark.parametrize("partner", [1, 3], ids=["agreed", "disputed"])
def test_a_closed_item_reads_the_same_whether_agreed_or_disputed(
    batch: Batch, lin: Person, chen: Person, partner: int
) -> None:
    label_next(batch, chen, partner)
    assignment, visitor = claim(batch, lin), visit(lin)
    send(visitor, assignment, 1)
    page = text(visitor.get(f"/history/{assignment.pk}/"))
    assert "This item is closed: what you correct here goes to the manager." in page
    revise(visitor, assignment, 2)
    assert CLOSED in text(visitor.get("/history/"))
    assert CorrectionRequest.objects.get().labels == {"compliance": 2}
    assert Annotation.objects.get(assignment=assignment).labels == {"compliance": 1}


def test_a_refused_correction_stays_on_the_page(batch: Batch, lin: Person) -> None:
    assignment, visitor = claim(batch, lin), visit(lin)
    send(visitor, assignment, 1)
    answer = revise(visitor, assignment, 7, rationale="typed")
    assert answer.status_code == 422
    assert "typed" in text(answer)
    assert Annotation.objects.count() == 1


def test_what_was_not_submitted_is_no_history(batch: Batch, lin: Person) -> None:
    assert visit(lin).get(f"/history/{claim(batch, lin).pk}/").status_code == 404


def test_history_is_filtered_by_batch_and_paged(
    batch: Batch, guideline: Guideline, lin: Person, chen: Person
) -> None:
    corpus = make_corpus(prompts=60, models=["m"], name="b")
    second = make_batch(guideline, corpus, annotators=[lin, chen], name="second")
    label_next(batch, lin, 3)
    for _ in range(51):
        label_next(second, lin, 3)
    visitor = visit(lin)
    assert len(visitor.get("/history/?batch=first").context["rows"]) == 1
    assert len(visitor.get("/history/?batch=second").context["rows"]) == 50
    assert len(visitor.get("/history/?batch=second&page=2").context["rows"]) == 1
    assert len(visitor.get("/history/?batch=unknown").context["rows"]) == 0
    assert len(visitor.get("/history/?page=2").context["rows"]) == 2


def test_history_is_for_those_who_label_or_decide(
    batch: Batch, ma: Person, he: Person, stranger: Person
) -> None:
    for person in (ma, he, stranger):
        assert visit(person).get("/history/").status_code == 403


def test_an_empty_history_leads_to_work(lin: Person) -> None:
    assert "Nothing submitted yet" in text(visit(lin).get("/history/"))


def test_only_the_criterion_of_the_prompts_dimension_is_asked(lin: Person, chen: Person) -> None:
    corpus = make_corpus(prompts=1, models=["m"], name="c", dimensions=["Legality"])
    make_batch(FLAMES_GUIDELINE.load(), corpus, annotators=[lin, chen], name="flames")
    answer = visit(lin, language="zh-hans").get("/work/flames/")
    (question,) = answer.context["questions"]
    # Legality knows 1 and 3 only.
    assert [(card.key, card.value) for card in question.cards] == [("1", "1"), ("3", "3")]
    assert "fairness" not in text(answer)


def test_items_of_one_prompt_differ_by_their_response_in_every_list(
    batch: Batch, lin: Person, chen: Person, ma: Person
) -> None:
    responses = [task.response for task in batch.tasks.select_related("response").order_by("pk")]
    texts = {response.text for response in responses}
    assert len(texts) > len({response.prompt_id for response in responses})
    for annotator in (lin, chen):
        while label_next(batch, annotator, 3):
            pass
    pages = {
        "history": visit(lin).get("/history/"),
        "items": visit(ma).get("/batches/first/tasks/"),
        "quality": visit(ma).get("/batches/first/quality/lin/items/"),
    }
    missing = {(name, part) for name, page in pages.items() for part in texts if part not in text(page)}
    assert missing == set()


@pytest.mark.parametrize(("language", "form"), [("en", "en"), ("zh-hans", "zh")])
def test_the_definitions_of_the_dimension_and_the_subcomponent_stand_beside_the_question(
    lin: Person, chen: Person, language: str, form: str
) -> None:
    corpus = make_corpus(prompts=1, models=["m"], name="c", dimensions=["Fairness"])
    Prompt.objects.filter(dataset=corpus).update(subcomponent="Toxic language")
    flames = FLAMES_GUIDELINE.load()
    batch = make_batch(flames, corpus, annotators=[lin, chen], name="flames")
    visitor = visit(lin, language=language)
    fairness, toxic = flames.document.list_topic("Fairness", "Toxic language")
    other = next(part for part in fairness.subcomponents if part.name != "Toxic language")
    work = text(visitor.get("/work/flames/"))
    label_next(batch, lin, 3, "fairness")
    own = text(visitor.get(f"/history/{Assignment.objects.get(person=lin, state='submitted').pk}/"))
    for page in (work, own):
        assert fairness.definition[form] in page
        assert toxic.definition[form] in page
        assert other.definition[form] not in page
