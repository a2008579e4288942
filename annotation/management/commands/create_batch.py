from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from datetime import date
from typing import Any

from annotation.management.base import AssayCommand, names
from annotation.models import Batch
from annotation.selectors.corpus import dataset_named, models_named
from annotation.selectors.guidelines import guideline_named
from annotation.selectors.people import people_named
from annotation.services.batches import Policy, create_batch

LONGEST_LEASE = 7 * 24 * 60 * 60


class Command(AssayCommand):
    help = "Make and open a batch of a dataset's responses."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--guideline", required=True, help="G (latest published) or G@V")
        parser.add_argument("--dataset", required=True)
        parser.add_argument("--models", nargs="*", default=[], help="only the responses of these models")
        parser.add_argument("--collection", help="only this collection's responses")
        parser.add_argument("--annotators", nargs="*", default=[])
        parser.add_argument("--adjudicators", nargs="*", default=[])
        parser.add_argument("--overlap", type=int, default=2, help="annotations per task, 1 to 5 (default 2)")
        parser.add_argument("--pairing", default="pool", help=", ".join(Batch.Pairing.values))
        parser.add_argument(
            "--tolerance", type=float, default=0, help="distance that still settles (default 0)"
        )
        parser.add_argument(
            "--lease", type=_lease, default=1800, help="seconds that a claim holds (default 1800)"
        )
        parser.add_argument("--due", type=date.fromisoformat, help="YYYY-MM-DD")
        parser.add_argument("--draft", action="store_true", help="do not open it yet")

    def act(self, **options: Any) -> dict[str, Any]:
        policy = Policy(
            overlap=options["overlap"],
            pairing=options["pairing"],
            tolerance=options["tolerance"],
            lease_seconds=options["lease"],
            due_date=options["due"],
        )
        batch = create_batch(
            name=options["name"],
            guideline=guideline_named(options["guideline"]),
            dataset=dataset_named(options["dataset"]),
            models=models_named(_flat(options["models"])),
            collection=options["collection"],
            annotators=people_named(_flat(options["annotators"])),
            adjudicators=people_named(_flat(options["adjudicators"])),
            policy=policy,
            open_now=not options["draft"],
        )
        return {"name": batch.name, "state": batch.state, "tasks": batch.tasks.count()}

    def show(self, data: dict[str, Any]) -> None:
        self.stdout.write(f"{data['name']} ({data['state']}): {data['tasks']} tasks")


def _lease(text: str) -> int:
    seconds = int(text)
    if seconds > LONGEST_LEASE:
        raise ArgumentTypeError(f"{text} is more than {LONGEST_LEASE} seconds, a week")
    return seconds


def _flat(values: list[str]) -> list[str]:
    return [name for value in values for name in names(value)]
