"""Many people at the same moment. Row locks are PostgreSQL's; SQLite queues its writers, with fewer of them here."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from threading import Barrier
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from annotation.core.errors import AssayError, Conflict, Forbidden, NotFound
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy
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
from annotation.selectors.batches.needs import list_needs
from annotation.services.adjudication.disputes import adjudicate, record_verdict
from annotation.services.annotations.submission import AlreadySubmitted, Receipt, revise, submit
from annotation.services.assignments import (
    claim_next_dispute,
    claim_next_task,
    expire_leases,
    extend_lease,
    release_assignment,
)
from annotation.services.batches.batches import set_state
from annotation.services.batches.members import join_batch, set_limits, set_member_active
from annotation.services.batches.tasks import assign_tasks, restore_tasks, set_priority, withdraw_tasks
from annotation.services.people.people import add_person
from tests.annotation.invariants import nothing_is_broken
from tests.support import api_token, decide_next, label, label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db(transaction=True)
on_postgres = pytest.mark.postgres


def at_once(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Start all the calls at the same moment, each on its own connection; refusals are answers, too."""
    start = Barrier(len(calls))

    def run_call(call: Callable[[], Any]) -> Any:
        start.wait(timeout=120)
        try:
            return call()
        except AssayError as refusal:
            return refusal
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run_call, calls))


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
            item = claim_next_task(batch=batch, person=person)
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


@on_postgres
@pytest.mark.parametrize("pairing", ["pool", "fixed", "balanced"])
def test_sixteen_annotators_work_while_the_manager_changes_everything(guideline: Guideline, pairing: str):
    """Leases run out, items are released and skipped, people come and go: no error surfaces, nothing breaks,
    and when all is quiet again what is open can be served or is listed as needing a person.
    """
    people = crowd(16)
    judge = add_person(name="judge", roles=["adjudicator"])
    batch = make_batch(
        guideline,
        make_corpus(prompts=30, models=["A", "B"]),
        annotators=people,
        adjudicators=[judge],
        pairs=list(zip(people[::2], people[1::2], strict=True)) if pairing == "fixed" else (),
        policy=Policy(pairing=pairing, seed=7),
    )
    deadline = monotonic() + 180
    at_once(
        [
            *(partial(wander, batch, person, deadline) for person in people),
            partial(decide, batch, judge, deadline),
            partial(meddle, batch, people, random.Random(1)),
            partial(meddle, batch, people, random.Random(2)),
        ]
    )
    assert monotonic() < deadline
    for person in people:  # what the manager left
        set_member_active(batch=batch, person=person, role="annotator", active=True)
    back = list(batch.tasks.filter(state="withdrawn").values_list("pk", flat=True))
    restore_tasks(batch=batch, tasks=back)
    nothing_is_broken(batch)
    while sum([empty(batch, person) for person in people]):
        pass
    nothing_is_broken(batch)
    left = {task.pk for task in batch.tasks.filter(state="open")}
    assert {need.task.pk for need in list_needs(batch, limit=1000) if need.role == "annotator"} == left


@on_postgres
def test_closing_while_sixteen_people_work_leaves_no_claim(guideline: Guideline):
    people = crowd(16)
    batch = make_batch(guideline, make_corpus(prompts=40, models=["A"]), annotators=people)
    deadline = monotonic() + 180

    def close() -> None:
        sleep(0.3)
        set_state(batch=batch, state="closed")

    at_once([*(partial(wander, batch, person, deadline) for person in people), close])
    nothing_is_broken(batch)
    assert not batch.assignments.filter(state="claimed").exists()


@on_postgres
@pytest.mark.parametrize("_round", range(3))
def test_a_persons_first_submit_and_next_claim_while_the_manager_holds_everybody(
    guideline: Guideline, _round: int
):
    """The first tally of a member refers to the membership: it must not wait for whoever locks memberships."""
    people = crowd(6)
    batch = make_batch(guideline, make_corpus(prompts=6, models=["A"]), annotators=people)
    items = [claimed(batch, person) for person in people]
    tasks = list(batch.tasks.values_list("pk", flat=True))
    at_once(
        [
            *(partial(label, item, person, 3) for item, person in zip(items, people, strict=True)),
            *(partial(claim_next_task, batch=batch, person=person, ahead=True) for person in people),
            *(partial(set_priority, batch=batch, tasks=tasks, priority=n) for n in (1, 2)),
        ]
    )
    nothing_is_broken(batch)
    assert batch.assignments.filter(state="submitted").count() == 6


def wander(batch: Batch, person: Person, deadline: float) -> None:
    """Work as people do, some of it carelessly, until nothing comes for a while."""
    chance, empty_answers = random.Random(person.pk), 0
    while empty_answers < 5 and monotonic() < deadline:
        try:
            item = claim_next_task(batch=batch, person=person, ahead=chance.random() < 0.3)
            if item is None:
                empty_answers += 1
                sleep(0.02)
                continue
            empty_answers = 0
            action = chance.random()
            if action < 0.15:
                past = timezone.now() - timedelta(seconds=1)
                Assignment.objects.filter(pk=item.pk, state="claimed").update(lease_expires=past)
            elif action < 0.2:
                release_assignment(assignment_id=item.pk, person=person)
            elif action < 0.35:
                release_assignment(assignment_id=item.pk, person=person, skip_reason="not for me")
            elif action < 0.4:
                extend_lease(assignment_id=item.pk, person=person)
            else:
                label(item, person, chance.choice([1, 3, 3]))
        except (NotFound, Forbidden):  # out of the batch for now, or it is closed
            empty_answers += 1
            sleep(0.02)
        except Conflict:  # the manager was faster
            continue


def decide(batch: Batch, judge: Person, deadline: float) -> None:
    empty_answers = 0
    while empty_answers < 20 and monotonic() < deadline:
        empty_answers = 0 if decide_next(batch, judge, 2) is not None else empty_answers + 1
        sleep(0.02)


def meddle(batch: Batch, people: Sequence[Person], chance: random.Random) -> None:
    """What a manager does, forty times, in any order."""
    for _turn in range(40):
        tasks = [pk for pk, _state in chance.sample(list(batch.tasks.values_list("pk", "state")), 5)]
        person = chance.choice(people)
        try:
            chance.choice(
                [
                    partial(assign_tasks, batch=batch, tasks=tasks, people=chance.sample(people, 3)),
                    partial(withdraw_tasks, batch=batch, tasks=tasks[:1], reason="a wrong response"),
                    partial(restore_tasks, batch=batch, tasks=tasks[:1]),
                    partial(set_priority, batch=batch, tasks=tasks, priority=chance.choice([0, 1, 2])),
                    partial(set_member_active, batch=batch, person=person, role="annotator", active=False),
                    partial(set_member_active, batch=batch, person=person, role="annotator", active=True),
                    partial(join_batch, batch=batch, role="annotator", people=[person]),
                    partial(
                        set_limits,
                        batch=batch,
                        person=person,
                        role="annotator",
                        quota=chance.choice([None, 5]),
                        excluded_dimensions=chance.choice([(), ("safe",)]),
                    ),
                    partial(expire_leases, batch=batch),
                ]
            )()
        except AssayError:  # an item is beyond that, or too few people are left
            continue


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
    work = Submission(labels={"compliance": 3})
    answers = at_once([partial(submit, assignment_id=item.pk, person=lin, key="same", work=work)] * 4)
    assert len({answer.receipt for answer in answers}) == 1
    assert sorted(answer.created for answer in answers) == [False, False, False, True]
    assert Annotation.objects.filter(assignment=item).count() == 1
    assert Task.objects.get(pk=item.task_id).slots_taken == 1


def test_four_simultaneous_submits_of_four_keys_store_one_and_all_tell_its_receipt(batch: Batch, lin: Person):
    item = claimed(batch, lin)
    answers = at_once(
        [
            partial(
                submit, assignment_id=item.pk, person=lin, key=f"k{n}", work=Submission({"compliance": value})
            )
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
    receipts = {a.json().get("receipt") or a.json()["error"]["receipt"] for a in answers}
    assert receipts == {str(Annotation.objects.get().receipt)}


def test_a_strangers_submit_is_refused_in_the_middle_of_it_all(batch: Batch, lin: Person, stranger: Person):
    item = claimed(batch, lin)
    work = Submission(labels={"compliance": 3})
    answers = at_once(
        [
            partial(submit, assignment_id=item.pk, person=person, key="k", work=work)
            for person in (stranger, lin, stranger, stranger)
        ]
    )
    assert [isinstance(answer, NotFound) for answer in answers] == [True, False, True, True]
    assert Annotation.objects.get().assignment.person == lin


def test_a_persons_simultaneous_calls_get_one_claim_and_ahead_at_most_two(batch: Batch, lin: Person):
    answers = at_once([partial(claim_next_task, batch=batch, person=lin)] * 4)
    assert len({answer.pk for answer in answers}) == 1
    at_once([partial(claim_next_task, batch=batch, person=lin, ahead=True)] * 4)
    assert Assignment.objects.filter(person=lin, state="claimed").count() == 2


def test_two_people_racing_for_the_last_place_get_one_claim(
    batch: Batch, lin: Person, chen: Person, zhou: Person
):
    first = claimed(batch, lin)
    label(first, lin, 3)
    Task.objects.exclude(pk=first.task_id).update(state=Task.State.WITHDRAWN)
    answers = at_once([partial(claim_next_task, batch=batch, person=person) for person in (chen, zhou)])
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
    answers = at_once([partial(claim_next_dispute, batch=batch, person=person) for person in (wu, second)])
    assert sorted(answer is None for answer in answers) == [False, True]
    assert Assignment.objects.filter(slot=ADJUDICATION_SLOT).count() == 1


def test_a_late_and_a_new_adjudicator_deciding_at_once_leave_one_decision(
    batch: Batch, lin: Person, chen: Person, wu: Person
):
    second = add_person(name="second", roles=["adjudicator"])
    batch.memberships.create(person=second, role="adjudicator")
    label_next(batch, lin, 1)
    label_next(batch, chen, 3)
    late = claim_next_dispute(batch=batch, person=wu)
    assert late is not None
    record_verdict(assignment_id=late.pk, person=wu, work=Submission({"compliance": 1}))
    Assignment.objects.filter(pk=late.pk).update(lease_expires=timezone.now() - timedelta(seconds=1))
    new = claim_next_dispute(batch=batch, person=second)
    assert new is not None
    record_verdict(assignment_id=new.pk, person=second, work=Submission({"compliance": 2}))
    at_once(
        [
            partial(
                adjudicate,
                assignment_id=item.pk,
                person=person,
                key=str(uuid4()),
                work=Submission({"compliance": value}, reason="reading_slip"),
            )
            for item, person, value in ((late, wu, 1), (new, second, 2))
        ]
    )
    decision = Adjudication.objects.get()
    assert decision.task.gold_labels.get().value == decision.labels["compliance"]
    assert decision.assignment.person == second  # the slot was theirs


@pytest.mark.parametrize("is_repeat", [False, True], ids=["first", "repeat"])
def test_a_verdict_and_a_decision_sent_twice_at_once_are_stored_once(
    batch: Batch, lin: Person, chen: Person, wu: Person, is_repeat: bool
):
    label_next(batch, lin, 1)
    label_next(batch, chen, 3)
    if is_repeat:
        Batch.objects.filter(pk=batch.pk).update(second_reading_share=1, second_reading_days=0)
        decide_next(batch, wu, 2)
    assignment = claim_next_dispute(batch=batch, person=wu)
    assert assignment is not None
    verdict = partial(
        record_verdict, assignment_id=assignment.pk, person=wu, work=Submission({"compliance": 3})
    )
    assert at_once([verdict, verdict]) == [None, None]
    work = Submission({"compliance": 3}, reason="reading_slip")
    decide = partial(adjudicate, assignment_id=assignment.pk, person=wu, key="k", work=work)
    answers = at_once([decide, decide])
    assert sorted(answer.created for answer in answers) == [False, True]
    assert len({answer.receipt for answer in answers}) == 1
    assert Adjudication.objects.count() == 1 + is_repeat


@pytest.mark.parametrize("_round", range(4))
def test_a_correction_racing_the_partners_label_never_leaves_gold_that_nobody_gave(
    batch: Batch, lin: Person, chen: Person, _round: int
):
    assignment, partner_assignment = claimed(batch, lin), claimed(batch, chen)
    label(assignment, lin, 1)
    at_once(
        [
            partial(
                revise, assignment_id=assignment.pk, person=lin, key="r", work=Submission({"compliance": 3})
            ),
            partial(
                submit,
                assignment_id=partner_assignment.pk,
                person=chen,
                key="s",
                work=Submission({"compliance": 3}),
            ),
        ]
    )
    task = Task.objects.get(pk=assignment.task_id)
    current = Annotation.objects.get(assignment=assignment, current=True).labels["compliance"]
    # Either the correction came first (3 and 3, agreed) or it came too late and is a request (1 and 3, disputed).
    requests = CorrectionRequest.objects.filter(assignment=assignment).count()
    assert (task.state, current, requests) in {("agreed", 3, 0), ("disputed", 1, 1)}


@pytest.mark.parametrize("_round", range(3))
def test_closing_in_the_middle_of_claims_leaves_none_alive(
    batch: Batch, lin: Person, chen: Person, zhou: Person, _round: int
):
    claims = [partial(claim_next_task, batch=batch, person=p) for p in (lin, chen, zhou)]
    at_once([*claims, partial(set_state, batch=batch, state="closed")])
    assert not Assignment.objects.filter(batch=batch, state="claimed").exists()
    assert set(batch.tasks.values_list("slots_taken", flat=True)) == {0}


def claimed(batch: Batch, person: Person) -> Assignment:
    item = claim_next_task(batch=batch, person=person)
    assert item is not None
    return item
