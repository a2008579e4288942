"""Decided disputes that come back to their adjudicator, and what they tell of the adjudicators' consistency.

To the adjudicator a second reading is a dispute like any other: ``as_claim`` is all that pages and programs get.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from annotation.intervals import wilson
from annotation.models import (
    ADJUDICATION_SLOT,
    Adjudication,
    Assignment,
    Batch,
    Membership,
    Person,
    SecondReading,
    Verdict,
)
from annotation.selectors.eligibility import strata_ruled_out

State = SecondReading.State
# What the claim on a dispute would be called.
AS_CLAIM = {
    State.WAITING: Assignment.State.RELEASED,
    State.CLAIMED: Assignment.State.CLAIMED,
    State.SUBMITTED: Assignment.State.SUBMITTED,
    State.DROPPED: Assignment.State.RELEASED,
}


@dataclass(frozen=True)
class Consistency:
    """``n`` criteria were decided twice by the person, ``same`` of them alike; the share has its 95% interval.

    The three are None where ``n`` is 0.
    """

    person: Person
    n: int
    same: int
    share: float | None
    low: float | None
    high: float | None

    @property
    def percent(self) -> dict[str, float]:
        """The three for a page, from 0 to 100; empty where they are None."""
        if self.share is None or self.low is None or self.high is None:
            return {}
        return {"share": 100 * self.share, "low": 100 * self.low, "high": 100 * self.high}


def as_claim(reading: SecondReading) -> Assignment:
    """The reading as the claim on a dispute that its reader takes it for, with what they said of it. No row stands
    behind it: never save it.
    """
    assert reading.claimed_at is not None
    assert reading.lease_expires is not None
    claim = Assignment(
        id=reading.pk,
        batch=reading.batch,
        task_id=reading.task_id,
        person_id=reading.person_id,
        slot=ADJUDICATION_SLOT,
        state=AS_CLAIM[State(reading.state)],
        claimed_at=reading.claimed_at,
        lease_expires=reading.lease_expires,
        submitted_at=reading.submitted_at,
    )
    if reading.state == State.SUBMITTED:
        assert reading.submitted_at is not None
        claim.adjudication = Adjudication(
            labels=reading.labels,
            reason_id=reading.reason_id,
            rationale=reading.rationale,
            created_at=reading.submitted_at,
        )
    if reading.verdict is not None:
        claim.verdict = Verdict(labels=reading.verdict["labels"], rationale=reading.verdict["rationale"])
    return claim


def submitted_readings(person: Person) -> QuerySet[SecondReading]:
    return SecondReading.objects.filter(person=person, state=State.SUBMITTED)


def my_reading(reading_id: UUID, person: Person) -> SecondReading | None:
    """One that was handed out to this person; before that its id is nobody's to know."""
    mine = SecondReading.objects.filter(pk=reading_id, person=person, claimed_at__isnull=False)
    return mine.select_related("batch__guideline").first()


def readings_for(member: Membership, *, resting: Sequence[int] = ()) -> QuerySet[SecondReading]:
    """Those of the member that wait or are at hand, the next one first."""
    mine = SecondReading.objects.filter(batch=member.batch_id, person=member.person_id)
    out = [*strata_ruled_out(member), *resting]
    if out:
        mine = mine.exclude(task__stratum__in=out)
    return mine.filter(state__in=[State.WAITING, State.CLAIMED]).order_by("due_at", "pk")


def at_hand(member: Membership) -> SecondReading | None:
    """The one that the member has claimed."""
    mine = SecondReading.objects.filter(batch=member.batch_id, person=member.person_id, state=State.CLAIMED)
    return mine.select_related("batch__guideline").first()


def readings_done(membership: Membership) -> int:
    mine = SecondReading.objects.filter(batch=membership.batch_id, person=membership.person_id)
    return mine.filter(state=State.SUBMITTED).count()


def readings_done_by(batch: Batch) -> Counter[int]:
    """By person."""
    done = SecondReading.objects.filter(batch=batch, state=State.SUBMITTED).order_by().values_list("person")
    return Counter(dict(done.annotate(n=Count("pk"))))


def consistency(batch: Batch | None = None) -> list[Consistency]:
    """How often each adjudicator decided a criterion the second time as the first, in a batch or in all of them.

    It tells of labels: only for whoever may see the results of the batch (``blindness.refuse_sealed``), and never
    for the adjudicators themselves. In order of names. Pages include annotation/disputes/_consistency.html.
    """
    read = SecondReading.objects.filter(state=State.SUBMITTED).select_related("person")
    if batch is not None:
        read = read.filter(batch=batch)
    first = dict(Adjudication.objects.filter(task__in=read.values("task")).values_list("task", "labels"))
    counts: dict[Person, Counter[bool]] = defaultdict(Counter)
    for reading in read:
        again = reading.labels or {}
        counts[reading.person].update(again[name] == value for name, value in first[reading.task_id].items())
    return [_consistency(person, counts[person]) for person in sorted(counts, key=lambda one: one.username)]


def _consistency(person: Person, counts: Counter[bool]) -> Consistency:
    n, same = counts.total(), counts[True]
    if n == 0:
        return Consistency(person, 0, 0, None, None, None)
    return Consistency(person, n, same, same / n, *wilson(same, n))


def due(now: datetime) -> Q:
    return Q(due_at__lte=now) | Q(state=State.CLAIMED)
