"""Deciding disputes. One transaction: lock the task, save, write the gold labels."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.utils import timezone

from annotation.adjudication import resolve
from annotation.errors import N_, Conflict
from annotation.models import Adjudication, Assignment, Batch, Person, Task
from annotation.services.annotations import (
    AlreadySubmitted,
    Receipt,
    gold_written,
    outcome_of,
    refuse_other_body,
)
from annotation.services.audit import record
from annotation.services.distribution import lock_assignment, retake_slot
from annotation.services.tallies import counted, exposed
from annotation.services.work import Work
from annotation.statements import execute


@transaction.atomic
def adjudicate(*, assignment_id: UUID, person: Person, key: str, work: Work) -> Receipt:
    """Decide the disputed criteria of a task; the decision may be a value that neither annotator gave."""
    assignment = lock_assignment(assignment_id, person)
    task = assignment.task
    if not assignment.is_adjudication:
        raise Conflict(N_("This item is not a dispute."))
    decided = Adjudication.objects.filter(assignment=assignment).first()
    if decided is not None:
        return _decided_again(decided, key, work)
    if assignment.skip_reason:
        raise Conflict(N_("You skipped this item; it went to someone else."))
    if task.state != Task.State.DISPUTED or assignment.batch.state == Batch.State.CLOSED:
        raise Conflict(N_("This dispute is closed."))
    if assignment.state != Assignment.State.CLAIMED:
        retake_slot(assignment)
    outcome = outcome_of(task, assignment.batch)
    resolve(outcome.disputed, work.labels)  # all of the disputed criteria and no others, before their values
    document = assignment.batch.guideline.document
    labels = {name: document.criterion(name).check(work.labels[name]) for name in outcome.disputed}
    now = timezone.now()
    decision = Adjudication.objects.create(
        task=task,
        assignment=assignment,
        labels=labels,
        rationale=work.rationale,
        seconds=work.seconds,
        idempotency_key=key,
        body_sha256=work.sha256,
        created_at=now,
    )
    assignment.state, assignment.submitted_at = Assignment.State.SUBMITTED, now
    assignment.save(update_fields=["state", "submitted_at", "slot"])
    execute(*gold_written(task, resolve(outcome.disputed, labels), now))
    Task.objects.filter(pk=task.pk).update(state=Task.State.ADJUDICATED, settled_at=now)
    execute(counted(assignment, disputed=-1, adjudicated=1), *exposed(assignment))
    record(actor=person, verb="adjudicate", target=f"task:{task.pk}", labels=labels)
    return _decision_receipt(decision, created=True)


def _decided_again(decided: Adjudication, key: str, work: Work) -> Receipt:
    if decided.idempotency_key != key:
        raise AlreadySubmitted(_decision_receipt(decided, created=False))
    refuse_other_body(decided.body_sha256, work)
    return _decision_receipt(decided, created=False)


def _decision_receipt(decision: Adjudication, *, created: bool) -> Receipt:
    return Receipt(
        receipt=decision.receipt,
        assignment=decision.assignment_id,
        revision=1,
        at=decision.created_at,
        created=created,
    )
