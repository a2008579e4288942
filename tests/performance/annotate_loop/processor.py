"""Who used the processors meanwhile: a figure that others disturbed is known by it. Linux tells, others do not."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.performance.annotate_loop.server import Server

PROC = Path("/proc")


@dataclass(frozen=True)
class Used:
    """Seconds of processor time since each began, and the time at which that was."""

    at: float
    machine: float
    generator: float
    server: Mapping[int, float]
    database: Mapping[int, float]


def used(server: Server) -> Used | None:
    if not (PROC / "stat").exists():
        return None
    own = os.times()
    return Used(
        at=time.monotonic(),
        machine=_machine(),
        generator=own.user + own.system,
        server=_processes(server.worker_ids()),
        database=_processes(_backends()),
    )


def shares(before: Used | None, after: Used | None) -> dict[str, float]:
    """The share of all processors that each took; ``others`` is what is left of their work."""
    if before is None or after is None:
        return {}
    available = (after.at - before.at) * (os.cpu_count() or 1)
    took = {
        "server": _grown(before.server, after.server),
        "database": _grown(before.database, after.database),
        "generator": after.generator - before.generator,
    }
    took["others"] = max(0.0, after.machine - before.machine - sum(took.values()))
    return {name: seconds / available for name, seconds in took.items()}


def _grown(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    return sum(seconds - before.get(process, 0.0) for process, seconds in after.items())


def _machine() -> float:
    """Without idling and waiting: user, nice, system, irq, softirq, and what a host takes for other machines."""
    fields = (PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, fields)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _processes(ids: Iterable[int]) -> dict[int, float]:
    processes = {}
    for process in ids:
        try:
            after_name = (PROC / str(process) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        processes[process] = (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")
    return processes


def _backends() -> list[int]:
    """The processes of a PostgreSQL on this machine that work on our database."""
    from django.db import connection

    if connection.vendor != "postgresql":
        return []
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
        return [pid for (pid,) in cursor.fetchall()]
