"""Evidence that is quoted: the words in place of their offsets. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

QUOTE = "quote"
NO_QUOTATION = frozenset({"na", "n/a", "n.a.", "none", "nil", "not applicable", "不适用", "无"})
"""What people write where they have nothing to quote, without capitals and outer blanks."""
IN_QUOTATION_MARKS = "“{quote}”"


def is_no_quotation(quote: str) -> bool:
    """Whether nothing is quoted: blank, or a word that says so."""
    return not quote.strip() or quote.strip().casefold() in NO_QUOTATION


def find_quotation(quote: str, texts: Sequence[str | None]) -> Iterator[tuple[int, int, int]]:
    """(turn, start, end) of each place at which the words, without outer blanks, stand in a text that is there."""
    words = quote.strip()
    for turn, text in enumerate(texts):
        start = -1 if text is None else text.find(words)
        while text is not None and start >= 0:
            yield turn, start, start + len(words)
            start = text.find(words, start + 1)
