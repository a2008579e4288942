from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.domain.formats import Source
from annotation.management.base import ImportCommand
from benchmark.domain.multiple_choice.formats import FORMATS, LANGUAGES
from benchmark.services.multiple_choice import import_questions


class Command(ImportCommand):
    help = "Take questions with options into a dataset, each as its prompts; the same file twice changes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file")
        parser.add_argument("--dataset", required=True)
        parser.add_argument("--format", required=True, help=", ".join(FORMATS))
        parser.add_argument(
            "--language",
            default="",
            help=f"of the questions: {', '.join(LANGUAGES)} (default: en for fine, zh for cvalues)",
        )

    def act(self, **options: Any) -> dict[str, Any]:
        with self.watched_run() as run:
            report = import_questions(
                source=Source(options["file"]),
                format=options["format"],
                dataset=options["dataset"],
                language=options["language"],
                run=run,
            )
        return report.as_json()

    def show(self, data: dict[str, Any]) -> None:
        self.show_report(data)
