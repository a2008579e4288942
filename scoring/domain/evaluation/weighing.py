"""The figures of all responses, from labels that were selected with known unequal chances. Pure.

Each label stands for 1 / chance responses (D. Horvitz, D. Thompson, Journal of the American Statistical Association 47,
1952), and a figure is divided by what its labels stand for together (J. Hajek, 1971): a share stays a share, and
chances that are wrong by one factor change nothing. Labels of unknown chance stand for nobody and are left out. An
undefined figure is None; a statistic is ``{"value", "low", "high"}``, a 95% percentile bootstrap over prompts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scoring.domain.calibration import BINS
from scoring.domain.evaluation.outcomes import (
    RESAMPLES,
    Array,
    draw_groups,
    percentile_statistic,
    to_finite,
)
from scoring.domain.training_data import Example, Head, Prediction, Value, prompt_groups

NEARLY_EQUAL = 1e-9


@dataclass(frozen=True)
class WeighedLabel:
    """A gold label and the answer to it, None off the scale; ``chance`` None where nobody knows it."""

    prompt: str
    criterion: str
    truth: Value
    answer: Value | None
    confidence: float | None
    chance: float | None


def have_unequal_chances(chances: Sequence[float | None]) -> bool:
    """Whether there is anything to weigh: some chance is known, and not all are known and equal."""
    known = [chance for chance in chances if chance]
    return bool(known) and (len(known) < len(chances) or max(known) - min(known) >= NEARLY_EQUAL)


def list_weighed_labels(
    examples: Sequence[Example],
    predictions: Sequence[Prediction],
    heads: Sequence[Head],
    chances: Sequence[float | None],
) -> list[WeighedLabel]:
    """Of a scorer's predictions; ``chances`` are those of the examples."""
    labels = []
    rows = zip(examples, predictions, prompt_groups(examples), chances, strict=True)
    for example, prediction, prompt, chance in rows:
        for head in heads:
            truth, distribution = example.labels.get(head.criterion), prediction.get(head.criterion)
            if truth is not None and distribution is not None:
                answer = head.most_likely(distribution)
                labels.append(
                    WeighedLabel(prompt, head.criterion, truth, answer, distribution[answer], chance)
                )
    return labels


def measure_weighed(
    labels: Sequence[WeighedLabel], heads: Sequence[Head], *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Any] | None:
    """``accuracy``, ``macro_f1`` and ``calibration_error`` by the chance of selection; ``n`` of ``of`` labels.

    ``effective`` are the labels of equal chance that would tell as much (L. Kish, Survey Sampling, 1965). None where
    there is nothing to weigh: no chance is known, or all are, and are equal.
    """
    if not have_unequal_chances([label.chance for label in labels]):
        return None
    known = [label for label in labels if label.chance]
    weight = 1 / np.array([label.chance for label in known], dtype=np.float64)
    names = sorted({label.prompt for label in known})
    places = {name: place for place, name in enumerate(names)}
    group = np.array([places[label.prompt] for label in known], dtype=np.int64)
    drawn = draw_groups(len(names), resamples=resamples, seed=seed).astype(np.float64)
    draws = _Draws(drawn, group, weight)
    right = np.array([label.answer == label.truth for label in known], dtype=np.float64)
    return {
        "n": len(known),
        "of": len(labels),
        "effective": to_finite(float(weight.sum() ** 2 / (weight**2).sum())),
        "accuracy": percentile_statistic(draws.average(right), len(names)),
        "macro_f1": percentile_statistic(_average_f1(known, heads, draws), len(names)),
        "calibration_error": _measure_calibration(known, right, draws),
    }


@dataclass(frozen=True)
class _Draws:
    """``drawn`` (1 + resamples, prompts): how often each draw has a prompt."""

    drawn: Array
    group: npt.NDArray[np.int64]
    weight: Array

    def total(self, values: Array) -> Array:
        """(1 + resamples): the weighed sum of a value of each label."""
        sums = np.bincount(self.group, weights=self.weight * values, minlength=len(self.drawn))
        return np.asarray(sums @ self.drawn)

    def average(self, values: Array) -> Array:
        return _divide(self.total(values), self.total(np.ones(len(values))))


def _average_f1(labels: Sequence[WeighedLabel], heads: Sequence[Head], draws: _Draws) -> Array:
    """The mean over criteria of the mean over levels that are labelled or said."""
    by_head = []
    for head in heads:
        own = np.array([label.criterion == head.criterion for label in labels])
        if own.any():
            by_level = []
            for value in head.values:
                truth = own & np.array([label.truth == value for label in labels])
                answered = own & np.array([label.answer == value for label in labels])
                both = draws.total((truth & answered).astype(np.float64))
                either = draws.total(truth.astype(np.float64)) + draws.total(answered.astype(np.float64))
                by_level.append(_divide(2 * both, either))
            by_head.append(_average_defined(by_level))
    return _average_defined(by_head)


def _measure_calibration(labels: Sequence[WeighedLabel], right: Array, draws: _Draws) -> float | None:
    """Guo et al. 2017, the bins weighed like their labels; of labels with a probability alone."""
    confidence = np.array(
        [np.nan if label.confidence is None else label.confidence for label in labels], dtype=np.float64
    )
    sure = ~np.isnan(confidence)
    total = float(draws.weight[sure].sum())
    if not total:
        return None
    bins = np.minimum((confidence[sure] * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, weights=draws.weight[sure] * (right[sure] - confidence[sure]))
    return float(np.abs(gaps).sum() / total)


def _average_defined(columns: Sequence[Array]) -> Array:
    values = np.stack(columns)
    known = ~np.isnan(values)
    return _divide(np.where(known, values, 0).sum(axis=0), known.sum(axis=0).astype(np.float64))


def _divide(part: Array, total: Array) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(part / total)


def describe_weighing(
    labels: Sequence[WeighedLabel], heads: Sequence[Head], selection: Mapping[str, Any], *, seed: int = 0
) -> dict[str, Any]:
    """What a card or a comparison says of it: how the gold was selected, and the figures ``weighed``, or None."""
    return {"selection": dict(selection), "weighed": measure_weighed(labels, heads, seed=seed)}
