"""What the generic formats ``jsonl`` and ``csv`` have in common: the same fields, taken the same way."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from annotation.core.errors import N_
from annotation.domain.annotations import FLAGS
from annotation.domain.formats.base import (
    AdjudicationRecord,
    AnnotationRecord,
    Judgement,
    PromptRecord,
    PromptRef,
)
from annotation.domain.formats.rows import MAX_LANGUAGE_CHARACTERS, FileRow, as_number
from annotation.domain.guidelines import NA, Label

PROMPT_FIELDS = frozenset(
    {"id", "prompt", "dimension", "subcomponent", "language", "attack_method"},
)
RESPONSE_FIELDS = frozenset({"prompt_id", "prompt", "model", "collection", "response"})
JUDGEMENT_FIELDS = frozenset(
    {
        "prompt_id",
        "prompt",
        "model",
        "collection",
        "annotator",
        "adjudicator",
        "rationale",
        "flags",
        "seconds",
    }
)


def read_prompt(row: FileRow) -> PromptRecord:
    return PromptRecord(
        line=row.line,
        ref=PromptRef(id=row.identifier("id"), text=row.text("prompt")),
        dimension=row.optional("dimension"),
        subcomponent=row.optional("subcomponent"),
        language=row.optional("language", longest=MAX_LANGUAGE_CHARACTERS),
        attack_method=row.optional("attack_method") or None,
    )


def read_prompt_ref(row: FileRow) -> PromptRef:
    """The prompt that a response or a label belongs to: ``prompt_id``, or ``prompt`` with its text."""
    prompt_ref = PromptRef(
        id=row.identifier("prompt_id"), text=row.text("prompt") if row.has("prompt") else ""
    )
    if not prompt_ref.id and not prompt_ref.text:
        raise row.error(
            N_("whose is this? Give the prompt's id, or its text in the field prompt."), field="prompt_id"
        )
    return prompt_ref


# How people write "not applicable", without capitals and outer blanks.
NA_WORDS = frozenset({NA, "n/a", "n.a.", "not applicable", "不适用"})


def is_na(raw: object) -> bool:
    return isinstance(raw, str) and raw.strip().casefold() in NA_WORDS


def read_value(row: FileRow, field: str, raw: object) -> Label:
    """A label's value as a number, or ``NA``; whether it is an answer here is the guideline's to say."""
    if is_na(raw):
        return NA
    number = as_number(raw)
    if number is None or isinstance(raw, bool):
        raise row.error(
            N_("{found} is no number; write a level's value."), field=field, found=repr(str(raw)[:60])
        )
    return number


def check_flags(row: FileRow, flags: list[str]) -> None:
    for flag in flags:
        if flag not in FLAGS:
            raise row.error(
                N_("{found} is no flag; the flags are {known}."),
                field="flags",
                found=repr(flag[:60]),
                known=", ".join(FLAGS),
            )


def read_judgement(
    row: FileRow,
    labels: Mapping[str, Any],
    *,
    evidence: list[Mapping[str, Any]],
    flags: list[str],
    at: datetime | None = None,
) -> Judgement:
    """An annotation if the row names an annotator, an adjudication if it names an adjudicator."""
    if row.has("annotator") == row.has("adjudicator"):
        raise row.error(N_("name either the annotator or the adjudicator."), field="annotator")
    check_flags(row, flags)
    prompt_ref, model, collection = (
        read_prompt_ref(row),
        row.optional_name("model"),
        row.optional_name("collection"),
    )
    rationale = row.raw_text("rationale") if row.has("rationale") else ""
    if row.has("annotator"):
        return AnnotationRecord(
            line=row.line,
            ref=prompt_ref,
            annotator=row.name("annotator"),
            labels=labels,
            model=model,
            collection=collection,
            rationale=rationale,
            evidence=evidence,
            flags=flags,
            seconds=row.seconds(),
            at=at,
        )
    return AdjudicationRecord(
        line=row.line,
        ref=prompt_ref,
        adjudicator=row.name("adjudicator"),
        labels=labels,
        model=model,
        collection=collection,
        rationale=rationale,
        seconds=row.seconds(),
        at=at,
    )
