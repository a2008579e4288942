"""Counting along: each change of a task's state, each annotation and each skip, in the transaction that makes it.

What a member's work changes goes to the member's own row, so that nobody waits for anybody; what is changed for
the batch as a whole goes to the stratum's, under the batch's lock. The sum is exact at every moment.
"""

from __future__ import annotations

from django.db.models import F
from django.utils import timezone

from annotation.models import Assignment, Exposure, Membership, Stratum, Tally
from annotation.statements import Statement, execute, stored

COLUMNS = ("open", "agreed", "disputed", "adjudicated", "withdrawn", "submitted", "skipped")


def count_for(membership_id: int, stratum_id: int, **changes: int) -> None:
    """Add ``changes`` (by column) to the member's tally of the stratum."""
    execute(counted_for(membership_id, stratum_id, **changes))


def counted_for(membership_id: int, stratum_id: int, **changes: int) -> Statement:
    """The same as a statement to be executed with others."""
    if set(changes) - set(COLUMNS):
        raise ValueError(f"there is no such count: {sorted(set(changes) - set(COLUMNS))}")
    return Statement(UPSERT, [membership_id, stratum_id, *(changes.get(name, 0) for name in COLUMNS)])


def count_in(stratum_id: int, **changes: int) -> None:
    """Add ``changes`` (by column) to the counts of the batch as a whole; its row must be locked."""
    Stratum.objects.filter(pk=stratum_id).update(**{name: F(name) + n for name, n in changes.items()})


def counted(assignment: Assignment, **changes: int) -> Statement:
    """The same for the member who has the assignment, as a statement to be executed with others."""
    role = Membership.Role.ADJUDICATOR if assignment.is_adjudication else Membership.Role.ANNOTATOR
    return Statement(
        UPSERT_BY_PERSON,
        [
            assignment.task.stratum_id,
            *(changes.get(name, 0) for name in COLUMNS),
            assignment.batch_id,
            assignment.person_id,
            role.value,
        ],
    )


def exposed(assignment: Assignment) -> list[Statement]:
    """The points of exposure of whoever read this item, on the day that it is where the site is. The last of what is
    written at once: two items of one person meet here alone.
    """
    return exposed_to(
        assignment.person_id,
        assignment.batch.guideline.document.severity_of(assignment.task.stratum.dimension),
    )


def exposed_to(person_id: int, severity: int) -> list[Statement]:
    """Nothing at all where the severity is 0."""
    if not severity:
        return []
    return [Statement(EXPOSE, [person_id, stored(Exposure, "day", timezone.localdate()), severity])]


TABLE = Tally._meta.db_table
NAMES = ", ".join(f'"{name}"' for name in COLUMNS)
ADDED = ", ".join(f'"{name}" = {TABLE}."{name}" + excluded."{name}"' for name in COLUMNS)
PLACES = ", ".join(["%s"] * len(COLUMNS))
ON_CONFLICT = f"ON CONFLICT (membership_id, stratum_id) DO UPDATE SET {ADDED}"
UPSERT = f"INSERT INTO {TABLE} (membership_id, stratum_id, {NAMES}) VALUES (%s, %s, {PLACES}) {ON_CONFLICT}"
UPSERT_BY_PERSON = (
    f"INSERT INTO {TABLE} (membership_id, stratum_id, {NAMES}) SELECT m.id, %s, {PLACES}"
    f" FROM annotation_membership m WHERE m.batch_id = %s AND m.person_id = %s AND m.role = %s {ON_CONFLICT}"
)
EXPOSURE = Exposure._meta.db_table
EXPOSE = (
    f"INSERT INTO {EXPOSURE} (person_id, day, points) VALUES (%s, %s, %s)"
    f" ON CONFLICT (person_id, day) DO UPDATE SET points = {EXPOSURE}.points + excluded.points"
)
