"""The connection to the database: lost with a restarted server or network, or lent by a pooler; and its clock."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, TypeVar

from django.conf import settings
from django.db import DatabaseError, Error, InterfaceError, OperationalError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Now

from annotation.core.shutdown import is_shutting_down

logger = logging.getLogger(__name__)
T = TypeVar("T")
PAUSE_SECONDS = 0.5
MAX_WAIT_SECONDS = 600.0
IS_POOLED = "SELECT pg_backend_pid() <> %s OR EXISTS (SELECT FROM pg_prepared_statements)"
"""The process that answers is not the one that greeted, or a new connection has a past."""
SERVER_STOPS = ("57P01", "57P02", "57P03")
SERIALIZATION_FAILURE = "40001"
DISK_FULL = "53100"
SQLITE_DISK_FULL = "SQLITE_FULL"
MAX_STATEMENT = 1000
"""Characters of a slow statement that the log has."""
MAX_SNAPSHOTS = 10
"""So often a transaction of one snapshot is begun where others keep changing the rows that it locks."""


def seconds_ago(seconds: float) -> CombinedExpression:
    """By the database's clock, which is one for all; those of web servers and workers may differ."""
    return Now() - timedelta(seconds=seconds)


def adapt_to_pooler(*, connection: BaseDatabaseWrapper, **_: Any) -> None:
    """For each new connection: behind a pooler nothing may be kept in it from one transaction to the next."""
    if connection.vendor != "postgresql" or connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"]:
        return
    opened = connection.connection
    with opened.cursor() as cursor:
        cursor.execute(IS_POOLED, [opened.info.backend_pid])
        if cursor.fetchone()[0]:
            disable_prepared_statements("it is behind a pooler")


def disable_prepared_statements(reason: str) -> None:
    """From now on this process uses neither prepared statements nor server-side cursors."""
    connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"] = True
    logger.warning(
        "PostgreSQL: %s. Nothing is prepared from now on; say so with DISABLE_SERVER_SIDE_CURSORS=true.",
        reason,
    )


def watch_statements(*, connection: BaseDatabaseWrapper, **_: Any) -> None:
    """For each new connection: a statement that takes long is a line of the log."""
    if _time_statement not in connection.execute_wrappers:
        connection.execute_wrappers.append(_time_statement)


def _time_statement(
    execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]
) -> Any:
    """Without its parameters, which may be texts and names."""
    start = time.monotonic()
    try:
        return execute(sql, params, many, context)
    finally:
        seconds = time.monotonic() - start
        if seconds >= settings.SLOW_QUERY_SECONDS:
            logger.warning("slow statement, %.2f s: %s", seconds, " ".join(str(sql).split())[:MAX_STATEMENT])


def is_connection_lost(error: BaseException) -> bool:
    """Whether the connection broke, and nothing is wrong with what was asked of the database."""
    return any(_is_of_connection(cause) for cause in _causes(error))


def is_database_full(error: BaseException) -> bool:
    """Whether the database has no room on its disk for what was asked of it. What it has stands."""
    return any(
        getattr(cause, "pgcode", "") == DISK_FULL
        or getattr(cause, "sqlite_errorname", "") == SQLITE_DISK_FULL
        for cause in _causes(error)
    )


def wait_for_database(act: Callable[[], T]) -> T:
    """Do it; where the connection breaks, do it again on a new one, for ten minutes.

    Within a transaction the error passes at once: what was written there before is gone.
    """
    end = time.monotonic() + MAX_WAIT_SECONDS
    while True:
        try:
            return act()
        except Error as error:
            is_over = time.monotonic() > end or is_shutting_down()
            if is_over or connection.in_atomic_block or not is_connection_lost(error):
                raise
            logger.warning("the database is away: %s", str(error).strip())
        connection.close()
        time.sleep(PAUSE_SECONDS)


def run_in_snapshot(act: Callable[[], T]) -> T:
    """Do it in one transaction whose statements all see the same state, whatever is committed meanwhile.

    Where a row that it locks was changed since that state, it is begun again. Within a transaction it is a part of
    that one, and sees what that one sees. SQLite has one writer at a time, so that nothing changes there.
    """
    is_outermost = not connection.in_atomic_block
    attempts = MAX_SNAPSHOTS if is_outermost else 1
    while True:
        attempts -= 1
        try:
            with transaction.atomic():
                if is_outermost and connection.vendor == "postgresql":
                    with connection.cursor() as cursor:
                        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                return act()
        except OperationalError as error:
            if not attempts or getattr(error.__cause__, "pgcode", "") != SERIALIZATION_FAILURE:
                raise


def _is_of_connection(error: BaseException) -> bool:
    """By the code of PostgreSQL, which a server that is gone does not send any more."""
    if not isinstance(error, InterfaceError | OperationalError) and type(error) is not DatabaseError:
        return False
    code = getattr(error.__cause__, "pgcode", "")
    return code is None or code.startswith("08") or code in SERVER_STOPS


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
