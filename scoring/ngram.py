"""The embedded backbone: logistic regression on character n-grams. It needs no weights and no network.

A response is read three times: its opening on its own (most refusals are there), the response as a whole,
and the prompt. Each reading is a block of TF-IDF features; each criterion has one regression over them all.
n-grams of characters serve every language, with or without spaces between the words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scoring.dataset import (
    Distribution,
    Example,
    Head,
    Prediction,
    Value,
    check_examples,
    head_state,
    level_counts,
    normalise,
)
from scoring.interface import Progress, Report, silent
from scoring.saved import card_heads, read_card, write_card

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Hashes = npt.NDArray[np.uint64]
Sparse = Any
"""A scipy CSR matrix of float32; scipy is imported where it is used."""

SIZES = (2, 3, 4, 5)
BUCKET_BITS = 20
OPENING = 200
WINDOW_HEAD, WINDOW_TAIL = 600, 300
MIN_DOCUMENTS = 2
CHUNK = 1024

# Round numbers, not a search: on XSTest their neighbours differ by less than a point.
REGULARISATION = 5.0
PROMPT_WEIGHT = 0.5

KIND = "char-ngram"
WEIGHTS_FILE = "weights.npz"


def _opening(text: str) -> str:
    return text[:OPENING]


def _window(text: str) -> str:
    """Both ends of a long text, so that no response costs more than another."""
    if len(text) <= WINDOW_HEAD + WINDOW_TAIL:
        return text
    return f"{text[:WINDOW_HEAD]}\n{text[-WINDOW_TAIL:]}"


@dataclass(frozen=True)
class Block:
    """One reading of an example, and how much it weighs beside the others."""

    name: str
    of: Literal["prompt", "response"]
    part: Callable[[str], str]
    weight: float = 1.0


BLOCKS = (
    Block("opening", "response", _opening),
    Block("response", "response", _window),
    Block("prompt", "prompt", _window, PROMPT_WEIGHT),
)


def _buckets(texts: Sequence[str]) -> Iterator[tuple[Ints, Ints]]:
    """For each size, the (document, bucket) of every n-gram within one document.

    A bucket is the top bits of a multiplicative hash of the code points, which is the same on any machine.
    """
    lengths = [len(text) for text in texts]
    document = np.repeat(np.arange(len(texts), dtype=np.int32), lengths)
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.uint64)
    hashes = np.zeros(len(points), dtype=np.uint64)
    for size in range(1, max(SIZES) + 1):
        n = len(points) - size + 1
        if n <= 0:
            return
        hashes = _mix(hashes[:n] + points[size - 1 :] + np.uint64(size))
        if size in SIZES:
            whole = document[:n] == document[size - 1 :]
            top = hashes[whole] >> np.uint64(64 - BUCKET_BITS)
            yield document[:n][whole], top.astype(np.int32)


def _mix(hashes: Hashes) -> Hashes:
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014), one round short; it wraps around by intent."""
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))


def _counts(texts: Sequence[str], column: Ints | None = None) -> Sparse:
    """How often each document has each bucket; with ``column``, only the buckets it maps to 0 or more."""
    from scipy import sparse

    width = 1 << BUCKET_BITS if column is None else int(column.max(initial=-1)) + 1
    chunks = [_chunk_counts(texts[i : i + CHUNK], column, width) for i in range(0, len(texts), CHUNK)]
    return (
        sparse.vstack(chunks, format="csr") if chunks else sparse.csr_matrix(np.zeros((0, width), np.float32))
    )


def _chunk_counts(texts: Sequence[str], column: Ints | None, width: int) -> Sparse:
    from scipy import sparse

    pairs = list(_buckets(texts))
    rows = np.concatenate([row for row, _ in pairs] or [np.zeros(0, np.int32)])
    buckets = np.concatenate([bucket for _, bucket in pairs] or [np.zeros(0, np.int32)])
    if column is not None:
        buckets = column[buckets]
        rows, buckets = rows[buckets >= 0], buckets[buckets >= 0]
    ones = np.ones(len(rows), dtype=np.float32)
    return sparse.csr_matrix((ones, (rows, buckets)), shape=(len(texts), width))


@dataclass(frozen=True)
class Vocabulary:
    """The buckets that enough documents of the training data have, and their inverse document frequency."""

    buckets: Ints
    idf: Floats

    @classmethod
    def of(cls, counts: Sparse) -> Vocabulary:
        """idf = ln((1 + documents) / (1 + documents with it)) + 1, as scikit-learn smooths it."""
        documents = np.bincount(counts.indices, minlength=counts.shape[1])
        buckets = np.flatnonzero(documents >= MIN_DOCUMENTS).astype(np.int32)
        idf = np.log((1 + counts.shape[0]) / (1 + documents[buckets])) + 1
        return cls(buckets, idf.astype(np.float32))

    @property
    def column(self) -> Ints:
        """For each bucket its column, or -1."""
        column = np.full(1 << BUCKET_BITS, -1, dtype=np.int32)
        column[self.buckets] = np.arange(len(self.buckets), dtype=np.int32)
        return column

    def weigh(self, counts: Sparse) -> Sparse:
        """Rows of (1 + ln count) * idf, each of length 1 (or 0 if it has nothing of the vocabulary)."""
        counts.data = (1 + np.log(counts.data)) * self.idf[counts.indices]
        length = np.sqrt(np.asarray(counts.multiply(counts).sum(axis=1))).ravel()
        length[length == 0] = 1
        counts.data /= np.repeat(length, np.diff(counts.indptr)).astype(np.float32)
        return counts


@dataclass(frozen=True)
class Features:
    """The blocks' vocabularies, learned once from all examples and shared by every head."""

    vocabularies: tuple[Vocabulary, ...]

    @classmethod
    def learn(cls, examples: Sequence[Example]) -> tuple[Features, Sparse]:
        """The features and, since they are counted anyway, the matrix of these examples."""
        vocabularies, matrices = [], []
        for texts in _texts(examples):
            counts = _counts(texts)
            vocabulary = Vocabulary.of(counts)
            vocabularies.append(vocabulary)
            matrices.append(vocabulary.weigh(counts[:, vocabulary.buckets]))
        return cls(tuple(vocabularies)), _beside(matrices)

    def matrix(self, examples: Sequence[Example]) -> Sparse:
        pairs = zip(self.vocabularies, _texts(examples), strict=True)
        return _beside([v.weigh(_counts(texts, v.column)) for v, texts in pairs])


def _texts(examples: Sequence[Example]) -> list[list[str]]:
    """The texts of each block."""
    read = {
        "prompt": [normalise(example.prompt) for example in examples],
        "response": [normalise(example.response) for example in examples],
    }
    return [[block.part(text) for text in read[block.of]] for block in BLOCKS]


def _beside(matrices: Sequence[Sparse]) -> Sparse:
    from scipy import sparse

    weighted = [block.weight * matrix for block, matrix in zip(BLOCKS, matrices, strict=True)]
    return sparse.hstack(weighted, format="csr", dtype=np.float32)


@dataclass(frozen=True)
class LinearHead:
    """Multinomial logistic regression over the levels it saw."""

    head: Head
    seen: tuple[int, ...]
    """Positions on the scale, one for each column of the weights."""
    weights: Floats
    """(features, levels seen)"""
    bias: Floats

    def distributions(self, matrix: Sparse) -> list[Distribution]:
        full = np.zeros((matrix.shape[0], len(self.head.values)))
        full[:, self.seen] = _softmax(np.asarray(matrix @ self.weights + self.bias, dtype=np.float64))
        return [dict(zip(self.head.values, row, strict=True)) for row in full.tolist()]


def _softmax(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities: npt.NDArray[np.float64] = raised / raised.sum(axis=1, keepdims=True)
    return probabilities


def _fit_head(head: Head, examples: Sequence[Example], matrix: Sparse, seed: int) -> LinearHead | None:
    counts = level_counts(examples, head)
    state = head_state(counts)
    if state == "empty":
        return None
    if state == "constant" or not matrix.shape[1]:
        return _shares_alone(head, counts, matrix.shape[1])
    rows = [i for i, example in enumerate(examples) if head.criterion in example.labels]
    targets = [head.position(examples[i].labels[head.criterion]) for i in rows]
    return _regress(head, matrix[rows], targets, seed)


def _shares_alone(head: Head, counts: Mapping[Value, int], features: int) -> LinearHead:
    """Where nothing tells the responses apart, or nothing has to: how often each level was given."""
    seen = tuple(i for i, value in enumerate(head.values) if counts[value])
    bias = np.log(np.array([counts[head.values[i]] for i in seen], dtype=np.float32))
    return LinearHead(head, seen, np.zeros((features, len(seen)), np.float32), bias)


def _regress(head: Head, matrix: Sparse, targets: Sequence[int], seed: int) -> LinearHead:
    """Levels weigh the same however rare they are: a rare one is what a board most needs to see."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(
        C=REGULARISATION, class_weight="balanced", max_iter=1000, tol=1e-3, random_state=seed
    )
    model.fit(matrix, np.asarray(targets))
    weights: Floats = np.asarray(model.coef_, np.float32)
    bias: Floats = np.asarray(model.intercept_, np.float32)
    if len(model.classes_) == 2:  # scikit-learn keeps one row, for the second class
        weights = np.asarray(np.vstack([-weights, weights]) / 2, np.float32)
        bias = np.asarray(np.concatenate([-bias, bias]) / 2, np.float32)
    return LinearHead(head, tuple(model.classes_.tolist()), np.ascontiguousarray(weights.T), bias)


@dataclass(frozen=True)
class NgramScorer:
    """A fitted scorer of the embedded backbone."""

    heads: tuple[Head, ...]
    features: Features
    linear: tuple[LinearHead, ...]
    """Of the heads that had any label."""
    backbone: str = KIND

    def predict(self, examples: Sequence[Example], *, report: Report = silent) -> list[Prediction]:
        predictions: list[Prediction] = []
        for start in range(0, len(examples), CHUNK):
            predictions += self._predict(examples[start : start + CHUNK])
            report(Progress("predict", len(predictions) / len(examples)))
        return predictions

    def _predict(self, examples: Sequence[Example]) -> list[Prediction]:
        matrix = self.features.matrix(examples)
        columns = {linear.head.criterion: linear.distributions(matrix) for linear in self.linear}
        return [{criterion: rows[i] for criterion, rows in columns.items()} for i in range(len(examples))]

    def save(self, folder: Path) -> None:
        write_card(
            folder,
            kind=KIND,
            backbone=self.backbone,
            heads=self.heads,
            learned={linear.head.criterion: list(linear.seen) for linear in self.linear},
        )
        np.savez(folder / WEIGHTS_FILE, allow_pickle=False, **self._arrays())

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        arrays: dict[str, npt.NDArray[Any]] = {}
        for block, vocabulary in zip(BLOCKS, self.features.vocabularies, strict=True):
            arrays[f"{block.name}.buckets"] = vocabulary.buckets
            arrays[f"{block.name}.idf"] = vocabulary.idf
        for i, linear in enumerate(self.linear):
            arrays[f"head{i}.weights"] = linear.weights
            arrays[f"head{i}.bias"] = linear.bias
        return arrays

    @classmethod
    def load(cls, folder: Path) -> NgramScorer:
        card = read_card(folder)
        heads = card_heads(card)
        with np.load(folder / WEIGHTS_FILE, allow_pickle=False) as arrays:
            vocabularies = tuple(
                Vocabulary(arrays[f"{block.name}.buckets"], arrays[f"{block.name}.idf"]) for block in BLOCKS
            )
            learned = [head for head in heads if head.criterion in card["learned"]]
            linear = tuple(
                LinearHead(
                    head,
                    tuple(card["learned"][head.criterion]),
                    arrays[f"head{i}.weights"],
                    arrays[f"head{i}.bias"],
                )
                for i, head in enumerate(learned)
            )
        return cls(heads, Features(vocabularies), linear)


@dataclass(frozen=True)
class NgramBackbone:
    """Seconds of work for thousands of responses: it has no checkpoints, an interrupted fit starts again."""

    name: str = KIND

    def fit(
        self,
        examples: Sequence[Example],
        heads: Sequence[Head],
        *,
        seed: int = 0,
        report: Report = silent,
        checkpoints: Path | None = None,
    ) -> NgramScorer:
        check_examples(examples, heads)
        report(Progress("read", 0.0))
        features, matrix = Features.learn(examples)
        report(Progress("learn", 0.3))
        linear = []
        for i, head in enumerate(heads):
            linear.append(_fit_head(head, examples, matrix, seed))
            report(Progress("learn", 0.3 + 0.7 * (i + 1) / len(heads)))
        return NgramScorer(tuple(heads), features, tuple(fitted for fitted in linear if fitted is not None))
