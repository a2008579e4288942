"""Tables on a terminal. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]], *, texts: int = 1) -> list[str]:
    """A line for each row, the columns under each other: the first ``texts`` stand left, the others right."""
    return lines(rows, widths_of(rows), texts=texts)


def lines(rows: Sequence[Sequence[str]], widths: Sequence[int], *, texts: int = 1) -> list[str]:
    """The same with columns of these widths."""
    return [
        "  ".join(
            padded(cell, width, left=place < texts)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def widths_of(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(width_of, column)) for column in zip(*rows, strict=True)]


def padded(text: str, width: int, *, left: bool) -> str:
    blank = " " * (width - width_of(text))
    return text + blank if left else blank + text


def width_of(text: str) -> int:
    """Columns on a terminal, where a Chinese character takes two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
