"""Generic JSON lines: one object a line, the fields by their names (docs/formats.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from annotation.core.errors import N_
from annotation.domain.formats import generic
from annotation.domain.formats.base import (
    ANNOTATIONS,
    PROMPTS,
    RESPONSES,
    Format,
    Judgement,
    PromptRecord,
    Reader,
    ResponseRecord,
)
from annotation.domain.formats.rows import FileRow, json_rows
from annotation.domain.quotations import QUOTE

SPAN = ("turn", "start", "end")
SPAN_TARGET = ("criterion", "level")
MAX_OFFSET = 10_000_000


def _read_prompts(row: FileRow) -> Iterator[PromptRecord]:
    yield generic.read_prompt(row)


def _read_responses(row: FileRow) -> Iterator[ResponseRecord]:
    turns = _read_turns(row)
    yield ResponseRecord(
        line=row.line,
        ref=generic.read_prompt_ref(row),
        text="" if turns else row.raw_text("response"),
        turns=turns,
        model=row.optional_name("model"),
        collection=row.optional_name("collection"),
        is_cut=bool(turns) and any(turn.get("finish_reason") == "length" for turn in row.fields["turns"]),
    )


def _read_judgements(row: FileRow) -> Iterator[Judgement]:
    yield generic.read_judgement(row, _read_labels(row), evidence=read_evidence(row), flags=_read_flags(row))


def _read_turns(row: FileRow) -> list[Mapping[str, str]]:
    """The dialogue, or nothing where the response is one text."""
    if row.fields.get("turns") is None:
        return []
    if row.has("response"):
        raise row.error(N_("give the response or the turns of a dialogue, not both."), field="turns")
    turns = row.fields["turns"]
    if not isinstance(turns, list) or not turns or not all(map(_is_turn, turns)):
        raise row.error(
            N_('write the turns as [{{"role": "user", "text": "…"}}, …], each with both.'), field="turns"
        )
    return [{"role": turn["role"], "text": turn["text"]} for turn in turns]


def _is_turn(turn: object) -> bool:
    return isinstance(turn, dict) and all(isinstance(turn.get(name), str) for name in ("role", "text"))


def _read_labels(row: FileRow) -> Mapping[str, Any]:
    labels = row.fields.get("labels")
    if not isinstance(labels, dict) or not labels:
        generic.refuse_distribution(row)
        raise row.error(N_('write the labels as {{"criterion": value}}.'), field="labels")
    answers = {
        name: generic.take_answer(value)
        for name, value in labels.items()
        if value is not None  # not asked, or not answered
    }
    return answers | generic.read_texts(row)


def read_evidence(row: FileRow) -> list[Mapping[str, Any]]:
    spans = row.fields.get("evidence") or []
    if not isinstance(spans, list) or not all(map(_is_span, spans)):
        raise row.error(
            N_(
                'write the evidence as [{{"turn": 0, "start": 3, "end": 9}}, …], the end after the start, or as'
                ' [{{"quote": "…"}}, …].'
            ),
            field="evidence",
        )
    return [
        {name: span[name] for name in (*SPAN, QUOTE, *SPAN_TARGET) if span.get(name) is not None}
        for span in spans
    ]


def _is_span(span: object) -> bool:
    if isinstance(span, dict) and isinstance(span.get(QUOTE), str):
        return not any(name in span for name in SPAN)
    if not isinstance(span, dict) or not all(type(span.get(name)) is int for name in SPAN):
        return False
    return bool(span["turn"] >= 0 and 0 <= span["start"] < span["end"] <= MAX_OFFSET)


def _read_flags(row: FileRow) -> list[str]:
    flags = row.fields.get("flags") or []
    if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
        raise row.error(N_('write the flags as ["unsure", …].'), field="flags")
    return flags


def _guess_kind(fields: frozenset[str]) -> str | None:
    if "labels" in fields:
        return ANNOTATIONS
    if fields & {"response", "turns"}:
        return RESPONSES
    return PROMPTS if "prompt" in fields else None


FORMAT = Format(
    name="jsonl",
    is_json=True,
    label_field="labels.",
    guess=_guess_kind,
    prompts=Reader(rows=json_rows, parse=_read_prompts, known=generic.PROMPT_FIELDS),
    responses=Reader(rows=json_rows, parse=_read_responses, known=generic.RESPONSE_FIELDS | {"turns"}),
    annotations=Reader(
        rows=json_rows,
        parse=_read_judgements,
        known=generic.JUDGEMENT_FIELDS | {"labels", "evidence", generic.TEXTS},
    ),
)
