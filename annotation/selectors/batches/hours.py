"""How long people have worked in a study, and how long what is left will take them at the pace that they have had."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from django.db.models import Count, QuerySet, Sum

from annotation.domain.releases.gold_file import csv_cell, csv_writer
from annotation.models import Adjudication, Annotation, Batch, Membership, Person, Task
from annotation.selectors.access import sealed_batches
from annotation.selectors.batches.members import PLANNING, count_still_planned
from annotation.selectors.batches.progress import count_needed_labels, expect_disputes
from annotation.selectors.counts import count_by_stratum

HOUR = 3600
HEADER = (
    "person",
    "display_name",
    "role",
    "submitted",
    "timed",
    "hours_worked",
    "seconds_per_item",
    "items_left",
    "hours_left",
)
Place = tuple[int, str]
"""The id of a person, or of a batch, and the role."""


@dataclass(frozen=True)
class HoursRow:
    """One person in one role. ``submitted`` counts what they sent, corrections too, and ``timed`` what of it has its
    ``seconds``, which are added up. ``left`` is the number of items that is expected to fall to them, ``pace`` the mean
    seconds of their timed items, of everybody's in the role where they have none; None where nobody has.
    """

    person: Person
    role: str
    submitted: int
    timed: int
    seconds: float
    left: float
    pace: float | None

    @property
    def seconds_left(self) -> float | None:
        return None if self.pace is None and self.left else self.left * (self.pace or 0)


@dataclass(frozen=True)
class HoursReport:
    """``to_come`` is how many disputes are expected among the tasks that still lack labels. ``is_partial``: the batches
    in which the reader works are left out.
    """

    rows: tuple[HoursRow, ...]
    labels_left: int
    disputes_waiting: int
    to_come: float
    is_partial: bool

    @property
    def seconds(self) -> float:
        return sum(row.seconds for row in self.rows)

    @property
    def seconds_left(self) -> float:
        """Of those whose pace is known."""
        return sum(row.seconds_left or 0 for row in self.rows)

    @property
    def is_lower_bound(self) -> bool:
        """Whether somebody has items left, and nobody in their role was timed."""
        return any(row.seconds_left is None for row in self.rows)


def measure_hours(reader: Person) -> HoursReport:
    """Of the batches in the reader's scope; of those that are open or paused also what is left.

    In a pool the labels that are left are shared equally among its active annotators, and so are everywhere the
    disputes among the adjudicators: those that wait, and those to come at the batch's rate so far.
    """
    sealed = sealed_batches(reader)
    batches = Batch.objects.exclude(pk__in=sealed.values("pk"))
    working = list(batches.filter(state__in=(Batch.State.OPEN, Batch.State.PAUSED)))
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for stratum, of_stratum in count_by_stratum([batch.pk for batch in working]).items():
        counts[stratum.batch_id].update(of_stratum)
    left: dict[Place, float] = defaultdict(float)
    labels_left = {batch.pk: _count_labels_left(batch, counts[batch.pk]) for batch in working}
    to_come = {batch.pk: expect_disputes(counts[batch.pk]) for batch in working}
    working_members = _list_working_members(working)
    for batch in working:
        disputes = counts[batch.pk][Task.State.DISPUTED] + to_come[batch.pk]
        _share(left, working_members, batch, Membership.Role.ADJUDICATOR, disputes)
        if batch.pairing not in PLANNING:
            _share(left, working_members, batch, Membership.Role.ANNOTATOR, labels_left[batch.pk])
    members = Membership.objects.filter(batch__in=batches)
    people = set(members.values_list("person", flat=True))
    for person, number in count_still_planned(
        people, without=list(sealed.values_list("pk", flat=True))
    ).items():
        left[person, Membership.Role.ANNOTATOR] += number
    done: dict[str, dict[int, tuple[int, int, float]]] = {
        Membership.Role.ANNOTATOR: _sum_seconds(Annotation.objects.filter(assignment__batch__in=batches)),
        Membership.Role.ADJUDICATOR: _sum_seconds(Adjudication.objects.filter(assignment__batch__in=batches)),
    }
    return HoursReport(
        rows=tuple(_build_rows(left, done)),
        labels_left=sum(labels_left.values()),
        disputes_waiting=sum(counts[batch.pk][Task.State.DISPUTED] for batch in working),
        to_come=sum(to_come.values()),
        is_partial=sealed.exists(),
    )


def _count_labels_left(batch: Batch, counts: Counter[str]) -> int:
    return max(0, count_needed_labels(batch, counts) - counts["submitted"])


def _list_working_members(batches: Iterable[Batch]) -> Mapping[Place, list[int]]:
    """By batch and role, the people who are active there."""
    members: dict[Place, list[int]] = defaultdict(list)
    rows = Membership.objects.filter(batch__in=[batch.pk for batch in batches], active=True)
    for batch, role, person in rows.values_list("batch", "role", "person"):
        members[batch, role].append(person)
    return members


def _share(
    left: dict[Place, float], members: Mapping[Place, list[int]], batch: Batch, role: str, items: float
) -> None:
    people = members.get((batch.pk, role), [])
    for person in people:
        left[person, role] += items / len(people)


def _sum_seconds(
    rows: QuerySet[Annotation] | QuerySet[Adjudication],
) -> dict[int, tuple[int, int, float]]:
    """By person: how many, how many of them timed, and their seconds together."""
    sums = (
        rows.order_by()
        .values_list("assignment__person")
        .annotate(Count("pk"), Count("seconds"), Sum("seconds"))
    )
    return {person: (number, timed, seconds or 0.0) for person, number, timed, seconds in sums}


def _build_rows(
    left: Mapping[Place, float], done: Mapping[str, Mapping[int, tuple[int, int, float]]]
) -> Iterator[HoursRow]:
    places = {*left, *((person, role) for role, by_person in done.items() for person in by_person)}
    people = Person.objects.in_bulk({person for person, _role in places})
    for role in (Membership.Role.ANNOTATOR, Membership.Role.ADJUDICATOR):
        usual = _find_pace(done[role].values())
        members = [people[person] for person, own_role in places if own_role == role]
        for member in sorted(members, key=lambda member: member.username):
            submitted, timed, seconds = done[role].get(member.pk, (0, 0, 0.0))
            pace = seconds / timed if timed else usual
            yield HoursRow(member, role, submitted, timed, seconds, left.get((member.pk, role), 0), pace)


def _find_pace(sums: Iterable[tuple[int, int, float]]) -> float | None:
    parts = list(sums)
    timed = sum(number for _submitted, number, _seconds in parts)
    return sum(seconds for _submitted, _number, seconds in parts) / timed if timed else None


def iterate_csv_lines(report: HoursReport) -> Iterator[str]:
    """A line for each person in each role, under a header; no text starts a formula (``safe_cell``)."""
    line = csv_writer()
    yield line(HEADER)
    for row in report.rows:
        cells = (
            row.person.username,
            row.person.display_name,
            row.role,
            row.submitted,
            row.timed,
            _round(row.seconds / HOUR),
            _round(row.pace),
            _round(row.left),
            _round(None if row.seconds_left is None else row.seconds_left / HOUR),
        )
        yield line([csv_cell(cell) for cell in cells])


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
