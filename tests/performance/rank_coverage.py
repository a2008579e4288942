"""How often ranges of ranks hold for all compared models of a board at once, where people or a scorer made its labels.

    python -m tests.performance.rank_coverage [--boards 400] [--models 10] [--only TEXT] [--power] [--criteria]

The model: equal models answer the prompts of the five Flames dimensions (1,001, as the published table counts them; or
a share of them), some of them harder than others; a response is harmless with the same chance whoever gave it. The
scorer says so of a harmless response with one probability (its sensitivity) and denies it of a harmful one with another
(its specificity); both move from model to model by the given standard deviation, as when a scorer knows the style of
one model better than of another. People label all responses of a model, or a chance sample of them in each dimension,
or none. Of equal models no order is true, so the ranges hold exactly if every one reaches from first to last of the
compared models.

A row is who made the labels; the figures are the mean number of compared models, and the shares of the boards on which
all ranges of the overall harmless rate held (95 promised; a board that compares nobody claims nothing and holds), of
the compared models whose 95% interval of the overall rate held, and of the boards on which "no other model can be
first" would have been printed. The exit code is 1 if any row is below 93% in the first two.

``--criteria``: the mean over the seven criteria of ESC-Eval, from 0 to 4, of equal models whose 331 dialogues people
judged. The seven levels of a response are correlated, with each other and with those of other models on the same card.
Two criteria, which are lower than the others, have no label of some responses: by chance, or only where another
criterion is high, as a question that is asked under a condition. ``pooled`` is how far the mean over all labels lies
from the mean over criteria. The exit code is 1 if less than 93% of the intervals of a row held, or, where people
judged all 331, more than 97%: of few, two labels that nobody saw make an interval wider.

``--power``: half of the models are better by a true gap; the figure is the share of the boards on which a model of the
upper half and one of the lower, fixed beforehand, are separated by the ranks' own intervals.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from annotation.domain.guidelines import GuidelineDocument, parse_guideline
from benchmark.domain.estimates.board_numbers import StratifiedCombiner
from benchmark.domain.leaderboards.board import BoardFigures
from benchmark.domain.leaderboards.metrics import ALL
from benchmark.domain.leaderboards.responses import GOLD, CountedResponse, Floats, Integers, Mask

GUIDELINE, DIALOGUES = (Path(f"fixtures/guidelines/{name}.yaml") for name in ("flames", "esc_eval"))
PROMPTS = {"Fairness": 249, "Safety": 429, "Morality": 201, "Legality": 46, "Data protection": 76}
THIRD = {"Fairness": 75, "Safety": 129, "Morality": 60, "Legality": 14, "Data protection": 23}
TENTH = {"Fairness": 25, "Safety": 43, "Morality": 20, "Legality": 4, "Data protection": 8}
LEAST = {"Fairness": 75, "Safety": 129, "Morality": 60, "Legality": 10, "Data protection": 10}
"""Two dimensions with as few prompts as an overall interval is given for."""
EVEN = dict.fromkeys(PROMPTS, 200)
RATE, HARDNESS = 0.35, 0.2
"""The mean chance of a harmless response, and how far prompts are spread around it."""
PROMISED, MAX_PROMISED = 93.0, 97.0
UNSEEN = "unseen"
TRUTH_DRAWS = 1_000_000


@dataclass(frozen=True)
class Design:
    """``gold`` is the share of the models whose responses people labelled; of the others they labelled ``labels`` in
    each dimension, or all where it has fewer. ``gap`` is how much better the first half of the models is."""

    name: str
    gold: float
    labels: int = 0
    sensitivity: float = 0.80
    specificity: float = 0.75
    spread: float = 0.0
    rate: float = RATE
    gap: float = 0.0
    shared: bool = True
    """All models answered the same prompts."""
    prompts: tuple[tuple[str, int], ...] = tuple(PROMPTS.items())


def sized(name: str, prompts: dict[str, int], rate: float = RATE) -> Design:
    return Design(name, 1.0, rate=rate, prompts=tuple(prompts.items()))


DESIGNS = (
    sized("all gold", PROMPTS),
    sized("all gold, .3 of the prompts", THIRD),
    sized("all gold, .1 of the prompts (4 of Legality)", TENTH),
    sized("all gold, 10 prompts in two dimensions", LEAST),
    *(
        sized(f"all gold, rate {rate}{text}", prompts, rate)
        for rate in (0.9, 0.95)
        for text, prompts in (
            ("", PROMPTS),
            (", .3 of the prompts", THIRD),
            (", 10 in two dimensions", LEAST),
        )
    ),
    Design("all gold, each model on prompts of its own", 1.0, shared=False),
    Design("all predicted, .80/.75, alike for all models", 0.0),
    Design("all predicted, .80/.75, 3 points apart", 0.0, spread=0.03),
    Design("all predicted, .80/.75, 5 points apart", 0.0, spread=0.05),
    Design("half gold, half predicted, .80/.75", 0.5),
    Design("half gold, half predicted, .90/.90", 0.5, sensitivity=0.90, specificity=0.90),
    Design("200 labels a model, .80/.75, 5 points apart", 0.0, labels=40, spread=0.05),
    Design("100 labels a model (20 a dimension), 5 points apart", 0.0, labels=20, spread=0.05),
    Design("half gold, half 200 labels, 5 points apart", 0.5, labels=40, spread=0.05),
    Design("200 labels a model, rate 0.9, 5 points apart", 0.0, labels=40, spread=0.05, rate=0.9),
    Design("100 labels a model (20 a dimension), rate 0.95", 0.0, labels=20, spread=0.05, rate=0.95),
)
POWER = tuple(
    Design(
        f"{5 * labels} labels a model, a gap of {100 * gap:.0f} points",
        0.0,
        labels=labels,
        spread=0.05,
        gap=gap,
        rate=RATE,
    )
    for labels in (40, 60, 80)
    for gap in (0.10, 0.15, 0.18, 0.20)
)


@dataclass(frozen=True)
class BoardOutcome:
    """Of one board; ``intervals`` are the compared models whose interval holds, ``separated`` is of the fixed pair."""

    compared: int
    ranges: bool
    intervals: int
    first: bool
    separated: bool


ALL_CARDS = 331


@dataclass(frozen=True)
class CriteriaDesign:
    """Of two of seven criteria a share of the responses has no label: ``missing`` by chance, or with ``asked_from`` all
    where the level of another one is lower. ``labels`` of each model are people's, or all (0), the rest a scorer's.
    """

    name: str
    missing: float = 0.0
    asked_from: int | None = None
    labels: int = 0
    prompts: int = ALL_CARDS
    shared: bool = True
    rate: bool = False
    """The share of the levels 3 and 4, and not 25 times the mean."""
    level: float = 2.4


CRITERIA = (
    CriteriaDesign("all labels"),
    CriteriaDesign("20% missing on two", 0.2),
    CriteriaDesign("20% missing on two, each model on cards of its own", 0.2, shared=False),
    CriteriaDesign("20% missing on two, 40 cards", 0.2, prompts=40),
    CriteriaDesign("90% missing on two", 0.9),
    CriteriaDesign("two asked where empathy is 2 or more", asked_from=2),
    CriteriaDesign("two asked where empathy is 4", asked_from=4),
    CriteriaDesign("75% missing on two, 40 cards", 0.75, prompts=40),
    CriteriaDesign("20% missing on two, levels near the end", 0.2, level=3.7),
    CriteriaDesign("90% missing on two, levels near the end", 0.9, level=3.7),
    CriteriaDesign("20% missing on two, a rate", 0.2, rate=True),
    CriteriaDesign("90% missing on two, a rate", 0.9, rate=True),
    CriteriaDesign("20% missing on two, a rate near the end", 0.2, rate=True, level=3.7),
    CriteriaDesign("90% missing on two, a rate near the end", 0.9, rate=True, level=3.7),
    CriteriaDesign("100 of 331 labelled, all labels", labels=100),
    CriteriaDesign("100 of 331 labelled, 20% missing on two", 0.2, labels=100),
    CriteriaDesign("100 of 331 labelled, 75% missing on two", 0.75, labels=100),
    CriteriaDesign("100 of 331 labelled, two asked where empathy is 2 or more", asked_from=2, labels=100),
    CriteriaDesign("100 of 331 labelled, 20% missing on two, a rate", 0.2, labels=100, rate=True),
)
LACKING, CONDITION = (3, 5), 2
"""Information and humanoid; empathy."""
OFFSETS = (0.9, 0.2, 0.1, -0.8, -0.2, -1.0, 0.0)
"""How much higher a criterion is than the mean level."""
CARD, DIALOGUE, OWN = 0.5, 0.6, 0.7
"""The standard deviations of what a card, a dialogue and a criterion of it add: criteria correlate by about .5."""
SCORER_ERROR = 0.8


def read_dialogues(design: CriteriaDesign) -> GuidelineDocument:
    """ESC-Eval with its average alone, or with the rate in its place."""
    guideline = parse_guideline(DIALOGUES.read_text(encoding="utf-8"), path=str(DIALOGUES))
    metric = guideline.metric(guideline.rank_by)
    if design.rate:
        metric = metric.model_copy(update={"kind": "rate", "formula": None, "levels": (3, 4)})
    return guideline.model_copy(update={"metrics": (metric,)})


def draw_levels(
    rng: np.random.Generator, design: CriteriaDesign, prompts: int, models: int
) -> tuple[Integers, Mask, Floats]:
    """(prompts, models, criteria): the levels, which of them people give, and what they are before they are rounded."""
    card = rng.normal(0, CARD, (prompts, 1 if design.shared else models, 1))
    dialogue = rng.normal(0, DIALOGUE, (prompts, models, 1))
    own = rng.normal(0, OWN, (prompts, models, len(OFFSETS)))
    latent = design.level + np.array(OFFSETS) + card + dialogue + own
    levels = np.clip(np.rint(latent), 0, 4).astype(np.int64)
    is_given = np.ones(levels.shape, dtype=bool)
    for place in LACKING:
        is_given[..., place] = (
            rng.random((prompts, models)) >= design.missing
            if design.asked_from is None
            else levels[..., CONDITION] >= design.asked_from
        )
    return levels, is_given, np.asarray(latent)


def compute_criteria_truth(design: CriteriaDesign) -> tuple[float, float]:
    """The mean over criteria of all responses there might be, and the mean over all labels."""
    levels, is_given, _latent = draw_levels(np.random.default_rng(1), design, TRUTH_DRAWS, 1)
    values = (levels >= 3).astype(float) if design.rate else 25.0 * levels
    by_criterion = [float(values[..., at][is_given[..., at]].mean()) for at in range(len(OFFSETS))]
    return float(np.mean(by_criterion)), float(values[is_given].mean())


def simulate_dialogues(
    rng: np.random.Generator, guideline: GuidelineDocument, design: CriteriaDesign, models: int
) -> Iterator[CountedResponse]:
    """The scorer's errors are of one criterion each; it does not know what people leave out."""
    levels, is_given, latent = draw_levels(rng, design, design.prompts, models)
    predictions = np.clip(np.rint(latent + rng.normal(0, SCORER_ERROR, latent.shape)), 0, 4).astype(np.int64)
    is_labelled = rng.random(levels.shape[:2]).argsort(axis=0).argsort(axis=0) < (
        design.labels or len(levels)
    )
    names = [criterion.name for criterion in guideline.criteria]
    for prompt in range(design.prompts):
        for at in range(models):
            own = zip(names, levels[prompt, at].tolist(), is_given[prompt, at], strict=True)
            gold = tuple(sorted((name, level) for name, level, is_answered in own if is_answered))
            predicted = tuple(sorted(zip(names, predictions[prompt, at].tolist(), strict=True)))
            has_gold = bool(is_labelled[prompt, at])
            yield CountedResponse(
                f"M{at:02d}",
                f"{prompt}" if design.shared else f"{prompt} {at}",
                ALL,
                gold if has_gold else predicted,
                GOLD if has_gold else UNSEEN,
                gold=gold if has_gold else (),
                predicted=predicted if design.labels else (),
            )


def document() -> GuidelineDocument:
    """Flames with the number that it ranks by alone: the other takes as long again."""
    guideline = parse_guideline(GUIDELINE.read_text(encoding="utf-8"), path=str(GUIDELINE))
    return guideline.model_copy(
        update={"metrics": tuple(metric for metric in guideline.metrics if metric.name == guideline.rank_by)}
    )


def compute_truth(rate: float) -> float:
    """The mean chance of prompts whose hardness is cut at 0 and 1."""
    return float(np.random.default_rng(1).normal(rate, HARDNESS, TRUTH_DRAWS).clip(0, 1).mean())


def draw_chances(rng: np.random.Generator, design: Design, prompts: int, models: int) -> Floats:
    """(prompts, models): of a harmless response. The better half has the gap at every prompt but for the ends."""
    columns = 1 if design.shared else models
    chances = rng.normal(design.rate, HARDNESS, (prompts, columns)).clip(0, 1)
    return np.asarray(np.clip(chances + np.where(np.arange(models) < models // 2, design.gap, 0.0), 0, 1))


def simulate_rows(rng: np.random.Generator, design: Design, models: int) -> Iterator[CountedResponse]:
    is_gold = np.arange(models) < round(design.gold * models)
    if design.gap:
        is_gold[:] = False
    right = rng.normal([[design.sensitivity], [design.specificity]], design.spread or 1e-9, (2, models)).clip(
        0, 1
    )
    for scope, prompts in design.prompts:
        criterion = scope.lower().replace(" ", "_")
        truth = rng.random((prompts, models)) < draw_chances(rng, design, prompts, models)
        predicted = draw_predictions(rng, truth, right)
        labelled = rng.random((prompts, models)).argsort(axis=0).argsort(axis=0) < design.labels
        for prompt in range(prompts):
            for at in range(models):
                name = f"{scope} {prompt}" if design.shared else f"{scope} {at} {prompt}"
                gold = ((criterion, 3 if truth[prompt, at] else 1),)
                prediction = ((criterion, 3 if predicted[prompt, at] else 1),)
                has_gold = bool(is_gold[at] or labelled[prompt, at])
                yield CountedResponse(
                    f"M{at:02d}",
                    name,
                    scope,
                    gold if has_gold else prediction,
                    GOLD if has_gold else UNSEEN,
                    gold=gold if has_gold else (),
                    predicted=() if is_gold[at] else prediction,
                )


def draw_predictions(rng: np.random.Generator, truth: Mask, right: Floats) -> Mask:
    """What a scorer that is right with ``right`` (of the harmless, of the harmful; by model) says."""
    drawn = rng.random(truth.shape)
    return np.where(truth, drawn < right[0], drawn >= right[1])


def measure_board(
    guideline: GuidelineDocument, rows: Sequence[CountedResponse], *, models: int, truth: float
) -> BoardOutcome:
    figures = BoardFigures(guideline, rows, combiner=StratifiedCombiner(guideline, rows))
    board = figures.board
    compared = [row for row in board["rows"] if row["rank"]]
    n = len(compared)
    statistics = [row["overall"][guideline.rank_by] for row in compared]
    ranks = {row["model"]: row["rank"] for row in compared}
    upper, lower = (ranks.get(f"M{at:02d}") for at in (0, models - 1))
    return BoardOutcome(
        compared=n,
        ranges=all((rank["low"], rank["high"]) == (1, n) for rank in ranks.values()),
        intervals=sum(statistic["low"] <= truth <= statistic["high"] for statistic in statistics),
        first=n == models
        and (compared[0]["rank"]["high"] == 1 or all(row["rank"]["low"] > 1 for row in compared[1:])),
        separated=bool(upper and lower and _is_separated(figures, "M00", f"M{models - 1:02d}")),
    )


def _is_separated(figures: BoardFigures, upper: str, lower: str) -> bool:
    """By the signs that the ranges of ranks are made of."""
    from benchmark.domain.leaderboards.pairs import OVERALL, compute_differences
    from benchmark.domain.leaderboards.ranks import find_joint_signs

    metric = figures.document.metric(figures.document.rank_by)
    models = [row["model"] for row in figures.board["rows"]]
    signs = find_joint_signs(compute_differences(figures.numbers, metric, OVERALL, models))
    return bool(signs[models.index(upper), models.index(lower)] > 0)


def simulate_boards(design: Design, *, boards: int, models: int = 10) -> list[BoardOutcome]:
    guideline, truth = document(), compute_truth(design.rate)
    return [
        measure_board(guideline, list(simulate_rows(rng, design, models)), models=models, truth=truth)
        for rng in _list_generators(design.name, boards)
    ]


def _list_generators(name: str, boards: int) -> Iterator[np.random.Generator]:
    return (np.random.default_rng([seed, *name.encode()]) for seed in range(boards))


def simulate_criteria(design: CriteriaDesign, *, boards: int, models: int = 10) -> list[BoardOutcome]:
    guideline, (truth, _pooled) = read_dialogues(design), compute_criteria_truth(design)
    return [
        measure_board(
            guideline, list(simulate_dialogues(rng, guideline, design, models)), models=models, truth=truth
        )
        for rng in _list_generators(design.name, boards)
    ]


def summarize(outcomes: list[BoardOutcome]) -> tuple[float, float, float, float]:
    """Compared models of a board; the shares, in percent, of ranges, of intervals (NaN without any) and of a first."""
    compared = sum(outcome.compared for outcome in outcomes)
    held = 100 * sum(outcome.intervals for outcome in outcomes) / compared if compared else float("nan")
    return (
        compared / len(outcomes),
        100 * float(np.mean([outcome.ranges for outcome in outcomes])),
        held,
        100 * float(np.mean([outcome.first for outcome in outcomes])),
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--boards", type=int, default=400)
    parser.add_argument("--models", type=int, default=10)
    parser.add_argument("--only", default="", help="the rows whose names have this text")
    parser.add_argument("--power", action="store_true")
    parser.add_argument("--criteria", action="store_true")
    options = parser.parse_args()
    if options.power:
        return print_power(options)
    if options.criteria:
        return print_criteria(options)
    print("| labels | compared | all ranges held, % | intervals held, % | a false first, % |")
    print("| --- | ---: | ---: | ---: | ---: |")
    sound = True
    for design in (design for design in DESIGNS if options.only in design.name):
        figures = summarize(simulate_boards(design, boards=options.boards, models=options.models))
        print(f"| {design.name} |", " | ".join(f"{figure:.1f}" for figure in figures), "|", flush=True)
        sound &= not any(figure < PROMISED for figure in figures[1:3])
    return 0 if sound else 1


def print_criteria(options: argparse.Namespace) -> int:
    print("| labels | true mean | pooled | compared | all ranges held, % | intervals held, % |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    sound = True
    for design in (design for design in CRITERIA if options.only in design.name):
        outcomes = simulate_criteria(design, boards=options.boards, models=options.models)
        compared, ranges, intervals, _first = summarize(outcomes)
        means = " | ".join(
            f"{(100 if design.rate else 1) * mean:.2f}" for mean in compute_criteria_truth(design)
        )
        print(f"| {design.name} | {means} | {compared:.1f} | {ranges:.1f} | {intervals:.1f} |", flush=True)
        is_large = not design.labels and design.prompts == ALL_CARDS
        sound &= intervals >= PROMISED and (not is_large or intervals <= MAX_PROMISED)
    return 0 if sound else 1


def print_power(options: argparse.Namespace) -> int:
    print("| labels and gap | separated, % |\n| --- | ---: |")
    for design in (design for design in POWER if options.only in design.name):
        outcomes = simulate_boards(design, boards=options.boards, models=options.models)
        print(
            f"| {design.name} | {100 * np.mean([outcome.separated for outcome in outcomes]):.1f} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
