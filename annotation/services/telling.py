"""How far a job is that works in one long transaction."""

from __future__ import annotations

import logging
import threading
from contextlib import closing

from django.db import Error, connection

from annotation.services import jobs

logger = logging.getLogger(__name__)
TELL_SECONDS = 0.5


class Teller:
    """Says how far the job is, from a thread with a connection of its own: what the transaction writes, nobody sees
    before its end. SQLite has one writer at a time, so there nothing is told until the transaction is over.
    """

    def __init__(self, context: jobs.JobContext) -> None:
        self._context = context
        self._done, self._stage = 0.0, ""
        self._ended: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._can_tell = connection.vendor != "sqlite"

    def __enter__(self) -> Teller:
        if self._can_tell:
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        if self._can_tell:
            self._thread.join()

    def tell(self, done: float, stage: str = "") -> None:
        """Raises what the last report raised: Cancelled, LostJob or Interrupted."""
        self._done, self._stage = done, stage or self._stage
        if self._ended is not None:
            raise self._ended

    def _run(self) -> None:
        with closing(connection):
            while not self._stop.wait(TELL_SECONDS):
                try:
                    self._context.try_report(self._done, self._stage)
                except (jobs.Cancelled, jobs.LostJob, jobs.Interrupted) as error:
                    self._ended = error
                    return
                except Error as error:  # the next one, on a new connection, may come through
                    logger.warning("could not tell how far a job is: %s", error)
                    connection.close()
