"""Build sites with the code of before, migrate them with this code, and compare pages, hashes and receipts.

    python -m tests.performance.old_sites
    python -m tests.performance.old_sites --postgres postgres://USER@HOST --report FOLDER
    python -m tests.performance.old_sites --base v0.1.0

The code of before is BASE, of which there are two sites, or that of ``--base``, a later one: of it there is the demo.

Each site is built once and copied. The old code reads one copy; this code migrates the other, reads the same addresses
as the same people, runs the jobs that wait and follows the links of its own pages. Exit code 1: a page that no longer
opens, one that fails, another hash, a lost receipt, claim, token or password. Pages whose words differ are counted, and
written to the report to be looked at.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = Path(__file__).resolve().parent
BASE = "85513d4"
LIBRARIES = ".libraries"  # in a checkout of old code
SITES = ("demo", "work")
SITES_OF_LATER_CODE = ("demo",)
RELEASES = {"demo": ("demo-1",), "work": ("r1", "r-both")}
BOARDS = {"demo": ("demo-1",), "work": ("b1", "b-other")}
OF_SEVERAL_STUDIES = ("work",)
MAX_JOB_SECONDS = 300


@dataclass(frozen=True)
class Site:
    """A database and a data folder, and the checkout whose code serves them."""

    folder: Path
    database: str
    code: Path

    def environment(self) -> dict[str, str]:
        return os.environ | {
            "DATABASE_URL": self.database,
            "ASSAY_DATA_DIR": str(self.folder / "data"),
            "ASSAY_STATIC_ROOT": str(self.folder / "static"),
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "ALLOWED_HOSTS": "localhost,127.0.0.1,testserver",
            "SECRET_KEY": "the same for every process of this comparison",
            "LOG_LEVEL": "ERROR",
            "PYTHONPATH": os.pathsep.join([str(self.code), str(self.code / LIBRARIES)]),
        }

    def run(self, *command: str | Path, check: bool = True) -> str:
        """Standard output of a Python process with this site's code; what fails prints all that it said."""
        done = subprocess.run(
            [sys.executable, *map(str, command)],
            cwd=self.code,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if check and done.returncode:
            sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
        return done.stdout

    def manage(self, *command: str) -> str:
        return self.run("manage.py", *command)


class Databases:
    """Fresh databases on SQLite, or on the PostgreSQL server at ``server``."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.made: list[str] = []

    def create(self, name: str, folder: Path, *, like: Site | None = None) -> str:
        """The URL of a new database, empty or a copy of another site's."""
        if not self.server:
            if like is not None:
                shutil.copyfile(like.folder / "assay.sqlite3", folder / "assay.sqlite3")
            return f"sqlite:///{folder / 'assay.sqlite3'}"
        name = f"assay_old_{name.replace('-', '_')}"
        template = f' TEMPLATE "{urlsplit(like.database).path[1:]}"' if like is not None else ""
        self._execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)', f'CREATE DATABASE "{name}"{template}')
        self.made.append(name)
        return self._url(name)

    def drop(self) -> None:
        self._execute(*(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)' for name in self.made))

    def _url(self, name: str) -> str:
        return urlunsplit(urlsplit(self.server)._replace(path=f"/{name}"))

    def _execute(self, *statements: str) -> None:
        if statements:
            import psycopg2

            connection = psycopg2.connect(self._url("postgres"))
            connection.autocommit = True
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
            connection.close()


def install_libraries(checkout: Path) -> None:
    """Those libraries of the old code that this code does not use, or not in this version."""
    pins = [
        line
        for line in (checkout / "requirements.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    ]
    missing = [pin for pin in pins if not is_installed(pin)]
    if missing:
        constraints = checkout / f"{LIBRARIES}.txt"  # pip takes no extras there
        constraints.write_text("\n".join(re.sub(r"\[.*?\]", "", pin) for pin in pins), encoding="utf-8")
        target = ["--target", str(checkout / LIBRARIES), "--constraint", str(constraints)]
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *target, *missing], check=True)


def is_installed(pin: str) -> bool:
    name, _equals, version = pin.partition("==")
    try:
        return metadata.version(name.partition("[")[0].strip()) == version.strip()
    except metadata.PackageNotFoundError:
        return False


@contextmanager
def old_code(folder: Path, ref: str = BASE) -> Iterator[Path]:
    checkout = folder / "code"
    git = ("git", "-C", str(ROOT), "worktree")
    subprocess.run([*git, "add", "--detach", "--quiet", str(checkout), ref], check=True)
    try:
        install_libraries(checkout)
        yield checkout
    finally:
        subprocess.run([*git, "remove", "--force", str(checkout)], check=True)


def copy_site(site: Site, name: str, databases: Databases, *, code: Path) -> Site:
    folder = site.folder.parent / name
    folder.mkdir()
    database = databases.create(name, folder, like=site)
    shutil.copytree(site.folder / "data", folder / "data")
    return Site(folder, database, code)


def run_waiting_jobs(site: Site) -> None:
    """A worker of this code takes up what the old one left, as it would after an upgrade."""
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "config",
        "worker",
        "--beat",
        "--pool",
        "solo",
        "-l",
        "ERROR",
    ]
    worker = subprocess.Popen(
        command, cwd=site.code, env=site.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    end = time.monotonic() + MAX_JOB_SECONDS
    try:
        while waiting_jobs(site) and time.monotonic() < end:
            time.sleep(2)
    finally:
        worker.terminate()
        worker.wait(timeout=60)


def waiting_jobs(site: Site) -> int:
    count = (
        "import django; django.setup(); from annotation.models import Job;"
        " print(Job.objects.filter(state__in=['queued', 'running']).count())"
    )
    return int(site.run("-c", count))


def name_study(site: Site, model: str, name: str) -> list[str]:
    """The option of a command for the study of the row; nothing for code without studies."""
    find = (
        "import django; django.setup(); from django.apps import apps;"
        f" rows = apps.get_model({model!r})._base_manager.filter(name={name!r});"
        " print(*rows.values_list('study__name', flat=True)) if 'study' in"
        " {field.name for field in rows.model._meta.get_fields()} else None"
    )
    study = site.run("-c", find).strip()
    return ["--study", study] if study else []


def read_hashes(name: str, site: Site) -> dict[str, Any]:
    """Releases as exported, boards and agreement as printed, and the stored files of scorers."""
    hashes: dict[str, Any] = {}
    for release in RELEASES[name]:
        out = site.folder / "gold" / release
        within = name_study(site, "annotation.GoldRelease", release)
        site.manage("export_gold", release, "--format", "jsonl", "--out", str(out), "--json", *within)
        lines = (out / "gold.jsonl").read_text().splitlines()
        hashes[f"gold {release}"] = [json.loads(line) for line in lines]
    for board in BOARDS[name]:
        within = name_study(site, "benchmark.BenchmarkRun", board)
        hashes[f"board {board}"] = json.loads(site.manage("leaderboard", board, "--json", *within))
    if name not in OF_SEVERAL_STUDIES:  # else the old code pools what is of several studies by now
        hashes["agreement"] = drop_bounds(json.loads(site.manage("agreement", "--json")))
    stored = (
        "import django, json; django.setup(); from annotation.models import GoldRelease;"
        " from scoring.models import Scorer; print(json.dumps([sorted(GoldRelease.objects.values_list('name',"
        " 'sha256')), sorted(Scorer.objects.exclude(weights_sha256='').values_list('name', 'weights_sha256'))]))"
    )
    hashes["stored"] = json.loads(site.run("-c", stored))
    return hashes


def drop_bounds(content: Any) -> Any:
    """Without intervals: they are by the method of the code that reads, what they lie around is not."""
    if isinstance(content, dict):
        return {key: drop_bounds(value) for key, value in content.items() if key not in ("low", "high")}
    return [drop_bounds(value) for value in content] if isinstance(content, list) else content


def changes(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Where ``new`` does not say what ``old`` said. What it adds counts as little as what it withholds (null)."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old:
            yield from changes(old[key], new.get(key), f"{path}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from changes(before, after, f"{path}[{number}]")
    elif old != new and new is not None:
        yield path


def differing_words(old: str, new: str) -> str:
    before, after = old.split(), new.split()
    edits = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return "; ".join(
        f"{' '.join(before[a:b])!r} -> {' '.join(after[c:d])!r}"
        for edit, a, b, c, d in edits
        if edit != "equal"
    )


def compare_pages(old: dict[str, Any], new: dict[str, Any]) -> tuple[list[str], list[str], int]:
    """Pages that do not open any more, pages whose words differ, and how many there are."""
    broken, different, count = [], [], 0
    for reader, pages in old.items():
        for path, page in pages.items():
            count += 1
            repeat = new[reader][path]
            if repeat["status"] != page["status"]:
                broken.append(f"{reader} {path}: {page['status']} -> {repeat['status']}")
            elif repeat["words"] != page["words"]:
                different.append(f"{reader} {path}: {differing_words(page['words'], repeat['words'])}")
    return broken, different, count


def read_pages(path: Path) -> dict[str, Any]:
    readers: dict[str, Any] = json.loads(path.read_text())["readers"]
    return readers


def list_failed_pages(readers: dict[str, Any]) -> tuple[list[str], int]:
    """Of the pages that the links of this code lead to: those that fail, and how many there are."""
    answers = [(reader, path, page) for reader, pages in readers.items() for path, page in pages.items()]
    failed = [f"{reader} {path}: {page['status']}" for reader, path, page in answers if page["status"] >= 500]
    return failed, len(answers)


def compare_site(
    name: str, folder: Path, databases: Databases, checkout: Path, report: Path | None, base: str
) -> list[str]:
    label = f"{name} of {base} on {'PostgreSQL' if databases.server else 'SQLite'}"
    print(f"{label}: building", flush=True)
    built = folder / f"{name}-built"
    built.mkdir()
    site = Site(built, databases.create(built.name, built), checkout)
    site.manage("migrate", "--verbosity", "0")
    if base == BASE:
        site.run(SCRIPTS / "build.py", name, built / "facts.json")
    else:
        site.run(SCRIPTS / "build_demo.py", built / "facts.json")
    before = copy_site(site, f"{name}-before", databases, code=checkout)
    after = copy_site(site, f"{name}-after", databases, code=ROOT)
    print(f"{label}: reading with the old code", flush=True)
    before.run(SCRIPTS / "pages.py", before.folder / "pages.json")
    old_hashes = read_hashes(name, before)
    print(f"{label}: migrating and reading again", flush=True)
    after.manage("migrate", "--verbosity", "0")
    after.run(SCRIPTS / "pages.py", after.folder / "pages.json", "--of", before.folder / "pages.json")
    new_hashes = read_hashes(name, after)
    old_pages, new_pages = (read_pages(copy.folder / "pages.json") for copy in (before, after))
    broken, different, count = compare_pages(old_pages, new_pages)
    faults = broken + [f"not what it was: {path}" for path in changes(old_hashes, new_hashes)]
    facts = json.loads((built / "facts.json").read_text())
    if facts:
        faults += after.run(SCRIPTS / "acts.py", built / "facts.json", check=False).splitlines()
    run_waiting_jobs(after)
    faults += [f"{waiting_jobs(after)} jobs still wait"] if waiting_jobs(after) else []
    after.run(SCRIPTS / "pages.py", after.folder / "own.json")
    failed, own_count = list_failed_pages(read_pages(after.folder / "own.json"))
    faults += failed
    if report is not None:
        (report / f"{label}.txt").write_text("\n".join(different))
    print(
        f"{label}: {count} pages, {len(different)} with other words; {own_count} that this code leads to;"
        f" {len(old_hashes)} hashes",
        flush=True,
    )
    return [f"{label}: {fault}" for fault in faults]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--postgres", metavar="URL", default="", help="a server too: postgres://USER@HOST")
    parser.add_argument("--base", default=BASE, metavar="COMMIT", help="of the code of before")
    parser.add_argument("--sites", nargs="+", choices=SITES, default=None)
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="where the differing words are written")
    options = parser.parse_args()
    if options.report is not None:
        options.report.mkdir(parents=True, exist_ok=True)
    sites = options.sites or (SITES if options.base == BASE else SITES_OF_LATER_CODE)
    faults: list[str] = []
    for server in ["", options.postgres] if options.postgres else [""]:
        databases = Databases(server)
        with (
            tempfile.TemporaryDirectory(prefix="assay-old-") as folder,
            old_code(Path(folder), options.base) as checkout,
        ):
            try:
                for name in sites:
                    faults += compare_site(
                        name, Path(folder), databases, checkout, options.report, options.base
                    )
            finally:
                databases.drop()
    print("\n".join(faults) or "all came through")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
