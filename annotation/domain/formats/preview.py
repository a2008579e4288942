"""What a file would be taken for, before anything is stored. Pure: a page and a command show the same.

``preview_file`` reads the whole file once, a record at a time: what its columns are, its first records, how many there
are, which of them are there twice, and what is wrong with it, in groups.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
from annotation.domain.formats.labels import find_taxonomy_fault
from annotation.domain.formats.mapping.mapping import ColumnMapping
from annotation.domain.formats.personal_data import PersonalDataScan
from annotation.domain.guidelines import GuidelineDocument

MAX_ROWS = 5
MAX_LINES = 5
MAX_ALIKE = 8
"""So many things of which the same is said are told apart."""
MAX_SAMPLE_CHARACTERS = 120
MAX_WORDS = 1000
MAX_COMPARED = 2_000_000
"""So many records are looked through for duplicates; each takes about 300 bytes."""


@dataclass
class ProblemGroup:
    """Problems that read alike: how many, the first of them, and where the first few are.

    ``is_mixed``: they are of one sort, and say it of more things than are worth a line each.
    """

    first: InputError
    number: int = 0
    lines: list[int] = field(default_factory=list)
    is_mixed: bool = False

    def add(self, error: InputError) -> None:
        self.number += 1
        if error.line is not None and len(self.lines) < MAX_LINES and error.line not in self.lines:
            self.lines.append(error.line)


def group_problems(problems: Sequence[InputError]) -> list[ProblemGroup]:
    """What says the same of the same thing is a group, such as all lines of one misspelt dimension. Of a sort that says
    it of too many things, such as an id each, all are one. The most frequent first.
    """
    texts: dict[tuple[str, str | None], set[str]] = {}
    for problem in problems:
        texts.setdefault(_sort_of(problem), set()).add(_text_of(problem))
    groups: dict[tuple[str, str | None, str], ProblemGroup] = {}
    for problem in problems:
        sort = _sort_of(problem)
        is_mixed = len(texts[sort]) > MAX_ALIKE
        group = groups.setdefault((*sort, "" if is_mixed else _text_of(problem)), ProblemGroup(problem))
        group.is_mixed = is_mixed
        group.add(problem)
    return sorted(groups.values(), key=lambda group: -group.number)


def _sort_of(problem: InputError) -> tuple[str, str | None]:
    return problem.template, problem.field


def _text_of(problem: InputError) -> str:
    return problem.template.format(**problem.params)


@dataclass
class Duplicates:
    """``repeated``: records that say the same again, which changes nothing; ``contradicting``: the same prompt,
    response or label with another content, which is refused; ``renamed``: prompts with the text of another under an id
    of their own, which are taken. ``lines`` are pairs: a record, and the first it meets.
    """

    repeated: int = 0
    contradicting: int = 0
    renamed: int = 0
    lines: list[tuple[int, int]] = field(default_factory=list)
    renamed_lines: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class FilePreview:
    """``columns`` are the file's with the field that each was taken for, "" for none; empty where the format knows its
    fields by itself. ``names`` counts the records of each model, or of each annotator, ``words`` and ``spans`` what
    labels and marked spans are called. ``left_out`` counts by reason.
    """

    file: str
    format: str
    kind: str
    shape: str = ""
    header: tuple[str, ...] = ()
    samples: dict[str, str] = field(default_factory=dict)
    sheet: str = ""
    sheets: tuple[str, ...] = ()
    columns: list[tuple[str, str]] = field(default_factory=list)
    mapping: ColumnMapping | None = None
    rows: list[Record] = field(default_factory=list)
    count: int = 0
    names: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    spans: Counter[str] = field(default_factory=Counter)
    duplicates: Duplicates = field(default_factory=Duplicates)
    problems: list[ProblemGroup] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    personal_data: PersonalDataScan | None = None


def preview_file(
    source: Source,
    form: Format,
    kind: str,
    document: GuidelineDocument | None = None,
    *,
    most_rows: int = MAX_ROWS,
    most_compared: int = MAX_COMPARED,
    personal_data: PersonalDataScan | None = None,
) -> FilePreview:
    """What an import of this kind would read of the file, and how. ``document``: the guideline whose dimensions and
    subcomponents its prompts must be of. ``personal_data`` is found in what was read, and masked in the rows that the
    preview has.
    """
    preview = FilePreview(source.name, form.name, kind, personal_data=personal_data)
    problems: list[InputError] = []
    if form.name == table.NAME:
        try:
            opened, preview.mapping, sample = table.map_table(source.reopen(), kind)
        except InputError as error:
            preview.problems = group_problems([error])
            return preview
        preview.shape, preview.sheet, preview.sheets = opened.shape, opened.sheet, opened.sheets
        preview.columns = preview.mapping.describe()
        preview.header = opened.columns
        preview.samples = _take_samples(sample)
    compared = _Comparison(preview.duplicates, most_compared)
    for item in form.reader(kind).items(source):
        if isinstance(item, InputError):
            problems.append(item)
            continue
        record = item if personal_data is None else personal_data.scan(item)
        if fault := _find_fault(record, document, preview):
            problems.append(fault)
        preview.count += 1
        preview.names[_name_record(record)] += 1
        _count_words(record, preview)
        compared.add(record)
        if len(preview.rows) < most_rows:
            preview.rows.append(record)
    preview.problems = group_problems(problems)
    preview.unused, preview.left_out, preview.notes = list(source.unused), source.passed_over, source.notes
    return preview


def _count_words(record: Record, preview: FilePreview) -> None:
    """What its labels and marked spans are called, as far as few enough different words are."""
    if isinstance(record, PromptRecord | ResponseRecord):
        return
    spans = record.evidence if isinstance(record, AnnotationRecord) else ()
    for words, counts in (
        (record.labels, preview.words),
        ([str(span["label"]) for span in spans if "label" in span], preview.spans),
    ):
        counts.update(word for word in words if word in counts or len(counts) < MAX_WORDS)


def _take_samples(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The first thing that stands in each column, as a text."""
    samples: dict[str, str] = {}
    for fields in rows:
        for column, value in fields.items():
            if column not in samples and value is not None and (text := str(value).strip()):
                samples[column] = text[:MAX_SAMPLE_CHARACTERS]
    return samples


def _find_fault(
    record: Record, document: GuidelineDocument | None, preview: FilePreview
) -> InputError | None:
    prompt = record if isinstance(record, PromptRecord) else getattr(record, "prompt", None)
    if document is None or prompt is None:
        return None
    fault = find_taxonomy_fault(document, prompt.dimension, prompt.subcomponent)
    if fault is None:
        return None
    columns = preview.mapping.columns.get(fault.field, ()) if preview.mapping else ()
    place = " + ".join(columns) or fault.field
    return InputError(
        fault.error.template, path=preview.file, line=prompt.line, field=place, **fault.error.params
    )


class _Comparison:
    def __init__(self, duplicates: Duplicates, most: int) -> None:
        self._duplicates, self._most = duplicates, most
        self._seen: dict[bytes, tuple[bytes, int]] = {}
        self._texts: dict[bytes, int] = {}

    def add(self, record: Record) -> None:
        key, content = (_digest(part) for part in _identify(record))
        if key not in self._seen:
            if len(self._seen) < self._most:
                self._seen[key] = (content, record.line)
                self._compare_text(record, content)
            return
        first_content, first_line = self._seen[key]
        if content == first_content:
            self._duplicates.repeated += 1
        else:
            self._duplicates.contradicting += 1
        if len(self._duplicates.lines) < MAX_LINES:
            self._duplicates.lines.append((record.line, first_line))

    def _compare_text(self, record: Record, content: bytes) -> None:
        if not isinstance(record, PromptRecord):
            return
        first_line = self._texts.setdefault(content, record.line)
        if first_line != record.line:
            self._duplicates.renamed += 1
            if len(self._duplicates.renamed_lines) < MAX_LINES:
                self._duplicates.renamed_lines.append((record.line, first_line))


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
