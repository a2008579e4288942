"""Boosted trees on patterns: phrases of refusal, the shape of a response, its relation to the prompt.

A few dozen numbers that mean the same for every model and language that ``rules.py`` knows: a member of the ensemble
that errs elsewhere than runs of words do. How they are read and predicted is in ``portable/patterns.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scoring.backbones.choices import Rows
from scoring.backbones.folder import card_heads, read_card, write_card
from scoring.backbones.linear import DenseRows, HeadTask, fit_calibrated, list_pairs, predict_in_chunks
from scoring.backbones.ngram import PREDICT_CHUNK
from scoring.domain.backbone import FitProgress, Report, ignore_progress, scale_report
from scoring.domain.refusals import PHRASES
from scoring.domain.tables import PredictionTable
from scoring.domain.training_data import Example, Head, Prediction, check_examples
from scoring.inference import patterns as portable
from scoring.inference.ngram import Floats, Form
from scoring.inference.patterns import TREE_ARRAYS, Patterns, TreeHead

KIND = "patterns"


@dataclass(frozen=True)
class PatternFeatures:
    """Of examples, read once. Nothing is learned but the trees."""

    patterns: Patterns
    matrix: Floats

    def learn(self, _rows: Rows) -> PatternFeatures:
        return self

    @property
    def width(self) -> int:
        return int(self.matrix.shape[1])

    def gather(self, rows: Rows) -> DenseRows:
        return DenseRows(self.matrix[rows])

    def extract_further(self, examples: Sequence[Example]) -> Floats:
        return self.patterns.matrix(list_pairs(examples))


@dataclass(frozen=True)
class TreeRecipe:
    """Stochastic gradient boosting (Friedman 2002): each tree sees half of the rows and few of the numbers.

    A rare level weighs by the square root of its rarity: trees of a few rows each follow single ones at full weight.
    """

    patterns: Patterns = field(default_factory=lambda: Patterns(PHRASES))
    balance: float = 0.5
    forms: tuple[Form, ...] = ("multinomial",)
    trees: int = 200
    depth: int = 4
    rate: float = 0.06

    def read(self, examples: Sequence[Example]) -> PatternFeatures:
        return PatternFeatures(self.patterns, self.patterns.matrix(list_pairs(examples)))

    def fit(self, task: HeadTask, form: Form, seed: int) -> TreeHead:
        if task.is_plain:
            return _pack_trees(task, [], 0.0)
        from sklearn.ensemble import GradientBoostingClassifier

        model = GradientBoostingClassifier(
            n_estimators=self.trees,
            learning_rate=self.rate,
            max_depth=self.depth,
            subsample=0.5,
            max_features="sqrt",
            min_samples_leaf=5,
            random_state=seed,
        )
        model.fit(task.matrix, task.targets, sample_weight=task.importance)
        return _pack_trees(task, model.estimators_.ravel().tolist(), self.rate)


def _pack_trees(task: HeadTask, trees: Sequence[Any], rate: float) -> TreeHead:
    """scikit-learn's trees as arrays; of two levels it grows trees for the second alone."""
    weighted = np.bincount(task.targets, weights=task.importance, minlength=len(task.seen))
    base = np.log(weighted / weighted.sum()) if trees else np.log(task.shares)
    grown = [tree.tree_ for tree in trees]
    feature = _pad_rows([np.where(tree.children_left < 0, -1, tree.feature) for tree in grown], -1, np.int32)
    threshold = _pad_rows([tree.threshold for tree in grown], 0, np.float64)
    left, right = (
        _pad_rows([getattr(tree, f"children_{side}") for tree in grown], 0, np.int32)
        for side in ("left", "right")
    )
    value = _pad_rows([rate * tree.value[:, 0, 0] for tree in grown], 0, np.float64)
    if len(task.seen) == 2 and grown:
        empty = np.full_like(feature, -1), threshold * 0, left * 0, right * 0, value * 0
        both = [
            np.stack([no, yes], axis=1).reshape(-1, yes.shape[1])
            for no, yes in zip(empty, (feature, threshold, left, right, value), strict=True)
        ]
        feature, threshold, left, right, value = both
    return TreeHead(
        task.head.criterion, task.head.values, task.seen, base, feature, threshold, left, right, value
    )


def _pad_rows(rows: Sequence[npt.NDArray[Any]], filler: int, kind: type) -> npt.NDArray[Any]:
    """Rows of different lengths as one array."""
    table: npt.NDArray[Any] = np.full((len(rows), max(map(len, rows), default=0)), filler, dtype=kind)
    for i, row in enumerate(rows):
        table[i, : len(row)] = row
    return table


@dataclass(frozen=True)
class FittedPatternsScorer:
    """Fitted trees. ``details`` say, by criterion, what was chosen and by which figures."""

    heads: tuple[Head, ...]
    predictor: portable.PatternsScorer
    details: Mapping[str, Any] = field(default_factory=dict)
    backbone: str = KIND

    def predict(self, examples: Sequence[Example], *, report: Report = ignore_progress) -> PredictionTable:
        def predict(chunk: Sequence[Example]) -> list[Prediction]:
            return self.predictor.probabilities(list_pairs(chunk))

        return predict_in_chunks(predict, examples, self.heads, PREDICT_CHUNK, report)

    def save(self, folder: Path) -> None:
        write_card(
            folder,
            kind=KIND,
            backbone=self.backbone,
            heads=self.heads,
            patterns=[[family, list(phrases)] for family, phrases in self.predictor.patterns.phrases.items()],
            learned={head.criterion: list(head.seen) for head in self.predictor.heads},
            details=self.details,
        )
        arrays = {
            f"head{i}.{part}": getattr(head, part)
            for i, head in enumerate(self.predictor.heads)
            for part in TREE_ARRAYS
        }
        np.savez(folder / portable.WEIGHTS_FILE, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, folder: Path) -> FittedPatternsScorer:
        card = read_card(folder)
        return cls(card_heads(card), portable.PatternsScorer.load(folder), card["details"])


@dataclass(frozen=True)
class PatternsBackbone:
    """Seconds of work for thousands of responses: it has no checkpoints."""

    name: str = KIND

    def fit(
        self,
        examples: Sequence[Example],
        heads: Sequence[Head],
        *,
        seed: int = 0,
        report: Report = ignore_progress,
        checkpoints: Path | None = None,
    ) -> FittedPatternsScorer:
        check_examples(examples, heads)
        report(FitProgress("read", 0.0))
        fit = fit_calibrated(
            TreeRecipe(), examples, heads, seed=seed, report=scale_report(report, 0, 1, stage="learn")
        )
        assert isinstance(fit.features, PatternFeatures)
        predictor = portable.PatternsScorer(fit.features.patterns, fit.heads)
        return FittedPatternsScorer(tuple(heads), predictor, fit.details)
