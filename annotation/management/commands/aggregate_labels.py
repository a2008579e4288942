from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from annotation.core.formatting import format_decimal
from annotation.core.terminal import format_table
from annotation.domain.agreement import Value
from annotation.domain.releases.gold_file import csv_cell, csv_writer
from annotation.management.base import AssayCommand
from annotation.selectors.batches import get_batch
from annotation.selectors.quality.aggregation import (
    METHODS,
    CriterionAggregate,
    Posterior,
    aggregate_labels,
    list_posteriors,
)

HEADS = ("criterion", "level", "share", "tasks", "labels", "people")
COLUMNS = ("task", "dataset", "prompt_id", "model", "criterion", "gold", "most_probable", "probability")
DIGITS = 6


class Command(AssayCommand):
    help = "Combine the labels of a batch into the probability of each level, by a model of all its people."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--batch", required=True)
        parser.add_argument("--method", choices=list(METHODS), default="dawid-skene")
        parser.add_argument("--out", metavar="FILE", help="write every task into a new CSV file")

    def act(self, **options: Any) -> dict[str, Any]:
        criteria = aggregate_labels(get_batch(options["batch"]), options["method"])
        rows = self._write(criteria, options["out"]) if options["out"] else None
        return {
            "batch": options["batch"],
            "method": options["method"],
            "criteria": [_summarize_criterion(criterion) for criterion in criteria],
            "out": options["out"],
            "rows": rows,
        }

    def _write(self, criteria: Sequence[CriterionAggregate], path: str) -> int:
        total = sum(len(criterion.tasks) for criterion in criteria if criterion.posteriors is not None)
        with self.new_file(path) as file, self.progress(total=total) as bar:
            for line in _write_csv_lines(_list_values(criteria), list_posteriors(criteria)):
                file.write(line)
                bar.update()
        return total

    def show(self, data: dict[str, Any]) -> None:
        for line in format_table([HEADS, *_build_lines(data["criteria"])], texts=1):
            self.stdout.write(line)
        for criterion in data["criteria"]:
            if criterion["reason"]:
                self.stdout.write(f"{criterion['criterion']}: {criterion['reason']}")
            elif not criterion["converged"]:
                self.stdout.write(
                    f"{criterion['criterion']}: not settled after {criterion['iterations']} rounds"
                )
        if data["out"]:
            self.stdout.write(f"{data['out']}: {data['rows']} rows")


def _summarize_criterion(criterion: CriterionAggregate) -> dict[str, Any]:
    shares = None if criterion.marginals is None else [float(share) for share in criterion.marginals]
    return {
        "criterion": criterion.criterion,
        "tasks": len(criterion.tasks),
        "labels": criterion.labels,
        "people": criterion.people,
        "marginals": None if shares is None else dict(zip(map(str, criterion.values), shares, strict=True)),
        "iterations": criterion.iterations,
        "converged": criterion.converged,
        "reason": criterion.reason,
    }


def _build_lines(criteria: Iterable[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    for criterion in criteria:
        counts = [str(criterion[name]) for name in ("tasks", "labels", "people")]
        for level, share in (criterion["marginals"] or {"-": None}).items():
            yield criterion["criterion"], level, format_decimal(share, 4), *counts


def _list_values(criteria: Iterable[CriterionAggregate]) -> list[Value]:
    return sorted({value for criterion in criteria for value in criterion.values})


def _write_csv_lines(values: Sequence[Value], rows: Iterable[Posterior]) -> Iterator[str]:
    """A line for each row, under a header; a level that a criterion does not have is empty."""
    line = csv_writer()
    yield line([*COLUMNS, *(f"probability.{value}" for value in values)])
    for row in rows:
        about = row.task, row.dataset, row.prompt_id, row.model, row.criterion, row.gold, row.most_probable
        shares = {value: round(share, DIGITS) for value, share in row.probabilities.items()}
        cells = *about, shares[row.most_probable], *(shares.get(value) for value in values)
        yield line([csv_cell(cell) for cell in cells])
