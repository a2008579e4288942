"""A frozen encoder under linear heads: any folder of Hugging Face, nothing of it learns. Imports torch: see below.

How texts become features and probabilities is in ``portable/embedding.py``, which leaves with every exported scorer.
torch is imported with that file, in the bodies of functions: this module can be read without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from annotation.core.errors import N_, AssayError
from scoring.backbones.choices import Rows
from scoring.backbones.folder import card_heads, read_card, write_card
from scoring.backbones.linear import (
    DenseRows,
    LinearRecipe,
    fit_calibrated,
    list_pairs,
    predict_in_chunks,
)
from scoring.backbones.ngram import head_arrays
from scoring.domain.backbone import FitProgress, Report, ignore_progress, scale_report
from scoring.domain.spec import Spec
from scoring.domain.tables import PredictionTable
from scoring.domain.training_data import Example, Head, Prediction, check_examples

if TYPE_CHECKING:
    from scoring.inference.embedding import EmbeddingScorer as Predictor
    from scoring.inference.embedding import Encoder

KIND = "embedding"
PREDICT_CHUNK = 1024


def load_encoder(name: str, remote_code: bool) -> Encoder:
    """Loaded once in a process, with what it has embedded: folds do not embed again; anew where its folder changed.
    It is exact, so that a training's weights do not tell what the process embedded before.
    A folder is read alone; only a name on the hub may use the network. Raises AssayError with the reason."""
    files = sorted(path for path in Path(name).rglob("*") if path.is_file()) if Path(name).is_dir() else []
    state = tuple((str(path), (stat := path.stat()).st_size, stat.st_mtime_ns) for path in files)
    return _load_once(name, remote_code, state)


@lru_cache(maxsize=2)
def _load_once(name: str, remote_code: bool, _state: tuple[tuple[str, int, int], ...]) -> Encoder:
    from transformers.utils.logging import disable_progress_bar

    from scoring.inference.embedding import Encoder

    disable_progress_bar()  # progress is told through a report
    try:
        encoder = Encoder.load(name, local=Path(name).is_dir(), remote_code=remote_code)
    except (OSError, ValueError, ImportError, KeyError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise AssayError(
            N_("The backbone {name} cannot be loaded: {reason}"), name=name, reason=reason
        ) from error
    encoder.exact = True
    return encoder


@dataclass(frozen=True)
class EmbeddingFeatures:
    """Of examples. Nothing is learned but the heads."""

    encoder: Encoder
    pairs: Sequence[tuple[str, str]]

    def learn(self, _rows: Rows) -> EmbeddingFeatures:
        return self

    @property
    def width(self) -> int:
        return int(self._embed([]).shape[1])

    def gather(self, rows: Rows) -> DenseRows:
        return DenseRows(self._embed([self.pairs[row] for row in rows]))

    def extract_further(self, examples: Sequence[Example]) -> Any:
        return self._embed(list_pairs(examples))

    def _embed(self, pairs: Sequence[tuple[str, str]]) -> Any:
        from scoring.inference.embedding import embed_pairs

        return embed_pairs(self.encoder, pairs)


def read(encoder: Encoder, examples: Sequence[Example]) -> EmbeddingFeatures:
    return EmbeddingFeatures(encoder, list_pairs(examples))


def recipe(spec: Spec) -> LinearRecipe:
    encoder = load_encoder(spec.encoder, spec.remote_code)
    return LinearRecipe(partial(read, encoder), regularisation=3.0)


@dataclass(frozen=True)
class FittedEmbeddingScorer:
    """A fitted frozen encoder. ``details`` say, by criterion, what was chosen and by which figures."""

    heads: tuple[Head, ...]
    predictor: Predictor
    backbone: str
    details: Mapping[str, Any] = field(default_factory=dict)
    remote_code: bool = False

    def predict(self, examples: Sequence[Example], *, report: Report = ignore_progress) -> PredictionTable:
        def predict(chunk: Sequence[Example]) -> list[Prediction]:
            return self.predictor.probabilities(list_pairs(chunk))

        return predict_in_chunks(predict, examples, self.heads, PREDICT_CHUNK, report)

    def save(self, folder: Path) -> None:
        """With the encoder, so that the folder stands alone and its hash covers all that predicts."""
        from scoring.inference.embedding import ENCODER, WEIGHTS_FILE

        write_card(
            folder,
            kind=KIND,
            backbone=self.backbone,
            heads=self.heads,
            learned={head.criterion: list(head.seen) for head in self.predictor.heads},
            remote_code=self.remote_code,
            details=self.details,
        )
        self.predictor.encoder.model.save_pretrained(folder / ENCODER)
        self.predictor.encoder.reader.tokenizer.save_pretrained(folder / ENCODER)
        np.savez(folder / WEIGHTS_FILE, allow_pickle=False, **head_arrays(self.predictor.heads))

    @classmethod
    def load(cls, folder: Path) -> FittedEmbeddingScorer:
        from scoring.inference.embedding import EmbeddingScorer as Predictor

        card = read_card(folder)
        predictor = Predictor.load(folder, remote_code=card["remote_code"])
        return cls(card_heads(card), predictor, card["backbone"], card["details"], card["remote_code"])


@dataclass(frozen=True)
class EmbeddingBackbone:
    """The encoder is embedded once, the heads take seconds: it has no checkpoints."""

    spec: Spec

    @property
    def name(self) -> str:
        return self.spec.title

    def fit(
        self,
        examples: Sequence[Example],
        heads: Sequence[Head],
        *,
        seed: int = 0,
        report: Report = ignore_progress,
        checkpoints: Path | None = None,
    ) -> FittedEmbeddingScorer:
        from scoring.inference.embedding import EmbeddingScorer as Predictor

        check_examples(examples, heads)
        report(FitProgress("read", 0.0))
        encoder = load_encoder(self.spec.encoder, self.spec.remote_code)
        _embed_all(encoder, examples, scale_report(report, 0, 0.7))
        fit = fit_calibrated(
            recipe(self.spec), examples, heads, seed=seed, report=scale_report(report, 0.7, 1, stage="learn")
        )
        predictor = Predictor(encoder, fit.heads)
        return FittedEmbeddingScorer(tuple(heads), predictor, self.name, fit.details, self.spec.remote_code)


def _embed_all(encoder: Encoder, examples: Sequence[Example], report: Report) -> None:
    """All at once: the longest together, and progress told of what takes the time."""
    from scoring.inference.embedding import embed_pairs

    embed_pairs(encoder, list_pairs(examples), lambda share: report(FitProgress("embed", share)))
