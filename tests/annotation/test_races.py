"""Many people at the same moment. Row locks are PostgreSQL's; SQLite queues its writers, with fewer of them here."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from threading import Barrier
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from annotation.errors import AssayError, NotFound
from annotation.models import (
    ADJUDICATION_SLOT,
    Adjudication,
    Annotation,
    Assignment,
    Batch,
    CorrectionRequest,
    Guideline,
    Person,
    Task,
)
from annotation.services.annotations import AlreadySubmitted, Receipt, Work, adjudicate, revise, submit
from annotation.services.batches import set_state
from annotation.services.distribution import next_assignment, next_dispute
from annotation.services.people import add_person, api_token
from tests.support import label, label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)
on_postgres = pytest.mark.postgres


def at_once(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Start all the calls at the same moment, each on its own connection; refusals are answers, too."""
    start = Barrier(len(calls))

    def one(call: Callable[[], Any]) -> Any:
        start.wait(timeout=30)
        try:
            return call()
        except AssayError as refusal:
            return refusal
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(one, calls))


def crowd(number: int) -> list[Person]:
    return [add_person(name=f"annotator{n}", roles=["annotator"]) for n in range(number)]


def empty(batch: Batch, person: Person) -> int:
    """Label until nothing is left, with every third answer another one. How many were labelled."""
    done = 0
    while label_next(batch, person, 1 if (done + person.pk) % 3 == 0 else 3) is not None:
        done += 1
    return done


def assert_every_task_has_two_by_two(batch: Batch) -> None:
    for task in batch.tasks.all():
        people = list(
            Annotation.objects.filter(assignment__task=task, current=True).values_list(
                "assignment__person", flat=True
            )
        )
        assert len(people) == len(set(people)) == 2
        assert task.slots_taken == 2
        assert task.state in (Task.State.AGREED, Task.State.DISPUTED)
        assert task.gold_labels.count() == (task.state == Task.State.AGREED)


@on_postgres
def test_sixteen_threads_empty_a_batch_and_every_task_has_exactly_two_annotations(guideline: Guideline):
    people = crowd(16)
    batch = make_batch(guideline, make_corpus(prompts=60, models=["A", "B"]), annotators=people)
    done = at_once([partial(empty, batch, person) for person in people])
    assert sum(done) == 240  # 60 prompts x 2 models x 2 annotations
    assert Assignment.objects.filter(batch=batch).count() == 240
    assert_every_task_has_two_by_two(batch)


@on_postgres
def test_sixteen_threads_of_four_people_with_leases_that_run_out_leave_no_task_short(guideline: Guideline):
    """Several tabs a person, and claims that are left lying: no deadlock, no double claim, nothing lost."""
    people = crowd(4)
    batch = make_batch(guideline, make_corpus(prompts=12, models=["A"]), annotators=people)

    def wander(person: Person, seed: int) -> int:
        chance, done = random.Random(seed), 0
        for _turn in range(200):
            item = next_assignment(batch=batch, person=person)
            if item is None:
                break
            if chance.random() < 0.5:
                past = timezone.now() - timedelta(seconds=1)
                Assignment.objects.filter(pk=item.pk, state="claimed").update(lease_expires=past)
                continue
            try:
                label(item, person, 3)
            except AssayError:  # another tab of the same person was faster
                continue
            done += 1
        return done

    at_once([partial(wander, people[n % 4], n) for n in range(16)])
    for person in people:  # what the wanderers left lying
        empty(batch, person)
    assert_every_task_has_two_by_two(batch)


def test_four_threads_empty_a_batch_on_any_database(guideline: Guideline):
    people = crowd(4)
    batch = make_batch(guideline, make_corpus(prompts=12, models=["A"]), annotators=people)
    done = at_once([partial(empty, batch, person) for person in people])
    assert sum(done) == 24
    assert_every_task_has_two_by_two(batch)


def test_four_simultaneous_submits_of_one_key_store_one_and_answer_with_one_receipt(
    batch: Batch, lin: Person
):
    item = claimed(batch, lin)
    work = Work(labels={"compliance": 3})
    answers = at_once([partial(submit, assignment_id=item.pk, person=lin, key="same", work=work)] * 4)
    assert len({answer.receipt for answer in answers}) == 1
    assert sorted(answer.created for answer in answers) == [False, False, False, True]
    assert Annotation.objects.filter(assignment=item).count() == 1
    assert Task.objects.get(pk=item.task_id).slots_taken == 1


def test_four_simultaneous_submits_of_four_keys_store_one_and_all_tell_its_receipt(batch: Batch, lin: Person):
    item = claimed(batch, lin)
    answers = at_once(
        [
            partial(submit, assignment_id=item.pk, person=lin, key=f"k{n}", work=Work({"compliance": value}))
            for n, value in enumerate([1, 2, 3, 3])
        ]
    )
    stored = Annotation.objects.get(assignment=item)
    receipts = [a.receipt.receipt if isinstance(a, AlreadySubmitted) else a.receipt for a in answers]
    assert receipts == [stored.receipt] * 4
    assert sum(isinstance(answer, Receipt) for answer in answers) == 1


def test_four_simultaneous_requests_over_http_answer_201_once_and_carry_one_receipt(
    batch: Batch, lin: Person
):
    item = claimed(batch, lin)
    token = api_token(person=lin)

    def post(key: str) -> Any:
        return APIClient().post(
            f"/api/v1/assignments/{item.pk}/submit/",
            {"labels": {"compliance": 3}},
            headers={"Idempotency-Key": key, "Authorization": f"Token {token}"},
        )

    answers = at_once([partial(post, key) for key in ("k1", "k1", "k2", "k2")])
    assert sorted(answer.status_code for answer in answers) == [200, 201, 409, 409]
    told = {a.json().get("receipt") or a.json()["error"]["receipt"] for a in answers}
    assert told == {str(Annotation.objects.get().receipt)}


def test_a_strangers_submit_is_refused_in_the_middle_of_it_all(batch: Batch, lin: Person, stranger: Person):
    item = claimed(batch, lin)
    work = Work(labels={"compliance": 3})
    answers = at_once(
        [
            partial(submit, assignment_id=item.pk, person=person, key="k", work=work)
            for person in (stranger, lin, stranger, stranger)
        ]
    )
    assert [isinstance(answer, NotFound) for answer in answers] == [True, False, True, True]
    assert Annotation.objects.get().assignment.person == lin


def test_a_persons_simultaneous_calls_get_one_claim_and_ahead_at_most_two(batch: Batch, lin: Person):
    answers = at_once([partial(next_assignment, batch=batch, person=lin)] * 4)
    assert len({answer.pk for answer in answers}) == 1
    at_once([partial(next_assignment, batch=batch, person=lin, ahead=True)] * 4)
    assert Assignment.objects.filter(person=lin, state="claimed").count() == 2


def test_two_people_racing_for_the_last_place_get_one_claim(
    batch: Batch, lin: Person, chen: Person, zhou: Person
):
    first = claimed(batch, lin)
    label(first, lin, 3)
    Task.objects.exclude(pk=first.task_id).update(state=Task.State.WITHDRAWN)
    answers = at_once([partial(next_assignment, batch=batch, person=person) for person in (chen, zhou)])
    assert sorted(answer is None for answer in answers) == [False, True]
    assert Task.objects.get(pk=first.task_id).slots_taken == 2


@pytest.mark.parametrize("_round", range(3))
def test_two_adjudicators_race_for_one_dispute_and_one_gets_it(
    batch: Batch, lin: Person, chen: Person, wu: Person, _round: int
):
    second = add_person(name="second", roles=["adjudicator"])
    batch.memberships.create(person=second, role="adjudicator")
    label_next(batch, lin, 1)
    label_next(batch, chen, 3)
    answers = at_once([partial(next_dispute, batch=batch, person=person) for person in (wu, second)])
    assert sorted(answer is None for answer in answers) == [False, True]
    assert Assignment.objects.filter(slot=ADJUDICATION_SLOT).count() == 1


def test_a_late_and_a_new_adjudicator_deciding_at_once_leave_one_decision(
    batch: Batch, lin: Person, chen: Person, wu: Person
):
    second = add_person(name="second", roles=["adjudicator"])
    batch.memberships.create(person=second, role="adjudicator")
    label_next(batch, lin, 1)
    label_next(batch, chen, 3)
    late = next_dispute(batch=batch, person=wu)
    assert late is not None
    Assignment.objects.filter(pk=late.pk).update(lease_expires=timezone.now() - timedelta(seconds=1))
    new = next_dispute(batch=batch, person=second)
    assert new is not None
    at_once(
        [
            partial(
                adjudicate,
                assignment_id=item.pk,
                person=person,
                key=str(uuid4()),
                work=Work({"compliance": value}),
            )
            for item, person, value in ((late, wu, 1), (new, second, 2))
        ]
    )
    decision = Adjudication.objects.get()
    assert decision.task.gold_labels.get().value == decision.labels["compliance"]
    assert decision.assignment.person == second  # the slot was theirs


@pytest.mark.parametrize("_round", range(4))
def test_a_correction_racing_the_partners_label_never_leaves_gold_that_nobody_gave(
    batch: Batch, lin: Person, chen: Person, _round: int
):
    mine, theirs = claimed(batch, lin), claimed(batch, chen)
    label(mine, lin, 1)
    at_once(
        [
            partial(revise, assignment_id=mine.pk, person=lin, key="r", work=Work({"compliance": 3})),
            partial(submit, assignment_id=theirs.pk, person=chen, key="s", work=Work({"compliance": 3})),
        ]
    )
    task = Task.objects.get(pk=mine.task_id)
    current = Annotation.objects.get(assignment=mine, current=True).labels["compliance"]
    # Either the correction came first (3 and 3, agreed) or it came too late and is a request (1 and 3, disputed).
    asked = CorrectionRequest.objects.filter(assignment=mine).count()
    assert (task.state, current, asked) in {("agreed", 3, 0), ("disputed", 1, 1)}


@pytest.mark.parametrize("_round", range(3))
def test_closing_in_the_middle_of_claims_leaves_none_alive(
    batch: Batch, lin: Person, chen: Person, zhou: Person, _round: int
):
    claims = [partial(next_assignment, batch=batch, person=p) for p in (lin, chen, zhou)]
    at_once([*claims, partial(set_state, batch=batch, state="closed")])
    assert not Assignment.objects.filter(batch=batch, state="claimed").exists()
    assert set(batch.tasks.values_list("slots_taken", flat=True)) == {0}


def claimed(batch: Batch, person: Person) -> Assignment:
    item = next_assignment(batch=batch, person=person)
    assert item is not None
    return item
