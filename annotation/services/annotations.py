"""Submitting and correcting annotations, and deciding disputes.

One transaction each: lock the task, save, and if that was the last annotation let the pure rule settle it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
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
    GoldLabel,
    Person,
    Task,
)
from annotation.services.audit import record
from annotation.services.distribution import lock_assignment, retake_slot


@dataclass(frozen=True)
class Work:
    """What a person submits. ``labels`` maps criterion to level value; ``seconds`` is the time spent."""

    labels: Mapping[str, Any]
    rationale: str = ""
    evidence: Sequence[Mapping[str, Any]] = field(default_factory=list)
    flags: Sequence[str] = field(default_factory=list)
    seconds: float | None = None
    reason: str = ""

    @property
    def sha256(self) -> str:
        """Two submissions with one key are the same exactly if this is equal; the seconds may differ in a retry."""
        body = {name: value for name, value in asdict(self).items() if name != "seconds"}
        text = json.dumps(body, sort_keys=True, ensure_ascii=False, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


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


@transaction.atomic
def submit(*, assignment_id: UUID, person: Person, key: str, work: Work) -> Receipt:
    """Submit the annotation of an assignment. Idempotent by ``key``; answers with a receipt.

    After the lease ended the work is still taken while a slot of the task is free.
    """
    assignment = lock_assignment(assignment_id, person)
    if assignment.is_adjudication:
        raise Conflict(N_("This item is a dispute; decide it as adjudicator."))
    earlier = _by_key(assignment, key, work)
    if earlier is not None:
        return earlier
    current = Annotation.objects.filter(assignment=assignment, current=True).first()
    if current is not None:
        raise AlreadySubmitted(_receipt(current, created=False))
    _refuse_unless_open(assignment)
    labels = _checked_labels(assignment, work.labels)
    if assignment.state != Assignment.State.CLAIMED:
        retake_slot(assignment)
    annotation = _store(assignment, work=work, labels=labels, key=key, revision=1)
    assignment.state, assignment.submitted_at = Assignment.State.SUBMITTED, annotation.created_at
    assignment.save(update_fields=["state", "submitted_at", "slot"])
    record(actor=person, verb="submit", target=f"assignment:{assignment.pk}", receipt=str(annotation.receipt))
    _settle_if_complete(assignment.task, assignment.batch)
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
    record(actor=person, verb="revise", target=f"assignment:{assignment.pk}", receipt=str(annotation.receipt))
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
    record(actor=person, verb="adjudicate", target=f"task:{task.pk}", labels=labels)
    return _decision_receipt(decision, created=True)


def outcome_of(task: Task, batch: Batch) -> Outcome:
    """What the pure rule says of the task's current annotations (all of them submitted), in slot order."""
    labels = (
        Annotation.objects.filter(assignment__task=task, current=True, assignment__slot__lt=ADJUDICATION_SLOT)
        .filter(assignment__state=Assignment.State.SUBMITTED)
        .order_by("assignment__slot")
        .values_list("labels", flat=True)
    )
    nominal = frozenset(c.name for c in batch.guideline.document.criteria if c.measurement == "nominal")
    return settle(list(labels), tolerance=batch.tolerance, nominal=nominal)


def _settle_if_complete(task: Task, batch: Batch) -> None:
    submitted = task.assignments.filter(state=Assignment.State.SUBMITTED, slot__lt=ADJUDICATION_SLOT).count()
    if submitted < task.overlap:
        return
    now = timezone.now()
    outcome = outcome_of(task, batch)
    _write_gold(task, outcome.settled, now)
    settled_at = None if outcome.disputed else now
    Task.objects.filter(pk=task.pk).update(state=outcome.state, settled_at=settled_at)


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
        raise Conflict(N_("You skipped this item; it went to someone else."))
    if assignment.task.state == Task.State.WITHDRAWN:
        raise Conflict(N_("The manager took this item back."))
    if assignment.batch.state == Batch.State.CLOSED:
        raise Conflict(N_("This batch is closed."))
    if assignment.task.state != Task.State.OPEN:
        raise Conflict(N_("Your time for this item ran out and someone else has taken it over."))


def _checked_labels(assignment: Assignment, labels: Mapping[str, Any]) -> dict[str, int | float]:
    dimension = Task.objects.values_list("response__prompt__dimension", flat=True).get(pk=assignment.task_id)
    return assignment.batch.guideline.document.check_labels(dimension, labels)


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
