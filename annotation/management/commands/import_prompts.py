from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.domain.formats import PROMPTS
from annotation.management.base import ImportCommand
from annotation.services.imports import ImportReport, Run, import_prompts


class Command(ImportCommand):
    help = "Take prompts into a dataset, which is made if there is none; the same file twice changes nothing."
    kind = PROMPTS

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file")
        parser.add_argument("--dataset", required=True)
        parser.add_argument(
            "--guideline", help="G or G@V: refuse dimensions and subcomponents that it does not know"
        )
        self.add_personal_data_argument(parser)
        self.add_file_arguments(parser)

    def act(self, **options: Any) -> dict[str, Any]:
        source, format_name = self.build_source(options["file"], options)

        def take(run: Run) -> ImportReport:
            return import_prompts(
                source=source,
                format=format_name,
                dataset=options["dataset"],
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
