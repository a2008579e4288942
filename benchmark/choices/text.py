"""The text of an answer, so that neither case nor blanks nor the kind of a bracket says anything. Pure."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

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
_ASKED = re.compile(r"(?:^|(?<=[|?]))[^|]*\|\?")


def without_thought(answer: str) -> str | None:
    """What is said outside of ``<think>``; None of an answer that was cut off while it thought.

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


def plain_text(text: str) -> str:
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
        plain = _ASKED.sub("|", plain).replace("?", " ")
    plain = " ".join(plain.split())
    if not plain.isascii():
        plain = _BY_CJK.sub("", plain)
    return tidied(plain).strip("| ")


def tidied(plain: str) -> str:
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
def plain_option(text: str) -> _OptionText:
    """Asked for with each answer to the same question."""
    full_text = plain_text(text)
    return _OptionText(
        full_text, _is_long(full_text), tuple(part for part in full_text.split("|") if _is_long(part))
    )


def _is_long(text: str) -> bool:
    return len(text) >= (_LONG_ZH if re.search(f"[{CJK}]", text) else _LONG)
