"""How often the intervals of the agreement statistics hold the true value.

    python -m tests.performance.coverage [--sets 500]

The model: of two raters, the first labels a unit by a draw from the marginal distribution pi. With probability a the
second gives the same label, else they draw one of their own from pi. The joint distribution is then
a diag(pi) + (1 - a) pi pi', so labels of one unit are as far apart as labels of two units times (1 - a), by whatever
distance: in the population every alpha, Cohen's kappas, Scott's pi and Fleiss' kappa are exactly a. Percent agreement
is a + (1 - a) sum pi_k^2, and the true AC1 and AC2 follow from it and pi.

A row is a marginal distribution, a true alpha and a number of units; a figure is the share of the data sets whose 95%
interval held the truth; each unit is the one response to a prompt. In 500 sets that share varies by 1% (one standard
deviation) around 95%. Where a statistic had no interval in some data sets (fewer than five disputes) these are left out
of the share, and their number stands beside it. The exit code is 1 if any share of at least 25 data sets is below 93%
by more than two standard deviations. ``prompt_coverage`` has several responses to a prompt.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

import numpy as np

from annotation.domain.agreement import STATISTICS, count_label_patterns, measure_agreement
from annotation.domain.agreement import coefficients as formulas
from annotation.domain.agreement.patterns import Floats, Ints

SCALE = (1, 2, 3)
MARGINALS = ((1 / 3, 1 / 3, 1 / 3), (0.7, 0.2, 0.1), (0.85, 0.1, 0.05))
ALPHAS = (0.4, 0.8)
UNITS = (30, 100, 300)
PROMISED = 0.93
MIN_SETS = 25


def truths(marginal: Floats, alpha: float) -> Mapping[str, float]:
    """The value of each statistic in the population."""
    return {
        **dict.fromkeys(STATISTICS, alpha),
        "percent_agreement": 1 - mean_distance(marginal, alpha, formulas.nominal(SCALE)),
        "gwet_ac1": gwet(marginal, alpha, formulas.nominal(SCALE)),
        "gwet_ac2": gwet(marginal, alpha, formulas.quadratic_weights(SCALE)),
    }


def mean_distance(marginal: Floats, alpha: float, distances: Floats) -> float:
    """The mean distance between the two labels of a unit."""
    return (1 - alpha) * float(marginal @ distances @ marginal)


def gwet(marginal: Floats, alpha: float, distances: Floats) -> float:
    chance = formulas.chance_share(distances) * float(marginal @ (1 - marginal))
    return 1 - mean_distance(marginal, alpha, distances) / (1 - chance)


def labels(rng: np.random.Generator, marginal: Floats, alpha: float, units: int) -> Ints:
    """(units, 2) level codes."""
    first, second = rng.choice(len(marginal), size=(2, units), p=marginal)
    return np.stack([first, np.where(rng.random(units) < alpha, first, second)], axis=1)


def measure_coverage(marginal: Floats, alpha: float, units: int, *, sets: int) -> dict[str, tuple[int, int]]:
    """For each statistic, in how many data sets the interval held the truth and in how many it was defined."""
    rng = np.random.default_rng((units, round(100 * alpha), round(100 * marginal[0])))
    true = truths(marginal, alpha)
    held, defined = dict.fromkeys(STATISTICS, 0), dict.fromkeys(STATISTICS, 0)
    for _set in range(sets):
        patterns = count_label_patterns(labels(rng, marginal, alpha, units), SCALE)
        result = measure_agreement(patterns, values=SCALE, measurement="interval")
        for name, statistic in result.statistics.items():
            if statistic.low is not None and statistic.high is not None:
                defined[name] += 1
                held[name] += statistic.low <= true[name] <= statistic.high
    return {name: (held[name], defined[name]) for name in STATISTICS}


def format_share(held: int, defined: int, sets: int) -> str:
    share = f"{100 * held / defined:.1f}" if defined else "-"
    return share if defined == sets else f"{share} ({sets - defined})"


def is_low(held: int, defined: int) -> bool:
    """Whether the share lies below what is promised by more than chance."""
    noise = 2 * (PROMISED * (1 - PROMISED) / max(1, defined)) ** 0.5
    return defined >= MIN_SETS and held / defined < PROMISED - noise


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=500)
    options = parser.parse_args()
    print("| marginals | true alpha | units |", " | ".join(STATISTICS), "|")
    print("| --- | ---: | ---: |", " | ".join(["---:"] * len(STATISTICS)), "|")
    wrong = []
    for marginal in map(np.array, MARGINALS):
        for alpha in ALPHAS:
            for units in UNITS:
                shares = measure_coverage(marginal, alpha, units, sets=options.sets)
                wrong += [name for name, share in shares.items() if is_low(*share)]
                figures = " | ".join(format_share(*shares[name], options.sets) for name in STATISTICS)
                print(
                    f"| {' '.join(f'{p:.2f}' for p in marginal)} | {alpha} | {units} | {figures} |",
                    flush=True,
                )
    print(f"below {PROMISED:.0%}: {', '.join(wrong) or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
