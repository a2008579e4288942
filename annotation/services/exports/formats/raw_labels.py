"""The raw labels behind a release, a row for each person's label: ``task, worker, label``, as tools that weigh
annotators (Dawid-Skene, MACE) read them. What settled a label beside people has a row too: its ``kind`` says so.

It is checked by settling the written labels once more: they must give the release's gold, to the hash.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from annotation.core.errors import N_
from annotation.domain.adjudication import (
    ADJUDICATED,
    AGGREGATED,
    DECIDED,
    EXPERT,
    SettledValue,
    SettlementRules,
    settle_criterion,
)
from annotation.domain.guidelines import Label
from annotation.domain.guidelines.values import parse_level
from annotation.domain.releases.canonical import SettledLabel, number
from annotation.domain.releases.gold_file import (
    MARK,
    MAX_CELL_CHARACTERS,
    csv_cell,
    csv_writer,
    unescape_cell,
)
from annotation.models import LabelPosterior
from annotation.selectors.releases.lineage import StatedLabels, TaskStatedLabels, list_annotator_labels
from annotation.selectors.releases.rows import ReleasedRow
from annotation.selectors.releases.sources import find_texts
from annotation.services.exports.base import (
    Chunk,
    ExportCounts,
    ExportSpec,
    Part,
    ReportPosition,
    TextFile,
    Writer,
)
from annotation.services.exports.verification import check_labels

ANNOTATION, ADJUDICATION, AGGREGATION = "annotation", "adjudication", "aggregation"
"""What a row is: an annotator's label, a third person's decision, or the most probable level by a model of all labels.
An expert's final is ``EXPERT``."""
FIELDS = (
    "task",
    "worker",
    "label",
    "criterion",
    "kind",
    "probability",
    "source",
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
TEXT = "text"
"""The kind of a row with what an annotator wrote, in place of a label; and its column, where texts are asked for."""
Record = Mapping[str, Any]


class _RawLabelWriter(Writer):
    name = "labels"
    title = N_("Raw labels")
    about = N_(
        "A row for each label that a person gave: task, worker, label, as Dawid-Skene tools read them."
    )
    options = frozenset({"real_names", "rationales", "table"})

    def parts(self, spec: ExportSpec) -> list[Part]:
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
            labels = check_labels(spec.release, settle_labels(rows, _list_rules(spec)), tell)
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
    optional = OPTIONAL_FIELDS if spec.options.rationales else ()
    return (*FIELDS, *optional, *((TEXT,) if spec.released.has_texts else ()))


def _get_formatter(spec: ExportSpec) -> Callable[[Record], str]:
    if spec.options.table == "csv":
        line = csv_writer()
        return lambda record: line([csv_cell(value) for value in record.values()])
    encode = json.JSONEncoder(ensure_ascii=False).encode
    return lambda record: encode(record) + "\n"


def list_records(rows: Sequence[ReleasedRow], spec: ExportSpec) -> Iterator[dict[str, Any]]:
    """The labels of the rows: task by task, criterion by criterion, the annotators in slot order, then what settled it:
    the decision, or what the model of all labels said.
    """
    posteriors = _find_posteriors(rows)
    texts = find_texts([task for row in rows for task in row.tasks]) if spec.released.has_texts else {}
    for row, tasks in list_annotator_labels(rows):
        for task in tasks:
            for criterion in dict.fromkeys(name for label in task.stated for name in label.labels):
                source = row.gold.sources[criterion]
                for label in task.stated:
                    # A decision that came after the release is none of it.
                    if criterion in label.labels and (source in DECIDED or not label.is_decision):
                        yield _build_record(row, task, criterion, label, spec)
                if source == AGGREGATED:
                    yield _build_aggregation(row, task, criterion, posteriors[task.task, criterion], spec)
            for label in task.stated:
                for criterion, text in sorted(texts.get((task.task, label.person), {}).items()):
                    yield _build_text(row, task, criterion, label, spec) | {TEXT: text}


def _find_posteriors(rows: Sequence[ReleasedRow]) -> dict[tuple[int, str], LabelPosterior]:
    """By task and criterion, of the labels that a model settled."""
    tasks = [
        task
        for row in rows
        for task, labels in row.labels
        if any(source == AGGREGATED for _criterion, _value, source in labels)
    ]
    stored = LabelPosterior.objects.filter(task__in=tasks).select_related("task__batch") if tasks else ()
    return {(posterior.task_id, posterior.criterion): posterior for posterior in stored}


def _build_aggregation(
    row: ReleasedRow, task: TaskStatedLabels, criterion: str, posterior: LabelPosterior, spec: ExportSpec
) -> dict[str, Any]:
    """What the model of all labels said: its most probable level, in place of a person's label."""
    level, probability = max(posterior.probabilities.items(), key=itemgetter(1))
    fields = dict.fromkeys(_fields(spec))
    return fields | {
        **_describe_place(row, task, criterion),
        "worker": posterior.task.batch.aggregation,
        "label": number(parse_level(level)),
        "kind": AGGREGATION,
        "probability": probability,
    }


def _build_text(
    row: ReleasedRow, task: TaskStatedLabels, criterion: str, label: StatedLabels, spec: ExportSpec
) -> dict[str, Any]:
    """Who wrote a text, and of what; it settles nothing."""
    fields = dict.fromkeys(_fields(spec))
    return fields | {
        **_describe_place(row, task, criterion),
        "worker": spec.people[label.person],
        "kind": TEXT,
        **_describe_submission(label),
    }


def _describe_submission(label: StatedLabels) -> dict[str, Any]:
    return {
        "channel": label.channel,
        "time": label.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": label.seconds,
        "round": label.round or None,
        **dict(zip(IMPORT_FIELDS, label.origin or (None, None, None), strict=True)),
    }


def _describe_place(row: ReleasedRow, task: TaskStatedLabels, criterion: str) -> dict[str, Any]:
    """What a row is about, whoever says it."""
    gold = row.gold
    return {
        "task": f"{task.batch}/{task.place}",
        "criterion": criterion,
        "source": gold.sources.get(criterion),
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
    }


def _build_record(
    row: ReleasedRow, task: TaskStatedLabels, criterion: str, label: StatedLabels, spec: ExportSpec
) -> dict[str, Any]:
    source = row.gold.sources[criterion]
    decision = EXPERT if source == EXPERT else ADJUDICATION
    record: dict[str, Any] = dict.fromkeys(_fields(spec))
    record |= {
        **_describe_place(row, task, criterion),
        "worker": spec.people[label.person],
        "label": label.labels[criterion],
        "kind": decision if label.is_decision else ANNOTATION,
        **_describe_submission(label),
    }
    if spec.options.rationales:
        record |= {
            "rationale": label.rationale,
            "evidence": [s for s in label.evidence if s["criterion"] == criterion],
        }
    return record


def _list_rules(spec: ExportSpec) -> dict[str, SettlementRules]:
    """By what the labels of each batch of the release are settled, by its name."""
    batches = spec.release.batches.select_related("guideline")
    return {
        batch.name: SettlementRules.of(batch.guideline.document, batch.tolerance, batch.settling)
        for batch in batches
    }


def settle_labels(records: Iterable[Record], rules: Mapping[str, SettlementRules]) -> Iterator[SettledLabel]:
    """The gold that the raw labels give by the rules of each batch; those of one task and criterion follow each other.

    What they leave disputed is no gold: it is left out, so that the counts differ from the release's.
    """
    labels = (record for record in records if record["kind"] != TEXT)
    for (_task, criterion), same in groupby(labels, key=lambda record: (record["task"], record["criterion"])):
        same_criterion = list(same)
        first = same_criterion[0]
        settled = _settle_records(same_criterion, rules[first["batch"]])
        if settled is None:
            continue
        yield SettledLabel(
            first["guideline"],
            first["guideline_version"],
            first["dataset"],
            first["prompt_id"],
            first["model"],
            first["response_sha256"],
            criterion,
            settled.value,
            settled.source,
        )


def _settle_records(records: Sequence[Record], rules: SettlementRules) -> SettledValue | None:
    """A release has no label of a dispute that nobody decided."""
    by_kind: dict[str, list[Label]] = defaultdict(list)
    for record in records:
        by_kind[record["kind"]].append(record["label"])
    for kind, source in ((EXPERT, EXPERT), (ADJUDICATION, ADJUDICATED), (AGGREGATION, AGGREGATED)):
        if by_kind[kind]:
            return SettledValue(by_kind[kind][0], source)
    return settle_criterion(records[0]["criterion"], by_kind[ANNOTATION], rules)


def _from_csv(lines: Iterable[str]) -> Iterator[Record]:
    csv.field_size_limit(MAX_CELL_CHARACTERS)
    for row in csv.DictReader(lines):
        record: dict[str, Any] = {name: unescape_cell(cell) for name, cell in row.items()}
        is_text = record["kind"] == TEXT
        yield record | {"label": None if is_text else number(parse_level(row["label"]))}


LABELS = _RawLabelWriter()
