"""How long labels take in and out, and how much memory: a file of what people said into a batch, a release as JSONL, as
Label Studio's JSON and as a bundle, and the bundle into another site; beside it the same as files of JSON Lines into a
third one: prompts, responses, labels, and the release that is cut of them.

    python -m tests.performance.carry_bundle --database postgres://HOST/NAME
    python -m tests.performance.carry_bundle --database sqlite

Everything is done by the product's own commands, each in a fresh process; the other sites are empty databases of the
same kind. The release that comes of the bundle must have the same sha256.
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
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.performance.annotate_loop import world

# What the commands may take for 100,000 labels.
MEGABYTES = 400
FILES = {"jsonl": "gold.jsonl", "label_studio": "label_studio.json", "bundle": "bundle.zip"}
LINES = ("prompts.jsonl", "responses.jsonl")
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
    parser.add_argument("--arrive-lines", metavar="DIR", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")
    return parser.parse_args()


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    figures: dict[str, Any] = {"labels": options.labels}
    with world.database(options.database, replace=options.replace, keep=False):
        from tests.performance.million import BATCH, Maker

        Maker(labels=options.labels, guideline=options.guideline, seed=options.seed, say=report).make()
        figures["sha256"] = world.command("release_gold", RELEASE, "--batches", BATCH)["sha256"]
        for kind, file in FILES.items():
            report(f"exporting: {kind}")
            out = str(folder / kind)
            figures[f"{kind} out"] = measure_command("export_gold", RELEASE, "--format", kind, "--out", out)
            figures[f"{kind} bytes"] = (folder / kind / file).stat().st_size
        figures |= import_labels(folder / "labels.jsonl", Path(options.guideline).stem)
        bundle = folder / "bundle" / "bundle.zip"
        figures |= import_elsewhere(options, "--arrive", bundle)
        unpack(bundle, folder)
        figures |= import_elsewhere(options, "--arrive-lines", folder)
    return figures


def import_labels(path: Path, guideline: str) -> dict[str, Any]:
    """What the annotators of the batch said, by the same names, into a new batch of the same responses."""
    from tests.performance.million import DATASET

    report("importing the labels")
    labels = write_labels(path)
    target = ("--batch", "imported", "--guideline", guideline, "--dataset", DATASET, "--format", "jsonl")
    return {"labels in": measure_command("import_annotations", str(path), *target), "labels in file": labels}


def write_labels(path: Path) -> int:
    """One line for each annotation of the site, response by response; their number."""
    from annotation.models import Annotation

    rows = Annotation.objects.order_by("assignment__task", "assignment__slot").values_list(
        "assignment__task__prompt__key",
        "assignment__task__response__model__name",
        "assignment__person__username",
        "labels",
        "rationale",
        "seconds",
    )
    names = ("prompt_id", "model", "annotator", "labels", "rationale", "seconds")
    with path.open("w", encoding="utf-8") as file:
        for row in rows.iterator():
            record = dict(zip(names, row, strict=True)) | {"annotator": f"imported-{row[2]}"}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
    return Annotation.objects.count()


def unpack(bundle: Path, folder: Path) -> None:
    """The bundle's prompts and responses, as files of their own."""
    with zipfile.ZipFile(bundle) as packed:
        for name in LINES:
            packed.extract(name, folder)


def import_elsewhere(options: argparse.Namespace, kind: str, path: Path) -> dict[str, Any]:
    """By this very command in a process of its own, which has a database of its own."""
    report(f"importing {path.name}")
    url = f"{options.database}_there" if options.database.startswith("postgres") else options.database
    command = [sys.executable, "-m", __spec__.name, "--database", url, kind, str(path)]
    command += ["--guideline", options.guideline]
    command += ["--replace"] if options.replace else []
    process = subprocess.run(command, cwd=world.ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(process.stdout))


def import_here(options: argparse.Namespace) -> None:
    with world.database(options.database, replace=options.replace, keep=False):
        from annotation.models import GoldRelease

        import_costs = measure_command("import_bundle", options.arrive, "--release", THERE)
        print(json.dumps({"bundle in": import_costs, "arrived": GoldRelease.objects.get(name=THERE).sha256}))


def import_lines(options: argparse.Namespace) -> None:
    """The same content as the bundle's, by the commands that take a file each; their sum."""
    with world.database(options.database, replace=options.replace, keep=False):
        folder, guideline = Path(options.arrive_lines), world.load_guideline(options.guideline)
        of_lines = ("--dataset", "lines", "--format", "jsonl")
        steps = [
            measure_command("import_prompts", str(folder / LINES[0]), *of_lines),
            measure_command("import_responses", str(folder / LINES[1]), *of_lines),
            measure_command(
                "import_annotations",
                str(folder / "labels.jsonl"),
                *("--batch", "lines", "--guideline", guideline, *of_lines),
            ),
            measure_command("release_gold", "lines", "--batches", "lines"),
        ]
        total = {name: sum(step[name] for step in steps) for name in ("seconds", "processor")}
        most = max(step["megabytes"] for step in steps)
        print(json.dumps({"jsonl in, 4 commands": total | {"megabytes": most}}))


def measure_command(*command: str) -> dict[str, float]:
    from tests.performance.million import measured

    return asdict(measured(*command))


def report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    options = arguments()
    if options.arrive:
        import_here(options)
        return
    if options.arrive_lines:
        import_lines(options)
        return
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        figures = measure(options, Path(temporary))
    kind = options.database.split(":")[0]
    report(
        f"Python {platform.python_version()}, {os.cpu_count()} processors, {kind}, {time.strftime('%Y-%m-%d')}"
    )
    if options.json:
        print(json.dumps(figures, indent=1))
    else:
        for name, figure in figures.items():
            if isinstance(figure, dict):
                print(
                    f"{name:18} {figure['seconds']:7.1f} s ({figure['processor']:.1f} s of this processor),"
                    f" {figure['megabytes']:4.0f} MB at most"
                )
        print(
            f"{figures['labels']:,} labels, {figures['labels in file']:,} annotations,"
            f" bundle of {figures['bundle bytes'] / 1e6:,.0f} MB, {figures['sha256']}"
        )
    report(f"all of it took {time.monotonic() - began:.0f} s")
    large = [
        name
        for name, figure in figures.items()
        if isinstance(figure, dict) and figure["megabytes"] > MEGABYTES
    ]
    if large or figures["arrived"] != figures["sha256"]:
        raise SystemExit(f"too large: {large or '-'}; arrived as {figures['arrived']}")


if __name__ == "__main__":
    main()
