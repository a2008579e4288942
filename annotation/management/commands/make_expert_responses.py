from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from annotation.management.base import AssayCommand
from annotation.selectors.batches import get_batch
from annotation.services.own_answers import make_expert_responses


class Command(AssayCommand):
    help = "Make the answers that people wrote in a closed batch responses of the model expert, for others to judge."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("batch")

    def act(self, **options: Any) -> dict[str, Any]:
        return asdict(make_expert_responses(batch=get_batch(options["batch"])))

    def show(self, data: dict[str, Any]) -> None:
        collections = ", ".join(data["collections"])
        self.stdout.write(
            f"{data['responses']} responses of {data['model']} by {data['authors']} people, in the collections"
            f" {collections}"
        )
