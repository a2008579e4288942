"""The database's clock."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import connection

CLOCK = {"postgresql": "SELECT clock_timestamp()", "sqlite": "SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')"}


def read_clock() -> datetime:
    """The time now, which within a transaction is later than that of its beginning."""
    with connection.cursor() as cursor:
        cursor.execute(CLOCK[connection.vendor])
        now = cursor.fetchone()[0]
    return now if isinstance(now, datetime) else datetime.fromisoformat(now).replace(tzinfo=UTC)
