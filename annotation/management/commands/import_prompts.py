from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.domain.formats import FORMATS, Source
from annotation.management.base import ImportCommand
from annotation.services.imports import import_prompts


class Command(ImportCommand):
    help = "Take prompts into a dataset, which is made if there is none; the same file twice changes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file")
        parser.add_argument("--dataset", required=True)
        parser.add_argument("--format", required=True, help=", ".join(FORMATS))

    def act(self, **options: Any) -> dict[str, Any]:
        with self.watched_run() as run:
            report = import_prompts(
                source=Source(options["file"]),
                format=options["format"],
                dataset=options["dataset"],
                run=run,
            )
        return report.as_json()

    def show(self, data: dict[str, Any]) -> None:
        self.show_report(data)
