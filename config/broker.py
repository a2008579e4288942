"""Messages as files, for an installation without Redis: kombu's transport, whose files are whole when they appear.

Kombu writes a message, and the table of queues, into the file that others read already: who looks in between finds it
empty, and a worker ends with a JSON error (https://github.com/celery/kombu/issues/1551). Here a file gets its name when
it is written. What is unreadable all the same, because an older version was killed while it wrote, is passed over: a
message is only a hint that there is a job (docs/decisions/jobs-are-rows.md).
"""

from __future__ import annotations

import logging
import os
from fcntl import LOCK_EX, flock
from pathlib import Path
from time import time_ns
from typing import Any
from uuid import uuid4

from kombu.exceptions import ChannelError
from kombu.transport import filesystem
from kombu.utils.json import dumps

logger = logging.getLogger(__name__)


class Channel(filesystem.Channel):
    def _put(self, queue: str, payload: Any, **_options: Any) -> None:  # type: ignore[override]
        """In the order of the clock, as the reader sorts them."""
        _write(Path(self.data_folder_out) / f"{time_ns()}_{uuid4()}.{queue}.msg", dumps(payload))

    def _get(self, queue: str) -> Any:  # type: ignore[override]
        while True:
            try:
                return super()._get(queue)
            except ValueError:  # the file is gone from the folder by now
                logger.warning("A message that was not whole has been passed over.")

    def get_table(self, exchange: str) -> list[Any]:
        try:
            return list(super().get_table(exchange))
        except ValueError:
            return []

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str | None, queue: str) -> None:
        file = self._exchange_file(exchange)  # type: ignore[attr-defined]
        self.control_folder.mkdir(exist_ok=True)
        with (self.control_folder / f"{exchange}.lock").open("w") as guard:
            flock(guard, LOCK_EX)  # until it is closed
            bound = self.get_table(exchange)
            binding = filesystem.exchange_queue_t(routing_key or "", pattern or "", queue or "")
            if binding not in bound:
                _write(file, dumps([binding, *bound]))


class Transport(filesystem.Transport):
    Channel = Channel


def _write(file: Path, text: str) -> None:
    unfinished = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(file)
    except OSError as error:
        raise ChannelError(f"Cannot write {file}") from error
