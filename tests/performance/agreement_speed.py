"""The agreement statistics beside the libraries, in one run on the same labels.

    python -m tests.performance.agreement_speed [--units 1000000] [--repeat 5]

Two raters, three levels, labels as one (N, 2) array of level codes; a twentieth are missing. Each figure is the
shortest of ``--repeat`` runs, by the wall and by the processor: where others use the machine, the processor's time is
the steadier of the two. The libraries get their labels as they want them (krippendorff floats with nan, raters in
rows; scikit-learn two columns; statsmodels a table), and counting is part of every figure but where it says "counted".

A page measures many small groups, so the last lines time one call for nine patterns, as often as not asked before
(each with its own confidence), and once more when asked again.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from itertools import count

import krippendorff
import numpy as np
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa, fleiss_kappa

from annotation.domain.agreement import (
    STATISTICS,
    Patterns,
    PromptCounts,
    count_by_prompt,
    count_label_patterns,
    measure_agreement,
    measure_difference,
)
from annotation.domain.agreement.patterns import Floats, Ints

SCALE = (1, 2, 3)
LEVEL = "ordinal"


def labels_of(units: int, *, missing: float) -> Ints:
    rng = np.random.default_rng(0)
    first, second = rng.choice(3, size=(2, units), p=[0.5, 0.3, 0.2])
    labels = np.stack([first, np.where(rng.random(units) < 0.7, first, second)], axis=1)
    labels[rng.random(labels.shape) < missing] = -1
    return labels


def compute_alpha(
    patterns: Patterns | PromptCounts,
    *,
    intervals: bool = False,
    statistics: tuple[str, ...] = ("alpha_ordinal",),
) -> float:
    result = measure_agreement(
        patterns,
        values=SCALE,
        measurement=LEVEL,
        statistics=statistics,
        intervals=intervals,
        confidence=next(CONFIDENCES),
    )
    return result.statistics[statistics[0]].value or 0.0


CONFIDENCES = count(0.9, 1e-9)  # so that no result is found kept


def library_alpha(floats: Floats) -> float:
    return float(krippendorff.alpha(reliability_data=floats, value_domain=SCALE, level_of_measurement=LEVEL))


def resampled_units(floats: Floats, resamples: int) -> tuple[float, float]:
    """The plain way: units drawn with replacement, and the library's alpha of each draw."""
    rng = np.random.default_rng(0)
    units = floats.shape[1]
    alphas = [library_alpha(floats[:, rng.integers(units, size=units)]) for _ in range(resamples)]
    low, high = np.quantile(alphas, [0.025, 0.975])
    return float(low), float(high)


def show_times(name: str, run: Callable[[], object], repeat: int, *, times: int = 1) -> None:
    """A row: the shortest wall and processor time of one call, in milliseconds."""
    walls, processors = [], []
    for _ in range(repeat):
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(times):
            run()
        walls.append((time.perf_counter() - wall) / times)
        processors.append((time.process_time() - processor) / times)
    print(f"| {name} | {1000 * min(walls):,.3f} | {1000 * min(processors):,.3f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--units", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    repeat = options.repeat
    print(f"Python {platform.python_version()}, numpy {np.__version__}, {options.units:,} units x 2\n")
    labels = labels_of(options.units, missing=0.05)
    floats = np.where(labels < 0, np.nan, np.array(SCALE)[labels]).T
    counted = count_label_patterns(labels, SCALE)
    assert abs(compute_alpha(counted) - library_alpha(floats)) < 1e-9
    print("| what | wall, ms | processor, ms |\n| --- | ---: | ---: |")
    show_times("alpha: from labels", lambda: compute_alpha(count_label_patterns(labels, SCALE)), repeat)
    show_times("alpha: `krippendorff.alpha`", lambda: library_alpha(floats), repeat)
    show_times(
        "alpha with its interval, counted",
        lambda: compute_alpha(counted, intervals=True),
        repeat,
        times=20,
    )
    all_statistics = STATISTICS[::-1]
    show_times(
        "all statistics with their intervals, counted",
        lambda: compute_alpha(counted, intervals=True, statistics=all_statistics),
        repeat,
        times=20,
    )
    full = labels[(labels >= 0).all(axis=1)]
    show_times(
        "kappa: from labels",
        lambda: compute_alpha(count_label_patterns(full, SCALE), statistics=("cohen_kappa",)),
        repeat,
    )
    show_times("kappa: `cohen_kappa_score`", lambda: cohen_kappa_score(*full.T), repeat)
    table = np.array([[counted[first, second] for second in SCALE] for first in SCALE])
    show_times("kappa: statsmodels `cohens_kappa`, counted", lambda: cohens_kappa(table), repeat)
    ratings = (full[:, :, None] == np.arange(3)).sum(axis=1)
    show_times(
        "Fleiss' kappa: from labels",
        lambda: compute_alpha(count_label_patterns(full, SCALE), statistics=("fleiss_kappa",)),
        repeat,
    )
    show_times("Fleiss' kappa: statsmodels, from (N, 3) counts", lambda: fleiss_kappa(ratings), repeat)
    ten = floats[:, :10_000]
    ten_counted = count_label_patterns(labels[:10_000], SCALE)
    show_times(
        "10,000 units: alpha with its interval, counted",
        lambda: compute_alpha(ten_counted, intervals=True),
        repeat,
        times=20,
    )
    of_prompts = count_by_prompt(labels[:10_000], np.arange(10_000) // 10, SCALE)
    show_times(
        "10,000 units of 1,000 prompts: alpha with its interval, counted",
        lambda: compute_alpha(of_prompts, intervals=True),
        repeat,
        times=20,
    )
    show_times(
        "10,000 units of 1,000 prompts: all statistics with their intervals, counted",
        lambda: compute_alpha(of_prompts, intervals=True, statistics=all_statistics),
        repeat,
        times=20,
    )
    show_times(
        "10,000 units: 1,000 resamples of units, `krippendorff`", lambda: resampled_units(ten, 1000), 1
    )
    few = count_label_patterns(labels_of(400, missing=0), SCALE)
    two = ("percent_agreement", "alpha_ordinal")
    show_times(
        f"400 units in {len(few)} patterns: two statistics with their intervals",
        lambda: compute_alpha(few, intervals=True, statistics=two),
        repeat,
        times=100,
    )
    show_times("the same without intervals", lambda: compute_alpha(few, statistics=two), repeat, times=100)
    show_times(
        "the same, asked again",
        lambda: measure_agreement(few, values=SCALE, measurement=LEVEL, statistics=two),
        repeat,
        times=100,
    )
    show_times(
        "difference of alpha between two such",
        lambda: measure_difference(
            few, ten_counted, values=SCALE, measurement=LEVEL, statistic="alpha_ordinal"
        ),
        repeat,
        times=20,
    )


if __name__ == "__main__":
    main()
