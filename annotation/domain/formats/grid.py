"""Cells under a header, as CSV and spreadsheets have them, and what every table is. Pure.

A title may stand above the header, empty rows may stand anywhere; what is left out is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from annotation.core.errors import N_, InputError
from annotation.domain.formats.rows import FileRow, Rows, Source, is_blank

SAMPLE_ROWS = 100
"""So many rows say which columns there are, and what is in them."""
MAX_COLUMNS = 2000
MAX_HEADER_ROW = 10
EMPTY_ROWS = N_("{number} empty rows were passed over.")
UNNAMED = N_("{number} cells in columns without a name were passed over.")
TITLE_ROWS = N_("{number} rows above the header were passed over.")
Cells = tuple[int, Sequence[Any]]


@dataclass(frozen=True)
class Table:
    """``shape`` says in a few words what the file is; ``columns`` are those of its header, or of its first rows."""

    shape: str
    columns: tuple[str, ...]
    rows: Callable[[], Rows]
    sheet: str = ""
    sheets: tuple[str, ...] = ()


def take_sample(rows: Iterable[FileRow | InputError]) -> list[Mapping[str, Any]]:
    """The first rows that are right."""
    return [row.fields for row in islice(rows, SAMPLE_ROWS) if isinstance(row, FileRow)]


@dataclass(frozen=True)
class CellFault:
    """What stands in a cell whose formula failed."""

    text: str


@dataclass(frozen=True)
class Header:
    """``line`` is where it stands, ``width`` how many cells it has; ``columns`` are the places of those with a name."""

    line: int
    columns: tuple[tuple[int, str], ...]
    width: int
    above: int


def find_header(rows: Iterator[Cells], source: Source) -> Header:
    """The first row with several cells: a title of one cell may stand above it. Of one column, the first row."""
    first: tuple[int, int, list[tuple[int, str]]] | None = None
    above = 0
    for line, cells in islice(rows, MAX_HEADER_ROW):
        columns = [(place, name) for place, cell in enumerate(cells) if (name := _clean_name(cell))]
        if not columns:
            continue
        first = first or (line, len(cells), columns)
        if len(columns) > 1:
            return _build_header(line, len(cells), columns, above, source)
        above += 1
    if first is None:
        raise InputError(N_("there are no rows in this file."), path=source.name)
    return _build_header(*first, 0, source)


def _clean_name(cell: object) -> str:
    return "" if cell is None else " ".join(str(cell).replace("\ufeff", "").split())


def _build_header(
    line: int, width: int, columns: list[tuple[int, str]], above: int, source: Source
) -> Header:
    names = [name for _place, name in columns]
    for name in names:
        if names.count(name) > 1:
            raise InputError(N_("this column is there twice."), path=source.name, line=line, field=name)
    if len(names) > MAX_COLUMNS:
        raise InputError(
            N_("this has {number} columns; at most {most} are possible."),
            path=source.name,
            line=line,
            number=len(names),
            most=MAX_COLUMNS,
        )
    return Header(line, tuple(columns), width, above)


def build_rows(
    rows: Callable[[], Iterator[Cells]], header: Header, source: Source, *, is_ragged: bool = False
) -> Rows:
    """The rows under the header. Empty ones are counted; cells beside the header must be empty.

    ``is_ragged``: a row ends with its last filled cell.
    """
    if header.above:
        source.passed_over[TITLE_ROWS] += header.above
    named = {place for place, _name in header.columns}
    for line, cells in rows():
        if line <= header.line:
            continue
        if not any(map(_is_filled, cells)):
            source.passed_over[EMPTY_ROWS] += 1
            continue
        if unnamed := sum(place not in named for place in range(header.width) if _is_filled_at(cells, place)):
            source.passed_over[UNNAMED] += unnamed
        extra = next((n for n in range(header.width, len(cells)) if _is_filled(cells[n])), None)
        if extra is not None:
            yield InputError(
                N_(
                    "the cell {number} of this row stands beside the header, which has {expected}; give its column a"
                    " name, or put what holds the separator into quotation marks."
                ),
                path=source.name,
                line=line,
                number=extra + 1,
                expected=header.width,
            )
        elif len(cells) < header.width and not is_ragged:
            yield InputError(
                N_("this row has {found} cells, the header has {expected}."),
                path=source.name,
                line=line,
                found=len(cells),
                expected=header.width,
            )
        else:
            fields = {name: cells[place] if place < len(cells) else None for place, name in header.columns}
            yield _refuse_faults(FileRow(file=source.name, line=line, fields=fields))


def _is_filled_at(cells: Sequence[Any], place: int) -> bool:
    return place < len(cells) and _is_filled(cells[place])


def _is_filled(cell: object) -> bool:
    return not is_blank(cell)


def _refuse_faults(row: FileRow) -> FileRow | InputError:
    for name, value in row.fields.items():
        if isinstance(value, CellFault):
            return row.error(
                N_("this cell holds an error of the spreadsheet ({value}); fix it there."),
                field=name,
                value=value.text,
            )
    return row
