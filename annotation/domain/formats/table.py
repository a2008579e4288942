"""Tables of any shape (``tables.py``) and any header (``mapping/``): spreadsheets, CSV, JSON, Parquet, folders.

The rows come out with the fields of the generic formats. Labels may be in the guideline's words; responses and labels
bring the prompts along that their rows hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePath
from typing import Any, NamedTuple

from annotation.core.errors import N_, InputError
from annotation.core.names import MAX_NAME_CHARACTERS
from annotation.domain.formats import generic, jsonl
from annotation.domain.formats.base import (
    ANNOTATIONS,
    PROMPTS,
    RESPONSES,
    Format,
    Judgement,
    PromptRecord,
    PromptRef,
    Reader,
    ResponseRecord,
)
from annotation.domain.formats.grid import Table, take_sample
from annotation.domain.formats.mapping.apply import apply_mapping
from annotation.domain.formats.mapping.check import check_leftovers, check_mapping
from annotation.domain.formats.mapping.guess import guess_mapping
from annotation.domain.formats.mapping.mapping import (
    LABELS,
    ColumnMapping,
    adopt_mapping,
    leave_out,
    list_fields,
    map_fields,
)
from annotation.domain.formats.rows import FileRow, Rows, Source
from annotation.domain.formats.tables import open_table

NAME = "table"
LEFT_OUT_COLUMNS = N_("Columns left out, as was chosen: {columns}.")
_EXTENSIONS = re.compile(r"(\.(xlsx|csv|tsv|txt|jsonl?|ndjson|parquet|arrow|gz|zst))+$", re.IGNORECASE)


class MappedTable(NamedTuple):
    """``sample`` are the first rows, by which the columns were guessed."""

    table: Table
    mapping: ColumnMapping
    sample: Sequence[Mapping[str, Any]]


def map_table(source: Source, kind: str) -> MappedTable:
    """The table in the file, and what its columns are: as it was guessed, and then as somebody said."""
    table = open_table(source)
    sample = take_sample(open_table(source.reopen()).rows())
    mapping = guess_mapping(table.columns, sample, kind, source.options.criteria)
    if source.options.mapping is not None:
        stated = ColumnMapping.from_json(source.options.mapping)
        mapping = adopt_mapping(mapping, stated, table.columns, source.name)
    mapping = map_fields(mapping, source.options.fields, table.columns, source.name)
    return MappedTable(table, leave_out(mapping, source.options.left_out, table.columns), sample)


def read_as(source: Source, kind: str) -> Source:
    """The same file, read for another kind of content: of what was said of its columns, what that kind has."""
    known = list_fields(kind)
    fields = {name: column for name, column in source.options.fields.items() if name in known}
    return Source(source.path, source.name, replace(source.options, fields=fields))


def name_annotator(source: Source) -> str:
    """Whose labels a file holds by its name, where nobody and nothing in it says it: ``lin`` of ``lin.xlsx``."""
    return strip_ending(source.name)[:MAX_NAME_CHARACTERS]


def strip_ending(file_name: str) -> str:
    """``lin`` of ``folder/lin.csv.gz``."""
    return _EXTENSIONS.sub("", PurePath(file_name.replace("\\", "/")).name).strip()


def _read_rows(source: Source, *, kind: str) -> Rows:
    table, mapping, sample = map_table(source, kind)
    annotator = source.options.annotator or name_annotator(source) if kind == ANNOTATIONS else None
    check_mapping(mapping, table.columns, source.name, annotator)
    if kind == ANNOTATIONS and source.options.criteria:
        check_leftovers(mapping, sample, source.options, source.name)
    source.unused.update(dict.fromkeys(mapping.unused))
    if mapping.left_out:
        source.notes[LEFT_OUT_COLUMNS] = {"columns": ", ".join(mapping.left_out)}

    def tell(template: str) -> None:
        source.passed_over[template] += 1

    for row in table.rows():
        if isinstance(row, InputError):
            yield row
            continue
        try:
            yield from apply_mapping(mapping, row, annotator=annotator, tell=tell)
        except InputError as error:
            yield error


def _read_prompts(row: FileRow) -> Iterator[PromptRecord]:
    yield generic.read_prompt(row)


def _read_responses(row: FileRow) -> Iterator[ResponseRecord]:
    ref = generic.read_prompt_ref(row)
    turns: Sequence[Mapping[str, str]] = row.fields.get("turns") or []
    # The first question of a dialogue need not be what its prompt says: a role card is known to one side alone.
    is_question = bool(ref.id and turns and "prompt" not in row.columns)
    yield ResponseRecord(
        line=row.line,
        ref=PromptRef(id=ref.id) if is_question else ref,
        text="" if turns else row.raw_text("response"),
        turns=turns,
        model=row.optional_name("model"),
        collection=row.optional_name("collection"),
        prompt=_read_own_prompt(row, ref),
    )


def _read_own_prompt(row: FileRow, ref: PromptRef) -> PromptRecord | None:
    return generic.read_prompt(row, ref) if ref.text else None


def _read_judgements(row: FileRow) -> Iterator[Judgement]:
    labels = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in row.fields[LABELS].items()
    }
    labels |= generic.read_texts(row)
    evidence = jsonl.read_evidence(row) if row.fields.get("evidence") else []
    yield generic.read_judgement(row, labels, evidence=evidence, flags=row.fields.get("flags") or [])


FORMAT = Format(
    name=NAME,
    is_json=False,
    is_worded=True,
    is_checked=True,
    guess=lambda _fields: None,
    prompts=Reader(rows=partial(_read_rows, kind=PROMPTS), parse=_read_prompts, known=None),
    responses=Reader(rows=partial(_read_rows, kind=RESPONSES), parse=_read_responses, known=None),
    annotations=Reader(rows=partial(_read_rows, kind=ANNOTATIONS), parse=_read_judgements, known=None),
)
