"""Texts to probabilities from patterns: phrases of refusal, shape, relation to the prompt, under boosted trees.
Needs numpy, and ``ngram.py`` beside itself.

    from patterns import PatternsScorer
    PatternsScorer.load("folder").probabilities([("the prompt", "the response")])
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING or __package__:
    from .ngram import (
        Doubles,
        Floats,
        Ints,
        Pair,
        calibrate,
        list_distributions,
        log_softmax,
        read_offsets,
        take_both_ends,
        to_plain,
    )
else:  # laid beside the weights, where there is no package
    from ngram import (
        Doubles,
        Floats,
        Ints,
        Pair,
        calibrate,
        list_distributions,
        log_softmax,
        read_offsets,
        take_both_ends,
        to_plain,
    )

CARD, WEIGHTS_FILE = "scorer.json", "weights.npz"
CHUNK = 512

Phrases = Mapping[str, Sequence[str]]
"""By family, what is looked for in a text that ``plain`` has read."""
HELP = "help"
"""The family of what a refusal declines to do: it counts only where it follows a phrase of ``decline``."""
DECLINE = "decline"

_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*|\n")
_ITEM = re.compile(r"(?:^|\s)(?:\d+[.)]|[-*•]) ")
_PIECE = re.compile(r"[\u3400-\u9fff]+|[^\W\d_]{4,}")
_MARKS = str.maketrans(dict.fromkeys("\"'“”‘(（[【*_#\n", " "))
_OF_FAMILY, _OF_DECLINE, _OF_SHAPE = 6, 3, 12
_REFUSAL_FAMILIES = ("apology", DECLINE, "norm")
_NEAR_CHARACTERS = 60

Pieces = tuple[list[str], list[str]]
"""The words of a prompt that say something, or in Chinese its pairs of characters; and its runs of three."""


@dataclass(frozen=True)
class Patterns:
    """A few dozen numbers of a pair: the phrases of each family, the response's shape, its relation to the prompt."""

    phrases: Phrases

    @property
    def width(self) -> int:
        return _OF_FAMILY * (len(self.phrases) - (HELP in self.phrases)) + _OF_DECLINE + _OF_SHAPE

    def matrix(self, pairs: Sequence[Pair]) -> Floats:
        """(pairs, width)"""
        prompts: dict[str, Pieces] = {}
        for prompt, _response in pairs:
            if prompt not in prompts:
                prompts[prompt] = _split_prompt(to_plain(prompt))
        families = {
            name: [_mark_word_start(p) for p in phrases]
            for name, phrases in self.phrases.items()
            if name != HELP
        }
        rows = [self._row(families, prompts[prompt], to_plain(response)) for prompt, response in pairs]
        return np.array(rows, dtype=np.float32).reshape(len(pairs), self.width)

    def _row(self, families: Phrases, pieces: Pieces, text: str) -> list[float]:
        window = " " + take_both_ends(text).translate(_MARKS)
        sentences = [sentence for sentence in _SENTENCE.split(window) if sentence.strip()]
        places = (
            window[: len(sentences[0])] if sentences else "",
            " ".join(sentences[1:3]),
            window[:200],
            window[-200:],
        )
        row: list[float] = []
        hits: dict[str, list[str]] = {}
        for family, phrases in families.items():
            present = hits[family] = [phrase for phrase in phrases if phrase in window]
            row += [float(any(phrase in place for phrase in present)) for place in places]
            row += [
                float(np.log1p(len(present))),
                100 / (100 + min(map(window.find, present))) if present else 0.0,
            ]
        refusal_phrases = [phrase for family in _REFUSAL_FAMILIES for phrase in hits.get(family, [])]
        refusing = sum(any(phrase in f" {sentence}" for phrase in refusal_phrases) for sentence in sentences)
        declined = self._describe_declined(hits.get(DECLINE, []), window)
        return [
            *row,
            *declined,
            refusing / max(len(sentences), 1),
            *_describe_shape(text, window, sentences, pieces),
        ]

    def _describe_declined(self, decline_phrases: Sequence[str], window: str) -> list[float]:
        """Whether, where first and how often what is declined is named right after the declining."""
        after = (
            (at := window.find(phrase), window[at : at + _NEAR_CHARACTERS]) for phrase in decline_phrases
        )
        places = [at for at, near in after if any(word in near for word in self.phrases.get(HELP, ()))]
        return [float(bool(places)), float(bool(places) and min(places) < 100), float(np.log1p(len(places)))]


def _mark_word_start(phrase: str) -> str:
    """A phrase in letters with spaces between the words counts where a word begins: "sure" is not in "ensure"."""
    return f" {phrase}" if phrase[0].isascii() else phrase


def _split_prompt(prompt: str) -> Pieces:
    words: list[str] = []
    for piece in _PIECE.findall(prompt):
        pairs = [piece[i : i + 2] for i in range(len(piece) - 1)]
        words += pairs if "\u3400" <= piece[0] <= "\u9fff" else [piece]
    return list(dict.fromkeys(words)), list(dict.fromkeys(prompt[i : i + 3] for i in range(len(prompt) - 2)))


def _describe_shape(text: str, window: str, sentences: Sequence[str], pieces: Pieces) -> list[float]:
    words, threes = pieces
    first = sentences[0] if sentences else ""
    return [
        float(np.log1p(len(text))),
        float(np.log1p(len(sentences))),
        float(np.log1p(len(_ITEM.findall(window)))),
        float("```" in text),
        float(np.log1p(window.count("?") + window.count("？"))),
        float(window.rstrip().endswith(("?", "？"))),
        sum(word in window for word in words) / max(len(words), 1),
        sum(word in first for word in words) / max(len(words), 1),
        sum(three in window for three in threes) / max(len(threes), 1),
        sum(word in first for word in words) / (1 + first.count(" ")),
        float(np.log1p(len(threes))),
    ]


@dataclass(frozen=True)
class TreeHead:
    """Boosted trees over the levels that were seen, and the temperature and the offsets that calibrate them.

    A level's score is the log of its share plus what its trees say (Friedman 2001). Node arrays are (trees, nodes),
    trees of the levels in turn; ``feature`` is -1 at a leaf.
    """

    criterion: str
    values: tuple[float, ...]
    seen: tuple[int, ...]
    base: Doubles
    """(levels seen,)"""
    feature: Ints
    threshold: Doubles
    left: Ints
    right: Ints
    value: Doubles
    temperature: float = 1.0
    offsets: tuple[float, ...] = ()

    def log_probabilities(self, matrix: Floats) -> Doubles:
        """(rows, levels seen), calibrated."""
        scores = np.tile(self.base, (len(matrix), 1))
        levels = len(self.base)
        for level in range(levels):
            if len(self.feature):
                scores[:, level] += self._sum_leaves(matrix, slice(level, None, levels))
        return calibrate(log_softmax(scores), self.temperature, self.offsets)

    def _sum_leaves(self, matrix: Floats, trees: slice) -> Doubles:
        """What these trees say together of each row: all rows go down all trees a step at a time."""
        feature, threshold = self.feature[trees], self.threshold[trees]
        left, right = self.left[trees], self.right[trees]
        tree = np.arange(len(feature))[None, :]
        row = np.arange(len(matrix))[:, None]
        node = np.zeros((len(matrix), len(feature)), dtype=np.int32)
        while (feature_index := feature[tree, node]).max(initial=-1) >= 0:
            goes_left = matrix[row, np.maximum(feature_index, 0)] <= threshold[tree, node]
            below = np.where(goes_left, left[tree, node], right[tree, node])
            node = np.where(feature_index >= 0, below, node)
        result: Doubles = self.value[trees][tree, node].sum(axis=1)
        return result

    def probabilities(self, matrix: Floats) -> Doubles:
        """(rows, levels of the scale): nothing for a level that nobody ever gave."""
        full = np.zeros((len(matrix), len(self.values)))
        full[:, self.seen] = np.exp(self.log_probabilities(matrix))
        return full


TREE_ARRAYS = ("base", "feature", "threshold", "left", "right", "value")


@dataclass(frozen=True)
class PatternsScorer:
    """What was saved in a folder; a criterion without labels has no head and is never predicted."""

    patterns: Patterns
    heads: tuple[TreeHead, ...]

    @classmethod
    def load(cls, folder: str | Path) -> PatternsScorer:
        folder = Path(folder)
        card: Mapping[str, Any] = json.loads((folder / CARD).read_text(encoding="utf-8"))
        learned = [head for head in card["heads"] if head["criterion"] in card["learned"]]
        with np.load(folder / WEIGHTS_FILE, allow_pickle=False) as arrays:
            heads = tuple(_read_head(card, head, i, arrays) for i, head in enumerate(learned))
        return cls(Patterns(dict(card["patterns"])), heads)

    def probabilities(self, pairs: Sequence[Pair]) -> list[dict[str, dict[float, float]]]:
        """Pairs of the same texts are predicted once."""
        once = list(dict.fromkeys(pairs))
        place = {pair: i for i, pair in enumerate(once)}
        rows: list[dict[str, dict[float, float]]] = []
        for start in range(0, len(once), CHUNK):
            rows += list_distributions(self.heads, self.patterns.matrix(once[start : start + CHUNK]))
        return [rows[place[pair]] for pair in pairs]


def _read_head(
    card: Mapping[str, Any], head: Mapping[str, Any], i: int, arrays: Mapping[str, npt.NDArray[Any]]
) -> TreeHead:
    name = head["criterion"]
    details = card.get("details", {}).get("criteria", {}).get(name, {})
    head_arrays = {part: arrays[f"head{i}.{part}"] for part in TREE_ARRAYS}
    temperature = float(details.get("temperature", 1.0))
    return TreeHead(
        name,
        tuple(head["values"]),
        tuple(card["learned"][name]),
        temperature=temperature,
        offsets=read_offsets(details, card["learned"][name]),
        **head_arrays,
    )
