"""The shape that people give to plain text: headings, numbered lines, paragraphs; and text that has none. Pure."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

_NUMBERED = re.compile(r"^\d+[.、)]\s*(.+)$")
_ENDED = re.compile(r"[.。!！?？:：;；,，…”\"')）]$")


# White space, controls, and what joins or directs letters: Unicode's names for characters that show nothing.
_UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs"})


def is_blank(text: str) -> bool:
    """Whether nothing of the text can be seen."""
    return all(unicodedata.category(character) in _UNSEEN for character in text)


@dataclass(frozen=True)
class TextBlock:
    """``kind`` is ``heading``, ``list`` (its ``lines`` without their numbers, from 1) or ``paragraph`` (one line)."""

    kind: str
    lines: tuple[str, ...]


def split_blocks(text: str) -> list[TextBlock]:
    """The blocks of a text whose paragraphs are parted by empty lines.

    The first line of a group of lines is its heading unless it ends like a sentence or is numbered.
    """
    blocks: list[TextBlock] = []
    for group in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in group.splitlines()]
        if len(lines) > 1 and not _ENDED.search(lines[0]) and not _NUMBERED.match(lines[0]):
            blocks.append(TextBlock("heading", (lines.pop(0),)))
        blocks.extend(_split_body(lines))
    return blocks


def _split_body(lines: list[str]) -> list[TextBlock]:
    body: list[TextBlock] = []
    numbered: list[str] = []
    for line in [*lines, ""]:
        match = _NUMBERED.match(line)
        if match:
            numbered.append(match[1])
            continue
        if numbered:
            body.append(TextBlock("list", tuple(numbered)))
            numbered = []
        if line:
            body.append(TextBlock("paragraph", (line,)))
    return body
