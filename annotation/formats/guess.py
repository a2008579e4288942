"""What a file seems to be, from its name and its first record: a suggestion that the person may change."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import dataclass

from annotation.errors import InputError

from .reading import Source, is_array, json_items, lines
from .shape import Format


@dataclass(frozen=True)
class Guess:
    format: str
    kind: str


def guess_from(source: Source, formats: Iterable[Format]) -> Guess | None:
    """The first format that recognises the fields of the first record."""
    try:
        if is_array(source):
            fields = _item_fields(source)
            kinds = ((one.name, one.guess(fields)) for one in formats if one.is_array)
            return next((Guess(format=name, kind=kind) for name, kind in kinds if kind is not None), None)
        first = next((text for _number, text in lines(source) if text.strip()), "")
    except InputError:
        return None
    is_json = first.lstrip().startswith("{")
    fields = _json_fields(first) if is_json else _csv_fields(first)
    for one in formats:
        kind = one.guess(fields) if one.is_json == is_json else None
        if kind is not None:
            return Guess(format=one.name, kind=kind)
    return None


def _item_fields(source: Source) -> frozenset[str]:
    try:
        row = next(json_items(source.again()), None)
    except InputError:
        return frozenset()
    return frozenset() if row is None or isinstance(row, InputError) else frozenset(row.fields)


def _json_fields(line: str) -> frozenset[str]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return frozenset()
    return frozenset(found) if isinstance(found, dict) else frozenset()


def _csv_fields(line: str) -> frozenset[str]:
    try:
        return frozenset(cell.strip() for cell in next(csv.reader([line]), []))
    except csv.Error:
        return frozenset()
