"""The embedded backbone: logistic regression on runs of words. It needs no weights and no network.

How texts are read and predicted is in ``portable/ngram.py``, which leaves with every exported scorer; here is how it
learns. What is learned of a form, a temperature and a weighting is in ``linear.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from scoring.backbones.folder import card_heads, read_card, write_card
from scoring.backbones.linear import (
    FeatureExtractor,
    LinearRecipe,
    fit_calibrated,
    list_pairs,
    predict_in_chunks,
)
from scoring.domain.backbone import FitProgress, Report, ignore_progress, scale_report
from scoring.domain.training_data import Example, Head, Prediction, check_examples
from scoring.inference import ngram as portable
from scoring.inference.ngram import LinearHead, NgramReading, Sparse, Vocabulary

KIND = "ngram"
READING = "words"
MIN_DOCUMENTS = 2
PREDICT_CHUNK = 4096


@dataclass(frozen=True)
class NgramFeatures:
    """The features of the portable predictor, of examples."""

    portable: portable.BlockFeatures
    reading: NgramReading

    def extract(self, examples: Sequence[Example]) -> Sparse:
        return self.portable.matrix(list_pairs(examples), self.reading)


def build_reading() -> NgramReading:
    """One that cleans each text once, however many folds read it; of a long text it keeps what any block reads."""
    reading = portable.READINGS[READING]

    @cache
    def clean(text: str) -> str:
        return portable.take_both_ends(reading.clean(text))

    return replace(reading, clean=clean)


def learn(
    examples: Sequence[Example], reading: NgramReading = portable.READINGS[READING]
) -> tuple[FeatureExtractor, Sparse]:
    """The vocabularies of the examples and, since they are counted anyway, the matrix of them."""
    from scipy import sparse

    text_pairs = list_pairs(examples)
    chunks = [text_pairs[i : i + portable.CHUNK] for i in range(0, len(text_pairs), portable.CHUNK)]
    texts = [portable.block_texts(reading, chunk) for chunk in chunks]
    vocabularies, matrices = [], []
    for block in reading.blocks:
        counted = sparse.vstack(
            [portable.count_runs(reading, block, chunk[block.name]) for chunk in texts], format="csr"
        )
        vocabularies.append(_build_vocabulary(counted))
        matrices.append(vocabularies[-1].weigh(counted[:, vocabularies[-1].buckets]))
        del counted  # as large as everything else together, and the next one is counted beside it
    features = portable.BlockFeatures(READING, tuple(vocabularies))
    return NgramFeatures(features, reading), portable.join_blocks(reading, matrices)


def _build_vocabulary(counted: Sparse) -> Vocabulary:
    """idf = ln((1 + documents) / (1 + documents with it)) + 1, as scikit-learn smooths it."""
    documents = np.bincount(counted.indices, minlength=counted.shape[1])
    buckets = np.flatnonzero(documents >= MIN_DOCUMENTS).astype(np.int32)
    idf = np.log((1 + counted.shape[0]) / (1 + documents[buckets])) + 1
    return Vocabulary(buckets, idf.astype(np.float32))


# Round numbers, not a search: on XSTest their neighbours differ by less than a point.
RECIPE = LinearRecipe(learn, regularisation=5.0)


@dataclass(frozen=True)
class FittedNgramScorer:
    """A fitted scorer of the embedded backbone. ``details`` say, by criterion, what was chosen and by which figures."""

    heads: tuple[Head, ...]
    predictor: portable.NgramScorer
    details: Mapping[str, Any] = field(default_factory=dict)
    backbone: str = KIND

    def predict(self, examples: Sequence[Example], *, report: Report = ignore_progress) -> list[Prediction]:
        return predict_in_chunks(self.predictor.probabilities, examples, PREDICT_CHUNK, report)

    def save(self, folder: Path) -> None:
        features = self.predictor.features
        write_card(
            folder,
            kind=KIND,
            backbone=self.backbone,
            heads=self.heads,
            reading=features.reading,
            learned={head.criterion: list(head.seen) for head in self.predictor.heads},
            details=self.details,
        )
        arrays = {**feature_arrays(features), **head_arrays(self.predictor.heads)}
        np.savez(folder / portable.WEIGHTS_FILE, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, folder: Path) -> FittedNgramScorer:
        card = read_card(folder)
        return cls(
            card_heads(card), portable.NgramScorer.load(folder), card.get("details", {}), card["backbone"]
        )


def feature_arrays(features: portable.BlockFeatures) -> dict[str, Any]:
    blocks = portable.READINGS[features.reading].blocks
    return {
        f"{block.name}.{name}": array
        for block, vocabulary in zip(blocks, features.vocabularies, strict=True)
        for name, array in (("buckets", vocabulary.buckets), ("idf", vocabulary.idf))
    }


def head_arrays(heads: Sequence[LinearHead]) -> dict[str, Any]:
    """Numbered in the order of the heads, as ``portable.saved_heads`` reads them."""
    return {
        f"head{i}.{name}": array
        for i, head in enumerate(heads)
        for name, array in (("weights", head.weights), ("bias", head.bias))
    }


@dataclass(frozen=True)
class NgramBackbone:
    """Seconds of work for thousands of responses: it has no checkpoints, an interrupted fit starts again."""

    name: str = KIND
    reading: NgramReading = field(default_factory=build_reading, repr=False, compare=False)

    def fit(
        self,
        examples: Sequence[Example],
        heads: Sequence[Head],
        *,
        seed: int = 0,
        report: Report = ignore_progress,
        checkpoints: Path | None = None,
    ) -> FittedNgramScorer:
        check_examples(examples, heads)
        report(FitProgress("read", 0.0))
        recipe = replace(RECIPE, learned=partial(learn, reading=self.reading))
        fit = fit_calibrated(
            recipe, examples, heads, seed=seed, report=scale_report(report, 0, 1, stage="learn")
        )
        assert isinstance(fit.features, NgramFeatures)
        return FittedNgramScorer(
            tuple(heads), portable.NgramScorer(fit.features.portable, fit.heads), fit.details
        )
