"""The rows of a table as a reader of records takes them: one for each, or one for each column of a wide table. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from annotation.core.errors import N_
from annotation.domain.annotations import MARKABLE
from annotation.domain.formats.base import ANNOTATIONS, PROMPTS
from annotation.domain.formats.chat import SYSTEM, USER, read_messages
from annotation.domain.formats.generic import TEXTS, refuse_distribution
from annotation.domain.formats.mapping.mapping import (
    CRITERION,
    LABEL_FIELD,
    LABELS,
    MESSAGES,
    ColumnMapping,
)
from annotation.domain.formats.rows import FileRow, is_blank

_NO_LABEL = {"", "-", "–", "—", "nan", "null", "none"}
_ROUNDED = re.compile(r"^\d(?:\.\d+)?E\+\d+$", re.IGNORECASE)
MAX_EXACT_DIGITS = 15
NO_ANSWER = N_("{number} cells without a response were passed over.")
SYSTEM_MESSAGES = N_("{number} system messages were passed over: a prompt is one text.")
ANSWERS = N_("{number} answers were passed over: these are prompts.")
NOT_LABELLED = N_("{number} cells without a label were passed over.")
Tell = Callable[[str], None]


def apply_mapping(
    mapping: ColumnMapping, row: FileRow, *, annotator: str | None = None, tell: Tell = lambda _template: None
) -> Iterator[FileRow]:
    """The rows with the fields of ``ALIASES`` and ``labels``: one, or one for each filled column of a wide table.

    ``annotator``: whose labels these are where no column says it. ``tell`` is told of what is passed over, by the
    message that counts it. Raises InputError with the column's own name.
    """
    fields = _read_fields(mapping, row, tell)
    columns = {name: " + ".join(selected) for name, selected in mapping.columns.items()}
    if mapping.kind == ANNOTATIONS:
        named = replace(row, fields=fields, columns=columns)
        yield from _apply_labels(mapping, row, named, annotator, tell)
        return
    if not mapping.models:
        yield replace(row, fields=fields, columns=columns)
        return
    for column, model in mapping.models.items():
        if is_blank(row.fields.get(column)):
            tell(NO_ANSWER)
        else:
            answer = {"response": _read_text(row, column), "model": model}
            yield replace(
                row, fields=fields | answer, columns=columns | {"response": column, "model": column}
            )


def _read_fields(mapping: ColumnMapping, row: FileRow, tell: Tell) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, selected in mapping.columns.items():
        if name == MESSAGES:
            fields |= _read_chat(mapping.kind, row, selected[0], tell)
        elif name in {LABELS, LABEL_FIELD, TEXTS, "evidence"}:
            fields[name] = row.fields.get(selected[0])
        elif name in {"id", "prompt_id"}:
            fields[name] = _read_id(row, selected[0])
        elif name == "flags":
            fields[name] = _read_list(row.fields.get(selected[0]))
        elif name in {"seconds", "round"}:
            fields[name] = row.fields.get(selected[0])
        else:
            texts = [_read_text(row, column) for column in selected if not is_blank(row.fields.get(column))]
            fields.setdefault(name, "\n\n".join(texts))
    return fields


def _read_chat(kind: str, row: FileRow, column: str, tell: Tell) -> dict[str, Any]:
    """A question and its answer as the prompt and the response, a longer dialogue as turns that its first question
    prompted. A prompt is one text: of a chat it is the question, and only a chat of one has one.
    """
    turns = read_messages(row, column)
    questions = [turn["text"] for turn in turns if turn["role"] == USER]
    if not questions:
        raise row.error(N_("this chat has no message of the user; that would be the prompt."), field=column)
    if kind == PROMPTS:
        if len(questions) > 1:
            raise row.error(
                N_("this chat has {number} messages of the user; a prompt is one text."),
                field=column,
                number=len(questions),
            )
        for turn in turns:
            if turn["role"] != USER:
                tell(SYSTEM_MESSAGES if turn["role"] == SYSTEM else ANSWERS)
        return {"prompt": questions[0]}
    if [turn["role"] for turn in turns] == [USER, MARKABLE]:
        return {"prompt": questions[0], "response": turns[1]["text"]}
    if not any(turn["role"] == MARKABLE for turn in turns):
        raise row.error(
            N_("this chat has no message of the assistant; that would be the response."), field=column
        )
    return {"prompt": questions[0], "turns": turns}


def _apply_labels(
    mapping: ColumnMapping, row: FileRow, named: FileRow, annotator: str | None, tell: Tell
) -> Iterator[FileRow]:
    """``named`` is the row with the fields that are no labels."""
    fields, columns = named.fields, named.columns
    people: dict[str, dict[str, Any]] = {}
    for column, (name, criterion) in mapping.annotators.items():
        if is_label(row.fields.get(column)):
            people.setdefault(name, {})[criterion] = row.fields[column]
        else:
            tell(NOT_LABELLED)
    for name, labels in people.items():
        yield replace(named, fields={**fields, "annotator": name, LABELS: labels})
    if mapping.annotators:
        return
    labels = _read_labels(mapping, row, fields)
    if not labels:
        refuse_distribution(row)
        tell(NOT_LABELLED)
        return
    stated = {**fields, LABELS: labels}
    if annotator is not None and is_blank(fields.get("annotator")) and is_blank(fields.get("adjudicator")):
        stated["annotator"] = annotator
    place = mapping.columns.get(LABEL_FIELD, ()) if set(labels) == {""} else tuple(mapping.labels)
    shown_columns = {LABELS: ", ".join(place)} if place else {}
    yield replace(named, fields=stated, columns={**columns, **shown_columns})


def _read_labels(mapping: ColumnMapping, row: FileRow, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The labels by criterion, "" for the only one that is asked."""
    stated = fields.get(LABELS) or {}
    if not isinstance(stated, dict):
        raise row.error(N_('write the labels as {{"criterion": value}}.'), field=mapping.columns[LABELS][0])
    labels = {name: value for name, value in stated.items() if is_label(value)}
    labels |= {
        c: row.fields[column] for column, c in mapping.labels.items() if is_label(row.fields.get(column))
    }
    if is_label(fields.get(LABEL_FIELD)):
        labels[str(fields.get(CRITERION) or "").strip()] = fields[LABEL_FIELD]
    return labels


def is_label(value: object) -> bool:
    """Whether the cell says something: neither blank nor a dash nor what programs write for nothing."""
    return value is not None and not (isinstance(value, str) and value.strip().casefold() in _NO_LABEL)


def _read_text(row: FileRow, column: str) -> str:
    value = row.fields.get(column)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    raise row.error(N_("this is no text; put it in quotation marks."), field=column)


def _read_id(row: FileRow, column: str) -> str:
    """An id that a spreadsheet took for a number and rounded is no id any more."""
    value = row.fields.get(column)
    if (isinstance(value, float) and abs(value) >= 10**MAX_EXACT_DIGITS) or (
        isinstance(value, str) and _ROUNDED.match(value.strip())
    ):
        raise row.error(
            N_(
                "a spreadsheet rounded this id to {value}; make the column text before the ids go in, and save it"
                " again."
            ),
            field=column,
            value=value,
        )
    return _read_text(row, column).strip()


def _read_list(value: object) -> list[str]:
    if isinstance(value, list):
        return [str(part) for part in value]
    return [part.strip() for part in re.split(r"[;；]", str(value or "")) if part.strip()]
