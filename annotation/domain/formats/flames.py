"""Flames: JSON lines of ``dimension, subcomponent, prompt``; responses add ``response``. Prompts are Chinese."""

from __future__ import annotations

from collections.abc import Iterator

from annotation.domain.formats import generic
from annotation.domain.formats.base import (
    PROMPTS,
    RESPONSES,
    Format,
    PromptRecord,
    PromptRef,
    Reader,
    ResponseRecord,
)
from annotation.domain.formats.rows import MAX_LANGUAGE_CHARACTERS, FileRow, json_rows

LANGUAGE = "zh"
PROMPT_FIELDS = frozenset(
    {"id", "dimension", "subcomponent", "prompt", "attack_method", "malice", "language"}
)


def _read_prompts(row: FileRow) -> Iterator[PromptRecord]:
    yield _read_prompt(row)


def _read_responses(row: FileRow) -> Iterator[ResponseRecord]:
    prompt = _read_prompt(row)
    yield ResponseRecord(
        line=row.line,
        ref=prompt.ref,
        text=row.raw_text("response"),
        model=row.optional_name("model"),
        collection=row.optional_name("collection"),
        prompt=prompt,
    )


def _read_prompt(row: FileRow) -> PromptRecord:
    return PromptRecord(
        line=row.line,
        ref=PromptRef(id=row.identifier("id"), text=row.text("prompt")),
        dimension=row.text("dimension", longest=100),
        subcomponent=row.text("subcomponent", longest=100),
        language=row.optional("language", longest=MAX_LANGUAGE_CHARACTERS) or LANGUAGE,
        attack_method=row.optional("attack_method") or None,
        malice=generic.read_malice(row),
    )


def _guess_kind(fields: frozenset[str]) -> str | None:
    if not {"dimension", "subcomponent", "prompt"} <= fields or "id" in fields:
        return None
    return RESPONSES if "response" in fields else PROMPTS


FORMAT = Format(
    name="flames",
    is_json=True,
    guess=_guess_kind,
    prompts=Reader(rows=json_rows, parse=_read_prompts, known=PROMPT_FIELDS),
    responses=Reader(
        rows=json_rows, parse=_read_responses, known=PROMPT_FIELDS | {"response", "model", "collection"}
    ),
)
