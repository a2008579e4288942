"""A table as a file of the backup: a line of JSON for each row, compressed; and the hash of what the rows say."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, cast

import zstandard

from annotation.core.errors import N_, InputError
from annotation.models.sql.dumps import BLOCK_CHARACTERS, MAX_ROWS, DumpTable, Row, Snapshot
from annotation.services.upkeep.manifests import TableEntry, create_file

LEVEL = 3
MAX_REMEMBERED_CHARACTERS = 200
_encode_row = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
Advance = Callable[[int], None]
"""Is told how many rows more are done."""


class ContentHash:
    """Of rows in the order of their keys, the same in both databases: PostgreSQL keeps the keys of JSON in another
    order and its numbers in another notation.
    """

    def __init__(self, table: DumpTable) -> None:
        self._places, self._hash, self.rows = table.json_places, hashlib.sha256(), 0

    def add(self, rows: Sequence[Row]) -> None:
        self.rows += len(rows)
        self._hash.update(encode_rows(map(self._normalise, rows) if self._places else rows))

    def _normalise(self, row: Row) -> Row:
        values = list(row)
        for place in self._places:
            text = values[place]
            if text is not None:
                is_short = len(text) <= MAX_REMEMBERED_CHARACTERS
                values[place] = _normalise_short(text) if is_short else _normalise_json(text)
        return values

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


def _normalise_json(text: str) -> str:
    return json.dumps(json.loads(text, parse_int=_read_number, parse_float=_read_number), sort_keys=True)


def _read_number(text: str) -> float:
    """A zero without its sign."""
    return float(text) + 0.0


_normalise_short = lru_cache(maxsize=20_000)(_normalise_json)


def encode_rows(rows: Iterator[Row] | Sequence[Row]) -> bytes:
    return "".join([f"{_encode_row(row)}\n" for row in rows]).encode()


def write_table(
    snapshot: Snapshot,
    table: DumpTable,
    path: Path,
    *,
    advance: Advance,
    watch: Callable[[Sequence[Row]], None],
) -> TableEntry:
    """``watch`` is shown all rows on the way."""
    content = ContentHash(table)
    with (
        create_file(path) as file,
        zstandard.ZstdCompressor(level=LEVEL).stream_writer(cast("IO[bytes]", file), closefd=False) as packer,
    ):
        for rows in snapshot.read(table):
            packer.write(encode_rows(rows))
            content.add(rows)
            watch(rows)
            advance(len(rows))
    return TableEntry(
        name=table.name,
        columns=[column.name for column in table.columns],
        rows=content.rows,
        bytes=file.bytes,
        sha256=file.sha256,
        content_sha256=content.sha256,
        last_key=snapshot.find_last_key(table),
    )


def read_table(path: Path) -> Iterator[list[Row]]:
    """The rows that ``write_table`` wrote, a block at a time."""
    rows: list[Row] = []
    characters = 0
    with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as packed:
        try:
            for line in io.TextIOWrapper(packed, encoding="utf-8", newline="\n"):
                rows.append(json.loads(line))
                characters += len(line)
                if len(rows) >= MAX_ROWS or characters >= BLOCK_CHARACTERS:
                    yield rows
                    rows, characters = [], 0
        except (ValueError, zstandard.ZstdError) as error:
            raise InputError(N_("this is not what a backup wrote: it is damaged."), path=str(path)) from error
    if rows:
        yield rows


def hash_table(snapshot: Snapshot, table: DumpTable, *, advance: Advance) -> ContentHash:
    """Of the rows that are in the database."""
    content = ContentHash(table)
    for rows in snapshot.read(table):
        content.add(rows)
        advance(len(rows))
    return content


def decode_values(table: DumpTable, row: Row) -> Mapping[str, Any]:
    """A row by the names of its model's attributes, as the model reads them."""
    fields = {field.column: field for field in table.model._meta.concrete_fields}
    return {
        fields[column.name].attname: json.loads(value)
        if column.kind == "json" and value is not None
        else fields[column.name].to_python(value)
        for column, value in zip(table.columns, row, strict=True)
    }
