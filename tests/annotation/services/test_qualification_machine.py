"""Random orders of what can happen in a qualification: every round can end, and the work is for who came through it."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from annotation.core.errors import AssayError
from annotation.domain.annotations import Submission
from annotation.models import Assignment, GoldQuestion, Guideline, Person, Qualification, Task
from annotation.selectors.assignments.availability import list_ruled_out_strata
from annotation.selectors.gold_questions import find_latest_qualification, list_qualification_items
from annotation.services.annotations.submission import revise, submit
from annotation.services.assignments import claim_next_task, expire_leases, release_assignment
from annotation.services.batches.members import start_attempt, waive_qualification
from annotation.services.gold_questions.gold_questions import set_question_active
from annotation.services.people.people import set_opted_out
from tests.annotation.gold_question_support import make_checked
from tests.annotation.invariants import nothing_is_broken

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
EXAMPLES = int(os.environ.get("ASSAY_EXAMPLES", "4"))
picks = st.integers(min_value=0, max_value=1000)
right = st.sampled_from([3, 3, 3, 1])


class Rounds(RuleBasedStateMachine):
    def __init__(self, guideline: Guideline, people: list[Person]) -> None:
        super().__init__()
        self.guideline, self.people = guideline, people
        self.atomic = transaction.atomic()
        self.atomic.__enter__()

    def teardown(self) -> None:
        try:
            self.everybody_comes_to_an_end()
        finally:
            transaction.set_rollback(True)
            self.atomic.__exit__(None, None, None)

    @initialize(items=st.integers(min_value=5, max_value=8), share=st.sampled_from([0, 0.5]))
    def make(self, items: int, share: float) -> None:
        self.batch = make_checked(
            self.guideline,
            annotators=self.people,
            prompts=4,
            in_round=items,
            checks=3,
            check_share=share,
            qualifying="accuracy",
            qualifying_threshold=0.7,
            name=f"b{uuid4()}",
        )

    @rule(person_number=picks, ahead=st.booleans())
    def claim(self, person_number: int, ahead: bool) -> None:
        self.claim_for(self.person(person_number), ahead=ahead)

    @rule(person_number=picks, value=right)
    def claim_and_submit(self, person_number: int, value: int) -> None:
        self.work(self.person(person_number), value)

    @rule(number=picks, value=right, call=st.sampled_from([submit, revise]))
    def send_any(self, number: int, value: int, call: Callable[..., Any]) -> None:
        if assignment := self.pick(number):
            work = Submission({"compliance": value}, reason="a second look")
            self.attempt(
                partial(
                    call, assignment_id=assignment.pk, person=assignment.person, key=str(uuid4()), work=work
                )
            )

    @rule(number=picks, skip=st.booleans())
    def give_back(self, number: int, skip: bool) -> None:
        if assignment := self.pick(number):
            reason = "I know the author" if skip else ""
            self.attempt(
                partial(
                    release_assignment,
                    assignment_id=assignment.pk,
                    person=assignment.person,
                    skip_reason=reason,
                )
            )

    @rule(number=picks)
    def run_out(self, number: int) -> None:
        if assignment := self.pick(number):
            past = timezone.now() - timedelta(seconds=1)
            Assignment.objects.filter(pk=assignment.pk).update(lease_expires=past)
            expire_leases(batch=self.batch)

    @rule(person_number=picks, topics=st.sampled_from([(), ("safe",), ("unsafe",), ("safe", "unsafe")]))
    def opt_out(self, person_number: int, topics: tuple[str, ...]) -> None:
        set_opted_out(person=self.person(person_number), dimensions=topics)

    @rule(number=picks, active=st.booleans())
    def take_out(self, number: int, active: bool) -> None:
        items = list(GoldQuestion.objects.filter(batch=self.batch).order_by("pk"))
        set_question_active(batch=self.batch, item=items[number % len(items)].pk, active=active)

    @rule(person_number=picks, decide=st.sampled_from([waive_qualification, start_attempt, start_attempt]))
    def decide(self, person_number: int, decide: Callable[..., Qualification]) -> None:
        self.attempt(partial(decide, batch=self.batch, person=self.person(person_number), reason="why not"))

    @invariant()
    def nothing_breaks(self) -> None:
        nothing_is_broken(self.batch)

    @invariant()
    def the_work_is_for_who_came_through(self) -> None:
        at_work = Assignment.objects.filter(batch=self.batch).exclude(task__kind=Task.Kind.QUALIFICATION)
        through = Qualification.objects.filter(batch=self.batch, state__in=["passed", "waived"])
        assert set(at_work.values_list("person", flat=True)) <= set(through.values_list("person", flat=True))

    def everybody_comes_to_an_end(self) -> None:
        """Whoever goes on until nothing comes has passed or failed, but for who has too few items to begin with."""
        for person in self.people:
            while self.work(self.fresh(person), 3):
                pass
            qualification = find_latest_qualification(self.batch.pk, person.pk)
            assert qualification is not None
            if qualification.state == Qualification.State.RUNNING:
                member = self.batch.memberships.get(person=person.pk)
                assert (
                    list_qualification_items(
                        member, qualification.attempt, without=list_ruled_out_strata(member)
                    )
                    == []
                )
        self.nothing_breaks()

    def claim_for(self, person: Person, *, ahead: bool = False) -> Assignment | None:
        before = find_latest_qualification(self.batch.pk, person.pk)
        held = set(Assignment.objects.filter(batch=self.batch, state="claimed").values_list("pk", flat=True))
        assignment: Assignment | None = self.attempt(
            partial(claim_next_task, batch=self.batch, person=person, ahead=ahead)
        )
        if assignment is not None and assignment.pk not in held:
            task = assignment.task
            running = before is None or before.state == Qualification.State.RUNNING
            assert running or task.kind != Task.Kind.QUALIFICATION
            assert task.stratum.dimension not in person.opted_out
            assert task.kind == Task.Kind.WORK or task.known.item.active
        return assignment

    def work(self, person: Person, value: int) -> bool:
        assignment = self.claim_for(person)
        if assignment is not None:
            submit(
                assignment_id=assignment.pk,
                person=person,
                key=str(uuid4()),
                work=Submission({"compliance": value}),
            )
        return assignment is not None

    def person(self, person_number: int) -> Person:
        return self.fresh(self.people[person_number % len(self.people)])

    def fresh(self, person: Person) -> Person:
        return Person.objects.get(pk=person.pk)

    def pick(self, number: int) -> Assignment | None:
        assignments = list(Assignment.objects.filter(batch=self.batch).order_by("claimed_at", "pk"))
        return assignments[number % len(assignments)] if assignments else None

    def attempt(self, call: Callable[[], Any]) -> Any:
        """A refusal is an answer, too; anything but an AssayError is a bug."""
        try:
            with transaction.atomic():
                return call()
        except AssayError:
            return None


def test_every_round_can_end(guideline: Guideline, lin: Person, chen: Person):
    run_state_machine_as_test(
        lambda: Rounds(guideline, [lin, chen]),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
            phases=[Phase.generate],
        ),
    )
