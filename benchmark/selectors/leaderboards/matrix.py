"""The latest board of each guideline and dataset of a study, and its published tables, beside each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from annotation.core.errors import N_, AssayError
from annotation.domain.guidelines import GuidelineDocument, Metric
from annotation.models import Person
from annotation.selectors.guidelines import get_guideline
from benchmark.domain.leaderboards.matrix import (
    BoardCorrelation,
    MatrixColumn,
    choose_metric,
    correlate_columns,
    list_models,
)
from benchmark.models import BenchmarkRun, PublishedTable
from benchmark.selectors.leaderboards.runs import RunRow, list_board_rows, list_run_rows, list_runs
from benchmark.selectors.published_tables import build_table_rows, list_published_tables, list_table_rows

NOT_READ = ("board", "cost")
"""Of the runs among which the latest are looked for: their boards are large."""


@dataclass(frozen=True)
class MatrixBoard:
    """A board as a column: of a ``run``, or of what others published in a ``table``. ``guideline`` is ``NAME@VERSION``,
    ``dataset`` blank of a table that has none, ``collection`` and ``language`` blank where they are the usual.
    """

    column: MatrixColumn
    document: GuidelineDocument
    name: str
    guideline: str
    dataset: str
    collection: str
    language: str
    run: BenchmarkRun | None = None
    table: PublishedTable | None = None

    @property
    def origin(self) -> str:
        """Whose responses to what it is of."""
        return " / ".join(filter(None, (self.dataset, self.collection, self.language)))

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "run" if self.table is None else "published",
            "name": self.name,
            "guideline": self.guideline,
            "dataset": self.dataset or None,
            "collection": self.collection or None,
            "language": self.language or None,
            "scorer": None if self.run is None else self.run.scorer.name,
            "metric": self.column.metric.name,
            "better": self.column.metric.better,
            "scope": self.column.scope,
            "n": len(self.column.numbers),
        }


@dataclass(frozen=True)
class BoardMatrix:
    """``models`` by ``boards``. ``metrics`` are those that any of the boards has, by name, each as the first of them
    declares it; ``sealed`` is how many boards and tables the reader may not open yet.
    """

    boards: tuple[MatrixBoard, ...]
    models: tuple[str, ...]
    correlations: tuple[BoardCorrelation, ...]
    metrics: dict[str, Metric]
    sealed: int

    @property
    def has_predicted(self) -> bool:
        """Whether any number is predicted, and so not compared."""
        return any(
            not number.is_compared for board in self.boards for number in board.column.numbers.values()
        )

    def to_json(self) -> dict[str, Any]:
        """The document that ``compare_boards --json`` prints."""
        return {
            "boards": [board.to_json() for board in self.boards],
            "models": [
                {
                    "model": model,
                    "numbers": [
                        number.to_json() if (number := board.column.numbers.get(model)) else None
                        for board in self.boards
                    ],
                }
                for model in self.models
            ],
            "correlations": [correlation.to_json() for correlation in self.correlations],
        }


def build_matrix(person: Person | None, metric: str = "", *, with_published: bool = True) -> BoardMatrix:
    """Of the study under way, by guideline and dataset; with published tables after the boards.

    ``metric`` is what boards are compared by that have it; the others by what they are ranked by, as all are without
    one. Somebody who judges blind sees what the list of boards opens for them; None sees all. AssayError where no board
    has the metric.
    """
    runs, sealed_runs = _list_latest_runs(person)
    tables, sealed_tables = _list_tables(person) if with_published else ([], 0)
    documents = [run.scorer.guideline.document for run in runs] + [document for _table, document in tables]
    metrics: dict[str, Metric] = {}
    for document in documents:
        for declared in document.metrics:
            metrics.setdefault(declared.name, declared)
    if metric and metric not in metrics:
        raise AssayError(
            N_("No board has the metric {metric}; choose one of: {known}."),
            metric=metric,
            known=", ".join(metrics) or "-",
        )
    boards = [*(_build_run(run, metric) for run in runs), *(_build_table(*table, metric) for table in tables)]
    columns = [board.column for board in boards]
    return BoardMatrix(
        tuple(boards),
        tuple(list_models(columns)),
        tuple(correlate_columns(columns)),
        metrics,
        sealed_runs + sealed_tables,
    )


def _list_latest_runs(person: Person | None) -> tuple[list[BenchmarkRun], int]:
    """The last finished run of each guideline and dataset that the person may open and that is not archived, and of how
    many guidelines and datasets they may open none.
    """
    finished = list_runs().filter(finished_at__isnull=False, archived_at=None).defer(*NOT_READ)
    finished = finished.order_by("scorer__guideline__name", "dataset__name", "-finished_at", "-pk")
    rows: Iterable[RunRow] = (
        [RunRow(run, sealed=False) for run in finished] if person is None else list_run_rows(person, finished)
    )
    latest: dict[tuple[str, int], BenchmarkRun | None] = {}
    for row in rows:
        if not row.run.scorer.guideline.document.metrics:
            continue
        key = row.run.scorer.guideline.name, row.run.dataset_id
        if latest.get(key) is None:
            latest[key] = None if row.sealed else row.run
    opened = [run.pk for run in latest.values() if run is not None]
    with_boards = list_runs().in_bulk(opened)
    return [with_boards[pk] for pk in opened], len(latest) - len(opened)


def _list_tables(person: Person | None) -> tuple[list[tuple[PublishedTable, GuidelineDocument]], int]:
    """Those that are not archived, each with the latest published version of its guideline."""
    stored = list_published_tables().filter(archived_at=None).order_by("guideline_name", "name", "pk")
    if person is None:
        opened, sealed = list(stored), 0
    else:
        rows = list_table_rows(person, stored)
        opened = [row.table for row in rows if not row.sealed]
        sealed = len(rows) - len(opened)
    documents = {name: get_guideline(name).document for name in {table.guideline_name for table in opened}}
    return [(table, documents[table.guideline_name]) for table in opened], sealed


def _build_run(run: BenchmarkRun, metric: str) -> MatrixBoard:
    document = run.scorer.guideline.document
    return MatrixBoard(
        MatrixColumn.build(document, choose_metric(document, metric), list_board_rows(run)),
        document,
        run.name,
        str(run.scorer.guideline),
        run.dataset.name,
        run.collection.name,
        "",
        run=run,
    )


def _build_table(table: PublishedTable, document: GuidelineDocument, metric: str) -> MatrixBoard:
    """By the first metric that it has a number of, where it has none of what is asked for."""
    rows = build_table_rows(table, document)
    columns = [
        MatrixColumn.build(document, candidate, rows)
        for candidate in [choose_metric(document, metric), *document.metrics]
    ]
    return MatrixBoard(
        next((column for column in columns if column.numbers), columns[0]),
        document,
        table.name,
        f"{document.name}@{document.version}",
        table.dataset.name if table.dataset else "",
        "",
        table.language,
        table=table,
    )
