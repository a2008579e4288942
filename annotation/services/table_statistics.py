"""What PostgreSQL's planner knows of tables, brought up to date when many rows were written at once.

Until autovacuum has looked, which may be a minute, it plans for the tables as they were: a report on a batch that was
just imported then reads every row of one table for each row of another.
"""

from __future__ import annotations

from django.db import connection, transaction
from django.db.models import Model

from annotation.core import sql

MIN_ROWS = 1000
MAX_GROWTH = 10
"""A table with more than so many times the rows that were written changed too little to be looked at."""


def refresh_statistics(*models: type[Model], rows: int) -> None:
    """Look at the tables of these models if so many rows changed them much.

    After the commit: ANALYZE keeps a lock until the end of its transaction, and two imports would wait for each other.
    What was written is not undone where it fails.
    """
    if rows >= MIN_ROWS and connection.vendor == "postgresql":

        def analyze() -> None:
            if tables := sql.find_grown_tables(models, rows=rows * MAX_GROWTH):
                sql.analyze_tables(tables)

        transaction.on_commit(analyze, robust=True)
