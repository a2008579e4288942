from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.domain.formats import RESPONSES
from annotation.management.base import ImportCommand
from annotation.services.imports import ImportReport, Run, import_responses


class Command(ImportCommand):
    help = "Take responses to a dataset's prompts; the same file twice changes nothing."
    kind = RESPONSES

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file")
        parser.add_argument("--dataset", required=True)
        parser.add_argument("--model", help="whose responses these are, where the file does not say")
        parser.add_argument(
            "--collection",
            help="the gathering they belong to, where the file does not say (default: unnamed)",
        )
        parser.add_argument(
            "--guideline",
            help="G or G@V: refuse prompts of dimensions and subcomponents that it does not know",
        )
        self.add_personal_data_argument(parser)
        self.add_file_arguments(parser)

    def act(self, **options: Any) -> dict[str, Any]:
        source, format_name = self.build_source(options["file"], options)

        def take(run: Run) -> ImportReport:
            return import_responses(
                source=source,
                format=format_name,
                dataset=options["dataset"],
                model=options["model"],
                collection=options["collection"],
                guideline=options["guideline"],
                personal_data=options["personal_data"],
                run=run,
            )

        if options["preview"]:
            return {"preview": [self.preview(source, format_name, take, options["personal_data"])]}
        with self.watched_run() as run:
            return take(run).as_json()

    def show(self, data: dict[str, Any]) -> None:
        self.show_outcome(data)
