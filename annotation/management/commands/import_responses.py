from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.domain.formats import FORMATS, Source
from annotation.management.base import ImportCommand
from annotation.services.imports import import_responses


class Command(ImportCommand):
    help = "Take responses to a dataset's prompts; the same file twice changes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file")
        parser.add_argument("--dataset", required=True)
        parser.add_argument("--format", required=True, help=", ".join(FORMATS))
        parser.add_argument("--model", help="whose responses these are, where the file does not say")
        parser.add_argument(
            "--collection",
            help="the gathering they belong to, where the file does not say (default: unnamed)",
        )

    def act(self, **options: Any) -> dict[str, Any]:
        with self.watched_run() as run:
            report = import_responses(
                source=Source(options["file"]),
                format=options["format"],
                dataset=options["dataset"],
                model=options["model"],
                collection=options["collection"],
                run=run,
            )
        return report.as_json()

    def show(self, data: dict[str, Any]) -> None:
        self.show_report(data)
