from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.management.base import AssayCommand, names
from annotation.selectors.batches import batch_named
from annotation.services.gold import cut_release


class Command(AssayCommand):
    help = "Freeze the settled labels of chosen batches as a gold release."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--batches", nargs="+", required=True, help="the batches whose gold it takes")

    def act(self, **options: Any) -> dict[str, Any]:
        chosen = dict.fromkeys(name for value in options["batches"] for name in names(value))
        release = cut_release(name=options["name"], batches=[batch_named(name) for name in chosen])
        return {
            "name": release.name,
            "sha256": release.sha256,
            "labels": release.labels,
            "adjudicated": release.adjudicated,
        }

    def show(self, data: dict[str, Any]) -> None:
        self.stdout.write(
            f"{data['name']}: {data['labels']} labels, {data['adjudicated']} adjudicated\nsha256 {data['sha256']}"
        )
