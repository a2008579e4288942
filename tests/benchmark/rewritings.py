"""Prompts rewritten by a seed: characters of a text replaced by others, in one stretch or scattered over it."""

from __future__ import annotations

import csv
import json
import random
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

WORD = re.compile(r"\w+")


def read_flames(shared: Path) -> list[str]:
    """The 1,000 Chinese prompts, NFC."""
    lines = (shared / "flames" / "Flames_1k_Chinese.jsonl").read_text("utf-8").splitlines()
    return [unicodedata.normalize("NFC", json.loads(line)["prompt"]) for line in lines if line]


def read_xstest(shared: Path) -> list[str]:
    """The 450 English prompts, NFC; safe ones have an unsafe counterpart of nearly the same words."""
    with (shared / "xstest" / "xstest_prompts.csv").open(encoding="utf-8", newline="") as lines:
        return [unicodedata.normalize("NFC", row["prompt"]) for row in csv.DictReader(lines)]


def replace_stretch(
    text: str, share: float, rng: random.Random, alphabet: Sequence[str], *, is_full: bool = False
) -> str:
    """One stretch, of any length up to ``share`` of the characters (at least one); of that length if ``is_full``."""
    longest = max(1, int(len(text) * share))
    length = longest if is_full else rng.randint(1, longest)
    start = rng.randrange(len(text) - length + 1)
    return _replace(text, range(start, start + length), rng, alphabet)


def replace_scattered(text: str, share: float, rng: random.Random, alphabet: Sequence[str]) -> str:
    """``share`` of the characters (at least one), anywhere."""
    count = max(1, round(len(text) * share))
    return _replace(text, rng.sample(range(len(text)), count), rng, alphabet)


def replace_words(text: str, share: float, rng: random.Random, words: Sequence[str]) -> str:
    """``share`` of the words (at least one), anywhere, of a script with spaces."""
    places = [match.span() for match in WORD.finditer(text)]
    for start, end in sorted(rng.sample(places, max(1, round(len(places) * share))), reverse=True):
        text = text[:start] + rng.choice(words) + text[end:]
    return text


def _replace(text: str, places: Iterable[int], rng: random.Random, alphabet: Sequence[str]) -> str:
    """Each place gets a character other than its own."""
    characters = list(text)
    for place in places:
        characters[place] = rng.choice([c for c in rng.choices(alphabet, k=20) if c != text[place]])
    return "".join(characters)
