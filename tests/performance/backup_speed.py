"""How long a backup and its restore take, and how much memory, from SQLite to PostgreSQL and back.

    python -m tests.performance.backup_speed --postgres postgres://HOST/NAME

A settled batch is made in SQLite, backed up, restored into PostgreSQL, backed up there, and restored into SQLite: each
by the product's own command in a fresh process. Tables are migrated before, and that is timed apart. At the end the
manifests of both backups must say the same of every table but the audit trail, into which a restore writes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from tests.performance.annotate_loop import world
from tests.performance.million import Maker, measured

# "Install and upgrade" of issue 25: what loading the same by Django's dumpdata and loaddata does not hold.
SECONDS, MEGABYTES = 300, 500
OBJECTS_A_LABEL = 7.4
"""A prompt for five responses, a response, a task, two assignments and annotations, now and then a decision, gold."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--postgres", required=True, metavar="URL", help="a database that is made and dropped"
    )
    parser.add_argument("--replace", action="store_true", help="drop a database of that name first")
    parser.add_argument("--objects", type=int, default=1_240_000, help="rows, about")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")
    return parser.parse_args()


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with world.database("sqlite", replace=False, keep=False) as folder:
        guideline = str(world.ROOT / "fixtures/guidelines/flames.yaml")
        labels = round(options.objects / OBJECTS_A_LABEL)
        Maker(labels=labels, guideline=guideline, seed=options.seed, say=report).make()
        figures: dict[str, Any] = {"backup of SQLite": run("backup", str(folder / "first"))}
        # Sets the environment for the commands; this process stays with the first database.
        with world.database(options.postgres, replace=options.replace, keep=False) as other:
            figures["migrate on PostgreSQL"] = run("migrate", "--verbosity", "0")
            figures["restore into PostgreSQL"] = run("restore", str(folder / "first"))
            figures["backup of PostgreSQL"] = run("backup", str(folder / "second"))
            os.environ["DATABASE_URL"] = f"sqlite:///{other / 'back.sqlite3'}"
            os.environ["ASSAY_DATA_DIR"] = str(other / "back")
            figures["migrate on SQLite"] = run("migrate", "--verbosity", "0")
            figures["restore into SQLite"] = run("restore", str(folder / "second"))
        manifests = [read_manifest(folder / name) for name in ("first", "second")]
    figures["objects"] = sum(table["rows"] for table in manifests[0]["tables"])
    figures["megabytes of files"] = sum(table["bytes"] for table in manifests[0]["tables"]) / 1e6
    figures["other tables"] = list_differences(*manifests)
    return figures


def run(*command: str) -> dict[str, float]:
    report(command[0])
    return vars(measured(*command))


def read_manifest(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "manifest.json").read_bytes())
    return content


def list_differences(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    hashes = [
        {table["name"]: table["content_sha256"] for table in content["tables"]} for content in (first, second)
    ]
    return [
        name for name in hashes[0] if hashes[0][name] != hashes[1][name] and name != "annotation_auditevent"
    ]


def report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def show(figures: dict[str, Any]) -> None:
    print(f"Python {platform.python_version()}, {os.cpu_count()} processors")
    print(f"{figures['objects']:,} rows, {figures['megabytes of files']:.0f} MB compressed")
    for name, used in figures.items():
        if isinstance(used, dict):
            print(
                f"{name:24} {used['seconds']:6.1f} s ({used['processor']:.1f} s of this processor),"
                f" {used['megabytes']:4.0f} MB at most"
            )
    print(f"tables that differ after both ways: {', '.join(figures['other tables']) or 'none'}")


def main() -> None:
    options = arguments()
    figures = measure(options)
    if options.json:
        print(json.dumps(figures, indent=1))
    else:
        show(figures)
    slow = [
        name
        for name, used in figures.items()
        if name.startswith(("backup", "restore"))
        and (used["seconds"] > SECONDS or used["megabytes"] > MEGABYTES)
    ]
    if slow or figures["other tables"]:
        raise SystemExit(f"over the limit: {', '.join(slow) or '-'}")


if __name__ == "__main__":
    main()
