"""Whatever people do in whatever order, what never breaks does not break.

Hypothesis draws the order; every step goes through the services to the real database, and after every step the
invariants are read from the tables.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from annotation.errors import AssayError, NotFound
from annotation.models import (
    ADJUDICATION_SLOT,
    Adjudication,
    Annotation,
    Assignment,
    Batch,
    CorrectionRequest,
    Dataset,
    Guideline,
    Person,
    Task,
)
from annotation.services.annotations import Receipt, Work, adjudicate, revise, submit
from annotation.services.batches import Policy, create_batch, set_state
from annotation.services.distribution import (
    expire_leases,
    extend_lease,
    next_assignment,
    next_dispute,
    release,
)
from tests.support import make_corpus

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
LIVE = ["claimed", "submitted"]
# The successors of each state; what is not here never happens.
MOVES = {
    "open": {"open", "agreed", "disputed"},
    "agreed": {"agreed"},
    "disputed": {"disputed", "adjudicated"},
    "adjudicated": {"adjudicated"},
}
picks = st.integers(min_value=0, max_value=10_000)
values = st.sampled_from([1, 2, 3])


class Batches(RuleBasedStateMachine):
    """``zhou`` annotates and adjudicates in the same batch; ``stranger`` has no part in it."""

    def __init__(
        self, guideline: Guideline, dataset: Dataset, annotators: list[Person], wu: Person, stranger: Person
    ) -> None:
        super().__init__()
        self.guideline, self.dataset = guideline, dataset
        self.annotators, self.adjudicators, self.stranger = annotators, [wu, annotators[-1]], stranger
        self.stored: dict[str, tuple[Any, ...]] = {}
        self.states: dict[int, str] = {}
        self.answers: dict[tuple[Any, str], tuple[Work, Receipt]] = {}
        self.atomic = transaction.atomic()
        self.atomic.__enter__()

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.atomic.__exit__(None, None, None)

    @initialize(overlap=st.integers(min_value=1, max_value=3))
    def make(self, overlap: int) -> None:
        self.batch = create_batch(
            name=f"b{uuid4()}",
            guideline=self.guideline,
            dataset=self.dataset,
            annotators=self.annotators,
            adjudicators=self.adjudicators,
            policy=Policy(overlap=overlap),
        )

    # What people do.

    @rule(who=picks, ahead=st.booleans())
    def claim(self, who: int, ahead: bool) -> None:
        person = self.annotators[who % len(self.annotators)]
        claimed = self.attempt(partial(next_assignment, batch=self.batch, person=person, ahead=ahead))
        if claimed is not None:
            assert claimed.person_id == person.pk
            assert claimed.state == "claimed"

    @rule(who=picks, value=values)
    def claim_and_submit(self, who: int, value: int) -> None:
        person = self.annotators[who % len(self.annotators)]
        claimed = self.attempt(partial(next_assignment, batch=self.batch, person=person))
        if claimed is not None:
            self.send(submit, claimed, Work(labels={"compliance": value}), key=str(uuid4()))

    @rule(who=picks, value=values)
    def claim_dispute_and_decide(self, who: int, value: int) -> None:
        person = self.adjudicators[who % len(self.adjudicators)]
        claimed = self.attempt(partial(next_dispute, batch=self.batch, person=person))
        if claimed is not None and value != 1:  # else it stays claimed
            self.send(adjudicate, claimed, Work(labels={"compliance": value}), key=str(uuid4()))

    @rule(which=picks, value=values)
    def submit_any(self, which: int, value: int) -> None:
        if found := self.pick(which):
            self.send(submit, found, Work(labels={"compliance": value}), key=str(uuid4()))

    @rule(which=picks, value=values)
    def revise_any(self, which: int, value: int) -> None:
        if found := self.pick(which):
            work = Work(labels={"compliance": value}, reason="a second look")
            self.send(revise, found, work, key=str(uuid4()))

    @rule(which=picks, value=values)
    def decide_any(self, which: int, value: int) -> None:
        if found := self.pick(which):
            self.send(adjudicate, found, Work(labels={"compliance": value}), key=str(uuid4()))

    @precondition(lambda self: self.answers)
    @rule(which=picks)
    def retry(self, which: int) -> None:
        """The same key and body again: the same receipt, and nothing new."""
        (call, key), (work, receipt) = list(self.answers.items())[which % len(self.answers)]
        owner = Assignment.objects.get(pk=receipt.assignment).person
        again = call(assignment_id=receipt.assignment, person=owner, key=key, work=work)
        assert again is not None
        assert (again.receipt, again.created) == (receipt.receipt, False)

    @rule(which=picks, skip=st.booleans())
    def give_back(self, which: int, skip: bool) -> None:
        if found := self.pick(which):
            reason = "I know the author" if skip else ""
            self.attempt(partial(release, assignment_id=found.pk, person=found.person, skip_reason=reason))

    @rule(which=picks)
    def extend(self, which: int) -> None:
        if found := self.pick(which):
            self.attempt(partial(extend_lease, assignment_id=found.pk, person=found.person))

    @rule(which=picks, sweep=st.booleans())
    def run_out(self, which: int, sweep: bool) -> None:
        if found := self.pick(which):
            past = timezone.now() - timedelta(seconds=1)
            Assignment.objects.filter(pk=found.pk).update(lease_expires=past)
            if sweep:
                expire_leases(batch=self.batch)

    @rule(which=picks)
    def a_stranger_interferes(self, which: int) -> None:
        if found := self.pick(which):
            others = [self.stranger, *(p for p in self.annotators if p.pk != found.person_id)]
            for call in (submit, revise, adjudicate):
                with pytest.raises(NotFound):
                    call(
                        assignment_id=found.pk,
                        person=others[which % len(others)],
                        key="k",
                        work=Work(labels={"compliance": 3}),
                    )

    @rule(pause=st.booleans())
    def pause_or_open(self, pause: bool) -> None:
        self.attempt(partial(set_state, batch=self.batch, state="paused" if pause else "open"))

    @rule(sure=st.integers(min_value=0, max_value=9))
    def close(self, sure: int) -> None:
        if sure == 9:  # seldom, because little happens afterwards
            set_state(batch=self.batch, state="closed")

    # What never breaks.

    @invariant()
    def slots_are_counted_right(self) -> None:
        for task in self.tasks():
            live = task.assignments.filter(state__in=LIVE, slot__lt=ADJUDICATION_SLOT).count()
            assert task.slots_taken == live <= task.overlap

    @invariant()
    def a_finished_task_has_exactly_its_overlap_by_distinct_people(self) -> None:
        for task in self.tasks():
            current = Annotation.objects.filter(assignment__task=task, current=True)
            people = list(current.values_list("assignment__person", flat=True))
            assert len(people) == len(set(people))
            assert (len(people) == task.overlap) == (task.state != "open")

    @invariant()
    def the_adjudicator_is_none_of_the_annotators(self) -> None:
        for decision in Adjudication.objects.filter(task__batch=self.batch):
            annotators = Annotation.objects.filter(assignment__task=decision.task)
            assert decision.assignment.person_id not in annotators.values_list(
                "assignment__person", flat=True
            )

    @invariant()
    def gold_stands_exactly_where_a_task_is_settled_and_says_what_was_said(self) -> None:
        for task in self.tasks():
            gold = {label.criterion: label for label in task.gold_labels.all()}
            assert set(gold) == ({"compliance"} if task.state in ("agreed", "adjudicated") else set())
            assert (task.settled_at is not None) == bool(gold)
            if gold:
                assert gold["compliance"].value in self.said(task)

    @invariant()
    def states_only_move_forward(self) -> None:
        for task in self.tasks():
            assert task.state in MOVES[self.states.get(task.pk, "open")]
            self.states[task.pk] = task.state

    @invariant()
    def what_was_submitted_stays_as_it_was(self) -> None:
        now: dict[str, tuple[Any, ...]] = {
            str(row[0]): row[1:]
            for row in Annotation.objects.filter(assignment__batch=self.batch).values_list(
                "receipt", "assignment", "revision", "labels", "created_at"
            )
        }
        assert {receipt: now.get(receipt) for receipt in self.stored} == self.stored
        self.stored = now

    @invariant()
    def nobody_hoards_and_a_closed_batch_holds_no_claim(self) -> None:
        claims = Assignment.objects.filter(batch=self.batch, state="claimed")
        owners = list(claims.values_list("person", "slot"))
        annotating = [person for person, slot in owners if slot < ADJUDICATION_SLOT]
        assert all(annotating.count(person) <= 2 for person in annotating)
        if self.batch.state == Batch.State.CLOSED:
            assert owners == []

    # How the rules work.

    def tasks(self) -> list[Task]:
        return list(self.batch.tasks.order_by("position"))

    def said(self, task: Task) -> set[float]:
        if task.state == "adjudicated":
            return {task.adjudication.labels["compliance"]}
        given = Annotation.objects.filter(assignment__task=task, current=True).values_list(
            "labels", flat=True
        )
        assert len({labels["compliance"] for labels in given}) == 1
        return {labels["compliance"] for labels in given}

    def pick(self, which: int) -> Assignment | None:
        known = list(Assignment.objects.filter(batch=self.batch).order_by("claimed_at", "task__position"))
        return known[which % len(known)] if known else None

    def attempt(self, call: Callable[[], Any]) -> Any:
        """A refusal is an answer, too; anything but an AssayError is a bug."""
        try:
            with transaction.atomic():
                return call()
        except AssayError:
            return None

    def send(self, call: Callable[..., Receipt | None], item: Assignment, work: Work, *, key: str) -> None:
        asked = CorrectionRequest.objects.count()
        try:
            with transaction.atomic():
                receipt = call(assignment_id=item.pk, person=item.person, key=key, work=work)
        except AssayError:
            return
        if receipt is None:
            assert CorrectionRequest.objects.count() - asked in (0, 1)
            return
        assert receipt.created
        self.answers[call, key] = (work, receipt)


def test_nothing_breaks_whatever_people_do(
    guideline: Guideline,
    small: Dataset,
    lin: Person,
    chen: Person,
    zhou: Person,
    wu: Person,
    stranger: Person,
):
    run_state_machine_as_test(
        lambda: Batches(guideline, small, [lin, chen, zhou], wu, stranger),
        settings=settings(
            max_examples=25,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )


@pytest.fixture
def small(db: None) -> Dataset:
    return make_corpus(prompts=3, models=["Secretive-7B"])
