"""What a scorer knows of itself, on the published XSTest labels; prints Markdown.

    python -m tests.performance.scorer_trust ../shared/data/xstest

Coverage of conformal sets on 200 random halves, by prompt, and on a model without labels of its own; the drift of each
model left out beside the accuracy that was lost; what further labels bring; the loss that the gate finds with a
chance of 80% on the test split alone. Processor time of some minutes: 25 fits of the embedded backbone.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from annotation.domain.formats.xstest import LEVELS
from annotation.domain.releases.splits import split_of
from scoring.backbones.ngram import NgramBackbone
from scoring.domain import calibration, drift
from scoring.domain.evaluation import (
    Evaluation,
    evaluate_grouped,
    evaluate_leave_one_model_out,
    split_off_test,
)
from scoring.domain.evaluation.learning_curve import measure_learning_curve
from scoring.domain.gate import GateCase, compare_scorers
from scoring.domain.training_data import Example, Head, prompt_groups

MODELS = ("gpt4", "llama2new", "llama2orig", "mistralguard", "mistralinstruct")
HEAD = Head("compliance", (1, 2, 3), "ordinal")
HALVES = 200


def examples_of(folder: Path) -> list[Example]:
    examples = [
        Example(
            key=f"xstest/{row['id']} {model}",
            prompt_key=f"xstest/{row['id']}",
            prompt=row["prompt"],
            response=row["completion"],
            model=model,
            labels={"compliance": LEVELS[row["final_label"]]},
            kind=row["type"],
            split=split_of("xstest", row["id"].removeprefix("v2-")),
        )
        for model in MODELS
        for row in csv.DictReader((folder / f"xstest_v2_completions_{model}.csv").open(encoding="utf-8"))
    ]
    return sorted(examples, key=lambda example: (example.key, example.content_key))


def show_coverage(examples: Sequence[Example], grouped: Evaluation, left_out: Evaluation) -> None:
    """Thresholds from half of the prompts, used on the other half; and from all other models, on the one left out."""
    true = calibration.true_probabilities(examples, grouped.predictions, HEAD)
    groups, chance = np.array(prompt_groups(examples)), np.random.default_rng(0)
    names, models = np.unique(groups), np.array([example.model for example in examples])
    unlabelled = calibration.true_probabilities(examples, left_out.predictions, HEAD)
    print(
        f"| coverage | mean of {HALVES} halves | least | "
        + " | ".join(f"{m} unlabelled" for m in MODELS)
        + " |"
    )
    print("| ---: " * (3 + len(MODELS)) + "|")
    for promised in calibration.COVERAGES:
        shares = []
        for _half in range(HALVES):
            known = np.isin(groups, chance.permutation(names)[: len(names) // 2])
            least = calibration.compute_threshold(true[known], promised)
            shares.append(float((true[~known] >= least).mean()))
        strange = []
        for model in MODELS:
            least = calibration.compute_threshold(true[models != model], promised)
            strange.append(f"{(unlabelled[models == model] >= least).mean():.3f}")
        print(f"| {promised} | {np.mean(shares):.4f} | {min(shares):.3f} | {' | '.join(strange)} |")


def show_drift(examples: Sequence[Example], grouped: Evaluation, left_out: Evaluation) -> None:
    print("\n| model | AUC against the others | repeated texts | accuracy lost when left out |")
    print("| --- | ---: | ---: | ---: |")
    by_fold, without = grouped.metrics["by_model"], left_out.metrics["by_model"]
    lost = {m: by_fold[m]["accuracy"]["value"] - without[m]["accuracy"]["value"] for m in MODELS}
    drift_by_model = drift.describe_models(examples, grouped.predictions, [HEAD], lost=lost)["models"]
    for model, model_drift in drift_by_model.items():
        repeated = model_drift["repeated"]["share"]
        print(
            f"| {model} | {model_drift['auc']:.3f} | {repeated:.3f} | {model_drift['accuracy_lost']:+.3f} |"
        )


def show_further_labels(examples: Sequence[Example], grouped: Evaluation) -> None:
    curve = measure_learning_curve(NgramBackbone(), examples, [HEAD], full_evaluation=grouped)
    print("\n| labels learned from | accuracy | macro-F1 |\n| ---: | ---: | ---: |")
    for point in curve["points"]:
        values = [f"{point[name]['value']:.3f}" for name in ("accuracy", "macro_f1")]
        print(f"| {point['labels']:.0f} | {' | '.join(values)} |")
    gains = [format_statistic(curve["next"][name]["gain"]) for name in ("accuracy", "macro_f1")]
    print(f"| the next {curve['next']['labels']} bring | {' | '.join(gains)} |")


def format_statistic(statistic: dict[str, float]) -> str:
    return f"{statistic['value']:+.4f} [{statistic['low']:+.4f}, {statistic['high']:+.4f}]"


def show_gate(examples: Sequence[Example], grouped: Evaluation, left_out: Evaluation) -> None:
    """The two evaluations as two scorers that differ, on the prompts of the test split and on all."""
    _learned, tested = split_off_test(examples)
    groups = prompt_groups(examples)
    for split, rows in (("test", tested), ("all", range(len(examples)))):
        cases = [
            GateCase(
                key=examples[row].content_key,
                prompt=groups[row],
                criterion=HEAD.criterion,
                truth=examples[row].labels[HEAD.criterion],
                new=HEAD.most_likely(left_out.predictions[row][HEAD.criterion]),
                old=HEAD.most_likely(grouped.predictions[row][HEAD.criterion]),
            )
            for row in rows
        ]
        comparison = compare_scorers(cases)
        print(
            f"\nGate: {comparison['n']} labels of {comparison['prompts']} prompts ({split});"
            " without any label of each model against "
            f"by prompt {format_statistic(comparison['difference'])}; with a chance of 80%"
            f" a loss of {comparison['detectable_loss']:.3f} is detected,"
            f" and an equal scorer passes within {comparison['passing_margin']:.3f}"
        )


def main() -> None:
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("Say where the XSTest files lie: python -m tests.performance.scorer_trust FOLDER")
    examples = examples_of(Path(sys.argv[1]))
    grouped = evaluate_grouped(NgramBackbone(), examples, [HEAD])
    left_out = evaluate_leave_one_model_out(NgramBackbone(), examples, [HEAD])
    show_coverage(examples, grouped, left_out)
    show_drift(examples, grouped, left_out)
    show_further_labels(examples, grouped)
    show_gate(examples, grouped, left_out)


if __name__ == "__main__":
    main()
