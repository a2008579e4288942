"""CSV: cells apart by a separator, in quotation marks where they hold one. Pure.

``read_cells`` reads every dialect: any separator, any line end. A table finds its own separator (``find_delimiter``)
and header (``grid.py``); a format with columns of its own has commas and a header at the top (``csv_rows``).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, islice

from annotation.core.errors import N_, InputError
from annotation.domain.formats.grid import SAMPLE_ROWS
from annotation.domain.formats.rows import MAX_LINE_BYTES, FileRow, Rows, Source, UnfitFile, read_lines

DELIMITERS = (",", ";", "\t")
SEP_LINE = re.compile(r"^\ufeff?\"?sep=(.)\"?\s*$", re.IGNORECASE)
SAMPLE_CHARACTERS = 256 * 1024
MAX_KNOWN_CHARACTERS = 200


def read_cells(source: Source, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """The cells of each row, with the line on which the row begins; of a blank line none. ``sep=;`` is no row."""
    source.check()
    csv.field_size_limit(MAX_LINE_BYTES)
    with _open_text(source) as texts:
        reader = csv.reader(_count_texts(texts, source), strict=True, delimiter=delimiter)
        while True:
            begins = reader.line_num + 1
            try:
                cells = next(reader, None)
            except csv.Error as error:
                raise _refuse_csv(error, begins, source) from error
            except UnicodeDecodeError as error:
                raise _refuse_encoding(source) from error
            if cells is None:
                return
            if begins > 1 or not SEP_LINE.match(delimiter.join(cells)):
                yield begins, cells


def _open_text(source: Source) -> io.TextIOWrapper:
    """Any line end ends a line, and stays as it is."""
    return io.TextIOWrapper(source.open(), encoding="utf-8-sig", newline="")


def _count_texts(texts: io.TextIOWrapper, source: Source) -> Iterator[str]:
    for number in count(1):
        text = texts.readline(MAX_LINE_BYTES)
        if not text:
            return
        if "\0" in text:
            raise InputError(
                N_("this is a binary file; give a text file in UTF-8."), path=source.name, line=number
            )
        if len(text) == MAX_LINE_BYTES:
            raise InputError(N_("this line is longer than 64 MiB."), path=source.name, line=number)
        source.bytes_read += len(text) if text.isascii() else len(text.encode())
        yield text


def find_delimiter(source: Source) -> str:
    """As a first line ``sep=;`` says it; else the one by which the first rows have the same number of cells."""
    try:
        with _open_text(source) as texts:
            sample = texts.read(SAMPLE_CHARACTERS)
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


def csv_rows(
    source: Source, *, required: Sequence[Sequence[str]], refused: Mapping[str, str] | None = None
) -> Rows:
    """The rows under the header. ``required`` lists columns, each with the names that will do for it.

    ``refused`` maps a column that makes the file unfit to the reason.
    """
    header: list[str] | None = None
    for number, cells in read_cells(source):
        if not cells:
            continue
        if header is None:
            header = _check_header(cells, number, source, required, refused or {})
        else:
            yield _build_row(header, cells, number, source)


def _check_header(
    cells: list[str],
    line: int,
    source: Source,
    required: Sequence[Sequence[str]],
    refused: Mapping[str, str],
) -> list[str]:
    header = [cell.strip() for cell in cells]
    for name in header:
        if name in refused:
            raise UnfitFile(refused[name], path=source.name, line=line, field=name)
        if header.count(name) > 1:
            raise InputError(N_("this column is there twice."), path=source.name, line=line, field=name)
    for names in required:
        if not set(names) & set(header):
            raise InputError(
                N_("there is no such column; the columns are: {known}."),
                path=source.name,
                line=line,
                field=" / ".join(names),
                known=_shorten_list(header),
            )
    return header


def _build_row(header: list[str], cells: list[str], number: int, source: Source) -> FileRow | InputError:
    if len(cells) != len(header):
        return InputError(
            N_("this row has {found} cells, the header has {expected}."),
            path=source.name,
            line=number,
            found=len(cells),
            expected=len(header),
        )
    return FileRow(file=source.name, line=number, fields=dict(zip(header, cells, strict=True)))


def _shorten_list(names: Iterable[str]) -> str:
    text = ", ".join(names)
    return text if len(text) <= MAX_KNOWN_CHARACTERS else f"{text[:MAX_KNOWN_CHARACTERS]}…"


def _refuse_encoding(source: Source) -> InputError:
    """With the line on which the first wrong byte stands, which a text that is read in blocks does not tell."""
    try:
        for _line in read_lines(source.reopen()):
            pass
    except InputError as error:
        return error
    return InputError(N_("this is not text in UTF-8."), path=source.name)


def _refuse_csv(error: csv.Error, line: int, source: Source) -> InputError:
    if "end of data" in str(error):
        return InputError(
            N_("a quotation mark that opens in this row is never closed."), path=source.name, line=line
        )
    return InputError(N_("this is not CSV: {why}."), path=source.name, line=line, why=str(error))
