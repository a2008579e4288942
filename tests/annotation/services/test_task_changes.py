"""What a manager does with single tasks while people work."""

from __future__ import annotations

import pytest

from annotation.core.errors import AssayError, Conflict, NotFound
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy
from annotation.models import AuditEvent, Batch, Guideline, Person, Task
from annotation.selectors.counts import count_by_stratum
from annotation.services.annotations.submission import submit
from annotation.services.assignments import TooLate, claim_next_dispute, claim_next_task
from annotation.services.batches.batches import set_state
from annotation.services.batches.tasks import assign_tasks, restore_tasks, set_priority, withdraw_tasks
from tests.annotation.invariants import nothing_is_broken
from tests.support import decide_next, label, label_next, make_batch, make_corpus

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def ids(batch: Batch) -> list[int]:
    return list(batch.tasks.order_by("rank").values_list("pk", flat=True))


def list_claimed(batch: Batch, person: Person) -> list[int]:
    """Claims and submits until nothing is left; the tasks in their order."""
    tasks = []
    while (item := claim_next_task(batch=batch, person=person)) is not None:
        tasks.append(item.task_id)
        label(item, person, 3)
    return tasks


def test_an_assigned_task_goes_to_those_people_alone_and_is_taken_from_others(
    batch: Batch, lin: Person, chen: Person, zhou: Person, ma: Person
):
    first = claim_next_task(batch=batch, person=lin)
    assert first is not None
    assert assign_tasks(batch=batch, tasks=[first.task_id], people=[chen, zhou], actor=ma) == 1
    first.refresh_from_db()
    assert first.state == "released"
    with pytest.raises(TooLate):
        label(first, lin, 3)
    assert first.draft.labels == {"compliance": 3}
    assert first.task_id not in list_claimed(batch, lin)
    assert first.task_id in list_claimed(batch, chen)
    nothing_is_broken(batch)
    event = AuditEvent.objects.get(verb="assign_tasks")
    assert (event.actor, event.data) == (ma, {"tasks": [first.task_id], "people": ["chen", "zhou"]})


def test_who_labelled_an_assigned_task_keeps_the_label_and_one_more_person_does(
    batch: Batch, lin: Person, chen: Person
):
    item = claim_next_task(batch=batch, person=lin)
    assert item is not None
    label(item, lin, 3)
    assign_tasks(batch=batch, tasks=[item.task_id], people=[chen])
    assert list_claimed(batch, chen).count(item.task_id) == 1
    assert Task.objects.get(pk=item.task_id).state == "agreed"
    nothing_is_broken(batch)


def test_a_task_of_a_pool_is_given_back_to_everybody(batch: Batch, lin: Person, chen: Person, zhou: Person):
    (first, *_other_tasks) = ids(batch)
    assign_tasks(batch=batch, tasks=[first], people=[chen, zhou])
    assign_tasks(batch=batch, tasks=[first], people=[])
    assert first in list_claimed(batch, lin)
    nothing_is_broken(batch)


def test_fewer_able_people_than_places_are_refused_and_nothing_changes(
    batch: Batch, lin: Person, chen: Person, stranger: Person
):
    first, second, *_other_tasks = ids(batch)
    with pytest.raises(Conflict, match="needs 2 more people"):
        assign_tasks(batch=batch, tasks=[second, first], people=[lin])
    with pytest.raises(AssayError, match="does not annotate"):
        assign_tasks(batch=batch, tasks=[first], people=[lin, stranger])
    assert not batch.tasks.exclude(panel=None).exists()
    balanced = make_batch(
        batch.guideline,
        make_corpus(prompts=2, models=["B"], name="other"),
        annotators=[lin, chen],
        name="other",
        policy=Policy(pairing="balanced"),
    )
    with pytest.raises(AssayError, match="Name the people"):
        assign_tasks(batch=balanced, tasks=ids(balanced), people=[])


def test_a_withdrawn_task_is_given_to_nobody_and_its_label_does_not_count_until_it_is_back(
    batch: Batch, lin: Person, chen: Person
):
    done, held = claim_next_task(batch=batch, person=lin), claim_next_task(batch=batch, person=chen)
    assert done is not None
    assert held is not None
    assert done.task_id == held.task_id
    label(done, lin, 3)
    assert withdraw_tasks(batch=batch, tasks=[done.task_id], reason="a wrong response") == 1
    assert sum(counts["submitted"] for counts in count_by_stratum([batch.pk]).values()) == 0
    with pytest.raises(TooLate, match="took this item back"):
        submit(assignment_id=held.pk, person=chen, key="k", work=Submission(labels={"compliance": 1}))
    assert done.task_id not in list_claimed(batch, chen)
    nothing_is_broken(batch)
    assert restore_tasks(batch=batch, tasks=[done.task_id]) == 1
    assert sum(counts["submitted"] for counts in count_by_stratum([batch.pk]).values()) == 8
    assert list_claimed(batch, chen) == [done.task_id]
    assert Task.objects.get(pk=done.task_id).state == "agreed"
    nothing_is_broken(batch)


def test_a_dispute_comes_back_as_a_dispute(batch: Batch, lin: Person, chen: Person, wu: Person):
    label_next(batch, lin, 1)
    label_next(batch, chen, 3)
    task = batch.tasks.get(state="disputed")
    held = claim_next_dispute(batch=batch, person=wu)
    assert held is not None
    withdraw_tasks(batch=batch, tasks=[task.pk], reason="a wrong response")
    assert claim_next_dispute(batch=batch, person=wu) is None
    restore_tasks(batch=batch, tasks=[task.pk])
    task.refresh_from_db()
    assert task.state == "disputed"
    assert decide_next(batch, wu, 2) is not None
    nothing_is_broken(batch)


def test_what_is_moved_ahead_comes_first_also_to_whom_it_lay_behind(
    guideline: Guideline, lin: Person, chen: Person
):
    dataset = make_corpus(prompts=6, models=["A"])
    batch = make_batch(guideline, dataset, annotators=[lin, chen], policy=Policy(overlap=1))
    order = ids(batch)
    assert set_priority(batch=batch, tasks=[order[4], order[2]], priority=2) == 2
    set_priority(batch=batch, tasks=[order[0]], priority=-1)
    assert list_claimed(batch, lin) == [order[2], order[4], order[1], order[3], order[5], order[0]]
    nothing_is_broken(batch)


@pytest.mark.parametrize("priority", [1001, -1001])
def test_a_priority_beyond_all_is_refused(batch: Batch, priority: int):
    with pytest.raises(AssayError, match="whole number"):
        set_priority(batch=batch, tasks=ids(batch), priority=priority)


def test_what_is_settled_or_of_another_batch_or_closed_is_refused(batch: Batch, lin: Person, chen: Person):
    label_next(batch, lin, 3)
    label_next(batch, chen, 3)
    agreed = batch.tasks.get(state="agreed").pk
    for change in (
        lambda: withdraw_tasks(batch=batch, tasks=ids(batch), reason="no"),
        lambda: set_priority(batch=batch, tasks=[agreed], priority=1),
        lambda: assign_tasks(batch=batch, tasks=[agreed], people=[lin]),
        lambda: restore_tasks(batch=batch, tasks=[agreed]),
    ):
        with pytest.raises(Conflict, match="is agreed"):
            change()
    assert not batch.tasks.filter(state="withdrawn").exists()
    with pytest.raises(NotFound):
        set_priority(batch=batch, tasks=[max(ids(batch)) + 1], priority=1)
    set_state(batch=batch, state="closed")
    with pytest.raises(Conflict, match="is closed"):
        set_priority(batch=batch, tasks=ids(batch)[2:], priority=1)
