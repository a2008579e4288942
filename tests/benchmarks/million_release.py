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
from tests.benchmarks.annotate_loop.probe import measured

RELEASE = "million-1"
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
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")
    return parser.parse_args()


def measure(given: argparse.Namespace) -> dict[str, Any]:
    with world.database(given.database, replace=given.replace, keep=given.keep):
        from tests.benchmarks.million import BATCH, Maker

        began = time.monotonic()
        maker = Maker(labels=given.labels, guideline=given.guideline, seed=given.seed, say=_say)
        maker.make()
        found: dict[str, Any] = {
            "where": f"Python {platform.python_version()}, {os.cpu_count()} processors, {given.database.split(':')[0]}",
            "labels": given.labels,
            "made_in": time.monotonic() - began,
        }
        _say("cutting the release")
        command = [sys.executable, "manage.py", "release_gold", RELEASE, "--batches", BATCH]
        found["seconds"], found["megabytes"] = measured(command)
        found["rows_per_second"] = given.labels / found["seconds"]
        found |= _released()
        if given.keep:
            found["database"] = os.environ["DATABASE_URL"]
            found["data"] = os.environ["ASSAY_DATA_DIR"]
        return found


def _released() -> dict[str, Any]:
    from annotation.models import GoldRelease

    release = GoldRelease.objects.get(name=RELEASE)
    return {"sha256": release.sha256, "released": release.labels, "adjudicated": release.adjudicated}


def _say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def main() -> None:
    given = arguments()
    found = measure(given)
    if given.json:
        print(json.dumps(found, indent=2))
    else:
        print(
            f"{found['where']}: {found['released']:,} labels made in {found['made_in']:.0f} s, "
            f"cut in {found['seconds']:.1f} s ({found['rows_per_second']:,.0f} rows/s), "
            f"{found['megabytes']:.0f} MB at most\nsha256 {found['sha256']}"
        )
        if given.keep:
            print(f"kept: DATABASE_URL={found['database']} ASSAY_DATA_DIR={found['data']}")
    if found["megabytes"] > MEGABYTES:
        raise SystemExit(f"It took more than {MEGABYTES} MB.")


if __name__ == "__main__":
    main()
