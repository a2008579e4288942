"""CValues: JSON lines of ``id_, prompt, domain_en, domain_zh``, the experts' prompts on responsibility; responses add
``response``. The subcomponent is the domain's English name, under which the guidelines ``cvalues`` and ``cvalues_abc``
know it with its Chinese one. Prompts are Chinese.
"""

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
from annotation.domain.formats.rows import MAX_LANGUAGE_CHARACTERS, FileRow, json_rows

DIMENSION = "responsibility"
LANGUAGE = "zh"
PROMPT_FIELDS = frozenset({"id_", "prompt", "domain_en", "domain_zh", "language"})
CHOICE_FIELDS = frozenset({"pos_resp", "neg_resp", "response_1", "response_2"})
"""Of multiple-choice questions, which import_questions takes."""


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
        ref=PromptRef(id=row.identifier("id_"), text=row.text("prompt")),
        dimension=DIMENSION,
        subcomponent=row.text("domain_en", longest=100).strip(),
        language=row.optional("language", longest=MAX_LANGUAGE_CHARACTERS) or LANGUAGE,
    )


def _guess_kind(fields: frozenset[str]) -> str | None:
    if not {"id_", "prompt", "domain_en"} <= fields or fields & CHOICE_FIELDS:
        return None
    return RESPONSES if "response" in fields else PROMPTS


FORMAT = Format(
    name="cvalues",
    is_json=True,
    guess=_guess_kind,
    prompts=Reader(rows=json_rows, parse=_read_prompts, known=PROMPT_FIELDS),
    responses=Reader(
        rows=json_rows, parse=_read_responses, known=PROMPT_FIELDS | {"response", "model", "collection"}
    ),
)
