"""What waits for an adjudicator, by dimension and by age. It never tells of labels, annotators or models.

A dispute is as old as the last of its annotations: then it arose. A repeat adjudication waits since it was due.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from annotation.models import ADJUDICATION_SLOT, Assignment, Membership, Stratum, Task, sql
from annotation.selectors.eligibility import strata_ruled_out

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
        tasks = self.of_dimension(tasks)
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

    def of_dimension(self, tasks: QuerySet[Task]) -> QuerySet[Task]:
        return tasks.filter(stratum__dimension=self.dimension) if self.dimension else tasks


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
    for repeats in _repeats_by_age(member, now):
        disputes = found.get(repeats.dimension)
        found[repeats.dimension] = repeats if disputes is None else _together(disputes, repeats)
    return [found[dimension] for dimension in sorted(found)]


def waiting(member: Membership, *, resting: Sequence[int] = ()) -> QuerySet[Task]:
    """The disputes that the member may claim now, in no order; ``resting`` are strata that wait until tomorrow."""
    held = Assignment.objects.filter(task=OuterRef("pk"), slot=ADJUDICATION_SLOT, state__in=LIVE)
    tasks = Task.objects.filter(batch=member.batch_id, kind=Task.Kind.WORK, state=Task.State.DISPUTED)
    out = [*strata_ruled_out(member), *resting]
    if out:
        tasks = tasks.exclude(stratum__in=out)
    return tasks.filter(~Exists(_barring(member)), ~Exists(held))


def disputed_since() -> Subquery:
    given = Assignment.objects.filter(task=OuterRef("pk"), slot__lt=ADJUDICATION_SLOT)
    last = given.order_by().values("task").annotate(last=Max("submitted_at"))
    return Subquery(last.values("last"))


def repeats_to_come(member: Membership, *, resting: Sequence[int] = ()) -> QuerySet[Task]:
    """The repeat adjudications that may come now, the next one first: those that are due, and all of them once the
    disputes have run out. The one in progress is none of them.
    """
    repeats = _waiting_repeats(member, resting=resting)
    if not repeats.exists() or have_run_out(member, resting=resting):
        return repeats
    return repeats.filter(due_at__lte=timezone.now())


def _waiting_repeats(member: Membership, *, resting: Sequence[int]) -> QuerySet[Task]:
    """Those of what the member decided that come back to them, and to nobody else; by the index that has repeats
    alone.
    """
    claimed = Assignment.objects.filter(task=OuterRef("pk"), state=Assignment.State.CLAIMED)
    repeats = Task.objects.filter(
        ~Exists(claimed),
        batch=member.batch_id,
        kind=Task.Kind.REPEAT,
        state=Task.State.DISPUTED,
        repeats__isnull=False,
        repeats__adjudication__assignment__person=member.person_id,
    )
    out = [*strata_ruled_out(member), *resting]
    if out:
        repeats = repeats.exclude(stratum__in=out)
    return repeats.order_by("due_at", "pk")


def have_run_out(member: Membership, *, resting: Sequence[int] = ()) -> bool:
    """Whether no dispute waits for the member and none can arise any more."""
    open_tasks = Task.objects.filter(batch=member.batch_id, state=Task.State.OPEN, kind=Task.Kind.WORK)
    return not open_tasks.exists() and not waiting(member, resting=resting).exists()


def has_at_hand(member: Membership) -> bool:
    """Whether the member is deciding a dispute."""
    return claims_of(member).exists()


def claims_of(member: Membership) -> QuerySet[Assignment]:
    """The disputes that the member is deciding, a repeat adjudication among them."""
    mine = Assignment.objects.filter(batch=member.batch_id, person=member.person_id)
    return mine.filter(slot=ADJUDICATION_SLOT, state=Assignment.State.CLAIMED)


def dimensions_of(member: Membership) -> list[str]:
    """The dimensions of what the member's batch holds, in order."""
    strata = Stratum.objects.filter(batch=member.batch_id, kind=Task.Kind.WORK).exclude(dimension="")
    return sorted(set(strata.values_list("dimension", flat=True)))


def _disputes_by_age(member: Membership, now: datetime) -> Iterator[Waiting]:
    """Counted by the database: there may be very many."""
    tasks = (
        waiting(member).order_by().values("pk", topic=F("stratum__dimension")).annotate(since=LAST_SUBMITTED)
    )
    bounds = [now - timedelta(days=days) for days in AGES]
    for topic, oldest, *counts in sql.count_by_age(tasks, bounds):
        yield _row(topic, oldest, counts)


def _repeats_by_age(member: Membership, now: datetime) -> Iterator[Waiting]:
    """A handful, of which none is younger than this moment."""
    since: dict[str, list[datetime]] = defaultdict(list)
    for dimension, due_at in repeats_to_come(member).order_by().values_list("stratum__dimension", "due_at"):
        assert due_at is not None
        since[dimension].append(min(due_at, now))
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


def _barring(member: Membership) -> QuerySet[Assignment]:
    """``may_claim_again``, as the database says it: the past claims that keep a dispute from a person."""
    barred = Q(state__in=LIVE) | ~Q(skip_reason="") | Q(slot__lt=ADJUDICATION_SLOT)
    return Assignment.objects.filter(barred, task=OuterRef("pk"), person=member.person_id)
