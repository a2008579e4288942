"""Submitting and correcting annotations, and the requests for corrections that come after a task has closed.

Each is one transaction: lock the task, save, and if that was the last annotation let the pure rule settle it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction
from django.utils import timezone

from annotation.core.errors import N_, Conflict, Unprocessable
from annotation.core.sql import Statement, execute
from annotation.domain.adjudication import Outcome, SettlementRules, settle
from annotation.domain.annotations import (
    GUIDELINE_UNCLEAR,
    CheckedAnnotation,
    Submission,
    check_annotation,
    check_answers,
)
from annotation.domain.guidelines import Label
from annotation.domain.verbs import AnnotationVerb
from annotation.models import Annotation, Assignment, Batch, CorrectionRequest, GuidelineNote, Person, Task
from annotation.models.sql.annotations import end_task, fetch_submitted_labels, write_annotation, write_gold
from annotation.models.sql.counts import add_exposure, add_to_tally_of
from annotation.models.sql.webhooks import write_settled_delivery
from annotation.selectors.annotations.closings import is_closed
from annotation.selectors.annotations.own_work import find_latest_annotation
from annotation.selectors.assignments.items import read_markable_texts, read_subcomponent
from annotation.selectors.gold_questions import Feedback, find_feedback
from annotation.services.annotations.drafts import ITEM_IS_DISPUTE, save_refused_draft
from annotation.services.assignments import TooLate, check_membership, lock_assignment, retake_slot
from annotation.services.audit import record
from annotation.services.gold_questions.answers import build_answer_statements, refuse_seen_answer
from annotation.services.gold_questions.qualification import end_attempt_if_complete
from annotation.services.guidelines import leave_note, refuse_unread_introduction


@dataclass(frozen=True)
class Receipt:
    """``created`` is False where the same key had been answered before. ``feedback``: this was a gold question, and the
    batch gives feedback; else None.
    """

    receipt: UUID
    assignment: UUID
    revision: int
    at: datetime
    created: bool
    feedback: Feedback | None = None


class AlreadySubmitted(Conflict):
    """Carries the receipt of what was submitted first."""

    code = "already_submitted"

    def __init__(self, receipt: Receipt) -> None:
        super().__init__(N_("This item was submitted already; correct it instead."))
        self.receipt = receipt


def submit(*, assignment_id: UUID, person: Person, key: str, work: Submission) -> Receipt:
    """Submit the annotation of an assignment. Idempotent by ``key``; answers with a receipt.

    After the lease ended the work is still taken while a slot of the task is free; where it is refused because its
    place is gone, it is kept as a draft of its author's.
    """
    try:
        return _submit_annotation(assignment_id, person, key, work)
    except TooLate as refusal:
        save_refused_draft(assignment_id, work, refusal)
        raise


@transaction.atomic
def _submit_annotation(assignment_id: UUID, person: Person, key: str, work: Submission) -> Receipt:
    _refuse_without_key(key)
    assignment = lock_assignment(assignment_id, person)
    if assignment.is_adjudication:
        raise Conflict(ITEM_IS_DISPUTE)
    if assignment.state == Assignment.State.SUBMITTED:
        return _confirm_earlier(assignment, key, work)
    _refuse_unless_open(assignment)
    refuse_unread_introduction(assignment.batch, person)
    checked = _check_submission(assignment, work)
    if assignment.state != Assignment.State.CLAIMED:
        retake_slot(assignment)
    outcome = _find_new_outcome(assignment, checked.labels)
    annotation = _build_annotation(assignment, work, checked, key=key, revision=1)
    execute(
        *write_annotation(annotation, slot=assignment.slot),
        *_build_settlement(assignment, outcome, annotation.created_at),
        *add_exposure(assignment.person_id, assignment.severity),
    )
    if assignment.task.kind == Task.Kind.QUALIFICATION:
        end_attempt_if_complete(assignment.batch, assignment.person)
    _leave_unclear_note(assignment, work, checked.labels)
    return _build_receipt(annotation, created=True, feedback=find_feedback(assignment))


def _build_settlement(assignment: Assignment, outcome: Outcome | None, now: datetime) -> list[Statement]:
    """What a submission writes beside itself: the counts, and with a task's last annotation its gold and state."""
    if assignment.task.kind != Task.Kind.WORK:
        return build_answer_statements(assignment, now)
    if outcome is None:
        return [add_to_tally_of(assignment, submitted=1)]
    deliveries = (
        [] if outcome.disputed else [write_settled_delivery(assignment.task_id, assignment.batch_id, now)]
    )
    return [
        *write_gold(assignment.task, outcome.settled, now),
        end_task(assignment.task_id, outcome.state, settled_at=None if outcome.disputed else now),
        add_to_tally_of(assignment, submitted=1, **{Task.State.OPEN.value: -1, outcome.state: 1}),
        *deliveries,
    ]


def _confirm_earlier(assignment: Assignment, key: str, work: Submission) -> Receipt:
    earlier = _find_receipt(assignment, key, work)
    if earlier is not None:
        return earlier
    latest = find_latest_annotation(assignment)
    assert latest is not None
    raise AlreadySubmitted(_build_receipt(latest, created=False, feedback=find_feedback(assignment)))


@transaction.atomic
def revise(*, assignment_id: UUID, person: Person, key: str, work: Submission) -> Receipt | None:
    """Correct a submitted annotation: a new revision while its task is shown open to the person.

    Afterwards the correction becomes a request to the manager and the answer is None. Where the task is over and still
    shown open (``selectors/annotations/closings.py``) it becomes both: the revision is read back and does not count.
    """
    _refuse_without_key(key)
    assignment = lock_assignment(assignment_id, person)
    earlier = _find_receipt(assignment, key, work)
    if earlier is not None:
        return earlier
    if _is_requested_before(assignment, key, work):
        return None
    latest = find_latest_annotation(assignment)
    if latest is None:
        raise Conflict(N_("Nothing was submitted for this item yet."))
    check_membership(assignment)
    refuse_seen_answer(assignment)
    document, dimension = assignment.batch.guideline.document, assignment.task.stratum.dimension
    texts = partial(read_markable_texts, assignment.task_id)
    subcomponent = read_subcomponent(assignment)
    answers = check_answers(document, dimension, work.labels, subcomponent=subcomponent, texts=texts).answers
    if is_closed(assignment):
        _request_correction(assignment, work=work, answers=answers, key=key)
        return None
    checked = _check_submission(assignment, work)
    annotation = _build_annotation(assignment, work, checked, key=key, revision=latest.revision + 1)
    if assignment.task.state == Task.State.OPEN:
        Annotation.objects.filter(assignment=assignment, current=True).update(current=False)
    else:
        annotation.current = False
        _request_correction(assignment, work=work, answers=answers, key=key)
    annotation.save()
    if annotation.current and len(fetch_submitted_labels(assignment.task_id)) > 1:
        execute(add_to_tally_of(assignment, revised=1))
    _leave_unclear_note(assignment, work, checked.labels)
    return _build_receipt(annotation, created=True)


def compute_outcome(task: Task, batch: Batch) -> Outcome:
    """What the pure rule says of the task's current annotations (all of them submitted), in slot order."""
    return _apply_rule([labels for _slot, labels in fetch_submitted_labels(task.pk)], batch)


def _find_new_outcome(assignment: Assignment, labels: Mapping[str, Any]) -> Outcome | None:
    """The same with the labels that are being submitted; None while others are still to come, and of what settles
    nothing, such as a gold question.
    """
    task = assignment.task
    if task.kind != Task.Kind.WORK or task.slots_taken < task.overlap or assignment.batch.settles_at_end:
        return None
    submitted = [*fetch_submitted_labels(task.pk), (assignment.slot, labels)]
    if len(submitted) < task.overlap:
        return None
    return _apply_rule([labels for _slot, labels in sorted(submitted, key=itemgetter(0))], assignment.batch)


def _apply_rule(labels: Sequence[Mapping[str, Any]], batch: Batch) -> Outcome:
    rules = SettlementRules.of(batch.guideline.document, batch.tolerance, batch.settling)
    return settle(labels, rules)


def _build_annotation(
    assignment: Assignment,
    work: Submission,
    checked: CheckedAnnotation,
    *,
    key: str,
    revision: int,
) -> Annotation:
    """Not written yet."""
    return Annotation(
        assignment=assignment,
        revision=revision,
        labels=checked.labels,
        texts=checked.texts,
        rationale=work.rationale,
        evidence=checked.evidence,
        flags=list(work.flags),
        seconds=work.seconds,
        reason=work.reason,
        idempotency_key=key,
        body_sha256=work.sha256,
        channel=work.channel,
        receipt=uuid4(),
        created_at=timezone.now(),
    )


def _refuse_without_key(key: str) -> None:
    if not key:
        raise Unprocessable(N_("Send an Idempotency-Key header, so that a retry cannot submit twice."))


def _find_receipt(assignment: Assignment, key: str, work: Submission) -> Receipt | None:
    earlier = Annotation.objects.filter(assignment=assignment, idempotency_key=key).first()
    if earlier is None:
        return None
    refuse_other_body(earlier.body_sha256, work)
    return _build_receipt(earlier, created=False, feedback=find_feedback(assignment))


def _is_requested_before(assignment: Assignment, key: str, work: Submission) -> bool:
    """Whether this key brought a request to the manager before, handled by now or not."""
    request = CorrectionRequest.objects.filter(assignment=assignment, idempotency_key=key).first()
    if request is not None:
        refuse_other_body(request.body_sha256, work)
    return request is not None


def _request_correction(
    assignment: Assignment, *, work: Submission, answers: dict[str, Label], key: str
) -> None:
    """A request for the manager; the same wish under another key is the same request while it waits."""
    _request, created = CorrectionRequest.objects.get_or_create(
        assignment=assignment,
        labels=answers,
        reason=work.reason or work.rationale,
        handled_at=None,
        defaults={"idempotency_key": key, "body_sha256": work.sha256},
    )
    if created:
        record(
            actor=assignment.person,
            verb=AnnotationVerb.REQUEST_CORRECTION,
            target=f"assignment:{assignment.pk}",
            labels=answers,
        )


def refuse_other_body(sha256: str, work: Submission) -> None:
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


def _check_submission(assignment: Assignment, work: Submission) -> CheckedAnnotation:
    """What was answered as it is stored."""
    return check_annotation(
        assignment.batch.guideline.document,
        assignment.task.stratum.dimension,
        work.labels,
        subcomponent=read_subcomponent(assignment),
        evidence=work.evidence,
        rationale=work.rationale,
        texts=partial(read_markable_texts, assignment.task_id),
    )


def _leave_unclear_note(assignment: Assignment, work: Submission, labels: Mapping[str, Label]) -> None:
    """A flag on the guideline is a note on the clause, or on all of it where several criteria were asked."""
    if GUIDELINE_UNCLEAR not in work.flags:
        return
    criterion, label = next(iter(labels.items())) if len(labels) == 1 else ("", None)
    level = None if isinstance(label, str) else label
    leave_note(
        guideline=assignment.batch.guideline,
        source=GuidelineNote.Source.FLAG,
        author=assignment.person,
        criterion=criterion,
        level=level,
        text=work.rationale,
        task=assignment.task,
    )


def _build_receipt(annotation: Annotation, *, created: bool, feedback: Feedback | None = None) -> Receipt:
    return Receipt(
        receipt=annotation.receipt,
        assignment=annotation.assignment_id,
        revision=annotation.revision,
        at=annotation.created_at,
        created=created,
        feedback=feedback,
    )


@transaction.atomic
def handle_correction_request(*, request: CorrectionRequest, actor: Person) -> CorrectionRequest:
    """Mark a request as read and dealt with. A second time changes nothing: the first handler stays."""
    changed = CorrectionRequest.objects.filter(pk=request.pk, handled_at=None).update(
        handled_at=timezone.now(), handled_by=actor
    )
    if changed:
        record(
            actor=actor,
            verb=AnnotationVerb.HANDLE_CORRECTION,
            target=f"assignment:{request.assignment_id}",
            request=request.pk,
        )
    request.refresh_from_db()
    return request
