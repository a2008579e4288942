"""How often what a board of comparisons promises holds: ranges of ranks of all models at once, and every interval.

    python -m tests.performance.preference_coverage [--boards 400] [--only TEXT]

The model: on each prompt the responses have qualities of their own, around the strengths of their models (a standard
deviation of ``SPREAD``), and the prompt is more or less decisive (a lognormal factor), so that what people say of one
prompt is alike. The people who judge a comparison draw their preferences with Davidson's chances of the difference of
the qualities times the factor, plus the effect of position; about a quarter of the preferences are ties. Which response
is displayed first is chance. The truth of a number is the fit to the mean chances of very many prompts: strengths are
those of the mean prompt, and the model is not the one that made the data.

The figures are the share of ties, and the shares of the boards on which all ranges of ranks held at once (95 promised:
of equal models each range must reach from first to last), of the strengths and win rates whose interval held, of the
boards whose intervals of the effect of position, of the share that the first displayed won, and of nu held, of the
draws without a maximum, and of the boards whose ranges separate the first model from the last. The exit code is 1 if
any of the ranges or intervals is below 93%. Where there is no interval none is wrong: of nu, with 20 prompts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np

from benchmark.domain.leaderboards.preferences import (
    PairwiseComparisons,
    PreferenceTerms,
    build_preference_board,
    count_wins,
    fit_strengths,
)
from benchmark.domain.leaderboards.responses import Floats, Integers

SPREAD, DECISIVENESS, NU = 0.8, 0.6, 0.8
LENGTH_SPREAD = 0.5
TRUTH_DRAWS = 200_000
PROMISED = 93.0
PROMISES = ("ranges", "strengths", "win_rates", "position", "share", "nu")
EQUAL = (0.0,) * 5
STEPS = (0.6, 0.3, 0.0, -0.3, -0.6)
WIDE = (1.5, 0.75, 0.0, -0.75, -1.5)
TWO_EQUAL = (0.5, 0.5, 0.0, 0.0, -1.0)
LEANINGS = np.array([-0.8, -0.3, 0.0, 0.2, 0.6, 1.2])
TIE_FACTORS = np.array([0.3, 0.6, 1.0, 1.0, 1.6, 2.5])
FIVE_POINTS = 0.25
"""An effect of position with which the first displayed wins 55% of the decided comparisons of equal models."""


@dataclass(frozen=True)
class PreferenceDesign:
    """``pairs`` of each prompt, judged so that all pairs are judged equally often; 0 for all. ``majority`` counts one
    outcome a comparison, a tie where no two of the people agree."""

    name: str
    strengths: tuple[float, ...] = EQUAL
    prompts: int = 300
    pairs: int = 1
    people: int = 3
    position: float = 0.0
    length: float | None = None
    majority: bool = False
    ties: bool = True
    unequal: bool = False
    """Each preference is of one of six people, who lean to the first displayed, and to ties, more or less."""


DESIGNS = (
    PreferenceDesign("equal, a pair a prompt"),
    PreferenceDesign("equal, all pairs of each prompt", pairs=0),
    PreferenceDesign("equal, 3 pairs a prompt", pairs=3),
    PreferenceDesign("equal, a pair a prompt, majorities", majority=True),
    PreferenceDesign("equal, a pair a prompt, ties left out", ties=False),
    PreferenceDesign("equal, a pair a prompt, position 5 points", position=FIVE_POINTS),
    PreferenceDesign("equal, all pairs of each of 40 prompts", prompts=40, pairs=0),
    PreferenceDesign("equal, all pairs of each of 30 prompts", prompts=30, pairs=0),
    PreferenceDesign("equal, all pairs of each of 20 prompts", prompts=20, pairs=0),
    PreferenceDesign("equal, 3 pairs a prompt, 20 prompts", prompts=20, pairs=3),
    PreferenceDesign("equal, a pair a prompt, 20 prompts", prompts=20),
    PreferenceDesign("equal, a pair a prompt, 100 prompts", prompts=100),
    PreferenceDesign("equal, a pair a prompt, 50 prompts", prompts=50),
    PreferenceDesign("equal, 10 models, 2 pairs a prompt", strengths=(0.0,) * 10, pairs=2),
    PreferenceDesign("equal, a pair a prompt, length counts", length=0.5),
    PreferenceDesign("equal, a pair a prompt, unequal people", unequal=True),
    PreferenceDesign("equal, all pairs of each prompt, unequal people", pairs=0, unequal=True),
    PreferenceDesign("steps, a pair a prompt", STEPS),
    PreferenceDesign("steps, all pairs of each prompt", STEPS, pairs=0),
    PreferenceDesign("steps, a pair a prompt, position 5 points", STEPS, position=FIVE_POINTS),
    PreferenceDesign("wide steps, a pair a prompt", WIDE),
    PreferenceDesign("wide steps, a pair a prompt, 60 prompts", WIDE, prompts=60),
    PreferenceDesign("two pairs of equals, a pair a prompt", TWO_EQUAL),
    PreferenceDesign("steps, a pair a prompt, unequal people", STEPS, unequal=True),
    PreferenceDesign("steps, a pair a prompt, length counts", STEPS, length=0.5),
)


@dataclass(frozen=True)
class PreferenceTruth:
    strengths: Floats
    nu: float
    position: float
    share: float
    win_rates: Floats


@dataclass(frozen=True)
class PreferenceOutcome:
    """Of one board; shares of what held."""

    ties: float
    ranges: bool
    strengths: float
    win_rates: float
    position: bool
    share: bool
    nu: bool
    undefined: float
    separated: bool


def compute_chances(eta: Floats, nu: Floats | float = NU) -> Floats:
    """(.., 3): that the first is preferred, neither, the second."""
    parts = np.stack([np.exp(eta / 2), np.broadcast_to(nu, eta.shape), np.exp(-eta / 2)], axis=-1)
    return np.asarray(parts / parts.sum(axis=-1, keepdims=True))


def draw_eta(
    rng: np.random.Generator,
    design: PreferenceDesign,
    prompt: Integers,
    first: Integers,
    second: Integers,
) -> tuple[Floats, Floats]:
    """Of each comparison the log-odds, and the difference of the logarithms of the lengths."""
    prompts, models = int(prompt.max()) + 1, len(design.strengths)
    quality = np.array(design.strengths) + rng.normal(0, SPREAD, (prompts, models))
    factor = rng.lognormal(0, DECISIVENESS, prompts)
    lengths = rng.normal(0, LENGTH_SPREAD, (prompts, models))
    longer = lengths[prompt, first] - lengths[prompt, second]
    difference = quality[prompt, first] - quality[prompt, second] + (design.length or 0.0) * longer
    return factor[prompt] * difference + design.position, longer


def simulate_comparisons(rng: np.random.Generator, design: PreferenceDesign) -> PairwiseComparisons:
    """The pairs take turns, in an order of chance; which of the two is displayed first is chance for each person."""
    models = len(design.strengths)
    pairs = np.array(list(combinations(range(models), 2)))
    each = design.pairs or len(pairs)
    turns = np.concatenate(
        [rng.permutation(len(pairs)) for _ in range(design.prompts * each // len(pairs) + 1)]
    )
    judged = pairs[turns[: design.prompts * each]]
    judged = np.repeat(judged, 1 if design.majority else design.people, axis=0)
    flip = rng.random(len(judged)) < 0.5
    judged[flip] = judged[flip][:, ::-1]
    prompt = np.arange(len(judged)) // (len(judged) // design.prompts)
    first, second = judged.T
    eta, longer = draw_eta(rng, design, prompt, first, second)
    person = rng.integers(len(LEANINGS), size=len(judged)) if design.unequal else np.full(len(judged), 2)
    chances = compute_chances(eta + LEANINGS[person], NU * TIE_FACTORS[person]).cumsum(axis=-1)
    votes = rng.random((len(judged), design.people if design.majority else 1))
    sides = 1 - (votes[..., None] > chances[:, None, :2]).sum(axis=-1)
    return PairwiseComparisons(
        tuple(f"M{at:02d}" for at in range(models)),
        first,
        second,
        settle_majority(sides) if design.majority else sides[:, 0],
        prompt,
        longer if design.length is not None else None,
    )


def settle_majority(sides: Integers) -> Integers:
    """Of (N, people) outcomes the most frequent, and a tie where two are equally frequent."""
    firsts, seconds, ties = ((sides == side).sum(axis=1) for side in (1, -1, 0))
    return np.where(
        (firsts > seconds) & (firsts > ties), 1, np.where((seconds > firsts) & (seconds > ties), -1, 0)
    )


@cache
def compute_truth(design: PreferenceDesign) -> PreferenceTruth:
    """The fit to the mean chances of each ordered pair; to a large sample where an outcome is of several people,
    people are unequal, or length counts."""
    rng = np.random.default_rng(1)
    terms = PreferenceTerms(ties=design.ties, position=True, length=design.length is not None)
    if design.majority or design.unequal or design.length is not None:
        large = PreferenceDesign(**{**vars(design), "prompts": TRUTH_DRAWS, "pairs": 1})
        comparisons = simulate_comparisons(rng, large)
    else:
        ordered = [
            pair for pair in np.ndindex(len(design.strengths), len(design.strengths)) if pair[0] != pair[1]
        ]
        prompt = np.arange(TRUTH_DRAWS)
        chances = []
        for first, second in ordered:
            places = (np.full(TRUTH_DRAWS, first), np.full(TRUTH_DRAWS, second))
            eta, _longer = draw_eta(np.random.default_rng(1), design, prompt, *places)
            chances.append(compute_chances(eta).mean(axis=0))
        comparisons = PairwiseComparisons(
            tuple(f"M{at:02d}" for at in range(len(design.strengths))),
            np.repeat([first for first, _second in ordered], 3),
            np.repeat([second for _first, second in ordered], 3),
            np.tile([1, 0, -1], len(ordered)),
            np.zeros(3 * len(ordered), dtype=np.int64),
            weights=np.concatenate(chances),
        )
    fit = fit_strengths(comparisons, terms)
    assert fit.strengths is not None
    assert fit.position is not None
    strengths = np.array(fit.strengths)
    table = count_wins(comparisons)
    rates = np.asarray((table.wins + table.ties / 2).sum(axis=1) / table.n.sum(axis=1))
    for value in set(design.strengths):  # equals are equal, whatever the draws make of it
        is_equal = np.array(design.strengths) == value
        strengths[is_equal], rates[is_equal] = strengths[is_equal].mean(), rates[is_equal].mean()
    is_won, is_lost = comparisons.outcome == 1, comparisons.outcome == -1
    won, lost = comparisons.counts[is_won].sum(), comparisons.counts[is_lost].sum()
    return PreferenceTruth(strengths, fit.nu or 0.0, fit.position, float(won / (won + lost)), rates)


def measure_board(design: PreferenceDesign, rng: np.random.Generator) -> PreferenceOutcome:
    truth = compute_truth(design)
    comparisons = simulate_comparisons(rng, design)
    board = build_preference_board(comparisons, ties=design.ties, seed=int(rng.integers(2**31)))
    rows = {row.model: row for row in board.rows}
    ordered = [rows[model] for model in comparisons.models]
    ranks = [row.rank for row in ordered]
    strengths = np.array(design.strengths)
    ranges = all(
        rank is None
        or (rank.low <= 1 + (strengths > own).sum() and rank.high >= len(ranks) - (strengths < own).sum())
        for rank, own in zip(ranks, strengths, strict=True)
    )
    held = [
        holds(row.strength.low, value, row.strength.high)
        for row, value in zip(ordered, truth.strengths, strict=True)
    ]
    rates = [
        holds(row.win_rate.low, value, row.win_rate.high)
        for row, value in zip(ordered, truth.win_rates, strict=True)
    ]
    position = board.position
    return PreferenceOutcome(
        float((comparisons.outcome == 0).mean()),
        ranges,
        float(np.mean(held)),
        float(np.mean(rates)),
        holds(position.effect.low, truth.position, position.effect.high),
        holds(position.share.low, truth.share, position.share.high),
        not design.ties or holds(board.nu.low, truth.nu, board.nu.high),
        board.undefined_draws / max(board.draws, 1),
        ranks[0] is not None and ranks[-1] is not None and ranks[0].high < ranks[-1].low,
    )


def holds(low: float | None, value: float, high: float | None) -> bool:
    """An end that is undefined has no bound."""
    return (low is None or low <= value) and (high is None or value <= high)


def simulate_boards(design: PreferenceDesign, *, boards: int) -> list[PreferenceOutcome]:
    return [measure_board(design, rng) for rng in _list_generators(design.name, boards)]


def _list_generators(name: str, boards: int) -> Iterator[np.random.Generator]:
    return (np.random.default_rng([seed, *name.encode()]) for seed in range(boards))


def summarize(outcomes: list[PreferenceOutcome]) -> dict[str, float]:
    """Percent, by the fields of an outcome."""
    return {
        name: 100 * float(np.mean([getattr(outcome, name) for outcome in outcomes]))
        for name in PreferenceOutcome.__dataclass_fields__
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--boards", type=int, default=400)
    parser.add_argument("--only", default="", help="the rows whose names have this text")
    options = parser.parse_args()
    print(
        "| models and prompts | ties | ranges | strengths | win rates | position | share | nu | undefined draws "
        "| separated |"
    )
    print("| --- |" + " ---: |" * 9)
    sound = True
    for design in (design for design in DESIGNS if options.only in design.name):
        figures = summarize(simulate_boards(design, boards=options.boards))
        print(
            f"| {design.name} |", " | ".join(f"{figure:.1f}" for figure in figures.values()), "|", flush=True
        )
        sound &= all(figures[name] >= PROMISED for name in PROMISES)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
