"""Whatever people do in whatever order, what never breaks does not break, and nobody waits for what is there.

Hypothesis draws the order; every step goes through the services to the real database. After every step the tables
are read once, and everything that is asserted is worked out from these rows, by none of the product's rules.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from itertools import combinations
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from annotation.core.errors import AssayError, NotFound
from annotation.core.sampling import block_of
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import BatchSpec, Policy
from annotation.models import (
    ADJUDICATION_SLOT,
    Adjudication,
    Annotation,
    Assignment,
    Batch,
    CorrectionRequest,
    Dataset,
    Draft,
    EvaluatedModel,
    GoldLabel,
    GoldQuestionTask,
    Guideline,
    Membership,
    Person,
    Prompt,
    Response,
)
from annotation.selectors.batches.needs import list_needs
from annotation.selectors.gold_questions import derive_seed
from annotation.services.adjudication.disputes import adjudicate, record_verdict
from annotation.services.annotations import closings
from annotation.services.annotations.submission import Receipt, revise, submit
from annotation.services.assignments import (
    TooLate,
    claim_next_dispute,
    claim_next_task,
    expire_leases,
    extend_lease,
    release_assignment,
)
from annotation.services.batches.batches import NUMBERS_ONLY, create_batch, set_state
from annotation.services.batches.collection import end_collection
from annotation.services.batches.members import join_batch, set_limits, set_member_active
from annotation.services.batches.tasks import assign_tasks as tasks_assign
from annotation.services.batches.tasks import restore_tasks as tasks_bring_back
from annotation.services.batches.tasks import set_priority as tasks_set_priority
from annotation.services.batches.tasks import withdraw_tasks as tasks_withdraw
from annotation.services.gold_questions.gold_questions import GoldAnswer, add_questions
from annotation.services.people.people import (
    add_person,
    set_languages,
    set_opted_out,
    set_own_models,
    set_roles,
)
from tests.annotation.invariants import Tables, nothing_is_broken
from tests.annotation.several_criteria import criterion, guideline_of, scale
from tests.support import make_corpus

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
# The successors of each state, besides itself; what is not here never happens.
MOVES = {
    "open": {"agreed", "disputed", "withdrawn"},
    "agreed": set[str](),
    "disputed": {"adjudicated", "withdrawn"},
    "adjudicated": set[str](),
    "withdrawn": {"open", "disputed"},
}
TONES = {1: 1, 3: 2, 4: 1}
"""What is said of the optional criterion beside a value; nothing beside 2."""
picks = st.integers(min_value=0, max_value=10_000)
values = st.sampled_from([1, 2, 3, 4])
"""What is answered; 4 is "not applicable" where the guideline allows that, else 3 once more."""
task_numbers = st.sets(st.integers(min_value=0, max_value=5), min_size=1, max_size=3)


class Batches(RuleBasedStateMachine):
    """``zhou`` annotates and adjudicates in the same batch; ``late`` may join it; ``stranger`` has no part in it."""

    def __init__(
        self, guideline: Guideline, lenient: Guideline, dataset: Dataset, people: dict[str, Person]
    ) -> None:
        super().__init__()
        self.guideline, self.lenient, self.dataset = guideline, lenient, dataset
        self.known = Dataset.objects.get(name="known")
        self.late, self.stranger, self.manager = people["late"], people["stranger"], people["ma"]
        self.annotators = [people[name] for name in ("lin", "chen", "zhou", "gao")]
        self.adjudicators = [people["wu"], people["zhou"]]
        self.stored: dict[UUID, tuple[Any, ...]] = {}
        self.states: dict[int, str] = {}
        self.steps = 0
        self.answers: dict[tuple[Any, str], tuple[Submission, Receipt]] = {}
        self.batch: Batch | None = None
        self.atomic = transaction.atomic()
        self.atomic.__enter__()

    def teardown(self) -> None:
        try:
            if self.batch is not None and Batch.objects.get(pk=self.batch.pk).state != "closed":
                self.drain()
        finally:
            transaction.set_rollback(True)
            self.atomic.__exit__(None, None, None)

    @initialize(
        overlap=st.integers(min_value=1, max_value=3),
        pairing=st.sampled_from(["pool", "fixed", "balanced"]),
        order=st.sampled_from(["prompts", "shuffled"]),
        pairs=st.integers(min_value=1, max_value=4),
        repeat_share=st.sampled_from([0, 0.5, 1]),
        second_share=st.sampled_from([0, 0.5, 1]),
        checks=st.sampled_from([(0, False), (0.5, False), (0.25, True)]),
        collection=st.sampled_from([("fixed", 1), ("fixed", 1), ("fixed", 0.5), ("open", 1)]),
        settling=st.sampled_from(["adjudicate", "majority", "median", "experts", "aggregate"]),
        is_lenient=st.booleans(),
    )
    def make(
        self,
        overlap: int,
        pairing: str,
        order: str,
        pairs: int,
        repeat_share: float,
        second_share: float,
        checks: tuple[float, bool],
        collection: tuple[Any, float],
        settling: Any,
        is_lenient: bool,
    ) -> None:
        plan, overlap_share = collection if pairing == "pool" else ("fixed", 1)
        if is_lenient and settling not in NUMBERS_ONLY:
            self.guideline = self.lenient
        groups = list(combinations(self.annotators, overlap))[:pairs]
        self.batch = create_batch(
            BatchSpec(
                name=f"b{uuid4()}",
                guideline=self.guideline,
                dataset=self.dataset,
                annotators=self.annotators,
                adjudicators=self.adjudicators,
                pairs=groups if pairing == "fixed" else (),
                policy=Policy(
                    overlap=overlap,
                    pairing=pairing,
                    order=order,
                    seed=pairs,
                    plan=plan,
                    overlap_share=overlap_share,
                    settling=settling,
                ),
            )
        )
        Batch.objects.filter(pk=self.batch.pk).update(
            second_reading_share=repeat_share,
            second_reading_days=pairs // 3,
            second_adjudicator_share=second_share,
        )
        if checks[0]:
            known = Response.objects.filter(prompt__dataset=self.known)
            items = [GoldAnswer(response.pk, {"compliance": 3}) for response in known]
            add_questions(batch=self.batch, kind="check", items=items)
            Batch.objects.filter(pk=self.batch.pk).update(check_share=checks[0], check_feedback=checks[1])
            self.batch.refresh_from_db()

    # What people do.

    @rule(person_number=picks, ahead=st.booleans())
    def claim(self, person_number: int, ahead: bool) -> None:
        self.claim_for(self.annotators[person_number % len(self.annotators)], ahead=ahead)

    @rule(person_number=picks, value=values)
    def claim_and_submit(self, person_number: int, value: int) -> None:
        claimed = self.claim_for(self.annotators[person_number % len(self.annotators)])
        if claimed is not None:
            self.send(submit, claimed, Submission(labels=self.answer(value)))

    @rule(person_number=picks, value=values)
    def claim_dispute_and_decide(self, person_number: int, value: int) -> None:
        claimed = self.claim_dispute_for(self.adjudicators[person_number % len(self.adjudicators)])
        if claimed is not None and value != 1:  # else it stays claimed
            self.decide(claimed, value)

    @rule(number=picks, value=values)
    def submit_any(self, number: int, value: int) -> None:
        if assignment := self.pick(number):
            self.send(submit, assignment, Submission(labels=self.answer(value)))

    @rule(number=picks, value=values)
    def revise_any(self, number: int, value: int) -> None:
        if assignment := self.pick(number):
            self.send(revise, assignment, Submission(labels=self.answer(value), reason="a second look"))

    @rule(number=picks, value=values)
    def decide_any(self, number: int, value: int) -> None:
        if assignment := self.pick(number):
            self.decide(assignment, value)

    @precondition(lambda self: self.answers)
    @rule(number=picks)
    def retry(self, number: int) -> None:
        """The same key and body again: the same receipt, and nothing new."""
        (call, key), (work, receipt) = list(self.answers.items())[number % len(self.answers)]
        owner = Assignment.objects.get(pk=receipt.assignment).person
        second_receipt = call(assignment_id=receipt.assignment, person=owner, key=key, work=work)
        assert second_receipt is not None
        assert (second_receipt.receipt, second_receipt.created) == (receipt.receipt, False)

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
    def extend(self, number: int) -> None:
        if assignment := self.pick(number):
            self.attempt(partial(extend_lease, assignment_id=assignment.pk, person=assignment.person))

    @rule(number=picks, sweep=st.booleans())
    def run_out(self, number: int, sweep: bool) -> None:
        if assignment := self.pick(number):
            past = timezone.now() - timedelta(seconds=1)
            Assignment.objects.filter(pk=assignment.pk).update(lease_expires=past)
            if sweep:
                expire_leases(batch=self.batch)

    @rule(number=picks)
    def a_stranger_interferes(self, number: int) -> None:
        if assignment := self.pick(number):
            other_people = [self.stranger, *(p for p in self.annotators if p.pk != assignment.person_id)]
            for call in (submit, revise, adjudicate):
                with pytest.raises(NotFound):
                    call(
                        assignment_id=assignment.pk,
                        person=other_people[number % len(other_people)],
                        key="k",
                        work=Submission(labels={"compliance": 3}),
                    )

    # What the manager does.

    @rule(number=task_numbers, person_number=st.sets(picks, max_size=3))
    def assign(self, number: set[int], person_number: set[int]) -> None:
        people = list({self.annotators[n % len(self.annotators)] for n in person_number})
        self.attempt(
            partial(tasks_assign, batch=self.batch, tasks=self.list_tasks(number, "open"), people=people)
        )

    @rule(number=task_numbers)
    def withdraw(self, number: set[int]) -> None:
        tasks = self.list_tasks(number, "open", "disputed")
        self.attempt(partial(tasks_withdraw, batch=self.batch, tasks=tasks, reason="a wrong response"))

    @rule(number=task_numbers)
    def bring_back(self, number: set[int]) -> None:
        self.attempt(partial(tasks_bring_back, batch=self.batch, tasks=self.list_tasks(number, "withdrawn")))

    @rule(number=task_numbers, priority=st.sampled_from([-1, 0, 1, 5]))
    def set_priority(self, number: set[int], priority: int) -> None:
        tasks = self.list_tasks(number, "open", "disputed")
        self.attempt(partial(tasks_set_priority, batch=self.batch, tasks=tasks, priority=priority))

    @rule(person_number=picks, role=st.sampled_from(["annotator", "adjudicator"]), active=st.booleans())
    def leave_or_return(self, person_number: int, role: str, active: bool) -> None:
        people = self.annotators if role == "annotator" else self.adjudicators
        person = people[person_number % len(people)]
        self.attempt(partial(set_member_active, batch=self.batch, person=person, role=role, active=active))

    @rule(role=st.sampled_from(["annotator", "adjudicator"]))
    def somebody_joins(self, role: str) -> None:
        people = self.annotators if role == "annotator" else self.adjudicators
        self.attempt(partial(join_batch, batch=self.batch, role=role, people=[self.late]))
        if self.late not in people and self.batch.memberships.filter(person=self.late, role=role).exists():
            people.append(self.late)

    @rule(
        person_number=picks,
        quota=st.sampled_from([None, None, 1, 2, 4]),
        excluded=st.sampled_from([(), (), ("safe",), ("unsafe",), ("safe", "unsafe")]),
    )
    def limit(self, person_number: int, quota: int | None, excluded: Sequence[str]) -> None:
        person = self.annotators[person_number % len(self.annotators)]
        self.attempt(
            partial(
                set_limits,
                batch=self.batch,
                person=person,
                role="annotator",
                quota=quota,
                excluded_dimensions=excluded,
            )
        )

    @rule(
        person_number=picks,
        languages=st.sampled_from([[], ["zh"], ["en"], ["en", "zh"]]),
        models=st.sampled_from([(), (), ("Secretive-7B",)]),
    )
    def a_person_changes(self, person_number: int, languages: list[str], models: Sequence[str]) -> None:
        everybody = [*self.annotators, *self.adjudicators]
        person = everybody[person_number % len(everybody)]
        set_languages(person=person, languages=languages, actor=self.manager)
        own = EvaluatedModel.objects.filter(name__in=models)
        set_own_models(person=person, models=list(own), actor=self.manager)

    @rule(person_number=picks, topics=st.sampled_from([(), (), ("unsafe",)]))
    def a_person_opts_out(self, person_number: int, topics: Sequence[str]) -> None:
        everybody = [*self.annotators, *self.adjudicators]
        set_opted_out(person=everybody[person_number % len(everybody)], dimensions=topics)

    @rule()
    def a_worker_looks(self) -> None:
        with patch.multiple(closings, SETTLING=timedelta(0), SIZE=2):
            closings.close_blocks(self.batch)

    @rule(pause=st.booleans())
    def pause_or_open(self, pause: bool) -> None:
        self.attempt(partial(set_state, batch=self.batch, state="paused" if pause else "open"))

    @rule(sure=st.integers(min_value=0, max_value=9))
    def end_the_collection(self, sure: int) -> None:
        if sure == 9:
            self.attempt(partial(end_collection, batch=self.batch))

    @rule(sure=st.integers(min_value=0, max_value=29))
    def close(self, sure: int) -> None:
        if sure == 29:  # seldom, because little happens afterwards
            self.attempt(partial(end_collection, batch=self.batch))
            self.batch.refresh_from_db()
            if self.batch.settles_at_end:  # one person's labels have no model
                assert self.batch.settling == "aggregate"
            else:
                set_state(batch=self.batch, state="closed")

    # What never breaks.

    @invariant()
    def nothing_breaks(self) -> None:
        """After every step; the needs after every fourth, and when the batch is drained."""
        self.steps += 1
        now = nothing_is_broken(self.batch, and_needs=self.steps % 4 == 0)
        self.what_was_submitted_stays(now)
        self.states_move_as_they_may(now)
        self.one_dispute_at_a_time(now)

    def states_move_as_they_may(self, now: Tables) -> None:
        for pk, task in now.tasks.items():
            first = "disputed" if task["kind"] == "repeat" else "open"
            before, state = self.states.get(pk, first), task["state"]
            assert state == before or state in MOVES[before]
            self.states[pk] = state

    def one_dispute_at_a_time(self, now: Tables) -> None:
        """Whether it is decided for the first time or the second."""
        held = Counter(
            assignment["person_id"]
            for assignment in now.assignments
            if assignment["slot"] == ADJUDICATION_SLOT and assignment["state"] == "claimed"
        )
        assert all(number == 1 for number in held.values())

    def what_was_submitted_stays(self, now: Tables) -> None:
        by_receipt = {
            annotation["receipt"]: (
                annotation["assignment_id"],
                annotation["revision"],
                annotation["labels"],
                annotation["created_at"],
            )
            for annotation in now.annotations
        }
        assert {receipt: by_receipt.get(receipt) for receipt in self.stored} == self.stored
        self.stored = by_receipt

    # How the rules work.

    def claim_for(self, person: Person, *, ahead: bool = False) -> Assignment | None:
        """Claim, and compare what came with what the tables allow."""
        person = Person.objects.get(pk=person.pk)
        before = {
            assignment.pk: assignment
            for assignment in Assignment.objects.filter(batch=self.batch, person=person)
        }
        member = Membership.objects.filter(
            batch=self.batch, person=person, role="annotator", active=True
        ).first()
        answer = self.attempt(partial(claim_next_task, batch=self.batch, person=person, ahead=ahead))
        if member is None or Batch.objects.get(pk=self.batch.pk).state != "open":
            assert answer is None
            return None
        now = Tables.read(self.batch)
        row = now.member(person.pk)
        live = [o for o in now.assignments if o["person_id"] == person.pk and o["state"] == "claimed"]
        live = [assignment for assignment in live if assignment["slot"] < ADJUDICATION_SLOT]
        if answer is None:
            if ahead and live:  # nothing more, or no more than there must be for the others
                return None
            assert not live
            if row["quota"] is None or now.submitted_by(person.pk) < row["quota"]:
                assert not [task["pk"] for task in now.free() if now.may(row, task, self.batch)]
            return None
        assert answer.person_id == person.pk
        assert answer.state == "claimed"
        held = before.get(answer.pk)
        if held is None or held.state != "claimed":
            self.a_new_claim_is_right(now, row, answer, held, member.last_prompt)
            done = now.submitted_by(person.pk) + len(live)
            assert row["quota"] is None or done <= row["quota"]
        return Assignment.objects.get(pk=answer.pk)

    def a_new_claim_is_right(
        self,
        now: Tables,
        member: dict[str, Any],
        claim: Assignment,
        held: Assignment | None,
        last_prompt: int | None,
    ) -> None:
        task = now.tasks[claim.task_id]
        if task["kind"] == "check":
            self.a_check_is_right(member, claim, held, last_prompt)
        assert task["kind"] == "check" or now.planned_for(member, task, self.batch)
        assert not now.ruled_out(member, task)
        assert task["state"] == "open"
        assert held is None or not held.skip_reason
        other_assignments = [
            assignment
            for assignment in now.free()
            if assignment["prompt"] != last_prompt
            and now.past(assignment["pk"], member["person"]) is None
            and now.may(member, assignment, self.batch)
        ]
        if held is None:
            assert task["prompt"] != last_prompt or (task["kind"] == "work" and not other_assignments)
        elif held.state == "released":
            assert not other_assignments

    def a_check_is_right(
        self, member: dict[str, Any], claim: Assignment, held: Assignment | None, last_prompt: int | None
    ) -> None:
        """One in a block, of a response that the person never had; a claim given back does not count as given."""
        own_tasks = GoldQuestionTask.objects.filter(person=member["person"], item__batch=self.batch)
        responses = list(own_tasks.values_list("task__response", flat=True))
        assert len(responses) == len(set(responses))
        served = own_tasks.exclude(task__assignments__state="released")
        places = list(served.values_list("task__position", flat=True))
        seed = derive_seed(member["pk"])
        blocks = [block_of(place, share=self.batch.check_share, seed=seed) for place in places]
        if held is None:  # one that comes again was of a place that another check has had since
            mine_now = block_of(claim.task.position, share=self.batch.check_share, seed=seed)
            assert blocks.count(mine_now) == 1

    def claim_dispute_for(self, person: Person) -> Assignment | None:
        person = Person.objects.get(pk=person.pk)
        claimed = self.attempt(partial(claim_next_dispute, batch=self.batch, person=person))
        now = Tables.read(self.batch)
        member = now.member(person.pk, "adjudicator")
        if claimed is not None:
            assert claimed.person_id == person.pk
            assert now.tasks[claimed.task_id]["state"] == "disputed"
        elif member["active"] and Batch.objects.get(pk=self.batch.pk).state == "open":
            waiting = (
                pk
                for pk, task in now.tasks.items()
                if task["kind"] == "work" and task["state"] == "disputed" and pk not in now.held_disputes()
                if now.may_decide(member, task)
            )
            assert not list(waiting)
        return claimed

    def drain(self) -> None:
        """At the end everybody works until nothing is left: what then stands open is listed, and nothing else."""
        set_state(batch=self.batch, state="open")
        for _round in range(2):  # a model may need the labels of the first
            self.attempt(partial(end_collection, batch=self.batch))
            self.batch.refresh_from_db()
            self.work_until_nothing_is_left()
        now = nothing_is_broken(self.batch)
        self.what_was_submitted_stays(now)
        left = {("annotator", task["pk"]) for task in now.free()}
        left |= {
            ("adjudicator", pk)
            for pk, task in now.tasks.items()
            if task["kind"] == "work" and task["state"] == "disputed"
        }
        if self.batch.plan == "fixed" or self.batch.collection_ended_at is not None:
            assert {(need.role, need.task.pk) for need in list_needs(self.batch, limit=100)} == left

    def work_until_nothing_is_left(self) -> None:
        listed = {(need.role, need.task.pk) for need in list_needs(self.batch, limit=100)}
        busy = True
        while busy:
            busy = False
            for number, person in enumerate(self.annotators):
                claimed = self.claim_for(person)
                if claimed is not None:
                    assert ("annotator", claimed.task_id) not in listed or Assignment.objects.filter(
                        task=claimed.task_id, state="claimed"
                    ).exists()
                    assert self.send(submit, claimed, Submission(labels=self.answer(1 + number % 3)))
                    busy = True
            for person in self.adjudicators:
                claimed = self.claim_dispute_for(person)
                if claimed is not None:
                    assert self.decide(claimed, 2)
                    busy = True

    def answer(self, value: int) -> dict[str, Any]:
        """What is said of every criterion: an optional one is left open with some values."""
        if self.guideline != self.lenient:
            return {"compliance": min(value, 3)}
        tone = {} if value == 2 else {"tone": TONES[value]}
        return {"compliance": "na" if value == 4 else value, **tone}

    def decision(self, item: Assignment, value: int) -> dict[str, Any]:
        """The same of what is disputed: what was answered and is not settled, or what was decided the first time."""
        if item.task.repeats_id is not None:
            names = set(Adjudication.objects.get(task=item.task.repeats_id).labels)
        else:
            annotations = Annotation.objects.filter(current=True, assignment__task=item.task)
            names = {name for labels in annotations.values_list("labels", flat=True) for name in labels}
            names -= set(GoldLabel.objects.filter(task=item.task).values_list("criterion", flat=True))
        answers = {"tone": 1} | self.answer(value)
        return {name: answers[name] for name in names} or {"compliance": 1}

    def decide(self, item: Assignment, value: int) -> bool:
        """A verdict, which stands if there is one, and then the decision. Whether it was taken."""
        labels = self.decision(item, value)
        verdict = partial(record_verdict, person=item.person, work=Submission(labels))
        self.attempt(partial(verdict, assignment_id=item.pk))
        return self.send(adjudicate, item, Submission(labels, reason="guideline_gap"))

    def list_tasks(self, number: set[int], *states: str) -> list[int]:
        tasks = self.batch.tasks.filter(kind="work").order_by("position").values_list("pk", "state")
        return [tasks[n][0] for n in sorted(number) if n < len(tasks) and tasks[n][1] in states]

    def pick(self, number: int) -> Assignment | None:
        known = list(Assignment.objects.filter(batch=self.batch).order_by("claimed_at", "task__position"))
        return known[number % len(known)] if known else None

    def attempt(self, call: Callable[[], Any]) -> Any:
        """A refusal is an answer, too; anything but an AssayError is a bug."""
        try:
            with transaction.atomic():
                return call()
        except AssayError:
            return None

    def send(self, call: Callable[..., Receipt | None], item: Assignment, work: Submission) -> bool:
        """Whether it was taken. What came too late for its place is kept as a draft."""
        key, requests_before = str(uuid4()), CorrectionRequest.objects.count()
        try:
            receipt = call(assignment_id=item.pk, person=item.person, key=key, work=work)
        except AssayError as refusal:
            if call is submit and isinstance(refusal, TooLate):
                assert Draft.objects.get(assignment=item).labels == work.labels
            return False
        if receipt is None:
            assert CorrectionRequest.objects.count() - requests_before in (0, 1)
            return False
        assert receipt.created
        self.answers[call, key] = (work, receipt)
        return True


def test_nothing_breaks_whatever_people_do(
    guideline: Guideline,
    small: Dataset,
    lin: Person,
    chen: Person,
    zhou: Person,
    wu: Person,
    ma: Person,
    stranger: Person,
):
    levels = {1: "one", 2: "two", 3: "three"}
    lenient = guideline_of(
        "lenient",
        [
            criterion("compliance", scale(levels)) | {"na": True},
            criterion("tone", scale(levels)) | {"optional": True},
        ],
    )
    people = {"lin": lin, "chen": chen, "zhou": zhou, "wu": wu, "ma": ma, "stranger": stranger}
    for name in ("gao", "late"):
        people[name] = add_person(name=name, roles=["annotator", "adjudicator"])
    set_roles(person=zhou, roles=["annotator", "adjudicator"])
    run_state_machine_as_test(
        lambda: Batches(guideline, lenient, small, people),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
            phases=[Phase.generate],  # a failing run is short enough to read; shrinking it takes minutes
        ),
    )


# For a longer hunt than the suite has time for: ASSAY_EXAMPLES=1000.
EXAMPLES = int(os.environ.get("ASSAY_EXAMPLES", "8"))


@pytest.fixture
def small(db: None) -> Dataset:
    """Six responses, three prompts: in Chinese, in English, and one that names no language."""
    dataset = make_corpus(prompts=3, models=["Secretive-7B", "Hidden-13B"])
    for key, language in (("p0", "zh"), ("p1", "en")):
        Prompt.objects.filter(dataset=dataset, key=key).update(language=language)
    make_corpus(prompts=4, models=["Oracle-1B"], name="known")
    return dataset
