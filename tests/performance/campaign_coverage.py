"""How often the intervals on a campaign's board hold: of attack success, and of the agreement of authors and reviewers.

    python -m tests.performance.campaign_coverage [--campaigns 2000] [--only TEXT]

The model of success: a prompt has a difficulty of its own (logistic, a standard deviation of ``PROMPT_SPREAD``), an
answer one of its own beside it (``ANSWER_SPREAD``), campaigns differ in how easy all is (``LEVEL_SPREAD``), targets
differ by ``TARGET_STEPS``, and the prompts of one author lie together where the design says so (``author``, a standard
deviation). So the answers of several targets to one prompt are alike. Authors write unequal numbers of prompts. The
truth for *these authors* is the expected rate over the prompts that they could have written, in the same shares; that
for *other authors* is the mean over all authors who could have been asked. The figures are the percent of the campaigns
whose interval held the truth: of all answers, of the targets, of the methods (a third of the prompts each), and of all
answers for other authors.

The model of agreement: a prompt is of a kind, and more or less clear (``CLARITIES``); the author and the reviewer each
see the kind with a probability that depends on that and on who they are, and else say any kind. The truth of kappa
is that of very many prompts with the same people. Printed are the percent of the intervals that held, and of the
campaigns in which there was one.

The exit code is 1 if an interval is below 93% for these authors, or more than 7% of the campaigns have one of kappa
that is wrong; where there is none, none is wrong. What is said of other authors is printed, and promised nowhere.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from benchmark.domain.workbench.report import (
    AttackOutcome,
    measure_all,
    measure_field_agreement,
    measure_success,
)

Floats = npt.NDArray[np.float64]
PROMPT_SPREAD, ANSWER_SPREAD, LEVEL_SPREAD = 1.5, 0.8, 0.7
TARGET_STEPS = np.array([0.0, 0.8, -0.8, 1.6, -1.6])
METHODS = ("disguise", "reverse_induction", "unsafe_inquiry")
CLARITIES = (("", (0.35, 0.95)), ("clear ", (0.85, 1.0)))
CARE = np.array([1.0, 0.9, 0.8, 0.95, 0.85, 0.95])
"""How much of what is clear each of six people sees."""
PROMISED = 93.0
TRUTH_DRAWS = 400_000


@dataclass(frozen=True)
class SuccessDesign:
    name: str
    prompts: int
    targets: int
    authors: int = 4
    level: float = 0.15
    """The log-odds of success of the middle target on the middle prompt."""
    author: float = 0.0


SUCCESS_DESIGNS = (
    *(
        SuccessDesign(f"{prompts} prompts, {targets} targets", prompts, targets)
        for prompts in (10, 20, 30, 60)
        for targets in (1, 2, 3, 5)
    ),
    SuccessDesign("20 prompts, 3 targets, success in 8%", 20, 3, level=-3.5),
    SuccessDesign("60 prompts, 3 targets, success in 8%", 60, 3, level=-3.5),
    SuccessDesign("20 prompts, 3 targets, success in 92%", 20, 3, level=3.5),
    SuccessDesign("60 prompts, 3 targets, success in 92%", 60, 3, level=3.5),
    SuccessDesign("20 prompts, 3 targets, 2 authors differ", 20, 3, authors=2, author=1.0),
    SuccessDesign("30 prompts, 3 targets, 4 authors differ", 30, 3, authors=4, author=1.0),
    SuccessDesign("60 prompts, 3 targets, 2 authors differ", 60, 3, authors=2, author=1.0),
    SuccessDesign("60 prompts, 3 targets, 6 authors differ", 60, 3, authors=6, author=1.0),
    SuccessDesign("60 prompts, 1 targets, 6 authors differ", 60, 1, authors=6, author=1.0),
)


@dataclass(frozen=True)
class AgreementDesign:
    name: str
    proposals: int
    kinds: tuple[float, ...]
    """The share of each kind."""
    clarity: tuple[float, float]


FIELD_KINDS = (
    ("malice, 2 kinds", (0.5, 0.5)),
    ("malice, 2 kinds, 9 of 10 alike", (0.9, 0.1)),
    ("method, 3 kinds", (0.5, 0.3, 0.2)),
    ("dimension, 5 kinds", (0.2,) * 5),
    ("subcomponent, 12 kinds", (1 / 12,) * 12),
)
AGREEMENT_DESIGNS = tuple(
    AgreementDesign(f"{word}{name}, {proposals} proposals", proposals, kinds, clarity)
    for word, clarity in CLARITIES
    for name, kinds in FIELD_KINDS
    for proposals in (10, 20, 30, 60)
)


def draw_successes(rng: np.random.Generator, design: SuccessDesign, effects: Floats) -> Floats:
    """(prompts, targets), 1 where the attack succeeded; ``effects`` (prompts,) are those of the authors."""
    middle = design.level + effects + rng.logistic(0, PROMPT_SPREAD * np.sqrt(3) / np.pi, len(effects))
    eta = middle[:, None] + TARGET_STEPS[: design.targets]
    eta = eta + rng.normal(0, ANSWER_SPREAD, eta.shape)
    return np.asarray(rng.random(eta.shape) < 1 / (1 + np.exp(-eta)), dtype=np.float64)


@cache
def tabulate_rates(level: float, targets: int) -> tuple[Floats, Floats]:
    """Of a grid of authors' effects: the expected rate of each target (grid, targets)."""
    rng, grid = np.random.default_rng(1), np.linspace(-6, 6, 121)
    middle = rng.logistic(0, PROMPT_SPREAD * np.sqrt(3) / np.pi, TRUTH_DRAWS // 8)
    noise = rng.normal(0, ANSWER_SPREAD, middle.shape)
    rates = [
        [
            float(np.mean(1 / (1 + np.exp(-(level + effect + step + middle + noise)))))
            for step in TARGET_STEPS[:targets]
        ]
        for effect in grid
    ]
    return grid, np.array(rates)


def find_rates(design: SuccessDesign, effects: Floats) -> Floats:
    """(.., targets): the expected rate of the prompts of an author with this effect."""
    grid, rates = tabulate_rates(design.level, design.targets)
    return np.stack([np.interp(effects, grid, rates[:, target]) for target in range(design.targets)], axis=-1)


def measure_campaign(rng: np.random.Generator, design: SuccessDesign) -> dict[str, list[bool]]:
    """By the kind of interval, whether each one held."""
    shares = rng.dirichlet(np.full(design.authors, 2.0))
    author = rng.choice(design.authors, size=design.prompts, p=shares)
    effects = (
        rng.normal(0, design.author, design.authors)[author] if design.author else np.zeros(design.prompts)
    )
    method = np.arange(design.prompts) % len(METHODS)
    shift = rng.normal(0, LEVEL_SPREAD)
    effects = effects + shift
    hits = draw_successes(rng, design, effects)
    outcomes = [
        AttackOutcome(
            prompt, f"T{target}", "Fairness", METHODS[method[prompt]], "", bool(hits[prompt, target])
        )
        for prompt, target in np.ndindex(hits.shape)
    ]
    expected = find_rates(design, effects)
    total = measure_all(outcomes)
    by_target = measure_success(outcomes, ("target",))
    by_method = measure_success(outcomes, ("method",))
    spread = np.random.default_rng(2).normal(0, design.author, 4000) if design.author else np.zeros(1)
    of_others = float(find_rates(design, shift + spread).mean())
    return {
        "all": [holds(total.low, float(expected.mean()), total.high)],
        "targets": [
            holds(
                by_target[f"T{target}",].low, float(expected[:, target].mean()), by_target[f"T{target}",].high
            )
            for target in range(design.targets)
        ],
        "methods": [
            holds(by_method[name,].low, float(expected[method == at].mean()), by_method[name,].high)
            for at, name in enumerate(METHODS)
        ],
        "other authors": [holds(total.low, of_others, total.high)],
    }


def draw_pairs(
    rng: np.random.Generator, design: AgreementDesign, number: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """What the author says of each proposal, and what its reviewer."""
    kinds = design.kinds
    kind = rng.choice(len(kinds), size=number, p=kinds)
    clear = rng.uniform(*design.clarity, size=number)
    answers = []
    for people in (CARE[:4], CARE[4:]):
        sees = rng.random(number) < clear * people[rng.integers(len(people), size=number)]
        answers.append(np.where(sees, kind, rng.choice(len(kinds), size=number, p=kinds)))
    return answers[0], answers[1]


@cache
def compute_kappa(design: AgreementDesign) -> float:
    first, second = draw_pairs(np.random.default_rng(1), design, TRUTH_DRAWS * 4)
    shares = [np.bincount(answers, minlength=len(design.kinds)) / len(answers) for answers in (first, second)]
    chance = float(shares[0] @ shares[1])
    return (float(np.mean(first == second)) - chance) / (1 - chance)


def measure_reviewers(rng: np.random.Generator, design: AgreementDesign) -> bool | None:
    """Whether the interval of kappa held; None where there is none."""
    first, second = draw_pairs(rng, design, design.proposals)
    agreement = measure_field_agreement([(str(a), str(b)) for a, b in zip(first, second, strict=True)])
    kappa = agreement.statistics["cohen_kappa"]
    if kappa.low is None and kappa.high is None:
        return None
    return holds(kappa.low, compute_kappa(design), kappa.high)


def holds(low: float | None, value: float, high: float | None) -> bool:
    """An end that is undefined has no bound."""
    return (low is None or low <= value) and (high is None or value <= high)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--campaigns", type=int, default=2000)
    parser.add_argument("--only", default="", help="the rows whose names have this text")
    options = parser.parse_args()
    is_sound = True
    print("| attack success | all | targets | methods | all, other authors |")
    print("| --- |" + " ---: |" * 4)
    for design in (each for each in SUCCESS_DESIGNS if options.only in each.name):
        held: dict[str, list[bool]] = {}
        for seed in range(options.campaigns):
            rng = np.random.default_rng([seed, *design.name.encode()])
            for name, outcomes in measure_campaign(rng, design).items():
                held.setdefault(name, []).extend(outcomes)
        figures = {name: 100 * float(np.mean(outcomes)) for name, outcomes in held.items()}
        print(f"| {design.name} |", " | ".join(f"{value:.1f}" for value in figures.values()), "|", flush=True)
        is_sound &= all(figures[name] >= PROMISED for name in ("all", "targets", "methods"))
    print("\n| agreement | kappa | held | has an interval |")
    print("| --- |" + " ---: |" * 3)
    for agreement in (each for each in AGREEMENT_DESIGNS if options.only in each.name):
        results = [
            measure_reviewers(np.random.default_rng([seed, *agreement.name.encode()]), agreement)
            for seed in range(options.campaigns)
        ]
        printed = [result for result in results if result is not None]
        share = 100 * float(np.mean(printed)) if printed else None
        print(
            f"| {agreement.name} | {compute_kappa(agreement):.2f} |",
            "-" if share is None else f"{share:.1f}",
            f"| {100 * len(printed) / len(results):.1f} |",
            flush=True,
        )
        is_sound &= 100 * results.count(False) / len(results) <= 100 - PROMISED
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
