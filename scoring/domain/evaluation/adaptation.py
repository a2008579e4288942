"""What labels of one model brought to a scorer for that model. Pure.

On the same folds by prompt, each response of the model is predicted twice: by a scorer that learned from the other
folds, and by one that learned from the same without this model's responses. So both know the same of other models and
of other prompts, and the difference is due to the model's own labels alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from scoring.domain.backbone import Learner, Report, ignore_progress, scale_report
from scoring.domain.evaluation import Evaluation, Metrics, evaluate_splits, percentile_statistic
from scoring.domain.evaluation.metrics import draw_figures
from scoring.domain.training_data import DataSplit, Example, Head, Prediction, splits_by_prompt

STAGE = "adaptation"


def measure_adaptation(
    backbone: Learner,
    examples: Sequence[Example],
    heads: Sequence[Head],
    *,
    model: str,
    full_evaluation: Evaluation,
    k: int = 5,
    seed: int = 0,
    report: Report = ignore_progress,
    checkpoints: Path | None = None,
) -> Metrics | None:
    """``{"model", "n", "labels", "without", "with", "difference"}``, or None where no other model is labelled.

    ``whole`` is the grouped evaluation of the same k and seed. ``labels`` is the mean number of the model's labels that
    a fold learned from. ``without`` and ``with`` them: accuracy and macro-F1 on the ``n`` labels that both predict;
    ``difference``: with less without, as statistics that draw the same prompts for both.
    """
    if {example.model for example in examples} <= {model}:
        return None
    splits = splits_by_prompt(examples, k=k, seed=seed)
    own = [DataSplit(split.name, split.train, _select_rows(examples, split.test, model)) for split in splits]
    own = [split for split in own if split.test]
    without = evaluate_splits(
        backbone,
        examples,
        heads,
        [
            DataSplit(
                split.name,
                tuple(sorted({*split.train} - {*_select_rows(examples, split.train, model)})),
                split.test,
            )
            for split in own
        ],
        seed=seed,
        report=scale_report(report, 0, 1, stage=STAGE),
        checkpoints=checkpoints,
    )
    labels = [
        sum(len(examples[row].labels) for row in _select_rows(examples, split.train, model)) for split in own
    ]
    return {
        "model": model,
        "labels": float(np.mean(labels)) if labels else 0.0,
        **_compare_evaluations(examples, heads, model, (without, full_evaluation), seed=seed),
    }


def _select_rows(examples: Sequence[Example], rows: Sequence[int], model: str) -> tuple[int, ...]:
    return tuple(row for row in rows if examples[row].model == model)


def _compare_evaluations(
    examples: Sequence[Example],
    heads: Sequence[Head],
    model: str,
    evaluations: tuple[Evaluation, Evaluation],
    *,
    seed: int,
) -> Metrics:
    """On the model's responses that both have predicted, criterion by criterion."""
    rows = _select_rows(examples, range(len(examples)), model)
    own_examples = [examples[row] for row in rows]
    both = [_list_common_criteria([side.predictions[row] for side in evaluations]) for row in rows]
    drawn = [
        draw_figures(
            own_examples,
            [
                {name: side.predictions[row][name] for name in names}
                for row, names in zip(rows, both, strict=True)
            ],
            heads,
            seed=seed,
        )
        for side in evaluations
    ]
    counts = [len(example.labels.keys() & names) for example, names in zip(own_examples, both, strict=True)]
    prompts = len({example.prompt_key for example, n in zip(own_examples, counts, strict=True) if n})
    without, with_ = drawn
    return {
        "n": sum(counts),
        "without": {name: percentile_statistic(without[name], prompts) for name in without},
        "with": {name: percentile_statistic(with_[name], prompts) for name in with_},
        "difference": {name: percentile_statistic(with_[name] - without[name], prompts) for name in without},
    }


def _list_common_criteria(predictions: Sequence[Prediction]) -> list[str]:
    """The criteria that all of them tell."""
    first, *rest = predictions
    return [name for name in first if all(name in other for other in rest)]
