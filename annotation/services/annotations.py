"""Submitting and correcting annotations, and deciding disputes.

One transaction each: lock the task, save, and if that was the last annotation let the pure rule settle it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction
from django.utils import timezone

from annotation.adjudication import Outcome, Settled, resolve, settle
from annotation.errors import N_, Conflict, Unprocessable
from annotation.models import (
    ADJUDICATION_SLOT,
    Adjudication,
    Annotation,
    Assignment,
    Batch,
    CorrectionRequest,
    Draft,
    GoldLabel,
    Person,
    Task,
)
from annotation.services.audit import record
from annotation.services.distribution import TooLate, lock_assignment, membership_id, retake_slot
from annotation.services.drafts import keep_draft
from annotation.services.tallies import count_for
from annotation.services.work import Work


@dataclass(frozen=True)
class Receipt:
    """``created`` is False where the same key had been answered before."""

    receipt: UUID
    assignment: UUID
    revision: int
    at: datetime
    created: bool


class AlreadySubmitted(Conflict):
    """Carries the receipt of what was submitted first."""

    code = "already_submitted"

    def __init__(self, receipt: Receipt) -> None:
        super().__init__(N_("This item was submitted already; correct it instead."))
        self.receipt = receipt


def submit(*, assignment_id: UUID, person: Person, key: str, work: Work) -> Receipt:
    """Submit the annotation of an assignment. Idempotent by ``key``; answers with a receipt.

    After the lease ended the work is still taken while a slot of the task is free; where it is refused because its
    place is gone, it is kept as a draft of its author's.
    """
    try:
        receipt = _submit(assignment_id, person, key, work)
    except TooLate as refusal:
        keep_draft(assignment_id, work, refusal)
        raise
    return receipt


@transaction.atomic
def _submit(assignment_id: UUID, person: Person, key: str, work: Work) -> Receipt:
    assignment = lock_assignment(assignment_id, person)
    if assignment.is_adjudication:
        raise Conflict(N_("This item is a dispute; decide it as adjudicator."))
    earlier = _by_key(assignment, key, work)
    if earlier is not None:
        return earlier
    if assignment.state == Assignment.State.SUBMITTED:
        current = Annotation.objects.get(assignment=assignment, current=True)
        raise AlreadySubmitted(_receipt(current, created=False))
    _refuse_unless_open(assignment)
    labels = _checked_labels(assignment, work.labels)
    if assignment.state != Assignment.State.CLAIMED:
        retake_slot(assignment)
        Draft.objects.filter(assignment=assignment).delete()
    annotation = _store(assignment, work=work, labels=labels, key=key, revision=1)
    assignment.state, assignment.submitted_at = Assignment.State.SUBMITTED, annotation.created_at
    assignment.save(update_fields=["state", "submitted_at", "slot"])
    moves = _settle_if_complete(assignment)
    count_for(membership_id(assignment), assignment.task.stratum_id, submitted=1, **moves)
    return _receipt(annotation, created=True)


@transaction.atomic
def revise(*, assignment_id: UUID, person: Person, key: str, work: Work) -> Receipt | None:
    """Correct a submitted annotation: a new revision while its task is open.

    Afterwards the correction becomes a request to the manager and the answer is None.
    """
    assignment = lock_assignment(assignment_id, person)
    earlier = _by_key(assignment, key, work)
    if earlier is not None:
        return earlier
    if _was_asked(assignment, key, work):
        return None
    current = Annotation.objects.filter(assignment=assignment, current=True).first()
    if current is None:
        raise Conflict(N_("Nothing was submitted for this item yet."))
    labels = _checked_labels(assignment, work.labels)
    if assignment.task.state != Task.State.OPEN or assignment.batch.state == Batch.State.CLOSED:
        _ask(assignment, work=work, labels=labels, key=key)
        return None
    Annotation.objects.filter(pk=current.pk).update(current=False)
    annotation = _store(assignment, work=work, labels=labels, key=key, revision=current.revision + 1)
    return _receipt(annotation, created=True)


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
    _write_gold(task, resolve(outcome.disputed, labels), now)
    Task.objects.filter(pk=task.pk).update(state=Task.State.ADJUDICATED, settled_at=now)
    count_for(membership_id(assignment), task.stratum_id, disputed=-1, adjudicated=1)
    record(actor=person, verb="adjudicate", target=f"task:{task.pk}", labels=labels)
    return _decision_receipt(decision, created=True)


def outcome_of(task: Task, batch: Batch) -> Outcome:
    """What the pure rule says of the task's current annotations (all of them submitted), in slot order."""
    return _outcome(_submitted_labels(task), batch)


def _outcome(labels: Sequence[Mapping[str, Any]], batch: Batch) -> Outcome:
    nominal = frozenset(c.name for c in batch.guideline.document.criteria if c.measurement == "nominal")
    return settle(labels, tolerance=batch.tolerance, nominal=nominal)


def _submitted_labels(task: Task) -> list[dict[str, Any]]:
    submitted = Annotation.objects.filter(
        assignment__task=task,
        assignment__slot__lt=ADJUDICATION_SLOT,
        assignment__state=Assignment.State.SUBMITTED,
        current=True,
    )
    return list(submitted.order_by("assignment__slot").values_list("labels", flat=True))


def _settle_if_complete(assignment: Assignment) -> dict[str, int]:
    """Settle the task if this was its last annotation; the changes of the numbers of tasks in each state."""
    task, batch = assignment.task, assignment.batch
    if task.slots_taken < task.overlap:
        return {}
    labels = _submitted_labels(task)
    if len(labels) < task.overlap:
        return {}
    now = timezone.now()
    outcome = _outcome(labels, batch)
    _write_gold(task, outcome.settled, now)
    settled_at = None if outcome.disputed else now
    Task.objects.filter(pk=task.pk).update(state=outcome.state, settled_at=settled_at)
    return {Task.State.OPEN.value: -1, outcome.state: 1}


def _write_gold(task: Task, settled: Mapping[str, Settled], now: datetime) -> None:
    GoldLabel.objects.bulk_create(
        GoldLabel(task=task, criterion=criterion, value=gold.value, source=gold.source, created_at=now)
        for criterion, gold in settled.items()
    )


def _store(
    assignment: Assignment, *, work: Work, labels: dict[str, int | float], key: str, revision: int
) -> Annotation:
    return Annotation.objects.create(
        assignment=assignment,
        revision=revision,
        labels=labels,
        rationale=work.rationale,
        evidence=list(work.evidence),
        flags=list(work.flags),
        seconds=work.seconds,
        reason=work.reason,
        idempotency_key=key,
        body_sha256=work.sha256,
        receipt=uuid4(),
        created_at=timezone.now(),
    )


def _by_key(assignment: Assignment, key: str, work: Work) -> Receipt | None:
    if not key:
        raise Unprocessable(N_("Send an Idempotency-Key header, so that a retry cannot submit twice."))
    earlier = Annotation.objects.filter(assignment=assignment, idempotency_key=key).first()
    if earlier is None:
        return None
    _refuse_other_body(earlier.body_sha256, work)
    return _receipt(earlier, created=False)


def _was_asked(assignment: Assignment, key: str, work: Work) -> bool:
    """Whether this key brought a request to the manager before, handled by now or not."""
    asked = CorrectionRequest.objects.filter(assignment=assignment, idempotency_key=key).first()
    if asked is not None:
        _refuse_other_body(asked.body_sha256, work)
    return asked is not None


def _ask(assignment: Assignment, *, work: Work, labels: dict[str, int | float], key: str) -> None:
    """A request for the manager; the same wish under another key is the same request while it waits."""
    _request, created = CorrectionRequest.objects.get_or_create(
        assignment=assignment,
        labels=labels,
        reason=work.reason or work.rationale,
        handled_at=None,
        defaults={"idempotency_key": key, "body_sha256": work.sha256},
    )
    if created:
        record(
            actor=assignment.person,
            verb="request_correction",
            target=f"assignment:{assignment.pk}",
            labels=labels,
        )


def _decided_again(decided: Adjudication, key: str, work: Work) -> Receipt:
    if decided.idempotency_key != key:
        raise AlreadySubmitted(_decision_receipt(decided, created=False))
    _refuse_other_body(decided.body_sha256, work)
    return _decision_receipt(decided, created=False)


def _refuse_other_body(sha256: str, work: Work) -> None:
    if sha256 != work.sha256:
        raise Unprocessable(N_("This Idempotency-Key was used before, with other content."))


def _refuse_unless_open(assignment: Assignment) -> None:
    if assignment.skip_reason:
        raise TooLate(N_("You skipped this item; it went to someone else."))
    if assignment.task.state == Task.State.WITHDRAWN:
        raise TooLate(N_("The manager took this item back."))
    if assignment.batch.state == Batch.State.CLOSED:
        raise TooLate(N_("This batch is closed."))
    if assignment.task.state != Task.State.OPEN:
        raise TooLate(N_("Your time for this item ran out and someone else has taken it over."))


def _checked_labels(assignment: Assignment, labels: Mapping[str, Any]) -> dict[str, int | float]:
    document = assignment.batch.guideline.document
    return document.check_labels(assignment.task.stratum.dimension, labels)


def _receipt(annotation: Annotation, *, created: bool) -> Receipt:
    return Receipt(
        receipt=annotation.receipt,
        assignment=annotation.assignment_id,
        revision=annotation.revision,
        at=annotation.created_at,
        created=created,
    )


def _decision_receipt(decision: Adjudication, *, created: bool) -> Receipt:
    return Receipt(
        receipt=decision.receipt,
        assignment=decision.assignment_id,
        revision=1,
        at=decision.created_at,
        created=created,
    )
