"""Whether a scorer's probabilities are at the rate of the data, and whether it beats always saying the rates.

    python -m tests.performance.scorer_calibration [--what noise dialogues folds xstest soft] [--draws 20]

``noise``: responses of random words with gold of .20/.20/.60, so there is nothing to learn; the mean probability of
each level out of fold should be its rate, and the accuracy that of the commonest level. ``dialogues``: fifty dialogues
under six criteria from 1 to 5. ``folds``: the sizes of five folds where most dialogues open with the same greeting.
``xstest``: accuracy, macro-F1 and log loss on the 2,250 published labels. ``soft``: the same learned from what share of
two people gave each level, beside the gold label. Log losses are out of fold, of labels whose
level the fold had learned; ``rates`` is the log loss of always saying how often each level was learned. Prints
Markdown. Where the data lie: ``ASSAY_XSTEST`` and ``ASSAY_LEND_AN_EAR``, else ``../shared/data``.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from scoring.backbones.registry import choose_backbone
from scoring.domain.backbone import Backbone
from scoring.domain.evaluation import evaluate_grouped
from scoring.domain.evaluation.soft_labels import DISTRIBUTION, TARGETS, measure_soft_labels
from scoring.domain.spec import Spec
from scoring.domain.training_data import Example, Head, splits_by_prompt
from tests.scoring import lend_an_ear, xstest

WHAT = ("noise", "dialogues", "folds", "xstest", "soft")
RATES = (0.2, 0.2, 0.6)
NOISE = Head("noise", (1, 2, 3), "ordinal")
WORDS = np.array([f"word{i}" for i in range(300)])
TINY = 1e-12

Table = npt.NDArray[np.float64]


@dataclass(frozen=True)
class OutOfFold:
    """One head out of fold: probabilities (n, levels), places of the labels, and the rates that each fold learned."""

    shares: Table
    truth: npt.NDArray[np.int64]
    rates: Table

    @property
    def predicted(self) -> npt.NDArray[np.int64]:
        return self.shares.argmax(axis=1)

    @property
    def accuracy(self) -> float:
        return float((self.predicted == self.truth).mean())

    @property
    def commonest(self) -> float:
        return float(np.bincount(self.truth).max() / len(self.truth))

    @property
    def macro_f1(self) -> float:
        parts = []
        for level in range(self.shares.shape[1]):
            size = (self.predicted == level).sum() + (self.truth == level).sum()
            if size:
                parts.append(2 * ((self.predicted == level) & (self.truth == level)).sum() / size)
        return float(np.mean(parts))

    @property
    def log_losses(self) -> tuple[float, float]:
        """Of the scorer, and of the rates."""
        at = np.arange(len(self.truth))
        learned = self.rates[at, self.truth] > 0
        own, rates = (
            -np.log(np.maximum(table[at, self.truth], TINY))[learned].mean()
            for table in (self.shares, self.rates)
        )
        return float(own), float(rates)

    @property
    def furthest(self) -> float:
        """How far the mean probability of a level lies from the level's share, at most."""
        shares = np.bincount(self.truth, minlength=self.shares.shape[1]) / len(self.truth)
        return float(np.abs(self.shares.mean(axis=0) - shares).max())


def predict_out_of_fold(
    backbone: Backbone, examples: Sequence[Example], heads: Sequence[Head], seed: int = 0
) -> dict[str, OutOfFold]:
    shares = {head.criterion: np.zeros((len(examples), len(head.values))) for head in heads}
    rates = {head.criterion: np.zeros((len(examples), len(head.values))) for head in heads}
    for split in splits_by_prompt(examples, seed=seed):
        train, test = ([examples[i] for i in side] for side in (split.train, split.test))
        predictions = backbone.fit(train, heads, seed=seed).predict(test)
        for head in heads:
            name, rows = head.criterion, list(split.test)
            shares[name][rows] = [[p[name][value] for value in head.values] for p in predictions]
            counts = Counter(example.labels[name] for example in train)
            rates[name][rows] = [counts[value] / len(train) for value in head.values]
    return {
        head.criterion: OutOfFold(
            shares[head.criterion],
            np.array([head.position(example.labels[head.criterion]) for example in examples]),
            rates[head.criterion],
        )
        for head in heads
    }


def make_noise(seed: int, prompts: int = 100, responses: int = 5) -> list[Example]:
    """Responses of words drawn at random, labelled at random at the exact rates."""
    chance = np.random.default_rng(seed)
    n = prompts * responses
    levels = np.repeat(NOISE.values, np.round(np.array(RATES) * n).astype(int))
    chance.shuffle(levels)
    return [
        Example(
            key=f"{i}",
            prompt_key=f"noise/{i // responses}",
            prompt=f"Say something about the number {i // responses}, at some length.",
            response=" ".join(chance.choice(WORDS, 40)),
            model=f"model-{i % responses}",
            labels={NOISE.criterion: int(level)},
        )
        for i, level in enumerate(levels)
    ]


def make_greetings() -> list[Example]:
    """125 dialogues, each its own prompt, of which 106 open with the same greeting."""
    return [
        Example(f"{i}", f"d/{i}", "Hi!" if i < 106 else f"I have trouble number {i}.", f"user:\nHi!\n\n{i}")
        for i in range(125)
    ]


def print_noise(backbone: Backbone, draws: int) -> None:
    print(f"\nNoise, gold .20/.20/.60, 500 labels of 100 prompts, {draws} draws\n")
    print("| backbone | mean probabilities | accuracy | commonest level | log loss | rates | furthest |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    results = [
        predict_out_of_fold(backbone, make_noise(seed), [NOISE])[NOISE.criterion] for seed in range(draws)
    ]
    means = np.mean([result.shares.mean(axis=0) for result in results], axis=0)
    losses = np.mean([result.log_losses for result in results], axis=0)
    figures = [
        "/".join(f"{mean:.3f}" for mean in means),
        f"{np.mean([result.accuracy for result in results]):.3f}",
        f"{np.mean([result.commonest for result in results]):.3f}",
        *(f"{loss:.4f}" for loss in losses),
        f"{max(result.furthest for result in results):.3f}",
    ]
    print(f"| {backbone.name} | {' | '.join(figures)} |")


def print_criteria(
    backbone: Backbone, title: str, examples: Sequence[Example], heads: Sequence[Head]
) -> None:
    print(f"\n{title}, {backbone.name}\n")
    print("| criterion | n | accuracy | commonest level | macro-F1 | log loss | rates | furthest |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    rows = []
    for name, result in predict_out_of_fold(backbone, examples, heads).items():
        figures = [result.accuracy, result.commonest, result.macro_f1, *result.log_losses, result.furthest]
        rows.append(figures)
        print(f"| {name} | {len(result.truth)} | {' | '.join(f'{figure:.3f}' for figure in figures)} |")
    if len(rows) > 1:
        print(f"| mean | | {' | '.join(f'{figure:.3f}' for figure in np.mean(rows, axis=0))} |")


def print_folds() -> None:
    print("\nFive folds of dialogues\n\n| dialogues | sizes |\n| --- | --- |")
    sets = [("125, of which 106 open with the same greeting", make_greetings())]
    if lend_an_ear.is_there():
        sets.append(("50 published dialogues", lend_an_ear.examples()))
    for name, examples in sets:
        sizes = sorted((len(split.test) for split in splits_by_prompt(examples)), reverse=True)
        print(f"| {name} | {', '.join(map(str, sizes))} |")


def print_soft(backbone: Backbone) -> None:
    print(f"\nXSTest by what is learned, {backbone.name}\n")
    print("| target | accuracy | macro-F1 | cross-entropy | its least | Jensen-Shannon |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    rows, annotated = xstest.examples(), xstest.read_shares()
    for target in TARGETS:
        learned = [replace(row, soft=annotated[row.key]) if target == DISTRIBUTION else row for row in rows]
        evaluation = evaluate_grouped(backbone, learned, [xstest.HEAD])
        people = [annotated[row.key] for row in rows]
        soft = measure_soft_labels(evaluation.predictions, people, [xstest.HEAD])[xstest.HEAD.criterion]
        figures = [evaluation.metrics[name]["value"] for name in ("accuracy", "macro_f1")]
        figures += [soft[name] for name in ("cross_entropy", "entropy", "jensen_shannon")]
        print(f"| {target} | {' | '.join(f'{figure:.4f}' for figure in figures)} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--what", dest="tables", nargs="+", choices=WHAT, default=list(WHAT))
    parser.add_argument("--backbones", nargs="+", choices=["ngram", "ensemble"], default=["ngram"])
    parser.add_argument("--draws", type=int, default=20)
    options = parser.parse_args()
    if "folds" in options.tables:
        print_folds()
    for kind in options.backbones:
        backbone = choose_backbone(Spec(kind))
        if "noise" in options.tables:
            print_noise(backbone, options.draws)
        if "dialogues" in options.tables and lend_an_ear.is_there():
            print_criteria(backbone, "Dialogues", lend_an_ear.examples(), lend_an_ear.HEADS)
        if "xstest" in options.tables and xstest.is_there():
            print_criteria(backbone, "XSTest", xstest.examples(), [xstest.HEAD])
        if "soft" in options.tables and xstest.is_there():
            print_soft(backbone)


if __name__ == "__main__":
    main()
