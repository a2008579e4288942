"""Who works in a batch: what each member is to get, what they did, and what the plan shares out among them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, Q, Sum
from django.utils import timezone

from annotation.errors import N_, NotFound
from annotation.models import ADJUDICATION_SLOT, Assignment, Batch, Membership, Panel, Person
from annotation.selectors.counts import by_member


@dataclass(frozen=True)
class Member:
    """A membership with its counts. ``planned`` is None where the batch plans for nobody, and of adjudicators."""

    membership: Membership
    done: int
    live: int
    skipped: int
    planned: int | None

    @property
    def left(self) -> bool:
        return not self.membership.active

    @property
    def full(self) -> bool:
        """Whether the quota is reached, so that nothing more is handed out to them."""
        quota = self.membership.quota
        return quota is not None and self.done >= quota


@dataclass(frozen=True)
class Shared:
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


def members_of(batch: Batch) -> list[Member]:
    """Annotators first, who left last; six queries, however many they are and whatever they did."""
    found = Membership.objects.filter(batch=batch).select_related("person")
    found = found.prefetch_related("person__own_models").order_by("-role", "-active", "person__username")
    counts, live, planned = by_member(batch), _live(batch), _planned(batch)
    return [_member(one, counts.get(one.pk, Counter()), live, planned) for one in found]


def member_named(batch: Batch, username: str, role: str) -> Membership:
    found = Membership.objects.filter(batch=batch, person__username=username, role=role)
    member = found.select_related("person").first()
    if member is None:
        raise NotFound(N_("{name} is not in the batch {batch}."), name=username, batch=batch.name)
    return member


def shared_counts(batch: Batch) -> Shared | None:
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
    return _shared(batch, shared)


def _shared(batch: Batch, shared: Counter[tuple[int, int]]) -> Shared | None:
    planned = {one for pair in shared for one in pair}
    annotators = batch.memberships.filter(role=Membership.Role.ANNOTATOR).select_related("person")
    members = list(annotators.filter(Q(active=True) | Q(pk__in=planned)).order_by("person__username"))
    if len(members) < 2 or not planned:  # a pair
        return None
    return Shared(
        people=tuple(one.person for one in members),
        rows=tuple(
            tuple(None if one == other else shared[one.pk, other.pk] for other in members) for one in members
        ),
    )


def _member(
    member: Membership, counts: Counter[str], live: Counter[tuple[int, bool]], planned: dict[int, int] | None
) -> Member:
    adjudicates = member.role == Membership.Role.ADJUDICATOR
    return Member(
        membership=member,
        done=counts["adjudicated" if adjudicates else "submitted"],
        live=live[member.person_id, adjudicates],
        skipped=counts["skipped"],
        planned=None if planned is None or adjudicates else planned.get(member.pk, 0),
    )


def _live(batch: Batch) -> Counter[tuple[int, bool]]:
    """What is at hand now, by person and by whether it is to be adjudicated."""
    held = Assignment.objects.filter(
        batch=batch, state=Assignment.State.CLAIMED, lease_expires__gt=timezone.now()
    )
    rows = held.order_by().values_list("person", "slot").annotate(n=Count("pk"))
    live: Counter[tuple[int, bool]] = Counter()
    for person, slot, n in rows:
        live[person, slot == ADJUDICATION_SLOT] += n
    return live


def _planned(batch: Batch) -> dict[int, int] | None:
    if batch.pairing == Batch.Pairing.POOL:
        return None
    rows: Sequence[tuple[int, int]] = list(
        Panel.objects.filter(batch=batch).order_by().values_list("members").annotate(n=Sum("tasks_planned"))
    )
    return dict(rows)
