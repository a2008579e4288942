"""Texts to probabilities with the embedded scorer of Assay. This file needs numpy and scipy and nothing else.

    from ngram import NgramScorer
    NgramScorer.load("folder").probabilities([("the prompt", "the response")])

gives for each pair ``{criterion: {level: probability}}``. A response is read in blocks (its opening, as most refusals
are there, both its ends, the prompt); each block is a TF-IDF vector of runs of words, or of characters in scripts
without spaces; each criterion has one linear head over all blocks, whose probabilities are calibrated.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Hashes = npt.NDArray[np.uint64]
Sparse = Any
"""A scipy CSR matrix of float32; scipy is imported where it is used."""
Pair = tuple[str, str]
"""A prompt and a response."""
Form = Literal["multinomial", "cumulative"]

BUCKET_BITS = 20
CHUNK = 512
CARD, WEIGHTS_FILE = "scorer.json", "weights.npz"

_CONTRACTIONS = (
    ("’", "'"),
    ("won't", "will not"),
    ("shan't", "shall not"),
    ("can't", "cannot"),
    ("can not", "cannot"),
    ("n't", " not"),
    ("i'm", "i am"),
    ("'re ", " are "),
    ("'ve ", " have "),
    ("'ll ", " will "),
    ("'d ", " would "),
    ("let's", "let us"),
    *((f"{word}'s ", f"{word} is ") for word in ("it", "that", "there", "here", "what")),
)
"""English contractions and what they are short for: models differ in which they write, people do not care."""


_FULL_WIDTH = tuple(
    (form, unicodedata.normalize("NFKC", form)) for form in "，！？：；（）～％－．／＂＇…\u3000"
)
"""Common punctuation of Chinese, and what it is without its width."""


def normalise(text: str) -> str:
    """Without the differences of case, full-width forms and runs of space."""
    if text.isascii():  # which no form changes, and casefold as lower does
        return " ".join(text.lower().split())
    for form, plain in _FULL_WIDTH:  # most Chinese is in normal form without these, which is seen at once
        text = text.replace(form, plain)
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def to_plain(text: str) -> str:
    """Normalised, with contractions written out."""
    text = normalise(text)
    for short, long in _CONTRACTIONS:
        text = text.replace(short, long)
    return text


def take_opening(text: str) -> str:
    return text[:200]


def take_both_ends(text: str) -> str:
    """So that no response costs more than another."""
    return text if len(text) <= 900 else f"{text[:600]}\n{text[-300:]}"


@dataclass(frozen=True)
class NgramBlock:
    """One reading of a pair: which text and part of it, runs of what and how long, and its weight."""

    name: str
    source: Literal["prompt", "response"]
    part: Callable[[str], str]
    sizes: tuple[int, ...]
    weight: float = 1.0


@dataclass(frozen=True)
class NgramReading:
    """How texts are read. A saved scorer names its own, so that a later one changes nothing for it."""

    clean: Callable[[str], str]
    units: Callable[[Sequence[str]], tuple[Ints, Hashes]]
    blocks: tuple[NgramBlock, ...]


def _read_points(texts: Sequence[str]) -> tuple[Ints, Hashes]:
    """(document, code point) of every character."""
    document = np.repeat(np.arange(len(texts), dtype=np.int32), [len(text) for text in texts])
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.uint64)
    return document, points


# Scripts written without spaces (Thai to Khmer, Chinese, Japanese; Korean too, whose syllables carry meaning),
# punctuation, symbols: there each character is a word of its own.
_SINGLE_CHARACTER_WORDS = (
    (0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x5E), (0x60, 0x60), (0x7B, 0xBF), (0xE00, 0xEFF), (0x1000, 0x109F),
    (0x1780, 0x17FF), (0x2000, 0x2BFF), (0x2E80, 0xA4CF), (0xAC00, 0xDFFF), (0xF900, 0xFAFF), (0xFE30, 0xFFFF),
    (0x1F000, 0x1FAFF), (0x20000, 0x3FFFF),
)  # fmt: skip
_BASE = 0x9E3779B97F4A7C15
"""Odd, so that it has an inverse modulo 2**64."""


@cache
def _classify_points() -> npt.NDArray[np.uint8]:
    """By code point: 0 for what separates words, 1 for what makes them up, 2 for a word of one character."""
    kind = np.ones(0x110000, dtype=np.uint8)
    kind[:0x21] = 0
    for first, last in _SINGLE_CHARACTER_WORDS:
        kind[first : last + 1] = 2
    return kind


@cache
def _powers(base: int, bits: int) -> Hashes:
    """base ** (0, 1, .. 2**bits - 1), modulo 2**64."""
    powers = np.full(1 << bits, base, dtype=np.uint64)
    powers[0] = 1
    return np.cumprod(powers, dtype=np.uint64)


def _hash_words(texts: Sequence[str]) -> tuple[Ints, Hashes]:
    """(document, hash) of every word. The hash is a polynomial of the word's code points (Karp and Rabin 1987)."""
    document, points = _read_points([f"{text}\n" for text in texts])
    if not len(points):
        return document, points
    kind = _classify_points()[points]
    before = np.concatenate([np.zeros(1, np.uint8), kind[:-1]])
    starts = np.flatnonzero((kind == 2) | ((kind == 1) & (before != 1)))
    # A word ends before the first point that is not of class 1, or after itself where it is one character.
    breaks = np.flatnonzero(kind != 1)
    ends = np.where(kind[starts] == 2, starts + 1, breaks[np.searchsorted(breaks, starts)])
    bits = max(len(points).bit_length(), 16)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(points * _powers(_BASE, bits)[: len(points)])])
    inverse = _powers(pow(_BASE, -1, 1 << 64), bits)
    return document[starts], _mix((sums[ends] - sums[starts]) * inverse[starts])


WORDS = NgramReading(
    to_plain,
    _hash_words,
    (
        NgramBlock("opening", "response", take_opening, (1, 2, 3)),
        NgramBlock("response", "response", take_both_ends, (1, 2, 3)),
        NgramBlock("prompt", "prompt", take_both_ends, (1, 2), 0.5),
    ),
)
CHARACTERS = NgramReading(
    normalise,
    _read_points,
    (
        NgramBlock("opening", "response", take_opening, (2, 3, 4, 5)),
        NgramBlock("response", "response", take_both_ends, (2, 3, 4, 5)),
        NgramBlock("prompt", "prompt", take_both_ends, (2, 3, 4, 5), 0.5),
    ),
)
READINGS: dict[str, NgramReading] = {"characters": CHARACTERS, "words": WORDS}
"""``characters`` is that of the first version."""


def _mix(hashes: Hashes) -> Hashes:
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014), one round short; it wraps around by intent."""
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))


def hash_runs(document: Ints, units: Hashes, sizes: Sequence[int]) -> Iterator[tuple[Ints, Ints]]:
    """For each size, the (document, bucket) of every run of that many units within one document.

    A bucket is the top bits of a multiplicative hash of the units, which is the same on any machine.
    """
    hashes = np.zeros(len(units), dtype=np.uint64)
    for size in range(1, max(sizes) + 1):
        n = len(units) - size + 1
        if n <= 0:
            return
        hashes = _mix(hashes[:n] + units[size - 1 :] + np.uint64(size))
        if size in sizes:
            in_one_document = document[:n] == document[size - 1 :]
            top = hashes[in_one_document] >> np.uint64(64 - BUCKET_BITS)
            yield document[:n][in_one_document], top.astype(np.int32)


def count_runs(
    reading: NgramReading, block: NgramBlock, texts: Sequence[str], column: Ints | None = None
) -> Sparse:
    """How often each text has each bucket; with ``column``, only the buckets it maps to 0 or more."""
    from scipy import sparse

    width = 1 << BUCKET_BITS if column is None else int(column.max(initial=-1)) + 1
    document_buckets = list(hash_runs(*reading.units(texts), block.sizes))
    rows = np.concatenate([row for row, _ in document_buckets] or [np.zeros(0, np.int32)])
    buckets = np.concatenate([bucket for _, bucket in document_buckets] or [np.zeros(0, np.int32)])
    if column is not None:
        buckets = column[buckets]
        rows, buckets = rows[buckets >= 0], buckets[buckets >= 0]
    values = np.ones(len(rows), dtype=np.float32)
    return sparse.csr_matrix((values, (rows, buckets)), shape=(len(texts), width))


@dataclass(frozen=True)
class Vocabulary:
    """The buckets of one block that count, and their inverse document frequency."""

    buckets: Ints
    idf: Floats

    @property
    def column(self) -> Ints:
        """For each bucket its column, or -1."""
        column = np.full(1 << BUCKET_BITS, -1, dtype=np.int32)
        column[self.buckets] = np.arange(len(self.buckets), dtype=np.int32)
        return column

    def weigh(self, counted: Sparse) -> Sparse:
        """Rows of (1 + ln count) * idf, each of length 1 (or 0 if it has nothing of the vocabulary)."""
        counted.data = (1 + np.log(counted.data)) * self.idf[counted.indices]
        squares = type(counted)(
            (counted.data * counted.data, counted.indices, counted.indptr), shape=counted.shape
        )
        length = np.sqrt(np.asarray(squares.sum(axis=1))).ravel()
        length[length == 0] = 1
        counted.data /= np.repeat(length, np.diff(counted.indptr)).astype(np.float32)
        return counted


@dataclass(frozen=True)
class BlockFeatures:
    """The blocks' vocabularies, shared by every head."""

    reading: str
    vocabularies: tuple[Vocabulary, ...]

    def matrix(self, pairs: Sequence[Pair]) -> Sparse:
        """(pairs, features)"""
        reading = READINGS[self.reading]
        columns = [vocabulary.column for vocabulary in self.vocabularies]
        chunks = [
            join_blocks(reading, self._weigh_blocks(reading, pairs[i : i + CHUNK], columns))
            for i in range(0, max(len(pairs), 1), CHUNK)
        ]
        return _stack_rows(chunks)

    def _weigh_blocks(
        self, reading: NgramReading, pairs: Sequence[Pair], columns: Sequence[Ints]
    ) -> list[Sparse]:
        texts = block_texts(reading, pairs)
        return [
            vocabulary.weigh(count_runs(reading, block, texts[block.name], column))
            for block, vocabulary, column in zip(reading.blocks, self.vocabularies, columns, strict=True)
        ]


def block_texts(reading: NgramReading, pairs: Sequence[Pair]) -> dict[str, list[str]]:
    """What each block reads of each pair; a prompt that comes again is cleaned once."""
    prompts: dict[str, str] = {}
    for prompt, _response in pairs:
        if prompt not in prompts:
            prompts[prompt] = reading.clean(prompt)
    read = {
        "prompt": [prompts[prompt] for prompt, _response in pairs],
        "response": [reading.clean(response) for _prompt, response in pairs],
    }
    return {block.name: [block.part(text) for text in read[block.source]] for block in reading.blocks}


def join_blocks(reading: NgramReading, matrices: Sequence[Sparse]) -> Sparse:
    """The blocks' matrices, which are changed in place, as one, each at its weight."""
    from scipy import sparse

    for block, matrix in zip(reading.blocks, matrices, strict=True):
        matrix.data *= np.float32(block.weight)
    return sparse.hstack(matrices, format="csr", dtype=np.float32)


def _stack_rows(matrices: Sequence[Sparse]) -> Sparse:
    from scipy import sparse

    return sparse.vstack(matrices, format="csr") if len(matrices) > 1 else matrices[0]


def log_softmax(scores: Doubles) -> Doubles:
    raised = scores - scores.max(axis=1, keepdims=True)
    result: Doubles = raised - np.log(np.exp(raised).sum(axis=1, keepdims=True))
    return result


def calibrate(logs: Doubles, temperature: float, offsets: Sequence[float]) -> Doubles:
    """Log probabilities divided by the temperature, with the offset of each level added, normalised again."""
    scaled = logs / temperature
    return log_softmax(scaled + np.asarray(offsets) if len(offsets) else scaled)


@dataclass(frozen=True)
class LinearHead:
    """A linear layer over the levels it saw, and the temperature and the offsets that calibrate it.

    ``multinomial``: a score for each level, softmax. ``cumulative``: a score for each step of an ordered scale, the
    log odds of lying above it (Frank and Hall 2001); a level's probability is the difference of two such.
    """

    criterion: str
    values: tuple[float, ...]
    seen: tuple[int, ...]
    """Positions on the scale of the levels that were seen, in order."""
    weights: Floats
    """(features, levels seen), or (features, levels seen - 1)."""
    bias: Floats
    form: Form = "multinomial"
    temperature: float = 1.0
    offsets: tuple[float, ...] = ()
    """Added to the log probabilities of the levels seen, after the temperature; none in scorers of earlier versions."""

    def log_probabilities(self, matrix: Any) -> Doubles:
        """(rows, levels seen), calibrated."""
        scores = np.asarray(matrix @ self.weights + self.bias, dtype=np.float64)
        logs = cumulative_logs(scores) if self.form == "cumulative" else log_softmax(scores)
        return calibrate(logs, self.temperature, self.offsets)

    def probabilities(self, matrix: Any) -> Doubles:
        """(rows, levels of the scale): nothing for a level that nobody ever gave."""
        full = np.zeros((matrix.shape[0], len(self.values)))
        full[:, self.seen] = np.exp(self.log_probabilities(matrix))
        return full


def cumulative_logs(scores: Doubles) -> Doubles:
    """Log probabilities of K levels from K - 1 log odds; where the odds cross, the level between has almost none."""
    above = 1 / (1 + np.exp(-np.clip(scores, -40, 40)))
    edges = np.hstack([np.ones((len(above), 1)), above, np.zeros((len(above), 1))])
    shares = np.maximum(edges[:, :-1] - edges[:, 1:], 1e-6)
    result: Doubles = np.log(shares / shares.sum(axis=1, keepdims=True))
    return result


@dataclass(frozen=True)
class NgramScorer:
    """What was saved in a folder; a criterion without labels has no head and is never predicted."""

    features: BlockFeatures
    heads: tuple[LinearHead, ...]

    @classmethod
    def load(cls, folder: str | Path) -> NgramScorer:
        folder = Path(folder)
        card: Mapping[str, Any] = json.loads((folder / CARD).read_text(encoding="utf-8"))
        reading = str(card.get("reading", "characters"))
        with np.load(folder / WEIGHTS_FILE, allow_pickle=False) as arrays:
            vocabularies = tuple(
                Vocabulary(arrays[f"{block.name}.buckets"], arrays[f"{block.name}.idf"])
                for block in READINGS[reading].blocks
            )
            return cls(BlockFeatures(reading, vocabularies), read_heads(card, arrays))

    def probabilities(self, pairs: Sequence[Pair]) -> list[dict[str, dict[float, float]]]:
        """Pairs of the same texts are predicted once."""
        once = list(dict.fromkeys(pairs))
        place = {pair: i for i, pair in enumerate(once)}
        rows: list[dict[str, dict[float, float]]] = []
        for start in range(0, len(once), CHUNK):
            rows += list_distributions(self.heads, self.features.matrix(once[start : start + CHUNK]))
        return [rows[place[pair]] for pair in pairs]


class AnyHead(Protocol):
    """What predicts one criterion from a matrix of features."""

    @property
    def criterion(self) -> str: ...

    @property
    def values(self) -> tuple[float, ...]: ...

    def probabilities(self, matrix: Any) -> Doubles: ...


def list_distributions(heads: Sequence[AnyHead], matrix: Any) -> list[dict[str, dict[float, float]]]:
    """By row of the matrix and criterion, a probability for each level."""
    columns = {
        head.criterion: [
            dict(zip(head.values, row, strict=True)) for row in head.probabilities(matrix).tolist()
        ]
        for head in heads
    }
    return [{name: column[i] for name, column in columns.items()} for i in range(matrix.shape[0])]


def read_offsets(details: Mapping[str, Any], seen: Sequence[int]) -> tuple[float, ...]:
    """Of the levels that were seen, out of a card's offsets of all levels; none where the card has none."""
    offsets = details.get("offsets", ())
    return tuple(float(offsets[place]) for place in seen) if offsets else ()


def read_heads(card: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[LinearHead, ...]:
    """The linear heads of a card; their arrays are numbered in the order of the scales."""
    details = card.get("details", {}).get("criteria", {})
    learned = [head for head in card["heads"] if head["criterion"] in card["learned"]]
    return tuple(
        LinearHead(
            head["criterion"],
            tuple(head["values"]),
            tuple(card["learned"][head["criterion"]]),
            arrays[f"head{i}.weights"],
            arrays[f"head{i}.bias"],
            details.get(head["criterion"], {}).get("form", "multinomial"),
            details.get(head["criterion"], {}).get("temperature", 1.0),
            read_offsets(details.get(head["criterion"], {}), card["learned"][head["criterion"]]),
        )
        for i, head in enumerate(learned)
    )
