"""How fast a release of a million labels becomes files, and with how much memory: each format in a fresh process.

    python -m tests.performance.million_exports --release million-1

It takes the database that ``DATABASE_URL`` names, as ``million_release --keep`` leaves it. A row is a response.
"Written" is until the rows are sorted and on the disk, "checked" until they are also read back and hashed.
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

ROOT = Path(__file__).resolve().parents[2]
# "It must show" of issue 5.
MEGABYTES, ROWS_PER_SECOND = 400, 30_000
FORMATS = ("jsonl", "csv", "parquet", "hf", "labels")
PROCESS = """
import json, os, resource, sys, time
from pathlib import Path
import django
django.setup()
from annotation.selectors.releases.releases import release_named
from annotation.services.exports import export_release
marks = {}
began, cpu = time.monotonic(), time.process_time()
def report(done, stage):
    marks.setdefault(stage, (time.monotonic() - began, time.process_time() - cpu))
made = export_release(
    release=release_named(sys.argv[1]), format_name=sys.argv[2], folder=sys.argv[3], report=report
)
print(json.dumps({
    "seconds": time.monotonic() - began,
    "cpu_seconds": time.process_time() - cpu,
    "written_in": marks["reading the files back"],
    "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    "rows": made.rows, "labels": made.labels,
    "bytes": sum(one.bytes for one in made.files),
    "sha256": {one.name: one.sha256 for one in made.files},
}))
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--release", default="million-1")
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--out", metavar="DIR", help="keep the files here; default: a folder that is removed")
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")
    return parser.parse_args()


def measure(release: str, kind: str, folder: Path) -> dict[str, Any]:
    environment = {"DJANGO_SETTINGS_MODULE": "config.settings", "LOG_LEVEL": "WARNING", **os.environ}
    command = [sys.executable, "-c", PROCESS, release, kind, str(folder / kind)]
    process = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    figures: dict[str, Any] = json.loads(process.stdout)
    figures["rows_per_second"] = figures["rows"] / figures["seconds"]
    figures["rows_per_second_written"] = figures["rows"] / figures["written_in"][0]
    return figures


def format_figures(kind: str, figures: dict[str, Any]) -> str:
    return (
        f"{kind:8} {figures['rows']:>9,} rows in {figures['seconds']:6.1f} s "
        f"({figures['cpu_seconds']:.1f} s of this processor): {figures['rows_per_second']:>8,.0f} rows/s checked, "
        f"{figures['rows_per_second_written']:>8,.0f} written; {figures['megabytes']:4.0f} MB at most, "
        f"{figures['bytes'] / 1e6:,.0f} MB of files"
    )


def main() -> None:
    options = arguments()
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} processors,"
        f" {os.environ.get('DATABASE_URL', 'sqlite').split(':')[0]}, {time.strftime('%Y-%m-%d')}",
        file=sys.stderr,
    )
    figures_by_format = {}
    with tempfile.TemporaryDirectory() as temporary:
        for kind in options.formats:
            figures_by_format[kind] = measure(options.release, kind, Path(options.out or temporary))
            print(
                format_figures(kind, figures_by_format[kind]),
                file=sys.stderr if options.json else sys.stdout,
                flush=True,
            )
    if options.json:
        print(json.dumps(figures_by_format, indent=2))
    written = {kind: figures["rows_per_second_written"] for kind, figures in figures_by_format.items()}
    slow = [kind for kind in ("jsonl",) if written.get(kind, ROWS_PER_SECOND) < ROWS_PER_SECOND]
    large = [kind for kind, figures in figures_by_format.items() if figures["megabytes"] > MEGABYTES]
    if slow or large:
        raise SystemExit(f"too slow: {slow or '-'}; too large: {large or '-'}")


if __name__ == "__main__":
    main()
