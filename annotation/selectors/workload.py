"""What people have to do and did: over all their batches, and in each.

Nothing of the batches in which the reader judges blind: who has what at hand there would tell them their partners.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from django.db.models import Count, Exists, OuterRef, QuerySet, Subquery, Sum
from django.utils import timezone

from annotation.models import ADJUDICATION_SLOT, Assignment, Batch, Membership, Panel, Person, Task
from annotation.selectors.blindness import sealed_batches
from annotation.selectors.counts import by_membership, by_stratum
from annotation.selectors.eligibility import may_take, working_members

LATELY = timedelta(days=7)
PLANNING = (Batch.Pairing.FIXED, Batch.Pairing.BALANCED)
LIVE = (Assignment.State.CLAIMED, Assignment.State.SUBMITTED)
Part: TypeAlias = tuple[int, int, bool]
"""Of a person: their id, the batch's, and whether they adjudicate there."""


@dataclass(frozen=True)
class Workload:
    """One person's, in the batches that are not closed; ``planned`` is None where none of them plans for them.

    ``lately`` were handed in within ``LATELY``, ``latest`` is when the last was, both in any batch.
    """

    batches: int = 0
    live: int = 0
    lately: int = 0
    planned: int | None = None
    latest: datetime | None = None


def workloads(people: Sequence[Person], *, reader: Person) -> dict[int, Workload]:
    """By person; seven queries, however many they are."""
    ids = [person.pk for person in people]
    sealed = list(sealed_batches(reader).values_list("pk", flat=True))
    batches = dict(_working(ids).values_list("person").annotate(n=Count("batch", distinct=True)))
    live = _by_person(_live(_counted_claims().filter(person__in=ids)).exclude(batch__in=sealed))
    handed_in = _counted_claims().exclude(batch__in=sealed)
    lately = handed_in.filter(person__in=ids, submitted_at__gte=timezone.now() - LATELY)
    planned = _still_planned(ids, without=sealed)
    latest = dict(_latest(ids, handed_in))
    counted = _by_person(lately)
    return {
        pk: Workload(
            batches=batches.get(pk, 0),
            live=live[pk],
            lately=counted[pk],
            planned=planned.get(pk),
            latest=latest.get(pk),
        )
        for pk in ids
    }


@dataclass(frozen=True)
class Counts:
    """Of one membership. ``planned`` is None where the batch plans for nobody, and of adjudicators. ``checks`` were
    done beside the work: they count for the quota as well.
    """

    done: int
    live: int
    skipped: int
    expired: int
    lately: int
    planned: int | None
    checks: int


def counts_of(members: QuerySet[Membership]) -> dict[int, Counts]:
    """What ``members`` did and have to do, by membership; six queries, however many they are.

    Expired are those leases that ended unused and whose item did not come back to the same person since.
    """
    rows = list(members.order_by().values_list("pk", "person", "batch", "role", "batch__pairing"))
    held = _counted_claims().filter(batch__in={row[2] for row in rows}, person__in={row[1] for row in rows})
    done = by_membership(members)
    live, lately = _by_part(_live(held)), _by_part(held.filter(submitted_at__gte=timezone.now() - LATELY))
    expired = _by_part(held.filter(state=Assignment.State.EXPIRED, skip_reason=""))
    plans = dict(_planned(members))
    found: dict[int, Counts] = {}
    for pk, person, batch, role, pairing in rows:
        adjudicates = role == Membership.Role.ADJUDICATOR
        part, did = (person, batch, adjudicates), done.get(pk, Counter[str]())
        plans_for = pairing in PLANNING and not adjudicates
        found[pk] = Counts(
            done=did["adjudicated" if adjudicates else "submitted"],
            live=live[part],
            skipped=did["skipped"],
            expired=expired[part],
            lately=lately[part],
            planned=plans.get(pk, 0) if plans_for else None,
            checks=did["checks"],
        )
    return found


@dataclass(frozen=True)
class Leaving:
    """What becomes of one batch when a person leaves it; the figures are None where the reader judges blind.

    ``live`` items go back and ``planned`` ones, not begun yet, go to others; it is None where nothing is planned for
    them. ``stay`` are the others in the person's role. Up to ``lacking`` items would wait, because fewer than
    ``needed`` of those may take them.
    """

    membership: Membership
    live: int | None
    planned: int | None
    lacking: int | None
    stay: int
    needed: int


def leaving(person: Person, *, reader: Person) -> list[Leaving]:
    """What deactivating the person would do, for each of their parts in batches that are not closed."""
    parts = _working([person.pk]).select_related("batch").order_by("batch__name", "-role")
    sealed = set(sealed_batches(reader).values_list("pk", flat=True))
    live = _by_part(_live(_counted_claims().filter(person=person)))
    return [_leaving(one, live, sealed=one.batch_id in sealed) for one in parts]


def _leaving(part: Membership, live: Counter[Part], *, sealed: bool) -> Leaving:
    adjudicates = part.role == Membership.Role.ADJUDICATOR
    others = [one for one in working_members(part.batch, part.role) if one.pk != part.pk]
    needed = 1 if adjudicates else part.batch.overlap
    plans = part.batch.pairing in PLANNING and not adjudicates
    return Leaving(
        membership=part,
        live=None if sealed else live[part.person_id, part.batch_id, adjudicates],
        planned=_not_begun(part) if plans and not sealed else None,
        lacking=None if sealed else _lacking(part, others, needed),
        stay=len(others),
        needed=needed,
    )


def _lacking(part: Membership, others: Sequence[Membership], needed: int) -> int:
    """The open tasks, or disputes, of the strata that too few of ``others`` may take."""
    state = Task.State.DISPUTED if part.role == Membership.Role.ADJUDICATOR else Task.State.OPEN
    counts = by_stratum([part.batch_id])
    return sum(of[state] for stratum, of in counts.items() if len(may_take(others, stratum)) < needed)


def _not_begun(part: Membership) -> int:
    """The open tasks that are planned for the member and that they have neither at hand nor handed in."""
    taken = Assignment.objects.filter(task=OuterRef("pk"), person=part.person_id, state__in=LIVE)
    planned = Task.objects.filter(batch=part.batch_id, state=Task.State.OPEN, panel__members=part)
    return planned.exclude(Exists(taken)).count()


def _working(people: Collection[int]) -> QuerySet[Membership]:
    """Their parts in batches that are not closed."""
    return Membership.objects.filter(person__in=people, active=True).exclude(batch__state=Batch.State.CLOSED)


def _counted_claims() -> QuerySet[Assignment]:
    """All but those on repeat adjudications, which no manager's count tells of."""
    return Assignment.objects.exclude(task__kind=Task.Kind.REPEAT)


def _live(held: QuerySet[Assignment]) -> QuerySet[Assignment]:
    return held.filter(state=Assignment.State.CLAIMED, lease_expires__gt=timezone.now())


def _by_person(held: QuerySet[Assignment]) -> Counter[int]:
    return Counter(dict(held.order_by().values_list("person").annotate(n=Count("pk"))))


def _by_part(held: QuerySet[Assignment]) -> Counter[Part]:
    found: Counter[Part] = Counter()
    for person, batch, slot, n in (
        held.order_by().values_list("person", "batch", "slot").annotate(n=Count("pk"))
    ):
        found[person, batch, slot == ADJUDICATION_SLOT] += n
    return found


def _planned(members: QuerySet[Membership]) -> dict[int, int]:
    """The tasks planned for each membership, those that they handed in among them."""
    panels = Panel.objects.filter(members__in=members.order_by().values("pk"), tasks_planned__gt=0).order_by()
    return dict(panels.values_list("members").annotate(n=Sum("tasks_planned")))


def _still_planned(people: Collection[int], *, without: Collection[int]) -> dict[int, int]:
    """By person, what is planned for them and not handed in; only of those for whom a batch plans."""
    members = _working(people).filter(role=Membership.Role.ANNOTATOR, batch__pairing__in=PLANNING)
    members = members.exclude(batch__in=without)
    planned, done = _planned(members), by_membership(members)
    found: Counter[int] = Counter()
    for pk, person in members.values_list("pk", "person"):
        found[person] += max(0, planned.get(pk, 0) - done.get(pk, Counter())["submitted"])
    return dict(found)


def _latest(people: Collection[int], handed_in: QuerySet[Assignment]) -> QuerySet[Person, Any]:
    """When each handed in last: one look into the index of their history."""
    theirs = handed_in.filter(person=OuterRef("pk"), submitted_at__isnull=False).order_by("-submitted_at")
    latest = Subquery(theirs.values("submitted_at")[:1])
    return Person.objects.filter(pk__in=people).order_by().annotate(at=latest).values_list("pk", "at")
