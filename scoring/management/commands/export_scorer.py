from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.management.base import AssayCommand
from scoring.selectors.scorers import get_ready_scorer
from scoring.services import export_scorer


class Command(AssayCommand):
    help = "Write a scorer into a folder that loads outside Assay: weights, card, and the file that predicts."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--out", required=True, metavar="DIR", help="the folder: a new or an empty one")

    def act(self, **options: Any) -> dict[str, Any]:
        scorer = get_ready_scorer(options["name"])
        export = export_scorer(scorer=scorer, folder=options["out"])
        return {
            "scorer": scorer.name,
            "path": str(export.folder),
            "weights_sha256": scorer.weights_sha256,
            "files": list(export.files),
        }

    def show(self, data: dict[str, Any]) -> None:
        self.stdout.write(
            f"{data['scorer']}: {len(data['files'])} files in {data['path']}; begin with README.md"
        )
