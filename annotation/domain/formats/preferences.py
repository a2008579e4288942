"""Preferences as ``export_gold --format preferences`` writes them: a line for each pair of a slate's responses.

``prompt, chosen, rejected`` with the models of both, or ``first, second`` of a tie; ``slate`` has the model and the
collection of each entry, and ``labels`` what each person said of all of it. The slates are made of the responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from annotation.core.errors import N_
from annotation.domain.formats import generic
from annotation.domain.formats.base import (
    RESPONSES,
    AdjudicationRecord,
    AnnotationRecord,
    Format,
    Judgement,
    PromptRecord,
    PromptRef,
    Reader,
    ResponseRecord,
)
from annotation.domain.formats.rows import FileRow, json_rows
from annotation.domain.slates import name_models

NAME = "preferences"
SIDES = (("chosen", "rejected"), ("first", "second"))
ANNOTATOR, ADJUDICATOR = "annotator", "adjudicator"


def _read_ref(row: FileRow) -> PromptRef:
    return PromptRef(id=row.identifier("prompt_id"), text=row.text("prompt"))


def _read_prompts(row: FileRow) -> Iterator[PromptRecord]:
    yield generic.read_prompt(row, _read_ref(row))


def _read_responses(row: FileRow) -> Iterator[ResponseRecord]:
    sides = next((sides for sides in SIDES if sides[0] in row.fields), SIDES[0])
    for side in sides:
        content = row.fields.get(side)
        messages = content if isinstance(content, list) else None
        yield ResponseRecord(
            line=row.line,
            ref=_read_ref(row),
            text="" if messages is not None else row.raw_text(side),
            turns=[] if messages is None else [_read_message(row, side, message) for message in messages],
            model=row.name(f"{side}_model"),
            collection=row.optional_name(f"{side}_collection"),
        )


def _read_message(row: FileRow, side: str, message: Any) -> dict[str, str]:
    role, text = (message.get("role"), message.get("content")) if isinstance(message, dict) else (None, None)
    if not isinstance(role, str) or not isinstance(text, str):
        raise row.error(
            N_('write a dialogue as [{{"role": "user", "content": "…"}}, …], each with both.'), field=side
        )
    return {"role": role, "text": text}


def _read_labels(row: FileRow) -> Iterator[Judgement]:
    sources = row.fields.get("slate")
    if not isinstance(sources, list) or not all(
        isinstance(source, list) and len(source) == 2 and all(isinstance(name, str) for name in source)
        for source in sources
    ):
        raise row.error(
            N_("write the model and the collection of each response of the slate."), field="slate"
        )
    model = name_models([(source[0], source[1]) for source in sources])
    ref = PromptRef(id=row.identifier("prompt_id"), text=row.text("prompt"))
    for stated in row.fields.get("labels") or []:
        if not isinstance(stated, dict) or "label" not in stated:
            raise row.error(
                N_('write the labels as [{{"annotator": "…", "label": "…"}}, …].'), field="labels"
            )
        labels = {row.text("criterion"): stated["label"]}
        if isinstance(stated.get(ADJUDICATOR), str):
            yield AdjudicationRecord(
                line=row.line, ref=ref, adjudicator=stated[ADJUDICATOR], labels=labels, model=model
            )
        else:
            yield AnnotationRecord(
                line=row.line, ref=ref, annotator=str(stated.get(ANNOTATOR, "")), labels=labels, model=model
            )


def _guess_kind(fields: frozenset[str]) -> str | None:
    return RESPONSES if fields >= {"chosen", "rejected", "chosen_model", "slate"} else None


FORMAT = Format(
    name=NAME,
    is_json=True,
    guess=_guess_kind,
    prompts=Reader(rows=json_rows, parse=_read_prompts, known=None),
    responses=Reader(rows=json_rows, parse=_read_responses, known=None),
    annotations=Reader(rows=json_rows, parse=_read_labels, known=None),
)
