"""The faults: each is brought about, held, and mended; the scene counts what came of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from signal import SIGKILL

from tests.performance.annotate_loop.checks import Check
from tests.performance.faults import limits
from tests.performance.faults.limits import Disk, MemoryGroup
from tests.performance.faults.machinery import (
    OWNER,
    Cluster,
    Pooler,
    find_program,
    list_children,
    send_signal,
)
from tests.performance.faults.scene import Scene
from tests.performance.faults.services import BEAT, TRAINER, WEB, WORKER, Service, Site, read_command
from tests.serving import until

AWAY_SECONDS = 10.0
FROZEN_SECONDS = 12.0
SIGN_SECONDS = 75.0
"""Somebody who leaves no sign for a minute is missed."""
SKEW_SECONDS = 60
OOM_MEGABYTES = 16
EXPORT, TRAINING = "export", "train_scorer"


@dataclass(frozen=True)
class Fault:
    """``find_obstacle`` says why it cannot be brought about on this machine; empty where it can."""

    name: str
    title: str
    act: Callable[[Scene], None]
    find_obstacle: Callable[[Site], str] | None = None


# ---- processes


def kill_web_process(scene: Scene) -> None:
    send_signal(list_children(scene.site.services[WEB].pid)[:1], SIGKILL)
    scene.mend()
    scene.note("gunicorn has two, and starts another")
    scene.hold(1)


def kill_web(scene: Scene) -> None:
    scene.site.services[WEB].kill()
    scene.mend()
    scene.hold(1)


def kill_worker(scene: Scene) -> None:
    job = scene.wait_for_running(EXPORT)
    scene.site.services[WORKER].kill()
    scene.mend()
    scene.note(f"killed in the middle of an export ({job.progress:.0%})")
    scene.hold(1)


def kill_trainer(scene: Scene) -> None:
    scene.order_training()
    scene.wait_for_running(TRAINING)
    time.sleep(2)
    scene.site.services[TRAINER].kill()
    scene.mend()
    scene.note("killed in the middle of a training")
    scene.hold(1)


def kill_beat(scene: Scene) -> None:
    scene.site.services[BEAT].kill()
    scene.mend()
    scene.hold(1)


def run_without_beat(scene: Scene) -> None:
    scene.site.services[BEAT].stop()
    scene.wait_for_running(EXPORT)
    scene.site.services[WORKER].kill()
    scene.note("no beat for 75 s; a worker is killed in the middle of an export meanwhile, whose job waits")
    scene.hold(SIGN_SECONDS - 5, looks=False)
    scene.hold(5)
    scene.mend()
    scene.site.services[BEAT].start()


def run_two_beats(scene: Scene) -> None:
    site = scene.site
    second = Service(BEAT, read_command(BEAT, site.port), site.environment, site.folder / "second-beat.log")
    second.start()
    try:
        scene.wait_for_running(EXPORT)
        site.services[WORKER].kill()
        scene.note("two beats with one data folder; the worker is killed in the middle of an export")
        scene.hold(25)
    finally:
        second.stop()
    if second.restarts:
        scene.note(f"the second beat started again {second.restarts} times")


def run_without_workers(scene: Scene) -> None:
    names = (WORKER, TRAINER)
    for name in names:
        scene.site.services[name].stop()
    scene.note("both workers stopped; jobs that are ordered wait")
    scene.hold(AWAY_SECONDS)
    scene.mend()
    for name in names:
        scene.site.services[name].start()


# ---- PostgreSQL


def kill_backend(scene: Scene) -> None:
    scene.site.cluster.kill_backend()
    scene.mend()
    scene.note("the server ends all connections and recovers")
    scene.hold(1)


def kill_postgres(scene: Scene) -> None:
    scene.site.cluster.kill()
    scene.hold(2)
    scene.mend()
    scene.site.cluster.start()
    scene.note("started again, it recovers from its log")


def stop_postgres(scene: Scene) -> None:
    scene.order_training()
    scene.wait_for_running(TRAINING)
    for number in range(3):
        scene.site.cluster.stop()
        scene.hold(AWAY_SECONDS, looks=number == 0)
        if number == 2:
            scene.mend()
        scene.site.cluster.start()
        if number < 2:
            scene.hold(4, looks=False)
    scene.note("in the middle of a training")


def freeze_postgres(scene: Scene) -> None:
    began = time.monotonic()
    scene.site.cluster.freeze()
    try:
        scene.hold(FROZEN_SECONDS)
    finally:
        scene.mend()
        scene.site.cluster.thaw()
    scene.note(f"frozen for {time.monotonic() - began:.0f} s")


# ---- Redis


def flush_redis(scene: Scene) -> None:
    for _ in range(3):
        scene.wait_for_running(EXPORT)
        scene.site.redis.ask("flushall")
        scene.hold(2, looks=False)
    scene.mend()
    scene.note("all messages and queues deleted three times")
    scene.hold(5)


def freeze_redis(scene: Scene) -> None:
    began = time.monotonic()
    scene.site.redis.freeze()
    try:
        scene.hold(FROZEN_SECONDS)
    finally:
        scene.mend()
        scene.site.redis.thaw()
    scene.note(f"frozen for {time.monotonic() - began:.0f} s")


def kill_redis(scene: Scene) -> None:
    scene.site.redis.kill()
    scene.hold(AWAY_SECONDS)
    scene.mend()
    scene.site.redis.start()
    scene.note(f"killed and away for {AWAY_SECONDS:.0f} s; it comes back empty")


# ---- a pooler, a clock, disks, memory


def use_pooler(scene: Scene) -> None:
    pooler = Pooler(scene.site.folder / "pooler", scene.site.cluster)
    names = (WEB, WORKER, TRAINER, BEAT)
    pooler.start()
    try:
        scene.site.restart(*names, DATABASE_URL=pooler.url)
        scene.doctor_environment = {"DATABASE_URL": pooler.url}
        scene.note("eight connections for all processes; the processes find out by themselves")
        scene.hold(12)
        warnings = [name for name, text in scene.site.read_logs().items() if "it is behind a pooler" in text]
        scene.extra_checks.append(Check.of("the log tells of the pooler", [] if WEB in warnings else [WEB]))
    finally:
        scene.mend()
        scene.site.restart(*names)
        pooler.stop()


def skew_clocks(scene: Scene) -> None:
    library = limits.build_clock(scene.site.folder)
    try:
        scene.site.restart(WEB, **limits.build_clock_environment(library, SKEW_SECONDS))
        scene.site.restart(WORKER, **limits.build_clock_environment(library, -SKEW_SECONDS))
        scene.doctor_environment = limits.build_clock_environment(library, SKEW_SECONDS)
        scene.note(f"web {SKEW_SECONDS} s ahead, worker {SKEW_SECONDS} s behind the database")
        scene.hold(12)
    finally:
        scene.mend()
        scene.site.restart(WEB, WORKER)


def find_no_clock(site: Site) -> str:
    return "" if limits.find_compiler() else "no C compiler is installed, which makes the other clock"


def fill_data(scene: Scene) -> None:
    from annotation.models import Job

    disk = scene.site.disks.data
    disk.fill()
    try:
        failed = Job.objects.filter(kind=EXPORT, state=Job.State.FAILED)
        until(failed.exists, 30)
        scene.hold(6)
    finally:
        scene.mend()
        disk.empty()
    reasons = sorted({job.error for job in failed})
    scene.note(f"exports fail: “{reasons[0]}” `jobs retry` does them once there is room")
    for job in failed:
        scene.site.manage("jobs", "retry", str(job.pk))


def fill_tablespace(scene: Scene) -> None:
    disk = scene.site.disks.tablespace
    disk.fill()
    try:
        scene.hold(AWAY_SECONDS)
    finally:
        scene.mend()
        disk.empty()
    scene.note("PostgreSQL refuses what makes a table longer")


def fill_wal(scene: Scene) -> None:
    """Its log goes on in files that it has already; once these are used up, the server ends."""
    cluster, disk = scene.site.cluster, scene.site.disks.wal
    disk.fill()
    try:
        for _ in range(200):
            if cluster.has_ended():
                break
            with suppress(subprocess.SubprocessError):
                cluster.query(
                    "SELECT pg_logical_emit_message(false, 'a', repeat('b', 1000)); SELECT pg_switch_wal()"
                )
            time.sleep(0.05)
        scene.hold(6)
    finally:
        scene.mend()
        disk.empty()
    if cluster.has_ended():
        scene.note("PostgreSQL ends; with room it is started again and recovers")
        cluster.start()
    else:
        scene.note("PostgreSQL recovers by itself as soon as there is room")
        until(cluster.answers, 60)


def exhaust_memory(scene: Scene) -> None:
    trainer = scene.site.services[TRAINER]
    scene.order_training()
    scene.wait_for_running(TRAINING)
    group = MemoryGroup(f"assay-faults-{os.getpid()}")
    try:
        if not group.why_absent:
            group.hold(trainer.list_pids(), megabytes=OOM_MEGABYTES)
            with suppress(AssertionError):
                until(lambda: group.count_kills() > 0, 20)
        if not group.why_absent and group.count_kills():
            scene.note(
                f"a control group with {OOM_MEGABYTES} MB more; the kernel kills a process of the worker"
            )
        else:
            send_signal(list_children(trainer.pid), SIGKILL)
            reason = group.why_absent or "the limit killed nothing within 20 s"
            scene.note(f"no limit of memory can be set here ({reason}): SIGKILL instead")
        scene.mend()
        group.release()
        scene.hold(1)
    finally:
        group.release()
        group.remove()


def find_no_disk(site: Site) -> str:
    reason = site.disks.data.why_absent
    return f"no file system can be mounted ({reason})" if reason else ""


def find_no_pooler(site: Site) -> str:
    return "" if find_program("pgbouncer") else "pgbouncer is not installed"


FAULTS = (
    Fault("web-process-killed", "kill -9 of a web process", kill_web_process),
    Fault("web-killed", "kill -9 of gunicorn", kill_web),
    Fault("worker-killed", "kill -9 of the worker", kill_worker),
    Fault("trainer-killed", "kill -9 of the worker that trains", kill_trainer),
    Fault("beat-killed", "kill -9 of beat", kill_beat),
    Fault("backend-killed", "kill -9 of a process of PostgreSQL", kill_backend),
    Fault("postgres-killed", "kill -9 of PostgreSQL", kill_postgres),
    Fault("postgres-stopped", "PostgreSQL stopped for 10 s, three times", stop_postgres),
    Fault("postgres-frozen", "PostgreSQL frozen", freeze_postgres),
    Fault("redis-flushed", "Redis flushed", flush_redis),
    Fault("redis-frozen", "Redis frozen", freeze_redis),
    Fault("redis-dead", "Redis dead", kill_redis),
    Fault("pooler", "pgbouncer in transaction mode, with no setting", use_pooler, find_no_pooler),
    Fault("clock", f"clocks {SKEW_SECONDS} s off", skew_clocks, find_no_clock),
    Fault("disk-data", "disk of the data folder full", fill_data, find_no_disk),
    Fault("disk-tables", "disk of PostgreSQL’s tables full", fill_tablespace, find_no_disk),
    Fault("disk-wal", "disk of PostgreSQL’s log full", fill_wal, find_no_disk),
    Fault("memory", "out of memory while training", exhaust_memory),
    Fault("no-beat", "no beat", run_without_beat),
    Fault("two-beats", "two beats", run_two_beats),
    Fault("no-worker", "no worker", run_without_workers),
)


def move_annotations(cluster: Cluster, disk: Disk) -> None:
    """The annotations and their indexes into a tablespace on a disk of its own."""
    if disk.why_absent:
        return
    folder = disk.folder / "tables"
    folder.mkdir()
    for path in (disk.folder, folder):
        shutil.chown(path, OWNER, OWNER)
    cluster.query(f"CREATE TABLESPACE small LOCATION '{folder}'")
    cluster.query("ALTER TABLE annotation_annotation SET TABLESPACE small")
    names = cluster.query(
        "SELECT indexname FROM pg_indexes WHERE tablename = 'annotation_annotation'"
    ).split()
    for name in names:
        cluster.query(f'ALTER INDEX "{name}" SET TABLESPACE small')
