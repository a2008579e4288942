"""How often the intervals of agreement hold where several responses answer one prompt, and what "better" is worth.

    python -m tests.performance.prompt_coverage [--sets 1000] [--pairs 1000] [--rows few] [--references]

The model: a prompt has a share of responses that both annotators see alike, drawn from a beta distribution around the
true alpha, and levels of its own, drawn from a Dirichlet distribution around the marginals; both have the intraclass
correlation of the row. Two labels that are not seen alike are drawn from the marginals. Over all prompts every alpha
and kappa is then exactly the true alpha, and percent agreement and Gwet's coefficients follow from it and the
marginals.

A row is a design: prompts, responses to each (from 1 to m where they are unequal, and by a long tail where they are
"skewed"), marginals, true alpha, intraclass correlation, the labels of a response ("2 of 3": a third label for half of
the responses). Figures: the share of data sets in which a chance-corrected statistic has an interval, of those the
share that holds the truth, for each statistic; the share that holds percent agreement, which always has an interval;
and the mean design effect of nominal alpha. With ``--references`` nominal alpha once more by three other ways: units
resampled (BCa), prompts resampled (BCa), prompts resampled and studentised on the scale of log(1 - alpha).

Then pairs of guideline versions that are equally good: how often the interval of the difference of nominal alpha leaves
out 0 to the one side ("better") or to the other ("worse"), where the versions were used on different prompts and on the
same ones, and how often a true difference is seen; beside it both shares together by intervals of the same kind over
units.

The exit code is 1 if a row that is defined in at least 5% of its data sets covers less than 93%, or if "better" or
"worse" is false in more than 5%.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from annotation.domain.agreement import PromptCounts, count_by_prompt, measure_agreement, measure_difference
from annotation.domain.agreement import coefficients as formulas

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

NAMES = (
    "percent_agreement",
    "alpha_nominal",
    "alpha_ordinal",
    "cohen_kappa_quadratic",
    "gwet_ac1",
    "gwet_ac2",
    "cohen_kappa_quadratic_observed",
    "spearman",
    "icc_single",
    "icc_average",
)
OF_TWO_LABELS = (
    "cohen_kappa_quadratic",
    "cohen_kappa_quadratic_observed",
    "spearman",
    "icc_single",
    "icc_average",
)
PROMISED = 0.93
MIN_DEFINED = 0.05
"""A row that is defined more rarely is not held to the bound: the few data sets are those with chance disputes."""
MAX_FALSE = 0.05
THREE = (0.6, 0.3, 0.1)
FIVE = (0.05, 0.2, 0.4, 0.25, 0.1)


@dataclass(frozen=True)
class Design:
    prompts: int
    responses: int
    marginals: tuple[float, ...]
    alpha: float
    correlation: float
    sizes: str = "equal"
    labels: str = "2"

    @property
    def name(self) -> str:
        sizes = {"equal": f"{self.responses}", "unequal": f"1-{self.responses}", "skewed": "skewed"}[
            self.sizes
        ]
        levels = "/".join(f"{share:.2g}".lstrip("0") for share in self.marginals)
        return f"{self.prompts} x {sizes} | {levels} | {self.alpha} | {self.correlation} | {self.labels}"


DESIGNS = (
    Design(100, 17, THREE, 0.7, 0.09),
    Design(100, 17, THREE, 0.7, 0.2),
    Design(100, 17, THREE, 0.7, 0.33),
    Design(100, 17, (0.9, 0.1), 0.9, 0.2),
    Design(30, 17, (0.9, 0.1), 0.9, 0.33),
    Design(450, 5, (0.7, 0.02, 0.28), 0.9, 0.2),
    Design(100, 17, THREE, 0.7, 0.0),
    Design(10, 17, THREE, 0.7, 0.0),
    Design(10, 17, THREE, 0.7, 0.2),
    Design(10, 17, THREE, 0.7, 0.33),
    Design(10, 17, (0.9, 0.1), 0.8, 0.33),
    Design(10, 5, (0.6, 0.4), 0.5, 0.2),
    Design(20, 5, THREE, 0.8, 0.2),
    Design(30, 17, THREE, 0.7, 0.2, sizes="unequal"),
    Design(60, 17, THREE, 0.7, 0.2, sizes="skewed"),
    Design(100, 5, THREE, 0.7, 0.2, labels="2 of 3"),
    Design(50, 1, (0.9, 0.1), 0.9, 0.0),
    Design(200, 1, (0.9, 0.1), 0.9, 0.0),
    Design(30, 1, (1 / 3, 1 / 3, 1 / 3), 0.4, 0.0),
    Design(30, 1, (0.7, 0.2, 0.1), 0.8, 0.0),
    Design(100, 1, (0.7, 0.2, 0.1), 0.8, 0.0),
    Design(30, 1, (0.85, 0.1, 0.05), 0.4, 0.0),
    Design(50, 1, (0.9, 0.1), 0.4, 0.0),
    Design(10, 5, (0.85, 0.1, 0.05), 0.4, 0.33),
    Design(100, 1, (0.85, 0.1, 0.05), 0.4, 0.0),
    Design(300, 1, (0.85, 0.1, 0.05), 0.8, 0.0),
    Design(20, 1, FIVE, 0.5, 0.0),
    Design(50, 1, FIVE, 0.5, 0.0),
    Design(331, 1, FIVE, 0.5, 0.0),
    Design(50, 7, FIVE, 0.5, 0.2),
)
FEW = 3
"""So many rows with ``--rows few``."""


def find_truths(design: Design) -> Mapping[str, float]:
    """The value of each statistic over all prompts."""
    shares = np.array(design.marginals)
    scale = tuple(range(1, len(shares) + 1))

    def gwet(distances: Floats) -> float:
        chance = formulas.chance_share(distances) * float(shares @ (1 - shares))
        return 1 - (1 - design.alpha) * float(shares @ distances @ shares) / (1 - chance)

    return {
        **dict.fromkeys(NAMES, design.alpha),
        "percent_agreement": 1 - (1 - design.alpha) * float(shares @ (1 - shares)),
        "gwet_ac1": gwet(formulas.nominal(scale)),
        "gwet_ac2": gwet(formulas.ordinal_weights(scale)),
        "icc_average": 2 * design.alpha / (1 + design.alpha),
    }


@dataclass(frozen=True)
class Prompts:
    """How alike each prompt's (P,) responses are seen, its levels (P, V), and how many responses it has (P,)."""

    agreeing: Floats
    levels: Floats
    sizes: Ints


def draw_prompts(rng: np.random.Generator, design: Design) -> Prompts:
    shares, prompts = np.array(design.marginals), design.prompts
    if design.correlation:
        spread = (1 - design.correlation) / design.correlation
        agreeing = rng.beta(design.alpha * spread, (1 - design.alpha) * spread, prompts)
        levels = rng.dirichlet(shares * spread, prompts)
    else:
        agreeing, levels = np.full(prompts, design.alpha), np.tile(shares, (prompts, 1))
    sizes = np.full(prompts, design.responses)
    if design.sizes == "unequal":
        sizes = rng.integers(1, design.responses + 1, prompts)
    elif design.sizes == "skewed":
        sizes = np.maximum(1, np.round(rng.lognormal(1, 1, prompts))).astype(np.int64)
    return Prompts(agreeing, levels, sizes)


def draw_labels(rng: np.random.Generator, design: Design, prompts: Prompts) -> tuple[Ints, Ints]:
    """Level codes (N, R) and the prompt (N,) of each response."""
    shares = np.array(design.marginals)
    prompt = np.repeat(np.arange(design.prompts), prompts.sizes)
    own = (rng.random(len(prompt))[:, None] > prompts.levels.cumsum(axis=1)[prompt][:, :-1]).sum(axis=1)
    raters = 3 if design.labels == "2 of 3" else 2
    codes = rng.choice(len(shares), (len(prompt), raters), p=shares)
    is_same = rng.random(len(prompt)) < prompts.agreeing[prompt]
    codes[is_same] = own[is_same, None]
    if raters == 3:
        codes[rng.random(len(prompt)) < 0.5, 2] = -1
    return codes, prompt


def simulate_counts(rng: np.random.Generator, design: Design, prompts: Prompts | None = None) -> PromptCounts:
    codes, prompt = draw_labels(rng, design, prompts or draw_prompts(rng, design))
    return count_by_prompt(codes, prompt, range(1, len(design.marginals) + 1))


@dataclass
class Coverage:
    defined: int = 0
    held: int = 0

    def add(self, low: float | None, high: float | None, truth: float) -> None:
        if low is not None and high is not None:
            self.defined += 1
            self.held += low <= truth <= high

    @property
    def share(self) -> float | None:
        return self.held / self.defined if self.defined else None

    def format(self) -> str:
        return "-" if self.share is None else f"{100 * self.share:.1f}"


def measure_coverage(design: Design, sets: int) -> tuple[dict[str, Coverage], float]:
    """Of each statistic, and the mean design effect of nominal alpha."""
    rng = np.random.default_rng(20 + design.prompts + design.responses)
    truths = find_truths(design)
    coverage = {name: Coverage() for name in NAMES}
    effects = []
    for _set in range(sets):
        measured = measure_agreement(
            simulate_counts(rng, design),
            values=range(1, len(design.marginals) + 1),
            measurement="ordinal",
            statistics=NAMES,
        )
        for name, statistic in measured.statistics.items():
            if name not in OF_TWO_LABELS or design.labels == "2":
                coverage[name].add(statistic.low, statistic.high, truths[name])
        effect = measured.statistics["alpha_nominal"].design_effect
        if effect is not None:
            effects.append(effect)
    return coverage, float(np.mean(effects)) if effects else float("nan")


# Other ways to the interval of nominal alpha with two labels, for comparison


@dataclass(frozen=True)
class Profiles:
    """Of each prompt (P, V * V) the units with each two levels."""

    counts: Floats
    levels: int

    def alpha(self, totals: Floats) -> Floats:
        """(B,) from (B, V * V)."""
        tables = totals.reshape(len(totals), self.levels, self.levels)
        labels = tables.sum(axis=1) + tables.sum(axis=2)
        n = labels.sum(axis=1)
        differing = 2 * (tables.sum(axis=(1, 2)) - np.trace(tables, axis1=1, axis2=2))
        with np.errstate(divide="ignore", invalid="ignore"):
            alpha: Floats = 1 - (n - 1) * differing / (n**2 - np.square(labels).sum(axis=1))
        return alpha

    def slopes(self, totals: Floats) -> Floats:
        """(B, V * V): how alpha moves with one unit more of each kind."""
        steps = np.eye(totals.shape[1]) * 0.01
        return np.stack(
            [(self.alpha(totals + step) - self.alpha(totals - step)) / 0.02 for step in steps], axis=1
        )


def bca_interval(observed: float, resampled: Floats, added: Floats) -> tuple[float, float]:
    """B. Efron, JASA 82 (1987); ``added`` is what each sampled thing adds to the statistic."""
    normal, ordered = NormalDist(), np.sort(resampled[np.isfinite(resampled)])
    share = float((ordered < observed - 1e-12).mean() + (ordered <= observed + 1e-12).mean()) / 2
    bias = normal.inv_cdf(share) if 0 < share < 1 else 0.0
    spread = float(np.square(added).sum())
    skew = float((added**3).sum()) / (6 * spread**1.5) if spread else 0.0
    places = [bias + normal.inv_cdf(tail) for tail in (0.025, 0.975)]
    low, high = (
        float(np.quantile(ordered, normal.cdf(bias + place / (1 - skew * place)))) for place in places
    )
    return low, high


def reference_intervals(
    rng: np.random.Generator, profiles: Profiles, resamples: int = 500
) -> dict[str, tuple[float, float]]:
    counts, prompts = profiles.counts, len(profiles.counts)
    totals = counts.sum(axis=0)
    observed, slope = float(profiles.alpha(totals[None])[0]), profiles.slopes(totals[None])[0]
    units = int(totals.sum())
    by_unit = rng.multinomial(units, totals / units, size=resamples).astype(np.float64)
    weights = rng.multinomial(prompts, np.full(prompts, 1 / prompts), size=resamples).astype(np.float64)
    by_prompt = weights @ counts
    added = counts @ slope - (counts @ slope).mean()
    kinds = np.repeat(slope, totals.astype(np.int64))
    resampled = profiles.alpha(by_prompt)
    intervals = {
        "units, BCa": bca_interval(observed, profiles.alpha(by_unit), kinds - kinds.mean()),
        "prompts, BCa": bca_interval(observed, resampled, added),
    }
    moves = profiles.slopes(by_prompt) @ counts.T
    centred = (weights * np.square(moves)).sum(axis=1) - np.square((weights * moves).sum(axis=1)) / prompts
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.sqrt(np.maximum(centred, 0)) / (1 - resampled)
        studentised = np.log((1 - resampled) / (1 - observed)) / errors
    studentised = studentised[np.isfinite(studentised)]
    error = float(np.sqrt(np.square(added).sum())) / (1 - observed)
    if len(studentised) > resamples / 4:
        low, high = np.quantile(studentised, [0.025, 0.975])
        intervals["prompts, percentile-t"] = (
            1 - (1 - observed) * float(np.exp(-low * error)),
            1 - (1 - observed) * float(np.exp(-high * error)),
        )
    return intervals


def measure_references(design: Design, sets: int) -> dict[str, Coverage]:
    rng = np.random.default_rng(20 + design.prompts + design.responses)
    resampling = np.random.default_rng(1)
    names = ("units, BCa", "prompts, BCa", "prompts, percentile-t")
    coverage = {name: Coverage() for name in names}
    levels = len(design.marginals)
    for _set in range(sets):
        codes, prompt = draw_labels(rng, design, draw_prompts(rng, design))
        if np.count_nonzero(codes[:, 0] != codes[:, 1]) < 5:
            continue
        kind = prompt * levels**2 + codes[:, 0] * levels + codes[:, 1]
        counts = np.bincount(kind, minlength=design.prompts * levels**2).reshape(design.prompts, -1)
        occurring = Profiles(counts.astype(np.float64), levels)
        for name, (low, high) in reference_intervals(resampling, occurring).items():
            coverage[name].add(low, high, design.alpha)
    return coverage


# Guideline versions


def count_changes(
    design: Design, later: Design, *, shared: bool, pairs: int, by_unit: bool = False
) -> tuple[float, float]:
    """The shares of pairs in which the later version is "better" and "worse"; ``by_unit`` as if units were drawn."""
    rng = np.random.default_rng(30 + design.prompts + shared)
    better = worse = 0
    for _pair in range(pairs):
        prompts = draw_prompts(rng, design)
        first = simulate_counts(rng, design, prompts)
        if shared:
            change = later.alpha - design.alpha
            moved = Prompts(np.clip(prompts.agreeing + change, 0, 1), prompts.levels, prompts.sizes)
            second = simulate_counts(rng, later, moved)
        else:
            second = simulate_counts(rng, later)
            second = PromptCounts(second.patterns, second.place, second.prompt + design.prompts, second.n)
        change_statistic = measure_difference(
            first.counts if by_unit else first,
            second.counts if by_unit else second,
            values=range(1, len(design.marginals) + 1),
            measurement="nominal",
            statistic="alpha_nominal",
        )
        if change_statistic.low is not None and change_statistic.high is not None:
            better += change_statistic.low > 0
            worse += change_statistic.high < 0
    return better / pairs, worse / pairs


def print_changes(pairs: int) -> list[str]:
    print("\n| versions on | intraclass | changed, falsely, by units |", end=" ")
    print("better, falsely | worse, falsely | .15 higher alpha seen |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    wrong = []
    for shared in (False, True):
        for design in DESIGNS[:FEW]:
            by_units = sum(count_changes(design, design, shared=shared, pairs=pairs, by_unit=True))
            better, worse = count_changes(design, design, shared=shared, pairs=pairs)
            higher = Design(100, 17, THREE, design.alpha + 0.15, design.correlation)
            seen, _worse = count_changes(design, higher, shared=shared, pairs=max(1, pairs // 5))
            where = "the same prompts" if shared else "different prompts"
            figures = " | ".join(f"{100 * share:.1f}" for share in (by_units, better, worse, seen))
            print(f"| {where} | {design.correlation} | {figures} |", flush=True)
            wrong += [f"{where}, {design.correlation}"] if better + worse > MAX_FALSE else []
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--rows", choices=["all", "few"], default="all")
    parser.add_argument("--references", action="store_true", help="nominal alpha by three other ways as well")
    options = parser.parse_args()
    heads = ("prompts x responses", "marginals", "alpha", "intraclass", "labels", "defined", *NAMES, "effect")
    print("|", " | ".join(heads), "|")
    print("|", " | ".join(["---"] * 5 + ["---:"] * (len(heads) - 5)), "|")
    wrong = []
    designs = DESIGNS if options.rows == "all" else DESIGNS[:FEW]
    for design in designs:
        coverage, effect = measure_coverage(design, options.sets)
        defined = coverage["alpha_nominal"].defined / options.sets
        cells = [f"{100 * defined:.1f}", *(coverage[name].format() for name in NAMES), f"{effect:.2f}"]
        print("|", design.name, "|", " | ".join(cells), "|", flush=True)
        wrong += [
            f"{design.name}: {name}"
            for name, of in coverage.items()
            if of.share is not None and of.defined >= MIN_DEFINED * options.sets and of.share < PROMISED
        ]
    if options.references:
        print_references(designs, options.sets)
    wrong += print_changes(options.pairs)
    print(f"below {PROMISED:.0%}, or false in more than {MAX_FALSE:.0%}: {'; '.join(wrong) or 'none'}")
    return 1 if wrong else 0


def print_references(designs: tuple[Design, ...], sets: int) -> None:
    print("\n| prompts x responses | marginals | alpha | intraclass | labels |", end=" ")
    print("units, BCa | prompts, BCa | prompts, percentile-t |")
    print("|", " | ".join(["---"] * 5 + ["---:"] * 3), "|")
    for design in designs:
        if design.labels == "2":
            coverage = measure_references(design, sets)
            print("|", design.name, "|", " | ".join(of.format() for of in coverage.values()), "|", flush=True)


if __name__ == "__main__":
    sys.exit(main())
