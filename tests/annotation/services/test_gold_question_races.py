"""Gold questions under many hands at once, where row locks are real."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest
from django.utils import timezone

from annotation.core.errors import Conflict
from annotation.core.sampling import block_of
from annotation.domain.annotations import Submission
from annotation.models import (
    Assignment,
    Batch,
    GoldQuestionTask,
    Guideline,
    Membership,
    Person,
    Qualification,
)
from annotation.selectors.gold_questions import derive_seed, find_latest_qualification
from annotation.services.annotations import closings
from annotation.services.annotations.submission import revise, submit
from annotation.services.assignments import claim_next_task, release_assignment
from annotation.services.batches.batches import set_state
from annotation.services.batches.members import waive_qualification
from tests.annotation.gold_question_support import make_checked
from tests.annotation.invariants import nothing_is_broken
from tests.annotation.services.test_races import at_once, crowd
from tests.support import label

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]


def blocks_of(batch: Batch, person: Person) -> list[int]:
    """The block of each check that the person did not give back without a reason, by the place it was given for."""
    member = Membership.objects.get(batch=batch, person=person)
    own_tasks = GoldQuestionTask.objects.filter(person=person, item__batch=batch)
    question_tasks = [
        question_task.task.position
        for question_task in own_tasks.select_related("task")
        if question_task.task.assignments.get().state != "released" or question_task.task.state == "withdrawn"
    ]
    blocks = (
        block_of(place, share=batch.check_share, seed=derive_seed(member.pk)) for place in question_tasks
    )
    return [question_task.index for question_task in blocks if question_task is not None]


def work_carelessly(batch: Batch, person: Person) -> None:
    """Leases run out, items are skipped, and submits come late; nothing is given back without a reason."""
    chance, empty_answers = Random(person.pk), 0
    while empty_answers < 3:
        item = claim_next_task(batch=batch, person=person, ahead=chance.random() < 0.3)
        empty_answers = empty_answers + 1 if item is None else 0
        if item is None:
            continue
        action = chance.random()
        if action < 0.15:
            past = timezone.now() - timedelta(seconds=1)
            Assignment.objects.filter(pk=item.pk, state="claimed").update(lease_expires=past)
        elif action < 0.3:
            release_assignment(assignment_id=item.pk, person=person, skip_reason="not for me")
        else:
            with suppress(Conflict):
                label(item, person, chance.choice([1, 3, 3]))


def test_claims_of_one_person_at_once_never_get_two_checks_for_one_place(guideline: Guideline):
    (person,) = crowd(1)
    batch = make_checked(guideline, annotators=[person], prompts=10, checks=12, check_share=0.5, overlap=1)
    claims = [
        partial(claim_next_task, batch=batch, person=person, ahead=ahead) for ahead in (False, True) * 4
    ]
    for _turn in range(6):
        checks = {assignment.pk for assignment in at_once(claims) if isinstance(assignment, Assignment)}
        assert len(checks) == 2
        for pk in checks:
            label(Assignment.objects.get(pk=pk), person, 3)
    blocks = blocks_of(batch, person)
    assert sorted(blocks) == list(range(6))  # twelve items, six blocks of two
    nothing_is_broken(batch)


def test_the_rate_is_exact_while_many_work_carelessly_and_a_worker_looks(guideline: Guideline):
    people = crowd(8)
    batch = make_checked(guideline, annotators=people, prompts=40, checks=15, check_share=0.2)

    def look() -> None:
        for _turn in range(10):
            closings.close_blocks(batch)

    with patch.multiple(closings, SETTLING=timedelta(0), SIZE=2):
        at_once([*(partial(work_carelessly, batch, person) for person in people), look, look])
    nothing_is_broken(batch)
    for person in people:
        blocks = blocks_of(batch, person)
        assert len(blocks) == len(set(blocks))
    set_state(batch=batch, state="closed")
    nothing_is_broken(batch)


@pytest.mark.parametrize("_turn", range(3))
def test_the_last_two_of_a_round_at_once_end_it_once(guideline: Guideline, _turn: int):
    (person,) = crowd(1)
    batch = make_checked(
        guideline,
        annotators=[person],
        prompts=2,
        in_round=6,
        overlap=1,
        qualifying="accuracy",
        qualifying_threshold=0.6,
    )
    done = []
    for _number in range(4):
        item = claim_next_task(batch=batch, person=person)
        assert item is not None
        label(item, person, 3)
        done.append(item)
    last = [claim_next_task(batch=batch, person=person, ahead=ahead) for ahead in (False, True)]

    def send(item: Any) -> Any:
        return submit(
            assignment_id=item.pk, person=person, key=str(uuid4()), work=Submission({"compliance": 3})
        )

    def correct(item: Assignment) -> Any:
        return revise(
            assignment_id=item.pk, person=person, key=str(uuid4()), work=Submission({"compliance": 1})
        )

    answers = at_once(
        [
            *(partial(send, item) for item in last),
            partial(correct, done[0]),
            partial(claim_next_task, batch=batch, person=person),
            partial(waive_qualification, batch=batch, person=person, reason="known to us"),
        ]
    )
    qualification = find_latest_qualification(batch.pk, person.pk)
    assert qualification is not None
    assert Qualification.objects.count() == 1
    assert qualification.state in ("passed", "waived")
    if (
        qualification.n
    ):  # it was scored, with the correction or without it, as its tasks stood when they were closed
        corrected = answers[2] is not None
        assert qualification.value in ({5 / 6} if corrected else {1.0})
    item = claim_next_task(batch=batch, person=person)
    assert item is not None
    assert item.task.kind == "work"
    nothing_is_broken(batch)
