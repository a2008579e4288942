"""How often the gate errs: what it calls a scorer that loses so much of its accuracy.

    python -m tests.performance.gate_errors [--pairs 400] [--margin 2]

The model: two scorers answer labelled responses, several to a prompt; some prompts are harder than others for both, and
each scorer has prompts of its own that it fails. Whether an answer is right hangs on a normal variable: ``prompt`` is
the share of its variance that the prompt makes (all responses to it rise and fall together), ``shared`` the share that
both scorers have in common. The new scorer's accuracy is lower by the loss.

A row is a design; for each loss the shares of the pairs, in percent, that the gate calls not worse / worse (the rest is
not shown), and in brackets the share that the former rule let pass: the upper end of a one-sided 95% bootstrap interval
not below 0, on the test split, which is the first of the two sizes. ``found`` is how often a scorer that loses
``detectable_loss`` (the median over the pairs) is called worse, ``passed`` how often an equal one passes at
``passing_margin``: 80 is promised of both. The exit code is 1 if a loss of the margin or more is called not worse, or
an equal scorer worse, in more than 5% of the pairs of a row.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from scoring.domain.gate import MARGIN, compute_bounds, compute_power, find_outcome

Array = npt.NDArray[np.float64]
LOSSES = (0.0, 0.01, 0.02, 0.05)
MOST_ERRORS = 0.05
RESAMPLES = 1000
SHARED = 0.5


@dataclass(frozen=True)
class Design:
    """``sizes`` are the labels of each prompt, in turn; the test split is a tenth of the prompts."""

    name: str
    prompts: int
    sizes: Sequence[int]
    accuracy: float
    prompt: float
    tested: int


DESIGNS = (
    Design("34 prompts, 170 labels", 34, (5,), 0.90, 0.3, 34),
    Design("34 prompts, 170 labels, errors by prompt", 34, (5,), 0.90, 0.9, 34),
    Design("150 prompts, 150 labels", 150, (1,), 0.90, 0.3, 15),
    Design("450 prompts, 2,250 labels (XSTest)", 450, (5,), 0.90, 0.3, 34),
    Design("450 prompts, 2,250 labels, errors by prompt", 450, (5,), 0.90, 0.9, 34),
    Design("450 prompts, 2,250 labels, accuracy .75", 450, (5,), 0.75, 0.3, 34),
    Design("450 prompts, 2,250 labels, accuracy .98", 450, (5,), 0.98, 0.3, 34),
    Design("600 prompts, 1 to 20 labels each", 600, (1, 1, 2, 4, 20), 0.85, 0.3, 60),
    Design("1,000 prompts, 17,000 labels (Flames)", 1000, (17,), 0.80, 0.3, 100),
)


def draw_pair(rng: np.random.Generator, design: Design, loss: float) -> tuple[Array, Array, int]:
    """By prompt: labels that the new scorer has right beyond the old one, and the labels; and how many they dispute."""
    number = design.prompts
    counts = np.resize(np.array(design.sizes), number)
    prompt = np.repeat(np.arange(number), counts)
    total = len(prompt)
    common, own = np.sqrt(SHARED), np.sqrt(1 - SHARED)
    by_prompt, residual = np.sqrt(design.prompt), np.sqrt(1 - design.prompt)

    def draw_luck(columns: int) -> Array:
        luck: Array = by_prompt * rng.standard_normal((number, columns))[
            prompt
        ] + residual * rng.standard_normal((total, columns))
        return luck

    luck = common * draw_luck(1) + own * draw_luck(2)
    thresholds = [NormalDist().inv_cdf(design.accuracy - loss), NormalDist().inv_cdf(design.accuracy)]
    right = (luck < np.array(thresholds)).astype(np.float64)
    change = right[:, 0] - right[:, 1]
    differences = np.bincount(prompt, weights=change, minlength=number)
    return differences, counts.astype(np.float64), int(np.abs(change).sum())


def passes_former_rule(differences: Array, counts: Array, seed: int) -> bool:
    """The rule until now: the upper end of the one-sided 95% interval does not lie below 0."""
    prompts = len(counts)
    drawn = np.random.default_rng(seed).multinomial(prompts, np.full(prompts, 1 / prompts), RESAMPLES)
    bound = np.quantile((drawn @ differences) / (drawn @ counts), 0.95, method="higher")
    return bool(bound >= 0)


@dataclass(frozen=True)
class Errors:
    """Shares of the pairs; the last two are medians of what the gate prints beside its verdict."""

    not_worse: float
    worse: float
    passed_before: float
    detectable_loss: float | None
    passing_margin: float | None


def measure_errors(design: Design, loss: float, *, pairs: int, margin: float = MARGIN) -> Errors:
    rng = np.random.default_rng([round(1000 * loss), *design.name.encode()])
    outcomes, before, losses, margins = [], [], [], []
    for seed in range(pairs):
        differences, counts, discordant = draw_pair(rng, design, loss)
        low, high = compute_bounds(differences, counts, resamples=RESAMPLES, seed=seed)
        power = compute_power(differences, counts, discordant=discordant, low=low, high=high)
        outcomes.append(find_outcome(low, high, margin))
        losses.append(power["detectable_loss"])
        margins.append(power["passing_margin"])
        before.append(passes_former_rule(differences[: design.tested], counts[: design.tested], seed))
    return Errors(
        outcomes.count("not_worse") / pairs,
        outcomes.count("worse") / pairs,
        float(np.mean(before)),
        find_median(losses),
        find_median(margins),
    )


def find_median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if 2 * len(known) > len(values) else None


def measure_power(design: Design, equal: Errors, *, pairs: int) -> tuple[float | None, float | None]:
    """How often what the gate says of its power comes true: a loss found worse, and a margin passed."""
    loss_power = margin_power = None
    if equal.detectable_loss is not None and equal.detectable_loss < design.accuracy:
        loss_power = measure_errors(design, equal.detectable_loss, pairs=pairs).worse
    if equal.passing_margin is not None:
        margin_power = measure_errors(design, 0.0, pairs=pairs, margin=equal.passing_margin).not_worse
    return loss_power, margin_power


def format_share(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--margin", type=float, default=100 * MARGIN, help="in points")
    options = parser.parse_args()
    margin = options.margin / 100
    heads = " | ".join(f"loss {100 * loss:g}" for loss in LOSSES)
    print(f"| labels | {heads} | detectable loss, found | passing margin, passed |")
    print("| --- |" + " ---: |" * (len(LOSSES) + 2))
    sound = True
    for design in DESIGNS:
        errors = [measure_errors(design, loss, pairs=options.pairs, margin=margin) for loss in LOSSES]
        loss_power, margin_power = measure_power(design, errors[0], pairs=options.pairs)
        cells = [
            f"{format_share(row.not_worse)} / {format_share(row.worse)} ({format_share(row.passed_before)})"
            for row in errors
        ]
        print(
            f"| {design.name} | {' | '.join(cells)} "
            f"| {format_share(errors[0].detectable_loss)}, {format_share(loss_power)} "
            f"| {format_share(errors[0].passing_margin)}, {format_share(margin_power)} |",
            flush=True,
        )
        sound &= errors[0].worse <= MOST_ERRORS and all(
            row.not_worse <= MOST_ERRORS
            for row, loss in zip(errors, LOSSES, strict=True)
            if loss >= margin - 1e-9
        )
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
