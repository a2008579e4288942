"""Who stands how far in which dimension: the matrix of a batch's board.

What is done is counted along (selectors/counts.py). The rest walks over few rows, by an index each: the claims of now,
the claims that ran out, and the disputes that wait, where these are not too many. It tells of labels: refuse whoever
the batch is sealed for before this is asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from django.db.models import Count, F, Q, Sum
from django.utils import timezone

from annotation.models import ADJUDICATION_SLOT, Assignment, Batch, Membership, Tally, Task

# With more disputes than these nobody's are counted apart: each is looked up with its annotators.
MOST_DISPUTES = 5_000
GIVEN_BACK = Q(state__in=[Assignment.State.RELEASED, Assignment.State.EXPIRED], skip_reason="")


@dataclass
class Cell:
    """Items of one person in one dimension. ``done``: labelled or decided; ``open``: at hand now; ``disputed``:
    labelled by them and waiting for a decision, None where too many wait; ``expired``: their claim ran out, and they
    have not taken the item again.
    """

    done: int = 0
    open: int = 0
    disputed: int | None = 0
    expired: int = 0

    def add(self, other: Cell) -> None:
        self.done += other.done
        self.open += other.open
        self.expired += other.expired
        both = self.disputed is not None and other.disputed is not None
        self.disputed = (self.disputed or 0) + (other.disputed or 0) if both else None

    @property
    def is_empty(self) -> bool:
        return not (self.done or self.open or self.disputed or self.expired)


@dataclass
class Matrix:
    """``cells`` by person and dimension; who or what is not in it has nothing yet."""

    cells: dict[int, dict[str, Cell]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(Cell)))
    disputes_counted: bool = True

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
        return Cell(disputed=0 if self.disputes_counted else None)


def matrix(batch: Batch, *, disputes: int) -> Matrix:
    """Four queries; ``disputes`` is how many wait in the batch."""
    found = Matrix(disputes_counted=disputes <= MOST_DISPUTES)
    for (person, dimension), n in _done(batch).items():
        found.cells[person][dimension].done = n
    for person, dimension, held, overdue in _claims(batch):
        cell = found.cells[person][dimension]
        cell.open, cell.expired = held, overdue
    for person, dimension, n in _expired(batch):
        found.cells[person][dimension].expired += n
    for person, dimension, n in _disputed(batch) if disputes and found.disputes_counted else ():
        found.cells[person][dimension].disputed = n
    if not found.disputes_counted:
        for row in found.cells.values():
            for cell in row.values():
                cell.disputed = None
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
    claimed = Assignment.objects.filter(batch=batch, state=Assignment.State.CLAIMED).order_by()
    return list(
        claimed.values_list("person", "task__stratum__dimension").annotate(
            held=Count("pk", filter=Q(lease_expires__gt=now)),
            overdue=Count("pk", filter=Q(lease_expires__lte=now)),
        )
    )


def _expired(batch: Batch) -> list[tuple[int, str, int]]:
    """By the index of what was given back, person by person; a claim that is taken again leaves it."""
    people = list(Membership.objects.filter(batch=batch).values_list("person", flat=True).distinct())
    expired = Assignment.objects.filter(
        GIVEN_BACK, batch=batch, person__in=people, state=Assignment.State.EXPIRED
    )
    return list(expired.order_by().values_list("person", "task__stratum__dimension").annotate(n=Count("pk")))


def _disputed(batch: Batch) -> list[tuple[int, str, int]]:
    """The disputes by the index that has them, each with its annotators."""
    theirs = Assignment.objects.filter(
        task__batch=batch,
        task__state=Task.State.DISPUTED,
        task__kind=Task.Kind.WORK,
        state=Assignment.State.SUBMITTED,
        slot__lt=ADJUDICATION_SLOT,
    )
    return list(theirs.order_by().values_list("person", "task__stratum__dimension").annotate(n=Count("pk")))
