"""Disks that are full and memory that is short: what Linux gives root for it, and why it does not where it does not."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

DISK_SIZE = "3g"
"""What nobody writes takes no memory; the doctor warns below 2 GiB."""
CGROUPS = Path("/sys/fs/cgroup")
PRELOADS = "/usr/lib/*/faketime/libfaketime.so.1"


class Disk:
    """A folder in memory that may be full: its size becomes what is in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_SIZE}", "assay-faults", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.why_absent = done.stderr.strip() if done.returncode else ""

    def fill(self) -> None:
        self._resize(str(max(4096, shutil.disk_usage(self.folder).used)))

    def empty(self) -> None:
        self._resize(DISK_SIZE)

    def remove(self) -> None:
        if not self.why_absent:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=False)

    def _resize(self, size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", str(self.folder)], check=True)


@dataclass(frozen=True)
class Disks:
    """Where the data folder, PostgreSQL's log of changes and a tablespace of it lie."""

    data: Disk
    wal: Disk
    tablespace: Disk


class MemoryGroup:
    """A control group of Linux with a limit of memory, of its first or its second version."""

    def __init__(self, name: str) -> None:
        first = CGROUPS / "memory"
        self.is_first = first.is_dir()
        self.folder = (first if self.is_first else CGROUPS) / name
        self.why_absent = ""
        try:
            self.folder.mkdir(exist_ok=True)
            self._limit_file.read_text()
        except OSError as error:
            self.why_absent = f"{self.folder}: {error.strerror}"

    @property
    def _limit_file(self) -> Path:
        return self.folder / ("memory.limit_in_bytes" if self.is_first else "memory.max")

    def hold(self, pids: Iterable[int], *, megabytes: int) -> None:
        """From now on these processes get so much beyond what they have."""
        for pid in pids:
            with suppress(ProcessLookupError):
                (self.folder / "cgroup.procs").write_text(str(pid))
        self._limit_file.write_text(str(megabytes * 1024 * 1024))

    def count_kills(self) -> int:
        file = self.folder / ("memory.oom_control" if self.is_first else "memory.events")
        rows = (line.split() for line in file.read_text().splitlines())
        return int({row[0]: row[1] for row in rows}.get("oom_kill", 0))

    def release(self) -> None:
        with suppress(OSError):
            self._limit_file.write_text("-1" if self.is_first else "max")

    def remove(self) -> None:
        """The processes in it go back to where they were."""
        if self.why_absent:
            return
        with suppress(OSError):
            for pid in (self.folder / "cgroup.procs").read_text().split():
                with suppress(OSError):
                    (self.folder.parent / "cgroup.procs").write_text(pid)
            self.folder.rmdir()


def find_clock_library() -> Path | None:
    return next(iter(sorted(Path("/").glob(PRELOADS.lstrip("/")))), None)


def build_clock_environment(seconds: int) -> dict[str, str]:
    """For a process whose clock differs by so much from the machine's; how time goes by is the same."""
    library = find_clock_library()
    assert library is not None
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": f"{seconds:+d}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_NO_CACHE": "1",
    }
