"""How long a release of a million labels takes to cut, and how much memory, by the product's own command.

    python -m tests.performance.million_release --database postgres://HOST/NAME
    python -m tests.performance.million_release --database sqlite

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

from tests.performance.annotate_loop import world

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
    parser.add_argument(
        "--characters",
        type=int,
        nargs=2,
        metavar=("FROM", "TO"),
        default=(world.SHORTEST, world.LONGEST),
        help="how long responses are before their last sentence",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")
    return parser.parse_args()


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with world.database(options.database, replace=options.replace, keep=options.keep) as folder:
        from tests.performance.million import BATCH, Maker, measured

        began = time.monotonic()
        Maker(
            labels=options.labels,
            guideline=options.guideline,
            seed=options.seed,
            characters=tuple(options.characters),
            say=report,
        ).make()
        figures: dict[str, Any] = {
            "where": f"Python {platform.python_version()}, {os.cpu_count()} processors, "
            f"{options.database.split(':')[0]}",
            "labels": options.labels,
            "made_in": time.monotonic() - began,
        }
        report("cutting the release")
        figures["cut"] = vars(measured("release_gold", RELEASE, "--batches", BATCH))
        figures["rows_per_second"] = options.labels / figures["cut"]["seconds"]
        figures |= read_release()
        if options.compare:
            change_labels()
            report("cutting another one")
            measured("release_gold", LATER, "--batches", BATCH, "--supersedes", RELEASE)
            report("comparing them")
            changes = str(folder / "changes.csv")
            figures["compared"] = vars(measured("compare_releases", RELEASE, LATER, "--changes", changes))
        if options.keep:
            figures["database"] = os.environ["DATABASE_URL"]
            figures["data"] = os.environ["ASSAY_DATA_DIR"]
        return figures


def read_release() -> dict[str, Any]:
    from annotation.models import GoldRelease

    release = GoldRelease.objects.get(name=RELEASE)
    return {"sha256": release.sha256, "released": release.labels, "adjudicated": release.adjudicated}


def change_labels() -> None:
    """Every hundredth gold label as if it had come out differently."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE annotation_goldlabel SET value = CASE WHEN value = 3 THEN 1 ELSE 3 END WHERE id % 100 = 0"
        )


def report(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main() -> None:
    options = arguments()
    figures = measure(options)
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        print_figures(figures)
    megabytes = max(figures[name]["megabytes"] for name in ("cut", "compared") if name in figures)
    if megabytes > MEGABYTES:
        raise SystemExit(f"It took more than {MEGABYTES} MB.")


def print_figures(figures: dict[str, Any]) -> None:
    print(f"{figures['where']}: {figures['released']:,} labels, made in {figures['made_in']:.0f} s")
    print(
        f"cut: {format_cost(figures['cut'])}; {figures['rows_per_second']:,.0f} labels/s\nsha256 {figures['sha256']}"
    )
    if "compared" in figures:
        print(f"compared, every change written: {format_cost(figures['compared'])}")
    if "database" in figures:
        print(f"kept: DATABASE_URL={figures['database']} ASSAY_DATA_DIR={figures['data']}")


def format_cost(cost: dict[str, float]) -> str:
    return (
        f"{cost['seconds']:.1f} s, of them {cost['processor']:.1f} s of the command's own processor time, "
        f"{cost['megabytes']:.0f} MB at most"
    )


if __name__ == "__main__":
    main()
