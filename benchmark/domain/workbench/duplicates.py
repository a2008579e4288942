"""Prompts that repeat another prompt: exactly, with a part replaced, or with single characters replaced. Pure.

A prompt is compared in three ways, each with the text in its own form:

- exactly: the digest of the text without case, width, blanks and invisible characters (``compute_exact_digest``);
- by the Jaccard similarity of the sets of character 5-grams of the NFC text (``measure_jaccard``), which sees a part
  that was replaced or moved;
- by the edit similarity of the letters and digits alone, 1 - Levenshtein distance / length of the longer
  (``measure_edit_similarity``), which sees characters or words replaced all over the text.

Candidates are fetched from a table of bands, (text, band) with an index on the band: those that share a number of
``compute_bands`` with the prompt. They are rows, so that every process sees the same ones. The similarities are then
computed of the texts themselves, so a band shared by chance warns of nothing.

A text is (n,) code points. Similarities are from 0 to 1. How the thresholds were chosen, and what is missed:
docs/decisions/near-duplicates.md.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from rapidfuzz.distance import Levenshtein

from annotation.domain.texts.differences import MAX_EXACT, Places, split_words

if TYPE_CHECKING:
    from datasketch import MinHash

SHINGLE_CHARACTERS = 5
LETTER_SHINGLE_CHARACTERS = 3
BAND_ROWS = 2
SHINGLE_BANDS = 16
LETTER_BANDS = 20
"""Of two texts whose sets of grams have the Jaccard similarity s, at least one band is equal with the probability
1 - (1 - s ** rows) ** bands: of the 5-grams .94 at .4, .99 at .5 and .999 at .6; of the letters' 3-grams .85 at .3 and
.97 at .4. Two rows, because unrelated texts share hardly any 5-gram, and few 3-grams."""
SEED = 1
SCHEME: Literal["affine32"] = "affine32"
"""Of datasketch, named because another release may have another default: bands are stored."""
MAX_CANDIDATES = 300
"""Those that share the most bands are compared, and no more: a check stays short where all prompts share a template."""

Level = Literal["", "warn", "block"]
Key = TypeVar("Key")

# Characters that are not seen, beside the category Cf: the grapheme joiner, fillers and variation selectors.
_INVISIBLE = re.compile(r"[\u034f\u115f\u1160\u3164\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_NO_LETTERS = re.compile(r"[\W_]+")
# Of scripts that have no blanks between words.
_UNSPACED = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_PUNCTUATION = str.maketrans(
    {
        **dict.fromkeys("。｡．", "."),
        **dict.fromkeys("、､", ","),
        **dict.fromkeys("“”„‟«»「」『』〝〞", '"'),
        **dict.fromkeys("‘’‚‛‹›`´", "'"),
        **dict.fromkeys("‐‑‒–—―−─", "-"),
        **dict.fromkeys("【〔〖", "["),
        **dict.fromkeys("】〕〗", "]"),
        **dict.fromkeys("《〈", "<"),
        **dict.fromkeys("》〉", ">"),
        **dict.fromkeys("～〜", "~"),
    }
)


@dataclass(frozen=True)
class DuplicateThresholds:
    """From which similarity on a prompt is warned of or blocked; a campaign sets its own.

    Lower ones than .4 (``jaccard``) and .7 (``edit``) find less than they say: the bands fetch too few candidates.
    """

    warn_jaccard: float = 0.5
    warn_edit: float = 0.7
    block_jaccard: float = 0.8
    block_edit: float = 0.9

    def grade(self, *, is_exact: bool, jaccard: float, edit: float) -> Level:
        if is_exact or jaccard >= self.block_jaccard or edit >= self.block_edit:
            return "block"
        return "warn" if jaccard >= self.warn_jaccard or edit >= self.warn_edit else ""


DEFAULT_THRESHOLDS = DuplicateThresholds()


@dataclass(frozen=True)
class Similarity(Generic[Key]):
    """How a prompt resembles the text under ``key``; ``jaccard`` and ``edit`` are what the module's text says."""

    key: Key
    is_exact: bool
    jaccard: float
    edit: float
    level: Level


def normalize(text: str) -> str:
    """``text`` in the form in which two prompts are the same.

    Without case and width (NFKC, casefold), with ASCII punctuation in place of Chinese and typographic marks, without
    invisible characters (zero-width and bidirectional ones), and with single blanks between words of scripts that have
    spaces and none elsewhere. What it returns is its own normal form.
    """
    while (plain := _normalize_once(text)) != text:
        text = plain
    return text


def _normalize_once(text: str) -> str:
    plain = _fold(text)
    if not plain.isascii():
        plain = _INVISIBLE.sub("", plain.translate(_PUNCTUATION))
        plain = "".join(character for character in plain if unicodedata.category(character) != "Cf")
    return _join_words(plain.split())


def _join_words(parts: Sequence[str]) -> str:
    joined = "".join(parts[:1])
    for part in parts[1:]:
        joined += (" " if _is_spaced(joined[-1]) and _is_spaced(part[0]) else "") + part
    return joined


def _is_spaced(character: str) -> bool:
    return _is_letter(character) and not _UNSPACED.match(character)


def _is_letter(character: str) -> bool:
    """Or a digit, or a mark on a letter."""
    return character.isalnum() or unicodedata.category(character)[0] == "M"


def _fold(text: str) -> str:
    if text.isascii():
        return text.casefold()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def compute_exact_digest(text: str) -> str:
    """The sha256 of the normal form: 64 hexadecimal digits."""
    return hashlib.sha256(normalize(text).encode()).hexdigest()


def extract_letters(text: str) -> str:
    """The letters, marks and digits of ``text`` without case and width; of a text that has none, its normal form."""
    letters = _NO_LETTERS.sub(_extract_marks, _fold(text))
    if not letters.isascii():  # what stood between a letter and its mark may be gone
        letters = unicodedata.normalize("NFC", _INVISIBLE.sub("", letters))
    return letters or normalize(text)


def _extract_marks(match: re.Match[str]) -> str:
    return "".join(character for character in match[0] if unicodedata.category(character)[0] == "M")


def list_shingles(text: str) -> frozenset[str]:
    """The character 5-grams of the NFC text; of a text of fewer characters, that text."""
    return _list_grams(unicodedata.normalize("NFC", text), SHINGLE_CHARACTERS)


def _list_grams(text: str, size: int) -> frozenset[str]:
    return frozenset([text[start : start + size] for start in range(max(1, len(text) - size + 1))])


def measure_jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    """The share of the elements of either set that both have; 1 of two empty sets."""
    shared = len(first & second)
    either = len(first) + len(second) - shared
    return shared / either if either else 1.0


def measure_edit_similarity(first: str, second: str) -> float:
    """1 - Levenshtein distance / length of the longer, of the letters of the two texts; 1 of two empty texts."""
    return Levenshtein.normalized_similarity(extract_letters(first), extract_letters(second))


def compute_bands(text: str) -> list[int]:
    """The numbers (36,) by which a table finds candidates; each a signed integer of 64 bits with the band's place in
    it, so that equal numbers are of the same band.

    16 of the 5-grams and 20 of the letters' 3-grams. They follow from the text alone, in every process, and are stored:
    a change here needs a migration that computes them anew.
    """
    families = (
        (list_shingles(text), SHINGLE_BANDS),
        (_list_grams(extract_letters(text), LETTER_SHINGLE_CHARACTERS), LETTER_BANDS),
    )
    return [
        _hash_band(family, place, rows)
        for family, (grams, bands) in enumerate(families)
        for place, rows in enumerate(_cut_bands(grams, bands))
    ]


def _cut_bands(grams: Iterable[str], bands: int) -> Iterator[bytes]:
    sketch = _make_sketch(bands * BAND_ROWS).copy()
    sketch.update_batch([gram.encode() for gram in grams])
    signature = sketch.hashvalues.astype("<u4").reshape(bands, BAND_ROWS)
    return (row.tobytes() for row in signature)


@cache
def _make_sketch(permutations: int) -> MinHash:
    """Nothing is added to it: drawing the permutations takes longer than a copy."""
    from datasketch import MinHash  # it imports scipy.integrate: half of the time in which a process starts

    return MinHash(num_perm=permutations, seed=SEED, scheme=SCHEME)


def _hash_band(family: int, place: int, rows: bytes) -> int:
    digest = hashlib.blake2b(bytes((family, place)) + rows, digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def find_similar(
    text: str,
    candidates: Iterable[tuple[Key, str]],
    thresholds: DuplicateThresholds = DEFAULT_THRESHOLDS,
) -> list[Similarity[Key]]:
    """The candidates, (key, text) each, that ``text`` is warned of or blocked for, the most similar first.

    Exact ones come first, then what blocks, then by the larger of the two similarities; ties as they came.
    """
    exact, letters, shingles = normalize(text), extract_letters(text), list_shingles(text)
    similarities = []
    for key, other in candidates:
        other_letters = extract_letters(other)
        shared = measure_jaccard(shingles, list_shingles(other))
        # Below the cutoff it is 0, and computed faster.
        edit = Levenshtein.normalized_similarity(letters, other_letters, score_cutoff=thresholds.warn_edit)
        is_exact = letters == other_letters and exact == normalize(other)
        if level := thresholds.grade(is_exact=is_exact, jaccard=shared, edit=edit):
            edit = edit or Levenshtein.normalized_similarity(letters, other_letters)
            similarities.append(Similarity(key, is_exact, shared, edit, level))
    return sorted(similarities, key=_rank, reverse=True)


def _rank(similarity: Similarity[Key]) -> tuple[bool, bool, float]:
    return similarity.is_exact, similarity.level == "block", max(similarity.jaccard, similarity.edit)


def mark_shared(text: str, other: str) -> Places:
    """The runs of ``other``, (start, end) in code points, that ``text`` has in the same order: whole words of scripts
    with spaces, characters of those without. Case and width do not count; a run of punctuation alone is none.
    """
    places = split_words(other)
    tokens = [
        [normalize(source[start:end]) for start, end in runs]
        for source, runs in ((text, split_words(text)), (other, places))
    ]
    is_long = len(tokens[0]) * len(tokens[1]) > MAX_EXACT  # then words that occur often are no anchors
    matcher = SequenceMatcher(None, tokens[0], tokens[1], autojunk=is_long)
    runs = [
        (places[block.b][0], places[block.b + block.size - 1][1])
        for block in matcher.get_matching_blocks()
        if block.size
    ]
    return [(start, end) for start, end in runs if any(map(str.isalnum, other[start:end]))]
