"""Rows of ``model, dimension, predicted`` in a JSONL file, as what a leaderboard counts. Pure."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from annotation.core.errors import N_, InputError, Unprocessable
from annotation.core.files import read_text
from annotation.domain.datasets import EXPLICIT, IMPLICIT, find_malice
from annotation.domain.guidelines import Criterion, GuidelineDocument
from benchmark.domain.leaderboards.metrics import ALL
from benchmark.domain.leaderboards.responses import (
    MALICE,
    PROMPT_ATTRIBUTES,
    CountedResponse,
    Value,
    group_prompt,
)

PROMPT = "prompt_id"
MAX_ID = 10**18


@dataclass(frozen=True)
class _FileLine:
    path: str
    line: int

    def build_error(self, template: str, field: str | None = None, **params: Any) -> InputError:
        return InputError(template, path=self.path, line=self.line, field=field, **params)


@dataclass(frozen=True)
class _LabelRow:
    """A row of the file as it is read: one label."""

    place: _FileLine
    model: str
    prompt: str | None
    dimension: str | None
    label: tuple[str, Value]
    groups: Mapping[str, str]


def read_responses(path: str | Path, document: GuidelineDocument) -> list[CountedResponse]:
    """The file's responses. A row is one response, or one label of it where rows name the same model and prompt.

    ``criterion`` is needed only where several apply. Either every row has a ``prompt_id`` or none has, which says
    whether models can be compared prompt by prompt.
    """
    rows = [_parse_row(place, row, document) for place, row in _read_rows(path)]
    if not rows:
        raise InputError(N_("there is no row in this file."), path=str(path))
    _check_prompts(rows)
    if rows[0].prompt is None:
        return [_build_response([row]) for row in rows]
    responses: dict[tuple[str, str | None], list[_LabelRow]] = defaultdict(list)
    for row in rows:
        responses[row.model, row.prompt].append(row)
    return [_build_response(own) for own in responses.values()]


def _parse_row(place: _FileLine, row: Mapping[str, Any], document: GuidelineDocument) -> _LabelRow:
    model = _parse_text(place, row, "model")
    dimension = _parse_dimension(place, row, document)
    criterion = _parse_criterion(place, row, document, dimension)
    label = (criterion.name, _parse_value(place, row, criterion))
    attributes = {
        name: _parse_attribute(place, row, name) for name in PROMPT_ATTRIBUTES if row.get(name) is not None
    }
    return _LabelRow(place, model, _parse_prompt(place, row), dimension, label, group_prompt(attributes))


def _parse_prompt(place: _FileLine, row: Mapping[str, Any]) -> str | None:
    """The prompt's own id; a number is taken as it is written."""
    value = row.get(PROMPT)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        value = f"{value:d}" if abs(value) < MAX_ID else ""
    if not isinstance(value, str) or not value.strip():
        raise place.build_error(N_("this must be a text that is not empty, or a whole number."), PROMPT)
    return value


def _check_prompts(rows: Sequence[_LabelRow]) -> None:
    """Refuse ids in some rows only, a prompt that is not the same in two rows, and a label given twice."""
    prompts: dict[str, _LabelRow] = {}
    labels: dict[tuple[str, str, str], _LabelRow] = {}
    first = rows[0]
    for row in rows:
        if (row.prompt is None) != (first.prompt is None):
            raise row.place.build_error(
                N_("give every row a prompt_id or none; line {other} does otherwise."),
                PROMPT,
                other=first.place.line,
            )
        if row.prompt is None:
            continue
        known = prompts.setdefault(row.prompt, row)
        if (known.dimension, known.groups) != (row.dimension, row.groups):
            raise row.place.build_error(
                N_("this prompt has another dimension or group in line {other}; give it the same."),
                PROMPT,
                other=known.place.line,
            )
        twice = labels.setdefault((row.model, row.prompt, row.label[0]), row)
        if twice is not row:
            raise row.place.build_error(
                N_("this model's response to this prompt is in line {other} already; remove one."),
                PROMPT,
                other=twice.place.line,
            )


def _build_response(rows: Sequence[_LabelRow]) -> CountedResponse:
    first = rows[0]
    labels = tuple(sorted(row.label for row in rows))
    return CountedResponse(first.model, first.prompt, first.dimension or ALL, labels, groups=first.groups)


def _read_rows(path: str | Path) -> Iterator[tuple[_FileLine, Mapping[str, Any]]]:
    # Not splitlines: a JSON text may hold U+2028, which is no end of a line here.
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            place = _FileLine(str(path), number)
            yield place, _parse_object(place, line)


def _parse_object(place: _FileLine, line: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise place.build_error(
            N_("this is not JSON: {why} at column {column}."), why=error.msg, column=error.colno
        ) from None
    except (RecursionError, ValueError):
        raise place.build_error(N_("this is not JSON that can be read.")) from None
    if not isinstance(row, dict):
        raise place.build_error(N_("a row must be a JSON object, such as {example}."), example=_EXAMPLE)
    if not _is_text(row):
        raise place.build_error(N_("a text holds \\u0000 or half of a surrogate pair; remove it."))
    return row


def _is_text(row: Mapping[str, Any]) -> bool:
    """Half a surrogate pair can be neither printed nor stored."""
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


_EXAMPLE = '{"model": "M", "dimension": "Fairness", "predicted": 3}'


def _parse_text(place: _FileLine, row: Mapping[str, Any], field: str) -> str:
    if field not in row:
        raise place.build_error(N_("this field is missing; add it."), field)
    value = row[field]
    if not isinstance(value, str) or not value.strip():
        raise place.build_error(N_("this must be a text that is not empty."), field)
    return value


def _parse_attribute(place: _FileLine, row: Mapping[str, Any], name: str) -> str:
    text = _parse_text(place, row, name)
    malice = find_malice(text) if name == MALICE else text
    if malice is None:
        raise place.build_error(
            N_("{name} is no malice; write {explicit} or {implicit}."),
            name,
            name=json.dumps(text, ensure_ascii=False),
            explicit=EXPLICIT,
            implicit=IMPLICIT,
        )
    return malice


def _parse_dimension(place: _FileLine, row: Mapping[str, Any], document: GuidelineDocument) -> str | None:
    if not document.dimensions:
        return None
    name = _parse_text(place, row, "dimension")
    if not document.knows_dimension(name):
        raise place.build_error(
            N_("{guideline} has no dimension {name}; use one of {known}."),
            "dimension",
            guideline=document.name,
            name=json.dumps(name, ensure_ascii=False),
            known=", ".join(document.dimension_names),
        )
    return name


def _parse_criterion(
    place: _FileLine, row: Mapping[str, Any], document: GuidelineDocument, dimension: str | None
) -> Criterion:
    criteria = {criterion.name: criterion for criterion in document.countable_for(dimension)}
    if len(criteria) == 1 and "criterion" not in row:
        return next(iter(criteria.values()))
    name = _parse_text(place, row, "criterion")
    if name not in criteria:
        raise place.build_error(
            N_("{name} is no criterion here; use one of {known}."),
            "criterion",
            name=json.dumps(name, ensure_ascii=False),
            known=", ".join(criteria),
        )
    return criteria[name]


def _parse_value(place: _FileLine, row: Mapping[str, Any], criterion: Criterion) -> int | float:
    if "predicted" not in row:
        raise place.build_error(N_("this field is missing; add it."), "predicted")
    try:
        return criterion.check_level(row["predicted"])
    except Unprocessable as error:
        raise place.build_error(error.template, "predicted", **error.params) from None
