"""What a scorer knows of itself, on the published XSTest labels; prints Markdown.

    python -m tests.benchmarks.scorer_trust ../shared/data/xstest

Coverage of conformal sets on 200 random halves, by prompt, and on a model without labels of its own; the drift of each
model left out beside the accuracy that was lost; what further labels bring; the smallest loss that the gate notices
with the test split. Processor time of some minutes: 25 fits of the embedded backbone.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from annotation.formats.xstest import LEVELS
from annotation.splits import split_of
from scoring import conformal, drift
from scoring.dataset import Example, Head, prompt_groups
from scoring.evaluation import Evaluation, evaluate_grouped, evaluate_leave_one_model_out, held_out
from scoring.gate import Case, compare
from scoring.learning_curve import learning_curve
from scoring.ngram import NgramBackbone

MODELS = ("gpt4", "llama2new", "llama2orig", "mistralguard", "mistralinstruct")
HEAD = Head("compliance", (1, 2, 3), "ordinal")
HALVES = 200


def examples_of(folder: Path) -> list[Example]:
    found = [
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
    return sorted(found, key=lambda example: (example.key, example.content_key))


def coverage(examples: Sequence[Example], grouped: Evaluation, left_out: Evaluation) -> None:
    """Thresholds from half of the prompts, used on the other half; and from all other models, on the one left out."""
    true = conformal.true_probabilities(examples, grouped.predictions, HEAD)
    groups, chance = np.array(prompt_groups(examples)), np.random.default_rng(0)
    names, models = np.unique(groups), np.array([example.model for example in examples])
    unlabelled = conformal.true_probabilities(examples, left_out.predictions, HEAD)
    print(
        f"| coverage | mean of {HALVES} halves | least | "
        + " | ".join(f"{m} unlabelled" for m in MODELS)
        + " |"
    )
    print("| ---: " * (3 + len(MODELS)) + "|")
    for promised in conformal.COVERAGES:
        shares = []
        for _half in range(HALVES):
            known = np.isin(groups, chance.permutation(names)[: len(names) // 2])
            least = conformal.compute_threshold(true[known], promised)
            shares.append(float((true[~known] >= least).mean()))
        strange = []
        for model in MODELS:
            least = conformal.compute_threshold(true[models != model], promised)
            strange.append(f"{(unlabelled[models == model] >= least).mean():.3f}")
        print(f"| {promised} | {np.mean(shares):.4f} | {min(shares):.3f} | {' | '.join(strange)} |")


def apart(examples: Sequence[Example], grouped: Evaluation, left_out: Evaluation) -> None:
    print("\n| model | AUC against the others | repeated texts | accuracy lost when left out |")
    print("| --- | ---: | ---: | ---: |")
    by_fold, without = grouped.metrics["by_model"], left_out.metrics["by_model"]
    lost = {m: by_fold[m]["accuracy"]["value"] - without[m]["accuracy"]["value"] for m in MODELS}
    found = drift.describe_models(examples, grouped.predictions, [HEAD], lost=lost)["models"]
    for model, one in found.items():
        repeated = one["repeated"]["share"]
        print(f"| {model} | {one['auc']:.3f} | {repeated:.3f} | {one['accuracy_lost']:+.3f} |")


def further_labels(examples: Sequence[Example], grouped: Evaluation) -> None:
    curve = learning_curve(NgramBackbone(), examples, [HEAD], whole=grouped)
    print("\n| labels learned from | accuracy | macro-F1 |\n| ---: | ---: | ---: |")
    for point in curve["points"]:
        values = [f"{point[name]['value']:.3f}" for name in ("accuracy", "macro_f1")]
        print(f"| {point['labels']:.0f} | {' | '.join(values)} |")
    gains = [_statistic(curve["next"][name]["gain"]) for name in ("accuracy", "macro_f1")]
    print(f"| the next {curve['next']['labels']} bring | {' | '.join(gains)} |")


def _statistic(one: dict[str, float]) -> str:
    return f"{one['value']:+.4f} [{one['low']:+.4f}, {one['high']:+.4f}]"


def noticed(examples: Sequence[Example], grouped: Evaluation, left_out: Evaluation) -> None:
    """The two evaluations as two scorers that differ, on the prompts of the test split."""
    _learned, tested = held_out(examples)
    cases = [
        Case(
            key=examples[row].content_key,
            prompt=examples[row].prompt_key,
            criterion=HEAD.criterion,
            truth=examples[row].labels[HEAD.criterion],
            new=HEAD.most_likely(left_out.predictions[row][HEAD.criterion]),
            old=HEAD.most_likely(grouped.predictions[row][HEAD.criterion]),
        )
        for row in tested
    ]
    found = compare(cases)
    print(
        f"\nGate: {found['n']} labels of {found['prompts']} test prompts; without any label of each model against "
        f"by prompt {_statistic(found['difference'])}, smallest loss noticed {found['smallest_loss']:.3f}"
    )


def main() -> None:
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("Say where the XSTest files lie: python -m tests.benchmarks.scorer_trust FOLDER")
    examples = examples_of(Path(sys.argv[1]))
    grouped = evaluate_grouped(NgramBackbone(), examples, [HEAD])
    left_out = evaluate_leave_one_model_out(NgramBackbone(), examples, [HEAD])
    coverage(examples, grouped, left_out)
    apart(examples, grouped, left_out)
    further_labels(examples, grouped)
    noticed(examples, grouped, left_out)


if __name__ == "__main__":
    main()
