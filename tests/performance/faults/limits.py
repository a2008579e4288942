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
CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static long skew(void) { const char *text = getenv("CLOCK_SKEW"); return text ? atol(text) : 0; }
int clock_gettime(clockid_t id, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(id, at);
    if (!status && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) at->tv_sec += skew();
    return status;
}
int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


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


def find_compiler() -> str | None:
    return shutil.which("cc")


def build_clock(folder: Path) -> Path:
    """A library before the C library whose clock of the day is off by CLOCK_SKEW seconds. How time goes by
    is the same; libfaketime changes the waits of Python 3.11 too, which then fail or never end.
    """
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return library


def build_clock_environment(library: Path, seconds: int) -> dict[str, str]:
    return {"LD_PRELOAD": str(library), "CLOCK_SKEW": str(seconds)}
