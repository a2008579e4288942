"""Predictions of responses by scorers that have not learned from them: by prompt, and with a model left out.

How much of a figure is the luck of the deal: the same evaluation with other folds and another seed.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from annotation.core.version import code_version
from scoring.domain.backbone import Learner, Report, ignore_progress, scale_report
from scoring.domain.evaluation.metrics import Metrics, measure
from scoring.domain.tables import PredictionTable
from scoring.domain.training_data import (
    DataSplit,
    Example,
    Head,
    Prediction,
    check_examples,
    level_counts,
    prompt_groups,
    splits_by_model,
    splits_by_prompt,
)

TEST = "test"
"""The split of ``annotation/domain/releases/splits.py`` that nothing learns from which is kept."""


@dataclass(frozen=True)
class Evaluation:
    """Predictions of each example by a scorer that has not learned from it, and the figures made of them."""

    metrics: Metrics
    predictions: PredictionTable
    folds: list[int]
    """The split, from 0, in which each example was predicted."""
    new_text: list[bool]
    """Whether what predicted it had learned from no response of the same normalised text."""

    def list_contents(self, examples: Sequence[Example]) -> Iterator[tuple[str, tuple[int, Prediction]]]:
        """Fold and prediction by content key, in the order of the keys. Only of folds by prompt, where the same text is
        in one fold."""
        first: dict[str, int] = {}
        for row, example in enumerate(examples):
            first.setdefault(example.content_key, row)
        rows = sorted(first.items())
        predictions = self.predictions.take([row for _key, row in rows])
        for (key, row), predicted in zip(rows, predictions, strict=True):
            yield key, (self.folds[row], predicted)


def evaluate_grouped(
    backbone: Learner,
    examples: Sequence[Example],
    heads: Sequence[Head],
    *,
    k: int = 5,
    seed: int = 0,
    report: Report = ignore_progress,
    checkpoints: Path | None = None,
) -> Evaluation:
    """Folds by prompt: none is both learned from and predicted. Predictions are pooled, then measured."""
    splits = splits_by_prompt(examples, k=k, seed=seed)
    report = scale_report(report, 0, 1, stage="grouped")
    return evaluate_splits(
        backbone, examples, heads, splits, seed=seed, report=report, checkpoints=checkpoints
    )


def evaluate_leave_one_model_out(
    backbone: Learner,
    examples: Sequence[Example],
    heads: Sequence[Head],
    *,
    seed: int = 0,
    report: Report = ignore_progress,
    checkpoints: Path | None = None,
) -> Evaluation:
    """Each model is predicted from the others: what the scorer is worth on a model that nobody labelled."""
    splits = splits_by_model(examples)
    report = scale_report(report, 0, 1, stage="leave-one-model-out")
    return evaluate_splits(
        backbone, examples, heads, splits, seed=seed, report=report, checkpoints=checkpoints
    )


def split_off_test(examples: Sequence[Example]) -> tuple[list[int], list[int]]:
    """The rows that a scorer which is kept may learn from, and those of the test split that it is tested on.

    No response to a prompt of the test split is learned from, nor to a prompt of the same text in another dataset.
    Where fewer than two prompts, or no label, would be left to learn from, all rows are learned and none is held out.
    """
    groups = prompt_groups(examples)
    tested = [i for i, example in enumerate(examples) if example.split == TEST]
    tested_groups = {groups[i] for i in tested}
    learned = [i for i, group in enumerate(groups) if group not in tested_groups]
    if len({groups[i] for i in learned if examples[i].labels}) < 2:
        return list(range(len(examples))), []
    return learned, tested


def evaluate_splits(
    backbone: Learner,
    examples: Sequence[Example],
    heads: Sequence[Head],
    splits: Sequence[DataSplit],
    *,
    seed: int = 0,
    report: Report = ignore_progress,
    checkpoints: Path | None = None,
) -> Evaluation:
    """Any splits in which each example is predicted at most once."""
    predicted = predict_splits(
        backbone, examples, heads, splits, seed=seed, report=report, checkpoints=checkpoints
    )
    metrics = measure(
        examples, predicted.predictions, heads, new_text=predicted.new_text, rates=predicted.rates, seed=seed
    )
    return Evaluation(metrics, predicted.predictions, predicted.folds, predicted.new_text)


@dataclass(frozen=True)
class PredictedSplits:
    """What came of splits, as ``Evaluation`` says it. ``rates`` are how often each level was learned by what predicted
    an example."""

    predictions: PredictionTable
    rates: PredictionTable
    folds: list[int]
    new_text: list[bool]


def predict_splits(
    backbone: Learner,
    examples: Sequence[Example],
    heads: Sequence[Head],
    splits: Sequence[DataSplit],
    *,
    seed: int = 0,
    report: Report = ignore_progress,
    checkpoints: Path | None = None,
) -> PredictedSplits:
    check_examples(examples, heads)
    predictions, rates = PredictionTable(heads, len(examples)), PredictionTable(heads, len(examples))
    folds = [0 for _ in examples]
    new_text = [False for _ in examples]
    texts = [example.response_key for example in examples]
    for i, split in enumerate(splits):
        part = scale_report(report, i / len(splits), (i + 1) / len(splits), part=i + 1, parts=len(splits))
        folder = checkpoints / f"split-{i + 1}" if checkpoints else None
        split_predictions = predict_split(
            backbone, examples, heads, split, seed=seed, report=part, checkpoints=folder
        )
        predictions.put(split.test, split_predictions)
        rates.put_all(split.test, compute_rates([examples[row] for row in split.train], heads))
        learned = {texts[row] for row in split.train}
        for row in split.test:
            folds[row], new_text[row] = i, texts[row] not in learned
    return PredictedSplits(predictions, rates, folds, new_text)


def compute_rates(examples: Sequence[Example], heads: Sequence[Head]) -> Prediction:
    """How often each level was given: what a scorer that knows no text can say. Without a label there is none."""
    counts = {head.criterion: level_counts(examples, head) for head in heads}
    return {
        criterion: {value: n / sum(levels.values()) for value, n in levels.items()}
        for criterion, levels in counts.items()
        if any(levels.values())
    }


def predict_split(
    backbone: Learner,
    examples: Sequence[Example],
    heads: Sequence[Head],
    split: DataSplit,
    *,
    seed: int,
    report: Report,
    checkpoints: Path | None,
) -> PredictionTable:
    """Fit on one side, predict the other. What is done is kept, so that a killed job does not do it twice."""
    train, test = ([examples[i] for i in rows] for rows in (split.train, split.test))
    if not any(example.labels for example in train):
        return PredictionTable(heads, len(test))
    key = compute_split_key(backbone, train, test, heads, seed) if checkpoints else ""
    cached = _load_predictions(checkpoints, key, heads, len(test))
    if cached is not None:
        return cached
    work = checkpoints / "fit" if checkpoints else None
    fitted = backbone.fit(train, heads, seed=seed, report=scale_report(report, 0, 0.9), checkpoints=work)
    predictions = PredictionTable.collect(fitted.predict(test, report=scale_report(report, 0.9, 1)), heads)
    _save_predictions(checkpoints, key, predictions)
    return predictions


def compute_split_key(
    backbone: Learner, train: Sequence[Example], test: Sequence[Example], heads: Sequence[Head], seed: int
) -> str:
    """The sha256 of all that a split's predictions follow from, an example after another: as one text they would take
    hundreds of megabytes."""
    identity = [repr(backbone), seed, code_version(), [head.to_json() for head in heads], len(train)]
    digest = hashlib.sha256(json.dumps(identity).encode())
    for example in train:
        known = (
            example.content_key,
            example.prompt_key,
            example.model,
            example.split,
            sorted(example.labels.items()),
            example.soft,
        )
        digest.update(repr(known).encode("utf-8", "surrogatepass"))
    for example in test:
        digest.update(example.content_key.encode())
    return digest.hexdigest()


PREDICTIONS = "predictions.npz"


def _load_predictions(
    folder: Path | None, key: str, heads: Sequence[Head], size: int
) -> PredictionTable | None:
    if folder is None or not (folder / PREDICTIONS).is_file():
        return None
    with np.load(folder / PREDICTIONS, allow_pickle=False) as arrays:
        if arrays["key"].item() != key:
            return None
        table = PredictionTable(heads, size)
        for place, head in enumerate(heads):
            table.select(head)[:] = arrays[f"head{place}"]
    return table


def _save_predictions(folder: Path | None, key: str, predictions: PredictionTable) -> None:
    """Written beside and moved in place: a file that is there is whole."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    by_head = {f"head{place}": predictions.select(head) for place, head in enumerate(predictions.heads)}
    part_file = folder / f"{PREDICTIONS}.part"
    with part_file.open("wb") as file:
        np.savez(file, allow_pickle=False, key=np.array(key), **by_head)
    part_file.replace(folder / PREDICTIONS)
    shutil.rmtree(folder / "fit", ignore_errors=True)


SEED_METRICS = ("accuracy", "within_one", "macro_f1", "calibration_error", "log_loss")


def compare_seeds(measured: Mapping[int, Metrics]) -> dict[str, Any]:
    """``{"seeds": [{"seed", "n", "accuracy", ..}], "spread": {"accuracy": {"mean", "sd", "low", "high"}, ..}}``.

    ``low`` and ``high`` are the least and the largest; ``sd`` is the sample's standard deviation, null of one seed.
    """
    rows = [
        {"seed": seed, "n": metrics["n"], **{name: _value(metrics.get(name)) for name in SEED_METRICS}}
        for seed, metrics in measured.items()
    ]
    return {"seeds": rows, "spread": {name: _spread([row[name] for row in rows]) for name in SEED_METRICS}}


def _value(figure: Any) -> float | None:
    value: float | None = figure["value"] if isinstance(figure, Mapping) else figure
    return value


def _spread(values: Sequence[float | None]) -> dict[str, float | None]:
    known = [value for value in values if value is not None]
    if not known:
        return {"mean": None, "sd": None, "low": None, "high": None}
    return {
        "mean": float(np.mean(known)),
        "sd": float(np.std(known, ddof=1)) if len(known) > 1 else None,
        "low": min(known),
        "high": max(known),
    }
