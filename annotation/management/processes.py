"""Child processes that live as long as this one: started together, restarted when they die, stopped together."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from annotation.core.errors import N_, AssayError

PATIENCE = 8.0
TOO_SOON = 10.0
MAX_EARLY_DEATHS = 3


@dataclass
class Child:
    """One command. Each child leads a process group, so that what it started ends with it."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    early_deaths: int = 0
    started: float = 0.0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        self.process = subprocess.Popen(  # noqa: S603 (a command of the product's own)
            self.command, env=dict(self.environment), stdin=subprocess.DEVNULL, start_new_session=True
        )
        self.started = time.monotonic()

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def revive(self) -> bool:
        """Start a dead child again; True if it was dead. A child that cannot live is an error."""
        if self.is_alive:
            return False
        self.sweep()
        self.early_deaths = self.early_deaths + 1 if time.monotonic() - self.started < TOO_SOON else 0
        if self.early_deaths >= MAX_EARLY_DEATHS:
            raise AssayError(
                N_("The {name} process dies as soon as it starts; see what it said above."), name=self.name
            )
        self.start()
        return True

    def ask_to_stop(self) -> None:
        if self.process is not None and self.is_alive:
            self.process.terminate()

    def sweep(self) -> None:
        """End whatever is left of the child's group."""
        if self.process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def stop(children: Sequence[Child], *, patience: float = PATIENCE) -> None:
    """Ask all of them, wait a little, and leave nothing behind."""
    for child in children:
        child.ask_to_stop()
    end = time.monotonic() + patience
    while any(child.is_alive for child in children) and time.monotonic() < end:
        time.sleep(0.05)
    for child in children:
        child.sweep()
