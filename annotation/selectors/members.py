"""Who works in a batch: what each member is to get, what they did, and what the plan shares out among them."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from django.db.models import Q

from annotation.errors import N_, NotFound
from annotation.models import Batch, Membership, Panel, Person
from annotation.selectors.blindness import sealed_batches
from annotation.selectors.workload import Counts, counts_of


@dataclass(frozen=True)
class Member(Counts):
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
    """Annotators first, who left last; eight queries, however many they are and whatever they did."""
    found = Membership.objects.filter(batch=batch).select_related("person")
    found = found.prefetch_related("person__own_models").order_by("-role", "-active", "person__username")
    counts = counts_of(Membership.objects.filter(batch=batch))
    return [Member(**vars(counts[one.pk]), membership=one) for one in found]


def parts_of(person: Person, *, reader: Person) -> list[tuple[Membership, Member | None]]:
    """The person's part in every batch, the latest first; None for the counts where the reader judges blind."""
    mine = Membership.objects.filter(person=person)
    sealed = set(sealed_batches(reader).values_list("pk", flat=True))
    counts = counts_of(mine.exclude(batch__in=sealed))
    parts = mine.select_related("batch__guideline", "person").order_by("-batch__created_at", "-role")
    return [
        (one, Member(**vars(counts[one.pk]), membership=one) if one.pk in counts else None) for one in parts
    ]


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
