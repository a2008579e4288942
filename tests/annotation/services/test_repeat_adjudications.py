"""Decided disputes that come back unmarked: which, when, and that neither their reader nor gold can tell."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from unittest import mock
from uuid import UUID

import pytest
from django.apps import apps
from django.db import transaction
from django.db.models import Model
from django.test import Client
from django.utils import timezone

from annotation.core.errors import AssayError, Conflict, Forbidden
from annotation.domain.adjudication import is_repeated
from annotation.domain.annotations import Submission
from annotation.domain.guidelines import GuidelineDocument
from annotation.models import (
    Adjudication,
    Assignment,
    AuditEvent,
    Batch,
    GoldLabel,
    GuidelineNote,
    Person,
    Stratum,
    Task,
    Verdict,
)
from annotation.selectors import adjudication
from annotation.selectors.adjudication import BY_PROMPT, OLDEST_FIRST, DisputeFilter, count_waiting_disputes
from annotation.selectors.annotations.history import HistoryFilter as MyWanted
from annotation.selectors.annotations.history import list_history
from annotation.selectors.annotations.statistics import measure_own_pace
from annotation.selectors.batches.own_progress import find_own_progress
from annotation.selectors.quality.adjudicators import measure_intra_rater_agreement
from annotation.selectors.wellbeing import exposure_today, is_budget_used_up
from annotation.services.adjudication.disputes import adjudicate, record_verdict
from annotation.services.annotations.submission import AlreadySubmitted
from annotation.services.assignments import (
    claim_next_dispute,
    expire_leases,
    extend_lease,
    release_assignment,
)
from annotation.services.batches.batches import set_state
from annotation.services.batches.members import set_member_active
from annotation.services.batches.tasks import set_priority
from annotation.services.people.people import deactivate_person
from tests.annotation.invariants import nothing_is_broken
from tests.annotation.views.test_work_pages import text, visit
from tests.support import add_role, decide, decide_next, label_next

pytestmark = pytest.mark.django_db
# What the decision of a repeat adjudication may change: its own task and claim, and what is counted of it.
CHANGES = {"Adjudication", "Assignment", "AuditEvent", "MemberCounts", "Task", "Verdict"}
REPEATS = Task.objects.filter(kind="repeat")


def dispute(batch: Batch, lin: Person, chen: Person) -> None:
    label_next(batch, lin, 1)
    label_next(batch, chen, 3)


@pytest.fixture
def repeated(batch: Batch, lin: Person, chen: Person, wu: Person) -> Batch:
    """One dispute is decided and comes back in a fortnight, and another one waits."""
    Batch.objects.filter(pk=batch.pk).update(second_reading_share=1)
    dispute(batch, lin, chen)
    decide_next(batch, wu, 2)
    dispute(batch, lin, chen)
    return batch


def test_the_queue_counts_it_among_the_disputes(repeated: Batch, wu: Person) -> None:
    """Both of one dimension, the repeat due five days ago."""
    repeat = REPEATS.select_related("repeats__stratum").get()
    repeated.tasks.filter(kind="work", state="disputed").update(stratum=repeat.repeats.stratum)
    due_at = timezone.now() - timedelta(days=5)
    REPEATS.update(due_at=due_at)
    (row,) = count_waiting_disputes(repeated.memberships.get(person=wu))
    assert (row.n, row.ages, row.oldest) == (2, (1, 0, 1, 0), due_at)
    assert row.dimension == repeat.stratum.dimension


@pytest.mark.both_databases
def test_a_second_look_finds_what_the_first_few_did_not_hold(
    repeated: Batch, wu: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adjudication, "FIRST_DISPUTES", 0)
    for order in (OLDEST_FIRST, BY_PROMPT):
        assignment = claim(repeated, wu, dispute_filter=DisputeFilter(order=order))
        release_assignment(assignment_id=assignment.pk, person=wu)


def test_it_is_a_line_of_my_history_like_any_other(repeated: Batch, wu: Person) -> None:
    repeat = claim_repeat(repeated, wu)
    decide(repeat, wu, 3)
    first = Assignment.objects.get(state="submitted", person=wu, task__kind="work")
    visitor = visit(wu)

    def listed(query: str = "") -> list[UUID]:
        return [line.history_row.assignment for line in visitor.get(f"/history/{query}").context["rows"]]

    assert listed() == [repeat.pk, first.pk]
    assert listed(f"?kind=decisions&batch=first&state=closed&since={timezone.localdate()}")[0] == repeat.pk
    assert listed(f"?dimension={repeat.task.stratum.dimension}")[0] == repeat.pk
    for none in ({"kind": "labels"}, {"state": "open"}, {"words": "zebra"}, {"overruled": True}):
        assert list(list_history(wu, MyWanted(**none))) == []
    again_line, first_line = visitor.get("/history/").context["rows"]
    assert (again_line.history_row.labels, first_line.history_row.labels) == (
        {"compliance": 3},
        {"compliance": 2},
    )
    same = {"submitted_at": None, "assignment": None, "labels": None, "verdict": None}
    assert replace(again_line.history_row, **same) == replace(first_line.history_row, **same)
    pages = [visitor.get(f"/history/{pk}/") for pk in (repeat.pk, first.pk)]
    for page, value in zip(pages, (3, 2), strict=True):
        assert page.context["submitted"].labels == {"compliance": value}
        assert "I misread" in text(page) or page.context["reason"]
    assert (
        visitor.post(f"/history/{repeat.pk}/revise/", **{"label.compliance": 3, "key": "k"}).status_code
        == 409
    )
    assert measure_own_pace(wu).days[-1].decisions == 2


def make_due() -> None:
    REPEATS.update(due_at=timezone.now() - timedelta(minutes=1))


def claim(batch: Batch, person: Person, **more: Any) -> Assignment:
    assignment = claim_next_dispute(batch=batch, person=person, **more)
    assert assignment is not None
    return assignment


def claim_repeat(batch: Batch, person: Person) -> Assignment:
    make_due()
    assignment = claim(batch, person)
    assert assignment.task.kind == "repeat"
    return assignment


@pytest.mark.parametrize(("share", "size"), [(0.05, 20), (0.1, 10), (1, 1)])
def test_one_of_each_block_is_repeated(share: float, size: int) -> None:
    drawn = [n for n in range(1, 20 * size + 1) if is_repeated(n, share=share, seed="s")]
    assert [(n - 1) // size for n in drawn] == list(range(20))
    assert not any(is_repeated(n, share=0, seed="s") for n in range(1, 50))


def test_the_draw_is_not_the_same_for_everybody_and_no_pattern() -> None:
    def places(seed: str) -> list[int]:
        return [n % 20 for n in range(1, 401) if is_repeated(n, share=0.05, seed=seed)]

    assert places("s") == places("s") != places("t")
    assert len(set(places("s"))) > 5


def test_a_share_that_divides_nothing_is_exact_too() -> None:
    drawn = [n for n in range(1, 1001) if is_repeated(n, share=0.3, seed="s")]
    assert len(drawn) == 300
    assert all(abs(len([n for n in drawn if n <= k]) - 0.3 * k) <= 1 for k in range(1, 1001))


def test_it_waits_until_it_is_due_and_comes_after_what_was_put_first(repeated: Batch, wu: Person) -> None:
    repeat = REPEATS.select_related("stratum").get()
    assert repeat.due_at is not None
    assert timedelta(days=13.9) < repeat.due_at - timezone.now() <= timedelta(days=14)
    first = claim(repeated, wu)
    assert first.task_id != repeat.pk
    release_assignment(assignment_id=first.pk, person=wu)
    make_due()
    set_priority(batch=repeated, tasks=[first.task_id], priority=1)
    assert claim(repeated, wu).pk == first.pk
    release_assignment(assignment_id=first.pk, person=wu)
    set_priority(batch=repeated, tasks=[first.task_id], priority=0)
    assignment = claim(repeated, wu)
    assert assignment.task_id == repeat.pk
    assert claim(repeated, wu).pk == assignment.pk  # while it is in progress
    release_assignment(assignment_id=assignment.pk, person=wu)
    dimension = repeat.stratum.dimension
    other = {"safe": "unsafe", "unsafe": "safe"}[dimension]
    assert claim(repeated, wu, dispute_filter=DisputeFilter(dimension=other)).pk == first.pk


def test_it_comes_early_once_the_disputes_have_run_out(
    repeated: Batch, lin: Person, chen: Person, wu: Person
) -> None:
    decide_next(repeated, wu, 2)
    assert claim_next_dispute(batch=repeated, person=wu) is None  # others are still labelling
    while label_next(repeated, lin, 1) is not None:
        label_next(repeated, chen, 1)
    progress = find_own_progress(repeated, wu, "adjudicator")
    assert progress is not None
    assert (progress.done, progress.left) == (2, 2)
    for done in (3, 4):
        decide_next(repeated, wu, 2)
        progress = find_own_progress(repeated, wu, "adjudicator")
        assert progress is not None
        assert progress.done == done
    assert claim_next_dispute(batch=repeated, person=wu) is None
    assert REPEATS.filter(state="adjudicated").count() == 2


def test_a_repeat_adjudication_brings_no_third(repeated: Batch, wu: Person) -> None:
    decide(claim_repeat(repeated, wu), wu, 3)
    assert REPEATS.count() == 1


def rows_of(model: type[Model]) -> dict[Any, dict[str, Any]]:
    return {row[model._meta.pk.attname]: row for row in model._default_manager.order_by("pk").values()}


def test_it_changes_nothing_but_itself(repeated: Batch, wu: Person) -> None:
    repeat_claim = claim_repeat(repeated, wu)
    models = [model for model in apps.get_models() if model._meta.app_label == "annotation"]
    before = {model: rows_of(model) for model in models}
    decide(repeat_claim, wu, 3, reason="guideline_gap")
    changed = {
        model.__name__: [row for pk, row in rows_of(model).items() if row != before[model].get(pk)]
        for model in models
        if rows_of(model) != before[model]
    }
    assert set(changed) == CHANGES
    (task,), (assignment,), (tally,) = (changed[name] for name in ("Task", "Assignment", "MemberCounts"))
    assert (task["id"], task["kind"], task["state"]) == (repeat_claim.task_id, "repeat", "adjudicated")
    assert assignment["id"] == repeat_claim.pk
    assert Stratum.objects.get(pk=tally["stratum_id"]).kind == "repeat"
    (verdict,), (decision,) = changed["Verdict"], changed["Adjudication"]
    assert verdict["assignment_id"] == decision["assignment_id"] == repeat_claim.pk
    assert verdict["labels"] == decision["labels"] == {"compliance": 3}
    assert Adjudication.objects.get(assignment=repeat_claim).reason.key == "guideline_gap"
    assert not GuidelineNote.objects.exists()
    assert not GoldLabel.objects.filter(task=repeat_claim.task_id).exists()
    assert GoldLabel.objects.get(task=repeat_claim.task.repeats, source="adjudicated").value == 2


def test_it_is_submitted_once_with_a_receipt(repeated: Batch, wu: Person) -> None:
    assignment = claim_repeat(repeated, wu)
    work = Submission({"compliance": 3}, reason="reading_slip")
    with pytest.raises(Conflict, match="verdict first"):
        adjudicate(assignment_id=assignment.pk, person=wu, key="k", work=work)
    record_verdict(assignment_id=assignment.pk, person=wu, work=Submission({"compliance": 3}))
    with pytest.raises(Conflict, match="stands"):
        record_verdict(assignment_id=assignment.pk, person=wu, work=Submission({"compliance": 1}))
    first = adjudicate(assignment_id=assignment.pk, person=wu, key="k", work=work)
    retry = adjudicate(assignment_id=assignment.pk, person=wu, key="k", work=work)
    assert (first.created, retry.created, retry.receipt) == (True, False, first.receipt)
    with pytest.raises(AlreadySubmitted) as refusal:
        adjudicate(assignment_id=assignment.pk, person=wu, key="other", work=work)
    assert refusal.value.receipt.receipt == first.receipt


def test_its_lease_is_extended_given_back_and_skipped(repeated: Batch, wu: Person) -> None:
    assignment = claim_repeat(repeated, wu)
    Assignment.objects.filter(pk=assignment.pk).update(lease_expires=timezone.now())
    assert extend_lease(assignment_id=assignment.pk, person=wu).lease_expires > timezone.now()
    assert release_assignment(assignment_id=assignment.pk, person=wu).state == "released"
    assert claim(repeated, wu).pk == assignment.pk
    Assignment.objects.filter(pk=assignment.pk).update(lease_expires=timezone.now() - timedelta(seconds=1))
    assert claim(repeated, wu).pk == assignment.pk  # its lease ran out, and it came again
    release_assignment(assignment_id=assignment.pk, person=wu, skip_reason="I know the author")
    assert REPEATS.get().state == "withdrawn"
    skipped = AuditEvent.objects.get(verb="skip_second_reading")
    assert skipped.target == f"task:{assignment.task.repeats_id}"
    nothing_is_broken(repeated)
    assert claim(repeated, wu).pk != assignment.pk
    with pytest.raises(Conflict, match="You skipped this item"):
        decide(assignment, wu, 2)


def test_late_work_on_it_is_taken_and_a_closed_batch_takes_none(repeated: Batch, wu: Person) -> None:
    assignment = claim_repeat(repeated, wu)
    record_verdict(assignment_id=assignment.pk, person=wu, work=Submission({"compliance": 1}))
    Assignment.objects.filter(pk=assignment.pk).update(lease_expires=timezone.now() - timedelta(hours=1))
    work = Submission({"compliance": 1}, reason="reading_slip")
    set_state(batch=repeated, state="closed")
    with pytest.raises(Conflict, match="closed"):
        adjudicate(assignment_id=assignment.pk, person=wu, key="k", work=work)
    Batch.objects.update(state="open")
    assert adjudicate(assignment_id=assignment.pk, person=wu, key="k", work=work).created


def test_a_paused_batch_hands_none_out(repeated: Batch, wu: Person) -> None:
    make_due()
    set_state(batch=repeated, state="paused")
    with pytest.raises(Forbidden):
        claim_next_dispute(batch=repeated, person=wu)


def plain(page: str, item: Assignment) -> str:
    """The page without what differs from request to request, and without its item's own words."""
    page = page.replace(str(item.pk), "ITEM")
    page = re.sub(r'(name="key" value|csrfmiddlewaretoken" value|data-saved|nonce)="[^"]*"', "", page)
    return re.sub(
        r"(number|Answer|question) \d+|<span>\w+</span>|X-CSRFToken[^}]*|(Safe|Unsafe) prompts|<dd[^<]*</dd>",
        "",
        page,
    )


def seen(batch: Batch, person: Person) -> list[str]:
    """Everything that a dispute brings its adjudicator, step by step, to the end."""
    visitor, item = visit(person), claim(batch, person)
    url = f"/disputes/items/{item.pk}"
    data = {"label.compliance": 2, "key": "k", "reason": "reading_slip"}
    pages = [text(visitor.get("/disputes/first/"))]
    pages.append(str(visitor.post(f"{url}/verdict/", **data).status_code))
    pages.append(text(visitor.get("/disputes/first/")))
    api = Client()
    api.force_login(person)
    item_json = api.post("/api/v1/batches/first/next-dispute/", {}, content_type="application/json").json()
    pages.append(str(sorted(item_json)) + str(item_json["verdict"]))
    for action in ("extend", "release"):
        answer = api.post(f"/api/v1/assignments/{item.pk}/{action}/", {}, content_type="application/json")
        pages.append(re.sub(r'expires":"[^"]*"', "", answer.content.decode()))
    assert claim(batch, person).pk == item.pk
    answer = api.post(
        f"/api/v1/assignments/{item.pk}/adjudicate/",
        {"labels": {"compliance": 2}, "reason": "reading_slip"},
        content_type="application/json",
        headers={"Idempotency-Key": "k"},
    )
    pages.append(f"{answer.status_code} {sorted(answer.json())} {answer.json()['revision']}")
    return [re.sub(r"\d+ done, \d+ left|(value|max)=\"\d+\"", "", plain(page, item)) for page in pages]


def test_nobody_can_tell_it_from_a_first_decision(repeated: Batch, wu: Person) -> None:
    """The same pages, addresses, answers and counts; its text is the only thing that was there before."""
    first = seen(repeated, wu)
    Batch.objects.update(second_reading_share=0)
    REPEATS.exclude(pk=REPEATS.order_by("due_at")[0].pk).delete()
    make_due()
    before = find_own_progress(repeated, wu, "adjudicator")
    assert before is not None
    assert (before.done, before.left) == (2, 1)
    assert "1" in text(visit(wu).get("/disputes/"))
    second = seen(repeated, wu)
    assert REPEATS.get().state == "adjudicated"
    for second_page, other in zip(second, first, strict=True):
        assert sorted(second_page.splitlines()) == sorted(
            other.splitlines()
        )  # A and B are in an order of their own
    after = find_own_progress(repeated, wu, "adjudicator")
    assert after is not None
    assert (after.done, after.left) == (3, 0)


def test_it_does_not_show_the_first_verdict_nor_the_first_decision(repeated: Batch, wu: Person) -> None:
    assignment = claim_repeat(repeated, wu)
    page = visit(wu).get("/disputes/first/")
    assert page.context.get("verdict") is None
    assert "decided" not in text(page)
    assert "side__" not in text(page)
    assert not Verdict.objects.filter(assignment=assignment).exists()


def test_a_quota_counts_it(repeated: Batch, wu: Person) -> None:
    decide(claim_repeat(repeated, wu), wu, 2)
    repeated.memberships.filter(person=wu).update(quota=2)
    assert claim_next_dispute(batch=repeated, person=wu) is None
    repeated.memberships.filter(person=wu).update(quota=3)
    assert claim_next_dispute(batch=repeated, person=wu) is not None


def test_intra_rater_agreement_is_the_share_that_was_decided_alike(
    repeated: Batch, lin: Person, chen: Person, wu: Person
) -> None:
    assert measure_intra_rater_agreement(repeated) == []
    for value in (2, 3):
        if not REPEATS.filter(state="disputed").exists():
            decide_next(repeated, wu, 2)
        decide(claim_repeat(repeated, wu), wu, value)
    (agreement,) = measure_intra_rater_agreement(repeated)
    rate = agreement.rate
    assert (agreement.person, rate.n, rate.equal, rate.value) == (wu, 2, 1, 0.5)
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low < 0.1
    assert rate.high > 0.9
    assert measure_intra_rater_agreement() == [agreement]


def test_what_was_recorded_of_it_is_not_the_adjudicators_to_read(repeated: Batch, wu: Person) -> None:
    assignment = claim_repeat(repeated, wu)
    decide(assignment, wu, 3)
    assert AuditEvent.objects.filter(
        verb="second_reading", target=f"task:{assignment.task.repeats_id}"
    ).exists()
    pages = "".join(text(visit(wu).get(url)) for url in ("/", "/disputes/", "/history/", "/account/"))
    assert "second_reading" not in pages
    assert "repeat" not in pages.lower()


def test_work_that_comes_late_is_not_undone_by_handing_it_out(repeated: Batch, wu: Person) -> None:
    """Two tabs: one asks for the next item while the other decides what was given back."""
    assignment = claim_repeat(repeated, wu)
    record_verdict(assignment_id=assignment.pk, person=wu, work=Submission({"compliance": 3}))
    release_assignment(assignment_id=assignment.pk, person=wu)
    work = Submission({"compliance": 3}, reason="reading_slip")
    receipt = adjudicate(assignment_id=assignment.pk, person=wu, key="k", work=work)
    assert claim(repeated, wu).pk != assignment.pk
    assert adjudicate(assignment_id=assignment.pk, person=wu, key="k", work=work).receipt == receipt.receipt
    assert REPEATS.get().state == "adjudicated"


def leave(batch: Batch, wu: Person, he: Person) -> int:
    return set_member_active(batch=batch, person=wu, role="adjudicator", active=False)


def shut_out(batch: Batch, wu: Person, he: Person) -> int:
    return deactivate_person(person=wu, actor=he)


def close(batch: Batch, wu: Person, he: Person) -> None:
    set_state(batch=batch, state="closed")


def run_out(batch: Batch, wu: Person, he: Person) -> None:
    past = {"lease_expires": timezone.now() - timedelta(hours=1)}
    Assignment.objects.filter(state="claimed").update(**past)
    expire_leases(batch=batch)


@pytest.mark.parametrize("end", [leave, shut_out, close, run_out])
@pytest.mark.parametrize("judged", [False, True])
def test_it_ends_as_the_claim_on_a_dispute_does(
    repeated: Batch, wu: Person, he: Person, end: Callable[[Batch, Person, Person], Any], judged: bool
) -> None:
    """With the same refusals, word for word."""

    def refusals(item: Assignment) -> list[object]:
        work, answers = Submission({"compliance": 2}, reason="reading_slip"), []
        for call in (
            partial(extend_lease, assignment_id=item.pk, person=wu),
            partial(record_verdict, assignment_id=item.pk, person=wu, work=work),
            partial(adjudicate, assignment_id=item.pk, person=wu, key="k", work=work),
        ):
            try:
                call()
                answers.append("taken")
            except AssayError as error:
                answers.append((type(error), str(error)))
        return answers

    with transaction.atomic():
        outcomes = []
        for claim_one in (claim, claim_repeat):
            with transaction.atomic():
                assignment = claim_one(repeated, wu)
                if judged:
                    record_verdict(assignment_id=assignment.pk, person=wu, work=Submission({"compliance": 2}))
                end(repeated, wu, he)
                assert not Assignment.objects.filter(state="claimed").exists()
                outcomes.append(refusals(assignment))
                transaction.set_rollback(True)
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("action", ["submit", "revise", "draft"])
def test_no_other_call_knows_it_from_a_dispute(repeated: Batch, wu: Person, action: str) -> None:
    add_role(wu, "annotator")
    api = Client()
    api.force_login(wu)

    def describe_answers(item: Assignment) -> tuple[int, object]:
        if action == "draft":
            answer = api.post(f"/work/items/{item.pk}/draft/", {"key": "k"})
            return answer.status_code, re.findall(
                rb"<title>.*</title>|This item is a dispute[^<]*", answer.content
            )
        answer = api.post(
            f"/api/v1/assignments/{item.pk}/{action}/",
            {"labels": {"compliance": 1}},
            content_type="application/json",
            headers={"Idempotency-Key": "k"},
        )
        return answer.status_code, answer.content

    first = claim(repeated, wu)
    dispute_says = describe_answers(first)
    release_assignment(assignment_id=first.pk, person=wu)
    assert dispute_says == describe_answers(claim_repeat(repeated, wu))
    assert dispute_says[0] == 409


def test_reading_it_counts_as_reading_a_dispute_does(repeated: Batch, wu: Person) -> None:
    """Also while it is at hand, and where it is skipped."""
    severe = mock.patch.object(GuidelineDocument, "severity_of", return_value=2)
    wu.daily_exposure = 2
    wu.save()
    assignment = claim_repeat(repeated, wu)
    with severe:
        assert is_budget_used_up(wu)
        release_assignment(assignment_id=assignment.pk, person=wu)
        assert not is_budget_used_up(wu)
        assert claim(repeated, wu).pk == assignment.pk
        release_assignment(assignment_id=assignment.pk, person=wu, skip_reason="too much")
    assert exposure_today(wu) == 2
