"""Generic CSV: a header and one record a row, the columns by their names; labels as ``label.<criterion>``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from annotation.core.errors import N_
from annotation.domain.formats import generic
from annotation.domain.formats.base import (
    ANNOTATIONS,
    LABEL,
    PROMPTS,
    RESPONSES,
    Format,
    Judgement,
    PromptRecord,
    Reader,
    ResponseRecord,
)
from annotation.domain.formats.delimited import csv_rows
from annotation.domain.formats.rows import FileRow

PROMPT_REF = ("prompt_id", "prompt")


def _read_prompts(row: FileRow) -> Iterator[PromptRecord]:
    yield generic.read_prompt(row)


def _read_responses(row: FileRow) -> Iterator[ResponseRecord]:
    yield ResponseRecord(
        line=row.line,
        ref=generic.read_prompt_ref(row),
        text=row.raw_text("response"),
        model=row.optional_name("model"),
        collection=row.optional_name("collection"),
    )


def _read_judgements(row: FileRow) -> Iterator[Judgement]:
    flags = [flag.strip() for flag in row.optional("flags", longest=1000).split(";") if flag.strip()]
    yield generic.read_judgement(row, _read_labels(row), evidence=[], flags=flags)


def _read_labels(row: FileRow) -> dict[str, Any]:
    """The filled cells: an empty one means that the criterion was not asked, or not answered."""
    labels: dict[str, Any] = {}
    for column in row.fields:
        if column.startswith(LABEL) and row.has(column):
            labels[column.removeprefix(LABEL)] = generic.take_answer(row.fields[column])
    if not labels:
        generic.refuse_distribution(row)
        raise row.error(N_("there is no label; give one in a column label.CRITERION."), field=LABEL)
    return labels


def _guess_kind(fields: frozenset[str]) -> str | None:
    if any(field.startswith(LABEL) for field in fields):
        return ANNOTATIONS
    if "response" in fields:
        return RESPONSES
    return PROMPTS if "prompt" in fields else None


FORMAT = Format(
    name="csv",
    is_json=False,
    label_field=LABEL,
    guess=_guess_kind,
    prompts=Reader(
        rows=partial(csv_rows, required=[("prompt",)]), parse=_read_prompts, known=generic.PROMPT_FIELDS
    ),
    responses=Reader(
        rows=partial(csv_rows, required=[PROMPT_REF, ("response",)]),
        parse=_read_responses,
        known=generic.RESPONSE_FIELDS,
    ),
    annotations=Reader(
        rows=partial(csv_rows, required=[PROMPT_REF, ("annotator", "adjudicator")]),
        parse=_read_judgements,
        known=generic.JUDGEMENT_FIELDS,
    ),
)
