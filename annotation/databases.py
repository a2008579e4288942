"""The connection to the database, which a restarted server or a broken network takes away."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TypeVar

from django.db import DatabaseError, Error, InterfaceError, OperationalError, connection
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Now

from annotation.shutdown import is_shutting_down

logger = logging.getLogger(__name__)
T = TypeVar("T")
PAUSE_SECONDS = 0.5
MAX_WAIT_SECONDS = 600.0
SERVER_STOPS = ("57P01", "57P02", "57P03")


def seconds_ago(seconds: float) -> CombinedExpression:
    """By the database's clock, which is one for all; those of web servers and workers may differ."""
    return Now() - timedelta(seconds=seconds)


def is_connection_lost(error: BaseException) -> bool:
    """Whether the connection broke, and nothing is wrong with what was asked of the database."""
    return any(_is_of_connection(cause) for cause in _causes(error))


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
