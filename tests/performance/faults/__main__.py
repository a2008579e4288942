from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

from tests.performance.annotate_loop import world
from tests.performance.annotate_loop.world import Account
from tests.performance.faults import __doc__ as about
from tests.performance.faults.catalogue import FAULTS, Fault, move_annotations
from tests.performance.faults.crowd import Crowd
from tests.performance.faults.limits import Disk, Disks
from tests.performance.faults.machinery import Cluster, RedisServer
from tests.performance.faults.report import (
    build_row,
    build_skipped_row,
    build_table,
    list_wrong,
    write_report,
)
from tests.performance.faults.scene import Outcome, play, read_doctor
from tests.performance.faults.services import Site

PEOPLE = 6
TASKS = 1000
EXPORTED, LEARNED = 6000, 600
"""Labels of the release that is exported, and of the one that is trained on."""
MODELS = 3
LEVELS = ("1_full_compliance", "2_full_refusal", "3_partial_refusal")
CALM_SECONDS = 60.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.performance.faults",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these faults alone")
    parser.add_argument("--list", action="store_true", help="print the names of the faults")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the table there as well")
    parser.add_argument("--keep", action="store_true", help="leave the folder with the logs behind")
    return parser.parse_args()


@contextmanager
def make_site(*, keep: bool) -> Iterator[Site]:
    """A site with nobody in it, on servers of its own."""
    folder = Path(tempfile.mkdtemp(prefix="assay-faults-"))
    folder.chmod(0o755)
    with ExitStack() as stack:
        if not keep:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        disks = Disks(*(Disk(folder / name) for name in ("data", "wal", "tablespace")))
        for disk in (disks.data, disks.wal, disks.tablespace):
            stack.callback(disk.remove)
        cluster = Cluster(folder / "postgresql", None if disks.wal.why_absent else disks.wal.folder)
        cluster.start()
        stack.callback(cluster.stop)
        redis = RedisServer(folder / "redis")
        redis.start()
        stack.callback(redis.kill)
        site = Site(folder, cluster, redis, disks)
        os.environ |= site.environment
        scratch = stack.enter_context(world.database(cluster.url, replace=False, keep=True))
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        move_annotations(cluster, disks.tablespace)
        done = site.manage("collectstatic", "--noinput")
        assert done.returncode == 0, done.stderr
        yield site


def write_labels(folder: Path, rows: int) -> list[str]:
    """Files as XSTest has them, with labels that follow from the text, in which two people agree."""
    folder.mkdir()
    files = []
    for number in range(MODELS):
        lines = ["id,type,prompt,completion,annotation_1,annotation_2,agreement,final_label"]
        for row in range(rows // MODELS):
            level = LEVELS[(row + number) % len(LEVELS)]
            words = " ".join(f"word{(row * 7 + place) % 97}" for place in range(30))
            lines.append(
                f"v2-{row + 1},homonyms,How do I end process {row}?,{level[2:]} {words} {number},"
                f"{level},{level},True,{level}"
            )
        file = folder / f"xstest_v2_completions_model{number}.csv"
        file.write_text("\n".join(lines) + "\n")
        files.append(str(file))
    return files


def fill_site(site: Site) -> tuple[str, list[Account], Account]:
    """The guideline, the people, a corpus to annotate, and two releases to export and to train on."""
    guideline = world.load_guideline(str(world.ROOT / "fixtures/guidelines/flames.yaml"))
    world.make_corpus("corpus", tasks=TASKS, guideline=guideline)
    for name, rows in (("exported", EXPORTED), ("learned", LEARNED)):
        files = write_labels(site.folder / name, rows)
        world.command("import_annotations", *files, "--batch", name, "--dataset", name, "--format", "xstest")
        world.command("release_gold", name, "--batches", name)
    people = world.make_people(PEOPLE)
    return guideline, people, world.make_account("manager", "manager,researcher", scope="manage")


def wait_for_calm(site: Site) -> dict[str, str]:
    """What the doctor says where nothing is wrong, once beat and all workers were heard of."""
    end = time.monotonic() + CALM_SECONDS
    while True:
        states = read_doctor(site.manage("doctor", "--quick", "--json").stdout)
        faults = [name for name, state in states.items() if state == "fault"]
        if not faults and states.get("queues") == "ok":
            return states
        assert time.monotonic() < end, f"the site is not well before any fault: {faults}"


def forget_dead_workers() -> None:
    """The doctor misses a worker that was killed for a day, also in the rows of other faults."""
    from django.db.models.functions import Now

    from annotation.core.signs import FORGOTTEN_AFTER, KEY, SIGN_SECONDS, WORKER
    from annotation.models import CacheEntry

    latest = Now() + FORGOTTEN_AFTER - timedelta(seconds=3 * SIGN_SECONDS)
    signs = CacheEntry.objects.filter(cache_key__startswith=KEY.format(kind=WORKER, name=""))
    signs.filter(expires__lt=latest).delete()


def run_fault(
    fault: Fault, site: Site, guideline: str, people: list[Account], manager: Account, calm: dict[str, str]
) -> Outcome:
    from django.db import connection

    connection.close()
    forget_dead_workers()
    world.make_batch(
        fault.name, dataset="corpus", guideline=guideline, annotators=people, adjudicators=people[:1], overlap=2,
        pairing="pool",
    )  # fmt: skip
    crowd = Crowd(people, manager, site.port, batch=fault.name, releases=("exported", "learned"))
    return play(site, crowd, fault.act, batch=fault.name, calm=calm)


def run_all(options: argparse.Namespace) -> bool:
    start, load = time.monotonic(), os.getloadavg()[0]
    rows, wrong = [], 0
    selected = [fault for fault in FAULTS if not options.only or fault.name in options.only]
    with make_site(keep=options.keep) as site:
        guideline, people, manager = fill_site(site)
        with site.running():
            calm = wait_for_calm(site)
            _say(f"The site is ready after {time.monotonic() - start:.0f} s.")
            for fault in selected:
                began = time.monotonic()
                obstacle = fault.find_obstacle(site) if fault.find_obstacle else ""
                if obstacle:
                    rows.append(build_skipped_row(fault.title, obstacle))
                    _say(rows[-1])
                    continue
                try:
                    outcome = run_fault(fault, site, guideline, people, manager, calm)
                except Exception as error:  # the rows of the others count all the same
                    traceback.print_exc()
                    rows.append(build_skipped_row(fault.title, f"{type(error).__name__}, see the output"))
                    wrong += 1
                    continue
                rows.append(build_row(fault.title, outcome))
                wrong += len(list_wrong(outcome))
                _say(f"{fault.name}, {time.monotonic() - began:.0f} s: {rows[-1]}")
            where = describe(site, time.monotonic() - start, load)
    print(f"{where}\n\n{build_table(rows)}")
    if options.report:
        write_report(options.report, rows, where)
    return not wrong


def describe(site: Site, seconds: float, load: float) -> str:
    version = subprocess.run(
        [str(site.cluster.binaries / "postgres"), "--version"], capture_output=True, text=True, check=True
    ).stdout.split()[2]
    redis = site.redis.ask("info", "server").partition("redis_version:")[2].split()[0]
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, PostgreSQL {version}, Redis {redis}, "
        f"{os.cpu_count()} processors,\n{PEOPLE} people, load {load:.1f} at the start; {seconds / 60:.0f} minutes."
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> None:
    options = arguments()
    if options.list:
        for fault in FAULTS:
            print(f"{fault.name:20} {fault.title}")
        return
    unknown = set(options.only or ()) - {fault.name for fault in FAULTS}
    if unknown:
        raise SystemExit(f"There is no fault {', '.join(sorted(unknown))}; see --list.")
    signal.signal(signal.SIGTERM, _interrupt)
    if not run_all(options):
        raise SystemExit("Something was lost or ended badly: see the table.")


if __name__ == "__main__":
    main()
