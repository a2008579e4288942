"""Where in the source the content of a block stands.

markdown-it names the lines of a block, and of its content no more: indentation, the signs of quotes and lists around
it, and the pipes of a table are gone by then. Each line of content is what its line of the source ends with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_LINE_END = re.compile(r"\r\n|\r|\n")
_CLOSING_SIGNS = re.compile(r"(?:(?<=[ \t])|^)#+$")
_BLANKS = " \t"


@dataclass(frozen=True, slots=True)
class LocatedText:
    """A text of the parser. ``places[i]`` is where its character ``i`` stands in the source, in code points;
    ``places[-1]`` is where the text ends.
    """

    text: str
    places: Sequence[int]


EMPTY = LocatedText("", (0,))


class SourceLines:
    """The lines of a source, with the place at which each begins."""

    def __init__(self, source: str) -> None:
        ends = [*_LINE_END.finditer(source)]
        self.starts = [0, *(end.end() for end in ends)]
        stops = [*(end.start() for end in ends), len(source)]
        self.texts = [source[start:stop] for start, stop in zip(self.starts, stops, strict=True)]

    def locate(self, content: str, begin: int, end: int) -> LocatedText | None:
        """The content of a block that takes the lines ``begin`` to ``end``; None where it does not stand there."""
        places: list[int] = []
        number = begin
        for index, line in enumerate(content.split("\n")):
            while number < end and (at := self._find_line(line, number)) is None:
                number += 1
            if number >= end:
                return None
            if index:
                places.append(self._find_end(number - 1))
            places += at or []
            number += 1
        places.append(places[-1] + 1 if places else self.starts[begin])
        return LocatedText(content, places)

    def locate_heading(self, content: str, line: int) -> LocatedText | None:
        """The content of a heading of one line, which closing signs may follow."""
        if not content:
            return EMPTY
        text = self.texts[line].rstrip(_BLANKS)
        text = _CLOSING_SIGNS.sub("", text).rstrip(_BLANKS)
        if not text.endswith(content):  # the parser strips other blanks, too
            text = text.rstrip()
        if not text.endswith(content):
            return None
        start = self.starts[line] + len(text) - len(content)
        return LocatedText(content, range(start, start + len(content) + 1))

    def split_row(self, line: int) -> Iterator[LocatedText]:
        """The cells of a table's row, for ``locate_cell`` to take from."""
        start, text = self.starts[line], self.texts[line].rstrip()
        characters: list[str] = []
        places: list[int] = []
        for place, character in enumerate(f"{text}|"):
            escaped = text[place - 1 : place] == "\\" if place else False
            if character != "|" or (escaped and place < len(text)):
                if character == "|":  # the backslash before it is no part of the content
                    characters.pop()
                    places.pop()
                characters.append(character)
                places.append(place - (character == "|"))
                continue
            content = "".join(characters).rstrip()
            end = places[len(content)] if len(content) < len(places) else place
            yield LocatedText(content, [start + at for at in (*places[: len(content)], end)])
            characters, places = [], []

    @staticmethod
    def locate_cell(content: str, cells: Iterator[LocatedText]) -> LocatedText | None:
        """The next of the ``cells`` with this content, behind the signs of what the table stands in."""
        cell = next((cell for cell in cells if not content or cell.text.endswith(content)), None)
        if not content:  # also of a cell that the row lacks
            return EMPTY
        return cell and LocatedText(content, cell.places[len(cell.text) - len(content) :])

    def locate_block(self, opener: str, begin: int, end: int) -> tuple[int, int]:
        """Where a block begins with its ``opener`` and where its last line ends."""
        start = self.starts[begin] + max(self.texts[begin].find(opener), 0)
        return start, self.starts[end - 1] + len(self.texts[end - 1].rstrip())

    def _find_end(self, line: int) -> int:
        return self.starts[line] + len(self.texts[line])

    def _find_line(self, line: str, number: int) -> list[int] | None:
        """The places of the characters of a ``line`` of content, which the parser may have stripped.

        A tab that only in part belongs to the content is spaces there: they all stand where the tab stands.
        """
        text = self.texts[number]
        seen = line.lstrip(_BLANKS)
        for source in (text, text.rstrip(_BLANKS), text.rstrip()):
            if not source.endswith(seen):
                continue
            start = len(source) - len(seen)
            first = len(source[:start].rstrip(_BLANKS))
            blanks = len(line) - len(seen)
            leading = (max(start - blanks + i, first) for i in range(blanks))
            return [self.starts[number] + place for place in (*leading, *range(start, len(source)))]
        return None
