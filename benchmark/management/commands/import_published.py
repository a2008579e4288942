from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.domain.formats.rows import Source
from annotation.management.base import AssayCommand
from annotation.selectors.datasets import get_dataset
from benchmark.services.published_tables import add_published, read_published


class Command(AssayCommand):
    help = "Enter a table that others published by a guideline: reference rows beside its boards."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "file", help="CSV or JSON: model, and SCOPE.METRIC for each number (docs/leaderboard.md)"
        )
        parser.add_argument("--guideline", required=True, metavar="G")
        parser.add_argument("--dataset", required=True, metavar="D", help="beside whose boards it stands")
        parser.add_argument("--name", required=True, metavar="N", help="what the table is called on boards")
        parser.add_argument(
            "--source", required=True, metavar="TEXT", help="who published it, where and when"
        )
        parser.add_argument("--url", default="", help="where it can be read")
        parser.add_argument(
            "--language",
            default="",
            metavar="L",
            help="if its numbers are of the prompts of one language alone, such as en: it stands by that group",
        )

    def act(self, **options: Any) -> dict[str, Any]:
        guideline, rows = read_published(Source(options["file"]), options["guideline"])
        made = add_published(
            guideline=guideline,
            dataset=get_dataset(options["dataset"]),
            name=options["name"],
            source=options["source"],
            url=options["url"],
            language=options["language"],
            rows=rows,
        )
        return {
            "id": made.pk,
            "guideline": guideline.name,
            "dataset": options["dataset"],
            "name": made.name,
            "language": made.language,
            "models": len(rows),
        }

    def show(self, data: dict[str, Any]) -> None:
        group = f"the group {data['language']} of " if data["language"] else ""
        place = f"{group}the boards of {data['dataset']} by {data['guideline']}"
        self.stdout.write(f"{data['name']}: {data['models']} models as reference rows beside {place}")
