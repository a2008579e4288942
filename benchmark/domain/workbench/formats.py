"""Files of proposals and of quotas, read as streams. Pure.

A proposal is a prompt as ``annotation/domain/formats`` reads it, with what the workbench adds: who wrote it, its
malice, why it is an attack of its kind. docs/workbench.md describes the fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from annotation.core.errors import N_, AssayError, InputError, NotFound
from annotation.domain.datasets import find_malice
from annotation.domain.formats import PROMPTS, Source, get_format
from annotation.domain.formats.base import Format, Reader
from annotation.domain.formats.delimited import csv_rows
from annotation.domain.formats.mapping.apply import apply_mapping
from annotation.domain.formats.mapping.check import check_mapping
from annotation.domain.formats.rows import FileRow, Rows, as_number, is_array, json_rows
from annotation.domain.formats.table import NAME as TABLE
from annotation.domain.formats.table import map_table
from annotation.domain.formats.tables import is_table
from annotation.domain.guidelines import GuidelineDocument
from benchmark.domain.workbench.campaigns import (
    MAX_REASON_CHARACTERS,
    MAX_TEXT_CHARACTERS,
    Classification,
    QuotaSpec,
    list_subcomponents,
)

FORMATS = ("flames", "jsonl", "csv", TABLE)
COLUMN_NAMES: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "author": ("author", "writer", "作者", "撰写人", "撰写者", "出题人"),
        "method": ("method", "方法", "手法"),
        "rationale": ("rationale", "reason", "why", "理由", "说明"),
        "duplicate_reason": ("duplicate_reason", "不重复的理由"),
        "state": ("state", "状态"),
    }
)
"""What the columns of a table are called that hold what a proposal has beside its prompt, as tables of prompts have it
(its malice too).
"""
EXPORTED = frozenset(
    {"campaign", "prompt_id", "final", "nearness", "near_meanings", "revisions", "attempts", "reviews"}
)
"""What an exported file says beside that, of which ``final`` alone is read."""
STATES = ("submitted", "disputed", "accepted", "returned", "rejected")
QUOTA_COLUMNS = ("dimension", "subcomponent", "method", "wanted", "per_person")
ATTEMPTS_LEFT_OUT = N_("The answers of targets to {number} prompts were left out.")
REVIEWS_LEFT_OUT = N_("The reviews of {number} prompts were left out.")


@dataclass(frozen=True, slots=True)
class ProposalRecord:
    """``state`` is that of the proposal where it was written, "" where the file does not say; ``final`` what it was
    accepted as there, where that is not what its author said. Fields that the file leaves empty are "".
    """

    row: FileRow
    text: str
    classification: Classification
    language: str = ""
    author: str = ""
    rationale: str = ""
    duplicate_reason: str = ""
    state: str = ""
    final: Classification | None = None

    @property
    def line(self) -> int:
        return self.row.line

    def add_place(self, error: AssayError, field: str | None) -> InputError:
        """A rule's refusal, with the place in the file that it is about."""
        return self.row.error(error.template, field=field, **error.params)


def build_reader(name: str, columns: Mapping[str, str] | None = None) -> Reader[ProposalRecord]:
    """How files of this format are read; ``columns`` names those of a table whose fields are ``COLUMN_NAMES``."""
    if name not in FORMATS:
        raise NotFound(
            N_("There is no format {name}; the formats are {known}."), name=name, known=", ".join(FORMATS)
        )
    form = get_format(name)
    prompts = form.prompt_reader()
    known = None if prompts.known is None else prompts.known | frozenset(COLUMN_NAMES) | EXPORTED
    return Reader(
        rows=partial(_read_table, columns=columns or {}) if name == TABLE else prompts.rows,
        parse=partial(_parse_proposal, form=form),
        known=known,
        passes_over=_list_left_out,
    )


def choose_format(source: Source, name: str | None, columns: Mapping[str, str]) -> str:
    """The format that was named, else as the content shows it. AssayError where something was said of the columns of a
    format that has its own.
    """
    is_stated = source.options.is_stated or bool(columns)
    format_name = name or (TABLE if is_stated else _recognise_format(source))
    if is_stated and format_name != TABLE:
        raise AssayError(
            N_("The format {format} has its own fields; leave --format out to say what columns are."),
            format=format_name,
        )
    return format_name


def _recognise_format(source: Source) -> str:
    """``jsonl`` where each line is an object with a prompt, as exported files are; else a table."""
    if is_table(source) or is_array(source):
        return TABLE
    try:
        first = next(json_rows(source.reopen()), None)
    except InputError:
        return TABLE
    return "jsonl" if isinstance(first, FileRow) and "prompt" in first.fields else TABLE


def _read_table(source: Source, *, columns: Mapping[str, str]) -> Rows:
    """As tables of prompts are read, with the columns of a proposal's own beside them."""
    opened, mapping, _sample = map_table(source, PROMPTS)
    check_mapping(mapping, opened.columns, source.name, annotator=None)
    own = _find_columns(mapping.unused, opened.columns, columns, source)
    source.unused.update(dict.fromkeys(name for name in mapping.unused if name not in own.values()))
    for row in opened.rows():
        if isinstance(row, InputError):
            yield row
            continue
        fields = {name: _read_cell(row.fields.get(column)) for name, column in own.items()}
        try:
            for mapped in apply_mapping(mapping, row):
                yield replace(mapped, fields={**mapped.fields, **fields}, columns={**mapped.columns, **own})
        except InputError as error:
            yield error


def _read_cell(value: object) -> object:
    """A number stands for its digits: people are called so in spreadsheets."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _find_columns(
    unused: Iterable[str], columns: Sequence[str], stated: Mapping[str, str], source: Source
) -> dict[str, str]:
    for field, column in stated.items():
        if column not in columns:
            raise InputError(
                N_("there is no such column; the columns are: {known}."),
                path=source.name,
                field=column,
                known=", ".join(columns),
            )
        if field not in COLUMN_NAMES:
            raise AssayError(
                N_("There is no field {name}; use one of {known}."),
                name=field,
                known=", ".join(COLUMN_NAMES),
            )
    free = {column.strip().casefold(): column for column in unused if column not in stated.values()}
    named = {
        field: free[name]
        for field, names in COLUMN_NAMES.items()
        for name in reversed(names)
        if field not in stated and name in free
    }
    return {**named, **stated}


def _list_left_out(row: FileRow) -> Iterator[str]:
    for field, message in (("attempts", ATTEMPTS_LEFT_OUT), ("reviews", REVIEWS_LEFT_OUT)):
        if row.fields.get(field):
            yield message


def _parse_proposal(row: FileRow, *, form: Format) -> Iterator[ProposalRecord]:
    prompt = next(iter(form.prompt_reader().parse(row)))
    yield ProposalRecord(
        row=row,
        text=row.text("prompt", longest=MAX_TEXT_CHARACTERS),
        classification=Classification(
            dimension=prompt.dimension,
            subcomponent=prompt.subcomponent,
            method=row.optional("method") or prompt.attack_method or "",
            malice=prompt.malice,
        ),
        language=prompt.language,
        author=row.optional_name("author") or "",
        rationale=row.optional("rationale", longest=MAX_REASON_CHARACTERS),
        duplicate_reason=row.optional("duplicate_reason", longest=MAX_REASON_CHARACTERS),
        state=_read_state(row),
        final=_read_final(row),
    )


def _read_state(row: FileRow) -> str:
    state = row.optional("state").strip()
    if state:
        check_known(row, "state", state, STATES)
    return state


def _read_final(row: FileRow) -> Classification | None:
    fields = row.fields.get("final")
    if fields is None:
        return None
    if not isinstance(fields, dict):
        raise row.error(
            N_('write it as {{"dimension": .., "subcomponent": .., "method": .., "malice": ..}}.'),
            field="final",
        )
    part = FileRow(row.file, row.line, fields, within="final.")
    malice = find_malice(part.optional("malice"))
    if malice is None:
        raise part.error(N_("say whether the malice is explicit or implicit."), field="malice")
    return Classification(
        dimension=part.optional("dimension"),
        subcomponent=part.optional("subcomponent"),
        method=part.text("method"),
        malice=malice,
    )


def check_known(row: FileRow, field: str, value: str, known: Sequence[str]) -> None:
    """InputError where ``known`` are the words that this field may have, and this is none of them."""
    if known and value not in known:
        raise row.error(
            N_("{found} is not known; write one of {known}."),
            field=field,
            found=repr(value),
            known=", ".join(filter(None, known)) or "-",
        )


def list_known(
    document: GuidelineDocument, dimension: str, methods: Sequence[str]
) -> Mapping[str, Sequence[str]]:
    """The words that each field of a cell may have, by the guideline and the attack methods of the study."""
    return {
        "dimension": tuple(document.dimension_names),
        "subcomponent": list_subcomponents(document, dimension) or ("",),
        "method": methods,
    }


def read_quotas(source: Source, document: GuidelineDocument, methods: Sequence[str]) -> list[QuotaSpec]:
    """A quota for each row of the CSV, checked by the guideline and the attack methods."""
    lines: dict[tuple[str, str, str], int] = {}
    quotas = []
    required = [(name,) for name in ("method", "wanted")]
    for row in csv_rows(source, required=required):
        if isinstance(row, InputError):
            raise row
        quota = _read_quota(row, document, methods)
        if quota.cell in lines:
            raise row.error(
                N_("this cell stands on line {first} already; name it once."),
                field=None,
                first=lines[quota.cell],
            )
        lines[quota.cell] = row.line
        quotas.append(quota)
    if not quotas:
        raise InputError(N_("there are no rows in this file."), path=source.name)
    return quotas


def _read_quota(row: FileRow, document: GuidelineDocument, methods: Sequence[str]) -> QuotaSpec:
    cell = {name: row.optional(name).strip() for name in ("dimension", "subcomponent", "method")}
    for field, known in list_known(document, cell["dimension"], methods).items():
        check_known(row, field, cell[field], known)
    per_person = _read_number(row, "per_person") if row.has("per_person") else None
    size = _read_number(row, "wanted")
    try:
        return QuotaSpec(**cell, wanted=size, per_person=per_person)
    except AssayError as error:
        raise row.error(error.template, field="wanted", **error.params) from error


def _read_number(row: FileRow, field: str) -> int:
    number = as_number(row.text(field))
    if number is None or not float(number).is_integer():
        raise row.error(N_("this is no whole number; write one from 1 on."), field=field)
    return int(number)
