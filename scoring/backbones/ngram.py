"""The embedded backbone: logistic regression on runs of words. It needs no weights and no network.

How texts are read and predicted is in ``portable/ngram.py``, which leaves with every exported scorer; here is how it
learns. What is learned of a form, a temperature and a weighting is in ``linear.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from scoring.backbones.choices import Rows
from scoring.backbones.folder import card_heads, read_card, write_card
from scoring.backbones.linear import LinearRecipe, fit_calibrated, list_pairs, predict_in_chunks
from scoring.backbones.run_counts import GatheredRuns, RunCounts, frequent_buckets, learn_vocabularies
from scoring.domain.backbone import FitProgress, Report, ignore_progress, scale_report
from scoring.domain.tables import PredictionTable
from scoring.domain.training_data import Example, Head, Prediction, check_examples
from scoring.inference import ngram as portable
from scoring.inference.ngram import Ints, LinearHead, Sparse

KIND = "ngram"
READING = "words"
PREDICT_CHUNK = 4096


@dataclass(frozen=True)
class NgramCorpus:
    """Examples whose texts were counted: ``places`` are their rows in the counts, block by block."""

    counts: RunCounts
    places: Sequence[Rows]

    def learn(self, rows: Rows) -> NgramFeatures:
        is_other = np.ones(len(self.places[0]), np.bool_)
        is_other[rows] = False
        rest = np.flatnonzero(is_other)
        if len(rest) < len(rows):  # then what the rest has is taken from what all have
            of_rest = self._count_documents(rest)
            documents = [
                every - left_out for every, left_out in zip(self._all_documents, of_rest, strict=True)
            ]
        else:
            documents = self._count_documents(rows)
        vocabularies = learn_vocabularies(documents, len(rows))
        return NgramFeatures(portable.BlockFeatures(READING, vocabularies), self.counts)

    @cached_property
    def _all_documents(self) -> list[Ints]:
        return self._count_documents(np.arange(len(self.places[0])))

    def _count_documents(self, rows: Rows) -> list[Ints]:
        return self.counts.count_documents([places[rows] for places in self.places])

    def gather(self, rows: Rows) -> NgramRows:
        """Of all runs that any part of the corpus can teach, those that these examples have: what is learned of a part
        has fewer weights."""
        buckets = [
            frequent_buckets(np.where(own > 0, every, 0))
            for own, every in zip(self._count_documents(rows), self._all_documents, strict=True)
        ]
        return NgramRows(self.counts.gather([places[rows] for places in self.places], buckets))


@dataclass(frozen=True)
class NgramRows:
    """Examples whose runs were gathered."""

    runs: GatheredRuns

    def weigh(self, features: NgramFeatures, places: Rows) -> Sparse:
        return self.runs.weigh(features.portable.vocabularies, places)

    def widen(self, features: NgramFeatures, head: LinearHead) -> LinearHead:
        columns, places = self.runs.match_columns(features.portable.vocabularies)
        weights = np.zeros((features.width, head.weights.shape[1]), np.float32)
        weights[places] = head.weights[columns]
        return replace(head, weights=weights)


@dataclass(frozen=True)
class NgramFeatures:
    """The features of the portable predictor, of texts that were counted."""

    portable: portable.BlockFeatures
    counts: RunCounts

    @property
    def width(self) -> int:
        return sum(len(vocabulary.buckets) for vocabulary in self.portable.vocabularies)

    def extract_further(self, examples: Sequence[Example]) -> Sparse:
        return self.counts.build_matrix(self.portable, self.counts.find_places(examples))


def read(counts: RunCounts, examples: Sequence[Example]) -> NgramCorpus:
    return NgramCorpus(counts, counts.find_places(examples))


def build_counts() -> RunCounts:
    return RunCounts(portable.READINGS[READING])


@dataclass(frozen=True)
class FittedNgramScorer:
    """A fitted scorer of the embedded backbone. ``details`` say, by criterion, what was chosen and by which figures."""

    heads: tuple[Head, ...]
    predictor: portable.NgramScorer
    details: Mapping[str, Any] = field(default_factory=dict)
    backbone: str = KIND
    features: NgramFeatures | None = field(default=None, repr=False, compare=False)
    """Of a scorer that was just fitted: texts that were counted for it are not counted again."""

    def predict(self, examples: Sequence[Example], *, report: Report = ignore_progress) -> PredictionTable:
        return predict_in_chunks(self._predict_chunk, examples, self.heads, PREDICT_CHUNK, report)

    def _predict_chunk(self, examples: Sequence[Example]) -> Sequence[Prediction]:
        if self.features is None:
            return self.predictor.probabilities(list_pairs(examples))
        matrix = self.features.extract_further(examples)
        table = PredictionTable(self.heads, len(examples))
        by_criterion = {head.criterion: head for head in self.heads}
        for head in self.predictor.heads:
            table.select(by_criterion[head.criterion])[:] = head.probabilities(matrix)
        return table

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
    counts: RunCounts = field(default_factory=build_counts, repr=False, compare=False)

    @property
    def recipe(self) -> LinearRecipe:
        """Round numbers, not a search: on XSTest their neighbours differ by less than a point."""
        return LinearRecipe(partial(read, self.counts), regularisation=5.0)

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
        fit = fit_calibrated(
            self.recipe, examples, heads, seed=seed, report=scale_report(report, 0, 1, stage="learn")
        )
        assert isinstance(fit.features, NgramFeatures)
        return FittedNgramScorer(
            tuple(heads),
            portable.NgramScorer(fit.features.portable, fit.heads),
            fit.details,
            features=fit.features,
        )
