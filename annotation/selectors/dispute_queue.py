"""What waits for an adjudicator, by dimension and by age. It never tells of labels, annotators or models.

A dispute is as old as the last of its annotations: then it arose. A second reading waits since it was due.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from django.db import connection
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from annotation.models import ADJUDICATION_SLOT, Assignment, Membership, SecondReading, Stratum, Task
from annotation.selectors.eligibility import strata_ruled_out
from annotation.selectors.second_readings import at_hand, due, readings_for
from annotation.statements import to_database

LIVE = (Assignment.State.CLAIMED, Assignment.State.SUBMITTED)
# The younger ages end here, in days; what is older is in the last.
AGES = (1, 3, 7)
BY_PROMPT, OLDEST_FIRST = "prompt", "oldest"
BY_AGE = ("-priority", "since", "position")
FEW = 100
LAST_SUBMITTED = Max("assignments__submitted_at", filter=Q(assignments__slot__lt=ADJUDICATION_SLOT))


@dataclass(frozen=True)
class Wanted:
    """What an adjudicator wants next: disputes of one dimension, or of any; prompt by prompt, or the oldest first."""

    dimension: str = ""
    order: str = BY_PROMPT

    def of(self, tasks: QuerySet[Task]) -> QuerySet[Task]:
        """Those of the tasks that fit, in order. What the manager put first is first. Prompt by prompt is not the
        order of the batch: labels imported file by file stand there model by model.
        """
        if self.dimension:
            tasks = tasks.filter(stratum__dimension=self.dimension)
        if self.order == OLDEST_FIRST:
            return tasks.annotate(since=disputed_since()).order_by(*BY_AGE)
        return tasks.order_by("-priority", "prompt", "-response__sha256", "position")

    def ways(self, tasks: QuerySet[Task]) -> Iterator[QuerySet[Task]]:
        """``of`` the tasks, and before it the first ``FEW`` of them: where nothing is to be locked the database finds
        these sooner, without sorting all, and with the ages of all worked out together.
        """
        soonest = self.of(tasks)
        if self.order == OLDEST_FIRST:
            ages = replace(self, order=BY_PROMPT).of(tasks).order_by().annotate(since=LAST_SUBMITTED)
            soonest = ages.order_by(*BY_AGE)
        yield self.of(tasks.filter(pk__in=soonest.values("pk")[:FEW]))
        yield self.of(tasks)

    def readings_of(self, readings: QuerySet[SecondReading]) -> QuerySet[SecondReading]:
        return readings.filter(task__stratum__dimension=self.dimension) if self.dimension else readings


ANYTHING = Wanted()


@dataclass(frozen=True)
class Waiting:
    """``ages`` counts those younger than 1, 3 and 7 days and the older ones; ``oldest`` is since when one waits."""

    dimension: str
    n: int
    oldest: datetime
    ages: tuple[int, ...]


def queue(member: Membership) -> list[Waiting]:
    """What the member may take now, a row for each dimension in order of names."""
    now = timezone.now()
    found = {one.dimension: one for one in _disputes_by_age(member, now)}
    for again in _readings_by_age(member, now):
        here = found.get(again.dimension)
        found[again.dimension] = again if here is None else _together(here, again)
    return [found[dimension] for dimension in sorted(found)]


def waiting(member: Membership, *, resting: Sequence[int] = ()) -> QuerySet[Task]:
    """The disputes that the member may claim now, in no order; ``resting`` are strata that wait until tomorrow."""
    held = Assignment.objects.filter(task=OuterRef("pk"), slot=ADJUDICATION_SLOT, state__in=LIVE)
    tasks = Task.objects.filter(batch=member.batch_id, state=Task.State.DISPUTED)
    out = [*strata_ruled_out(member), *resting]
    if out:
        tasks = tasks.exclude(stratum__in=out)
    return tasks.filter(~Exists(_barring(member)), ~Exists(held))


def disputed_since() -> Subquery:
    given = Assignment.objects.filter(task=OuterRef("pk"), slot__lt=ADJUDICATION_SLOT)
    last = given.order_by().values("task").annotate(last=Max("submitted_at"))
    return Subquery(last.values("last"))


def readings_to_come(member: Membership, *, resting: Sequence[int] = ()) -> QuerySet[SecondReading]:
    """The second readings that may come now: those that are due, and all of them once the disputes have run out."""
    mine = readings_for(member, resting=resting)
    if not mine.exists() or have_run_out(member, resting=resting):
        return mine
    return mine.filter(due(timezone.now()))


def have_run_out(member: Membership, *, resting: Sequence[int] = ()) -> bool:
    """Whether no dispute waits for the member and none can arise any more."""
    open_tasks = Task.objects.filter(batch=member.batch_id, state=Task.State.OPEN, kind=Task.Kind.WORK)
    return not open_tasks.exists() and not waiting(member, resting=resting).exists()


def has_at_hand(member: Membership) -> bool:
    """Whether the member is deciding a dispute, or what comes as one."""
    return claims_of(member).exists() or at_hand(member) is not None


def claims_of(member: Membership) -> QuerySet[Assignment]:
    """The disputes that the member is deciding."""
    mine = Assignment.objects.filter(batch=member.batch_id, person=member.person_id)
    return mine.filter(slot=ADJUDICATION_SLOT, state=Assignment.State.CLAIMED)


def dimensions_of(member: Membership) -> list[str]:
    """The dimensions of what the member's batch holds, in order."""
    strata = Stratum.objects.filter(batch=member.batch_id, kind=Task.Kind.WORK).exclude(dimension="")
    return sorted(set(strata.values_list("dimension", flat=True)))


def _disputes_by_age(member: Membership, now: datetime) -> Iterator[Waiting]:
    """Counted by the database: there may be very many."""
    tasks = waiting(member).order_by().values("pk", topic=F("stratum__dimension"))
    aged, params = tasks.annotate(since=LAST_SUBMITTED).query.sql_with_params()
    younger = ", ".join(["COUNT(CASE WHEN since > %s THEN 1 END)"] * len(AGES))
    sql = f"SELECT topic, MIN(since), {younger}, COUNT(*) FROM ({aged}) AS waiting GROUP BY topic"
    days = [to_database(Assignment, "submitted_at", now - timedelta(days=days)) for days in AGES]
    with connection.cursor() as cursor:
        cursor.execute(sql, [*days, *params])
        for topic, oldest, *counts in cursor.fetchall():
            yield _row(topic, _time(oldest), counts)


def _readings_by_age(member: Membership, now: datetime) -> Iterator[Waiting]:
    """A handful, of which none is younger than this moment."""
    since: dict[str, list[datetime]] = defaultdict(list)
    readings = readings_to_come(member).filter(state=SecondReading.State.WAITING)
    for dimension, at in readings.order_by().values_list("task__stratum__dimension", "due_at"):
        since[dimension].append(min(at, now))
    for dimension, times in since.items():
        younger = [sum(at > now - timedelta(days=days) for at in times) for days in AGES]
        yield _row(dimension, min(times), [*younger, len(times)])


def _row(dimension: str, oldest: datetime, counts: Sequence[int]) -> Waiting:
    """``counts``: those younger than each of ``AGES``, and all."""
    ages = [some - before for some, before in zip(counts, [0, *counts[:-1]], strict=True)]
    return Waiting(dimension=dimension, n=counts[-1], oldest=oldest, ages=tuple(ages))


def _together(one: Waiting, other: Waiting) -> Waiting:
    ages = tuple(map(sum, zip(one.ages, other.ages, strict=True)))
    return Waiting(one.dimension, one.n + other.n, min(one.oldest, other.oldest), ages)


def _time(given: datetime | str) -> datetime:
    """SQLite gives what it works out of times as text, in UTC."""
    return given if isinstance(given, datetime) else datetime.fromisoformat(given).replace(tzinfo=UTC)


def _barring(member: Membership) -> QuerySet[Assignment]:
    """``may_claim_again``, as the database says it: the past claims that keep a dispute from a person."""
    barred = Q(state__in=LIVE) | ~Q(skip_reason="") | Q(slot__lt=ADJUDICATION_SLOT)
    return Assignment.objects.filter(barred, task=OuterRef("pk"), person=member.person_id)
