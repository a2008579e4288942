"""What further labels would bring: the same folds learned from fewer prompts, and a curve through the errors. Pure.

Each fold is predicted by models that learned from a quarter, a half, three quarters and all of its training prompts;
the smaller shares lie within the larger ones. Errors of such curves fall as a power of the number of labels (Hestness
et al. 2017, "Deep Learning Scaling is Predictable, Empirically"): error = a * labels ** -b, a straight line on
logarithms. It is fitted to the four errors and read off at as many labels as there are, and at 200 more.

The interval draws prompts with replacement, throws the points about the curve as far as they lie from it (a wild
bootstrap, Wu 1986), and fits each draw anew: so it holds the luck of what was predicted and of what was learned from.
It does not hold the doubt in the law: a curve that flattens is not seen before it does. So the gain is told for a few
labels ahead and no further.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scoring.domain.backbone import Learner, Report, ignore_progress, scale_report
from scoring.domain.evaluation import Evaluation, Metrics, evaluate_splits, percentile_statistic
from scoring.domain.evaluation.metrics import draw_figures
from scoring.domain.training_data import (
    DataSplit,
    Example,
    Head,
    prompt_groups,
    shuffle_key,
    splits_by_prompt,
)

Array = npt.NDArray[np.float64]

SHARES = (0.25, 0.5, 0.75)
"""Of each fold's training prompts, beside all of them."""
FURTHER_LABELS = 200
FIGURES = ("accuracy", "macro_f1")
STAGE = "learning-curve"


def count_fits(k: int) -> int:
    """How many fits a curve takes, beside the evaluation with all prompts."""
    return k * len(SHARES)


def measure_learning_curve(
    backbone: Learner,
    examples: Sequence[Example],
    heads: Sequence[Head],
    *,
    full_evaluation: Evaluation,
    k: int = 5,
    seed: int = 0,
    report: Report = ignore_progress,
    checkpoints: Path | None = None,
) -> Metrics:
    """``{"points": [..], "fit": {figure: {"a", "b"}}, "next": {"labels", figure: {"now", "then", "gain"}}}``.

    ``whole`` is the grouped evaluation of the same k and seed. A point has the ``share`` of the training prompts, the
    mean numbers of ``prompts`` and ``labels`` that a fold learned from, and each figure as a statistic. ``now`` and
    ``then`` are what the fitted curve says of a scorer that learns from all labels there are, and from 200 more of
    further prompts answered likewise; ``gain`` is their difference, a statistic. ``fit`` and ``next`` are null where
    no curve can be fitted.
    """
    splits = splits_by_prompt(examples, k=k, seed=seed)
    curve = {1.0: (splits, full_evaluation)}
    for i, share in enumerate(SHARES):
        smaller_splits = [_shrink_split(examples, split, share, seed) for split in splits]
        curve[share] = (
            smaller_splits,
            evaluate_splits(
                backbone,
                examples,
                heads,
                smaller_splits,
                seed=seed,
                report=scale_report(report, i / len(SHARES), (i + 1) / len(SHARES), stage=STAGE),
                checkpoints=checkpoints / f"share-{round(100 * share)}" if checkpoints else None,
            ),
        )
    points = [_describe_point(share, *curve[share], examples) for share in sorted(curve)]
    drawn = [draw_figures(examples, curve[share][1].predictions, heads, seed=seed) for share in sorted(curve)]
    labels = np.array([point["labels"] for point in points])
    total = sum(len(example.labels) for example in examples)
    extrapolations = {
        name: _extrapolate(labels, np.array([each[name] for each in drawn]), total, seed=seed)
        for name in FIGURES
    }
    fitted = {
        name: extrapolation for name, extrapolation in extrapolations.items() if extrapolation is not None
    }
    return {
        "points": points,
        "fit": {name: extrapolation["fit"] for name, extrapolation in fitted.items()} or None,
        "next": {
            "labels": FURTHER_LABELS,
            **{name: extrapolation["next"] for name, extrapolation in fitted.items()},
        }
        if fitted
        else None,
    }


def _shrink_split(examples: Sequence[Example], split: DataSplit, share: float, seed: int) -> DataSplit:
    """The split with a share of its training prompts, in the order of a hash, so that shares lie within each other."""
    groups = prompt_groups(examples)
    ordered = sorted(
        {groups[row] for row in split.train}, key=lambda name: shuffle_key(seed, f"curve {name}")
    )
    kept_groups = set(ordered[: max(1, round(share * len(ordered)))])
    return DataSplit(split.name, tuple(row for row in split.train if groups[row] in kept_groups), split.test)


def _describe_point(
    share: float, splits: Sequence[DataSplit], evaluation: Evaluation, examples: Sequence[Example]
) -> dict[str, Any]:
    groups = prompt_groups(examples)
    labels = [sum(len(examples[row].labels) for row in split.train) for split in splits]
    prompts = [len({groups[row] for row in split.train}) for split in splits]
    return {
        "share": share,
        "prompts": float(np.mean(prompts)),
        "labels": float(np.mean(labels)),
        "n": evaluation.metrics["n"],
        **{name: evaluation.metrics[name] for name in FIGURES},
    }


def _extrapolate(labels: Array, figures: Array, total: int, *, seed: int) -> dict[str, Any] | None:
    """``figures`` (points, 1 + resamples), of which the first column is the data."""
    usable = np.flatnonzero(np.isfinite(figures).all(axis=0))
    if 0 not in usable or len(set(labels.tolist())) < 2:
        return None
    a, b = fit_power_law(labels, _perturb_errors(labels, 1 - figures[:, usable], seed))
    now, then = (1 - a * n**-b for n in (float(total), float(total + FURTHER_LABELS)))
    return {
        "fit": {"a": float(a[0]), "b": float(b[0])},
        "next": {
            "now": percentile_statistic(now, 2),
            "then": percentile_statistic(then, 2),
            "gain": percentile_statistic(then - now, 2),
        },
    }


def _perturb_errors(labels: Array, errors: Array, seed: int) -> Array:
    """Every draw but the first with its points thrown about by what the first one's lie off their curve.

    Two of the points' freedom are used up by the line, so what is left is widened accordingly.
    """
    errors = np.maximum(errors, MIN_ERROR)
    a, b = fit_power_law(labels, errors[:, :1])
    off = np.log(errors[:, :1]) - np.log(a * labels[:, None] ** -b)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=errors.shape)
    signs[:, 0] = 0
    perturbed: Array = errors * np.exp(signs * off * np.sqrt(len(labels) / max(1, len(labels) - 2)))
    return perturbed


MIN_ERROR = 1e-3
"""No error at all is no point on a logarithm's axis."""


def fit_power_law(labels: Array, errors: Array) -> tuple[Array, Array]:
    """a and b of error = a * labels ** -b for each column of errors (points, draws), by least squares of logarithms.

    b is at least 0: labels do no harm in the long run, so a curve that rises by chance is taken as level.
    """
    x = np.log(labels)
    y = np.log(np.maximum(errors, MIN_ERROR))
    centred = x - x.mean()
    slope = (centred[:, None] * y).sum(axis=0) / (centred**2).sum()
    b: Array = np.maximum(-slope, 0.0)
    a: Array = np.exp(y.mean(axis=0) + b * x.mean())
    return a, b


def find_gain(curve: Mapping[str, Any], figure: str = "accuracy") -> Mapping[str, float | None] | None:
    """What the next labels would bring of a figure, as a statistic; None where that is not known."""
    extrapolation = curve.get("next") or {}
    gain: Mapping[str, float | None] | None = extrapolation.get(figure, {}).get("gain")
    return gain
