"""The signs of life of beat and of the workers, which the database keeps for all machines, by its own clock.

They stand in the table of the cache, which forgets the rows of processes that are gone. The heartbeat of a job tells of
one that works; these tell of one that waits, and of beat, whose end nobody else notices. Beat runs without the models
(config/beat.py), so they are written without them; annotation/selectors/operations/signs.py reads them.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import Error, connection

logger = logging.getLogger(__name__)

BEAT = "beat"
WORKER = "worker"
KEY = "sign:{kind}:{name}"
FORGOTTEN_AFTER = timedelta(days=1)
"""An entry expires so long after the sign that it is of, and tells thereby when that was."""
SIGN_SECONDS = 10
BEAT_TASK = "annotation.sweep_jobs"
"""What beat sends most often."""
_EXPIRES = {
    "postgresql": "now() + interval '1 day'",
    "sqlite": "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '+1 day')",
}
_beat_is_due_at = 0.0


def leave_sign(kind: str, name: str, queues: Sequence[str] = ()) -> None:
    """This process lives now, and takes from these queues."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {_quote_table()} (cache_key, value, expires)"
            f" VALUES (%s, %s, {_EXPIRES[connection.vendor]})"
            " ON CONFLICT (cache_key) DO UPDATE SET value = excluded.value, expires = excluded.expires",
            [KEY.format(kind=kind, name=name), " ".join(queues)],
        )


def withdraw_sign(kind: str, name: str) -> None:
    """This process ends, as it was told to: nobody need look for it."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"DELETE FROM {_quote_table()} WHERE cache_key = %s", [KEY.format(kind=kind, name=name)]
        )


def _quote_table() -> str:
    caches: Mapping[str, Any] = settings.CACHES
    return connection.ops.quote_name(caches["default"]["LOCATION"])


def leave_sign_of_beat() -> None:
    """For each message that it sends; written down every ``SIGN_SECONDS``."""
    global _beat_is_due_at  # noqa: PLW0603 (of this process)
    if time.monotonic() < _beat_is_due_at:
        return
    _beat_is_due_at = time.monotonic() + SIGN_SECONDS
    _try(partial(leave_sign, BEAT, socket.gethostname()))


class SignThread:
    """Leaves a sign every ``SIGN_SECONDS``, on a connection of its own that is not kept open in between: the pool of a
    worker is forked from its process at any time.
    """

    def __init__(self, kind: str, name: str, queues: Sequence[str] = ()) -> None:
        self._leave = partial(leave_sign, kind, name, queues)
        self._withdraw = partial(withdraw_sign, kind, name)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"sign of {kind}")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            _try(self._leave)
            if self._stop.wait(SIGN_SECONDS):
                _try(self._withdraw)
                return


def _try(act: Callable[[], None]) -> None:
    with closing(connection):
        try:
            act()
        except Error as error:  # the next one may come through
            logger.debug("no sign of this process: %s", error)
