"""Marks the options in an answer: ⟪1⟫ and ⟪2⟫, ⟪0⟫ for one not offered; ⟦1⟧ where its own text stands. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .shapes import AnswerOption
from .text import CJK, TURNS, TURNS_ZH, plain_option, tidied

_NOUNS = r"option|response|answer|choice|reply|statement"
NOUNS_ZH = "选项|回复|回答|答案|答复|方案"
_GUARD = (
    rf"(?= ?(?:\||$|[{CJK}⟪⟦]|(?:is|was|are|seems|appears|sounds|looks|would|wins|and|or|not|than|for|if|which"
    r"|clearly|definitely|vs|versus)\b))"
)
_ORDINALS = {"first": 1, "1st": 1, "former": 1, "second": 2, "2nd": 2, "latter": 2, "third": 0, "3rd": 0}
_NUMERALS = {"一": 1, "二": 2, "两": 2, "三": 0, "四": 0, "1": 1, "2": 2, "3": 0, "4": 0, "one": 1, "two": 2}
_HAS_NUMBER = re.compile(r"[1-4一二三四]|(?:number| )(?:one|two)")
_NUMBERED = re.compile(
    rf"(?:{_NOUNS})(?: number)? ?([1-4]|one|two)(?![a-z0-9])|(?:{NOUNS_ZH})([1-4])(?![0-9])"
    r"|(?:选项|回复|答复|方案)([一二三四])(?![下个种些定样般致])"
)
_ORDINAL = re.compile(
    rf"\b(?:the )?(first|second|third|1st|2nd|3rd) (?:{_NOUNS}|one)\b|\bthe (first|second){_GUARD}"
    rf"|\bthe (former|latter)\b(?: (?:{_NOUNS}|one)\b)?"
)
_ORDINAL_ZH = re.compile(rf"第([一二三四1-4])(?:[个种条项段](?:{NOUNS_ZH}|选择)?|(?:{NOUNS_ZH}))|([前后])者")
# The letter comes first in the pattern, so that the search leaps from one to the next.
_LETTERED = re.compile(rf"[a-f](?<![a-z0-9⟪].)(?![a-z0-9⟫])(?:{NOUNS_ZH}|项)?{_GUARD}")
_BEFORE_LETTER = (*(f"{noun} " for noun in _NOUNS.split("|")), *NOUNS_ZH.split("|"))


def with_marks(plain: str, options: Sequence[AnswerOption]) -> str:
    """The text with its mentions of options marked."""
    places = {option.letter.lower(): place for place, option in enumerate(options, 1)}
    text = _with_turns(plain)
    if "第" in text or "者" in text:
        text = _ORDINAL_ZH.sub(lambda m: f"⟪{_NUMERALS[m[1]] if m[1] else 1 if m[2] == '前' else 2}⟫", text)
    if any(word in text for word in _ORDINALS):
        text = _ORDINAL.sub(lambda m: f"⟪{_ORDINALS[m[1] or m[2] or m[3]]}⟫", text)
    if _HAS_NUMBER.search(text):
        text = _NUMBERED.sub(_numbered, text)
    pieces, at = [], 0
    for match in _LETTERED.finditer(text):
        pieces += [_without_noun(text[at : match.start()]), f"⟪{places.get(match[0][0], 0)}⟫"]
        at = match.end()
    return "".join((*pieces, text[at:]))


def _numbered(match: re.Match[str]) -> str:
    is_word = not match[1] or not match.start() or not match.string[match.start() - 1].isalnum()
    return f"⟪{_NUMERALS[match[1] or match[2] or match[3]]}⟫" if is_word else match[0]


def _without_noun(text: str) -> str:
    """What stands before a letter, without the noun that the letter names."""
    noun = next((noun for noun in _BEFORE_LETTER if text.endswith(noun)), "")
    begins = len(text) - len(noun)
    is_word = not noun.isascii() or not begins or not (text[begins - 1].isalnum() or text[begins - 1] == "_")
    return text[:begins] if noun and is_word else text


def _with_turns(plain: str) -> str:
    """A clause also ends where the thought turns."""
    text = f"{plain} "
    for turn in TURNS:
        if f" {turn}" in text:
            text = text.replace(f" {turn} ", f"|{turn} ").replace(f" {turn}|", f"|{turn}|")
    text = text[:-1]
    return tidied(text if text.isascii() else TURNS_ZH.sub("|", text))


def without_quotes(plain: str, options: Sequence[AnswerOption]) -> tuple[str, frozenset[int]]:
    """The text with what it quotes of the options taken out, and which of them it quotes in full.

    A quoted refusal is no refusal. Sentences of an option are taken out as well, and prove nothing.
    """
    known = {place: plain_option(option.text) for place, option in enumerate(options, 1)}
    quoted = set()
    for place, option in sorted(known.items(), key=lambda pair: -len(pair[1].full_text)):
        full_text, is_long = option.full_text, option.is_long
        if full_text and (plain == full_text or (is_long and full_text in plain)):
            plain = plain.replace(full_text, f"|⟦{place}⟧|") if is_long else f"⟦{place}⟧"
            quoted.add(place)
    for option in known.values():
        for sentence in option.sentences:
            plain = plain.replace(sentence, "|")
    return tidied(plain).strip("|"), frozenset(quoted)
