"""How good a scorer is: what is measured, and the predictions of responses it has not seen.

Pure: numpy alone. An undefined figure is None. What is measured of accuracy and macro-F1 is a statistic,
``{"value", "low", "high"}``: a 95% percentile bootstrap over groups of prompts, since the responses to one
prompt are not independent of each other.
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
import numpy.typing as npt

from scoring.dataset import (
    Example,
    Head,
    Prediction,
    Split,
    check_examples,
    level_name,
    prediction_from_json,
    prediction_to_json,
    prompt_groups,
    splits_by_model,
    splits_by_prompt,
)
from scoring.interface import Backbone, Report, silent, within

Array = npt.NDArray[np.float64]
Metrics = dict[str, Any]

RESAMPLES = 1000
CALIBRATION_BINS = 10


@dataclass(frozen=True)
class Outcomes:
    """What came of one head: an entry for each response that has a label and a prediction of it."""

    head: Head
    row: npt.NDArray[np.int64]
    truth: npt.NDArray[np.int64]
    predicted: npt.NDArray[np.int64]
    confidence: Array

    def confusion(self, group: npt.NDArray[np.int64], groups: int, keep: npt.NDArray[np.bool_]) -> Array:
        """(groups, truth, predicted): the confusion counts of each group, of the kept rows."""
        levels = len(self.head.values)
        table = np.zeros((groups, levels, levels))
        kept = keep[self.row]
        np.add.at(table, (group[self.row][kept], self.truth[kept], self.predicted[kept]), 1)
        return table


def outcomes(examples: Sequence[Example], predictions: Sequence[Prediction], head: Head) -> Outcomes:
    found = []
    for row, (example, prediction) in enumerate(zip(examples, predictions, strict=True)):
        value, distribution = example.labels.get(head.criterion), prediction.get(head.criterion)
        if value is not None and distribution is not None:
            likely = head.most_likely(distribution)
            found.append((row, head.position(value), head.position(likely), distribution[likely]))
    columns = np.array(found, dtype=np.float64).reshape(-1, 4).T
    row_, truth, predicted = columns[:3].astype(np.int64)
    return Outcomes(head, row_, truth, predicted, columns[3])


def measure(
    examples: Sequence[Example],
    predictions: Sequence[Prediction],
    heads: Sequence[Head],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Metrics:
    """Every figure of predictions against labels: pooled, by criterion and by model, each with its n."""
    names = prompt_groups(examples)
    order = {name: i for i, name in enumerate(sorted(set(names)))}
    group = np.array([order[name] for name in names], dtype=np.int64)
    weights = bootstrap_weights(len(order), resamples=resamples, seed=seed)
    found = [outcomes(examples, predictions, head) for head in heads]

    def tables(keep: npt.NDArray[np.bool_]) -> list[Array]:
        return [each.confusion(group, len(order), keep) for each in found]

    models = np.array([example.model for example in examples], dtype=object)
    everything = tables(np.ones(len(examples), dtype=np.bool_))
    return {
        **summary(everything, weights),
        "calibration_error": expected_calibration_error(found),
        "by_criterion": {
            each.head.criterion: criterion_metrics(each, table, weights)
            for each, table in zip(found, everything, strict=True)
        },
        "by_model": {name: summary(tables(models == name), weights) for name in sorted(set(models))},
    }


def bootstrap_weights(groups: int, *, resamples: int, seed: int) -> Array:
    """(1 + resamples, groups): how often each group is drawn; the first row is the data as they are."""
    if not groups:
        return np.ones((1 + resamples, 0))
    draws = np.random.default_rng(seed).multinomial(groups, np.full(groups, 1 / groups), resamples)
    return np.vstack([np.ones(groups), draws])


def summary(tables: Sequence[Array], weights: Array) -> Metrics:
    """Accuracy, correct of all labels; macro-F1, the unweighted mean of the heads' macro-F1."""
    drawn = [np.tensordot(weights, table, axes=1) for table in tables]
    filled = int(np.any([table.sum(axis=(1, 2)) > 0 for table in tables], axis=0).sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        accuracy = _total([np.trace(t, axis1=1, axis2=2) for t in drawn]) / _total(
            [t.sum(axis=(1, 2)) for t in drawn]
        )
    return {
        "n": int(sum(table.sum() for table in tables)),
        "accuracy": _statistic(accuracy, filled),
        "macro_f1": _statistic(_mean_defined(np.column_stack([macro_f1(t) for t in drawn])), filled),
    }


def _total(parts: Sequence[Array]) -> Array:
    total: Array = np.sum(parts, axis=0, dtype=np.float64)
    return total


def _statistic(draws: Array, groups: int) -> dict[str, float | None]:
    """The first draw is the value. One group alone has no spread to draw an interval from."""
    spread = draws[1:][~np.isnan(draws[1:])]
    low, high = np.percentile(spread, [2.5, 97.5]) if groups > 1 and len(spread) else (np.nan, np.nan)
    return {"value": defined(draws[0]), "low": defined(low), "high": defined(high)}


def defined(value: float) -> float | None:
    """A float that is a number, or None."""
    return float(value) if np.isfinite(value) else None


def f1_by_level(confusion: Array) -> Array:
    """2 TP / (2 TP + FP + FN) for (..., truth, predicted) counts; undefined where a level is in neither."""
    hits = np.diagonal(confusion, axis1=-2, axis2=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        f1: Array = 2 * hits / (confusion.sum(axis=-1) + confusion.sum(axis=-2))
    return f1


def macro_f1(confusion: Array) -> Array:
    """The unweighted mean of F1 over the levels that are labelled or predicted anywhere."""
    return _mean_defined(f1_by_level(confusion))


def _mean_defined(values: Array) -> Array:
    """Means along the last axis of what is not NaN; NaN where nothing is."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Array = np.where(known, values, 0).sum(axis=-1) / known.sum(axis=-1)
    return means


def criterion_metrics(found: Outcomes, table: Array, weights: Array) -> Metrics:
    confusion = table.sum(axis=0)
    return {
        **summary([table], weights),
        "quadratic_kappa": quadratic_kappa(confusion, found.head),
        "calibration_error": expected_calibration_error([found]),
        "confusion": {
            "levels": list(found.head.values),
            "counts": confusion.astype(int).tolist(),
        },
        "levels": level_metrics(confusion, found.head),
    }


def level_metrics(confusion: Array, head: Head) -> Metrics:
    """By level: ``n`` labelled so, ``predicted`` so, precision, recall, F1."""
    hits, labelled, predicted = np.diagonal(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
    f1 = f1_by_level(confusion)
    return {
        level_name(value): {
            "n": int(labelled[i]),
            "predicted": int(predicted[i]),
            "precision": _ratio(hits[i], predicted[i]),
            "recall": _ratio(hits[i], labelled[i]),
            "f1": defined(f1[i]),
        }
        for i, value in enumerate(head.values)
    }


def _ratio(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None


def quadratic_kappa(confusion: Array, head: Head) -> float | None:
    """Cohen's weighted kappa (1968) with squared distances: of ranks, or of values on an interval scale.

    kappa = 1 - sum(w * observed) / sum(w * expected). Undefined on a nominal scale, and if nothing varies.
    """
    if head.measurement == "nominal" or not confusion.sum():
        return None
    interval = head.measurement == "interval"
    at = np.array(head.values if interval else range(len(head.values)), dtype=np.float64)
    distance = (at[:, None] - at[None, :]) ** 2
    expected = np.outer(confusion.sum(axis=1), confusion.sum(axis=0)) / confusion.sum()
    chance = float((distance * expected).sum())
    return 1 - float((distance * confusion).sum()) / chance if chance else None


def expected_calibration_error(found: Sequence[Outcomes]) -> float | None:
    """Guo et al. 2017: sum over bins of equal width of |share correct - mean confidence| * the bin's share."""
    confidence = np.concatenate([each.confidence for each in found] or [np.zeros(0)])
    correct = np.concatenate([each.truth == each.predicted for each in found] or [np.zeros(0)])
    if not len(confidence):
        return None
    bins = np.minimum((confidence * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    gaps = np.bincount(bins, weights=correct - confidence, minlength=CALIBRATION_BINS)
    return float(np.abs(gaps).sum() / len(confidence))


@dataclass(frozen=True)
class Evaluation:
    """Predictions of each example by a scorer that has not learned from it, and the figures made of them."""

    metrics: Metrics
    predictions: list[Prediction]
    folds: list[int]
    """The split, from 0, in which each example was predicted."""

    def by_content(self, examples: Sequence[Example]) -> dict[str, tuple[int, Prediction]]:
        """Fold and prediction by content key. Only of folds by prompt, where the same text is in one fold."""
        kept: dict[str, tuple[int, Prediction]] = {}
        for example, fold, prediction in zip(examples, self.folds, self.predictions, strict=True):
            kept.setdefault(example.content_key, (fold, prediction))
        return kept


def evaluate_grouped(
    backbone: Backbone,
    examples: Sequence[Example],
    heads: Sequence[Head],
    *,
    k: int = 5,
    seed: int = 0,
    report: Report = silent,
    checkpoints: Path | None = None,
) -> Evaluation:
    """Folds by prompt: none is both learned from and predicted. Predictions are pooled, then measured."""
    splits = splits_by_prompt(examples, k=k, seed=seed)
    report = within(report, 0, 1, stage="grouped")
    return _evaluate(backbone, examples, heads, splits, seed=seed, report=report, checkpoints=checkpoints)


def evaluate_leave_one_model_out(
    backbone: Backbone,
    examples: Sequence[Example],
    heads: Sequence[Head],
    *,
    seed: int = 0,
    report: Report = silent,
    checkpoints: Path | None = None,
) -> Evaluation:
    """Each model is predicted from the others: what the scorer is worth on a model that nobody labelled."""
    splits = splits_by_model(examples)
    report = within(report, 0, 1, stage="leave-one-model-out")
    return _evaluate(backbone, examples, heads, splits, seed=seed, report=report, checkpoints=checkpoints)


def _evaluate(
    backbone: Backbone,
    examples: Sequence[Example],
    heads: Sequence[Head],
    splits: Sequence[Split],
    *,
    seed: int,
    report: Report,
    checkpoints: Path | None,
) -> Evaluation:
    check_examples(examples, heads)
    predictions: list[Prediction] = [{} for _ in examples]
    folds = [0 for _ in examples]
    for i, split in enumerate(splits):
        part = within(report, i / len(splits), (i + 1) / len(splits), part=i + 1, parts=len(splits))
        folder = checkpoints / f"split-{i + 1}" if checkpoints else None
        found = _predict_split(backbone, examples, heads, split, seed=seed, report=part, checkpoints=folder)
        for row, prediction in zip(split.test, found, strict=True):
            predictions[row], folds[row] = prediction, i
    return Evaluation(measure(examples, predictions, heads, seed=seed), predictions, folds)


def _predict_split(
    backbone: Backbone,
    examples: Sequence[Example],
    heads: Sequence[Head],
    split: Split,
    *,
    seed: int,
    report: Report,
    checkpoints: Path | None,
) -> list[Prediction]:
    """Fit on one side, predict the other. What is done is kept, so that a killed job does not do it twice."""
    train, test = ([examples[i] for i in rows] for rows in (split.train, split.test))
    if not any(example.labels for example in train):
        return [{} for _ in test]
    key = split_key(backbone, train, test, heads, seed)
    kept = _recall(checkpoints, key, heads)
    if kept is not None:
        return kept
    work = checkpoints / "fit" if checkpoints else None
    fitted = backbone.fit(train, heads, seed=seed, report=within(report, 0, 0.9), checkpoints=work)
    found = fitted.predict(test, report=within(report, 0.9, 1))
    _keep(checkpoints, key, found)
    return found


def split_key(
    backbone: Backbone, train: Sequence[Example], test: Sequence[Example], heads: Sequence[Head], seed: int
) -> str:
    """The sha256 of all that a split's predictions follow from."""
    told = {
        "backbone": repr(backbone),
        "seed": seed,
        "heads": [head.to_json() for head in heads],
        "train": [[example.content_key, sorted(example.labels.items())] for example in train],
        "test": [example.content_key for example in test],
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _recall(folder: Path | None, key: str, heads: Sequence[Head]) -> list[Prediction] | None:
    if folder is None or not (folder / "predictions.json").is_file():
        return None
    kept: Mapping[str, Any] = json.loads((folder / "predictions.json").read_text(encoding="utf-8"))
    return [prediction_from_json(row, heads) for row in kept["rows"]] if kept["key"] == key else None


def _keep(folder: Path | None, key: str, predictions: Sequence[Prediction]) -> None:
    """Written beside and moved in place: a file that is there is whole."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    rows = [prediction_to_json(prediction) for prediction in predictions]
    beside = folder / "predictions.json.part"
    beside.write_text(json.dumps({"key": key, "rows": rows}), encoding="utf-8")
    beside.replace(folder / "predictions.json")
    shutil.rmtree(folder / "fit", ignore_errors=True)
