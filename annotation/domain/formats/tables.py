"""Files as tables, whatever their shape: spreadsheets, CSV of any kind, JSON, Parquet, folders of Hugging Face. Pure.

A table has a header and rows, each a mapping from column to value as the file has it: text of CSV, numbers and lists
of the others. The shape is told by the content. A row is known by its line in CSV, by its row in a spreadsheet, else
by its number. Memory holds a few rows at a time; of a spreadsheet also its texts, whose size is bounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path

from annotation.core.errors import N_, InputError
from annotation.domain.formats.columns import open_columns
from annotation.domain.formats.content import (
    ARROW,
    FOLDER,
    OLD_OFFICE,
    OPEN_DOCUMENT,
    PARQUET,
    ZIP,
    recognise,
)
from annotation.domain.formats.delimited import find_delimiter, read_cells
from annotation.domain.formats.grid import SAMPLE_ROWS, Table, build_rows, find_header
from annotation.domain.formats.rows import FileRow, Rows, Source, is_array, json_items, json_rows
from annotation.domain.formats.spreadsheets import is_spreadsheet, open_spreadsheet

DELIMITER_NAMES = {"\t": "tab"}
_TABLE_FILES = (".parquet", ".arrow", ".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".xlsx")
_NO_TABLES = {"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json", "manifest.json"}
_PACKED = (".gz", ".zst")
_SHARD = re.compile(r"^(?P<split>[A-Za-z_]+?)(?:[-_.]\d+)*(?:-of-\d+)?$")


def open_table(source: Source) -> Table:
    """The table in the file; InputError for what holds none."""
    source.recodes = True
    kind = _check_kind(source)
    if kind == FOLDER:
        try:
            return _open_folder(source)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                N_("this folder cannot be read ({why}); give the folder as it was saved."),
                path=source.name,
                why=error,
            ) from error
    if kind == ZIP:
        return open_spreadsheet(source)
    if kind in {PARQUET, ARROW}:
        return open_columns(source, [source.path], kind)
    return _open_text(source)


def is_table(source: Source) -> bool:
    """Whether the file can be nothing but a table: a spreadsheet, columns, a folder."""
    try:
        return recognise(source.path) in {FOLDER, PARQUET, ARROW} or is_spreadsheet(source)
    except OSError:
        return False


def _check_kind(source: Source) -> str:
    if not source.is_folder:
        source.check()
    kind = recognise(source.path)
    if kind == OLD_OFFICE:
        raise InputError(
            N_(
                "this is an old spreadsheet (.xls), or one with a password; save it without one as .xlsx or .csv."
            ),
            path=source.name,
        )
    if kind == OPEN_DOCUMENT:
        raise InputError(
            N_("this is an OpenDocument file, such as an .ods; save the sheet as .xlsx or .csv."),
            path=source.name,
        )
    if kind == ZIP and not is_spreadsheet(source):
        raise InputError(
            N_("this is a zip and no .xlsx; unpack it, or save the spreadsheet as .xlsx."), path=source.name
        )
    return kind


# Text: CSV and JSON


def _open_text(source: Source) -> Table:
    if is_array(source):
        return _open_json(source, partial(json_items, source), "JSON")
    with source.open() as file:
        beginning = file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
    if beginning.startswith(b"{"):
        return _open_json(source, partial(json_rows, source), "JSON lines")
    return _open_csv(source)


def _describe(source: Source, *words: str) -> str:
    encoding = "" if source.encoding in {None, "utf-8"} else str(source.encoding).upper()
    return " ".join(filter(None, (*words, encoding)))


def _open_json(source: Source, rows: Callable[[], Rows], shape: str) -> Table:
    columns: dict[str, None] = {}
    for row in islice(rows(), SAMPLE_ROWS):
        if isinstance(row, FileRow):
            columns |= dict.fromkeys(row.fields)
        elif not columns:
            raise row
    return Table(_describe(source, shape), tuple(columns), rows)


def _open_csv(source: Source) -> Table:
    delimiter = find_delimiter(source)
    rows = partial(read_cells, source, delimiter)
    header = find_header(rows(), source)
    return Table(
        _describe(source, f"CSV ({DELIMITER_NAMES.get(delimiter, delimiter)})"),
        tuple(name for _place, name in header.columns),
        partial(build_rows, rows, header, source),
    )


# Folders of Hugging Face


def _open_folder(source: Source) -> Table:
    splits = _find_splits(source)
    selected = [source.options.sheet] if source.options.sheet is not None else list(splits)
    for name in selected:
        if name not in splits:
            raise InputError(
                N_("there is no split “{sheet}”; the splits are: {known}."),
                path=source.name,
                sheet=name,
                known=", ".join(splits),
            )
    paths = [path for name in selected for path in splits[name]]
    kinds = {recognise(path) for path in paths}
    is_columnar = kinds in ({PARQUET}, {ARROW})
    table = open_columns(source, paths, kinds.pop()) if is_columnar else _join_tables(source, paths)
    return Table(
        f"Hugging Face: {table.shape}", table.columns, table.rows, ", ".join(selected), tuple(splits)
    )


def _join_tables(source: Source, paths: Sequence[Path]) -> Table:
    parts = [Source(path, f"{source.name}/{path.relative_to(source.path)}") for path in paths]
    tables = [open_table(part) for part in parts]
    columns = dict.fromkeys(chain.from_iterable(table.columns for table in tables))

    def read() -> Rows:
        number = 0
        for part, table in zip(parts, tables, strict=True):
            for row in table.rows():
                number += 1
                yield row if isinstance(row, InputError) else FileRow(source.name, number, row.fields)
            source.bytes_read += part.path.stat().st_size
            source.passed_over.update(part.passed_over)

    return Table(tables[0].shape, tuple(columns), read)


def _find_splits(source: Source) -> dict[str, list[Path]]:
    """As ``save_to_disk`` lays a dataset out, or as the Hub does: a split is a folder, or the beginning of a name."""
    saved = _find_saved(source.path)
    if saved:
        return saved
    splits: dict[str, list[Path]] = {}
    for path in sorted(path for path in source.path.rglob("*") if path.is_file() and _is_table_file(path)):
        if any(part.startswith((".", "_")) for part in path.relative_to(source.path).parts):
            continue
        splits.setdefault(_name_split(path, source.path), []).append(path)
    if not splits:
        raise InputError(
            N_("this is a folder without a table; name a file, or a folder of Hugging Face."),
            path=source.name,
        )
    return splits


def _find_saved(folder: Path) -> dict[str, list[Path]]:
    state = folder / "state.json"
    if state.is_file():
        return {
            "": [
                folder / Path(part["filename"]).name for part in json.loads(state.read_text())["_data_files"]
            ]
        }
    listing = folder / "dataset_dict.json"
    if not listing.is_file():
        return {}
    names: list[str] = json.loads(listing.read_text())["splits"]
    return {name: _find_saved(folder / name)[""] for name in names}


def _is_table_file(path: Path) -> bool:
    name = path.name.lower()
    for packed in _PACKED:
        name = name.removesuffix(packed)
    return name.endswith(_TABLE_FILES) and name not in _NO_TABLES


def _name_split(path: Path, folder: Path) -> str:
    """``train`` of ``train-00000-of-00002.parquet``, ``data/train.jsonl`` and ``train/0000.parquet``."""
    match = _SHARD.match(path.name.split(".", 1)[0])
    if match:
        return match["split"]
    return path.parent.name if path.parent != folder else path.name
