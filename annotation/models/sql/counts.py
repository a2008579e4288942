"""What is counted along: tallies of members, their exposure, and the sums that each page of the loop shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.utils import timezone

from annotation.core.sql import Statement, fetch_rows, load_object, placeholders, to_database
from annotation.models import Assignment, Exposure, Guideline, Membership
from annotation.models.sql.tables import (
    ASSIGNMENTS,
    BATCHES,
    EXPOSURES,
    GUIDELINES,
    MEMBERSHIPS,
    PEOPLE,
    STRATA,
    TALLIES,
    TASKS,
)

COUNTS = ("open", "agreed", "disputed", "adjudicated", "withdrawn", "submitted", "skipped", "revised")


def add_to_tally(membership_id: int, stratum_id: int, **changes: int) -> Statement:
    """Add ``changes`` (by column) to the member's tally of the stratum."""
    return Statement(ADD_TO_TALLY, [membership_id, stratum_id, *_by_column(changes)])


def add_to_tally_of(assignment: Assignment, **changes: int) -> Statement:
    """The same for the member who has the assignment, in the role that follows from its slot."""
    role = Membership.Role.ADJUDICATOR if assignment.is_adjudication else Membership.Role.ANNOTATOR
    stratum, batch, person = assignment.task.stratum_id, assignment.batch_id, assignment.person_id
    return Statement(ADD_TO_TALLY_OF_PERSON, [stratum, *_by_column(changes), *(batch, person, role.value)])


def _by_column(changes: Mapping[str, int]) -> list[int]:
    if unknown := set(changes).difference(COUNTS):
        raise ValueError(f"there is no such count: {sorted(unknown)}")
    return [changes.get(name, 0) for name in COUNTS]


TALLY_COLUMNS = ", ".join(["membership_id", "stratum_id", *(f'"{name}"' for name in COUNTS)])
ADDED_COUNTS = ", ".join(f'"{name}" = {TALLIES}."{name}" + excluded."{name}"' for name in COUNTS)
ON_TALLY = f"ON CONFLICT (membership_id, stratum_id) DO UPDATE SET {ADDED_COUNTS}"
ADD_TO_TALLY = (
    f"INSERT INTO {TALLIES} ({TALLY_COLUMNS}) VALUES (%s, %s, {placeholders(len(COUNTS))}) {ON_TALLY}"
)
ADD_TO_TALLY_OF_PERSON = (
    f"INSERT INTO {TALLIES} ({TALLY_COLUMNS}) SELECT m.id, %s, {placeholders(len(COUNTS))}"
    f" FROM {MEMBERSHIPS} m WHERE m.batch_id = %s AND m.person_id = %s AND m.role = %s {ON_TALLY}"
)


def add_exposure(person_id: int, severity: int) -> list[Statement]:
    """The points of exposure of whoever read an item of this severity, on the day that it is where the site is; nothing
    where the severity is 0.

    Write it last: two items of one person meet here alone.
    """
    if not severity:
        return []
    return [
        Statement(ADD_EXPOSURE, [person_id, to_database(Exposure, "day", timezone.localdate()), severity])
    ]


ADD_EXPOSURE = (
    f"INSERT INTO {EXPOSURES} (person_id, day, points) VALUES (%s, %s, %s)"
    f" ON CONFLICT (person_id, day) DO UPDATE SET points = {EXPOSURES}.points + excluded.points"
)


class ExposureNow(NamedTuple):
    """The ``points`` of today, and the guideline and the dimension of each item at hand, in whatever batch."""

    points: int
    in_progress: list[tuple[Guideline, str]]


def read_exposure(person_id: int) -> ExposureNow:
    """In one statement, because an item that is submitted meanwhile goes from what is at hand to the points."""
    today = to_database(Exposure, "day", timezone.localdate())
    now = to_database(Assignment, "lease_expires", timezone.now())
    rows = fetch_rows(EXPOSURE_NOW, [person_id, today, now, person_id])
    in_progress = [
        (load_object(Guideline, id=guideline, sha256=sha256), dimension)
        for _points, guideline, sha256, dimension in rows
        if guideline is not None
    ]
    return ExposureNow(int(rows[0][0]), in_progress)


EXPOSURE_NOW = f"""
SELECT COALESCE((SELECT e.points FROM {EXPOSURES} e WHERE e.person_id = %s AND e.day = %s), 0),
    g.id, g.sha256, s.dimension
FROM {PEOPLE} p
LEFT JOIN {ASSIGNMENTS} a
    ON a.person_id = p.id AND a.state = '{Assignment.State.CLAIMED}' AND a.lease_expires > %s
LEFT JOIN {TASKS} t ON t.id = a.task_id LEFT JOIN {STRATA} s ON s.id = t.stratum_id
LEFT JOIN {BATCHES} b ON b.id = t.batch_id LEFT JOIN {GUIDELINES} g ON g.id = b.guideline_id
WHERE p.id = %s
"""


class StratumStanding(NamedTuple):
    """How a stratum stands, and one member in it. ``every``: its tasks but for the withdrawn ones."""

    kind: str
    every: int
    open: int
    disputed: int
    submitted: int
    my_submitted: int
    my_adjudicated: int
    my_skipped: int
    needed: int


def fetch_stratum_standings(membership: Membership) -> dict[int, StratumStanding]:
    """For each stratum of the batch, in one query: each page of the annotation loop asks for it."""
    rows = fetch_rows(STANDINGS, [membership.pk, membership.pk, membership.pk, membership.batch_id])
    return {pk: StratumStanding(kind, *map(int, counts)) for pk, kind, *counts in rows}


STANDINGS = f"""
SELECT s.id, s.kind,
    s.open + s.agreed + s.disputed + s.adjudicated
        + COALESCE(SUM(t.open + t.agreed + t.disputed + t.adjudicated), 0),
    s.open + COALESCE(SUM(t.open), 0),
    s.disputed + COALESCE(SUM(t.disputed), 0),
    s.submitted + COALESCE(SUM(t.submitted), 0),
    COALESCE(SUM(CASE WHEN t.membership_id = %s THEN t.submitted END), 0),
    COALESCE(SUM(CASE WHEN t.membership_id = %s THEN t.adjudicated END), 0),
    COALESCE(SUM(CASE WHEN t.membership_id = %s THEN t.skipped END), 0),
    s.labels_needed
FROM {STRATA} s LEFT JOIN {TALLIES} t ON t.stratum_id = s.id
WHERE s.batch_id = %s GROUP BY s.id
"""


def count_by_age(
    tasks: QuerySet[Any, Any], bounds: Sequence[datetime]
) -> Iterator[tuple[str, datetime, *tuple[int, ...]]]:
    """For each topic of the ``tasks`` (rows with ``topic`` and ``since``): the oldest time, how many are younger than
    each of the ``bounds``, and how many there are. The database counts what each task is since but once.
    """
    aged, params = tasks.query.sql_with_params()
    younger = ", ".join(["COUNT(CASE WHEN since > %s THEN 1 END)"] * len(bounds))
    statement = f"SELECT topic, MIN(since), {younger}, COUNT(*) FROM ({aged}) AS waiting GROUP BY topic"
    times = [to_database(Assignment, "submitted_at", bound) for bound in bounds]
    for topic, oldest, *counts in fetch_rows(statement, [*times, *params]):
        # SQLite gives what it works out of times as text, in UTC.
        since = oldest if isinstance(oldest, datetime) else datetime.fromisoformat(oldest).replace(tzinfo=UTC)
        yield (topic, since, *counts)
