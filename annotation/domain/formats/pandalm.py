"""PandaLM: instructions with the responses of two models each, and which of the two three people prefer.

A JSON array of ``idx, cmp_key, instruction, input, response1, response2, annotator1`` and so on; ``cmp_key`` is the two
models joined by ``_``, and a label is 1, 2, or 0 for a tie. The slates are made of the responses (``make_slates
--pairs all --keep-same``)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from annotation.core.errors import N_
from annotation.domain.formats.base import (
    RESPONSES,
    AnnotationRecord,
    Format,
    PromptRecord,
    PromptRef,
    Reader,
    ResponseRecord,
)
from annotation.domain.formats.rows import FileRow, json_items
from annotation.domain.slates import TIE_WORD, name_models

NAME = "pandalm"
CRITERION = "best"
SIDES = ("1", "2")
_ANNOTATOR = re.compile(r"annotator[0-9]+")
CONTENT = frozenset(
    {
        "idx",
        "cmp_key",
        "instruction",
        "input",
        "motivation_app",
        "motivation_app_name",
        "response1",
        "response2",
    }
)


def _read_prompt(row: FileRow) -> PromptRecord:
    parts = [_read_text(row, "instruction"), _read_text(row, "input")]
    text = "\n\n".join(part for part in parts if part.strip())
    return PromptRecord(line=row.line, ref=PromptRef(id=row.identifier("idx"), text=text), language="en")


def _read_prompts(row: FileRow) -> Iterator[PromptRecord]:
    yield _read_prompt(row)


def _read_responses(row: FileRow) -> Iterator[ResponseRecord]:
    prompt = _read_prompt(row)
    for model, side in zip(_read_models(row), SIDES, strict=True):
        text = _read_text(row, f"response{side}")
        yield ResponseRecord(line=row.line, ref=prompt.ref, text=text, model=model, prompt=prompt)


def _read_text(row: FileRow, field: str) -> str:
    """What is the word true, or a number, lost its quotation marks when the file was made; "" where nothing stands."""
    text = row.fields.get(field)
    if isinstance(text, bool | int | float):
        return str(text)
    return row.text(field) if row.has(field) else ""


def _read_models(row: FileRow) -> list[str]:
    models = row.text("cmp_key").strip().split("_")
    if len(models) != len(SIDES) or not all(models) or models[0] == models[1]:
        raise row.error(N_("these are not the names of two models joined by _."), field="cmp_key")
    return models


def _read_labels(row: FileRow) -> Iterator[AnnotationRecord]:
    models = _read_models(row)
    stands_for = {0: TIE_WORD, 1: models[0], 2: models[1]}
    for field, label in row.fields.items():
        if not _ANNOTATOR.fullmatch(field):
            continue
        if isinstance(label, bool) or label not in stands_for:
            raise row.error(
                N_("{found} is no label; use one of {allowed}."),
                field=field,
                found=repr(label)[:60],
                allowed=", ".join(map(str, stands_for)),
            )
        yield AnnotationRecord(
            line=row.line,
            ref=PromptRef(id=row.identifier("idx")),
            annotator=f"{NAME}-{field}",
            labels={CRITERION: stands_for[label]},
            model=name_models([(model, "") for model in models]),
        )


def _guess_kind(fields: frozenset[str]) -> str | None:
    return RESPONSES if fields >= {"cmp_key", "instruction", "response1", "response2"} else None


FORMAT = Format(
    name=NAME,
    is_json=True,
    is_array=True,
    guess=_guess_kind,
    prompts=Reader(rows=json_items, parse=_read_prompts, known=CONTENT),
    responses=Reader(rows=json_items, parse=_read_responses, known=None),
    annotations=Reader(rows=json_items, parse=_read_labels, known=None),
)
