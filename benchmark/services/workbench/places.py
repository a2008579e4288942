"""The places of a campaign's cells that a file of proposals takes, all of them at its end.

While it is read nothing is locked: its lines count from what was taken when it began, so that one for which there is no
place is refused where it stands. What others took meanwhile counts at the end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, F

from annotation.core.errors import N_
from annotation.domain.formats.rows import FileRow
from annotation.models import Person
from benchmark.domain.workbench.campaigns import QuotaSpec
from benchmark.models import Campaign, Proposal, Quota
from benchmark.services.workbench.campaigns import set_quota

CHUNK = 200
Cell = tuple[str, str, str]
"""A dimension, a subcomponent and the name of an attack method."""


@dataclass(frozen=True)
class _Reservation:
    """A place that a stored proposal needs, and the line that it comes from."""

    row: FileRow
    proposal: UUID
    author: Person


class CellReservations:
    """Who needs a place of which cell, in the order of the file. ``extends``: a cell that is full or unknown gets the
    places that are needed of it.
    """

    def __init__(self, campaign: Campaign, *, extends: bool) -> None:
        self._campaign, self._extends = campaign, extends
        self._count = _PlaceCount(campaign, extends=extends)
        self._reservations: dict[Cell, list[_Reservation]] = defaultdict(list)

    def reserve(self, cell: Cell, row: FileRow, proposal: Proposal) -> None:
        """InputError where the cell has no place left for the author."""
        self._count.add(cell, row, proposal.author)
        self._reservations[cell].append(_Reservation(row, proposal.pk, proposal.author))

    def take(self, *, actor: Person | None) -> int:
        """Take every place that is reserved, with the quotas locked; how many quotas were extended or made. The
        campaign is locked before, as where quotas are set.
        """
        count, extended = _PlaceCount(self._campaign, extends=self._extends, locks=True), 0
        for cell, reservations in self._reservations.items():
            for reservation in reservations:
                count.add(cell, reservation.row, reservation.author)
        for cell, reservations in sorted(self._reservations.items()):
            quota, needed = count.find_quota(cell), count.build_needed(cell)
            if quota is None or (quota.wanted, quota.per_person) != (needed.wanted, needed.per_person):
                quota = set_quota(campaign=self._campaign, quota=needed, actor=actor)
                extended += 1
            Quota.objects.filter(pk=quota.pk).update(taken=F("taken") + len(reservations))
            for start in range(0, len(reservations), CHUNK):
                chunk = [reservation.proposal for reservation in reservations[start : start + CHUNK]]
                Proposal.objects.filter(pk__in=chunk).update(quota=quota)
        return extended


class _PlaceCount:
    """How many places of each cell are taken, and by whom, with those that a file adds."""

    def __init__(self, campaign: Campaign, *, extends: bool, locks: bool = False) -> None:
        self._extends = extends
        rows = Quota.objects.filter(campaign=campaign).select_related("method").order_by("pk")
        if locks:
            rows = rows.select_for_update(of=("self",))
        self._quotas = {(quota.dimension, quota.subcomponent, quota.method.name): quota for quota in rows}
        held = (
            Proposal.objects.filter(campaign=campaign, state__in=Proposal.HOLDING)
            .exclude(quota=None)
            .order_by()
            .values_list("quota", "author")
            .annotate(n=Count("pk"))
        )
        cells = {quota.pk: cell for cell, quota in self._quotas.items()}
        self._held = Counter({(cells[quota], author): n for quota, author, n in held})
        self._sizes = Counter({cell: quota.taken for cell, quota in self._quotas.items()})

    def find_quota(self, cell: Cell) -> Quota | None:
        return self._quotas.get(cell)

    def add(self, cell: Cell, row: FileRow, author: Person) -> None:
        """One more place; InputError where there is none for this author."""
        self._sizes[cell] += 1
        self._held[cell, author.pk] += 1
        if self._extends:
            return
        quota, name = self._quotas.get(cell), " / ".join(filter(None, cell))
        if quota is None:
            raise row.error(
                N_(
                    "the campaign wants no prompts of {cell}; add the cell to its quotas, or give --extend-quotas."
                ),
                field="dimension",
                cell=name,
            )
        if self._sizes[cell] > quota.wanted:
            raise row.error(
                N_("{cell} has all its {wanted} prompts; raise its quota, or give --extend-quotas."),
                field="dimension",
                cell=name,
                wanted=quota.wanted,
            )
        if quota.per_person is not None and self._held[cell, author.pk] > quota.per_person:
            raise row.error(
                N_(
                    "{author} has the {n} prompts of {cell} that one person may; raise the quota, or give"
                    " --extend-quotas."
                ),
                field="author",
                author=author.username,
                n=quota.per_person,
                cell=name,
            )

    def build_needed(self, cell: Cell) -> QuotaSpec:
        """The quota that has what is taken of the cell; no smaller than it is."""
        quota = self._quotas.get(cell)
        size, per_person = self._sizes[cell], None
        if quota is not None:
            size = max(quota.wanted, size)
            if quota.per_person is not None:
                most = max(n for (held_cell, _author), n in self._held.items() if held_cell == cell)
                per_person = max(quota.per_person, most)
        dimension, subcomponent, method = cell
        return QuotaSpec(
            dimension=dimension,
            subcomponent=subcomponent,
            method=method,
            wanted=size,
            per_person=per_person,
        )
