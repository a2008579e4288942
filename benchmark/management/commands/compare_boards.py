from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from annotation.core.formatting import UNDEFINED, format_decimal
from annotation.core.terminal import format_table
from annotation.management.base import AssayCommand
from benchmark.domain.correlations import MIN_MODELS
from benchmark.domain.leaderboards.matrix import MIN_CORRELATED, MatrixNumber
from benchmark.domain.leaderboards.metrics import format_metric_value
from benchmark.selectors.leaderboards.matrix import MatrixBoard, build_matrix


class Command(AssayCommand):
    help = (
        "Lay the latest board of each guideline and dataset beside the others: models by boards, and Spearman's rank"
        " correlation of each two boards over the models that both have."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--metric",
            default="",
            help="compare the boards that have this metric by it (default: what each is ranked by)",
        )
        parser.add_argument("--without-published", action="store_true", help="leave the published tables out")

    def act(self, **options: Any) -> dict[str, Any]:
        self.matrix = build_matrix(None, options["metric"], with_published=not options["without_published"])
        return self.matrix.to_json()

    def show(self, data: dict[str, Any]) -> None:
        boards = self.matrix.boards
        for place, board in enumerate(boards, 1):
            self.stdout.write(f"{place}  {_describe_board(board)}")
        if not boards:
            self.stdout.write("no board is finished yet")
            return
        rows = [["model", *(str(place) for place in range(1, len(boards) + 1))]]
        rows += [
            [model, *(_format_number(board, board.column.numbers.get(model)) for board in boards)]
            for model in self.matrix.models
        ]
        self.stdout.write("")
        for line in format_table(rows):
            self.stdout.write(line)
        if self.matrix.has_predicted:
            self.stdout.write("in brackets: predicted by a scorer, not compared, and not correlated")
        if data["correlations"]:
            self._show_correlations(data["correlations"])

    def _show_correlations(self, correlations: list[dict[str, Any]]) -> None:
        rows = [["boards", "models", "Spearman", "95%"]]
        rows += [
            [
                f"{row['first'] + 1} and {row['second'] + 1}",
                str(row["n"]),
                format_decimal(row["spearman"]["value"], 3),
                _format_interval(row["spearman"]),
            ]
            for row in correlations
        ]
        self.stdout.write("")
        for line in format_table(rows):
            self.stdout.write(line)
        self.stdout.write(
            "better is taken for higher, so that 1 is the same order;"
            f" undefined below {MIN_CORRELATED} models, no interval below {MIN_MODELS}"
        )


def _describe_board(board: MatrixBoard) -> str:
    kind = "published table" if board.table is not None else "run"
    metric = board.column.metric
    number = metric.name if board.column.scope is None else f"{metric.name} of {board.column.scope}"
    better = ", lower is better" if metric.better == "lower" else ""
    return f"{kind} {board.name}: {number}{better}; {board.guideline} on {board.origin or UNDEFINED}"


def _format_number(board: MatrixBoard, number: MatrixNumber | None) -> str:
    if number is None:
        return UNDEFINED
    text = format_metric_value(board.column.metric, number.value)
    return text if number.is_compared else f"({text})"


def _format_interval(statistic: Mapping[str, float | None]) -> str:
    if statistic["low"] is None:
        return UNDEFINED
    return f"{format_decimal(statistic['low'], 3)} to {format_decimal(statistic['high'], 3)}"
