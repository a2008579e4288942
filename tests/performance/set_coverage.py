"""How often the intervals of agreement on sets of options hold.

    python -m tests.performance.set_coverage [--sets 500]

The model: each of a prompt's options applies to its responses with a share of its own, and a prompt has a share of
(response, option) that a rater sees as it is; both are drawn from beta distributions with the intraclass correlation of
the row. What is not seen as it is, is drawn with the option's share over all prompts. Who chose nothing chooses the
last option, "none". The truth is the value over 60,000 prompts. A row is a design: prompts, responses to each, options
beside "none", the mean share that is seen as it is, intraclass correlation. The exit code is 1 where a row covers less
than 93%.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from annotation.domain.agreement import PromptCounts, count_by_prompt, measure_agreement
from tests.performance.prompt_coverage import PROMISED, Coverage

NAMES = ("percent_agreement", "alpha_nominal", "alpha_masi")
MANY_PROMPTS = 60_000
MANY_AT_ONCE = 10_000
SHARES = (0.4, 0.2, 0.1)


@dataclass(frozen=True)
class SetDesign:
    prompts: int
    responses: int
    seen: float
    correlation: float

    @property
    def name(self) -> str:
        return f"{self.prompts} x {self.responses} | {self.seen} | {self.correlation}"


DESIGNS = (
    SetDesign(100, 5, 0.85, 0.1),
    SetDesign(100, 5, 0.85, 0.3),
    SetDesign(30, 5, 0.85, 0.2),
    SetDesign(200, 1, 0.85, 0.0),
    SetDesign(50, 2, 0.6, 0.2),
)


def draw_sets(rng: np.random.Generator, design: SetDesign, prompts: int) -> npt.NDArray[np.int64]:
    """(prompts * responses, 2): what two raters chose, as sums of options."""

    def draw_around(mean: float) -> npt.NDArray[np.float64]:
        if not design.correlation:
            return np.full(prompts, mean)
        spread = (1 - design.correlation) / design.correlation
        return rng.beta(mean * spread, (1 - mean) * spread, prompts)

    prompt = np.repeat(np.arange(prompts), design.responses)
    seen = draw_around(design.seen)[prompt]
    sets = np.zeros((len(prompt), 2), dtype=np.int64)
    for option, share in enumerate(SHARES):
        applies = rng.random(len(prompt)) < draw_around(share)[prompt]
        for rater in range(2):
            guessed = rng.random(len(prompt)) < share
            holds = np.where(rng.random(len(prompt)) < seen, applies, guessed)
            sets[:, rater] += holds << option
    return np.where(sets == 0, 1 << len(SHARES), sets)


def count_sets(
    rng: np.random.Generator, design: SetDesign, prompts: int
) -> tuple[PromptCounts, tuple[int, ...]]:
    sets = draw_sets(rng, design, prompts)
    values, codes = np.unique(sets, return_inverse=True)
    prompt = np.repeat(np.arange(prompts), design.responses)
    scale = tuple(int(value) for value in values)
    return count_by_prompt(codes.reshape(sets.shape), prompt, scale), scale


def measure_sets(
    counts: PromptCounts, scale: tuple[int, ...], *, intervals: bool
) -> dict[str, tuple[float, ...]]:
    measured = measure_agreement(
        counts, values=scale, measurement="masi", statistics=NAMES, intervals=intervals
    )
    return {
        name: (
            np.nan if statistic.value is None else statistic.value,
            np.nan if statistic.low is None else statistic.low,
            np.nan if statistic.high is None else statistic.high,
        )
        for name, statistic in measured.statistics.items()
    }


def find_truths(design: SetDesign) -> dict[str, float]:
    rng = np.random.default_rng(7)
    parts = [
        measure_sets(*count_sets(rng, design, MANY_AT_ONCE), intervals=False)
        for _part in range(MANY_PROMPTS // MANY_AT_ONCE)
    ]
    return {name: float(np.mean([part[name][0] for part in parts])) for name in NAMES}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=500)
    sets = parser.parse_args().sets
    print(f"| prompts x responses | seen | intraclass | alpha MASI | {' | '.join(NAMES)} |")
    low = []
    for design in DESIGNS:
        rng, truths = np.random.default_rng(11), find_truths(design)
        coverage = {name: Coverage() for name in NAMES}
        for _set in range(sets):
            measured = measure_sets(*count_sets(rng, design, design.prompts), intervals=True)
            for name, (_value, bottom, top) in measured.items():
                if not np.isnan(bottom):
                    coverage[name].add(bottom, top, truths[name])
        figures = " | ".join(coverage[name].format() for name in NAMES)
        print(f"| {design.name} | {truths['alpha_masi']:.3f} | {figures} |", flush=True)
        low += [name for name in NAMES if (share := coverage[name].share) is not None and share < PROMISED]
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
