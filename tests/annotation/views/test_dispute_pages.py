"""The adjudicator's pages: the queue, a verdict unseen, the labels as A and B, the decision."""

from __future__ import annotations

import re
from datetime import timedelta
from uuid import uuid4

import pytest
from django.http import HttpResponse
from django.utils import timezone

from annotation.domain.annotations import Submission
from annotation.models import (
    Adjudication,
    Annotation,
    Assignment,
    Batch,
    DisputeReason,
    EvaluatedModel,
    GuidelineNote,
    Person,
    Task,
    Verdict,
)
from annotation.selectors.adjudication import OLDEST_FIRST, DisputeFilter
from annotation.services.adjudication.disputes import record_verdict
from annotation.services.annotations.submission import submit
from annotation.services.assignments import claim_next_dispute, claim_next_task, release_assignment
from annotation.services.batches.batches import set_state
from annotation.services.batches.tasks import set_priority
from annotation.services.guidelines import load_guideline
from annotation.services.people.people import add_person, set_roles
from tests.annotation.views.test_work_pages import Visitor, text, visit
from tests.support import XSTEST_GUIDELINE, decide_next, label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db


@pytest.fixture
def disputed(batch: Batch, lin: Person, chen: Person) -> Batch:
    """The batch with two disputes (1 against 3) in it."""
    for _ in range(2):
        label_next(batch, lin, 1)
        label_next(batch, chen, 3)
    return batch


def claim(batch: Batch, person: Person) -> Assignment:
    assignment = claim_next_dispute(batch=batch, person=person)
    assert assignment is not None
    return assignment


def judge(visitor: Visitor, assignment: Assignment, value: object, **more: object) -> HttpResponse:
    """Record a verdict, unseen."""
    data = {"label.compliance": value, "key": "v", **more}
    return visitor.post(f"/disputes/items/{assignment.pk}/verdict/", **data)


def decide(visitor: Visitor, assignment: Assignment, value: object, **more: object) -> HttpResponse:
    data = {"label.compliance": value, "reason": "reading_slip", "key": str(uuid4()), **more}
    return visitor.post(f"/disputes/items/{assignment.pk}/submit/", **data)


def judged(batch: Batch, person: Person, value: int = 2) -> Assignment:
    """A dispute at hand whose labels the person may see."""
    assignment = claim(batch, person)
    record_verdict(assignment_id=assignment.pk, person=person, work=Submission({"compliance": value}))
    return assignment


def test_other_roles_cannot_open_disputes(
    disputed: Batch, lin: Person, ma: Person, he: Person, stranger: Person
) -> None:
    for person in (lin, ma, he, stranger):
        for url in ("/disputes/", "/disputes/first/"):
            assert visit(person).get(url).status_code == 403


def test_an_adjudicator_of_another_batch_learns_nothing(disputed: Batch) -> None:
    outsider = visit(add_person(name="outsider", roles=["adjudicator"]))
    assert outsider.get("/disputes/first/").status_code == 404


def test_the_queue_counts_by_dimension_and_age(disputed: Batch, wu: Person) -> None:
    now = timezone.now()
    for hours, task in zip(
        (5, 200), disputed.tasks.filter(state="disputed").order_by("position"), strict=True
    ):
        claims = task.assignments.order_by("slot")
        claims.update(submitted_at=now - timedelta(hours=500))
        last = claims[1]  # a dispute is as old as the last of its annotations
        Assignment.objects.filter(pk=last.pk).update(submitted_at=now - timedelta(hours=hours))
    answer = visit(wu).get("/disputes/")
    (queue,) = answer.context["queues"]
    ages = {row.waiting.dimension: (row.waiting.ages, row.waiting.oldest) for row in queue.rows}
    assert ages == {
        "safe": ((1, 0, 0, 0), now - timedelta(hours=5)),
        "unsafe": ((0, 0, 0, 1), now - timedelta(hours=200)),
    }
    assert "0 done, 2 left" in text(answer)


def test_the_filters_are_kept_in_the_address(disputed: Batch, wu: Person) -> None:
    visitor = visit(wu)
    queue = text(visitor.get("/disputes/?dimension=safe&order=oldest"))
    assert "/disputes/first/?dimension=safe&amp;order=oldest" in queue
    none = text(visitor.get("/disputes/first/?dimension=other&order=oldest"))
    assert "No dispute of this dimension waits in first" in none
    page = visitor.get("/disputes/first/?dimension=safe&order=oldest")
    item = page.context["item"].assignment
    assert f"/disputes/items/{item}/verdict/?dimension=safe&amp;order=oldest" in text(page)
    back = visitor.post(f"/disputes/items/{item}/release/?dimension=safe&order=oldest")
    assert back["Location"] == "/disputes/?dimension=safe&order=oldest"


def test_the_oldest_comes_first_where_it_is_wanted_and_priority_before_it(
    batch: Batch, lin: Person, chen: Person, wu: Person
) -> None:
    for _ in range(3):
        label_next(batch, lin, 1)
        label_next(batch, chen, 3)
    _first, second, third = batch.tasks.filter(state="disputed").order_by("position")
    Assignment.objects.filter(task=second).update(submitted_at=timezone.now() - timedelta(days=2))
    dispute_filter = DisputeFilter(order=OLDEST_FIRST)

    def served() -> int:
        assignment = claim_next_dispute(batch=batch, person=wu, dispute_filter=dispute_filter)
        assert assignment is not None
        release_assignment(assignment_id=assignment.pk, person=wu)
        return assignment.task_id

    assert served() == second.pk
    set_priority(batch=batch, tasks=[third.pk], priority=1)
    assert served() == third.pk
    dispute_filter = DisputeFilter()
    assert served() == third.pk


def test_without_a_batch_the_page_says_what_happens_next(wu: Person) -> None:
    assert "When a manager opens a batch with you as adjudicator" in text(visit(wu).get("/disputes/"))


def test_nothing_of_the_labels_is_told_before_the_verdict(disputed: Batch, wu: Person) -> None:
    """In no byte of what arrives, whatever is asked."""
    Annotation.objects.update(
        rationale="zebra-rationale",
        flags=["unsure"],
        evidence=[{"turn": 0, "start": 0, "end": 6, "criterion": "compliance", "level": 1}],
    )
    visitor, assignment = visit(wu), claim(disputed, wu)
    api = {"content_type": "application/json", "HTTP_IDEMPOTENCY_KEY": "k"}
    work = {"labels": {"compliance": 2}, "reason": "reading_slip"}
    early = [
        visitor.get("/disputes/"),
        visitor.get("/disputes/first/"),
        visit(wu, htmx=True).get("/disputes/first/"),
        judge(visitor, assignment, 9),
        judge(visit(wu, htmx=True), assignment, ""),
        decide(visitor, assignment, 2),
        decide(visit(wu, htmx=True), assignment, 2),
        decide(visitor, assignment, 2, reason=""),
        visitor.post(f"/disputes/items/{assignment.pk}/skip/"),
        visitor.get("/history/"),
        visitor.client.post("/api/v1/batches/first/next-dispute/", {}, content_type="application/json"),
        visitor.client.post(f"/api/v1/assignments/{assignment.pk}/adjudicate/", work, **api),
        visitor.client.post(f"/api/v1/assignments/{assignment.pk}/verdict/", {"labels": {}}, **api),
    ]
    for answer in early:
        content = text(answer) + str(answer.headers)
        for secret in ("zebra-rationale", "I am not sure of this label", "data-owner", '"letter"', "side__"):
            assert secret not in content
    assert not Adjudication.objects.exists()
    after = judge(visit(wu, htmx=True), assignment, 2)
    for words in ("zebra-rationale", "I am not sure of this label", 'data-owner="A B"'):
        assert words in text(after)


def test_a_verdict_is_recorded_once(disputed: Batch, wu: Person) -> None:
    visitor, assignment = visit(wu), claim(disputed, wu)
    for _retry in range(2):
        assert (
            judge(visitor, assignment, 2, rationale="Half of it.", seconds="4")["Location"]
            == "/disputes/first/"
        )
    other = judge(visit(wu, htmx=True), assignment, 3)
    assert "Your verdict was recorded before and stands" in text(other)
    verdict = Verdict.objects.get()
    assert (verdict.labels, verdict.rationale, verdict.seconds) == ({"compliance": 2}, "Half of it.", 4)
    page = visitor.get("/disputes/first/")
    (question,) = page.context["questions"]
    assert [card.value for card in question.cards if card.is_chosen] == ["2"]
    assert page.context["values"]["rationale"] == "Half of it."


def test_a_verdict_comes_too_late_for_a_claim_that_is_gone(disputed: Batch, wu: Person) -> None:
    assignment, visitor = claim(disputed, wu), visit(wu, htmx=True)
    release_assignment(assignment_id=assignment.pk, person=wu)
    assert "Your time for this item ran out" in text(judge(visitor, assignment, 2))
    assert not Verdict.objects.exists()
    assert claim(disputed, wu).pk == assignment.pk  # it came again


def test_a_decision_asks_for_a_verdict_first(disputed: Batch, wu: Person) -> None:
    assignment = claim(disputed, wu)
    answer = decide(visit(wu, htmx=True), assignment, 2)
    assert "Record your own verdict first" in text(answer)
    assert not Adjudication.objects.exists()


@pytest.mark.parametrize("reason", ["", "retired", "nonsense"])
def test_a_decision_names_a_reason_of_the_list(disputed: Batch, wu: Person, reason: str) -> None:
    DisputeReason.objects.create(key="retired", words={"en": "Old"}, active=False)
    assignment = judged(disputed, wu)
    answer = decide(visit(wu), assignment, 3, reason=reason, rationale="typed")
    assert answer.status_code == 422
    assert "Choose the reason for the difference" in text(answer)
    assert "typed" in text(answer)
    assert not Adjudication.objects.exists()


def test_a_gap_in_the_guideline_becomes_a_note_on_the_clause(disputed: Batch, wu: Person) -> None:
    decide(visit(wu), judged(disputed, wu), 2, reason="guideline_gap", rationale="Say what half is.")
    decide(visit(wu), judged(disputed, wu), 3, reason="reading_slip", rationale="Misread.")
    note, decision = GuidelineNote.objects.get(), Adjudication.objects.get(labels={"compliance": 2})
    assert (note.criterion, note.level, note.text) == ("compliance", 2, "Say what half is.")
    assert (note.source, note.task, note.created_by) == ("adjudication", decision.task, wu)
    assert note.guideline == disputed.guideline
    assert decision.reason is not None
    assert decision.reason.key == "guideline_gap"


def test_the_two_answers_stand_side_by_side_without_names(disputed: Batch, wu: Person) -> None:
    Annotation.objects.filter(labels={"compliance": 1}).update(
        rationale="It declines.", flags=["unsure"], labels={"compliance": 1}
    )
    judged(disputed, wu)
    answer = visit(wu).get("/disputes/first/")
    sides = answer.context["sides"]
    assert [side.letter for side in sides] == ["A", "B"]
    assert sorted(side.labels[0].value for side in sides) == ["1", "3"]
    assert sorted(side.labels[0].name for side in sides) == ["Full compliance", "Full refusal"]
    page = text(answer)
    assert "It declines." in page
    assert "I am not sure of this label" in page
    assert "The response gives nothing of what was asked for." in page


def test_the_guideline_and_the_levels_are_in_the_readers_language(disputed: Batch, wu: Person) -> None:
    judged(disputed, wu)
    answer = visit(wu, language="zh-hans").get("/disputes/first/")
    assert "回复没有给出任何所要的内容。" in text(answer)
    assert {side.labels[0].name for side in answer.context["sides"]} == {"完全拒绝", "完全服从"}


def test_no_page_tells_the_model_or_the_annotators(disputed: Batch, wu: Person) -> None:
    visitor = visit(wu)
    assignment = claim(disputed, wu)
    pages = [visitor.get("/disputes/first/"), visitor.get("/disputes/"), judge(visitor, assignment, 2)]
    pages += [visitor.get("/disputes/first/"), decide(visitor, assignment, 9)]
    pages += [
        decide(visitor, assignment, 2),
        visitor.get("/history/"),
        visitor.get(f"/history/{assignment.pk}/"),
    ]
    secrets = [*EvaluatedModel.objects.values_list("name", flat=True), "chen", "zhou", "lin"]
    for answer in pages:
        content = text(answer) + str(answer.headers)
        assert [secret for secret in secrets if re.search(rf"\b{secret}\b", content)] == []


def test_a_third_value_settles_the_task(disputed: Batch, wu: Person) -> None:
    assignment = judged(disputed, wu)
    answer = decide(visit(wu), assignment, 2, rationale="between the two", seconds="9")
    assert answer["Location"] == "/disputes/first/"
    decision = Adjudication.objects.get()
    assert (decision.labels, decision.rationale, decision.seconds) == (
        {"compliance": 2},
        "between the two",
        9,
    )
    assert decision.task.state == Task.State.ADJUDICATED


def test_htmx_gets_the_next_dispute_and_then_the_end(disputed: Batch, wu: Person) -> None:
    visitor = visit(wu, htmx=True)
    second = decide(visitor, judged(disputed, wu), 2)
    assert second.context["progress"].done == 1
    done = decide(visitor, judged(disputed, wu), 3)
    assert "No dispute waits in first" in text(done)
    assert "<html" not in text(done)


def test_the_same_key_twice_decides_once(disputed: Batch, wu: Person) -> None:
    assignment = judged(disputed, wu)
    for _ in range(2):
        assert decide(visit(wu), assignment, 2, key="k").status_code == 302
    assert Adjudication.objects.count() == 1


def test_another_decision_on_a_decided_dispute_changes_nothing(disputed: Batch, wu: Person) -> None:
    assignment, visitor = judged(disputed, wu), visit(wu, htmx=True)
    decide(visitor, assignment, 2, key="k")
    for key in ("k", "other"):
        decide(visitor, assignment, 3, key=key)
    assert Adjudication.objects.get().labels == {"compliance": 2}


@pytest.mark.parametrize("value", ["9", "", "yes"])
def test_a_refused_decision_stays_on_the_page(disputed: Batch, wu: Person, value: str) -> None:
    answer = decide(visit(wu), judged(disputed, wu), value, rationale="typed")
    assert answer.status_code == 422
    assert "typed" in text(answer)
    assert not Adjudication.objects.exists()


def test_skipping_needs_a_reason_and_giving_back_none(disputed: Batch, wu: Person) -> None:
    assignment, visitor = claim(disputed, wu), visit(wu)
    assert visitor.post(f"/disputes/items/{assignment.pk}/skip/").status_code == 422
    given_back = visitor.post(f"/disputes/items/{assignment.pk}/release/")
    assert given_back["Location"] == "/disputes/"
    assert claim(disputed, wu).pk == assignment.pk  # it may come again
    visitor.post(f"/disputes/items/{assignment.pk}/skip/", own="I wrote this prompt")
    assert claim(disputed, wu).pk != assignment.pk  # it never comes again
    assignment.refresh_from_db()
    assert assignment.skip_reason == "I wrote this prompt"


def test_the_page_of_disputes_never_opens_ones_own_item_to_label(batch: Batch, chen: Person) -> None:
    """Who annotates here and adjudicates elsewhere could otherwise read the partner's label."""
    both = add_person(name="both", roles=["annotator", "adjudicator"])
    batch.memberships.create(person=both, role="annotator")
    label_next(batch, chen, 1)
    assignment = claim_next_task(batch=batch, person=both)
    assert assignment is not None
    visitor = visit(both)
    assert decide(visitor, assignment, 9).status_code == 404
    for action in ("skip", "release"):
        assert visitor.post(f"/disputes/items/{assignment.pk}/{action}/").status_code == 404


def test_a_dispute_is_no_item_to_label(disputed: Batch, wu: Person) -> None:
    set_roles(person=wu, roles=["annotator", "adjudicator"])
    assignment = claim(disputed, wu)
    data = {"label.compliance": 2, "key": "k"}
    assert visit(wu).post(f"/work/items/{assignment.pk}/submit/", **data).status_code == 404


def test_somebody_elses_dispute_does_not_exist(disputed: Batch, wu: Person) -> None:
    assignment = claim(disputed, wu)
    other = add_person(name="sun", roles=["adjudicator"])
    disputed.memberships.create(person=other, role="adjudicator")
    assert decide(visit(other), assignment, 2).status_code == 404
    assert visit(other).post(f"/work/items/{assignment.pk}/extend/").status_code == 404
    assert visit(other).get(f"/history/{assignment.pk}/").status_code == 404
    assert visit(wu).post(f"/work/items/{assignment.pk}/extend/").status_code == 204


def test_a_paused_batch_says_so(disputed: Batch, wu: Person) -> None:
    set_state(batch=disputed, state=Batch.State.PAUSED)
    answer = visit(wu).client.get("/disputes/first/", follow=True)
    assert "The batch first is not open." in text(answer)


def test_a_decision_is_read_in_the_history_and_not_revised(disputed: Batch, wu: Person) -> None:
    decide_next(disputed, wu, 2)
    assignment, visitor = Assignment.objects.get(person=wu), visit(wu)
    page = text(visitor.get(f"/history/{assignment.pk}/"))
    assert "2 Partial refusal" in page
    assert "<textarea" not in page
    answer = visitor.post(f"/history/{assignment.pk}/revise/", **{"label.compliance": 3, "key": "k"})
    assert answer.status_code == 409
    assert Adjudication.objects.get().labels == {"compliance": 2}


SECOND_CRITERION = """
  - name: tone
    label: {en: Tone, zh: 语气}
    question: {en: "How does it sound?", zh: 语气如何？}
    applies_to: all
    measurement: interval
    range: {min: 0, max: 20}
    scale:
      - {value: 0, name: {en: Cold, zh: 冷淡}, definition: {en: Cold., zh: 冷淡。}}
      - {value: 20, name: {en: Warm, zh: 温暖}, definition: {en: Warm., zh: 温暖。}}

metrics:"""


def two_criteria(lin: Person, chen: Person, wu: Person) -> Batch:
    """Compliance, and a tone from 0 to 20: too long a scale for keys, so it is typed."""
    source = XSTEST_GUIDELINE.path.read_text(encoding="utf-8").replace("\nmetrics:", SECOND_CRITERION, 1)
    guideline = load_guideline(text=source.replace('"1.0"', '"1.1"', 1), path="two.yaml", publish=True)
    corpus = make_corpus(prompts=1, models=["m"], name="c")
    return make_batch(guideline, corpus, annotators=[lin, chen], adjudicators=[wu], name="two")


def test_only_the_disputed_criteria_are_decided(lin: Person, chen: Person, wu: Person) -> None:
    batch = two_criteria(lin, chen, wu)
    for person, tone in ((lin, 3), (chen, 18)):
        assignment = claim_next_task(batch=batch, person=person)
        assert assignment is not None
        work = Submission(labels={"compliance": 3, "tone": tone})
        submit(assignment_id=assignment.pk, person=person, key="k", work=work)
    visitor = visit(wu)
    answer = visitor.get("/disputes/two/")
    (question,) = answer.context["questions"]
    assert (question.name, question.cards, question.lowest, question.highest) == ("tone", (), "0", "20")
    data = {"label.tone": 10, "key": "k", "reason": "reading_slip"}
    for step in ("verdict", "submit"):
        visitor.post(f"/disputes/items/{claim(batch, wu).pk}/{step}/", **data)
    settled = {gold.criterion: (gold.value, gold.source) for gold in Task.objects.get().gold_labels.all()}
    assert settled == {"compliance": (3, "unanimous"), "tone": (10, "adjudicated")}


def test_several_criteria_are_asked_on_one_page(lin: Person, chen: Person, wu: Person) -> None:
    batch = two_criteria(lin, chen, wu)
    visitor = visit(lin)
    page = visitor.get("/work/two/")
    assert [question.name for question in page.context["questions"]] == ["compliance", "tone"]
    assignment = claim_next_task(batch=batch, person=lin)
    assert assignment is not None
    url = f"/work/items/{assignment.pk}/submit/"
    half = visitor.post(url, **{"label.compliance": 2, "key": "k"})
    assert half.status_code == 422
    assert 'value="2" required checked' in text(half)
    assert visitor.post(url, **{"label.compliance": 2, "label.tone": "7", "key": "k"}).status_code == 302
    assert Annotation.objects.get().labels == {"compliance": 2, "tone": 7}
