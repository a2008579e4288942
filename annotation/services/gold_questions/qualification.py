"""Qualification attempts: the gold questions that a person answers before a batch opens to them.

Everything in an attempt happens with its person's membership locked before any task, so one act after the other.
"""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from annotation.core.errors import N_, AssayError
from annotation.domain.gold_questions import MIN_ITEMS, QualificationMeasure, score_answers
from annotation.domain.verbs import AnnotationVerb
from annotation.models import (
    Assignment,
    Batch,
    GoldQuestion,
    GoldQuestionTask,
    Membership,
    Person,
    Qualification,
)
from annotation.selectors.assignments.availability import list_ruled_out_strata
from annotation.selectors.gold_questions import (
    build_scales,
    find_latest_qualification,
    list_answers,
    list_qualification_items,
)
from annotation.services.audit import record
from annotation.services.gold_questions.answers import close_answered, withdraw_questions

State = Qualification.State


def check_enough_questions(batch: Batch) -> None:
    """A batch that asks for a qualification needs the items for it."""
    if not batch.qualifying:
        return
    number = GoldQuestion.objects.filter(
        batch=batch, kind=GoldQuestion.Kind.QUALIFICATION, active=True
    ).count()
    if number < MIN_ITEMS:
        raise AssayError(
            N_(
                "The batch {name} asks for a qualification, which needs at least {least} gold "
                "questions; it has {there}. Keep it as a draft, add them, then open it."
            ),
            name=batch.name,
            least=MIN_ITEMS,
            there=number,
        )


def get_or_start_attempt(member: Membership) -> Qualification:
    """The member's round, which begins now where there is none; their membership is locked."""
    qualification = find_latest_qualification(member.batch_id, member.person_id)
    return qualification or Qualification.objects.create(batch=member.batch, person_id=member.person_id)


@transaction.atomic
def end_attempt_if_complete(batch: Batch, person: Person) -> bool:
    """Score the person's round if they have submitted or skipped all of it; their membership is locked."""
    running = Qualification.objects.filter(batch=batch.pk, person=person.pk, state=State.RUNNING)
    qualification = running.first()
    member = (
        Membership.objects.select_related("person")
        .filter(batch=batch.pk, person=person.pk, role=Membership.Role.ANNOTATOR)
        .first()
    )
    if qualification is None or member is None:
        return False
    items = list_qualification_items(member, qualification.attempt, without=list_ruled_out_strata(member))
    if not items or not all(item.ended for item in items):
        return False
    _end_attempt(qualification, member)
    return True


def _end_attempt(qualification: Qualification, member: Membership) -> None:
    question_tasks = GoldQuestionTask.objects.filter(
        item__batch=qualification.batch_id,
        item__kind=GoldQuestion.Kind.QUALIFICATION,
        person=qualification.person_id,
        attempt=qualification.attempt,
    ).order_by("pk")
    submitted = question_tasks.filter(task__assignments__state=Assignment.State.SUBMITTED)
    tasks = list(submitted.values_list("pk", flat=True))
    close_answered(tasks)  # locked before they are read: nothing is corrected any more
    withdraw_questions(member.pk, question_tasks.values_list("pk", flat=True))
    batch = Batch.objects.select_related("guideline").get(pk=qualification.batch_id)
    answers = list(list_answers(tasks).values())
    result = score_answers(answers, by=_get_measure(batch), scales=build_scales(batch.guideline.document))
    assert batch.qualifying_threshold is not None
    qualification.state = State.PASSED if result.passes(batch.qualifying_threshold) else State.FAILED
    qualification.n, qualification.value, qualification.low, qualification.high = (
        result.n,
        result.value,
        result.low,
        result.high,
    )
    qualification.threshold, qualification.ended_at = batch.qualifying_threshold, timezone.now()
    qualification.save()
    record(
        actor=None,
        verb=AnnotationVerb.QUALIFICATION_ENDED,
        target=f"batch:{batch.name}",
        person=qualification.person.username,
        attempt=qualification.attempt,
        state=qualification.state,
        n=qualification.n,
        value=qualification.value,
        threshold=qualification.threshold,
    )


def _get_measure(batch: Batch) -> QualificationMeasure:
    return "kappa" if batch.qualifying == Batch.Qualifying.KAPPA else "accuracy"
