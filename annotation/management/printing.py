"""Tables on a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]], *, texts: int) -> list[str]:
    """A line for each row, the columns under each other: the first ``texts`` stand left, the others right."""
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    return [_joined(row, widths, texts) for row in rows]


def _joined(cells: Sequence[str], widths: Sequence[int], texts: int) -> str:
    padded = []
    for place, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        blank = " " * (width - _width(cell))
        padded.append(cell + blank if place < texts else blank + cell)
    return "  ".join(padded).rstrip()


def _width(text: str) -> int:
    """Columns on a terminal, where a Chinese character takes two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
