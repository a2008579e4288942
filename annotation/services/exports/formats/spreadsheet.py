"""The gold file as a spreadsheet (.xlsx), row by row: the columns of ``gold.csv``, texts exact to the character.

A text is a cell of text whatever it begins with, so no formula ever starts. openpyxl is imported when a file is
written. A spreadsheet cannot go on in its middle: after a worker died it is started again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from annotation.core.errors import N_, AssayError
from annotation.domain.datasets import text_sha256
from annotation.domain.formats.spreadsheets import escape_spreadsheet, read_sheet
from annotation.domain.releases.gold_file import (
    DANGEROUS,
    TURNS,
    GoldColumns,
    GoldRow,
    cell_rows,
    csv_header,
    flatten_row,
    text_cell,
)
from annotation.services.exports.base import ExportCounts, ExportSpec, Part, ReportPosition, WholeFile, Writer
from annotation.services.exports.verification import check_gold

FILE = "gold.xlsx"
MAX_ROWS = 1_048_576
MAX_CELL_CHARACTERS = 32_767


class _Spreadsheet(Writer):
    name = "xlsx"
    title = N_("Spreadsheet")
    about = N_(
        "A row for each response as .xlsx, for Excel and WPS: every text exact, and none of them a formula."
    )

    def parts(self, spec: ExportSpec) -> list[Part]:
        if spec.rows >= MAX_ROWS:
            raise AssayError(
                N_("The release has {rows} rows, a spreadsheet holds {most}; take CSV or Parquet."),
                rows=spec.rows,
                most=MAX_ROWS - 1,
            )

        def write(path: Path, tell: ReportPosition) -> None:
            _write_sheet(path, spec, tell)

        return [WholeFile(FILE, write, total=spec.rows)]

    def check(self, folder: Path, spec: ExportSpec, tell: ReportPosition) -> ExportCounts:
        texts = cache(lambda: spec.released.texts_like(TURNS))
        cells = _read_cells(folder / FILE)
        rows = cell_rows(next(cells), cells, is_text=lambda text: text_sha256(text) in texts())
        return check_gold(spec.release, rows, tell)


def _write_sheet(path: Path, spec: ExportSpec, tell: ReportPosition) -> None:
    from openpyxl import Workbook

    workbook = Workbook(write_only=True)
    sheet = workbook.create_sheet("gold")
    sheet.freeze_panes = "A2"
    try:
        _append_rows(sheet, spec, tell)
    finally:
        sheet.close()
    workbook.save(path)


def _append_rows(sheet: Any, spec: ExportSpec, tell: ReportPosition) -> None:
    columns, done = spec.released.columns, 0
    sheet.append([_build_cell(sheet, name) for name in csv_header(columns)])
    for rows in spec.released.chunks():
        for row in rows:
            sheet.append([_build_cell(sheet, value) for value in _list_values(row.gold, columns)])
        done += len(rows)
        tell(done)


def _list_values(row: GoldRow, columns: GoldColumns) -> Iterator[Any]:
    """The values of the row, the turns of a dialogue and counts as their JSON."""
    return (
        text_cell(value) if isinstance(value, list | dict) else value for value in flatten_row(row, columns)
    )


def _build_cell(sheet: Any, value: Any) -> Any:
    """A number as it is; a text as a text, also once somebody has opened its cell to edit it."""
    from openpyxl.cell import WriteOnlyCell

    if not isinstance(value, str):
        return value
    text = escape_spreadsheet(value)
    if len(text) > MAX_CELL_CHARACTERS:
        raise AssayError(
            N_(
                "A cell of a spreadsheet holds {most} characters, and a text here has {number}; take CSV or JSONL."
            ),
            most=MAX_CELL_CHARACTERS,
            number=len(text),
        )
    cell = WriteOnlyCell(sheet, value=text)
    cell.data_type = "s"
    if text.startswith((*DANGEROUS, "'")):
        cell.quotePrefix = True
    return cell


def _read_cells(path: Path) -> Iterator[list[Any]]:
    """The rows as wide as the header; an empty text is nothing to a spreadsheet."""
    rows = read_sheet(path)
    header = next(rows)
    for cells in chain([header], rows):
        padded = cells + [None] * (len(header) - len(cells))
        yield ["" if cell is None else cell for cell in padded]


SPREADSHEET = _Spreadsheet()
