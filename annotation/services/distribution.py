"""Handing out work: claims and leases.

Lock order, everywhere: the person's membership, then the task. Two calls of one person queue at the
membership; two people meet at a task only for the moment in which its slot is taken (SKIP LOCKED).
Leases are ended in a transaction of their own, before: whoever waits for a task holds no other.
On SQLite a transaction holds the write lock from its first statement, which gives the same order.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from annotation.distribution import PastClaim, claims_to_keep, free_slot, may_claim_again
from annotation.errors import N_, Conflict, Forbidden, NotFound
from annotation.models import ADJUDICATION_SLOT, Assignment, Batch, Membership, Person, Task
from annotation.services.audit import record

LIVE = (Assignment.State.CLAIMED, Assignment.State.SUBMITTED)


def next_assignment(*, batch: Batch, person: Person, ahead: bool = False) -> Assignment | None:
    """The person's oldest live claim, else a new one; with ``ahead`` one more, at most two live.

    None when there is nothing for this person now.
    """
    expire_leases(batch=batch)
    return _next_assignment(batch, person, ahead=ahead)


def next_dispute(*, batch: Batch, person: Person) -> Assignment | None:
    """The adjudicator's live claim on a disputed task, else a new one; None when nothing waits for them."""
    expire_leases(batch=batch)
    return _next_dispute(batch, person)


@transaction.atomic
def _next_assignment(batch: Batch, person: Person, *, ahead: bool) -> Assignment | None:
    _lock_membership(batch, person, Membership.Role.ANNOTATOR)
    live = list(live_claims(batch, person).exclude(slot=ADJUDICATION_SLOT).order_by("claimed_at", "id"))
    if claims_to_keep(len(live), ahead=ahead):
        return live[-1] if ahead else live[0]
    task = _take_first(_annotatable(batch, person))
    if task is None:
        return None
    slot = free_slot(_slots_taken(task), task.overlap)
    if slot is None:  # the counter said otherwise: refuse rather than break what never breaks
        raise Conflict(N_("This task has no free place."))
    Task.objects.filter(pk=task.pk).update(slots_taken=F("slots_taken") + 1)
    return _claim(task, person, slot=slot, batch=batch)


@transaction.atomic
def _next_dispute(batch: Batch, person: Person) -> Assignment | None:
    _lock_membership(batch, person, Membership.Role.ADJUDICATOR)
    live = live_claims(batch, person).filter(slot=ADJUDICATION_SLOT).order_by("claimed_at").first()
    if live is not None:
        return live
    task = _take_dispute(batch, person)
    return None if task is None else _claim(task, person, slot=ADJUDICATION_SLOT, batch=batch)


@transaction.atomic
def extend_lease(*, assignment_id: UUID, person: Person) -> Assignment:
    """Give a live claim a fresh lease, counted from now."""
    assignment = lock_assignment(assignment_id, person)
    if assignment.state != Assignment.State.CLAIMED:
        raise Conflict(N_("This item is no longer yours to work on."))
    assignment.lease_expires = timezone.now() + timedelta(seconds=assignment.batch.lease_seconds)
    assignment.save(update_fields=["lease_expires"])
    return assignment


@transaction.atomic
def release(*, assignment_id: UUID, person: Person, skip_reason: str = "") -> Assignment:
    """Give a claim back. With a reason it is a skip: the item never comes back to this person.

    Releasing what was released already changes nothing.
    """
    assignment = lock_assignment(assignment_id, person)
    if assignment.state == Assignment.State.SUBMITTED:
        raise Conflict(N_("This item was submitted already; it cannot be skipped."))
    if assignment.state == Assignment.State.CLAIMED:
        _free(assignment, Assignment.State.RELEASED)
    if skip_reason and not assignment.skip_reason:
        assignment.state = Assignment.State.RELEASED
        assignment.skip_reason = skip_reason
        assignment.save(update_fields=["state", "skip_reason"])
        record(actor=person, verb="skip", target=f"assignment:{assignment.pk}", reason=skip_reason)
    return assignment


@transaction.atomic
def expire_leases(*, batch: Batch, now: datetime | None = None) -> int:
    """Free every slot of the batch whose lease has run out. The number of leases ended."""
    overdue = Assignment.objects.filter(
        batch=batch, state=Assignment.State.CLAIMED, lease_expires__lt=now or timezone.now()
    )
    ended = 0
    for task_id in overdue.values_list("task_id", flat=True).distinct():
        if Task.objects.select_for_update(skip_locked=True).filter(pk=task_id).first() is None:
            continue
        for assignment in overdue.filter(task_id=task_id):
            _free(assignment, Assignment.State.EXPIRED)
            ended += 1
    return ended


def end_claims(claims: QuerySet[Assignment]) -> int:
    """Release those of ``claims`` that are live, each under its task's lock. The number released.

    Lock the memberships before, so that no new claim slips in between.
    """
    live = claims.filter(state=Assignment.State.CLAIMED)
    ended = 0
    for task_id in sorted(set(live.values_list("task_id", flat=True))):
        Task.objects.select_for_update().get(pk=task_id)
        for assignment in live.filter(task=task_id):
            _free(assignment, Assignment.State.RELEASED)
            ended += 1
    return ended


def live_claims(batch: Batch, person: Person) -> QuerySet[Assignment]:
    return Assignment.objects.filter(batch=batch, person=person, state=Assignment.State.CLAIMED)


def lock_assignment(assignment_id: UUID, person: Person) -> Assignment:
    """The person's assignment with its task's row locked; anybody else's does not exist for them."""
    task_id = (
        Assignment.objects.filter(pk=assignment_id, person=person).values_list("task_id", flat=True).first()
    )
    if task_id is None:
        raise NotFound(N_("There is no such item among yours."))
    task = Task.objects.select_for_update().get(pk=task_id)
    assignment = Assignment.objects.select_related("batch__guideline").get(pk=assignment_id)
    assignment.task = task
    return assignment


def retake_slot(assignment: Assignment) -> None:
    """Take a slot again for work that comes after its lease ended; refused where the last slot is gone.

    Also refused to whoever has left the batch. The task's row must be locked.
    """
    task = assignment.task
    role = Membership.Role.ADJUDICATOR if assignment.is_adjudication else Membership.Role.ANNOTATOR
    if not Membership.objects.filter(
        batch=assignment.batch_id, person=assignment.person_id, role=role, active=True
    ).exists():
        raise Conflict(N_("This item is no longer yours to work on."))
    if assignment.is_adjudication:
        taken = task.assignments.filter(slot=ADJUDICATION_SLOT, state__in=LIVE).exists()
        slot = None if taken else ADJUDICATION_SLOT
    else:
        slot = free_slot(_slots_taken(task), task.overlap)
    if slot is None:
        raise Conflict(N_("Your time for this item ran out and someone else has taken it over."))
    if slot != ADJUDICATION_SLOT:
        Task.objects.filter(pk=task.pk).update(slots_taken=F("slots_taken") + 1)
    assignment.slot = slot


def _lock_membership(batch: Batch, person: Person, role: str) -> None:
    """Whoever is no active member is told that the batch does not exist; a closed or paused one says so."""
    membership = (
        Membership.objects.select_for_update()
        .filter(batch=batch, person=person, role=role, active=True)
        .only("pk")
        .first()
    )
    if membership is None:
        raise NotFound(N_("No batch is named {name}."), name=batch.name)
    state = Batch.objects.values_list("state", flat=True).get(pk=batch.pk)
    if state != Batch.State.OPEN:
        raise Forbidden(N_("The batch {name} is not open."), name=batch.name)


def _annotatable(batch: Batch, person: Person) -> QuerySet[Task]:
    return (
        Task.objects.filter(batch=batch, state=Task.State.OPEN, slots_taken__lt=F("overlap"))
        .filter(~Exists(_barring(person, adjudication=False)))
        .order_by("-priority", "position")
    )


def _adjudicable(batch: Batch, person: Person) -> QuerySet[Task]:
    """Prompt by prompt, not in the order of the batch: labels imported file by file stand there model by model."""
    held = Assignment.objects.filter(task=OuterRef("pk"), slot=ADJUDICATION_SLOT, state__in=LIVE)
    return (
        Task.objects.filter(batch=batch, state=Task.State.DISPUTED)
        .filter(~Exists(_barring(person, adjudication=True)), ~Exists(held))
        .order_by("-priority", "response__prompt", "-response__sha256", "position")
    )


def _take_dispute(batch: Batch, person: Person) -> Task | None:
    """As ``_take_first``; but claiming a dispute does not change its task's row, so look again under the lock."""
    gone: list[int] = []
    while True:
        task = _take_first(_adjudicable(batch, person).exclude(pk__in=gone))
        if task is None or not task.assignments.filter(slot=ADJUDICATION_SLOT, state__in=LIVE).exists():
            return task
        gone.append(task.pk)


def _barring(person: Person, *, adjudication: bool) -> QuerySet[Assignment]:
    """``may_claim_again``, as the database says it: the past claims that keep a task from a person."""
    other_kind = Q(slot__lt=ADJUDICATION_SLOT) if adjudication else Q(slot=ADJUDICATION_SLOT)
    barred = Q(state__in=LIVE) | ~Q(skip_reason="") | other_kind
    return Assignment.objects.filter(barred, task=OuterRef("pk"), person=person)


def _take_first(tasks: QuerySet[Task]) -> Task | None:
    """The first task that nobody else is taking this moment; waits for the others only when it is the last."""
    task = tasks.select_for_update(skip_locked=True, of=("self",)).first()
    return task or tasks.select_for_update(of=("self",)).first()


def _slots_taken(task: Task) -> frozenset[int]:
    live = task.assignments.filter(state__in=LIVE, slot__lt=ADJUDICATION_SLOT)
    return frozenset(live.values_list("slot", flat=True))


def _claim(task: Task, person: Person, *, slot: int, batch: Batch) -> Assignment:
    now = timezone.now()
    past = Assignment.objects.filter(task=task, person=person).first()
    if not may_claim_again(_past(past), adjudication=slot == ADJUDICATION_SLOT):
        raise Conflict(N_("This item was yours before."))
    assignment = past or Assignment(batch=batch, task=task, person=person)
    assignment.slot = slot
    assignment.state = Assignment.State.CLAIMED
    assignment.claimed_at = now
    assignment.lease_expires = now + timedelta(seconds=batch.lease_seconds)
    assignment.save()
    return assignment


def _past(assignment: Assignment | None) -> PastClaim | None:
    if assignment is None:
        return None
    return PastClaim(
        live=assignment.state in LIVE,
        skipped=bool(assignment.skip_reason),
        adjudication=assignment.is_adjudication,
    )


def _free(assignment: Assignment, state: Assignment.State) -> None:
    """End a live claim; its task's row must be locked."""
    changed = Assignment.objects.filter(pk=assignment.pk, state=Assignment.State.CLAIMED).update(state=state)
    if changed and not assignment.is_adjudication:
        Task.objects.filter(pk=assignment.task_id).update(slots_taken=F("slots_taken") - 1)
    assignment.state = state
