"""How long ``agreement`` takes right after its labels were imported, on PostgreSQL.

    python -m tests.performance.agreement_after_import --database postgres://HOST/NAME [--tasks 5000] [--replace]

Makes a database with a batch of so many tasks, autovacuum off as if it had not come by yet, imports two annotations for
each by ``import_annotations`` and then times ``agreement --batch``. All of it runs in one process that reads the batch
anew each time: what starting Python takes would hide the database.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.performance.annotate_loop import world

ROOT = Path(__file__).resolve().parents[2]
TIMES = 3
LEVELS = (1, 2, 3)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--database", required=True, metavar="URL", help="postgres://HOST/NAME")
    parser.add_argument("--replace", action="store_true", help="drop a database of that name first")
    parser.add_argument("--tasks", type=int, default=5000)
    return parser.parse_args()


def write_files(folder: Path, tasks: int) -> None:
    """Prompts, responses and the labels of two people who agree nine times in ten."""
    draws = random.Random(5)
    prompts, responses, labels = [], [], []
    for number in range(tasks):
        dimension = ("safe", "unsafe")[number % 2]
        prompts.append({"id": f"p{number}", "prompt": f"Question {number}?", "dimension": dimension})
        place = {"prompt_id": f"p{number}", "model": f"model-{number % 5}"}
        responses.append(place | {"response": f"Answer {number}."})
        value = draws.choice(LEVELS)
        for person in ("one", "two"):
            label = draws.choice(LEVELS) if draws.random() < 0.1 else value
            labels.append(place | {"annotator": person, "labels": {"compliance": label}})
    for name, rows in (("prompts", prompts), ("responses", responses), ("labels", labels)):
        lines = (json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


def run(*command: str) -> float:
    from annotation.selectors.agreement import label_table

    label_table.clear_units()
    start = time.perf_counter()
    world.command(*command)
    return time.perf_counter() - start


def switch_autovacuum_off() -> None:
    from django.apps import apps
    from django.db import connection

    with connection.cursor() as cursor:
        for model in apps.get_app_config("annotation").get_models():
            cursor.execute(f"ALTER TABLE {model._meta.db_table} SET (autovacuum_enabled = false)")


def measure(folder: Path) -> Iterator[tuple[str, float]]:
    jsonl = ("--format", "jsonl")
    run("load_guideline", str(ROOT / "fixtures/guidelines/xstest.yaml"), "--publish")
    yield "import_prompts", run("import_prompts", str(folder / "prompts.jsonl"), "--dataset", "d", *jsonl)
    yield (
        "import_responses",
        run("import_responses", str(folder / "responses.jsonl"), "--dataset", "d", *jsonl),
    )
    into = ("--batch", "b", "--guideline", "xstest", "--dataset", "d")
    yield "import_annotations", run("import_annotations", str(folder / "labels.jsonl"), *into, *jsonl)
    for _time in range(TIMES):
        yield "agreement", run("agreement", "--batch", "b")
    yield "agreement --by model,dimension", run("agreement", "--batch", "b", "--by", "model,dimension")


def main() -> None:
    options = arguments()
    with (
        tempfile.TemporaryDirectory() as folder,
        world.database(options.database, replace=options.replace, keep=False),
    ):
        switch_autovacuum_off()
        write_files(Path(folder), options.tasks)
        print(f"{options.tasks:,} tasks, {platform.machine()}, Python {platform.python_version()}\n")
        print("| command | s |\n| --- | ---: |")
        for name, seconds in measure(Path(folder)):
            print(f"| `{name}` | {seconds:.2f} |", flush=True)


if __name__ == "__main__":
    main()
