"""The words of two texts that differ. Pure."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TypeAlias

Places: TypeAlias = list[tuple[int, int]]
"""Runs of characters, each from its first code point to the one after its last."""

MAX_EXACT = 20_000_000
# A word; of a script without spaces a character; or whatever else is no blank.
_WORD = re.compile(r"[^\W\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]+|[^\s]")


def split_words(text: str) -> Places:
    """Where the words of ``text`` stand; of a script without spaces each character is a word, and so is each mark."""
    return [(match.start(), match.end()) for match in _WORD.finditer(text)]


def find_differences(first: str, second: str) -> tuple[Places, Places]:
    """What of each text the other has not at its place, word by word; blanks do not count."""
    words = [split_words(text) for text in (first, second)]
    tokens = [
        [text[start:end] for start, end in runs] for text, runs in zip((first, second), words, strict=True)
    ]
    places: tuple[Places, Places] = ([], [])
    is_long = len(tokens[0]) * len(tokens[1]) > MAX_EXACT  # then words that occur often are no anchors
    for kind, *ends in SequenceMatcher(None, tokens[0], tokens[1], autojunk=is_long).get_opcodes():
        if kind == "equal":
            continue
        for side, (start, end) in enumerate((ends[:2], ends[2:])):
            if end > start:
                places[side].append((words[side][start][0], words[side][end - 1][1]))
    return places
