"""How often the ranges of ranks hold for all models of a board at once, where people or a scorer made its labels.

    python -m tests.performance.rank_coverage [--boards 200] [--models 10]

The model: equal models answer the prompts of the five Flames dimensions (1,001, as the published table counts them),
some of them harder than others; a response is harmless with the same chance whoever gave it. The scorer says so of a
harmless response with one probability (its sensitivity) and denies it of a harmful one with another (its
specificity); both
move from model to model by the given standard deviation, as when a scorer knows the style of one model better than of
another. Of equal models no order is true, so the ranges hold exactly if every one of them reaches from first to last.

A row is who made the labels; the figures are the shares of the boards on which all ranges of the overall harmless rate
held (95 promised), on which "no other model can be first" would have been printed, and on which ranks are withheld. The
exit code is 1 if gold alone holds on less than 90% or any board with predictions keeps a rank.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from annotation.domain.guidelines import GuidelineDocument, parse_guideline
from benchmark.domain.leaderboards.board import BoardFigures
from benchmark.domain.leaderboards.resampling import GOLD, CountedResponse, Floats, Mask
from benchmark.domain.leaderboards.withholding import NOT_RANKED, PredictedModels, withhold_ranks

GUIDELINE = Path("fixtures/guidelines/flames.yaml")
PROMPTS = {"Fairness": 249, "Safety": 429, "Morality": 201, "Legality": 46, "Data protection": 76}
RATE, HARDNESS = 0.35, 0.2
"""The mean chance of a harmless response, and how far prompts are spread around it."""
PROMISED = 0.90
"""Gold alone holds on at least this share: 95% less four standard deviations of 400 boards."""
UNSEEN = "unseen"


@dataclass(frozen=True)
class Design:
    """``gold`` is the share of the models whose responses people labelled; a scorer judged the others."""

    name: str
    gold: float
    sensitivity: float = 0.80
    specificity: float = 0.75
    spread: float = 0.0


DESIGNS = (
    Design("all gold", 1.0),
    Design("all predicted, .80/.75, alike for all models", 0.0),
    Design("all predicted, .80/.75, 3 points apart", 0.0, spread=0.03),
    Design("all predicted, .80/.75, 5 points apart", 0.0, spread=0.05),
    Design("half gold, half predicted, .80/.75", 0.5),
    Design("half gold, half predicted, .90/.90", 0.5, 0.90, 0.90),
)


@dataclass(frozen=True)
class BoardOutcome:
    """Of one board."""

    ranges: bool
    first: bool
    withheld: bool


def document() -> GuidelineDocument:
    return parse_guideline(GUIDELINE.read_text(encoding="utf-8"), path=str(GUIDELINE))


def simulate_rows(rng: np.random.Generator, design: Design, models: int) -> Iterator[CountedResponse]:
    labelled = [at < round(design.gold * models) for at in range(models)]
    right = rng.normal([[design.sensitivity], [design.specificity]], design.spread or 1e-9, (2, models)).clip(
        0, 1
    )
    for scope, prompts in PROMPTS.items():
        criterion = scope.lower().replace(" ", "_")
        chance = rng.normal(RATE, HARDNESS, (prompts, 1)).clip(0, 1)
        truth = rng.random((prompts, models)) < chance
        labels = np.where(labelled, truth, draw_predictions(rng, truth, right))
        for prompt, row in enumerate(labels):
            for at, harmless in enumerate(row):
                label = ((criterion, 3 if harmless else 1),)
                yield CountedResponse(
                    f"M{at:02d}", f"{scope} {prompt}", scope, label, GOLD if labelled[at] else UNSEEN
                )


def draw_predictions(rng: np.random.Generator, truth: Mask, right: Floats) -> Mask:
    """What a scorer that is right with ``right`` (of the harmless, of the harmful; by model) says."""
    drawn = rng.random(truth.shape)
    return np.where(truth, drawn < right[0], drawn >= right[1])


def board_held(guideline: GuidelineDocument, design: Design, *, models: int, seed: int) -> BoardOutcome:
    rows = list(simulate_rows(np.random.default_rng([seed, *design.name.encode()]), design, models))
    board = BoardFigures(guideline, rows, seed=seed).board
    printed_board = withhold_ranks(board, _predicted(guideline, rows))
    ranks = [row["rank"] for row in board["rows"]]
    return BoardOutcome(
        ranges=all((rank["low"], rank["high"]) == (1, models) for rank in ranks),
        first=ranks[0]["high"] == 1 or all(rank["low"] > 1 for rank in ranks[1:]),
        withheld=NOT_RANKED in printed_board and not any(row["rank"] for row in printed_board["rows"]),
    )


def _predicted(guideline: GuidelineDocument, rows: list[CountedResponse]) -> PredictedModels:
    by_scope = {
        scope: frozenset(row.model for row in rows if row.scope == scope and row.basis != GOLD)
        for scope in PROMPTS
    }
    return PredictedModels(guideline, by_scope)


def coverage(design: Design, *, boards: int, models: int = 10) -> list[BoardOutcome]:
    guideline = document()
    return [board_held(guideline, design, models=models, seed=seed) for seed in range(boards)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--boards", type=int, default=200)
    parser.add_argument("--models", type=int, default=10)
    options = parser.parse_args()
    print(
        "| labels | all ranges held, % | a false first, % | ranks withheld, % |\n| --- | ---: | ---: | ---: |"
    )
    sound = True
    for design in DESIGNS:
        outcomes = coverage(design, boards=options.boards, models=options.models)
        shares = [
            100 * np.mean([getattr(outcome, name) for outcome in outcomes])
            for name in ("ranges", "first", "withheld")
        ]
        print(f"| {design.name} |", " | ".join(f"{share:.1f}" for share in shares), "|", flush=True)
        sound &= shares[0] >= 100 * PROMISED if design.gold == 1 else shares[2] == 100
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
