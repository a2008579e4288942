"""How often prediction-powered intervals hold the true rate, and how much narrower they are than gold labels alone.

    python -m tests.performance.ppi_coverage [--repetitions 2000] [--labels 200] [--responses 1000]

The model: a response is harmless with the true rate; the scorer says what it is with the given probability, whichever
it is (symmetric errors); the labelled are a simple random sample of the responses. ``people`` is Wilson's interval of
the gold labels, ``people, finite`` the same with the finite-population correction; ``combined`` is PPI++ with a tuned
weight, ``finite`` its form for exactly these responses. ``published`` is PPI++ as its paper has it, without what is
done here about few labels. Finite intervals are to hold the share among the drawn responses, the others the true rate.

In the last rows half of the responses are unsure (the scorer is right 60% of the time) and half are sure (95%), and
three in four labels are drawn from the unsure, but five from the sure at least, as strata have: ``strata`` is the
estimate within the two, ``one`` forgets them.

The exit code is 1 if an interval of ours covers less than 93% with ten labels or more, or, at 200 labels of 1,000, more
than 97%, or is not as narrow there as ``PROMISED`` at a true rate of .5.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import numpy as np

from annotation.core.proportions import Z
from benchmark.domain.estimates.estimates import MIN_LABELLED
from benchmark.domain.estimates.prediction_powered import (
    Estimate,
    Floats,
    Interval,
    MetricScale,
    build_stratum,
    estimate_mean,
    join_strata,
)

RATES = (0.5, 0.2, 0.85)
RIGHT = (0.77, 0.9)
COVERS = (0.93, 0.97)
PROMISED = {
    0.77: {("combined", "people"): 0.10, ("finite", "people"): 0.20, ("finite", "people, finite"): 0.14},
    0.9: {("combined", "people"): 0.25, ("finite", "people"): 0.40, ("finite", "people, finite"): 0.38},
}
"""By how often the scorer is right: how much narrower one interval is than another, at least."""
SEED = 20260101
UNSURE, SURE = 0.6, 0.95
Named = dict[str, Interval]
LEAST_LABELS = 10
"""The product gives no interval below ``grounds.MIN_LABELS``, which is more."""


def simulate(
    rng: np.random.Generator, *, repetitions: int, responses: int, rate: float, right: float
) -> tuple[Floats, Floats]:
    """(repetitions, responses) true labels and predictions."""
    truth = (rng.random((repetitions, responses)) < rate).astype(float)
    says_so = rng.random((repetitions, responses)) < right
    return truth, np.where(says_so, truth, 1 - truth)


def intervals(truth: Floats, predicted: Floats, labels: int) -> tuple[Named, Estimate]:
    """Of the first ``labels`` responses of each repetition, which are as random as any."""
    cell = build_stratum(truth[:, :labels], predicted[:, :labels], predicted[:, labels:])
    ours, people_only = estimate_mean(cell, MetricScale()), estimate_mean(cell, MetricScale(), weight=0)
    named = {
        "people": people_only.combined,
        "people, finite": people_only.finite,
        "published": published_interval(truth[:, :labels], predicted[:, :labels], predicted[:, labels:]),
        "combined": ours.combined,
        "finite": ours.finite,
    }
    return named, ours


def published_interval(gold: Floats, predicted: Floats, unlabelled: Floats) -> Interval:
    """PPI++ of a mean as its paper has it (arXiv 2311.01453, section 2 and example 6.1): lambda clipped to 0 to 1."""
    n, rest = gold.shape[-1], unlabelled.shape[-1]
    all_predictions = np.concatenate([predicted, unlabelled], axis=-1)
    centred = gold - gold.mean(axis=-1, keepdims=True), predicted - predicted.mean(axis=-1, keepdims=True)
    covariance = (centred[0] * centred[1]).mean(axis=-1)
    weight = np.clip(covariance / ((1 + n / rest) * all_predictions.var(axis=-1)), 0, 1)[..., None]
    value = weight[..., 0] * unlabelled.mean(axis=-1) + (gold - weight * predicted).mean(axis=-1)
    variance = (weight[..., 0] ** 2) * unlabelled.var(axis=-1) / rest + (gold - weight * predicted).var(
        axis=-1
    ) / n
    half = Z * np.sqrt(variance)
    return Interval(value - half, value + half)


def measure_coverage(interval: Interval, truth: float | Floats) -> float:
    return float(((interval.low <= truth) & (truth <= interval.high)).mean())


def narrowing(interval: Interval, other: Interval) -> float:
    return float(1 - interval.width.mean() / other.width.mean())


def is_published_size(options: argparse.Namespace) -> bool:
    return (options.labels, options.responses) == (200, 1000)


def find_promise(options: argparse.Namespace) -> tuple[float, float]:
    """The least and the largest share that intervals are to hold."""
    if is_published_size(options):
        return COVERS
    return (COVERS[0] if options.labels >= LEAST_LABELS else 0.0), 1.0


def of_rate(rate: float, right: float, options: argparse.Namespace) -> Iterator[str]:
    """Prints a line; yields what is not as promised."""
    rng = np.random.default_rng((SEED, round(100 * rate), round(100 * right)))
    truth, predicted = simulate(
        rng, repetitions=options.repetitions, responses=options.responses, rate=rate, right=right
    )
    named, ours = intervals(truth, predicted, options.labels)
    targets = {name: truth.mean(axis=1) if name.endswith("finite") else rate for name in named}
    shares = {name: measure_coverage(interval, targets[name]) for name, interval in named.items()}
    figures = [f"{100 * share:.1f}" for share in shares.values()]
    gains = {pair: narrowing(named[pair[0]], named[pair[1]]) for pair in PROMISED[right]}
    figures += [f"{100 * gain:.1f}" for gain in gains.values()]
    print(f"| {rate} | {right} | {ours.weight.mean():.2f} | {' | '.join(figures)} |", flush=True)
    least, most = find_promise(options)
    for name in ("combined", "finite"):
        if not least <= shares[name] <= most:
            yield f"{name} covers {shares[name]:.3f} at a rate of {rate}, right {right}"
    if rate == 0.5 and is_published_size(options):
        for pair, least in PROMISED[right].items():
            if gains[pair] < least:
                yield f"{pair[0]} is narrower than {pair[1]} by {gains[pair]:.3f}, right {right}"


def oversampled(rate: float, options: argparse.Namespace) -> Iterator[str]:
    """The unsure half labelled three times as often as the sure one."""
    rng = np.random.default_rng((SEED, round(100 * rate)))
    half, labels = options.responses // 2, options.labels
    # A response of which the scorer is unsure is harmless less often.
    rates = rate - 0.1, rate + 0.1
    sure = max(MIN_LABELLED, labels // 4)
    shares = labels - sure, sure
    parts = [
        (*simulate(rng, repetitions=options.repetitions, responses=half, rate=own, right=right), n)
        for own, right, n in zip(rates, (UNSURE, SURE), shares, strict=True)
    ]
    strata = join_strata([build_stratum(y[:, :n], f[:, :n], f[:, n:]) for y, f, n in parts])
    forgotten = build_stratum(
        np.concatenate([y[:, :n] for y, _f, n in parts], axis=1),
        np.concatenate([f[:, :n] for _y, f, n in parts], axis=1),
        np.concatenate([f[:, n:] for _y, f, n in parts], axis=1),
    )
    sample_rate = np.concatenate([y for y, *_rest in parts], axis=1).mean(axis=1)
    within, forgetting = estimate_mean(strata, MetricScale()), estimate_mean(forgotten, MetricScale())
    shares_covered = [
        measure_coverage(within.combined, rate),
        measure_coverage(within.finite, sample_rate),
        measure_coverage(forgetting.finite, sample_rate),
    ]
    bias = [float((result.value - sample_rate).mean()) for result in (within, forgetting)]
    print(
        f"| {rate} | {' | '.join(f'{100 * x:.1f}' for x in shares_covered)}"
        f" | {' | '.join(f'{100 * x:+.2f}' for x in bias)} |"
    )
    least, most = find_promise(options)
    for name, share in zip(("combined", "finite"), shares_covered, strict=False):
        if not least <= share <= most:
            yield f"within strata {name} covers {share:.3f} at a rate of {rate}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--labels", type=int, default=200)
    parser.add_argument("--responses", type=int, default=1000)
    options = parser.parse_args()
    wrong = []
    print(
        "| true rate | right | lambda | covers: people | people, finite | published | combined | finite |",
        end="",
    )
    print(" combined / people | finite / people | finite / people, finite |")
    print("| ---: " * 11 + "|")
    for rate in RATES:
        for right in RIGHT:
            wrong += list(of_rate(rate, right, options))
    print("\n| true rate | strata, combined | strata, finite | one, finite | bias, strata | bias, one |")
    print("| ---: " * 6 + "|")
    for rate in RATES:
        wrong += list(oversampled(rate, options))
    print(f"\nnot as promised: {'; '.join(wrong) or 'nothing'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
