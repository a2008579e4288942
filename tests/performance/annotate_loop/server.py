"""The real server in a process group of its own, as docs/production.md starts it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from tests.performance.annotate_loop.client import Client, ConnectionLost

ROOT = Path(__file__).resolve().parents[3]
START_WITHIN = 60.0
STOP_WITHIN = 10.0


class Server:
    def __init__(self, *, workers: int, threads: int, log: Path) -> None:
        self.workers, self.threads, self.log = workers, threads, log
        self.port = _free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Server:
        options = ["--config", "config/gunicorn.py", "--threads", str(self.threads)]
        options += [
            "--workers",
            str(self.workers),
            "--bind",
            f"127.0.0.1:{self.port}",
            "--log-level",
            "warning",
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gunicorn", *options],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_WITHIN)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None

    def worker_ids(self) -> list[int]:
        """The process ids of the workers, without the master."""
        if self.process is None:
            return []
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
        pairs = [line.split() for line in listed.stdout.splitlines()]
        return [int(pid) for pid, parent in pairs if int(parent) == self.process.pid]

    def _wait(self) -> None:
        assert self.process is not None
        end = time.monotonic() + START_WITHIN
        while time.monotonic() < end and self.process.poll() is None:
            with suppress(ConnectionLost):
                client = Client(self.port, {})
                client.send("GET", "/sign-in/")
                client.close()
                return
            time.sleep(0.1)
        raise SystemExit(f"The server does not answer:\n{self.log.read_text()[-2000:]}")


class Killer(threading.Thread):
    """Ends one worker after the other with SIGKILL, every ``seconds``; the master starts them again."""

    def __init__(self, server: Server, seconds: float) -> None:
        super().__init__(daemon=True)
        self.server, self.seconds = server, seconds
        self.killed = 0
        self._enough = threading.Event()

    def run(self) -> None:
        while not self._enough.wait(self.seconds):
            workers = sorted(self.server.worker_ids())
            if workers:
                with suppress(ProcessLookupError):
                    os.kill(workers[0], signal.SIGKILL)  # the oldest: each gets its turn
                    self.killed += 1

    def stop(self) -> None:
        self._enough.set()
        self.join()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
