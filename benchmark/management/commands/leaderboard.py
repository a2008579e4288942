from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from annotation.core.errors import N_, AssayError, Conflict
from annotation.management.base import AssayCommand
from benchmark.domain.leaderboards.board import BoardFigures
from benchmark.domain.leaderboards.formats import read_responses
from benchmark.domain.leaderboards.grounds import PREDICTED
from benchmark.domain.leaderboards.responses import ATTRIBUTES, PROMPT_ATTRIBUTES, CountedResponse
from benchmark.management.tables import (
    build_board_table,
    build_estimates_table,
    build_groups_table,
    build_pairs_table,
)
from benchmark.selectors.leaderboards.guidelines import get_document
from benchmark.selectors.leaderboards.runs import find_part, get_finished_board, get_run
from scoring.selectors.gate import describe_promotion

GROUPS, PAIRS, ESTIMATES = "groups", "pairs", "estimates"


class Command(AssayCommand):
    help = "Print the leaderboard of a benchmark run, or of labels in a file."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", help="the benchmark run")
        parser.add_argument(
            "--from-file",
            metavar="FILE",
            help="instead of a run: JSONL rows of model, dimension, predicted; "
            f"and prompt_id, {', '.join(PROMPT_ATTRIBUTES)} where known",
        )
        parser.add_argument(
            "--guideline", metavar="G", help="with --from-file: the guideline, G or G@V, or its YAML file"
        )
        parser.add_argument(
            "--predicted",
            action="store_true",
            help="with --from-file: a scorer made the labels, so that no rank is given",
        )
        parser.add_argument("--intervals", action="store_true", help="print the 95%% intervals")
        parser.add_argument(
            "--by",
            action="append",
            choices=ATTRIBUTES,
            default=[],
            help="the numbers of each group too (may be repeated)",
        )
        parser.add_argument("--pairs", action="store_true", help="the difference of every pair of models too")
        parser.add_argument(
            "--estimates",
            action="store_true",
            help="what people, the scorer, and both together say, where a run has gold and predictions",
        )

    def needs_study(self, options: dict[str, Any]) -> bool:
        return not options["from_file"]

    def act(self, **options: Any) -> dict[str, Any]:
        name, from_file, guideline = options["name"], options["from_file"], options["guideline"]
        self.intervals: bool = options["intervals"]
        self.predicted: bool = options["predicted"]
        self.by: list[str] = list(dict.fromkeys(options["by"]))
        selected = {GROUPS: bool(self.by), PAIRS: options["pairs"], ESTIMATES: options["estimates"]}
        self.parts = [name for name, is_selected in selected.items() if is_selected]
        if from_file is not None:
            return self._from_file(name, from_file, guideline)
        if name is None:
            raise AssayError(N_("Name a benchmark run, or give --from-file and --guideline."))
        if guideline is not None:
            raise AssayError(N_("A run has its own guideline; --guideline goes with --from-file."))
        if self.predicted:
            raise AssayError(N_("A run knows what rests on predictions; --predicted goes with --from-file."))
        return self._of_run(name)

    def _of_run(self, name: str) -> dict[str, Any]:
        run = get_run(name)
        self.document = run.scorer.guideline.document
        board = get_finished_board(run)
        parts = {part_name: find_part(run, part_name) for part_name in self.parts}
        if None in parts.values():
            raise Conflict(
                N_("The run {name} was made before runs kept this; run it again to see it."), name=run.name
            )
        return board | {"gate": describe_promotion(run.scorer)} | self._narrowed(parts)

    def _from_file(self, name: str | None, path: str, guideline: str | None) -> dict[str, Any]:
        if name is not None or guideline is None:
            raise AssayError(N_("--from-file takes the place of a run's name, and needs --guideline."))
        if ESTIMATES in self.parts:
            raise AssayError(
                N_("--estimates needs gold labels and predictions of the same responses: name a run.")
            )
        guideline_document = get_document(guideline)
        self.document = guideline_document.document
        rows = read_responses(path, self.document)
        figures = BoardFigures(
            self.document, [_as_predicted(row) for row in rows] if self.predicted else rows
        )
        if guideline_document.shipped:
            self.stderr.write(
                f"{self.document.name} is not in the database: "
                f"using {self.document.name}@{self.document.version} as shipped with Assay"
            )
        return self._of_file(figures)

    def _of_file(self, figures: BoardFigures) -> dict[str, Any]:
        """A file does not tell whether people or a scorer made its labels; whoever asks does."""
        parts = self._narrowed({part: getattr(figures, part) for part in self.parts})
        if not self.predicted:
            self.stderr.write(
                "Ranks take the labels of the file as people's; give --predicted if a scorer made them."
            )
        return figures.board | parts

    def _narrowed(self, parts: dict[str, Any]) -> dict[str, Any]:
        """The parts, of the groups only those asked for."""
        if GROUPS in parts:
            self._refuse_unknown(parts[GROUPS])
            parts[GROUPS] = {name: parts[GROUPS][name] for name in self.by}
        return parts

    def _refuse_unknown(self, groups: dict[str, Any]) -> None:
        unknown = [name for name in self.by if name not in groups]
        if unknown:
            raise AssayError(
                N_("No prompt here has: {lacking}; known are: {known}."),
                lacking=", ".join(unknown),
                known=", ".join(groups) or "-",
            )

    def show(self, data: dict[str, Any]) -> None:
        self._lines(build_board_table(data, self.document, intervals=self.intervals))
        for name, groups in data.get(GROUPS, {}).items():
            self._lines(
                ["", f"by {name}", *build_groups_table(groups, self.document, intervals=self.intervals)]
            )
        if PAIRS in data:
            title = f"difference in {data[PAIRS]['metric']} of every pair"
            self._lines(["", title, *build_pairs_table(data[PAIRS], self.document)])
        if ESTIMATES in data:
            self._lines(["", "estimates", *build_estimates_table(data[ESTIMATES], self.document)])

    def _lines(self, lines: Sequence[str]) -> None:
        for line in lines:
            self.stdout.write(line)


def _as_predicted(row: CountedResponse) -> CountedResponse:
    return replace(row, basis=PREDICTED, predicted=row.labels)
