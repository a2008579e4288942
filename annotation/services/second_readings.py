"""Decided disputes that are read once more: drawn, handed out, given back, decided again.

To the reader each is a dispute like any other, so every refusal here says what it says there. It changes nothing but
its own row (and what its reader was exposed to): no gold, no task, no tally, no note.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.crypto import salted_hmac

from annotation.errors import N_, Conflict, NotFound, TooLate
from annotation.models import (
    Adjudication,
    Assignment,
    Batch,
    Membership,
    Person,
    SecondReading,
    sql,
)
from annotation.second_readings import is_drawn
from annotation.selectors.access import refuse_without_role
from annotation.selectors.counts import decided_by
from annotation.selectors.second_readings import as_claim, my_reading
from annotation.services.audit import record
from annotation.services.decisions import (
    NO_VERDICT,
    NOT_AT_HAND,
    checked_decision,
    reason_of,
    refuse_other_verdict,
)
from annotation.services.work import Work
from annotation.statements import Statement, execute

State = SecondReading.State


def draw(assignment: Assignment, now: datetime) -> None:
    """Whether this decision, counted already, comes back; with its member's row locked, so that each has its number."""
    batch, person = assignment.batch, assignment.person
    policy = Batch.objects.values_list("second_reading_share", "second_reading_days")
    share, days = policy.get(pk=batch.pk)
    member = _member(batch, person)
    if member is None or not is_drawn(decided_by(member), share=share, seed=_seed(member)):
        return
    SecondReading.objects.get_or_create(
        task_id=assignment.task_id,
        defaults={"batch": batch, "person": person, "due_at": now + timedelta(days=days)},
    )


def claim(reading: SecondReading, batch: Batch) -> Assignment | None:
    """Hand it out; the membership of its reader is locked. None where it does not wait any more: late work on one
    that was given back, or skipping it, holds no membership.
    """
    now = timezone.now()
    lease_expires = now + timedelta(seconds=batch.lease_seconds)
    waiting = SecondReading.objects.filter(pk=reading.pk, state=State.WAITING)
    if not waiting.update(state=State.CLAIMED, claimed_at=now, lease_expires=lease_expires):
        return None
    reading.batch, reading.state = batch, State.CLAIMED
    reading.claimed_at, reading.lease_expires = now, lease_expires
    return as_claim(reading)


def put_back(readings: QuerySet[SecondReading]) -> int:
    """Those of ``readings`` that are at hand wait again, locked in the order in which all lock them. How many."""
    claimed = readings.filter(state=State.CLAIMED)
    ids = list(claimed.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))
    return claimed.filter(pk__in=ids).update(state=State.WAITING) if ids else 0


def refuse_reading(reading_id: UUID, person: Person, say: str) -> None:
    """What is said of a dispute where it has no place is said of what comes as one."""
    if my_reading(reading_id, person) is not None:
        raise Conflict(say)


@transaction.atomic
def extend_reading(reading_id: UUID, person: Person) -> Assignment:
    reading = _locked(reading_id, person)
    if reading.state != State.CLAIMED:
        raise Conflict(N_("This item is no longer yours to work on."))
    reading.lease_expires = timezone.now() + timedelta(seconds=reading.batch.lease_seconds)
    reading.save(update_fields=["lease_expires"])
    return as_claim(reading)


@transaction.atomic
def give_back_reading(reading_id: UUID, person: Person, skip_reason: str) -> Assignment:
    """It waits again; with a reason it is dropped for good."""
    reading = _locked(reading_id, person)
    if reading.state == State.SUBMITTED:
        raise Conflict(N_("This item was submitted already; it cannot be skipped."))
    if reading.state == State.CLAIMED:
        reading.state = State.WAITING
    if skip_reason and reading.state != State.DROPPED:
        _refuse_who_left(reading)
        reading.state = State.DROPPED
        execute(*_exposed(reading))
        record(actor=person, verb="skip_second_reading", target=f"task:{reading.task_id}", reason=skip_reason)
    reading.save(update_fields=["state"])
    return as_claim(reading)


@transaction.atomic
def record_reading_verdict(reading_id: UUID, person: Person, work: Work) -> None:
    """As ``adjudications.record_verdict``."""
    reading = _locked(reading_id, person)
    if reading.verdict is not None:
        refuse_other_verdict(reading.verdict["labels"], reading.verdict["rationale"], work)
        return
    _refuse_what_is_over(reading)
    if reading.state != State.CLAIMED:
        raise Conflict(NOT_AT_HAND)
    labels = _labels(reading, work)
    reading.verdict = {
        "labels": labels,
        "rationale": work.rationale,
        "seconds": work.seconds,
        "channel": work.channel,
    }
    reading.save(update_fields=["verdict"])


@transaction.atomic
def decide_reading(reading_id: UUID, person: Person, key: str, work: Work) -> tuple[SecondReading, bool]:
    """The reading as it is stored, and whether this call is what decided it; the caller compares the keys."""
    reading = _locked(reading_id, person)
    if reading.state == State.SUBMITTED:
        return reading, False
    _refuse_what_is_over(reading)
    if reading.verdict is None:
        raise Conflict(NO_VERDICT)
    if reading.state != State.CLAIMED:
        _refuse_who_left(reading)
    labels, reason = _labels(reading, work), reason_of(work)
    reading.state, reading.submitted_at = State.SUBMITTED, timezone.now()
    reading.labels, reading.reason = labels, reason
    reading.rationale, reading.seconds = work.rationale, work.seconds
    reading.idempotency_key, reading.body_sha256, reading.channel = key, work.sha256, work.channel
    reading.save()
    record(actor=person, verb="second_reading", target=f"task:{reading.task_id}", labels=labels)
    execute(*_exposed(reading))
    return reading, True


def _exposed(reading: SecondReading) -> list[Statement]:
    document, dimension = reading.batch.guideline.document, reading.task.stratum.dimension
    return sql.add_exposure(reading.person_id, document.severity_of(dimension))


def _labels(reading: SecondReading, work: Work) -> dict[str, int | float]:
    """Of the criteria that were decided the first time."""
    disputed = list(Adjudication.objects.values_list("labels", flat=True).get(task=reading.task_id))
    return checked_decision(reading.batch, disputed, work)


def _refuse_what_is_over(reading: SecondReading) -> None:
    if reading.state == State.DROPPED:
        raise Conflict(N_("You skipped this item; it went to someone else."))
    if reading.batch.state == Batch.State.CLOSED:
        raise Conflict(N_("This dispute is closed."))


def _refuse_who_left(reading: SecondReading) -> None:
    member = _member(reading.batch, reading.person)
    if member is None or not member.active:
        raise TooLate(N_("This item is no longer yours to work on."))


def _locked(reading_id: UUID, person: Person) -> SecondReading:
    list(SecondReading.objects.select_for_update(no_key=True).filter(pk=reading_id).values_list("pk"))
    reading = my_reading(reading_id, person)
    if reading is None:
        raise NotFound(N_("There is no such item among yours."))
    refuse_without_role(person, Membership.Role.ADJUDICATOR)
    reading.person = person
    return reading


def _member(batch: Batch, person: Person) -> Membership | None:
    adjudicating = Membership.objects.filter(role=Membership.Role.ADJUDICATOR)
    return adjudicating.filter(batch=batch, person=person).first()


def _seed(member: Membership) -> str:
    """Nobody outside the site can work it out."""
    return salted_hmac("annotation.second_readings", str(member.pk)).hexdigest()
