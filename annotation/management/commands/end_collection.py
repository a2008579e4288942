from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.management.base import AssayCommand
from annotation.selectors.batches import get_batch
from annotation.services.batches.collection import end_collection


class Command(AssayCommand):
    help = "End the collection of a batch with an open plan, or whose gold a model settles, and settle its items."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the batch")

    def act(self, **options: Any) -> dict[str, Any]:
        batch = get_batch(options["name"])
        with self.progress(total=1.0, bar_format="{l_bar}{bar}| {elapsed}<{remaining}") as bar:
            counts = end_collection(batch=batch, report=lambda done: bar.update(max(0.0, done - bar.n)))
        return {"batch": batch.name, **counts}

    def show(self, data: dict[str, Any]) -> None:
        self.stdout.write(
            f"{data['batch']}: {data['agreed']} settled, {data['disputed']} wait for a decision,"
            f" {data['adjudicated']} decided, {data['open']} still wait for labels"
        )
