"""Counting along: each change of a task's state, each annotation and each skip, in the transaction that makes it.

What a member's work changes goes to the member's own row, so that nobody waits for anybody; what is changed for
the batch as a whole goes to the stratum's, under the batch's lock. The sum is exact at every moment.
"""

from __future__ import annotations

from django.db import connection
from django.db.models import F

from annotation.models import Stratum, Tally

COLUMNS = ("open", "agreed", "disputed", "adjudicated", "withdrawn", "submitted", "skipped")


def count_for(membership_id: int, stratum_id: int, **changes: int) -> None:
    """Add ``changes`` (by column) to the member's tally of the stratum."""
    if set(changes) - set(COLUMNS):
        raise ValueError(f"there is no such count: {sorted(set(changes) - set(COLUMNS))}")
    with connection.cursor() as cursor:
        cursor.execute(UPSERT, [membership_id, stratum_id, *(changes.get(name, 0) for name in COLUMNS)])


def count_in(stratum_id: int, **changes: int) -> None:
    """Add ``changes`` (by column) to the counts of the batch as a whole; its row must be locked."""
    Stratum.objects.filter(pk=stratum_id).update(**{name: F(name) + n for name, n in changes.items()})


def _upsert() -> str:
    table, quote = Tally._meta.db_table, connection.ops.quote_name
    names = ", ".join(map(quote, COLUMNS))
    added = ", ".join(f"{quote(name)} = {table}.{quote(name)} + excluded.{quote(name)}" for name in COLUMNS)
    return (
        f"INSERT INTO {table} (membership_id, stratum_id, {names})"  # noqa: S608  # our own names alone
        f" VALUES (%s, %s{', %s' * len(COLUMNS)}) ON CONFLICT (membership_id, stratum_id) DO UPDATE SET {added}"
    )


UPSERT = _upsert()
