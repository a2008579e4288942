"""How long a release of a million labels takes to cut, and how much memory, by the product's own command.

    python -m tests.benchmarks.million_release --database postgres://HOST/NAME
    python -m tests.benchmarks.million_release --database sqlite

The same labels give the same sha256 on both. ``--keep`` leaves the database and prints how to go on with it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from typing import Any

from tests.benchmarks.annotate_loop import world

RELEASE, LATER = "million-1", "million-2"
# "It must show" of issue 5.
MEGABYTES = 400


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--database", default="sqlite", metavar="URL", help="sqlite, or postgres://HOST/NAME")
    parser.add_argument("--replace", action="store_true", help="drop a database of that name first")
    parser.add_argument("--keep", action="store_true", help="keep the database and say where it is")
    parser.add_argument("--labels", type=int, default=1_000_000)
    parser.add_argument("--guideline", default=str(world.ROOT / "fixtures/guidelines/flames.yaml"))
    parser.add_argument(
        "--compare", action="store_true", help="change every hundredth label, release again, compare both"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")
    return parser.parse_args()


def measure(given: argparse.Namespace) -> dict[str, Any]:
    with world.database(given.database, replace=given.replace, keep=given.keep) as folder:
        from tests.benchmarks.million import BATCH, Maker, measured

        began = time.monotonic()
        Maker(labels=given.labels, guideline=given.guideline, seed=given.seed, say=_say).make()
        found: dict[str, Any] = {
            "where": f"Python {platform.python_version()}, {os.cpu_count()} processors, {given.database.split(':')[0]}",
            "labels": given.labels,
            "made_in": time.monotonic() - began,
        }
        _say("cutting the release")
        found["cut"] = vars(measured("release_gold", RELEASE, "--batches", BATCH))
        found["rows_per_second"] = given.labels / found["cut"]["seconds"]
        found |= _released()
        if given.compare:
            _put_right()
            _say("cutting another one")
            measured("release_gold", LATER, "--batches", BATCH, "--supersedes", RELEASE)
            _say("comparing them")
            changes = str(folder / "changes.csv")
            found["compared"] = vars(measured("compare_releases", RELEASE, LATER, "--changes", changes))
        if given.keep:
            found["database"] = os.environ["DATABASE_URL"]
            found["data"] = os.environ["ASSAY_DATA_DIR"]
        return found


def _released() -> dict[str, Any]:
    from annotation.models import GoldRelease

    release = GoldRelease.objects.get(name=RELEASE)
    return {"sha256": release.sha256, "released": release.labels, "adjudicated": release.adjudicated}


def _put_right() -> None:
    """Every hundredth gold label as if it had come out differently."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE annotation_goldlabel SET value = CASE WHEN value = 3 THEN 1 ELSE 3 END WHERE id % 100 = 0"
        )


def _say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def main() -> None:
    given = arguments()
    found = measure(given)
    if given.json:
        print(json.dumps(found, indent=2))
    else:
        _print(found)
    most = max(found[name]["megabytes"] for name in ("cut", "compared") if name in found)
    if most > MEGABYTES:
        raise SystemExit(f"It took more than {MEGABYTES} MB.")


def _print(found: dict[str, Any]) -> None:
    print(f"{found['where']}: {found['released']:,} labels, made in {found['made_in']:.0f} s")
    print(f"cut: {_used(found['cut'])}; {found['rows_per_second']:,.0f} labels/s\nsha256 {found['sha256']}")
    if "compared" in found:
        print(f"compared, every change written: {_used(found['compared'])}")
    if "database" in found:
        print(f"kept: DATABASE_URL={found['database']} ASSAY_DATA_DIR={found['data']}")


def _used(used: dict[str, float]) -> str:
    return (
        f"{used['seconds']:.1f} s, of them {used['processor']:.1f} s of the command's own processor time, "
        f"{used['megabytes']:.0f} MB at most"
    )


if __name__ == "__main__":
    main()
