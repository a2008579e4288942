"""Files as tables, whatever their shape: spreadsheets, CSV of any kind, JSON, Parquet, folders of Hugging Face. Pure.

A table has a header and rows, each a mapping from column to value as the file has it: text of CSV, numbers and lists
of the others. The shape is told by the content. A row is known by its line in CSV, by its row in a spreadsheet, else
by its number. Memory holds a few rows at a time; of a spreadsheet also its texts, whose size is bounded.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path

from annotation.core.errors import N_, InputError
from annotation.domain.formats.columns import open_columns
from annotation.domain.formats.content import ARROW, FOLDER, OLD_OFFICE, PARQUET, ZIP, recognise
from annotation.domain.formats.grid import SAMPLE_ROWS, Cells, Table, build_rows, find_header
from annotation.domain.formats.rows import (
    MAX_LINE_BYTES,
    FileRow,
    Rows,
    Source,
    is_array,
    json_items,
    json_rows,
)
from annotation.domain.formats.spreadsheets import is_spreadsheet, open_spreadsheet

DELIMITERS = (",", ";", "\t")
DELIMITER_NAMES = {"\t": "tab"}
SEP_LINE = re.compile(r"^\ufeff?\"?sep=(.)\"?\s*$", re.IGNORECASE)
SAMPLE_CHARACTERS = 256 * 1024
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
                "this is a spreadsheet of the old kind, or one with a password; save it as .xlsx without one."
            ),
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
    delimiter = _find_delimiter(source)
    rows = partial(_read_csv, source, delimiter)
    header = find_header(rows(), source)
    return Table(
        _describe(source, f"CSV ({DELIMITER_NAMES.get(delimiter, delimiter)})"),
        tuple(name for _place, name in header.columns),
        partial(build_rows, rows, header, source),
    )


def _open_lines(source: Source) -> io.TextIOWrapper:
    """Any line end ends a line, and stays as it is."""
    return io.TextIOWrapper(source.open(), encoding="utf-8-sig", newline="")


def _find_delimiter(source: Source) -> str:
    """As a first line ``sep=;`` says it; else the one by which the first rows have the same number of cells."""
    try:
        with _open_lines(source) as lines:
            sample = lines.read(SAMPLE_CHARACTERS)
    except UnicodeDecodeError as error:
        raise _refuse_encoding(source) from error
    stated = SEP_LINE.match(sample.splitlines()[0]) if sample.strip() else None
    if stated:
        return stated[1]
    return max(DELIMITERS, key=lambda delimiter: _rate_delimiter(sample, delimiter))


def _rate_delimiter(sample: str, delimiter: str) -> tuple[float, int]:
    """The share of rows that are as wide as most, if that is more than one cell; then how wide."""
    csv.field_size_limit(MAX_LINE_BYTES)
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
    widths: list[int] = []
    try:
        widths.extend(len(cells) for cells in islice(reader, SAMPLE_ROWS) if any(cells))
    except csv.Error:
        return 0.0, 0
    if len(widths) > 1 and len(sample) == SAMPLE_CHARACTERS:
        widths.pop()
    usual = max(set(widths), key=widths.count) if widths else 0
    return (widths.count(usual) / len(widths) if usual > 1 else 0.0), usual


def _read_csv(source: Source, delimiter: str) -> Iterator[Cells]:
    csv.field_size_limit(MAX_LINE_BYTES)
    with _open_lines(source) as lines:
        reader = csv.reader(_count_bytes(lines, source), strict=True, delimiter=delimiter)
        while True:
            begins = reader.line_num + 1
            try:
                cells = next(reader, None)
            except csv.Error as error:
                raise _refuse_csv(error, begins, source) from error
            except UnicodeDecodeError as error:
                raise _refuse_encoding(source, reader.line_num + 1) from error
            if cells is None:
                return
            if begins == 1 and SEP_LINE.match(delimiter.join(cells)):
                continue
            yield begins, cells


def _count_bytes(lines: io.TextIOWrapper, source: Source) -> Iterator[str]:
    while line := lines.readline(MAX_LINE_BYTES):
        if "\0" in line:
            raise InputError(N_("this is a binary file; give a text file in UTF-8."), path=source.name)
        if len(line) == MAX_LINE_BYTES:
            raise InputError(N_("this line is longer than 64 MiB."), path=source.name)
        source.bytes_read += len(line)
        yield line


def _refuse_encoding(source: Source, line: int | None = None) -> InputError:
    return InputError(N_("this is not text in UTF-8."), path=source.name, line=line)


def _refuse_csv(error: csv.Error, line: int, source: Source) -> InputError:
    if "end of data" in str(error):
        return InputError(
            N_("a quotation mark that opens in this row is never closed."), path=source.name, line=line
        )
    return InputError(N_("this is not CSV: {why}."), path=source.name, line=line, why=str(error))


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
