"""The upgrade of a large site from the first code that was in use: how long, and who waits for whom meanwhile.

    python -m tests.performance.upgrade_million --postgres postgres://USER@HOST [--annotations 1000000]

A database by the migrations of the old code, filled by it (old_sites/fill.py), is migrated by this code's ``migrate``.
For every large table one connection reads and another writes a row by the old code's columns every 50 ms, and a third
looks which locks the migrations hold. Printed are the time of each migration, the longest time that a reader and a
writer of each table waited, the longest lock, the size of the database before and after; then pages are opened, an item
is submitted and the release is cut once more, with the same hash. Exit code 1: something of that is wrong, or somebody
waited for longer than ``--limit``.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg2

from tests.performance.old_sites.__main__ import BASE, ROOT, SCRIPTS, Databases, Site, old_code

EVERY = 0.05
"""Seconds between two statements of a prober."""
LOOK_EVERY = 0.02
CALM_SECONDS = 10.0
"""For so long before the upgrade the same is measured, for comparison."""
MIGRATION = "assay-migrate"
"""The name of its connection."""
LINE = re.compile(r"Applying (\S+)\.\.\.| OK")
HELD = """
SELECT c.relname, l.mode FROM pg_locks l
JOIN pg_stat_activity a ON a.pid = l.pid JOIN pg_class c ON c.oid = l.relation
WHERE a.application_name = %s AND a.datname = current_database() AND l.granted AND c.relkind = 'r'
    AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
"""
NO_READING = "AccessExclusiveLock"


@dataclass(frozen=True)
class Probe:
    """A large table: what the old code reads and writes of a row. An inserted row is taken back."""

    table: str
    columns: str
    update: str
    insert: str = ""
    inserts_key: bool = False

    @property
    def read(self) -> str:
        return f"SELECT {self.columns} FROM {self.table} WHERE id = %s"  # noqa: S608 (names of ours)

    @property
    def write(self) -> list[str]:
        change = f"UPDATE {self.table} SET {self.update} = {self.update} WHERE id = %s"  # noqa: S608
        columns = self.columns if self.inserts_key else self.columns.removeprefix("id, ")
        copy = f"INSERT INTO {self.table} ({columns}) SELECT {self.insert} FROM {self.table}"  # noqa: S608
        return [change, f"{copy} WHERE id = %s"] if self.insert else [change]


PROBES = (
    Probe(
        "annotation_prompt",
        "id, dataset_id, key, text, dimension, subcomponent, language, attack_method",
        "text",
        "dataset_id, 'probe', text, dimension, subcomponent, language, attack_method",
    ),
    Probe(
        "annotation_response",
        "id, prompt_id, model_id, collection_id, text, turns, sha256, created_at",
        "text",
    ),
    Probe(
        "annotation_task",
        "id, batch_id, response_id, prompt_id, stratum_id, panel_id, kind, state, overlap, slots_taken, priority,"
        " position, rank, requeued, settled_at",
        "slots_taken",
    ),
    Probe(
        "annotation_assignment",
        "id, batch_id, task_id, person_id, slot, state, claimed_at, lease_expires, submitted_at, skip_reason",
        "lease_expires",
        "gen_random_uuid(), batch_id, task_id, (SELECT max(id) FROM annotation_person), slot, 'expired', now(),"
        " now(), NULL, ''",
        inserts_key=True,
    ),
    Probe(
        "annotation_annotation",
        "id, assignment_id, revision, current, labels, rationale, evidence, flags, seconds, reason, receipt,"
        " idempotency_key, body_sha256, created_at",
        "seconds",
        "assignment_id, 99, false, labels, rationale, evidence, flags, seconds, reason, gen_random_uuid(), 'probe',"
        " body_sha256, created_at",
    ),
    Probe(
        "annotation_adjudication",
        "id, task_id, assignment_id, labels, reason_id, rationale, seconds, receipt, idempotency_key, body_sha256,"
        " created_at",
        "seconds",
    ),
    Probe(
        "annotation_goldlabel",
        "id, task_id, criterion, value, source, created_at",
        "value",
        "task_id, 'probe', value, source, created_at",
    ),
    Probe(
        "annotation_releasedlabel",
        "id, release_id, gold_label_id, task_id, criterion, value, source, adjudication_id",
        "value",
        "release_id, gold_label_id, task_id, 'probe', value, source, adjudication_id",
    ),
    Probe(
        "annotation_auditevent",
        "id, at, actor_id, verb, target, data",
        "",
        "now(), actor_id, 'probe', target, data",
    ),
    Probe(
        "scoring_prediction",
        "id, scorer_id, response_id, criterion, value, probabilities, fold, created_at",
        "value",
        "scorer_id, response_id, 'probe', value, probabilities, fold, now()",
    ),
    Probe("annotation_batch", "id, name, guideline_id, state, overlap", "overlap"),
    Probe("annotation_person", "id, username, display_name, languages", "display_name"),
)


@dataclass
class Waits:
    """Of one prober."""

    longest: float = 0.0
    during: str = ""
    calm: float = 0.0
    errors: Counter[str] = field(default_factory=Counter)
    number: int = 0

    def note(self, seconds: float, migration: str) -> None:
        self.number += 1
        if not migration:
            self.calm = max(self.calm, seconds)
        elif seconds > self.longest:
            self.longest, self.during = seconds, migration


@dataclass
class Course:
    """Where the upgrade is; the probers look at it."""

    migration: str = ""
    is_over: threading.Event = field(default_factory=threading.Event)
    seconds: dict[str, float] = field(default_factory=dict)


def choose_key(cursor: Any, table: str) -> Any:
    """The keys of some rows: those of the batch that was settled, for it stays as it is."""
    if table == "annotation_assignment":
        cursor.execute("SELECT assignment_id FROM annotation_annotation WHERE id <= 2000")
    else:
        cursor.execute(f"SELECT id FROM {table} ORDER BY id LIMIT 2000")  # noqa: S608
    return [row[0] for row in cursor.fetchall()]


class Prober(threading.Thread):
    """Reads or writes a row of its table every ``EVERY`` seconds, and notes how long it waited."""

    def __init__(self, url: str, probe: Probe, course: Course, *, is_writer: bool) -> None:
        super().__init__(daemon=True)
        self.probe, self.course, self.is_writer = probe, course, is_writer
        self.waits = Waits()
        self._connection = psycopg2.connect(url, application_name="assay-prober")
        with self._connection, self._connection.cursor() as cursor:
            self._keys = choose_key(cursor, probe.table)
            cursor.execute("SET lock_timeout = '300s'")

    def run(self) -> None:
        chance = random.Random(self.probe.table)
        while not self.course.is_over.wait(EVERY):
            key = chance.choice(self._keys)
            start, before = time.monotonic(), self.course.migration
            try:
                self._act(str(key) if isinstance(key, UUID) else key)
            except psycopg2.Error as error:
                self.waits.errors[
                    f"{self.course.migration}: {type(error).__name__}: {str(error).strip()[:100]}"
                ] += 1
                self._connection.rollback()
            self.waits.note(time.monotonic() - start, self.course.migration or before)
        self._connection.close()

    def _act(self, key: Any) -> None:
        with self._connection.cursor() as cursor:
            if not self.is_writer:
                cursor.execute(self.probe.read, [key])
                cursor.fetchall()
                self._connection.rollback()
                return
            statements = self.probe.write
            if self.probe.update:
                cursor.execute(statements[0], [key])
                self._connection.commit()
            for statement in statements[1:]:
                cursor.execute(statement, [key])
            self._connection.rollback()


class LockWatcher(threading.Thread):
    """For how long the migrations held which table."""

    def __init__(self, url: str, course: Course) -> None:
        super().__init__(daemon=True)
        self.course = course
        self.longest: dict[tuple[str, str], tuple[float, str]] = {}
        self._url = url

    def run(self) -> None:
        connection = psycopg2.connect(self._url, application_name="assay-watcher")
        connection.autocommit = True
        since: dict[tuple[str, str], float] = {}
        with connection.cursor() as cursor:
            while not self.course.is_over.wait(LOOK_EVERY):
                cursor.execute(HELD, [MIGRATION])
                held, now = {(table, mode) for table, mode in cursor.fetchall()}, time.monotonic()
                since = {lock: since.get(lock, now) for lock in held}
                for lock, start in since.items():
                    if now - start > self.longest.get(lock, (0.0, ""))[0]:
                        self.longest[lock] = now - start, self.course.migration
        connection.close()


def migrate(site: Site, course: Course) -> tuple[float, float]:
    """Run this code's migrations, and follow which of them is under way. The seconds that all of them took: by the
    clock, and of the command's own processor time.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = site.environment() | {"PGAPPNAME": MIGRATION, "PYTHONUNBUFFERED": "1"}
    start = begun = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "manage.py", "migrate", "--verbosity", "1", "--no-color"],
        cwd=site.code,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        text = ""
        course.migration = "(start)"
        while part := os.read(process.stdout.fileno(), 4096):
            text += part.decode()
            while match := LINE.search(text):
                text = text[match.end() :]
                if match[1]:
                    course.migration, begun = match[1], time.monotonic()
                else:
                    course.seconds[course.migration] = time.monotonic() - begun
                    course.migration = "(between)"
    if process.returncode:
        raise SystemExit(f"migrate failed: {text[-2000:]}")
    seconds, total = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, total.ru_utime + total.ru_stime - used.ru_utime - used.ru_stime


@contextmanager
def probing(url: str, course: Course) -> Iterator[tuple[list[Prober], LockWatcher]]:
    probers = [
        Prober(url, probe, course, is_writer=is_writer) for probe in PROBES for is_writer in (False, True)
    ]
    watcher = LockWatcher(url, course)
    for thread in (*probers, watcher):
        thread.start()
    try:
        yield probers, watcher
    finally:
        course.is_over.set()
        for thread in (*probers, watcher):
            thread.join(330)


def measure_size(url: str) -> int:
    connection = psycopg2.connect(url)
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        (size,) = cursor.fetchone()
    connection.close()
    return int(size)


def print_figures(course: Course, probers: Sequence[Prober], watcher: LockWatcher, slowest: int) -> None:
    print(f"\nthe {slowest} longest of {len(course.seconds)} migrations, s:")
    for name, seconds in sorted(course.seconds.items(), key=lambda entry: -entry[1])[:slowest]:
        print(f"  {seconds:8.2f}  {name}")
    print("\nlongest wait, ms (before the upgrade in brackets), and during which migration:")
    for prober in probers:
        waits, act = prober.waits, "write" if prober.is_writer else "read"
        print(
            f"  {prober.probe.table:<26} {act:<5} {1000 * waits.longest:8.0f} ({1000 * waits.calm:.0f})"
            f"  {waits.during}"
        )
        for error, number in waits.errors.most_common(3):
            print(f"    {number} times {error}")
    print("\nlocks of the migrations that were seen for 0.1 s and more:")
    for (table, mode), (seconds, migration) in sorted(
        watcher.longest.items(), key=lambda entry: -entry[1][0]
    ):
        if seconds >= 0.1:
            keeps_from = "reading and writing" if mode == NO_READING else "writing"
            print(f"  {1000 * seconds:8.0f} ms  {table} ({keeps_from})  {migration}")


def upgrade(server: str, folder: Path, options: argparse.Namespace) -> list[str]:
    databases = Databases(server)
    with old_code(folder, options.base) as checkout:
        try:
            old = Site(folder, databases.create("million", folder), checkout)
            facts = folder / "facts.json"
            start = time.monotonic()
            old.manage("migrate", "--verbosity", "0")
            print(old.run(SCRIPTS / "fill.py", str(options.annotations), facts), end="")
            print(
                f"filled with {options.annotations:,} annotations in {time.monotonic() - start:.0f} s",
                flush=True,
            )
            site = Site(folder, old.database, ROOT)
            before, course = measure_size(site.database), Course()
            with probing(site.database, course) as (probers, watcher):
                time.sleep(CALM_SECONDS)
                seconds, processor = migrate(site, course)
            after = measure_size(site.database)
            print(f"migrated in {seconds:.0f} s, {processor:.0f} s of the command's own processor time")
            print(f"{before / 1e6:,.0f} MB before, {after / 1e6:,.0f} MB after")
            print_figures(course, probers, watcher, options.slowest)
            faults = site.run(SCRIPTS / "go_on.py", facts, check=False).splitlines()
        finally:
            if options.keep:
                print(f"kept: {databases.made}")
            else:
                databases.drop()
    for prober in probers:
        if prober.waits.longest > options.limit:
            faults.append(
                f"{prober.probe.table}: waited {prober.waits.longest:.1f} s for {prober.waits.during}"
            )
        faults += [f"{prober.probe.table}: {error}" for error in prober.waits.errors]
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--postgres", metavar="URL", required=True, help="a server: postgres://USER@HOST")
    parser.add_argument("--annotations", type=int, default=1_000_000)
    parser.add_argument("--base", default=BASE, help="the commit of the old code")
    parser.add_argument("--limit", type=float, default=5.0, help="seconds that nobody waits for longer than")
    parser.add_argument("--slowest", type=int, default=15, help="so many migrations are printed")
    parser.add_argument("--keep", action="store_true", help="keep the database")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="assay-upgrade-") as folder:
        faults = upgrade(options.postgres, Path(folder), options)
    print("\n".join(["", *faults]) if faults else "\nall came through")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
