"""The processes of Assay as the units of config/systemd start them, started again as systemd does when they end."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.performance.faults.limits import Disks
from tests.performance.faults.machinery import Cluster, RedisServer, list_children, send_signal
from tests.serving import ROOT, answers, free_port, until

UNITS = ROOT / "config" / "systemd"
INSTALLED = "/opt/assay/.venv/bin/"
BIND = "127.0.0.1:8000"
WEB, WORKER, TRAINER, BEAT = "web", "worker", "trainer", "beat"
TOKEN = "a-token-of-sixteen-characters"
START_SECONDS = 90.0


def read_unit(name: str) -> Mapping[str, str]:
    unit = ConfigParser(strict=False, interpolation=None, delimiters="=")
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNITS / f"assay-{name}.service")
    return unit["Service"]


def read_command(name: str, port: int) -> list[str]:
    """What the unit starts, by this Python and on this port."""
    binaries = Path(sys.executable).parent
    words = read_unit(name)["ExecStart"].replace("%%", "%").split()
    return [word.replace(INSTALLED, f"{binaries}/").replace(BIND, f"127.0.0.1:{port}") for word in words]


class Service:
    """A process in a group of its own. What is left of the group when it ends is killed, as systemd does."""

    def __init__(self, name: str, command: list[str], environment: Mapping[str, str], log: Path) -> None:
        unit = read_unit(name)
        self.name, self.command, self.environment, self.log = name, command, dict(environment), log
        self.restart_seconds = float(unit["RestartSec"])
        self.stop_seconds = float(unit["TimeoutStopSec"])
        self.more_environment: dict[str, str] = {}
        self.restarts = 0
        """How often it ended though nobody stopped it."""
        self.process: subprocess.Popen[bytes] | None = None
        self._ends = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._supervise, args=[self._ends], daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """As an administrator stops it."""
        self._ends.set()
        with self._lock:
            process = self.process
        if process is not None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(self.stop_seconds)
            self._end_group(process)
        if self._thread is not None:
            self._thread.join()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def list_pids(self) -> list[int]:
        return [self.pid, *list_children(self.pid)]

    def kill(self) -> None:
        """The first process alone, by a signal that nobody can catch."""
        send_signal([self.pid], signal.SIGKILL)

    def _supervise(self, ends: threading.Event) -> None:
        while not ends.is_set():
            with self._lock, self.log.open("ab") as log:
                if ends.is_set():
                    return
                self.process = process = subprocess.Popen(
                    self.command,
                    cwd=ROOT,
                    env={**self.environment, **self.more_environment},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            process.wait()
            self._end_group(process)
            self.restarts += not ends.is_set()
            ends.wait(self.restart_seconds)

    @staticmethod
    def _end_group(process: subprocess.Popen[bytes]) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Site:
    """All of it: the database, the broker, and four services with one data folder."""

    def __init__(self, folder: Path, cluster: Cluster, redis: RedisServer, disks: Disks) -> None:
        self.folder, self.cluster, self.redis, self.disks = folder, cluster, redis, disks
        self.port = free_port()
        (folder / "temporary").mkdir()
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")},
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "DATABASE_URL": cluster.url,
            "CELERY_BROKER_URL": redis.url,
            "SECRET_KEY": secrets.token_urlsafe(50),
            "ASSAY_DATA_DIR": str(disks.data.folder),
            "ASSAY_STATIC_ROOT": str(folder / "static"),
            "ASSAY_METRICS_TOKEN": TOKEN,
            "LOG_FORMAT": "json",
            "LOG_LEVEL": "INFO",
            "TMPDIR": str(folder / "temporary"),
        }
        self.services = {
            name: Service(name, read_command(name, self.port), self.environment, folder / f"{name}.log")
            for name in (WEB, WORKER, TRAINER, BEAT)
        }

    @contextmanager
    def running(self) -> Iterator[None]:
        try:
            for service in self.services.values():
                service.start()
            self.wait_for_web()
            yield
        finally:
            for service in reversed(self.services.values()):
                service.stop()

    def wait_for_web(self) -> None:
        log = self.services[WEB].log
        until(
            lambda: answers(self.port) == 200, START_SECONDS, lambda: log.read_text(errors="replace")[-3000:]
        )

    def restart(self, *names: str, **environment: str) -> None:
        """With this in their environment beside what they always have."""
        for name in names:
            self.services[name].stop()
            self.services[name].more_environment = environment
            self.services[name].start()
        if WEB in names:
            self.wait_for_web()

    def manage(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env={**self.environment, "LOG_LEVEL": "ERROR", **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def read_logs(self) -> dict[str, str]:
        return {name: service.log.read_text(errors="replace") for name, service in self.services.items()}
