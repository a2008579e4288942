"""Tables on a terminal. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def format_table(rows: Sequence[Sequence[str]], *, texts: int = 1) -> list[str]:
    """A line for each row, the columns under each other: the first ``texts`` stand left, the others right."""
    return format_lines(rows, measure_widths(rows), texts=texts)


def format_lines(rows: Sequence[Sequence[str]], widths: Sequence[int], *, texts: int = 1) -> list[str]:
    """The same with columns of these widths."""
    return [
        "  ".join(
            pad_text(cell, width, left=place < texts)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def measure_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(measure_width, column)) for column in zip(*rows, strict=True)]


def pad_text(text: str, width: int, *, left: bool) -> str:
    blank = " " * (width - measure_width(text))
    return text + blank if left else blank + text


def measure_width(text: str) -> int:
    """Columns on a terminal, where a Chinese character takes two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
