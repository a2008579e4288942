"""Files of columns, Parquet and Arrow, some rows at a time, by pyarrow. Pure. pyarrow is imported when one is read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotation.core.errors import N_, InputError
from annotation.domain.formats.content import BEGINNING_OF_ARROW_FILE, PARQUET, recognise
from annotation.domain.formats.grid import Table
from annotation.domain.formats.rows import UNSTORABLE, FileRow, Rows, Source, is_storable

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 256


def open_columns(source: Source, paths: Sequence[Path], kind: str) -> Table:
    schema = _read_schema(source, paths[0])
    for path in paths[1:]:
        if _read_schema(source, path).names != schema.names:
            raise InputError(
                N_("{file} has other columns than the files before it; give one of them."),
                path=source.name,
                file=path.name,
            )
    return Table(
        "Parquet" if kind == PARQUET else "Arrow",
        tuple(schema.names),
        partial(_read_columns, source, paths),
    )


def _read_schema(source: Source, path: Path) -> pa.Schema:
    with _open_column_file(source, path) as columns:
        return columns.schema


@dataclass(frozen=True)
class _ColumnFile:
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


@contextmanager
def _open_column_file(source: Source, path: Path) -> Iterator[_ColumnFile]:
    """A Parquet file, or one of Arrow of either kind; what is wrong with it is a refusal."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        if recognise(path) == PARQUET:
            with parquet.ParquetFile(path) as file:
                yield _ColumnFile(file.schema_arrow, file.iter_batches(batch_size=BATCH))
            return
        with pa.memory_map(str(path)) as mapped:
            if mapped.read(len(BEGINNING_OF_ARROW_FILE)) == BEGINNING_OF_ARROW_FILE:
                reader = pa.ipc.open_file(mapped)
                yield _ColumnFile(reader.schema, map(reader.get_batch, range(reader.num_record_batches)))
            else:
                mapped.seek(0)
                stream = pa.ipc.open_stream(mapped)
                yield _ColumnFile(stream.schema, iter(stream))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(
            N_("this file of columns cannot be read ({why}); write it anew."),
            path=source.name,
            why=str(error).split("\n", 1)[0][:200],
        ) from error


def _read_columns(source: Source, paths: Sequence[Path]) -> Rows:
    number = 0
    for path in paths:
        with _open_column_file(source, path) as columns:
            classes = _list_classes(columns.schema)
            for batch in columns.batches:
                for start in range(0, batch.num_rows, BATCH):
                    for fields in batch.slice(start, BATCH).to_pylist():
                        number += 1
                        values = {
                            name: _plain_value(value, classes.get(name)) for name, value in fields.items()
                        }
                        row = FileRow(file=source.name, line=number, fields=values)
                        yield row if is_storable(values) else row.error(UNSTORABLE)
        source.bytes_read += path.stat().st_size


def _list_classes(schema: pa.Schema) -> dict[str, list[str]]:
    """The names of the classes that Hugging Face keeps as numbers, by column."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {
            name: feature["names"]
            for name, feature in features.items()
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" and feature.get("names")
        }
    except (KeyError, TypeError, ValueError):
        return {}


def _plain_value(value: Any, classes: list[str] | None) -> Any:
    if classes and isinstance(value, int) and 0 <= value < len(classes):
        return classes[value]
    if isinstance(value, float):
        return None if math.isnan(value) else int(value) if value.is_integer() else value
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, dict):
        return {name: _plain_value(part, None) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain_value(part, None) for part in value]
    return value if isinstance(value, str | int | bool | None) else str(value)
