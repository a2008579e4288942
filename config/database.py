"""What the processes that serve requests ask of PostgreSQL, and workers and commands do not."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created


def limit_statements() -> None:
    """End every statement after ``ASSAY_STATEMENT_SECONDS``: said once to each new connection, so no request asks.

    Call it after ``django.setup``: whether there is a pooler is found out first (annotation/core/databases.py).
    """
    connection_created.connect(_set_limit)


def _set_limit(*, connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Not behind a pooler that hands connections round: it would give the limited connection to a worker."""
    if connection.vendor == "postgresql" and not connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"]:
        with connection.connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('statement_timeout', %s, false)", [f"{settings.STATEMENT_SECONDS}s"]
            )
