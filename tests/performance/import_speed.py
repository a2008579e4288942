"""How long a file takes to come in: labels into a new batch, and prompts, responses and a batch by one command.

    python -m tests.performance.import_speed --database sqlite --labels 400000
    python -m tests.performance.import_speed --database postgres://HOST/NAME

Two of twenty people label each response and differ on eight of a hundred, which a third person decides: labels and
decisions stand in one JSON Lines file, by response or, with ``--by-person``, one person's after the other's. The
commands are the product's own, each in a fresh process; what the same process takes to do nothing (``--help``) is
measured first and taken off. On PostgreSQL the processor time is without the server's own. ``--at-least`` fails under
so many labels a second of processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.performance.annotate_loop import world
from tests.performance.million import Used, measured

DATASET = "corpus"
PEOPLE = 20
DISPUTED = 0.08
START = ("import_annotations", "--help")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--database", default="sqlite", metavar="URL", help="sqlite, or postgres://HOST/NAME")
    parser.add_argument("--replace", action="store_true", help="drop a database of this name first")
    parser.add_argument(
        "--labels", type=int, default=20_000, help="of annotators; decisions come beside them"
    )
    parser.add_argument("--tasks", type=int, default=5_000, help="of the batch that is made of one file")
    parser.add_argument("--by-person", action="store_true", help="one person's labels after the other's")
    parser.add_argument("--guideline", default=str(world.ROOT / "fixtures/guidelines/flames.yaml"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at-least", type=float, default=0, metavar="LABELS")
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")
    return parser.parse_args()


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with world.database(options.database, replace=options.replace, keep=False) as folder:
        from django.db import connection

        guideline = world.load_guideline(options.guideline)
        report("making the responses")
        world.make_corpus(DATASET, tasks=options.labels // 2, guideline=guideline, seed=options.seed)
        if connection.vendor == "postgresql":  # as the commands that import prompts and responses leave it
            with connection.cursor() as cursor:
                cursor.execute("ANALYZE")
        path = folder / "labels.jsonl"
        n = write_labels(path, options)
        start = measured(*START)
        report(f"importing {n:,} labels and decisions")
        target = ("--batch", "imported", "--guideline", guideline, "--dataset", DATASET)
        labels = measured("import_annotations", str(path), *target, "--format", "jsonl")
        report(f"making a batch of {options.tasks:,} tasks of one file")
        rows = folder / "responses.jsonl"
        write_responses(rows, options.tasks, guideline)
        target_of_file = ("--guideline", guideline, "--dataset", "new", "--draft", "--from", str(rows))
        batch = measured("create_batch", "new", *target_of_file)
    figures = {"start": vars(start), "labels": n, "tasks": options.tasks}
    for name, number, used in (("import", n, labels), ("batch", options.tasks, batch)):
        processor, seconds = used.processor - start.processor, used.seconds - start.seconds
        figures[name] = {
            "processor": processor,
            "seconds": seconds,
            "megabytes": used.megabytes,
            "a second of processor time": number / processor,
            "a second": number / seconds,
        }
    return figures


def write_labels(path: Path, options: argparse.Namespace) -> int:
    """The number of lines."""
    records = list(build_labels(options))
    if options.by_person:
        records.sort(key=lambda record: ("adjudicator" in record, record.get("annotator")))
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    return len(records)


def build_labels(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    from annotation.models import Guideline, Response

    chance = random.Random(options.seed)
    document = Guideline.objects.get(name=Path(options.guideline).stem).document
    rows = Response.objects.order_by("pk").values_list("prompt__key", "prompt__dimension", "model__name")
    for number, (key, dimension, model) in enumerate(rows.iterator()):
        criterion = document.criteria_for(dimension)[0]
        values = chance.sample(criterion.values, 2)
        is_disputed = chance.random() < DISPUTED
        common = {"prompt_id": key, "model": model}
        for place, person in enumerate((number, number + 1 + number // 5 % (PEOPLE - 1))):
            yield common | {
                "annotator": f"imported-{person % PEOPLE:02}",
                "labels": {criterion.name: values[place if is_disputed else 0]},
                "rationale": "" if number % 3 else "The response gives a reason, and it holds.",
                "seconds": 12 + number % 40,
            }
        if is_disputed:
            yield common | {"adjudicator": "imported-judge", "labels": {criterion.name: values[0]}}


def write_responses(path: Path, tasks: int, guideline: str) -> None:
    """Each with its prompt beside it, five models to a prompt."""
    from annotation.models import Guideline

    texts = world._Texts(random.Random(tasks))
    dimensions = Guideline.objects.get(name=guideline.partition("@")[0]).document.dimension_names
    with path.open("w", encoding="utf-8") as file:
        for number in range(tasks):
            prompt, model = divmod(number, 5)
            if model == 0:
                text = texts.prompt(prompt)
            record = {
                "prompt_id": f"p{prompt:07}",
                "prompt": text,
                "dimension": dimensions[prompt % len(dimensions)],
                "model": f"Model-{'ABCDE'[model]}",
                "response": texts.response(number),
            }
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    options = arguments()
    figures = measure(options)
    kind = options.database.split(":")[0]
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    report(f"Python {platform.python_version()}, {os.cpu_count()} processors, {kind}, load {load}")
    if options.json:
        print(json.dumps(figures, indent=1))
    else:
        print(f"start: {Used(**figures['start'])}")
        for name, number in (("import", figures["labels"]), ("batch", figures["tasks"])):
            figure = figures[name]
            print(
                f"{name} of {number:,}: {figure['processor']:.2f} s of this processor, {figure['seconds']:.2f} s by"
                f" the clock, {figure['megabytes']:.0f} MB at most;"
                f" {figure['a second of processor time']:,.0f} and {figure['a second']:,.0f} a second"
            )
    if figures["import"]["a second of processor time"] < options.at_least:
        raise SystemExit(f"fewer than {options.at_least:,.0f} labels a second")


if __name__ == "__main__":
    main()
