"""Predictions of responses by scorers that have not learned from them: by prompt, and with a model left out.

How much of a figure is the luck of the deal: the same evaluation with other folds and another seed.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from annotation.core.version import code_version
from scoring.domain.backbone import Learner, Report, ignore_progress, scale_report
from scoring.domain.evaluation.metrics import Metrics, measure
from scoring.domain.training_data import (
    DataSplit,
    Example,
    Head,
    Prediction,
    check_examples,
    level_counts,
    prediction_from_json,
    prediction_to_json,
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
    predictions: list[Prediction]
    folds: list[int]
    """The split, from 0, in which each example was predicted."""
    new_text: list[bool]
    """Whether what predicted it had learned from no response of the same normalised text."""

    def index_by_content(self, examples: Sequence[Example]) -> dict[str, tuple[int, Prediction]]:
        """Fold and prediction by content key. Only of folds by prompt, where the same text is in one fold."""
        by_key: dict[str, tuple[int, Prediction]] = {}
        for example, fold, prediction in zip(examples, self.folds, self.predictions, strict=True):
            by_key.setdefault(example.content_key, (fold, prediction))
        return by_key


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
    check_examples(examples, heads)
    predictions: list[Prediction] = [{} for _ in examples]
    folds = [0 for _ in examples]
    new_text = [False for _ in examples]
    rates: list[Prediction] = [{} for _ in examples]
    texts = [example.response_key for example in examples]
    for i, split in enumerate(splits):
        part = scale_report(report, i / len(splits), (i + 1) / len(splits), part=i + 1, parts=len(splits))
        folder = checkpoints / f"split-{i + 1}" if checkpoints else None
        split_predictions = predict_split(
            backbone, examples, heads, split, seed=seed, report=part, checkpoints=folder
        )
        learned = {texts[row] for row in split.train}
        learned_rates = compute_rates([examples[row] for row in split.train], heads)
        for row, prediction in zip(split.test, split_predictions, strict=True):
            predictions[row], folds[row], new_text[row] = prediction, i, texts[row] not in learned
            rates[row] = learned_rates
    metrics = measure(examples, predictions, heads, new_text=new_text, rates=rates, seed=seed)
    return Evaluation(metrics, predictions, folds, new_text)


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
) -> list[Prediction]:
    """Fit on one side, predict the other. What is done is kept, so that a killed job does not do it twice."""
    train, test = ([examples[i] for i in rows] for rows in (split.train, split.test))
    if not any(example.labels for example in train):
        return [{} for _ in test]
    key = compute_split_key(backbone, train, test, heads, seed) if checkpoints else ""
    cached = _load_predictions(checkpoints, key, heads)
    if cached is not None:
        return cached
    work = checkpoints / "fit" if checkpoints else None
    fitted = backbone.fit(train, heads, seed=seed, report=scale_report(report, 0, 0.9), checkpoints=work)
    predictions = fitted.predict(test, report=scale_report(report, 0.9, 1))
    _save_predictions(checkpoints, key, predictions)
    return predictions


def compute_split_key(
    backbone: Learner, train: Sequence[Example], test: Sequence[Example], heads: Sequence[Head], seed: int
) -> str:
    """The sha256 of all that a split's predictions follow from."""
    identity = {
        "backbone": repr(backbone),
        "seed": seed,
        "code": code_version(),
        "heads": [head.to_json() for head in heads],
        "train": [
            [
                example.content_key,
                example.prompt_key,
                example.model,
                example.split,
                sorted(example.labels.items()),
                *([prediction_to_json(dict(example.soft))] if example.soft else []),
            ]
            for example in train
        ],
        "test": [example.content_key for example in test],
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def _load_predictions(folder: Path | None, key: str, heads: Sequence[Head]) -> list[Prediction] | None:
    if folder is None or not (folder / "predictions.json").is_file():
        return None
    cached: Mapping[str, Any] = json.loads((folder / "predictions.json").read_text(encoding="utf-8"))
    return [prediction_from_json(row, heads) for row in cached["rows"]] if cached["key"] == key else None


def _save_predictions(folder: Path | None, key: str, predictions: Sequence[Prediction]) -> None:
    """Written beside and moved in place: a file that is there is whole."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    rows = [prediction_to_json(prediction) for prediction in predictions]
    part_file = folder / "predictions.json.part"
    part_file.write_text(json.dumps({"key": key, "rows": rows}), encoding="utf-8")
    part_file.replace(folder / "predictions.json")
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
