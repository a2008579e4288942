"""What a manager does with single tasks while people work: assign, withdraw, bring back, move ahead.

Lock order: the memberships of the batch, its row, then the tasks in the order of their ids. So no claim slips in
between, and what is counted for the batch as a whole is counted by one at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from django.db import transaction
from django.db.models import F

from annotation.core.errors import N_, AssayError, Conflict, NotFound
from annotation.domain.verbs import AnnotationVerb
from annotation.models import (
    ADJUDICATION_SLOT,
    PRIORITY_STEP,
    Assignment,
    Batch,
    Membership,
    Person,
    Task,
)
from annotation.selectors.assignments.availability import filter_eligible
from annotation.services.assignments import end_claim
from annotation.services.assignments.plan import Plan, save_plan
from annotation.services.audit import record
from annotation.services.counts import add_batch_counts, lock_memberships

MAX_PRIORITY = 1000


@transaction.atomic
def assign_tasks(
    *, batch: Batch, tasks: Sequence[int], people: Sequence[Person], actor: Person | None = None
) -> int:
    """From now on only ``people`` are given the free places of these tasks, beside who has labelled them already.

    What others hold at this moment is taken back. Nobody named gives tasks of a pool back to everybody. Refused
    where a task would be left with fewer people than places. The number of tasks assigned.
    """
    members = _get_members(batch, people)
    plan: Plan = defaultdict(list)
    for task in _lock_tasks(batch, tasks, Task.State.OPEN):
        _end_claims(task, keep={member.person_id for member in members})
        done = set(
            Assignment.objects.filter(task=task, state=Assignment.State.SUBMITTED).values_list(
                "person", flat=True
            )
        )
        if members:
            _refuse_too_few(task, members, done)
            had = batch.memberships.filter(role=Membership.Role.ANNOTATOR, person__in=done)
            ids = {*(member.pk for member in members), *had.values_list("pk", flat=True)}
            plan[tuple(sorted(ids))].append(task)
        else:
            _refuse_no_people(batch)
            plan[None].append(task)
    save_plan(batch, plan)
    _record_act(
        batch, actor, AnnotationVerb.ASSIGN_TASKS, tasks, people=[person.username for person in people]
    )
    return sum(map(len, plan.values()))


@transaction.atomic
def withdraw_tasks(*, batch: Batch, tasks: Sequence[int], reason: str, actor: Person | None = None) -> int:
    """Take open or disputed tasks out of the batch: nobody is given them, nothing of them becomes gold.

    What was submitted stays stored, and counts again when they are brought back. The number withdrawn.
    """
    withdrawn = 0
    for task in _lock_tasks(batch, tasks, Task.State.OPEN, Task.State.DISPUTED):
        _end_claims(task, keep=set())
        _set_task_state(
            task, Task.State.WITHDRAWN, submitted=-_count_submitted(task), labels_needed=-_count_needed(task)
        )
        withdrawn += 1
    _renew_labels_version(batch)
    _record_act(batch, actor, AnnotationVerb.WITHDRAW_TASKS, tasks, reason=reason)
    return withdrawn


@transaction.atomic
def restore_tasks(*, batch: Batch, tasks: Sequence[int], actor: Person | None = None) -> int:
    """Undo a withdrawal: each task goes on where it stood. The number of tasks brought back."""
    back = 0
    for task in _lock_tasks(batch, tasks, Task.State.WITHDRAWN):
        submitted = _count_submitted(task)
        is_open = submitted < task.overlap or task.batch.settles_at_end
        state = Task.State.OPEN if is_open else Task.State.DISPUTED
        _set_task_state(task, state, submitted=submitted, labels_needed=_count_needed(task))
        Task.objects.filter(pk=task.pk).update(requeued=True)
        back += 1
    _renew_labels_version(batch)
    _record_act(batch, actor, AnnotationVerb.BRING_TASKS_BACK, tasks)
    return back


@transaction.atomic
def set_priority(*, batch: Batch, tasks: Sequence[int], priority: int, actor: Person | None = None) -> int:
    """Hand these tasks out before those of a lower priority. The number changed."""
    if not -MAX_PRIORITY <= priority <= MAX_PRIORITY:
        raise AssayError(N_("A priority is a whole number from -{most} to {most}."), most=MAX_PRIORITY)
    changed = 0
    for task in _lock_tasks(batch, tasks, Task.State.OPEN, Task.State.DISPUTED):
        rank = task.position - priority * PRIORITY_STEP
        Task.objects.filter(pk=task.pk).update(priority=priority, rank=rank, requeued=True)
        changed += 1
    _record_act(batch, actor, AnnotationVerb.SET_PRIORITY, tasks, priority=priority)
    return changed


def _lock_tasks(batch: Batch, tasks: Sequence[int], *states: str) -> Iterator[Task]:
    """The tasks with their rows locked; refused before anything is changed where one is in another state."""
    lock_memberships(batch)
    state = Batch.objects.select_for_update(no_key=True).values_list("state", flat=True).get(pk=batch.pk)
    if state == Batch.State.CLOSED:
        raise Conflict(N_("The batch {name} is closed."), name=batch.name)
    locked = list(
        Task.objects.select_for_update(of=("self",), no_key=True)
        .select_related("stratum", "batch")
        .filter(batch=batch, pk__in=tasks, kind=Task.Kind.WORK)
        .order_by("pk")
    )
    missing = set(tasks) - {task.pk for task in locked}
    if missing:
        raise NotFound(N_("The batch {name} has no item {item}."), name=batch.name, item=min(missing))
    wrong = [task for task in locked if task.state not in states]
    if wrong:
        raise Conflict(
            N_("Item {item} is {state}; this cannot be done with it any more."),
            item=wrong[0].pk,
            state=Task.State(wrong[0].state).label,
        )
    yield from locked


def _get_members(batch: Batch, people: Sequence[Person]) -> list[Membership]:
    members = {
        membership.person_id: membership
        for membership in batch.memberships.filter(
            role=Membership.Role.ANNOTATOR, active=True, person__in=people
        ).select_related("person")
    }
    for person in people:
        if person.pk not in members:
            raise AssayError(
                N_("{name} does not annotate in the batch {batch}."), name=str(person), batch=batch.name
            )
    return list(members.values())


def _refuse_too_few(task: Task, members: Sequence[Membership], done: set[int]) -> None:
    had = set(Assignment.objects.filter(task=task).exclude(skip_reason="").values_list("person", flat=True))
    had |= set(Assignment.objects.filter(task=task, slot=ADJUDICATION_SLOT).values_list("person", flat=True))
    able = [
        member
        for member in filter_eligible(members, task.stratum)
        if member.person_id not in had and member.person_id not in done
    ]
    places = _count_needed(task) - len(done)
    if len(able) < places:
        raise Conflict(
            N_("Item {item} needs {places} more people, and of those named {able} may take it; name more."),
            item=task.pk,
            places=places,
            able=len(able),
        )


def _refuse_no_people(batch: Batch) -> None:
    if batch.pairing != Batch.Pairing.POOL:
        raise AssayError(N_("Name the people: in this batch each item is planned for somebody."))


def _end_claims(task: Task, *, keep: set[int]) -> None:
    claims = Assignment.objects.filter(task=task, state=Assignment.State.CLAIMED).exclude(person__in=keep)
    for claim in claims:
        end_claim(claim, Assignment.State.RELEASED)


def _count_submitted(task: Task) -> int:
    return task.assignments.filter(state=Assignment.State.SUBMITTED, slot__lt=ADJUDICATION_SLOT).count()


def _count_needed(task: Task) -> int:
    """Of an open plan the floor, whatever came beyond it."""
    return task.batch.overlap if task.batch.plan == Batch.Plan.OPEN else task.overlap


def _set_task_state(task: Task, state: str, *, submitted: int, labels_needed: int) -> None:
    Task.objects.filter(pk=task.pk).update(state=state)
    changes = {task.state: -1, state: 1, "submitted": submitted, "labels_needed": labels_needed}
    add_batch_counts(task.stratum_id, **changes)
    task.state = state


def _renew_labels_version(batch: Batch) -> None:
    """A task that is withdrawn and brought back leaves the counts as they were; the cached units of
    ``selectors/agreement/label_table.py`` need another sign that something changed.
    """
    Batch.objects.filter(pk=batch.pk).update(labels_version=F("labels_version") + 1)


def _record_act(
    batch: Batch, actor: Person | None, verb: AnnotationVerb, tasks: Iterable[int], **data: object
) -> None:
    record(actor=actor, verb=verb, target=f"batch:{batch.name}", tasks=sorted(tasks), **data)
