"""How often the labels of a plan to compare all models show a true gap, and how often they show one that is not there.

    python -m tests.performance.plan_power [--boards 100] [--gaps 15 20] [--spreads 0 5]

The model: ten models answer the 1,001 prompts of the released Flames sizes; half of them are harmless more often by the
true gap. People have labelled all responses of one model of each half, and a scorer has predicted the others: it finds
a harmless response with probability .80 and a harmful one with .75, more often where it is sure, and both move from
model to model by the given standard deviation (points). The plan of ``comparison_plan`` is made from the labels of the
two models, drawn within its strata, labelled without error, and the combined numbers are compared with the intervals
that keep all 45 pairs at once.

A row: the gap that was planned for and that is true, the spread of the scorer's errors, the labels planned for a
predicted model and the gap that they show; then, in percent of the pairs of two predicted models and of a labelled and
a predicted one: of those with the gap, shown with the right sign; of equal ones, shown to differ. The exit code is 1 if
less than 80% of the gaps are shown, or if any two equal models differ on more than 7% of the boards.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from annotation.core.proportions import Z
from annotation.domain.guidelines import GuidelineDocument, parse_guideline
from benchmark.domain.estimates.estimates import compute_estimates
from benchmark.domain.estimates.label_plan.basis import PlanBasis, assign_strata
from benchmark.domain.estimates.label_plan.comparison import (
    POWER,
    ModelPlan,
    ModelToCompare,
    compute_joint_width,
    plan_comparison,
)
from benchmark.domain.estimates.label_plan.label_plan import fill_variances
from benchmark.domain.leaderboards.responses import CountedResponse

GUIDELINE = Path("fixtures/guidelines/flames.yaml")
PROMPTS = {"Fairness": 249, "Safety": 429, "Morality": 201, "Legality": 46, "Data protection": 76}
MODELS, GOLD_MODELS = 10, (0, 9)
RATE, HARDNESS = 0.4, 0.2
SENSITIVITY, SPECIFICITY = 0.80, 0.75
MAX_FALSE = 7.0
SEED = 20260301


@dataclass(frozen=True)
class BoardDraw:
    """``rows`` as a run has them before the plan; ``truth`` is the label of each, by model and prompt."""

    rows: list[CountedResponse]
    truth: Mapping[tuple[str, int | str], float]


def name_model(at: int) -> str:
    return f"model-{at}"


def draw_board(rng: np.random.Generator, document: GuidelineDocument, gap: float, spread: float) -> BoardDraw:
    rows: list[CountedResponse] = []
    truth: dict[tuple[str, int | str], float] = {}
    sensitivity = np.clip(rng.normal(SENSITIVITY, spread, MODELS), 0.5, 0.99)
    specificity = np.clip(rng.normal(SPECIFICITY, spread, MODELS), 0.5, 0.99)
    first = 0
    for scope, n in PROMPTS.items():
        criterion = document.criteria_for(scope)[0]
        good, bad = criterion.values[-1], criterion.values[0]
        hardness = rng.uniform(-HARDNESS, HARDNESS, n)
        for model in range(MODELS):
            name = name_model(model)
            rate = RATE + (gap / 2 if model < MODELS // 2 else -gap / 2)
            harmless = rng.random(n) < rate + hardness
            sureness = np.round(rng.uniform(0.6, 0.95, n), 3)
            right = np.where(harmless, sensitivity[model], specificity[model]) + (sureness - 0.775) * 0.5
            says_harmless = harmless == (rng.random(n) < right)
            for at in range(n):
                prompt = first + at
                label = ((criterion.name, good if harmless[at] else bad),)
                predicted = ((criterion.name, good if says_harmless[at] else bad),)
                is_gold = model in GOLD_MODELS
                truth[name, prompt] = label[0][1]
                rows.append(
                    CountedResponse(
                        name,
                        prompt,
                        scope,
                        label if is_gold else predicted,
                        basis="gold" if is_gold else "unseen",
                        gold=label if is_gold else (),
                        predicted=predicted,
                        sureness=float(sureness[at]),
                    )
                )
        first += n
    return BoardDraw(rows, truth)


def plan_board(document: GuidelineDocument, board: BoardDraw, gap: float) -> list[ModelPlan]:
    """As a run is planned from, by its rows alone."""
    estimates = compute_estimates(document, board.rows)
    pairs: dict[str, Any] = {"models": [name_model(at) for at in range(MODELS)], "pairs": {}}
    basis = PlanBasis.build(document, board.rows, estimates=estimates, pairs=pairs, drawn={})
    largest = dict.fromkeys(PROMPTS, 0.25)
    strata = fill_variances(basis.strata, basis.variances, largest)
    by_model = defaultdict(list)
    for stratum in strata:
        by_model[stratum.model].append(stratum)
    weights = dict.fromkeys(PROMPTS, 1 / len(PROMPTS))
    models = [
        ModelToCompare(name, by_model[name], weights, measure_prompt_variance(document, board.rows, name))
        for name in (name_model(at) for at in range(MODELS) if at not in GOLD_MODELS)
    ]
    return plan_comparison(models, gap=gap, of=MODELS)


def measure_prompt_variance(
    document: GuidelineDocument, rows: Sequence[CountedResponse], model: str
) -> float:
    """Of the labels that the board counts, predictions too."""
    total = 0.0
    for scope in PROMPTS:
        best = document.criteria_for(scope)[0].values[-1]
        values = [row.labels[0][1] == best for row in rows if row.model == model and row.scope == scope]
        total += float(np.var(values)) / len(values) / len(PROMPTS) ** 2
    return total


def label_board(
    rng: np.random.Generator, document: GuidelineDocument, board: BoardDraw, plans: Sequence[ModelPlan]
) -> dict[str, tuple[float, float]]:
    """Each model's combined number and its standard error, once the planned labels are there."""
    edges = compute_estimates(document, board.rows)["strata"]
    strata = defaultdict(list)
    bounds = {}
    for key, row in assign_strata(board.rows, edges, {}):
        assert row.prompt is not None
        bounds[row.model, row.prompt] = key[2]
        if not row.gold:
            strata[key].append((row.model, row.prompt))
    drawn: set[tuple[str, int | str]] = set()
    for plan in plans:
        for target in plan.targets:
            own = strata[target.stratum.key]
            drawn.update(own[at] for at in rng.choice(len(own), target.labels, replace=False))
    rows = [
        replace(row, gold=((row.predicted[0][0], board.truth[row.model, row.prompt]),))
        if row.prompt is not None and (row.model, row.prompt) in drawn
        else row
        for row in board.rows
    ]
    numbers = {}
    for row in compute_estimates(document, rows, strata=bounds)["rows"]:
        combined = row["cells"]["overall"][document.rank_by]["combined"]
        numbers[row["model"]] = (combined["value"], (combined["high"] - combined["low"]) / 2 / Z)
    return numbers


@dataclass
class PairCounts:
    separated: int = 0
    gaps: int = 0
    false: int = 0
    equal: int = 0

    def add(self, first: int, later: int, difference: float, half: float) -> None:
        if (first < MODELS // 2) != (later < MODELS // 2):
            self.gaps += 1
            self.separated += difference > half
        else:
            self.equal += 1
            self.false += abs(difference) > half

    @property
    def power(self) -> float:
        return 100 * self.separated / self.gaps

    @property
    def mistakes(self) -> float:
        return 100 * self.false / self.equal if self.equal else 0.0


def measure_row(
    document: GuidelineDocument, *, boards: int, gap: float, spread: float, seed: int
) -> tuple[float, float, PairCounts, PairCounts, float]:
    """Labels a model, the gap that they show, the pairs of two predicted models and of mixed ones, and the share of
    boards on which any two equal models differ.
    """
    rng = np.random.default_rng(seed)
    predicted, mixed, any_false = PairCounts(), PairCounts(), 0
    labels, gaps = [], []
    width = compute_joint_width(MODELS)
    for _ in range(boards):
        board = draw_board(rng, document, gap, spread)
        plans = plan_board(document, board, gap)
        labels.append(sum(plan.more for plan in plans) / len(plans))
        gaps.append(max(plan.gap for plan in plans))
        numbers = label_board(rng, document, board, plans)
        false_before = predicted.false + mixed.false
        for first in range(MODELS):
            for later in range(first + 1, MODELS):
                (value, error), (other, other_error) = (
                    numbers[name_model(first)],
                    numbers[name_model(later)],
                )
                is_gold = [at in GOLD_MODELS for at in (first, later)]
                if all(is_gold):
                    continue
                counts = mixed if any(is_gold) else predicted
                counts.add(first, later, value - other, width * math.hypot(error, other_error))
        any_false += predicted.false + mixed.false > false_before
    return float(np.mean(labels)), float(np.max(gaps)), predicted, mixed, 100 * any_false / boards


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--boards", type=int, default=100)
    parser.add_argument("--gaps", type=float, nargs="*", default=[15, 20], help="points")
    parser.add_argument("--spreads", type=float, nargs="*", default=[0, 5], help="points")
    options = parser.parse_args()
    document = parse_guideline(GUIDELINE.read_text(encoding="utf-8"), path=str(GUIDELINE))
    print(
        "gap  spread  labels  shows   predicted: shown  equal differ   mixed: shown  equal differ   any false"
    )
    failed = False
    for gap in options.gaps:
        for spread in options.spreads:
            labels, planned_gap, predicted, mixed, false = measure_row(
                document, boards=options.boards, gap=gap / 100, spread=spread / 100, seed=SEED
            )
            print(
                f"{gap:3g}  {spread:6g}  {labels:6.0f}  {100 * planned_gap:5.1f}   {predicted.power:16.1f}"
                f"  {predicted.mistakes:12.2f}   {mixed.power:12.1f}  {mixed.mistakes:12.2f}   {false:9.1f}"
            )
            failed = failed or predicted.power < 100 * POWER or mixed.power < 100 * POWER or false > MAX_FALSE
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
