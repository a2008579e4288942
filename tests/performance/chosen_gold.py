"""What a scorer's figures say of all responses, by how the labelled ones were selected.

    python -m tests.performance.chosen_gold [--repetitions 200] [--responses 2000] [--labels 400]

The model: each response has a sureness from .5 to 1, and the scorer is right with exactly that probability, so it is
calibrated, and its accuracy on all responses is the mean sureness. The labels are selected in five ways: everything;
a random part; a draw within thirds of sureness that takes most from the least sure; the least sure first; and the same
with a random share of a fourth. ``as they are`` are the figures of the labelled; ``weighed`` are those by the chance of
selection that the product keeps with each label, "-" where it knows none. ``covers`` is how often the 95% interval
holds the accuracy on exactly these responses.

The exit code is 1 if a weighed accuracy is off by more than half a point, or covers less than 93%, or if a weighed
figure is given where the product can know no chance.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import numpy as np

from annotation.domain.releases.selection import (
    LEAST_SURE,
    BatchGold,
    DrawnStratum,
    compute_chance,
    judge_cell,
)
from scoring.domain.evaluation.weighing import WeighedLabel, measure_weighed
from scoring.domain.training_data import Head

SEED = 20261123
HEAD = Head("safety", (0, 1), "nominal")
MAX_BIAS, MIN_COVERAGE = 0.005, 0.93
RANDOM_SHARE = 0.25
SHARES = (0.6, 0.3, 0.1)
"""Of the labels, by thirds of sureness from the least sure on."""
Floats = np.ndarray
Draw = tuple[np.ndarray, list[DrawnStratum] | None]
"""The labelled responses, and the strata that are recorded of it."""


def build_stratum(
    low: float, high: float, pool: np.ndarray, drawn: np.ndarray, reason: str = ""
) -> DrawnStratum:
    chance, _reason = compute_chance(len(drawn), pool=len(pool), held=0, drawn_before=0)
    responses = tuple(int(response) for response in drawn)
    return DrawnStratum(
        "M", "all", low, high, len(pool), len(drawn), None if reason else chance, reason, responses
    )


def take_all(_rng: np.random.Generator, sure: Floats, _labels: int) -> Draw:
    return np.arange(len(sure)), None


def draw_random(rng: np.random.Generator, sure: Floats, labels: int) -> Draw:
    drawn = rng.choice(len(sure), labels, replace=False)
    return drawn, [build_stratum(0, 1, np.arange(len(sure)), drawn)]


def draw_strata(rng: np.random.Generator, sure: Floats, labels: int) -> Draw:
    edges = [0.0, *np.quantile(sure, [1 / 3, 2 / 3]), 1.01]
    drawn, strata = [], []
    for low, high, share in zip(edges[:-1], edges[1:], SHARES, strict=True):
        pool = np.flatnonzero((sure >= low) & (sure < high))
        part = rng.choice(pool, min(len(pool), round(labels * share)), replace=False)
        drawn.append(part)
        strata.append(build_stratum(float(low), float(high), pool, part))
    return np.concatenate(drawn), strata


def take_least_sure(_rng: np.random.Generator, sure: Floats, labels: int) -> Draw:
    return np.argsort(sure)[:labels], None


def mix_random_share(rng: np.random.Generator, sure: Floats, labels: int) -> Draw:
    whole_pool = np.arange(len(sure))
    share = rng.choice(whole_pool, round(labels * RANDOM_SHARE), replace=False)
    rest = np.setdiff1d(whole_pool, share)
    unsure = rest[np.argsort(sure[rest])][: labels - len(share)]
    strata = [build_stratum(0, 1, whole_pool, share), build_stratum(0, 1, whole_pool, unsure, LEAST_SURE)]
    return np.concatenate([share, unsure]), strata


DESIGNS: dict[str, Callable[[np.random.Generator, Floats, int], Draw]] = {
    "everything": take_all,
    "a random part": draw_random,
    "strata, the unsure more": draw_strata,
    "the least sure first": take_least_sure,
    "the same, a fourth at random": mix_random_share,
}
UNKNOWN = {"the least sure first"}


def find_chances(pool: int, drawn: np.ndarray, strata: list[DrawnStratum] | None) -> dict[int, float]:
    """As a release that is cut from it keeps them."""
    counted = None if strata is None else [(stratum, len(stratum.responses or ())) for stratum in strata]
    cell = judge_cell(pool, len(drawn), [BatchGold("b", len(drawn), len(drawn), strata=counted)])
    if cell.is_whole:
        return dict.fromkeys(map(int, drawn), 1.0)
    return {
        response: cell.chances[stratum.bounds]
        for stratum in strata or ()
        if stratum.chance is not None and stratum.bounds in cell.chances
        for response in stratum.responses or ()
    }


def simulate(
    name: str, *, repetitions: int, responses: int, labels: int, seed: int = SEED
) -> dict[str, float]:
    """Means over boards of the true accuracy and what the labelled and the weighed say of it, and the coverages."""
    rng = np.random.default_rng((seed, list(DESIGNS).index(name)))
    rows = []
    for _repetition in range(repetitions):
        sure = 0.5 + 0.5 * rng.beta(1.6, 1.0, responses)
        truth = rng.integers(0, 2, responses)
        right = rng.random(responses) < sure
        answer = np.where(right, truth, 1 - truth)
        drawn, strata = DESIGNS[name](rng, sure, labels)
        chances = find_chances(responses, drawn, strata)
        weighed_labels = [
            WeighedLabel(
                str(at), HEAD.criterion, int(truth[at]), int(answer[at]), float(sure[at]), chances.get(at)
            )
            for at in map(int, drawn)
        ]
        weighed = measure_weighed(weighed_labels, [HEAD], resamples=300)
        if weighed is None and chances:  # all of one chance, so that the labelled are weighed as they are
            weighed = measure_weighed(
                [*weighed_labels, WeighedLabel("", HEAD.criterion, 0, 0, 1.0, None)], [HEAD], resamples=300
            )
        real = float(right.mean())
        row = [real, float(right[drawn].mean()), np.nan, np.nan, np.nan, np.nan]
        if weighed is not None:
            accuracy = weighed["accuracy"]
            held = len(drawn) == responses or accuracy["low"] <= real <= accuracy["high"]
            row[2:] = [accuracy["value"], accuracy["value"] - real, held, weighed["effective"]]
        rows.append(row)
    means = np.mean(rows, axis=0)
    names = ("true", "as_they_are", "weighed", "bias", "covers", "effective")
    return dict(zip(names, map(float, means), strict=True))


def list_faults(name: str, figures: dict[str, float]) -> list[str]:
    if name in UNKNOWN:
        return [] if np.isnan(figures["weighed"]) else [f"{name}: weighed without a chance"]
    faults = []
    if not abs(figures["bias"]) <= MAX_BIAS:
        faults.append(f"{name}: off by {figures['bias']:+.3f}")
    if not figures["covers"] >= MIN_COVERAGE:
        faults.append(f"{name}: covers {figures['covers']:.3f}")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--responses", type=int, default=2000)
    parser.add_argument("--labels", type=int, default=400)
    options = parser.parse_args()
    print("| selection | true accuracy | labelled as they are | weighed | covers | effective n |")
    print("| --- |" + " ---: |" * 5)
    faults: list[str] = []
    for name in DESIGNS:
        figures = simulate(
            name, repetitions=options.repetitions, responses=options.responses, labels=options.labels
        )
        cells = [f"{figures['true']:.3f}", f"{figures['as_they_are']:.3f}"]
        cells += ["-" if np.isnan(figures["weighed"]) else f"{figures['weighed']:.3f}"]
        cells += ["-" if np.isnan(figures["covers"]) else f"{100 * figures['covers']:.1f}"]
        cells += ["-" if np.isnan(figures["effective"]) else f"{figures['effective']:.0f}"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        faults += list_faults(name, figures)
    print(f"\nnot as promised: {'; '.join(faults) or 'nothing'}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
