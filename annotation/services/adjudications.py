"""Deciding disputes: first a verdict unseen, then the decision. Each is one transaction.

A second reading comes by the same calls; what has no claim by its id is looked for there.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from annotation.adjudication import resolve
from annotation.errors import N_, Conflict, NotFound
from annotation.models import (
    Adjudication,
    Assignment,
    Batch,
    DisputeReason,
    Note,
    Person,
    SecondReading,
    Task,
    Verdict,
    sql,
)
from annotation.services.annotations import (
    AlreadySubmitted,
    Receipt,
    outcome_of,
    refuse_other_body,
)
from annotation.services.audit import record
from annotation.services.decisions import (
    NO_VERDICT,
    NOT_AT_HAND,
    checked_decision,
    reason_of,
    refuse_other_verdict,
)
from annotation.services.distribution import lock_assignment, lock_memberships, retake_slot
from annotation.services.notes import leave_note
from annotation.services.second_readings import decide_reading, draw, record_reading_verdict
from annotation.services.work import Work
from annotation.statements import execute


def record_verdict(*, assignment_id: UUID, person: Person, work: Work) -> None:
    """What the adjudicator thinks of the disputed criteria before they have seen a label: from now on they may.

    Written once: the same again changes nothing, another one is refused.
    """
    try:
        _record_verdict(assignment_id, person, work)
    except NotFound:
        record_reading_verdict(assignment_id, person, work)


def adjudicate(*, assignment_id: UUID, person: Person, key: str, work: Work) -> Receipt:
    """Decide the disputed criteria of a task; the decision may be a value that neither annotator gave.

    ``work.reason`` is the key of the reason why the annotators differed.
    """
    try:
        return _adjudicate(assignment_id, person, key, work)
    except NotFound:
        reading, created = decide_reading(assignment_id, person, key, work)
        return _receipt(reading, created=True) if created else _decided_again(reading, key, work)


@transaction.atomic
def _record_verdict(assignment_id: UUID, person: Person, work: Work) -> None:
    assignment = lock_assignment(assignment_id, person)
    _refuse_without_dispute(assignment)
    given = Verdict.objects.filter(assignment=assignment).first()
    if given is not None:
        refuse_other_verdict(given.labels, given.rationale, work)
        return
    _refuse_what_is_over(assignment)
    if assignment.state != Assignment.State.CLAIMED:
        raise Conflict(NOT_AT_HAND)
    disputed = outcome_of(assignment.task, assignment.batch).disputed
    Verdict.objects.create(
        assignment=assignment,
        labels=checked_decision(assignment.batch, disputed, work),
        rationale=work.rationale,
        seconds=work.seconds,
        channel=work.channel,
        created_at=timezone.now(),
    )


@transaction.atomic
def _adjudicate(assignment_id: UUID, person: Person, key: str, work: Work) -> Receipt:
    lock_memberships(assignment_id, person)  # the decisions of one person are numbered
    assignment = lock_assignment(assignment_id, person)
    _refuse_without_dispute(assignment)
    decided = Adjudication.objects.filter(assignment=assignment).first()
    if decided is not None:
        return _decided_again(decided, key, work)
    _refuse_what_is_over(assignment)
    if not Verdict.objects.filter(assignment=assignment).exists():
        raise Conflict(NO_VERDICT)
    if assignment.state != Assignment.State.CLAIMED:
        retake_slot(assignment)
    disputed = outcome_of(assignment.task, assignment.batch).disputed
    labels, reason = checked_decision(assignment.batch, disputed, work), reason_of(work)
    decision = _decided(assignment, labels, reason, key, work)
    _settle(assignment, labels, decision.created_at)
    if reason.makes_note:
        _leave_notes(assignment, labels, work.rationale)
    record(actor=person, verb="adjudicate", target=f"task:{assignment.task_id}", labels=labels)
    draw(assignment, decision.created_at)
    return _receipt(decision, created=True)


def _decided(
    assignment: Assignment, labels: dict[str, int | float], reason: DisputeReason, key: str, work: Work
) -> Adjudication:
    return Adjudication.objects.create(
        task=assignment.task,
        assignment=assignment,
        labels=labels,
        reason=reason,
        rationale=work.rationale,
        seconds=work.seconds,
        idempotency_key=key,
        body_sha256=work.sha256,
        channel=work.channel,
        created_at=timezone.now(),
    )


def _settle(assignment: Assignment, labels: dict[str, int | float], now: datetime) -> None:
    task = assignment.task
    assignment.state, assignment.submitted_at = Assignment.State.SUBMITTED, now
    assignment.save(update_fields=["state", "submitted_at", "slot"])
    execute(*sql.write_gold(task, resolve(tuple(labels), labels), now))
    Task.objects.filter(pk=task.pk).update(state=Task.State.ADJUDICATED, settled_at=now)
    execute(sql.add_to_tally_of(assignment, disputed=-1, adjudicated=1), *sql.add_exposure_of(assignment))


def _leave_notes(assignment: Assignment, labels: dict[str, int | float], words: str) -> None:
    for criterion, level in labels.items():
        leave_note(
            guideline=assignment.batch.guideline,
            source=Note.Source.ADJUDICATION,
            author=assignment.person,
            criterion=criterion,
            level=level,
            text=words,
            task=assignment.task,
        )


def _refuse_without_dispute(assignment: Assignment) -> None:
    if not assignment.is_adjudication:
        raise Conflict(N_("This item is not a dispute."))


def _refuse_what_is_over(assignment: Assignment) -> None:
    if assignment.skip_reason:
        raise Conflict(N_("You skipped this item; it went to someone else."))
    if assignment.task.state != Task.State.DISPUTED or assignment.batch.state == Batch.State.CLOSED:
        raise Conflict(N_("This dispute is closed."))


def _decided_again(decided: Adjudication | SecondReading, key: str, work: Work) -> Receipt:
    if decided.idempotency_key != key:
        raise AlreadySubmitted(_receipt(decided, created=False))
    refuse_other_body(decided.body_sha256, work)
    return _receipt(decided, created=False)


def _receipt(decision: Adjudication | SecondReading, *, created: bool) -> Receipt:
    if isinstance(decision, SecondReading):
        item, at = decision.pk, decision.submitted_at
    else:
        item, at = decision.assignment_id, decision.created_at
    assert at is not None
    return Receipt(receipt=decision.receipt, assignment=item, revision=1, at=at, created=created)
