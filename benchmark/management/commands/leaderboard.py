from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.errors import N_, AssayError
from annotation.management.base import AssayCommand
from benchmark.metrics import board
from benchmark.printing import board_table
from benchmark.rows import read_cells
from benchmark.selectors.documents import document_named
from benchmark.selectors.runs import finished_board, run_named


class Command(AssayCommand):
    help = "Print the leaderboard of a benchmark run, or of labels in a file."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", help="the benchmark run")
        parser.add_argument(
            "--from-file", metavar="FILE", help="JSONL rows of model, dimension, predicted instead of a run"
        )
        parser.add_argument(
            "--guideline", metavar="G", help="with --from-file: the guideline, G or G@V, or its YAML file"
        )
        parser.add_argument("--intervals", action="store_true", help="print the 95%% intervals")

    def act(self, **options: Any) -> dict[str, Any]:
        name, from_file, guideline = options["name"], options["from_file"], options["guideline"]
        self.intervals: bool = options["intervals"]
        if from_file is not None:
            return self._from_file(name, from_file, guideline)
        if name is None:
            raise AssayError(N_("Name a benchmark run, or give --from-file and --guideline."))
        if guideline is not None:
            raise AssayError(N_("A run has its own guideline; --guideline goes with --from-file."))
        run = run_named(name)
        self.document = run.scorer.guideline.document
        return finished_board(run)

    def _from_file(self, name: str | None, path: str, guideline: str | None) -> dict[str, Any]:
        if name is not None or guideline is None:
            raise AssayError(N_("--from-file takes the place of a run's name, and needs --guideline."))
        found = document_named(guideline)
        self.document = found.document
        printed = board(self.document, read_cells(path, self.document))
        if found.shipped:
            self.stderr.write(
                f"{self.document.name} is not in the database: "
                f"using {self.document.name}@{self.document.version} as shipped with Assay"
            )
        return printed

    def show(self, data: dict[str, Any]) -> None:
        for line in board_table(data, self.document, intervals=self.intervals):
            self.stdout.write(line)
