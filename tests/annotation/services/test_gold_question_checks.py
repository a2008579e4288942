"""Gold checks: gold questions among the work, as many as the batch says, which nothing gives away."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from annotation.core.errors import Conflict, Forbidden
from annotation.core.sampling import block_of
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import BatchSpec, Policy, Terms
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import (
    Assignment,
    Batch,
    GoldQuestion,
    GoldQuestionTask,
    Guideline,
    Membership,
    Person,
    Response,
    Task,
)
from annotation.selectors.agreement import LabelPatterns
from annotation.selectors.batches.needs import list_needs
from annotation.selectors.batches.own_progress import find_own_progress
from annotation.selectors.batches.progress import list_batch_rows, measure_annotations, measure_progress
from annotation.selectors.gold_questions import (
    derive_seed,
    list_batch_check_results,
    list_check_results,
    list_poor_results,
)
from annotation.services.annotations.submission import revise, submit
from annotation.services.assignments import claim_next_task, expire_leases, release_assignment
from annotation.services.batches.batches import create_batch, set_state
from annotation.services.batches.members import set_limits, set_member_active
from annotation.services.batches.monitoring import watch_batch
from annotation.services.batches.policy import set_terms
from annotation.services.gold_questions.gold_questions import GoldAnswer, add_questions, set_question_active
from annotation.services.people.people import set_languages, set_roles
from annotation.services.releases import cut_release
from tests.annotation.gold_question_support import add_known, make_checked
from tests.annotation.invariants import nothing_is_broken
from tests.support import api_token, label, label_next, make_corpus, read_introduction

pytestmark = pytest.mark.django_db


def claim(batch: Batch, person: Person, *, ahead: bool = False) -> Assignment | None:
    return claim_next_task(batch=batch, person=person, ahead=ahead)


def until_check(batch: Batch, person: Person, value: int = 3) -> Assignment:
    """Label what comes until a check is at hand."""
    while (item := claim(batch, person)) is not None:
        if item.task.kind == Task.Kind.CHECK:
            return item
        label(item, person, value)
    raise AssertionError("no check came")


def drain(batch: Batch, person: Person, value: int = 3) -> list[str]:
    """The kinds of all that the person submits until nothing is left, in order."""
    kinds = []
    while (item := claim(batch, person)) is not None:
        kinds.append(item.task.kind)
        label(item, person, value)
    return kinds


def test_each_block_of_the_share_holds_one_check_at_its_drawn_place(
    guideline: Guideline, lin: Person, chen: Person
):
    batch = make_checked(guideline, annotators=[lin, chen], prompts=24, checks=20, check_share=0.25)
    kinds = drain(batch, lin)
    assert kinds.count("work") == 24
    assert kinds == drawn(batch, lin, len(kinds))
    nothing_is_broken(batch)


def drawn(batch: Batch, person: Person, number: int) -> list[str]:
    member = Membership.objects.get(batch=batch, person=person)
    kinds = []
    for place in range(1, number + 1):
        block = block_of(place, share=batch.check_share, seed=derive_seed(member.pk))
        assert block is not None
        kinds.append("check" if block.drawn == place else "work")
    return kinds


@pytest.mark.parametrize("pairing", ["pool", "balanced"])
def test_what_is_done_and_what_is_left_tell_no_check_from_an_item(
    guideline: Guideline, lin: Person, chen: Person, pairing: str
):
    """One more is done and one less is left after each, but at the very end, where a batch rounds up to one."""
    batch = make_checked(
        guideline, annotators=[lin, chen], prompts=15, checks=4, check_share=0.3, pairing=pairing
    )
    before = find_own_progress(batch, lin, "annotator")
    assert before is not None
    all_left = before.left
    for done in range(1, all_left + 1):
        item = claim(batch, lin)
        assert item is not None
        label(item, lin, 3)
        now = find_own_progress(batch, lin, "annotator")
        assert now is not None
        assert (now.done, now.left) == (done, all_left - done)
    assert claim(batch, lin) is None
    assert GoldQuestionTask.objects.filter(person=lin).count() == 4  # all that there were
    nothing_is_broken(batch)


def test_a_check_is_of_a_response_that_the_person_never_had(guideline: Guideline, lin: Person, chen: Person):
    """Neither as work elsewhere, nor because it became work of this batch."""
    batch = make_checked(guideline, annotators=[lin, chen], prompts=12, checks=4, check_share=0.5)
    items = list(GoldQuestion.objects.filter(batch=batch).order_by("pk"))
    other = create_batch(
        BatchSpec(
            name="other",
            guideline=guideline,
            dataset=items[0].response.prompt.dataset,
            annotators=[lin, chen],
            policy=Policy(),
        )
    )
    had = {
        label_next(other, lin, 3) and Assignment.objects.latest("claimed_at").task.response_id for _ in "12"
    }
    left = {item.response_id for item in items} - had
    drain(batch, lin)
    responses = set(GoldQuestionTask.objects.filter(person=lin).values_list("task__response", flat=True))
    assert responses == left


def test_a_check_is_for_those_whom_its_kind_is_for_and_never_of_the_prompt_before(
    guideline: Guideline, lin: Person, chen: Person
):
    """It is given at its place or, where none can be given there, as soon as one can."""
    batch = make_checked(guideline, annotators=[lin, chen], prompts=8, checks=6, check_share=0.5)
    set_limits(batch=batch, person=lin, role="annotator", quota=None, excluded_dimensions=["safe"])
    drain(batch, lin)
    kinds = set(
        GoldQuestionTask.objects.filter(person=lin).values_list("task__stratum__dimension", flat=True)
    )
    assert kinds == {"unsafe"}
    item = GoldQuestion.objects.filter(batch=batch)[0]
    Membership.objects.filter(batch=batch, person=chen).update(last_prompt=item.response.prompt_id)
    GoldQuestion.objects.filter(batch=batch).exclude(pk=item.pk).update(active=False)
    for _turn in "123":
        assignment = claim(batch, chen)
        assert assignment is not None
        last = Membership.objects.get(batch=batch, person=chen).last_prompt
        assert assignment.task.prompt_id == last
        label(assignment, chen, 3)
    tasks = Task.objects.filter(assignments__person=chen).order_by("assignments__claimed_at")
    prompts = list(tasks.values_list("prompt", flat=True))
    assert all(prompt != other for prompt, other in pairwise(prompts))


def test_a_check_is_of_the_dimension_of_the_work_around_it(guideline: Guideline, lin: Person, chen: Person):
    """Where the work comes dimension by dimension, another one between would stand out."""
    corpus = make_corpus(prompts=24, models=["Secretive-7B"], name="sorted")
    for place, prompt in enumerate(corpus.prompts.order_by("pk")):
        prompt.dimension = "safe" if place < 12 else "unsafe"
        prompt.save()
    policy = Policy(check_share=0.25, second_reading_share=0)
    batch = create_batch(
        BatchSpec(name="first", guideline=guideline, dataset=corpus, annotators=[lin, chen], policy=policy)
    )
    add_known(batch, 20)
    for person in (lin, chen):
        seen = []
        while (item := claim(batch, person)) is not None:
            seen.append(item.task.stratum.dimension)
            label(item, person, 3)
        assert seen == sorted(seen)
        assert len(seen) in {31, 32}
    nothing_is_broken(batch)


def test_a_check_that_was_taken_out_does_not_come_again(guideline: Guideline, lin: Person, chen: Person):
    batch = make_checked(guideline, annotators=[lin, chen], prompts=6, checks=6, check_share=0.25)
    check = until_check(batch, lin)
    release_assignment(assignment_id=check.pk, person=lin)
    set_question_active(batch=batch, item=check.task.known.item_id, active=False)
    rest = []
    while (item := claim(batch, lin)) is not None:
        rest.append(item.pk)
        label(item, lin, 3)
    assert rest
    assert check.pk not in rest
    nothing_is_broken(batch)


def test_without_items_or_share_there_is_work_alone(guideline: Guideline, lin: Person, chen: Person):
    batch = make_checked(guideline, annotators=[lin, chen], prompts=4, checks=3)
    assert drain(batch, lin) == ["work"] * 4
    Batch.objects.filter(pk=batch.pk).update(check_share=0.5)
    GoldQuestion.objects.filter(batch=batch).update(active=False)
    assert drain(batch, chen) == ["work"] * 4


def test_a_check_given_back_comes_last_of_all_and_another_one_at_its_place(
    guideline: Guideline, lin: Person, chen: Person
):
    """As an item of work that was given back does: it never comes again at once."""
    batch = make_checked(guideline, annotators=[lin, chen], prompts=8, checks=6, check_share=0.25)
    check = until_check(batch, lin)
    release_assignment(assignment_id=check.pk, person=lin)
    second_assignment = claim(batch, lin)
    assert second_assignment is not None
    assert second_assignment.pk != check.pk
    assert second_assignment.task.kind == Task.Kind.CHECK
    label(second_assignment, lin, 3)
    nothing_is_broken(batch)
    rest = []
    while (item := claim(batch, lin)) is not None:
        rest.append(item.pk)
        label(item, lin, 3)
    assert rest[-1] == check.pk
    nothing_is_broken(batch)


def test_a_check_whose_lease_ran_out_comes_again_first_and_is_taken_late(
    guideline: Guideline, lin: Person, chen: Person
):
    batch = make_checked(guideline, annotators=[lin, chen], prompts=8, checks=6, check_share=0.25)
    check = until_check(batch, lin)
    Assignment.objects.filter(pk=check.pk).update(lease_expires=timezone.now() - timedelta(hours=1))
    expire_leases(batch=batch)
    nothing_is_broken(batch)
    second_assignment = claim(batch, lin)
    assert second_assignment is not None
    assert second_assignment.pk == check.pk
    Assignment.objects.filter(pk=check.pk).update(lease_expires=timezone.now() - timedelta(hours=1))
    expire_leases(batch=batch)
    label(check, lin, 3)
    assert drain(batch, chen).count("work") == 8
    assert list_needs(batch, limit=10) == []
    nothing_is_broken(batch)


def test_a_skipped_check_is_over_and_counts_as_given(guideline: Guideline, lin: Person, chen: Person):
    batch = make_checked(
        guideline, annotators=[lin, chen], prompts=8, checks=6, check_share=0.25, pairing="balanced"
    )
    check = until_check(batch, lin)
    before = find_own_progress(batch, lin, "annotator")
    release_assignment(assignment_id=check.pk, person=lin, skip_reason="too hard")
    after = find_own_progress(batch, lin, "annotator")
    assert before is not None
    assert after is not None
    assert (after.done, after.left) == (before.done, before.left - 1)
    check.task.refresh_from_db()
    assert check.task.state == Task.State.WITHDRAWN
    following = claim(batch, lin)
    assert following is not None
    place = check.task.position + 1
    assert following.task.kind == drawn(batch, lin, place)[-1]  # the next place, as if it had been submitted
    assert measure_progress(batch).skips == 0  # of the work
    nothing_is_broken(batch)


def test_checks_count_for_the_quota_as_the_work_does(guideline: Guideline, lin: Person, chen: Person):
    batch = make_checked(guideline, annotators=[lin, chen], prompts=12, checks=6, check_share=0.5)
    set_limits(batch=batch, person=lin, role="annotator", quota=6)
    kinds = drain(batch, lin)
    assert len(kinds) == 6
    assert kinds.count("check") == 3
    nothing_is_broken(batch)


def test_known_items_never_enter_gold_agreement_progress_or_needs(
    guideline: Guideline, lin: Person, chen: Person, he: Person
):
    batch = make_checked(guideline, annotators=[lin, chen], prompts=6, checks=6, check_share=0.5)
    for person, value in ((lin, 3), (chen, 1)):
        drain(batch, person, value)
    assert GoldQuestionTask.objects.count() >= 10  # five or six for each of them
    counts = measure_progress(batch)
    assert counts.tasks == 6
    assert {person.person.username: person.submitted for person in counts.people} == {"lin": 6, "chen": 6}
    assert counts.states == {"disputed": 6}
    stats = watch_batch(batch)
    assert stats.complete == 6
    assert sum(stats.days.values()) == 12
    assert [row.agreement.n for row in LabelPatterns([batch]).report()] == [6]
    assert [need.task.kind for need in list_needs(batch, limit=50)] == ["work"] * 6  # nobody adjudicates here
    set_state(batch=batch, state=Batch.State.CLOSED)
    nothing_is_broken(batch)
    with pytest.raises(Conflict, match="Nothing is settled"):
        cut_release(ReleaseSpec(name="r", batches=[batch]), actor=he)


# Open, closed, corrected.


def test_a_check_closes_at_once_where_work_does(guideline: Guideline, lin: Person):
    single_batch = make_checked(guideline, annotators=[lin], prompts=6, checks=3, check_share=0.5, overlap=1)
    drain(single_batch, lin)
    assert set(single_batch.tasks.values_list("state", flat=True)) == {"agreed"}
    nothing_is_broken(single_batch)


def test_closing_the_batch_closes_what_was_answered(guideline: Guideline, lin: Person, chen: Person):
    batch = make_checked(guideline, annotators=[lin, chen], prompts=8, checks=6, check_share=0.5)
    answered = until_check(batch, lin)
    label(answered, lin, 3)
    held = until_check(batch, chen)
    set_state(batch=batch, state=Batch.State.CLOSED)
    answered.task.refresh_from_db()
    held.task.refresh_from_db()
    assert (answered.task.state, held.task.state) == ("agreed", "open")
    nothing_is_broken(batch)


def test_who_leaves_takes_their_checks_along(guideline: Guideline, lin: Person, chen: Person, zhou: Person):
    batch = make_checked(
        guideline, annotators=[lin, chen, zhou], prompts=9, checks=6, check_share=0.25, pairing="balanced"
    )
    check = until_check(batch, lin)
    set_member_active(batch=batch, person=lin, role="annotator", active=False)
    check.task.refresh_from_db()
    assert check.task.panel_id is None
    assert list_needs(batch, limit=10) == []
    kinds = drain(batch, chen)
    assert not GoldQuestionTask.objects.filter(person=chen, task=check.task).exists()
    assert kinds.count("work") > 0
    nothing_is_broken(batch)
    set_member_active(batch=batch, person=lin, role="annotator", active=True)
    assert check.pk in {item.pk for item in iter(lambda: answered_next(batch, lin), None)}


def answered_next(batch: Batch, person: Person) -> Assignment | None:
    item = claim(batch, person)
    if item is not None:
        label(item, person, 3)
    return item


# What the annotator can see.


def shape(value: Any) -> Any:
    """The keys and types of what a program gets, without what differs from item to item."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in sorted(value.items())}
    if isinstance(value, list):
        return [shape(part) for part in value[:1]]
    return type(value).__name__


def masked(page: str) -> str:
    """A page without what differs from item to item: ids, keys, tokens, texts, numbers."""
    page = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", page)
    page = re.sub(r'(name="csrfmiddlewaretoken" value|"X-CSRFToken"): ?"?[^"]*"', "TOKEN", page)
    page = re.sub(r'value="[A-Za-z0-9]{64}"', "TOKEN", page)
    page = re.sub(r"(Question number|Answer) \d+( to question \d+)?", "TEXT", page)
    return re.sub(r"\d+", "N", page)


@pytest.mark.parametrize("gives_feedback", [False, True])
def test_nothing_that_an_annotator_gets_tells_a_check_from_an_item(
    guideline: Guideline, lin: Person, chen: Person, gives_feedback: bool
):
    """The same keys, headers and pages, while it is at hand and, where nobody is told, for ever after."""
    make_checked(
        guideline,
        annotators=[lin, chen],
        prompts=12,
        checks=6,
        check_share=0.5,
        check_feedback=gives_feedback,
        models=["Oracle-1B"],
    )
    api, page = APIClient(), Client()
    api.credentials(HTTP_AUTHORIZATION=f"Token {api_token(person=lin)}")
    page.force_login(lin)
    seen: dict[str, list[set[str]]] = {"work": [set(), set(), set()], "check": [set(), set(), set()]}
    for _turn in range(10):
        handed = api.post("/api/v1/batches/first/next/", {}, format="json")
        pk = handed.json()["assignment"]
        kind = Assignment.objects.get(pk=pk).task.kind
        page_answer = page.get("/work/first/")
        key = str(uuid4())
        sent = api.post(
            f"/api/v1/assignments/{pk}/submit/",
            {"labels": {"compliance": 1}},
            format="json",
            headers={"Idempotency-Key": key},
        )
        history = page.get(f"/history/{pk}/")
        heads = [
            sorted(set(answer.headers) - {"Content-Length"})
            for answer in (handed, page_answer, sent, history)
        ]
        after_receipt, after_claim, after = seen[kind]
        after_receipt.add(json.dumps([shape(handed.json()), heads]))
        after_claim.add(
            masked(
                re.sub(
                    r"<div class=\"message.*?</button></div>",
                    "",
                    page_answer.content.decode(),
                    flags=re.DOTALL,
                )
            )
        )
        body = sent.json()
        assert (body.pop("feedback") is not None) == (gives_feedback and kind == "check")
        after_receipt.add(json.dumps(shape(body)))
        if not gives_feedback:
            after.add(masked(history.content.decode()))
    for of_work, of_check in zip(seen["work"], seen["check"], strict=True):
        assert of_check <= of_work
    assert seen["check"][0]


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_a_manager_who_annotates_cannot_count_the_work_of_the_batch(
    guideline: Guideline, lin: Person, chen: Person, share: float
):
    """What they submit moves the counts that they may see by one, whatever it was, and what is asked for never."""
    set_roles(person=lin, roles=["annotator", "manager"])
    batch = make_checked(guideline, annotators=[lin, chen], prompts=10, checks=12, check_share=share)
    watch_batch(batch)
    seen, kinds = [], set()
    while (item := claim(batch, lin)) is not None:
        kinds.add(item.task.kind)
        label(item, lin, 3)
        all_left, (line,) = measure_annotations(batch, blind=True), list_batch_rows([batch], lin)
        assert (all_left.submitted, all_left.needed) == (line.overall.submitted, line.overall.needed)
        assert all_left.last_day == all_left.submitted
        assert all_left.latest == Assignment.objects.filter(person=lin).latest("submitted_at").submitted_at
        seen.append((all_left.submitted, all_left.needed))
    assert kinds == {"work", "check"}
    assert seen == [(n, round(20 / (1 - share))) for n in range(1, len(seen) + 1)]
    assert measure_annotations(batch).submitted == 10
    page = Client()
    page.force_login(lin)
    text = page.get("/batches/first/").content.decode()
    assert f"{len(seen)} of {round(20 / (1 - share))}" in text
    assert "Annotations per day" not in text
    assert "It opens for you when the batch closes." in text


def test_a_manager_who_annotates_leaves_the_gold_checks_as_they_are(
    guideline: Guideline, lin: Person, chen: Person, ma: Person
):
    set_roles(person=lin, roles=["annotator", "manager"])
    batch = make_checked(guideline, annotators=[lin, chen], prompts=4, checks=2, check_share=0.25)
    for change in ({"check_feedback": True}, {"check_share": 0.0}):
        with pytest.raises(Forbidden, match="its gold checks"):
            set_terms(batch=batch, terms=Terms(**{"check_share": 0.25, **change}), actor=lin)
    set_terms(batch=batch, terms=Terms(check_share=0.25, lease_seconds=60), actor=lin)
    set_terms(batch=batch, terms=Terms(check_share=0.5, check_feedback=True), actor=ma)
    page = Client()
    page.force_login(lin)
    assert re.search(
        r'name="check_percent"[^>]* disabled', page.get("/batches/first/policy/").content.decode()
    )


def test_an_answered_check_reads_like_an_answered_item_in_my_work(
    guideline: Guideline, lin: Person, chen: Person
):
    batch = make_checked(guideline, annotators=[lin, chen], prompts=8, checks=4, check_share=0.5)
    drain(batch, lin)
    page = Client()
    page.force_login(lin)
    pages = [page.get(path).content.decode() for path in ("/history/", "/history/-/numbers/", "/work/?list")]
    for text in pages:
        assert not re.search("known|gold check|Because of", text.replace("unknown", ""), re.IGNORECASE)
    kinds = {str(assignment.pk): assignment.task.kind for assignment in Assignment.objects.filter(person=lin)}
    lines: dict[str, set[str]] = {"work": set(), "check": set()}
    for part in re.split(r"(?=<article)|(?=<tr>)", pages[0]):
        for pk in {pk for pk in kinds if pk in part}:
            lines[kinds[pk]].add(masked(part.split("</tr>")[0]))
    assert lines["check"]
    assert lines["check"] <= lines["work"]


def test_a_claim_ahead_may_be_a_check_and_two_are_live_at_most(
    guideline: Guideline, lin: Person, chen: Person
):
    batch = make_checked(guideline, annotators=[lin, chen], prompts=20, checks=10, check_share=0.5)
    kinds = []
    first = claim(batch, lin)
    while len(kinds) < 12:
        assert first is not None
        second = claim(batch, lin, ahead=True)
        assert second is not None
        assert claim(batch, lin, ahead=True) == second
        kinds.append(first.task.kind)
        label(first, lin, 3)
        first = second
    assert kinds == drawn(batch, lin, 12)
    nothing_is_broken(batch)


# Feedback.


def test_with_feedback_the_receipt_tells_and_what_was_submitted_stands(
    guideline: Guideline, lin: Person, chen: Person
):
    batch = make_checked(
        guideline, annotators=[lin, chen], prompts=8, checks=6, check_share=0.25, check_feedback=True
    )
    work = Submission({"compliance": 1})
    plain = claim(batch, lin)
    while plain is not None and plain.task.kind == "check":
        label(plain, lin, 3)
        plain = claim(batch, lin)
    assert plain is not None
    assert submit(assignment_id=plain.pk, person=lin, key="k", work=work).feedback is None
    check = until_check(batch, lin)
    receipt = submit(assignment_id=check.pk, person=lin, key="k", work=work)
    assert receipt.feedback is not None
    assert (receipt.feedback.labels, receipt.feedback.known) == ({"compliance": 1}, {"compliance": 3})
    assert receipt.feedback.explanation.startswith("Because of p")
    second_assignment = submit(assignment_id=check.pk, person=lin, key="k", work=work)
    assert (second_assignment.receipt, second_assignment.created, second_assignment.feedback) == (
        receipt.receipt,
        False,
        receipt.feedback,
    )
    assert GoldQuestionTask.objects.get(task=check.task).told_at is not None
    with pytest.raises(Conflict, match="right labels"):
        revise(assignment_id=check.pk, person=lin, key="k2", work=Submission({"compliance": 3}))
    (result,) = list_check_results(lin, [batch])
    assert (result.n - result.right, GoldQuestionTask.objects.filter(told_at=None).count()) == (1, 0)
    nothing_is_broken(batch)


def test_the_page_after_a_check_says_so_and_goes_on(guideline: Guideline, lin: Person, chen: Person):
    batch = make_checked(
        guideline, annotators=[lin, chen], prompts=8, checks=6, check_share=0.25, check_feedback=True
    )
    read_introduction(batch)
    page = Client()
    page.force_login(lin)
    check = until_check(batch, lin)
    data = {"key": "k", "label.compliance": "1", "seconds": "3"}
    answer = page.post(f"/work/items/{check.pk}/submit/", data, follow=True)
    text = answer.content.decode()
    assert "That was a gold question." in text
    assert "Right is 3 Full compliance; you said 1 Full refusal." in text
    assert "Because of p" in text
    assert 'class="work__decide"' in text  # the next item is there as well
    assert "That was a gold question." in page.get(f"/history/{check.pk}/").content.decode()
    following = claim(batch, lin)
    while following is not None and following.task.kind == "check":  # the draw may have it so
        label(following, lin, 3)
        following = claim(batch, lin)
    assert following is not None
    headers = {"HX-Request": "true"}
    later = page.post(
        f"/work/items/{following.pk}/submit/", data | {"next": "ahead"}, headers=headers
    ).content.decode()
    assert "gold question" not in later


# What the manager reads.


def test_results_count_current_revisions_of_items_that_are_in(
    guideline: Guideline, lin: Person, chen: Person
):
    batch = make_checked(
        guideline, annotators=[lin, chen], prompts=16, checks=12, check_share=0.5, tolerance=1
    )
    drain(batch, lin, 2)
    check = GoldQuestionTask.objects.filter(person=lin).order_by("task")[0]
    assignment = check.task.assignments.get()
    assert (
        revise(assignment_id=assignment.pk, person=lin, key="r", work=Submission({"compliance": 3}))
        is not None
    )
    (result,) = list_batch_check_results(batch)
    assert (result.person, result.batch, result.right, result.within) == (lin, batch, 1, result.n)
    assert result.n == 12
    assert result.share == 1 / 12
    assert result.low < result.share < result.high < 0.7
    assert dict(result.confusion["compliance"]) == {(3, 2): 11, (3, 3): 1}
    assert result.is_poor
    assert [result.person for result in list_poor_results(batch)] == [lin]
    set_question_active(batch=batch, item=check.item_id, active=False)
    assert [(check_result.n, check_result.right) for check_result in list_check_results(lin, [batch])] == [
        (11, 0)
    ]
    assert list_check_results(chen, [batch]) == []


def test_a_person_who_reads_no_such_language_is_given_none(guideline: Guideline, lin: Person, chen: Person):
    batch = make_checked(guideline, annotators=[lin, chen], prompts=4, check_share=0.5)
    corpus = make_corpus(prompts=3, models=["Oracle-1B"], name="zh")
    corpus.prompts.update(language="zh")
    add_known(batch, 2, name="plain")
    responses = Response.objects.filter(prompt__dataset=corpus)
    add_questions(
        batch=batch,
        kind="check",
        items=[GoldAnswer(response.pk, {"compliance": 3}) for response in responses],
    )
    set_languages(person=lin, languages=["en"], actor=chen)
    lin.refresh_from_db()
    drain(batch, lin)
    languages = set(
        GoldQuestionTask.objects.filter(person=lin).values_list("task__stratum__language", flat=True)
    )
    assert languages == {""}


def count_queries(call: Callable[[], Any]) -> tuple[Any, int]:
    """What it answers, and how many round trips it takes besides savepoints and preparing."""
    with CaptureQueriesContext(connection) as captured:
        answer = call()
    aside = ("PREPARE", "SAVEPOINT", "RELEASE")
    return answer, len([query for query in captured.captured_queries if not query["sql"].startswith(aside)])


@pytest.mark.postgres
def test_at_no_share_the_loop_asks_nothing_more_and_at_one_little(
    guideline: Guideline, lin: Person, chen: Person
):
    """Four round trips for a claim and four for a submission, as before there were checks."""
    costs: dict[tuple[float, str], set[tuple[int, int]]] = {}
    for name, share in (("none", 0.0), ("some", 0.2)):
        batch = make_checked(
            guideline, annotators=[lin, chen], prompts=30, checks=12, check_share=share, name=name
        )
        for number in range(16):
            item, claiming = count_queries(lambda batch=batch: claim(batch, lin))
            _receipt, submitting = count_queries(lambda item=item: label(item, lin, 3))
            if number > 2:  # then all is prepared, and the member has a tally
                costs.setdefault((share, item.task.kind), set()).add((claiming, submitting))
    assert costs[0.0, "work"] == {(4, 4)}
    assert costs[0.2, "work"] <= {(4, 4), (5, 4)}  # after the drawn place: whether the check was given
    assert costs[0.2, "check"] <= {(7, 6), (8, 6)}
