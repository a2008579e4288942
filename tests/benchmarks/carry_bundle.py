"""How long a release takes to another site, and how much memory: as a bundle, and as Label Studio's JSON.

    python -m tests.benchmarks.carry_bundle --database postgres://HOST/NAME
    python -m tests.benchmarks.carry_bundle --database sqlite

Everything is done by the product's own commands, each in a fresh process; the second site is an empty database of the
same kind. The release there must have the same sha256.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.annotate_loop import world
from tests.benchmarks.annotate_loop.probe import measured

# What the commands may take for 100,000 labels.
MEGABYTES = 400
RELEASE, THERE = "carried", "arrived"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--database", default="sqlite", metavar="URL", help="sqlite, or postgres://HOST/NAME")
    parser.add_argument("--replace", action="store_true", help="drop databases of these names first")
    parser.add_argument("--labels", type=int, default=100_000)
    parser.add_argument("--guideline", default=str(world.ROOT / "fixtures/guidelines/flames.yaml"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--arrive", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")
    return parser.parse_args()


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"labels": given.labels}
    with world.database(given.database, replace=given.replace, keep=False):
        from tests.benchmarks.million import BATCH, Maker

        Maker(labels=given.labels, guideline=given.guideline, seed=given.seed, say=_say).make()
        found["sha256"] = world.command("release_gold", RELEASE, "--batches", BATCH)["sha256"]
        for kind, file in (("bundle", "bundle.zip"), ("label_studio", "label_studio.json")):
            _say(f"exporting: {kind}")
            out = str(folder / kind)
            found[f"{kind} out"] = _measured("export_gold", RELEASE, "--format", kind, "--out", out)
            found[f"{kind} bytes"] = (folder / kind / file).stat().st_size
        found |= _arrived(given, folder / "bundle" / "bundle.zip")
    return found


def _arrived(given: argparse.Namespace, bundle: Path) -> dict[str, Any]:
    """By this very command in a process of its own, which has a database of its own."""
    _say("importing the bundle")
    url = f"{given.database}_there" if given.database.startswith("postgres") else given.database
    command = [sys.executable, "-m", __spec__.name, "--database", url, "--arrive", str(bundle)]
    command += ["--replace"] if given.replace else []
    told = subprocess.run(command, cwd=world.ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(told.stdout))


def arrive(given: argparse.Namespace) -> None:
    with world.database(given.database, replace=given.replace, keep=False):
        from annotation.models import GoldRelease

        found = _measured("import_bundle", given.arrive, "--release", THERE)
        print(json.dumps({"bundle in": found, "arrived": GoldRelease.objects.get(name=THERE).sha256}))


def _measured(*command: str) -> dict[str, float]:
    seconds, megabytes = measured([sys.executable, "manage.py", *command])
    return {"seconds": seconds, "megabytes": megabytes}


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def main() -> None:
    given = arguments()
    if given.arrive:
        arrive(given)
        return
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        found = measure(given, Path(temporary))
    kind = given.database.split(":")[0]
    _say(
        f"Python {platform.python_version()}, {os.cpu_count()} processors, {kind}, {time.strftime('%Y-%m-%d')}"
    )
    if given.json:
        print(json.dumps(found, indent=1))
    else:
        for name, one in found.items():
            if isinstance(one, dict):
                print(f"{name:18} {one['seconds']:7.1f} s, {one['megabytes']:4.0f} MB at most")
        print(
            f"{found['labels']:,} labels, bundle of {found['bundle bytes'] / 1e6:,.0f} MB, {found['sha256']}"
        )
    _say(f"all of it took {time.monotonic() - began:.0f} s")
    large = [name for name, one in found.items() if isinstance(one, dict) and one["megabytes"] > MEGABYTES]
    if large or found["arrived"] != found["sha256"]:
        raise SystemExit(f"too large: {large or '-'}; arrived as {found['arrived']}")


if __name__ == "__main__":
    main()
