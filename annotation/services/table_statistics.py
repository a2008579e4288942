"""What PostgreSQL's planner knows of tables, brought up to date when many rows were written at once.

Until autovacuum has looked, which may be a minute, it plans for the tables as they were: a report on a batch that was
just imported then reads every row of one table for each row of another.
"""

from __future__ import annotations

from django.db import connection, transaction
from django.db.models import Model

MANY = 1000
SCALE = 10
"""A table with more than so many times the rows that were written changed too little to be looked at."""
CHANGED = "SELECT oid::regclass::text FROM pg_class WHERE oid = ANY(%s::regclass[]) AND reltuples < %s"


def refresh_statistics(*models: type[Model], rows: int) -> None:
    """Look at the tables of these models if so many rows changed them much.

    After the commit: ANALYZE keeps a lock until the end of its transaction, and two imports would wait for each other.
    What was written is not undone where it fails.
    """
    if rows >= MANY and connection.vendor == "postgresql":
        tables = [model._meta.db_table for model in models]

        def analyze() -> None:
            _analyze(tables, rows)

        transaction.on_commit(analyze, robust=True)


def _analyze(tables: list[str], rows: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(CHANGED, [tables, rows * SCALE])
        if changed := [name for (name,) in cursor.fetchall()]:
            cursor.execute(f"ANALYZE {', '.join(sorted(changed))}")
