"""Spreadsheets (.xlsx), a row at a time, by openpyxl. Pure.

The texts of a spreadsheet are held in memory, so their size is bounded; what unpacks to far too much is refused before
it is unpacked.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from annotation.core.errors import N_, InputError
from annotation.domain.formats.content import ZIP, check_packing, recognise
from annotation.domain.formats.grid import CellFault, Cells, Table, build_rows, find_header
from annotation.domain.formats.rows import Rows, Source

MAX_SPREADSHEET_BYTES = 1024 * 1024 * 1024
MAX_SHARED_TEXT_BYTES = 256 * 1024 * 1024
MAX_EXACT = 10**15
"""From here on a spreadsheet has rounded what was typed."""
OTHER_SHEETS = N_("Sheets that were not read: {names}.")
# What would be lost, and the underscore of what looks escaped.
_UNWRITABLE = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")


def is_spreadsheet(source: Source) -> bool:
    if recognise(source.path) != ZIP:
        return False
    try:
        with zipfile.ZipFile(source.path) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except (zipfile.BadZipFile, OSError):
        return False


def open_spreadsheet(source: Source) -> Table:
    _check_spreadsheet(source)
    with _open_workbook(source) as workbook:
        sheets = tuple(workbook.sheetnames)
    sheet = _choose_sheet(source, sheets)
    rows = partial(_read_sheet, source, sheet)
    header = find_header(rows(), source)

    def read() -> Rows:
        other = [name for name in sheets if name != sheet]
        if other and source.options.sheet is None:
            source.notes[OTHER_SHEETS] = {"names": ", ".join(other)}
        yield from build_rows(rows, header, source, is_ragged=True)

    return Table("xlsx", tuple(name for _place, name in header.columns), read, sheet, sheets)


def _choose_sheet(source: Source, sheets: Sequence[str]) -> str:
    if not sheets:
        raise InputError(N_("there are no rows in this file."), path=source.name)
    if source.options.sheet is None:
        return sheets[0]
    if source.options.sheet not in sheets:
        raise InputError(
            N_("there is no sheet “{sheet}”; the sheets are: {known}."),
            path=source.name,
            sheet=source.options.sheet,
            known=", ".join(sheets),
        )
    return source.options.sheet


def _check_spreadsheet(source: Source) -> None:
    """What unpacks to far too much is never unpacked; a member cannot unpack to more than it says."""
    with zipfile.ZipFile(source.path) as archive:
        members = archive.infolist()
    unpacked = sum(member.file_size for member in members)
    check_packing(unpacked, source.path.stat().st_size, source.name)
    texts = sum(member.file_size for member in members if member.filename.endswith("sharedStrings.xml"))
    if unpacked > MAX_SPREADSHEET_BYTES or texts > MAX_SHARED_TEXT_BYTES:
        raise InputError(
            N_("this spreadsheet is too large to be read as one; save the sheet as CSV in UTF-8."),
            path=source.name,
        )


@contextmanager
def _open_workbook(source: Source) -> Iterator[Any]:
    """By its content: openpyxl would go by the name."""
    from openpyxl import load_workbook

    with source.path.open("rb") as file:
        try:
            workbook = load_workbook(file, read_only=True, data_only=True, keep_links=False)
        except Exception as error:  # whatever openpyxl says of a damaged file, it is one
            raise _refuse_spreadsheet(source, error) from error
        try:
            yield workbook
        finally:
            workbook.close()


def _refuse_spreadsheet(source: Source, error: Exception) -> InputError:
    return InputError(
        N_("this spreadsheet cannot be read ({why}); open it, and save it as .xlsx again."),
        path=source.name,
        why=type(error).__name__,
    )


def _read_sheet(source: Source, name: str) -> Iterator[Cells]:
    """The rows as tuples, which end with their last cell; their number is the spreadsheet's."""
    with _open_workbook(source) as workbook:
        sheet = workbook[name]
        if not hasattr(sheet, "reset_dimensions"):
            raise InputError(
                N_("the sheet “{sheet}” is a chart; choose another."), path=source.name, sheet=name
            )
        sheet.reset_dimensions()
        rows = iter(sheet.iter_rows())
        for number in count(1):
            try:
                cells = next(rows, None)
            except Exception as error:  # as above: the XML of a sheet is read on the way
                raise _refuse_spreadsheet(source, error) from error
            if cells is None:
                return
            yield number, tuple(map(_read_cell, cells))


def _read_cell(cell: Any) -> Any:
    value = cell.value
    if cell.data_type == "e":
        return CellFault(str(value))
    if isinstance(value, str):
        return unescape_spreadsheet(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < MAX_EXACT:
        return int(value)
    return value.isoformat() if isinstance(value, datetime | date) else value


def unescape_spreadsheet(text: str) -> str:
    """Spreadsheets write a carriage return as ``_x000D_``, and what looks like that with ``_x005F_`` before it."""
    return _ESCAPED.sub(_unescape, text) if "_x" in text else text


def escape_spreadsheet(text: str) -> str:
    """A text as a spreadsheet keeps it: XML has no carriage return and no control characters."""
    return _UNWRITABLE.sub(lambda match: f"_x{ord(match[0]):04X}_", text)


def _unescape(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    return chr(code) if code < 0x20 or code in {ord("_"), 0xFFFE, 0xFFFF} else match[0]


def read_sheet(path: Path) -> Iterator[list[Any]]:
    """The cells of the first sheet of a file of ours, row by row; None where there is nothing."""
    source = Source(path)
    with _open_workbook(source) as workbook:
        name = workbook.sheetnames[0]
    for _number, cells in _read_sheet(source, name):
        yield list(cells)
