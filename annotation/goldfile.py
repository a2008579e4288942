"""The gold file: a row per task, as JSONL and as CSV. Pure; ``docs/gold.md`` describes both."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from annotation.gold import Value

DANGEROUS = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r", "\n")
"""What a spreadsheet may take for the start of a formula; in a Chinese or Japanese one also the wide forms."""


@dataclass(frozen=True)
class GoldRow:
    """``response`` is a text, or the turns of a dialogue; ``labels`` and ``sources`` are by criterion."""

    dataset: str
    prompt_id: str
    dimension: str
    subcomponent: str
    model: str
    response: str | list[dict[str, str]]
    labels: Mapping[str, Value]
    sources: Mapping[str, str]
    guideline: str
    guideline_version: str


def jsonl_lines(rows: Iterable[GoldRow], criteria: Sequence[str]) -> Iterator[str]:
    """A JSON object per line, the fields in the order of ``GoldRow``, the criteria as in ``criteria``."""
    for row in rows:
        record = {**asdict(row), "labels": _in_order(row.labels, criteria)}
        record["sources"] = _in_order(row.sources, criteria)
        yield json.dumps(record, ensure_ascii=False) + "\n"


def csv_lines(rows: Iterable[GoldRow], criteria: Sequence[str]) -> Iterator[str]:
    """Every text in quotes, numbers bare; one ``label.`` and one ``source.`` column for each criterion."""
    yield _csv_line(csv_header(criteria))
    for row in rows:
        yield _csv_line([_cell(value) for value in _flat(row, criteria)])


def csv_header(criteria: Sequence[str]) -> list[str]:
    labels, sources = [f"label.{name}" for name in criteria], [f"source.{name}" for name in criteria]
    before = ["dataset", "prompt_id", "dimension", "subcomponent", "model", "response"]
    return [*before, *labels, *sources, "guideline", "guideline_version"]


def safe_cell(text: str) -> str:
    """The text so that no spreadsheet takes it for a formula: an apostrophe goes before a dangerous start.

    One goes before an apostrophe as well, so that taking the first apostrophe off gives every text back.
    """
    return f"'{text}" if text.startswith((*DANGEROUS, "'")) else text


def _flat(row: GoldRow, criteria: Sequence[str]) -> list[Any]:
    labels = [row.labels.get(name) for name in criteria]
    sources = [row.sources.get(name) for name in criteria]
    before = [row.dataset, row.prompt_id, row.dimension, row.subcomponent, row.model, row.response]
    return [*before, *labels, *sources, row.guideline, row.guideline_version]


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return safe_cell(text)


def _csv_line(cells: Sequence[Any]) -> str:
    # Quoting every text also keeps a lone carriage return inside its cell, which minimal quoting does not.
    line = io.StringIO()
    csv.writer(line, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n").writerow(cells)
    return line.getvalue()


def _in_order(values: Mapping[str, Any], criteria: Sequence[str]) -> dict[str, Any]:
    return {name: values[name] for name in criteria if name in values}


Lines: TypeAlias = Callable[[Iterable[GoldRow], Sequence[str]], Iterator[str]]


@dataclass(frozen=True)
class GoldFormat:
    """How a gold file is written: what its lines are, and what a browser is told of it."""

    name: str
    lines: Lines
    content_type: str

    @property
    def file_name(self) -> str:
        return f"gold.{self.name}"


FORMATS: Mapping[str, GoldFormat] = {
    "jsonl": GoldFormat("jsonl", jsonl_lines, "application/x-ndjson; charset=utf-8"),
    "csv": GoldFormat("csv", csv_lines, "text/csv; charset=utf-8"),
}
