"""Flames: JSON lines of ``dimension, subcomponent, prompt``; responses add ``response``. Prompts are Chinese."""

from __future__ import annotations

from collections.abc import Iterator

from annotation.domain.formats.base import (
    PROMPTS,
    RESPONSES,
    Format,
    PromptRecord,
    PromptRef,
    Reader,
    ResponseRecord,
)
from annotation.domain.formats.rows import LONGEST_LANGUAGE, Row, json_rows

LANGUAGE = "zh"
PROMPT_FIELDS = frozenset({"id", "dimension", "subcomponent", "prompt", "attack_method", "language"})


def _prompts(row: Row) -> Iterator[PromptRecord]:
    yield _prompt(row)


def _responses(row: Row) -> Iterator[ResponseRecord]:
    prompt = _prompt(row)
    yield ResponseRecord(
        line=row.line,
        ref=prompt.ref,
        text=row.whole("response"),
        model=row.optional_name("model"),
        collection=row.optional_name("collection"),
        prompt=prompt,
    )


def _prompt(row: Row) -> PromptRecord:
    return PromptRecord(
        line=row.line,
        ref=PromptRef(id=row.identifier("id"), text=row.text("prompt")),
        dimension=row.text("dimension", longest=100),
        subcomponent=row.text("subcomponent", longest=100),
        language=row.optional("language", longest=LONGEST_LANGUAGE) or LANGUAGE,
        attack_method=row.optional("attack_method") or None,
    )


def _guess(fields: frozenset[str]) -> str | None:
    if not {"dimension", "subcomponent", "prompt"} <= fields or "id" in fields:
        return None
    return RESPONSES if "response" in fields else PROMPTS


FORMAT = Format(
    name="flames",
    is_json=True,
    guess=_guess,
    prompts=Reader(rows=json_rows, parse=_prompts, known=PROMPT_FIELDS),
    responses=Reader(
        rows=json_rows, parse=_responses, known=PROMPT_FIELDS | {"response", "model", "collection"}
    ),
)
