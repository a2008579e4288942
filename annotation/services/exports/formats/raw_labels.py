"""The raw labels behind a release, a row for each person's label: ``task, worker, label``, as tools that weigh
annotators (Dawid-Skene, MACE) read them.

It is checked by settling the written labels once more: they must give the release's gold, to the hash.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from itertools import groupby
from pathlib import Path
from typing import Any

from annotation.core.errors import N_
from annotation.domain.adjudication import ADJUDICATED, SINGLE, UNANIMOUS, WITHIN_TOLERANCE, lower_median
from annotation.domain.guidelines.values import parse_level
from annotation.domain.releases.canonical import SettledLabel, Value, number
from annotation.domain.releases.gold_file import (
    MARK,
    MAX_CELL_CHARACTERS,
    csv_cell,
    csv_writer,
    unescape_cell,
)
from annotation.selectors.releases.lineage import StatedLabels, TaskStatedLabels, list_annotator_labels
from annotation.selectors.releases.rows import ReleasedRow
from annotation.services.exports.base import (
    Chunk,
    ExportCounts,
    ExportSpec,
    Part,
    ReportPosition,
    TextFile,
    Writer,
    refuse_other_settling,
)
from annotation.services.exports.verification import check_labels

ANNOTATION, ADJUDICATION = "annotation", "adjudication"
FIELDS = (
    "task",
    "worker",
    "label",
    "criterion",
    "kind",
    "channel",
    "time",
    "seconds",
    "round",
    "dataset",
    "prompt_id",
    "dimension",
    "subcomponent",
    "model",
    "response_sha256",
    "batch",
    "guideline",
    "guideline_version",
    "split",
    "imported_file",
    "imported_sha256",
    "imported_line",
)
IMPORT_FIELDS = FIELDS[-3:]
OPTIONAL_FIELDS = ("rationale", "evidence")
Record = Mapping[str, Any]


class _RawLabelWriter(Writer):
    name = "labels"
    title = N_("Raw labels")
    about = N_(
        "A row for each label that a person gave: task, worker, label, as Dawid-Skene tools read them."
    )
    options = frozenset({"real_names", "rationales", "table"})

    def parts(self, spec: ExportSpec) -> list[Part]:
        refuse_other_settling(spec.release.batches.all())
        lines = _get_formatter(spec)

        def chunks(start: int) -> Iterator[Chunk]:
            position = start
            for rows in spec.released.chunks(start):
                position += len(rows)
                yield Chunk("".join(map(lines, list_records(rows, spec))), position)

        head = MARK + csv_writer()(_fields(spec)) if spec.options.table == "csv" else ""
        return [TextFile(_file_name(spec), chunks, total=spec.rows, head=head)]

    def check(self, folder: Path, spec: ExportSpec, tell: ReportPosition) -> ExportCounts:
        with (folder / _file_name(spec)).open(encoding="utf-8-sig", newline="") as file:
            rows = _RecordCounter(_from_csv(file) if spec.options.table == "csv" else map(json.loads, file))
            labels = check_labels(spec.release, settle_labels(rows), tell)
        return ExportCounts(rows.number, labels)


class _RecordCounter:
    """Records on their way, counted."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.number = 0
        self._records = records

    def __iter__(self) -> Iterator[Record]:
        for record in self._records:
            self.number += 1
            yield record


def _file_name(spec: ExportSpec) -> str:
    return f"labels.{spec.options.table}"


def _fields(spec: ExportSpec) -> tuple[str, ...]:
    return FIELDS + OPTIONAL_FIELDS if spec.options.rationales else FIELDS


def _get_formatter(spec: ExportSpec) -> Callable[[Record], str]:
    if spec.options.table == "csv":
        line = csv_writer()
        return lambda record: line([csv_cell(value) for value in record.values()])
    encode = json.JSONEncoder(ensure_ascii=False).encode
    return lambda record: encode(record) + "\n"


def list_records(rows: Sequence[ReleasedRow], spec: ExportSpec) -> Iterator[dict[str, Any]]:
    """The labels of the rows: task by task, criterion by criterion, the annotators in slot order, then the decision."""
    for row, tasks in list_annotator_labels(rows):
        for task in tasks:
            for criterion in dict.fromkeys(name for label in task.stated for name in label.labels):
                for label in task.stated:
                    if criterion in label.labels:
                        yield _build_record(row, task, criterion, label, spec)


def _build_record(
    row: ReleasedRow, task: TaskStatedLabels, criterion: str, label: StatedLabels, spec: ExportSpec
) -> dict[str, Any]:
    gold = row.gold
    record: dict[str, Any] = {
        "task": f"{task.batch}/{task.place}",
        "worker": spec.people[label.person],
        "label": label.labels[criterion],
        "criterion": criterion,
        "kind": ADJUDICATION if label.is_decision else ANNOTATION,
        "channel": label.channel,
        "time": label.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": label.seconds,
        "round": label.round or None,
        "dataset": gold.dataset,
        "prompt_id": gold.prompt_id,
        "dimension": gold.dimension,
        "subcomponent": gold.subcomponent,
        "model": gold.model,
        "response_sha256": task.response_sha256,
        "batch": task.batch,
        "guideline": gold.guideline,
        "guideline_version": gold.guideline_version,
        "split": gold.split,
        **dict(zip(IMPORT_FIELDS, label.origin or (None, None, None), strict=True)),
    }
    if spec.options.rationales:
        record |= {
            "rationale": label.rationale,
            "evidence": [s for s in label.evidence if s["criterion"] == criterion],
        }
    return record


def settle_labels(records: Iterable[Record]) -> Iterator[SettledLabel]:
    """The gold that the raw labels give by the rules; those of one task and criterion follow each other."""
    for (_task, criterion), same in groupby(
        records, key=lambda record: (record["task"], record["criterion"])
    ):
        same_criterion = list(same)
        value, source = _settle_records(same_criterion)
        first = same_criterion[0]
        yield SettledLabel(
            first["guideline"],
            first["guideline_version"],
            first["dataset"],
            first["prompt_id"],
            first["model"],
            first["response_sha256"],
            criterion,
            value,
            source,
        )


def _settle_records(records: Sequence[Record]) -> tuple[Value, str]:
    """A release has no label of a dispute that nobody decided: what differs was within the batch's tolerance."""
    annotated = [record["label"] for record in records if record["kind"] == ANNOTATION]
    decided = [record["label"] for record in records if record["kind"] == ADJUDICATION]
    if decided:
        return decided[0], ADJUDICATED
    if len(annotated) == 1:
        return annotated[0], SINGLE
    if len(set(annotated)) == 1:
        return annotated[0], UNANIMOUS
    return lower_median(annotated), WITHIN_TOLERANCE


def _from_csv(lines: Iterable[str]) -> Iterator[Record]:
    csv.field_size_limit(MAX_CELL_CHARACTERS)
    for row in csv.DictReader(lines):
        record: dict[str, Any] = {name: unescape_cell(cell) for name, cell in row.items()}
        yield record | {"label": number(parse_level(row["label"]))}


LABELS = _RawLabelWriter()
