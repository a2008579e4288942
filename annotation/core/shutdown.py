"""Whether this process, or the worker that started it, was told to stop.

A worker's main process is told, and the jobs run in its children: they share one byte, made before they are forked.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import mmap
from typing import Any, NoReturn

_FLAG = mmap(-1, 1)


def begin_shutdown() -> None:
    _FLAG[0] = 1


def end_shutdown() -> None:
    """For a process that goes on, such as that of a test."""
    _FLAG[0] = 0


def is_shutting_down() -> bool:
    return bool(_FLAG[0])


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """SIGTERM raises SystemExit, so that what is under way can be put back; for where it would end the process at once.

    A service manager sends it to the children of a worker as well.
    """
    is_free = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not is_free or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _exit(number: int, _frame: Any) -> NoReturn:
    raise SystemExit(128 + number)
