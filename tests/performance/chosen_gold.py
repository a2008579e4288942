"""What a scorer's figures, and agreement, say of all responses, by how the labelled ones were selected.

    python -m tests.performance.chosen_gold [--repetitions 200] [--responses 2000] [--labels 400]

The model: each response has a sureness from .5 to 1, and the scorer is right with exactly that probability, so it is
calibrated, and its accuracy on all responses is the mean sureness. The labels are selected in five ways: everything;
a random part; a draw within thirds of sureness that takes most from the least sure; the least sure first; and the same
with a random share of a fourth. ``as they are`` are the figures of the labelled; ``weighed`` are those by the chance of
selection that the product keeps with each label, "-" where it knows none. ``covers`` is how often the 95% interval
holds the accuracy on exactly these responses.

The second table is of agreement. Ten responses to a prompt are alike in how sure the scorer is of them, and the surer
it is, the more often both annotators see one level at once; else each names one by chance. The true figures are those
of the labels that all responses would get, the mean over all boards, and so of prompts that were never drawn.
``defined`` is how often alpha has an interval; agreement has one always.

The exit code is 1 if a weighed accuracy or agreement is off by more than half a point (alpha by two: few units), or
covers less than 93%, or if a weighed figure is given where the product can know no chance.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import numpy as np

from annotation.domain.agreement import count_by_prompt, measure_agreement
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


PROMPT_SIZE = 10
LEVELS, MARGINALS = (1, 2, 3), (0.6, 0.3, 0.1)
STATISTICS = ("percent_agreement", "alpha_nominal")
MAX_AGREEMENT_BIAS = {"percent_agreement": 0.005, "alpha_nominal": 0.02}


def draw_doubly_labelled(rng: np.random.Generator, responses: int) -> tuple[Floats, np.ndarray, np.ndarray]:
    """How sure the scorer is of each response, its prompt, and the two labels that it would get (N, 2)."""
    prompts = np.arange(responses) // PROMPT_SIZE
    easiness = rng.beta(1.6, 1.0, int(prompts[-1]) + 1)[prompts]
    sure = 0.5 + 0.5 * rng.beta(4 * easiness + 0.2, 4 * (1 - easiness) + 0.2)
    seen_alike = rng.random(responses) < 0.35 + 0.6 * (2 * sure - 1)
    levels = rng.choice(len(LEVELS), size=(responses, 3), p=MARGINALS)
    labels = np.where(seen_alike[:, None], levels[:, :1], levels[:, 1:])
    return sure, prompts, labels


def simulate_agreement(
    name: str, *, repetitions: int, responses: int, labels: int, seed: int = SEED
) -> dict[str, dict[str, float]]:
    """By statistic the means over boards of the true value and what the labelled and the weighed say of it, and how
    often the interval of the weighed holds the true one, where it is defined.
    """
    rng = np.random.default_rng((seed, 1, list(DESIGNS).index(name)))
    values: dict[str, list[list[float]]] = {statistic: [] for statistic in STATISTICS}
    for _repetition in range(repetitions):
        sure, prompts, labelled = draw_doubly_labelled(rng, responses)
        drawn, strata = DESIGNS[name](rng, sure, labels)
        chances = find_chances(responses, drawn, strata)
        weight = np.array([1 / chances[at] if at in chances else 0.0 for at in drawn.tolist()])
        every, plain, weighed = (
            measure_agreement(
                count_by_prompt(labelled[units], prompts[units], LEVELS, weight=weights),
                values=LEVELS,
                measurement="nominal",
                statistics=STATISTICS,
            ).statistics
            for units, weights in (
                (np.arange(responses), 1.0),
                (drawn, 1.0),
                (drawn, weight if weight.any() else -1.0),
            )
        )
        for statistic in STATISTICS:
            own = weighed[statistic]
            ends = [np.nan if end is None else end for end in (own.low, own.high)]
            known = own.value if weight.any() and own.value is not None else np.nan
            values[statistic].append(
                [every[statistic].value or np.nan, plain[statistic].value or np.nan, known, *ends]
            )
    return {statistic: _summarize_agreement(np.array(rows)) for statistic, rows in values.items()}


def _summarize_agreement(rows: np.ndarray) -> dict[str, float]:
    true = float(rows[:, 0].mean())
    known = not np.isnan(rows[:, 2]).all()
    defined = rows[~np.isnan(rows[:, 3])]
    covers = ((defined[:, 3] <= true) & (defined[:, 4] >= true)).mean() if len(defined) else np.nan
    weighed = float(np.nanmean(rows[:, 2])) if known else np.nan
    return {
        "true": true,
        "as_they_are": float(rows[:, 1].mean()),
        "weighed": weighed,
        "bias": weighed - true,
        "covers": float(covers) if known else np.nan,
        "defined": len(defined) / len(rows) if known else np.nan,
    }


def list_agreement_faults(name: str, figures: dict[str, dict[str, float]]) -> list[str]:
    if name in UNKNOWN:
        return [] if np.isnan(figures[STATISTICS[0]]["weighed"]) else [f"{name}: weighed without a chance"]
    faults = []
    for statistic, own in figures.items():
        if not abs(own["bias"]) <= MAX_AGREEMENT_BIAS[statistic]:
            faults.append(f"{name}: {statistic} off by {own['bias']:+.3f}")
        if not (own["covers"] >= MIN_COVERAGE or own["defined"] == 0):
            faults.append(f"{name}: {statistic} covers {own['covers']:.3f}")
    return faults


def show_agreement(options: argparse.Namespace) -> list[str]:
    heads = ("true", "labelled as they are", "weighed", "covers")
    columns = [f"{statistic}, {head}" for statistic in ("agreement", "alpha") for head in heads]
    print(f"\n| selection | labels | {' | '.join(columns)} | defined |")
    print("| --- |" + " ---: |" * (len(columns) + 2))
    faults: list[str] = []
    for labels in (options.labels, options.labels // 2, options.labels // 4):
        for name in DESIGNS:
            if name == "everything" and labels != options.labels:
                continue
            figures = simulate_agreement(
                name, repetitions=options.repetitions, responses=options.responses, labels=labels
            )
            cells = [str(options.responses if name == "everything" else labels)]
            for own in figures.values():
                cells += [f"{own['true']:.3f}", f"{own['as_they_are']:.3f}"]
                cells += ["-" if np.isnan(own["weighed"]) else f"{own['weighed']:.3f}"]
                cells += ["-" if np.isnan(own["covers"]) else f"{100 * own['covers']:.1f}"]
            defined = figures[STATISTICS[1]]["defined"]
            cells += ["-" if np.isnan(defined) else f"{100 * defined:.0f}"]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)
            faults += [f"{labels} labels, {fault}" for fault in list_agreement_faults(name, figures)]
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
    faults += show_agreement(options)
    print(f"\nnot as promised: {'; '.join(faults) or 'nothing'}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
