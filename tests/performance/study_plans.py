"""Whether studies as large as planned keep what the plan says.

    python -m tests.performance.study_plans [--studies 200]

Agreement: two labels of each response, drawn as ``prompt_coverage`` draws them: a prompt has a share of responses that
both annotators see alike and levels of its own, both with the intraclass correlation of the row. The plan is given what
a manager has: the design effect D that the agreement page printed for an earlier study (here the mean of 50 of 100
prompts), as a similarity of (D - 1) / (m - 1) for m responses to a prompt. A row gives the wanted half-width, the
planned prompts, and of so many studies the mean half-width that ``annotation.domain.agreement`` prints and the share of
its intervals that hold the alpha of the model.

Difference: models answer the same prompts; each prompt makes the outcomes of two models correlated as the plan is given
(a common normal factor); the first model lies the wanted difference above the others, which are equal. A row gives the
planned prompts, the share of the first model's differences that are separated by z tests of paired differences with
Bonferroni's bound over all pairs (80 planned), and the share of studies in which any two equal models are (5 at most).

The exit code is 1 if a mean half-width is more than a fifth away from the wanted one, a difference is separated in less
than 75% of its studies, or equal models are in more than 7%.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from itertools import combinations
from math import sqrt

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri
from scipy.stats import multivariate_normal

from annotation.domain.agreement import measure_agreement
from annotation.domain.planning import AgreementDesign, ComparisonDesign, plan_agreement, plan_comparison
from tests.performance.prompt_coverage import Design, simulate_counts

THREE = (0.6, 0.25, 0.15)
AGREEMENT = (
    (AgreementDesign(0.7, THREE, 2, 5), 0.1, 0.05),
    (AgreementDesign(0.7, THREE, 2, 17), 0.1, 0.05),
    (AgreementDesign(0.7, THREE, 2, 17), 0.33, 0.05),
    (AgreementDesign(0.7, THREE, 2, 1), 0.0, 0.05),
    (AgreementDesign(0.9, (0.9, 0.1), 2, 10), 0.2, 0.05),
    (AgreementDesign(0.5, (0.5, 0.5), 2, 10), 0.2, 0.1),
)
"""With the intraclass correlation of the model and the wanted half-width."""
COMPARISON = (
    (ComparisonDesign(0.7, 2, 0.2), 0.10),
    (ComparisonDesign(0.7, 5, 0.2), 0.10),
    (ComparisonDesign(0.7, 10, 0.4), 0.10),
    (ComparisonDesign(0.9, 10, 0.1), 0.05),
    (ComparisonDesign(0.35, 10, 0.2), 0.15),
)
"""With the wanted difference."""
MAX_ERROR, MIN_POWER, MAX_FALSE = 0.2, 0.75, 0.07


def measure_similarity(design: AgreementDesign, correlation: float) -> float:
    """As an earlier study shows it."""
    if design.responses == 1:
        return 0.0
    drawn = Design(100, design.responses, design.shares, design.alpha, correlation)
    rng = np.random.default_rng(1)
    values = range(1, len(design.shares) + 1)
    effects = [
        measure_agreement(
            simulate_counts(rng, drawn), values=values, measurement="nominal", statistics=["alpha_nominal"]
        )
        .statistics["alpha_nominal"]
        .design_effect
        for _study in range(50)
    ]
    mean = float(np.mean([effect for effect in effects if effect is not None]))
    return max(0.0, (mean - 1) / (design.responses - 1))


def simulate_half_widths(
    design: AgreementDesign, correlation: float, prompts: int, studies: int
) -> tuple[float, float]:
    """The mean half-width of the studies' intervals of nominal alpha, and the share that holds the true alpha."""
    drawn = Design(prompts, design.responses, design.shares, design.alpha, correlation)
    rng = np.random.default_rng(prompts)
    widths, held = [], 0
    for _study in range(studies):
        counts = simulate_counts(rng, drawn)
        measured = measure_agreement(
            counts,
            values=range(1, len(design.shares) + 1),
            measurement="nominal",
            statistics=["alpha_nominal"],
        )
        alpha = measured.statistics["alpha_nominal"]
        if alpha.low is not None and alpha.high is not None:
            widths.append((alpha.high - alpha.low) / 2)
            held += alpha.low <= design.alpha <= alpha.high
    return float(np.mean(widths)), held / studies


def find_latent(high: float, low: float, correlation: float) -> float:
    """The correlation of two normal variables that gives their outcomes (below the quantiles) this correlation."""
    bounds = [float(ndtri(high)), float(ndtri(low))]
    both = high * low + correlation * sqrt(high * (1 - high) * low * (1 - low))

    def excess(latent: float) -> float:
        return float(multivariate_normal.cdf(bounds, cov=[[1, latent], [latent, 1]])) - both

    return float(brentq(excess, 0, 0.999)) if correlation else 0.0


def simulate_power(
    design: ComparisonDesign, difference: float, prompts: int, studies: int
) -> tuple[float, float]:
    """The share of the first model's differences that are separated, and of the studies with two equal models so."""
    high, low = design.rate + difference / 2, design.rate - difference / 2
    latent = find_latent(high, low, design.correlation)
    bounds = ndtri(np.array([high, *[low] * (design.models - 1)]))
    rng = np.random.default_rng(prompts)
    separated = wrong = 0
    for _study in range(studies):
        common = sqrt(latent) * rng.standard_normal((prompts, 1))
        own = sqrt(1 - latent) * rng.standard_normal((prompts, design.models))
        outcomes = (common + own < bounds).astype(float)
        is_separated = {}
        for first, second in combinations(range(design.models), 2):
            distances = outcomes[:, first] - outcomes[:, second]
            error = distances.std(ddof=1) / sqrt(prompts)
            is_separated[first, second] = abs(distances.mean()) > design.critical * error
        separated += sum(is_separated[0, other] for other in range(1, design.models))
        wrong += any(value for (first, _second), value in is_separated.items() if first)
    return separated / (studies * (design.models - 1)), wrong / studies


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=200)
    studies = parser.parse_args().studies
    failed = False
    print("alpha | levels | responses | correlation | similarity | wanted | prompts | mean half-width | held")
    for design, correlation, half_width in AGREEMENT:
        similarity = measure_similarity(design, correlation)
        prompts = plan_agreement(replace(design, similarity=similarity), half_width).prompts
        width, held = simulate_half_widths(design, correlation, prompts, studies)
        failed |= abs(width / half_width - 1) > MAX_ERROR
        levels = "/".join(f"{share:g}" for share in design.shares)
        print(
            f"{design.alpha} | {levels} | {design.responses} | {correlation} | {similarity:.3f} | {half_width} |"
            f" {prompts} | {width:.4f} | {100 * held:.1f}",
            flush=True,
        )
    print("\nrate | models | correlation | difference | prompts | separated | equal models separated")
    for comparison, difference in COMPARISON:
        prompts = plan_comparison(comparison, difference).prompts
        power, wrong = simulate_power(comparison, difference, prompts, studies)
        failed |= power < MIN_POWER or wrong > MAX_FALSE
        print(
            f"{comparison.rate} | {comparison.models} | {comparison.correlation} | {100 * difference:g} | {prompts} |"
            f" {100 * power:.1f} | {100 * wrong:.1f}",
            flush=True,
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
