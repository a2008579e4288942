"""Deciding disputes: first a blind verdict, then the decision. Each is one transaction.

One in twenty decisions or so comes back to its adjudicator as a task of kind ``repeat``
(docs/decisions/repeat-adjudications-are-tasks.md), and a share that the manager sets goes to another adjudicator as a
task of kind ``second``. They decide it by the same calls, and it settles nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac

from annotation.core.errors import N_, Conflict, Unprocessable
from annotation.core.sql import execute
from annotation.domain.adjudication import SettlementRules, is_repeated, resolve_dispute
from annotation.domain.annotations import Submission
from annotation.domain.guidelines import Label
from annotation.domain.verbs import AnnotationVerb
from annotation.models import (
    DECIDED_AGAIN,
    Adjudication,
    Assignment,
    Batch,
    DisputeReason,
    GoldLabel,
    GuidelineNote,
    Membership,
    Person,
    Stratum,
    Task,
    Verdict,
)
from annotation.models.sql.annotations import write_gold
from annotation.models.sql.counts import add_exposure, add_to_tally, add_to_tally_of
from annotation.models.sql.webhooks import write_settled_delivery
from annotation.selectors.assignments.items import read_subcomponent
from annotation.selectors.counts import count_decisions
from annotation.services.annotations.submission import (
    AlreadySubmitted,
    Receipt,
    compute_outcome,
    refuse_other_body,
)
from annotation.services.assignments import lock_assignment, lock_own_memberships, retake_slot
from annotation.services.audit import record_in_study
from annotation.services.guidelines import leave_note, refuse_unread_introduction


@transaction.atomic
def record_verdict(*, assignment_id: UUID, person: Person, work: Submission) -> None:
    """What the adjudicator thinks of the disputed criteria before they have seen a label: from now on they may.

    Written once: the same again changes nothing, another one is refused.
    """
    assignment = lock_assignment(assignment_id, person)
    _refuse_without_dispute(assignment)
    verdict = Verdict.objects.filter(assignment=assignment).first()
    if verdict is not None:
        _refuse_other_verdict(verdict, work)
        return
    _refuse_closed_dispute(assignment)
    refuse_unread_introduction(assignment.batch, person)
    if assignment.state != Assignment.State.CLAIMED:
        raise Conflict(
            N_(
                "Your time for this item ran out. Ask for the next one: it comes again if nobody took it over."
            )
        )
    Verdict.objects.create(
        assignment=assignment,
        labels=_check_decision(assignment, work),
        rationale=work.rationale,
        seconds=work.seconds,
        channel=work.channel,
        created_at=timezone.now(),
    )


@transaction.atomic
def adjudicate(*, assignment_id: UUID, person: Person, key: str, work: Submission) -> Receipt:
    """Decide the disputed criteria of a task; the decision may be a value that neither annotator gave.

    ``work.reason`` is the key of the reason why the annotators differed.
    """
    lock_own_memberships(assignment_id, person)  # the decisions of one person are numbered
    assignment = lock_assignment(assignment_id, person)
    _refuse_without_dispute(assignment)
    earlier = Adjudication.objects.filter(assignment=assignment).first()
    if earlier is not None:
        return _confirm_earlier(earlier, key, work)
    _refuse_closed_dispute(assignment)
    if not Verdict.objects.filter(assignment=assignment).exists():
        raise Conflict(N_("Record your own verdict first, before you see the labels of others; then decide."))
    if assignment.state != Assignment.State.CLAIMED:
        retake_slot(assignment)
    labels, reason = _check_decision(assignment, work), _get_reason(work)
    decision = _write_decision(assignment, labels, reason, key, work)
    if assignment.task.kind in DECIDED_AGAIN:
        # To the trail it is an act on the dispute that it repeats.
        is_repeat = assignment.task.kind == Task.Kind.REPEAT
        verb = AnnotationVerb.SECOND_READING if is_repeat else AnnotationVerb.SECOND_ADJUDICATION
        _record_decision(assignment, verb, assignment.task.repeats_id, labels)
    else:
        settled = resolve_dispute(tuple(labels), labels, _list_rules(assignment))
        execute(
            *write_gold(assignment.task, settled, decision.created_at),
            write_settled_delivery(assignment.task_id, assignment.batch_id, decision.created_at),
        )
        if reason.makes_note:
            _leave_notes(assignment, labels, work.rationale)
        _record_decision(assignment, AnnotationVerb.ADJUDICATE, assignment.task_id, labels)
        _draw_measurements(assignment, decision.created_at)
    execute(*add_exposure(assignment.person_id, assignment.severity))
    return _build_receipt(decision, created=True)


def _record_decision(
    assignment: Assignment, verb: AnnotationVerb, task_id: int | None, labels: Mapping[str, Any]
) -> None:

    study_id, actor = assignment.batch.study_id, assignment.person
    record_in_study(study_id, actor=actor, verb=verb, target=f"task:{task_id}", labels=labels)


def _write_decision(
    assignment: Assignment, labels: dict[str, Label], reason: DisputeReason, key: str, work: Submission
) -> Adjudication:
    """The decision; its task is over with it, and is counted."""
    now = timezone.now()
    decision = Adjudication.objects.create(
        task=assignment.task,
        assignment=assignment,
        labels=labels,
        reason=reason,
        rationale=work.rationale,
        seconds=work.seconds,
        idempotency_key=key,
        body_sha256=work.sha256,
        channel=work.channel,
        created_at=now,
    )
    assignment.state, assignment.submitted_at = Assignment.State.SUBMITTED, now
    assignment.save(update_fields=["state", "submitted_at", "slot"])
    Task.objects.filter(pk=assignment.task_id).update(state=Task.State.ADJUDICATED, settled_at=now)
    execute(add_to_tally_of(assignment, disputed=-1, adjudicated=1))
    return decision


def _draw_measurements(assignment: Assignment, now: datetime) -> None:
    """Make the tasks of kind ``repeat`` and ``second`` for which this decision is drawn. It is counted already, and its
    member's row is locked, so that each decision has its number.
    """
    batch = assignment.batch
    policy = Batch.objects.values_list(
        "second_reading_share", "second_reading_days", "second_adjudicator_share"
    )
    repeat_share, days, second_share = policy.get(pk=batch.pk)
    members = Membership.objects.filter(role=Membership.Role.ADJUDICATOR, batch=batch)
    member = members.filter(person=assignment.person_id).first()
    if member is None:
        return
    number = count_decisions(member)
    if is_repeated(number, share=repeat_share, seed=_seed_draw("annotation.second_readings", member)):
        stratum = _make_measurement(assignment.task_id, Task.Kind.REPEAT, now + timedelta(days=days))
        execute(add_to_tally(member.pk, stratum, disputed=1))
    if is_repeated(number, share=second_share, seed=_seed_draw("annotation.second_adjudicators", member)):
        # Whose it will be is open: the first decision's member stands for it in the counts of the stratum.
        stratum = _make_measurement(assignment.task_id, Task.Kind.SECOND, now)
        execute(add_to_tally(member.pk, stratum, disputed=1))


def _make_measurement(dispute_id: int, kind: Task.Kind, due_at: datetime) -> int:
    """A task in which a decided dispute is decided again. The id of its stratum."""
    dispute = Task.objects.select_related("stratum").get(pk=dispute_id)
    work = dispute.stratum
    stratum, _created = Stratum.objects.get_or_create(
        batch_id=work.batch_id,
        kind=kind,
        dataset_id=work.dataset_id,
        dimension=work.dimension,
        language=work.language,
        model_id=work.model_id,
    )
    Task.objects.create(
        batch_id=dispute.batch_id,
        response_id=dispute.response_id,
        prompt_id=dispute.prompt_id,
        stratum=stratum,
        kind=kind,
        state=Task.State.DISPUTED,
        overlap=1,
        position=dispute.position,
        rank=dispute.position,
        repeats=dispute,
        due_at=due_at,
    )
    return stratum.pk


def _seed_draw(salt: str, member: Membership) -> str:
    """Nobody outside the site can work it out."""
    return salted_hmac(salt, str(member.pk)).hexdigest()


def _list_rules(assignment: Assignment) -> SettlementRules:
    batch = assignment.batch
    return SettlementRules.of(batch.guideline.document, batch.tolerance, batch.settling)


def _check_decision(assignment: Assignment, work: Submission) -> dict[str, Label]:
    """The labels for the disputed criteria, all of them and no others, as the guideline allows them."""
    document, rules = assignment.batch.guideline.document, _list_rules(assignment)
    decided = resolve_dispute(_list_disputed_criteria(assignment, rules), work.labels, rules)
    return {name: document.criterion(name).check(label.value) for name, label in decided.items()}


def _list_disputed_criteria(assignment: Assignment, rules: SettlementRules) -> Sequence[str]:
    """Of a repeat or second adjudication those that were decided the first time, and what hangs on them."""
    task = assignment.task
    if task.kind in DECIDED_AGAIN:
        decided = list(Adjudication.objects.values_list("labels", flat=True).get(task=task.repeats_id))
        for name, condition in rules.conditions.items():
            if condition.criterion in decided and name not in decided:
                decided.append(name)
        return decided
    if assignment.batch.settling == Batch.Settling.AGGREGATE:
        # What the model of all labels was sure of is settled, and is never computed again.
        settled = set(GoldLabel.objects.filter(task=task.pk).values_list("criterion", flat=True))
        document, subcomponent = assignment.batch.guideline.document, read_subcomponent(assignment)
        criteria = document.criteria_at(task.stratum.dimension, subcomponent)
        return [criterion.name for criterion in criteria if criterion.name not in settled]
    return compute_outcome(task, assignment.batch).disputed


def _refuse_other_verdict(verdict: Verdict, work: Submission) -> None:
    """A verdict is written once; the same again is a retry."""
    if (verdict.labels, verdict.rationale) != (work.labels, work.rationale):
        raise Conflict(
            N_("Your verdict was recorded before and stands; what you think now is your decision.")
        )


def _get_reason(work: Submission) -> DisputeReason:
    """The reason by its key; one of those on the list now."""
    reasons = {reason.key: reason for reason in DisputeReason.objects.filter(active=True)}
    if work.reason not in reasons:
        raise Unprocessable(
            N_("Choose why the annotators differed. The reasons are: {known}."), known=", ".join(reasons)
        )
    return reasons[work.reason]


def _leave_notes(assignment: Assignment, labels: dict[str, Label], text: str) -> None:
    for criterion, label in labels.items():
        leave_note(
            guideline=assignment.batch.guideline,
            source=GuidelineNote.Source.ADJUDICATION,
            author=assignment.person,
            criterion=criterion,
            level=None if isinstance(label, str) else label,
            text=text,
            task=assignment.task,
        )


def _refuse_without_dispute(assignment: Assignment) -> None:
    if not assignment.is_adjudication:
        raise Conflict(N_("This item is not a dispute."))


def _refuse_closed_dispute(assignment: Assignment) -> None:
    if assignment.skip_reason:
        raise Conflict(N_("You skipped this item; it went to someone else."))
    if assignment.task.state != Task.State.DISPUTED or assignment.batch.state == Batch.State.CLOSED:
        raise Conflict(N_("This dispute is closed."))


def _confirm_earlier(earlier: Adjudication, key: str, work: Submission) -> Receipt:
    if earlier.idempotency_key != key:
        raise AlreadySubmitted(_build_receipt(earlier, created=False))
    refuse_other_body(earlier.body_sha256, work)
    return _build_receipt(earlier, created=False)


def _build_receipt(decision: Adjudication, *, created: bool) -> Receipt:
    return Receipt(
        receipt=decision.receipt,
        assignment=decision.assignment_id,
        revision=1,
        at=decision.created_at,
        created=created,
    )
