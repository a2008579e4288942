"""Rows of ``model, dimension, predicted`` in a JSONL file, as the cells of a leaderboard. Pure."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from annotation.errors import N_, InputError, Unprocessable
from annotation.files import read_text
from annotation.guidelines import Criterion, GuidelineDocument
from benchmark.metrics import ALL, Cell


@dataclass(frozen=True)
class _Place:
    path: str
    line: int

    def wrong(self, template: str, field: str | None = None, **params: Any) -> InputError:
        return InputError(template, path=self.path, line=self.line, field=field, **params)


def read_cells(path: str | Path, document: GuidelineDocument) -> dict[tuple[str, str], Cell]:
    """The labels by (model, dimension). A row is one response; ``criterion`` is needed only where several apply."""
    cells: dict[tuple[str, str], Cell] = defaultdict(Counter)
    for place, row in _rows(path):
        model = _text(place, row, "model")
        dimension = _dimension(place, row, document)
        criterion = _criterion(place, row, document, dimension)
        value = _value(place, row, criterion)
        cells[model, dimension or ALL][((criterion.name, value),)] += 1
    if not cells:
        raise InputError(N_("there is no row in this file."), path=str(path))
    return dict(cells)


def _rows(path: str | Path) -> Iterator[tuple[_Place, Mapping[str, Any]]]:
    # Not splitlines: a JSON text may hold U+2028, which is no end of a line here.
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            place = _Place(str(path), number)
            yield place, _object(place, line)


def _object(place: _Place, line: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise place.wrong(
            N_("this is not JSON: {why} at column {column}."), why=error.msg, column=error.colno
        ) from None
    except (RecursionError, ValueError):
        raise place.wrong(N_("this is not JSON that can be read.")) from None
    if not isinstance(row, dict):
        raise place.wrong(N_("a row must be a JSON object, such as {example}."), example=_EXAMPLE)
    return row


_EXAMPLE = '{"model": "M", "dimension": "Fairness", "predicted": 3}'


def _text(place: _Place, row: Mapping[str, Any], field: str) -> str:
    if field not in row:
        raise place.wrong(N_("this field is missing; add it."), field)
    value = row[field]
    if not isinstance(value, str) or not value.strip():
        raise place.wrong(N_("this must be a text that is not empty."), field)
    return value


def _dimension(place: _Place, row: Mapping[str, Any], document: GuidelineDocument) -> str | None:
    if not document.dimensions:
        return None
    name = _text(place, row, "dimension")
    if not document.knows_dimension(name):
        raise place.wrong(
            N_("{guideline} has no dimension {name}; use one of {known}."),
            "dimension",
            guideline=document.name,
            name=json.dumps(name, ensure_ascii=False),
            known=", ".join(document.dimension_names),
        )
    return name


def _criterion(
    place: _Place, row: Mapping[str, Any], document: GuidelineDocument, dimension: str | None
) -> Criterion:
    asked = {one.name: one for one in document.criteria_for(dimension)}
    if len(asked) == 1 and "criterion" not in row:
        return next(iter(asked.values()))
    name = _text(place, row, "criterion")
    if name not in asked:
        raise place.wrong(
            N_("{name} is no criterion here; use one of {known}."),
            "criterion",
            name=json.dumps(name, ensure_ascii=False),
            known=", ".join(asked),
        )
    return asked[name]


def _value(place: _Place, row: Mapping[str, Any], criterion: Criterion) -> int | float:
    if "predicted" not in row:
        raise place.wrong(N_("this field is missing; add it."), "predicted")
    try:
        return criterion.check(row["predicted"])
    except Unprocessable as error:
        raise place.wrong(error.template, "predicted", **error.params) from None
