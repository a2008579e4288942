"""The life of a claim: its lease, its release and its end, and its slot taken again for late work."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from annotation.core.errors import N_, Conflict, NotFound, TooLate
from annotation.core.sql import execute
from annotation.domain.assignments.eligibility import find_free_slot
from annotation.domain.verbs import AnnotationVerb
from annotation.models import (
    ADJUDICATION_SLOT,
    DECIDED_AGAIN,
    Assignment,
    Batch,
    Membership,
    Panel,
    Person,
    Task,
)
from annotation.models.sql.annotations import fetch_locked_assignment, find_task
from annotation.models.sql.assignments import fetch_taken_slots
from annotation.models.sql.counts import add_exposure, add_to_tally_of
from annotation.selectors.access import refuse_role
from annotation.services.assignments.plan import replan_task
from annotation.services.audit import record_in_study
from annotation.services.gold_questions.answers import build_skip_statements
from annotation.services.gold_questions.qualification import end_attempt_if_complete

LIVE = (Assignment.State.CLAIMED, Assignment.State.SUBMITTED)


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
def release_assignment(*, assignment_id: UUID, person: Person, skip_reason: str = "") -> Assignment:
    """Give a claim back. With a reason it is a skip: the item never comes back to this person, and where it was
    planned for them it is planned for somebody else.

    Releasing what was released already changes nothing.
    """
    if skip_reason:  # it may plan again, which nobody does while a manager plans
        lock_own_memberships(assignment_id, person)
    assignment = lock_assignment(assignment_id, person)
    if assignment.state == Assignment.State.SUBMITTED:
        raise Conflict(N_("This item was submitted already; it cannot be skipped."))
    if assignment.state == Assignment.State.CLAIMED:
        end_claim(assignment, Assignment.State.RELEASED)
    if skip_reason and not assignment.skip_reason:
        check_membership(assignment)
        assignment.state = Assignment.State.RELEASED
        assignment.skip_reason = skip_reason
        assignment.save(update_fields=["state", "skip_reason"])
        if assignment.task.kind in DECIDED_AGAIN:
            is_repeat = assignment.task.kind == Task.Kind.REPEAT
            verb = (
                AnnotationVerb.SKIP_SECOND_READING if is_repeat else AnnotationVerb.SKIP_SECOND_ADJUDICATION
            )
            target = f"task:{assignment.task.repeats_id}"
        else:
            verb, target = AnnotationVerb.SKIP, f"assignment:{assignment.pk}"
        study_id = assignment.batch.study_id
        record_in_study(study_id, actor=person, verb=verb, target=target, reason=skip_reason)
        if assignment.task.panel_id is not None and not assignment.is_adjudication:
            replan_task(assignment.task, without=get_membership_id(assignment))
        # What is nobody's own goes to somebody else.
        is_shared = assignment.task.kind in (Task.Kind.WORK, Task.Kind.SECOND)
        execute(
            *([add_to_tally_of(assignment, skipped=1)] if is_shared else build_skip_statements(assignment)),
            *add_exposure(assignment.person_id, assignment.severity),
        )
        if assignment.task.kind == Task.Kind.QUALIFICATION:
            end_attempt_if_complete(assignment.batch, person)
    return assignment


@transaction.atomic
def expire_leases(*, batch: Batch, now: datetime | None = None) -> int:
    """Free every slot of the batch whose lease has run out. The number of leases ended."""
    now = now or timezone.now()
    overdue = overdue_claims(batch, now)
    ended = 0
    for task_id in overdue.values_list("task_id", flat=True).distinct():
        if Task.objects.select_for_update(skip_locked=True, no_key=True).filter(pk=task_id).first() is None:
            continue
        for assignment in overdue.filter(task_id=task_id):
            end_claim(assignment, Assignment.State.EXPIRED)
            ended += 1
    return ended


def end_claims(claims: QuerySet[Assignment]) -> int:
    """Release those of ``claims`` that are live, each under its task's lock. The number released.

    Lock the memberships before, so that no new claim slips in between.
    """
    live = claims.filter(state=Assignment.State.CLAIMED)
    ended = 0
    for task_id in sorted(set(live.values_list("task_id", flat=True))):
        Task.objects.select_for_update(no_key=True).get(pk=task_id)
        for assignment in live.filter(task=task_id):
            end_claim(assignment, Assignment.State.RELEASED)
            ended += 1
    return ended


def end_claim(assignment: Assignment, state: Assignment.State) -> None:
    """End a live claim; its task's row must be locked. The task is offered again to everybody it is for."""
    changed = Assignment.objects.filter(pk=assignment.pk, state=Assignment.State.CLAIMED).update(state=state)
    if changed and not assignment.is_adjudication:
        Task.objects.filter(pk=assignment.task_id).update(slots_taken=F("slots_taken") - 1, requeued=True)
    assignment.state = state


def lock_own_memberships(assignment_id: UUID, person: Person) -> None:
    """The person's memberships in the batch of this assignment; before its task, always."""
    batch = Assignment.objects.filter(pk=assignment_id, person=person).values("batch")
    memberships = Membership.objects.select_for_update(no_key=True).filter(person=person, batch__in=batch)
    list(memberships.order_by("pk").values_list("pk"))


def live_claims(batch: Batch, person: Person) -> QuerySet[Assignment]:
    return Assignment.objects.filter(batch=batch, person=person, state=Assignment.State.CLAIMED)


def lock_assignment(assignment_id: UUID, person: Person) -> Assignment:
    """The person's assignment with its task's row locked; anybody else's does not exist for them. Of a round before the
    work their membership is locked first: what is done in it may end it, which locks all its tasks.

    Whoever lost the role in which they hold it is refused. The task comes with its stratum, the batch with its
    guideline; columns that are seldom needed are read then.
    """
    task = find_task(assignment_id, person)
    if task is None:
        raise NotFound(N_("There is no such item among yours."))
    if task.kind == Task.Kind.QUALIFICATION:
        lock_own_memberships(assignment_id, person)
    assignment, has_role = fetch_locked_assignment(assignment_id, person, task.id)
    if not has_role:
        refuse_role(role_of_slot(assignment.slot))
    return assignment


def get_membership_id(assignment: Assignment) -> int:
    """The membership by which the person has this assignment: its role follows from the slot."""
    return Membership.objects.values_list("pk", flat=True).get(
        batch=assignment.batch_id, person=assignment.person_id, role=role_of_slot(assignment.slot)
    )


def role_of_slot(slot: int) -> Membership.Role:
    return Membership.Role.ADJUDICATOR if slot == ADJUDICATION_SLOT else Membership.Role.ANNOTATOR


def check_membership(assignment: Assignment) -> Membership:
    """The membership by which the person works on this; refused to whoever has left the batch."""
    member = Membership.objects.filter(
        batch=assignment.batch_id,
        person=assignment.person_id,
        role=role_of_slot(assignment.slot),
        active=True,
    ).first()
    if member is None:
        raise TooLate(N_("This item is no longer yours to work on."))
    return member


def retake_slot(assignment: Assignment) -> None:
    """Take a slot again for work that comes after its lease ended; refused where the last slot is gone.

    Also refused to whoever has left the batch, and where the task was given to other people meanwhile.
    The task's row must be locked.
    """
    task, member = assignment.task, check_membership(assignment)
    if assignment.is_adjudication:
        is_taken = task.assignments.filter(slot=ADJUDICATION_SLOT, state__in=LIVE).exists()
        slot = None if is_taken else ADJUDICATION_SLOT
    else:
        if task.panel_id is not None and not Panel.objects.filter(pk=task.panel_id, members=member).exists():
            raise TooLate(N_("Your time for this item ran out and someone else has taken it over."))
        slot = find_free_slot(fetch_taken_slots(task.pk), task.overlap)
    if slot is None:
        raise TooLate(N_("Your time for this item ran out and someone else has taken it over."))
    if slot != ADJUDICATION_SLOT:
        Task.objects.filter(pk=task.pk).update(slots_taken=F("slots_taken") + 1)
        task.slots_taken += 1
    assignment.slot = slot


def overdue_claims(batch: Batch, now: datetime) -> QuerySet[Assignment]:
    return Assignment.objects.filter(batch=batch, state=Assignment.State.CLAIMED, lease_expires__lt=now)
