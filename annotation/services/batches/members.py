"""The members of a batch: they join while it runs, leave and come back, and managers decide on their qualification.

Each change of membership returns how many items it planned again: for those who came, or for others in place of those
who left. A manager may waive somebody's qualification or start another attempt.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction
from django.db.models import Q, Sum
from django.utils import timezone

from annotation.core.errors import N_, AssayError, Conflict, NotFound
from annotation.domain.permissions import READERS
from annotation.domain.verbs import AnnotationVerb
from annotation.models import (
    ADJUDICATION_SLOT,
    ADJUDICATOR,
    ANNOTATOR,
    Assignment,
    Batch,
    GoldQuestionTask,
    Membership,
    Person,
    Qualification,
    StudyMembership,
    Task,
)
from annotation.selectors.access import lock_people
from annotation.selectors.assignments.availability import list_ruled_out_strata
from annotation.services.access import refuse_erased, refuse_result_openers
from annotation.services.assignments import end_claims
from annotation.services.assignments.plan import plan_orphaned_tasks, replan_member
from annotation.services.audit import record
from annotation.services.batches.batches import add_members
from annotation.services.counts import lock_memberships
from annotation.services.gold_questions.answers import close_answered, withdraw_questions
from annotation.services.gold_questions.qualification import get_or_start_attempt


@transaction.atomic
def join_batch(*, batch: Batch, role: str, people: Sequence[Person], actor: Person | None = None) -> int:
    """Add people to a batch, also while it runs; whoever had left it comes back.

    Whoever opened its results may not, nor who could do so once there are any: they would not judge blind.
    """
    _refuse_closed(batch)
    lock_memberships(batch)
    lock_people(person.pk for person in people)
    refuse_result_openers(batch, people)
    _refuse_possible_readers(batch, people)
    add_members(batch=batch, role=role, people=people)
    planned = plan_orphaned_tasks(batch) if role == ANNOTATOR else 0
    names = [person.username for person in people]
    record(actor=actor, verb=AnnotationVerb.JOIN_BATCH, target=f"batch:{batch.name}", role=role, people=names)
    return planned


@transaction.atomic
def set_member_active(
    *, batch: Batch, person: Person, role: str, active: bool, actor: Person | None = None
) -> int:
    """Let a member go, which gives their live claims of this role back, or take them in again.

    Saying the same twice changes nothing. What they submitted stays, and so does their blindness.
    """
    # Locked before the tasks, as a claim does; all of them, because what was planned goes to others.
    memberships = lock_memberships(batch)
    membership = next(
        (
            membership
            for membership in memberships
            if membership.person_id == person.pk and membership.role == role
        ),
        None,
    )
    if membership is None:
        raise NotFound(N_("{name} is not in the batch {batch}."), name=str(person), batch=batch.name)
    if membership.active == active:
        return 0
    _refuse_closed(batch)
    if active:
        refuse_erased([person])
        refuse_result_openers(batch, [person])
    membership.active, membership.cursor = active, Membership.START
    membership.save(update_fields=["active", "cursor"])
    released = 0
    if not active:
        released = end_claims(Assignment.objects.filter(_build_slot_filter(role), batch=batch, person=person))
    planned = 0
    if role == ANNOTATOR:
        planned = plan_orphaned_tasks(batch) if active else _replan_for_others(batch, membership)
    record(
        actor=actor,
        verb=AnnotationVerb.MEMBER_RETURNS if active else AnnotationVerb.MEMBER_LEAVES,
        target=f"batch:{batch.name}",
        person=person.username,
        role=role,
        released=released,
    )
    return planned


@transaction.atomic
def set_limits(
    *,
    batch: Batch,
    person: Person,
    role: str,
    quota: int | None,
    excluded_dimensions: Sequence[str] = (),
    actor: Person | None = None,
) -> int:
    """Say what a member is given: at most ``quota`` items, none of the ``excluded_dimensions``. What they hold
    now they may finish; what was planned for them and is no longer theirs is planned for others.
    """
    lock_memberships(batch)
    membership = (
        Membership.objects.select_related("person", "batch")
        .filter(batch=batch, person=person, role=role)
        .first()
    )
    if membership is None:
        raise NotFound(N_("{name} is not in the batch {batch}."), name=str(person), batch=batch.name)
    _refuse_closed(batch)
    known = {*batch.guideline.document.dimension_names, *batch.strata.values_list("dimension", flat=True)} - {
        ""
    }
    unknown = sorted(set(excluded_dimensions) - known)
    if unknown:
        raise AssayError(
            N_("The batch has no dimension {dimension}; it has: {known}."),
            dimension=unknown[0],
            known=", ".join(sorted(known)),
        )
    membership.quota, membership.excluded_dimensions = quota, sorted(set(excluded_dimensions))
    membership.cursor = Membership.START
    membership.save(update_fields=["quota", "excluded_dimensions", "cursor"])
    planned = 0
    if role == ANNOTATOR:
        ruled_out = list_ruled_out_strata(membership)
        if ruled_out:
            planned = _replan_for_others(batch, membership, strata=ruled_out)
        planned += plan_orphaned_tasks(batch)
    record(
        actor=actor,
        verb=AnnotationVerb.SET_LIMITS,
        target=f"batch:{batch.name}",
        person=person.username,
        role=role,
        quota=quota,
        excluded_dimensions=membership.excluded_dimensions,
    )
    return planned


def _replan_for_others(batch: Batch, member: Membership, strata: Sequence[int] | None = None) -> int:
    before = _count_planned_tasks(member)
    replan_member(batch, without=member, strata=strata)
    return before - _count_planned_tasks(member)


def _count_planned_tasks(member: Membership) -> int:
    return member.panels.aggregate(n=Sum("tasks_planned"))["n"] or 0


def _build_slot_filter(role: str) -> Q:
    return Q(slot=ADJUDICATION_SLOT) if role == ADJUDICATOR else Q(slot__lt=ADJUDICATION_SLOT)


def _refuse_closed(batch: Batch) -> None:
    if Batch.objects.filter(pk=batch.pk, state=Batch.State.CLOSED).exists():
        raise Conflict(N_("The batch {name} is closed; its people stay as they are."), name=batch.name)


def _refuse_possible_readers(batch: Batch, people: Sequence[Person]) -> None:
    if not batch.assignments.filter(state=Assignment.State.SUBMITTED).exists():
        return
    reading = StudyMembership.objects.filter(study=batch.study_id, role__in=READERS)
    readers = Person.objects.filter(Q(pk__in=reading.values("person")) | Q(is_superuser=True))
    reader = (
        readers.filter(pk__in=[person.pk for person in people])
        .exclude(memberships__batch=batch)
        .order_by("username")
        .first()
    )
    if reader is not None:
        raise Conflict(
            N_(
                "{name} could already read the labels of {batch} and would not judge blind; choose someone else."
            ),
            name=str(reader),
            batch=batch.name,
        )


State = Qualification.State
MAX_REASON_LENGTH = 500


@transaction.atomic
def waive_qualification(
    *, batch: Batch, person: Person, reason: str, actor: Person | None = None
) -> Qualification:
    """Give the person the work whatever their attempt came to, or will. Doing it twice changes nothing."""
    member, qualification = _lock_qualification(batch, person, reason)
    if qualification.state in (State.PASSED, State.WAIVED):
        return qualification
    _end_open_questions(member, qualification)
    qualification.state, qualification.decided_by = State.WAIVED, actor
    qualification.ended_at = qualification.ended_at or timezone.now()
    qualification.save()
    data = {"person": person.username, "attempt": qualification.attempt, "reason": reason}
    record(actor=actor, verb=AnnotationVerb.QUALIFICATION_WAIVED, target=f"batch:{batch.name}", **data)
    return qualification


@transaction.atomic
def start_attempt(*, batch: Batch, person: Person, reason: str, actor: Person | None = None) -> Qualification:
    """For somebody who failed: with items that they have not had, if there are enough of these."""
    _member, qualification = _lock_qualification(batch, person, reason)
    if qualification.state == State.RUNNING:
        return qualification
    if qualification.state != State.FAILED:
        raise Conflict(N_("{name} was let in already."), name=str(person))
    attempt = Qualification.objects.create(
        batch=batch, person=person, attempt=qualification.attempt + 1, decided_by=actor
    )
    data = {"person": person.username, "attempt": attempt.attempt, "reason": reason}
    record(actor=actor, verb=AnnotationVerb.QUALIFICATION_AGAIN, target=f"batch:{batch.name}", **data)
    return attempt


def _lock_qualification(batch: Batch, person: Person, reason: str) -> tuple[Membership, Qualification]:
    if not reason.strip() or len(reason) > MAX_REASON_LENGTH:
        raise AssayError(N_("Say why, in at most {most} characters."), most=MAX_REASON_LENGTH)
    memberships = Membership.objects.select_for_update(no_key=True).filter(
        batch=batch, person=person, role=Membership.Role.ANNOTATOR
    )
    member = memberships.first()
    if member is None:
        raise NotFound(N_("{name} is not in the batch {batch}."), name=str(person), batch=batch.name)
    if not batch.qualifying:
        raise Conflict(N_("The batch {name} asks for no qualification."), name=batch.name)
    if batch.state == Batch.State.CLOSED:
        raise Conflict(N_("The batch {name} is closed."), name=batch.name)
    member.batch, member.person = batch, person
    return member, get_or_start_attempt(member)


def _end_open_questions(member: Membership, qualification: Qualification) -> None:
    """Close the questions of the attempt that were submitted, and withdraw the others."""
    question_tasks = GoldQuestionTask.objects.filter(
        person=qualification.person_id,
        attempt=qualification.attempt,
        item__batch=qualification.batch_id,
        task__kind=Task.Kind.QUALIFICATION,
        task__state=Task.State.OPEN,
    )
    tasks = sorted(question_tasks.values_list("pk", flat=True))
    end_claims(Assignment.objects.filter(task__in=tasks))
    submitted = Assignment.objects.filter(task__in=tasks, state=Assignment.State.SUBMITTED)
    done = set(submitted.values_list("task", flat=True))
    close_answered(sorted(done))
    withdraw_questions(member.pk, tasks)
