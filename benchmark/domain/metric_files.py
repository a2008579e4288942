"""Files of automatic metrics: a CSV table with a row for each response and a column for each metric. Pure.

A column ``NAME.CRITERION`` is of that criterion alone; any other is compared with every criterion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from annotation.core.errors import N_, InputError
from annotation.domain.formats.delimited import csv_rows
from annotation.domain.formats.rows import FileRow, Source, as_number, is_blank

PROMPT, MODEL, COLLECTION = "prompt_id", "model", "collection"
KEYS = (PROMPT, MODEL, COLLECTION)


@dataclass(frozen=True)
class MetricRow:
    """``values`` by column; a cell that is blank or NaN is no value. ``model`` and ``collection`` None: not stated."""

    row: FileRow
    prompt: str
    model: str | None
    collection: str | None
    values: Mapping[str, float]


def read_metrics(source: Source) -> Iterator[MetricRow]:
    """The rows of the file; the first thing that is wrong is raised."""
    is_empty = True
    for row in csv_rows(source, required=[(PROMPT,)]):
        if isinstance(row, InputError):
            raise row
        if is_empty and not [name for name in row.fields if name and name not in KEYS]:
            raise row.error(N_("there is no column with a metric beside {keys}."), keys=", ".join(KEYS))
        is_empty = False
        yield _parse_row(row)
    if is_empty:
        raise InputError(N_("there are no rows in this file."), path=source.name)


def split_column(name: str, criteria: Mapping[str, object]) -> tuple[str, str | None]:
    """The metric, and the criterion that it is of; None for all."""
    metric, dot, criterion = name.rpartition(".")
    return (metric, criterion) if dot and metric and criterion in criteria else (name, None)


def _parse_row(row: FileRow) -> MetricRow:
    prompt = row.identifier(PROMPT)
    if not prompt:
        raise row.error(N_("this is empty."), field=PROMPT)
    return MetricRow(
        row=row,
        prompt=prompt,
        model=row.optional_name(MODEL),
        collection=row.optional_name(COLLECTION),
        values={
            name: number
            for name, cell in row.fields.items()
            if name and name not in KEYS and (number := _read_number(row, name, cell)) is not None
        },
    )


def _read_number(row: FileRow, name: str, cell: object) -> float | None:
    if is_blank(cell) or (isinstance(cell, str) and cell.strip().casefold() == "nan"):
        return None
    number = as_number(cell)
    if number is None:
        raise row.error(N_("this is no number."), field=name)
    return number
