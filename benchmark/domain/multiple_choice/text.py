"""The text of an answer, so that neither case nor blanks nor the kind of a bracket says anything. Pure.

Marks the options in an answer: ⟪1⟫ and ⟪2⟫, ⟪0⟫ for one not offered; ⟦1⟧ where its own text stands. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from benchmark.domain.multiple_choice.answer import AnswerOption

_LONG, _LONG_ZH = 16, 8
"""So many characters are no chance: the least that is taken for an option's own words inside of other words."""
CJK = "\u3400-\u9fff"
_THINKS = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
_INITIAL = re.compile(r"\.[a-z](?!\w)")
_INITIALS = re.compile(r"(?<!\w)[a-z](?:\.[a-z](?!\w))+")
_GRADE = re.compile(r"(?<![a-z0-9])([a-z])[+]")
_CLOSES = re.compile(r"[)\]}】」』》>\"”“*_~]")
_LETTER_IN_BRACKETS = re.compile(r"(?<![a-z0-9])([a-z])[ ]*[)\]}】」』》>\"”“*_~]+")
_HAS_DASH = re.compile("[-–—]")
_DASH = re.compile(r"(?:(?<=\s)|^)[-–—]+(?=\s)|[—–]{2,}")
_BREAKS = str.maketrans(dict.fromkeys(".!:;,。、…\n\r\x0b\x0c\u2028\u2029", "|") | {"/": " or ", "?": "|?"})
_APOSTROPHES = str.maketrans("", "", "'’‘`´ʼ＇")
_DROPPED = re.compile(r"[^\w|?⟪⟫ ]+|_")
_DROPPED_OF_ASCII = str.maketrans(
    {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) in "|?")}
)
_BY_CJK = re.compile(rf"(?<=[{CJK}⟫⟪]) +(?=[{CJK}⟫⟪a-z0-9])|(?<=[a-z0-9]) +(?=[{CJK}])")
TURNS = (
    *("but", "however", "so", "therefore", "thus", "hence", "although", "though", "yet", "while", "whereas"),
    *("because", "since", "as it", "over", "rather than", "instead of", "due to", "given"),
)
TURNS_ZH = re.compile(r"(?=但是|但(?!是)|不过|然而|所以|因此|因为|由于|理由)")
_OPENS = re.compile(r"(^|\|\??) ?([a-z]) ⟫")
# Anchored: from the middle of a clause it would look to its end again and again.
_QUESTION_CLAUSE = re.compile(r"(?:^|(?<=[|?]))[^|]*\|\?")


def remove_thought(answer: str) -> str | None:
    """The text outside of ``<think>``; None of an answer that was cut off while it thought.

    Some templates open it in the prompt: what stands before an end without a beginning was thought as well.
    """
    spoken_parts: list[str] = []
    at, thinks = 0, False
    for mark in _THINKS.finditer(answer):
        if mark[1]:
            spoken_parts = spoken_parts if thinks else []
            at, thinks = mark.end(), False
        elif not thinks:
            spoken_parts.append(answer[at : mark.start()])
            thinks = True
    return None if thinks else " ".join([*spoken_parts, answer[at:]])


def normalize_text(text: str) -> str:
    """Words in lower case with one blank between them, and ``|`` where a clause ends; what asks is left out."""
    plain = text.replace("\\boxed", " ")
    plain = plain if plain.isascii() else unicodedata.normalize("NFKC", text)
    plain = plain.translate(_APOSTROPHES).lower()
    if _INITIAL.search(plain):
        plain = _INITIALS.sub(lambda m: m[0].replace(".", ""), plain)
    if "+" in plain:
        plain = _GRADE.sub(r"\1plus", plain)
    if _HAS_DASH.search(plain):
        plain = _DASH.sub("|", plain)
    if _CLOSES.search(plain):
        plain = _LETTER_IN_BRACKETS.sub(r" \1 ⟫ ", plain)
    plain = plain.translate(_BREAKS)
    plain = plain.translate(_DROPPED_OF_ASCII) if plain.isascii() else _DROPPED.sub(" ", plain)
    plain = " ".join(plain.split())
    if "⟫" in plain:
        # A letter in brackets that opens a clause stands for an option, whatever follows.
        plain = _OPENS.sub(r"\1\2|", plain).replace("⟫", "")
    if "?" in plain:
        plain = _QUESTION_CLAUSE.sub("|", plain).replace("?", " ")
    plain = " ".join(plain.split())
    if not plain.isascii():
        plain = _BY_CJK.sub("", plain)
    return tidy_clauses(plain).strip("| ")


def tidy_clauses(plain: str) -> str:
    """One ``|`` for several, and no blanks beside it."""
    plain = plain.replace(" |", "|").replace("| ", "|")
    while "||" in plain:
        plain = plain.replace("||", "|")
    return plain


@dataclass(frozen=True)
class _OptionText:
    """An option's text as it is looked for: the whole, and those of its sentences that are no chance."""

    full_text: str
    is_long: bool
    sentences: tuple[str, ...]


@lru_cache(maxsize=5_000)
def normalize_option(text: str) -> _OptionText:
    """Cached, because each answer to the same question needs it."""
    full_text = normalize_text(text)
    return _OptionText(
        full_text, _is_long(full_text), tuple(part for part in full_text.split("|") if _is_long(part))
    )


def _is_long(text: str) -> bool:
    return len(text) >= (_LONG_ZH if re.search(f"[{CJK}]", text) else _LONG)


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


def mark_options(plain: str, options: Sequence[AnswerOption]) -> str:
    """The text with its mentions of options marked."""
    places = {option.letter.lower(): place for place, option in enumerate(options, 1)}
    text = _mark_turns(plain)
    if "第" in text or "者" in text:
        text = _ORDINAL_ZH.sub(lambda m: f"⟪{_NUMERALS[m[1]] if m[1] else 1 if m[2] == '前' else 2}⟫", text)
    if any(word in text for word in _ORDINALS):
        text = _ORDINAL.sub(lambda m: f"⟪{_ORDINALS[m[1] or m[2] or m[3]]}⟫", text)
    if _HAS_NUMBER.search(text):
        text = _NUMBERED.sub(_mark_number, text)
    pieces, at = [], 0
    for match in _LETTERED.finditer(text):
        pieces += [_drop_noun(text[at : match.start()]), f"⟪{places.get(match[0][0], 0)}⟫"]
        at = match.end()
    return "".join((*pieces, text[at:]))


def _mark_number(match: re.Match[str]) -> str:
    is_word = not match[1] or not match.start() or not match.string[match.start() - 1].isalnum()
    return f"⟪{_NUMERALS[match[1] or match[2] or match[3]]}⟫" if is_word else match[0]


def _drop_noun(text: str) -> str:
    """What stands before a letter, without the noun that the letter names."""
    noun = next((noun for noun in _BEFORE_LETTER if text.endswith(noun)), "")
    begins = len(text) - len(noun)
    is_word = not noun.isascii() or not begins or not (text[begins - 1].isalnum() or text[begins - 1] == "_")
    return text[:begins] if noun and is_word else text


def _mark_turns(plain: str) -> str:
    """A clause also ends where the thought turns."""
    text = f"{plain} "
    for turn in TURNS:
        if f" {turn}" in text:
            text = text.replace(f" {turn} ", f"|{turn} ").replace(f" {turn}|", f"|{turn}|")
    text = text[:-1]
    return tidy_clauses(text if text.isascii() else TURNS_ZH.sub("|", text))


def remove_quotes(plain: str, options: Sequence[AnswerOption]) -> tuple[str, frozenset[int]]:
    """The text with what it quotes of the options taken out, and which of them it quotes in full.

    A quoted refusal is no refusal. Sentences of an option are taken out as well, and prove nothing.
    """
    known = {place: normalize_option(option.text) for place, option in enumerate(options, 1)}
    quoted = set()
    for place, option in sorted(known.items(), key=lambda pair: -len(pair[1].full_text)):
        full_text, is_long = option.full_text, option.is_long
        if full_text and (plain == full_text or (is_long and full_text in plain)):
            plain = plain.replace(full_text, f"|⟦{place}⟧|") if is_long else f"⟦{place}⟧"
            quoted.add(place)
    for option in known.values():
        for sentence in option.sentences:
            plain = plain.replace(sentence, "|")
    return tidy_clauses(plain).strip("|"), frozenset(quoted)
