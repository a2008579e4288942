"""Writes that PostgreSQL carries out while the process prepares the next ones, all in one transaction."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self

from django.db import connection

from annotation.core.sql import Write

USUAL_INTERVAL = sys.getswitchinterval()
SHORT_INTERVAL = 0.0001
"""Seconds after which the process lets the thread have the interpreter. The thread asks for it several times for each
statement, and has hardly anything to do with it.
"""


class WriteBehind:
    """Takes the writes of a transaction block by block, and has them carried out in their order beside the process.

    A block that was added begins after the next ``reads_ahead``. Any other statement of the process waits until
    everything is carried out: it sees what was added, and no savepoint begins or ends among the writes.
    SQLite works within the process, which gains nothing by a thread: it carries each block out as it is added.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._executor: ThreadPoolExecutor | None = None
        self._added: list[Write] = []
        self._running: Future[None] | None = None
        self._is_ahead = False

    def __enter__(self) -> Self:
        if connection.vendor == "postgresql":
            self._stack.enter_context(connection.execute_wrapper(self._order))
            self._executor = self._stack.enter_context(ThreadPoolExecutor(1, "write-behind"))
            sys.setswitchinterval(SHORT_INTERVAL)
            self._stack.callback(sys.setswitchinterval, USUAL_INTERVAL)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Waits also after an error: nothing may run on the connection while the transaction is rolled back."""
        with self._stack:
            if kind is None:
                self.wait()

    def add(self, block: Sequence[Write]) -> None:
        self._added += block
        if self._executor is None:
            with connection.cursor() as cursor:
                _carry_out(self._take_added(), cursor)

    def wait(self) -> None:
        """Until everything that was added is carried out; raises what went wrong with it."""
        self._finish()
        self._begin()
        self._finish()

    @contextmanager
    def reads_ahead(self) -> Iterator[None]:
        """Statements that do not wait for the last block, which begins after them: they see what came before it.

        The process then has the connection to itself for a moment, and not for a turn among the writes of a block.
        Within another one, it is a part of that.
        """
        if self._is_ahead:
            yield
            return
        self._finish()
        self._is_ahead = True
        try:
            yield
        finally:
            self._is_ahead = False
        self._begin()

    def _order(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]
    ) -> Any:
        if not self._is_ahead:
            self.wait()
        return execute(sql, params, many, context)

    def _begin(self) -> None:
        if self._added and self._executor is not None:
            cursor = connection.connection.cursor()  # the driver's own: Django's belongs to this thread
            self._running = self._executor.submit(_carry_out, self._take_added(), cursor)

    def _finish(self) -> None:
        if self._running is not None:
            running, self._running = self._running, None
            with connection.wrap_database_errors:
                running.result()

    def _take_added(self) -> Sequence[Write]:
        added, self._added = self._added, []
        return added


def _carry_out(writes: Sequence[Write], cursor: Any) -> None:
    for write in writes:
        write.run(cursor)
