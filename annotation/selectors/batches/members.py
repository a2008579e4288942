"""Who works in a batch: what each member did and still has to do, and a person's workload over all their batches.

Batches in which the reader judges blind are left out: what a person has in progress there would tell of their partners.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery, Sum
from django.utils import timezone

from annotation.core.errors import N_, NotFound
from annotation.core.study_scope import build_study_filter
from annotation.models import (
    ADJUDICATION_SLOT,
    DECIDED_AGAIN,
    Assignment,
    Batch,
    Membership,
    Panel,
    Person,
    Task,
)
from annotation.selectors.access import sealed_batches
from annotation.selectors.assignments.availability import (
    filter_eligible,
    list_working_members,
)
from annotation.selectors.counts import count_by_membership, count_by_stratum

RECENT = timedelta(days=7)
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


def list_workloads(people: Sequence[Person], *, reader: Person) -> dict[int, Workload]:
    """By person; seven queries, however many they are."""
    ids = [person.pk for person in people]
    sealed = list(sealed_batches(reader).values_list("pk", flat=True))
    batches = dict(_list_working(ids).values_list("person").annotate(n=Count("batch", distinct=True)))
    live = _count_by_person(
        _filter_live(_list_counted_claims().filter(person__in=ids)).exclude(batch__in=sealed)
    )
    handed_in = _list_counted_claims().exclude(batch__in=sealed)
    lately = handed_in.filter(person__in=ids, submitted_at__gte=timezone.now() - RECENT)
    planned = count_still_planned(ids, without=sealed)
    latest = dict(_list_latest(ids, handed_in))
    counted = _count_by_person(lately)
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
class MembershipCounts:
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


def list_membership_counts(members: QuerySet[Membership]) -> dict[int, MembershipCounts]:
    """What ``members`` did and have to do, by membership; six queries, however many they are.

    Expired are those leases that ended unused and whose item did not come back to the same person since.
    """
    rows = list(members.order_by().values_list("pk", "person", "batch", "role", "batch__pairing"))
    held = _list_counted_claims().filter(
        batch__in={row[2] for row in rows}, person__in={row[1] for row in rows}
    )
    tallies = count_by_membership(members)
    live, lately = (
        _count_by_part(_filter_live(held)),
        _count_by_part(held.filter(submitted_at__gte=timezone.now() - RECENT)),
    )
    expired = _count_by_part(held.filter(state=Assignment.State.EXPIRED, skip_reason=""))
    plans = dict(_count_planned(members))
    counts: dict[int, MembershipCounts] = {}
    for pk, person, batch, role, pairing in rows:
        adjudicates = role == Membership.Role.ADJUDICATOR
        part, tally = (person, batch, adjudicates), tallies.get(pk, Counter[str]())
        plans_for = pairing in PLANNING and not adjudicates
        counts[pk] = MembershipCounts(
            done=tally["adjudicated" if adjudicates else "submitted"],
            live=live[part],
            skipped=tally["skipped"],
            expired=expired[part],
            lately=lately[part],
            planned=plans.get(pk, 0) if plans_for else None,
            checks=tally["checks"],
        )
    return counts


@dataclass(frozen=True)
class LeavingEffect:
    """What becomes of one batch when a person leaves it; the figures are None where the reader judges blind.

    ``live`` items go back and ``planned`` ones, not begun yet, go to others; it is None where nothing is planned for
    them. ``stay`` are the others in the person's role. Up to ``unassignable`` items would wait, because fewer than
    ``needed`` of those may take them.
    """

    membership: Membership
    live: int | None
    planned: int | None
    unassignable: int | None
    stay: int
    needed: int


def preview_leaving(person: Person, *, reader: Person) -> list[LeavingEffect]:
    """What deactivating the person would do, for each of their parts in batches that are not closed."""
    parts = _list_working([person.pk]).select_related("batch").order_by("batch__name", "-role")
    sealed = set(sealed_batches(reader).values_list("pk", flat=True))
    live = _count_by_part(_filter_live(_list_counted_claims().filter(person=person)))
    return [_preview_membership(part, live, sealed=part.batch_id in sealed) for part in parts]


def _preview_membership(part: Membership, live: Counter[Part], *, sealed: bool) -> LeavingEffect:
    adjudicates = part.role == Membership.Role.ADJUDICATOR
    remaining = [member for member in list_working_members(part.batch, part.role) if member.pk != part.pk]
    needed = 1 if adjudicates else part.batch.overlap
    plans = part.batch.pairing in PLANNING and not adjudicates
    return LeavingEffect(
        membership=part,
        live=None if sealed else live[part.person_id, part.batch_id, adjudicates],
        planned=_count_not_begun(part) if plans and not sealed else None,
        unassignable=None if sealed else _count_unassignable(part, remaining, needed),
        stay=len(remaining),
        needed=needed,
    )


def _count_unassignable(part: Membership, remaining: Sequence[Membership], needed: int) -> int:
    """The open tasks, or disputes, of the strata that too few of ``others`` may take."""
    state = Task.State.DISPUTED if part.role == Membership.Role.ADJUDICATOR else Task.State.OPEN
    counts = count_by_stratum([part.batch_id])
    return sum(
        states[state]
        for stratum, states in counts.items()
        if len(filter_eligible(remaining, stratum)) < needed
    )


def _count_not_begun(part: Membership) -> int:
    """The open tasks that are planned for the member and that they have neither at hand nor handed in."""
    claims = Assignment.objects.filter(task=OuterRef("pk"), person=part.person_id, state__in=LIVE)
    planned = Task.objects.filter(batch=part.batch_id, state=Task.State.OPEN, panel__members=part)
    return planned.exclude(Exists(claims)).count()


def _list_working(people: Collection[int]) -> QuerySet[Membership]:
    """Their parts in batches that are not closed."""
    memberships = Membership.objects.filter(
        person__in=people, active=True, **build_study_filter("batch__study")
    )
    return memberships.exclude(batch__state=Batch.State.CLOSED)


def _list_counted_claims() -> QuerySet[Assignment]:
    """All but those on repeat and second adjudications, which no manager's count tells of."""
    return Assignment.objects.exclude(task__kind__in=DECIDED_AGAIN)


def _filter_live(held: QuerySet[Assignment]) -> QuerySet[Assignment]:
    return held.filter(state=Assignment.State.CLAIMED, lease_expires__gt=timezone.now())


def _count_by_person(held: QuerySet[Assignment]) -> Counter[int]:
    return Counter(dict(held.order_by().values_list("person").annotate(n=Count("pk"))))


def _count_by_part(held: QuerySet[Assignment]) -> Counter[Part]:
    counts: Counter[Part] = Counter()
    for person, batch, slot, n in (
        held.order_by().values_list("person", "batch", "slot").annotate(n=Count("pk"))
    ):
        counts[person, batch, slot == ADJUDICATION_SLOT] += n
    return counts


def _count_planned(members: QuerySet[Membership]) -> dict[int, int]:
    """The tasks planned for each membership, those that they handed in among them."""
    panels = Panel.objects.filter(members__in=members.order_by().values("pk"), tasks_planned__gt=0).order_by()
    return dict(panels.values_list("members").annotate(n=Sum("tasks_planned")))


def count_still_planned(people: Collection[int], *, without: Collection[int]) -> dict[int, int]:
    """By person, what is planned for them and not handed in; only of those for whom a batch plans."""
    members = _list_working(people).filter(role=Membership.Role.ANNOTATOR, batch__pairing__in=PLANNING)
    members = members.exclude(batch__in=without)
    planned, done = _count_planned(members), count_by_membership(members)
    remaining: Counter[int] = Counter()
    for pk, person in members.values_list("pk", "person"):
        remaining[person] += max(0, planned.get(pk, 0) - done.get(pk, Counter())["submitted"])
    return dict(remaining)


def _list_latest(people: Collection[int], handed_in: QuerySet[Assignment]) -> QuerySet[Person, Any]:
    """When each handed in last: one look into the index of their history."""
    submitted = handed_in.filter(person=OuterRef("pk"), submitted_at__isnull=False).order_by("-submitted_at")
    latest = Subquery(submitted.values("submitted_at")[:1])
    return Person.objects.filter(pk__in=people).order_by().annotate(at=latest).values_list("pk", "at")


@dataclass(frozen=True)
class MemberRow(MembershipCounts):
    """A membership with its counts."""

    membership: Membership

    @property
    def left(self) -> bool:
        return not self.membership.active

    @property
    def full(self) -> bool:
        """Whether the quota is reached, so that nothing more is handed out to them."""
        quota = self.membership.quota
        return quota is not None and self.done + self.checks >= quota


@dataclass(frozen=True)
class SharedItems:
    """How many items every two people are planned for together: ``rows[i][j]``, None on the diagonal."""

    people: tuple[Person, ...]
    rows: tuple[tuple[int | None, ...], ...]

    @property
    def least(self) -> int:
        return min(self._pairs(), default=0)

    @property
    def most(self) -> int:
        return max(self._pairs(), default=0)

    @property
    def lines(self) -> list[tuple[Person, tuple[int | None, ...]]]:
        return list(zip(self.people, self.rows, strict=True))

    def _pairs(self) -> list[int]:
        return [n for row in self.rows for n in row if n is not None]


def list_members(batch: Batch) -> list[MemberRow]:
    """Annotators first, who left last; eight queries, however many they are and whatever they did."""
    memberships = Membership.objects.filter(batch=batch).select_related("person")
    memberships = memberships.prefetch_related("person__own_models__compared_in").order_by(
        "-role", "-active", "person__username"
    )
    counts = list_membership_counts(Membership.objects.filter(batch=batch))
    return [MemberRow(**vars(counts[membership.pk]), membership=membership) for membership in memberships]


def list_parts(person: Person, *, reader: Person) -> list[tuple[Membership, MemberRow | None]]:
    """The person's part in every batch, the latest first; None for the counts where the reader judges blind."""
    memberships = Membership.objects.filter(person=person, **build_study_filter("batch__study"))
    sealed = set(sealed_batches(reader).values_list("pk", flat=True))
    counts = list_membership_counts(memberships.exclude(batch__in=sealed))
    parts = memberships.select_related("batch__guideline", "person").order_by("-batch__created_at", "-role")
    return [
        (part, MemberRow(**vars(counts[part.pk]), membership=part) if part.pk in counts else None)
        for part in parts
    ]


def get_member(batch: Batch, username: str, role: str) -> Membership:
    memberships = Membership.objects.filter(batch=batch, person__username=username, role=role)
    member = memberships.select_related("person").first()
    if member is None:
        raise NotFound(N_("{name} is not in the batch {batch}."), name=username, batch=batch.name)
    return member


def count_shared(batch: Batch) -> SharedItems | None:
    """Of the plan as it stands now; None where nobody works with anybody by plan."""
    if batch.pairing == Batch.Pairing.POOL or batch.overlap == 1:
        return None
    together: dict[int, list[int]] = defaultdict(list)
    panels = Panel.objects.filter(batch=batch, tasks_planned__gt=0)
    for panel, member in panels.values_list("pk", "members"):
        together[panel].append(member)
    shared: Counter[tuple[int, int]] = Counter()
    for panel, tasks in panels.values_list("pk", "tasks_planned"):
        shared.update({(a, b): tasks for a in together[panel] for b in together[panel] if a != b})
    return _build_shared(batch, shared)


def _build_shared(batch: Batch, shared: Counter[tuple[int, int]]) -> SharedItems | None:
    planned = {member_id for pair in shared for member_id in pair}
    annotators = batch.memberships.filter(role=Membership.Role.ANNOTATOR).select_related("person")
    members = list(annotators.filter(Q(active=True) | Q(pk__in=planned)).order_by("person__username"))
    if len(members) < 2 or not planned:  # a pair
        return None
    return SharedItems(
        people=tuple(member.person for member in members),
        rows=tuple(
            tuple(None if member == other else shared[member.pk, other.pk] for other in members)
            for member in members
        ),
    )
