"""What a file would be taken for, before anything is stored. Pure: a page and a command show the same.

``preview_file`` reads the whole file once, a record at a time: what its columns are, its first records, how many there
are, which of them are there twice, and what is wrong with it, in groups.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from annotation.core.errors import InputError
from annotation.domain.formats import (
    AnnotationRecord,
    Format,
    PromptRecord,
    Record,
    ResponseRecord,
    Source,
    table,
)
from annotation.domain.formats.mapping import ColumnMapping

MAX_ROWS = 5
MAX_LINES = 5
MAX_COMPARED = 2_000_000
"""So many records are looked through for duplicates; each takes about a hundred bytes."""


@dataclass
class ProblemGroup:
    """Problems that read alike: how many, the first of them, and where the first few are."""

    first: InputError
    number: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, error: InputError) -> None:
        self.number += 1
        if error.line is not None and len(self.lines) < MAX_LINES and error.line not in self.lines:
            self.lines.append(error.line)


def group_problems(problems: Iterable[InputError]) -> list[ProblemGroup]:
    """The most frequent first."""
    groups: dict[tuple[str, str | None], ProblemGroup] = {}
    for problem in problems:
        key = (problem.template, problem.field)
        groups.setdefault(key, ProblemGroup(problem)).add(problem)
    return sorted(groups.values(), key=lambda group: -group.number)


@dataclass
class Duplicates:
    """``repeated``: records that say the same again, which changes nothing; ``contradicting``: the same prompt,
    response or label with another content, which is refused. ``lines`` are pairs: a record, and the first it meets.
    """

    repeated: int = 0
    contradicting: int = 0
    lines: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class FilePreview:
    """``columns`` are the file's with the field that each was taken for, "" for none; empty where the format knows its
    fields by itself. ``names`` counts the records of each model, or of each annotator. ``left_out`` counts by reason.
    """

    file: str
    format: str
    kind: str
    shape: str = ""
    sheet: str = ""
    sheets: tuple[str, ...] = ()
    columns: list[tuple[str, str]] = field(default_factory=list)
    mapping: ColumnMapping | None = None
    rows: list[Record] = field(default_factory=list)
    count: int = 0
    names: Counter[str] = field(default_factory=Counter)
    duplicates: Duplicates = field(default_factory=Duplicates)
    problems: list[ProblemGroup] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def preview_file(source: Source, form: Format, kind: str) -> FilePreview:
    """What an import of this kind would read of the file, and how."""
    preview = FilePreview(source.name, form.name, kind)
    problems: list[InputError] = []
    if form.name == table.NAME:
        try:
            opened, preview.mapping = table.map_table(source.reopen(), kind)
        except InputError as error:
            preview.problems = group_problems([error])
            return preview
        preview.shape, preview.sheet, preview.sheets = opened.shape, opened.sheet, opened.sheets
        preview.columns = preview.mapping.describe()
    compared = _Comparison(preview.duplicates)
    for item in form.reader(kind).items(source):
        if isinstance(item, InputError):
            problems.append(item)
            continue
        preview.count += 1
        preview.names[_name_record(item)] += 1
        compared.add(item)
        if len(preview.rows) < MAX_ROWS:
            preview.rows.append(item)
    preview.problems = group_problems(problems)
    preview.unused, preview.left_out, preview.notes = list(source.unused), source.passed_over, source.notes
    return preview


class _Comparison:
    def __init__(self, duplicates: Duplicates) -> None:
        self._duplicates = duplicates
        self._seen: dict[bytes, tuple[bytes, int]] = {}

    def add(self, record: Record) -> None:
        key, content = (_digest(part) for part in _identify(record))
        if key not in self._seen:
            if len(self._seen) < MAX_COMPARED:
                self._seen[key] = (content, record.line)
            return
        first_content, first_line = self._seen[key]
        if content == first_content:
            self._duplicates.repeated += 1
        else:
            self._duplicates.contradicting += 1
        if len(self._duplicates.lines) < MAX_LINES:
            self._duplicates.lines.append((record.line, first_line))


def _digest(value: object) -> bytes:
    return hashlib.blake2b(repr(value).encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _identify(record: Record) -> tuple[object, object]:
    """What may be there once, and what it says."""
    if isinstance(record, PromptRecord):
        return record.ref.key, record.ref.text
    place = (record.ref.key, record.model, record.collection)
    if isinstance(record, ResponseRecord):
        return place, (record.text, list(record.turns))
    person = record.annotator if isinstance(record, AnnotationRecord) else record.adjudicator
    return (*place, type(record).__name__, person), dict(record.labels)


def _name_record(record: Record) -> str:
    if isinstance(record, PromptRecord):
        return record.dimension
    if isinstance(record, ResponseRecord):
        return record.model or ""
    return record.annotator if isinstance(record, AnnotationRecord) else record.adjudicator


def record_to_json(record: Record) -> dict[str, Any]:
    """What a record says, without what it leaves open."""
    values = {name: value for name, value in asdict(record).items() if name != "prompt"}
    ref = values.pop("ref")
    values = {"line": values.pop("line"), "prompt_id": ref["id"], "prompt": ref["text"], **values}
    return {name: value for name, value in values.items() if value not in (None, "", [], (), {})}
