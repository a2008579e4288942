"""PostgreSQL, Redis and pgbouncer on ports of their own, which may be stopped, frozen and killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tests.serving import free_port, until

DATABASE = "assay"
OWNER = "postgres"
START_SECONDS = 60.0
WAL_MEGABYTES = 512


def find_binaries() -> Path | None:
    """The newest PostgreSQL that Debian installed."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))
    return folders[-1] if folders else None


def find_program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def as_user(name: str) -> list[str]:
    """PostgreSQL and pgbouncer do not run as root."""
    if os.geteuid():
        return []
    return ["setpriv", f"--reuid={name}", f"--regid={name}", "--clear-groups"]


def list_children(pid: int) -> list[int]:
    """Those of all threads, and theirs in turn."""
    children: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (thread / "children").read_text().split())
    return [*children, *(grandchild for child in children for grandchild in list_children(child))]


def is_postgres(pid: int) -> bool:
    """A number may be another process's by now."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip() == "postgres"
    return False


def send_signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


class Cluster:
    """A PostgreSQL server. ``wal`` is a folder for its log of changes, elsewhere than its data."""

    def __init__(self, folder: Path, wal: Path | None = None) -> None:
        binaries = find_binaries()
        assert binaries is not None, "there is no PostgreSQL"
        self.binaries, self.folder, self.port = binaries, folder, free_port()
        self.log = folder / "postgresql.log"
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir()
        if os.geteuid() == 0:
            for owned in filter(None, (folder, wal)):
                shutil.chown(owned, OWNER, OWNER)
        options = ["--auth=trust", f"--username={OWNER}", "--encoding=UTF8", "--locale=C.UTF-8"]
        options += [f"--waldir={wal / 'pg_wal'}"] if wal else []
        self._must(str(binaries / "initdb"), f"--pgdata={folder / 'data'}", *options)
        with (folder / "data" / "postgresql.conf").open("a") as settings:
            settings.write(
                f"port = {self.port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '{folder}'\n"
                f"max_wal_size = {WAL_MEGABYTES // 2}MB\nrestart_after_crash = on\n"
            )

    @property
    def url(self) -> str:
        return f"postgres://{OWNER}@127.0.0.1:{self.port}/{DATABASE}"

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*as_user(OWNER), str(self.binaries / "postgres"), "-D", str(self.folder / "data")],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until(self.answers, START_SECONDS, lambda: self.log.read_text(errors="replace")[-3000:])

    def answers(self) -> bool:
        command = [str(self.binaries / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command, check=False).returncode == 0

    def stop(self) -> None:
        """As an administrator stops it: open transactions are rolled back, connections end."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(START_SECONDS)
        self.process = None

    def kill(self) -> None:
        assert self.process is not None
        children = list_children(self.process.pid)
        self.process.kill()
        self.process.wait()
        # They end by themselves once they see that their parent is gone; the memory that they share must be free.
        end = time.monotonic() + 10
        while any(map(is_postgres, children)) and time.monotonic() < end:
            time.sleep(0.05)
        send_signal(filter(is_postgres, children), signal.SIGKILL)
        self.process = None

    def kill_backend(self) -> None:
        """One of the processes that serve Assay: the server then ends all of them and recovers by itself."""
        sql = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() ORDER BY backend_start LIMIT 1"
        send_signal([int(self.query(sql))], signal.SIGKILL)

    def query(self, sql: str) -> str:
        command = [
            str(self.binaries / "psql"),
            "-h",
            "127.0.0.1",
            "-p",
            str(self.port),
            "-U",
            OWNER,
            "-XAtqc",
            sql,
        ]
        return subprocess.run(
            [*command, DATABASE], check=True, capture_output=True, text=True, timeout=60
        ).stdout.strip()

    def freeze(self) -> None:
        """The first process first: else it would begin others."""
        assert self.process is not None
        send_signal([self.process.pid], signal.SIGSTOP)
        send_signal(list_children(self.process.pid), signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        send_signal([*list_children(self.process.pid), self.process.pid], signal.SIGCONT)

    def has_ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def _must(self, *command: str) -> None:
        done = subprocess.run(
            [*as_user(OWNER), *command], capture_output=True, text=True, check=False, cwd="/"
        )
        assert done.returncode == 0, done.stdout + done.stderr


class RedisServer:
    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--dir", str(self.folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        until(lambda: self.ask("ping") == "PONG", START_SECONDS)

    def ask(self, *words: str) -> str:
        command = ["redis-cli", "-p", str(self.port), *words]
        return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process = None

    def freeze(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)


class Pooler:
    """pgbouncer in transaction mode: a few connections of the server for all processes."""

    def __init__(self, folder: Path, cluster: Cluster, *, connections: int = 8) -> None:
        self.port = free_port()
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        (folder / "users").write_text(f'"{OWNER}" ""\n')
        (folder / "pgbouncer.ini").write_text(
            f"[databases]\n{DATABASE} = host=127.0.0.1 port={cluster.port} user={OWNER}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {folder}/users\npool_mode = transaction\n"
            f"default_pool_size = {connections}\nignore_startup_parameters = extra_float_digits,options\n"
        )
        as_nobody = ["-u", "nobody"] if os.geteuid() == 0 else []
        self.command = [str(find_program("pgbouncer")), "-q", *as_nobody, str(folder / "pgbouncer.ini")]
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgres://{OWNER}@127.0.0.1:{self.port}/{DATABASE}"

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        command = [f"{find_binaries()}/pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        until(lambda: subprocess.run(command, check=False).returncode == 0, START_SECONDS)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process = None
