"""Who stands how far in which dimension: the matrix of a batch's board.

What is done is counted along (selectors/counts.py). The rest walks over few rows, by an index each: the claims of now,
the claims that ran out, and the disputes that wait, where these are not too many. It tells of labels: refuse whoever
the batch is sealed for before this is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from django.db.models import Count, F, Q, Sum
from django.utils import timezone

from annotation.models import ADJUDICATION_SLOT, Assignment, Batch, Membership, Tally, Task

# With more disputes than these nobody's are counted apart: each is looked up with its annotators. So with claims.
MOST_DISPUTES = 500
MOST_EXPIRED = 2_000
GIVEN_BACK = Q(state__in=[Assignment.State.RELEASED, Assignment.State.EXPIRED], skip_reason="")


@dataclass
class Cell:
    """Items of one person in one dimension. ``done``: labelled or decided; ``open``: at hand now; ``disputed``:
    labelled by them and waiting for a decision; ``expired``: their claim ran out, and they have not taken the item
    again. The last two are None where there are too many in the batch to count.
    """

    done: int = 0
    open: int = 0
    disputed: int | None = 0
    expired: int | None = 0

    def add(self, other: Cell) -> None:
        self.done += other.done
        self.open += other.open
        self.disputed = _sum(self.disputed, other.disputed)
        self.expired = _sum(self.expired, other.expired)

    @property
    def is_empty(self) -> bool:
        return not (self.done or self.open or self.disputed or self.expired)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


@dataclass
class Matrix:
    """``cells`` by person and dimension; who or what is not in it has nothing yet."""

    cells: dict[int, dict[str, Cell]] = field(default_factory=dict)
    disputes_counted: bool = True
    expired_counted: bool = True

    def at(self, person: int, dimension: str) -> Cell:
        """The cell to write to."""
        return self.cells.setdefault(person, {}).setdefault(dimension, self._nothing())

    def of(self, person: int, dimension: str) -> Cell:
        found = self.cells.get(person, {}).get(dimension)
        return found if found is not None else self._nothing()

    def of_person(self, person: int) -> Cell:
        return self._sum(self.cells.get(person, {}).values())

    def of_dimension(self, dimension: str) -> Cell:
        return self._sum(row[dimension] for row in self.cells.values() if dimension in row)

    def _sum(self, cells: Iterable[Cell]) -> Cell:
        whole = self._nothing()
        for cell in cells:
            whole.add(cell)
        return whole

    def _nothing(self) -> Cell:
        return Cell(
            disputed=0 if self.disputes_counted else None, expired=0 if self.expired_counted else None
        )


def matrix(batch: Batch, *, disputes: int) -> Matrix:
    """Four queries; ``disputes`` is how many wait in the batch."""
    expired, waiting = _expired(batch), _disputed(batch) if 0 < disputes <= MOST_DISPUTES else Counter()
    found = Matrix(disputes_counted=disputes <= MOST_DISPUTES, expired_counted=expired is not None)
    for (person, dimension), n in _done(batch).items():
        found.at(person, dimension).done = n
    for person, dimension, held, overdue in _claims(batch):
        cell = found.at(person, dimension)
        cell.open, cell.expired = held, _sum(cell.expired, overdue)
    for (person, dimension), n in (expired or {}).items():
        cell = found.at(person, dimension)
        cell.expired = _sum(cell.expired, n)
    for (person, dimension), n in waiting.items():
        found.at(person, dimension).disputed = n
    return found


def _done(batch: Batch) -> Mapping[tuple[int, str], int]:
    tallies = Tally.objects.filter(membership__batch=batch, stratum__kind=Task.Kind.WORK).order_by()
    rows = tallies.values_list("membership__person", "stratum__dimension").annotate(
        n=Sum(F("submitted") + F("adjudicated"))
    )
    return {(person, dimension): n for person, dimension, n in rows if n}


def _claims(batch: Batch) -> list[tuple[int, str, int, int]]:
    """What is claimed: at hand, and overdue already, by the index of leases."""
    now = timezone.now()
    claimed = Assignment.objects.filter(
        batch=batch, state=Assignment.State.CLAIMED, task__stratum__kind=Task.Kind.WORK
    ).order_by()
    return list(
        claimed.values_list("person", "task__stratum__dimension").annotate(
            held=Count("pk", filter=Q(lease_expires__gt=now)),
            overdue=Count("pk", filter=Q(lease_expires__lte=now)),
        )
    )


def _expired(batch: Batch) -> Counter[tuple[int, str]] | None:
    """By the index of what was given back, person by person; a claim that is taken again leaves it. None where
    there are too many.
    """
    people = list(Membership.objects.filter(batch=batch).values_list("person", flat=True).distinct())
    expired = Assignment.objects.filter(
        GIVEN_BACK,
        batch=batch,
        person__in=people,
        state=Assignment.State.EXPIRED,
        task__stratum__kind=Task.Kind.WORK,
    )
    rows = list(expired.order_by().values_list("person", "task__stratum__dimension")[: MOST_EXPIRED + 1])
    return Counter(rows) if len(rows) <= MOST_EXPIRED else None


def _disputed(batch: Batch) -> Counter[tuple[int, str]]:
    """The disputes by the index that has them, each with its annotators."""
    theirs = Assignment.objects.filter(
        task__batch=batch,
        task__state=Task.State.DISPUTED,
        task__kind=Task.Kind.WORK,
        state=Assignment.State.SUBMITTED,
        slot__lt=ADJUDICATION_SLOT,
    )
    return Counter(theirs.order_by().values_list("person", "task__stratum__dimension"))
