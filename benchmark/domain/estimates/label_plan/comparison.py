"""The labels that it takes to compare every model of a board: drawn by chance, enough to separate a true gap. Pure.

A model is compared once chance has chosen gold in each of its columns. How many labels separate two models that truly
differ by a gap follows from the variance that labels leave and that of the prompts, as docs/estimates.md has it;
``python -m tests.performance.plan_power`` draws boards to see what the plan promises.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from scipy.stats import studentized_range

from benchmark.domain.estimates.label_plan.label_plan import PlanStratum, StrataGrid, StratumTarget
from benchmark.domain.leaderboards.grounds import MIN_LABELS

POWER = 0.8
"""The share of boards on which the planned labels separate two models that truly differ by the gap."""
DEFAULT_GAP = 0.15
"""Of a rate: 15 percentage points. Of another metric, that share of its span."""
CONFIDENCE = 0.95
MIN_GAP_FACTOR = 1.2
"""Times the gap that the prompts leave with everything labelled: nearer to it nearly all labels would be needed."""


@dataclass(frozen=True)
class ModelToCompare:
    """A model whose number rests on predictions somewhere: its strata, and what each column counts in its number.

    ``prompt_variance`` is that of the number from the choice of prompts, which no label lowers. ``is_spoiled`` says
    that some of its gold was not chosen by chance, so that no draw makes it comparable: only all of its labels would.
    """

    model: str
    strata: Sequence[PlanStratum]
    weights: Mapping[str, float]
    prompt_variance: float
    is_compared: bool = False
    is_spoiled: bool = False

    @property
    def shares(self) -> list[float]:
        """What each stratum counts in the number."""
        populations: dict[str, int] = defaultdict(int)
        for stratum in self.strata:
            populations[stratum.scope] += stratum.population
        return [
            stratum.population / populations[stratum.scope] * self.weights[stratum.scope]
            for stratum in self.strata
        ]


@dataclass(frozen=True)
class ModelPlan:
    """What one model needs. ``gap`` is the true difference that its labels show, wider than was asked for where its
    prompts are too few.
    """

    model: ModelToCompare
    targets: tuple[StratumTarget, ...]
    gap: float

    @property
    def labels(self) -> int:
        """Those that it has, or that people are at."""
        return sum(stratum.held for stratum in self.model.strata)

    @property
    def more(self) -> int:
        return sum(target.more for target in self.targets)


def compute_joint_width(models: int) -> float:
    """The standard errors that keep all differences of so many equal models at once, 95%: the studentized range.

    J. W. Tukey, The Problem of Multiple Comparisons (1953). Two models have that of a single pair.
    """
    return float(studentized_range.ppf(CONFIDENCE, max(2, models), np.inf)) / math.sqrt(2)


def compute_number_variance(gap: float, models: int) -> float:
    """How large the variance of each of two numbers may be, for the gap to be seen in ``POWER`` of boards."""
    widths = compute_joint_width(models) + NormalDist().inv_cdf(POWER)
    return (gap / widths) ** 2 / 2


def compute_min_gap(prompt_variance: float, models: int) -> float:
    """The least gap that labels are planned for: with everything labelled the prompts would show one a little less."""
    widths = compute_joint_width(models) + NormalDist().inv_cdf(POWER)
    return MIN_GAP_FACTOR * widths * math.sqrt(2 * prompt_variance)


def plan_comparison(models: Sequence[ModelToCompare], *, gap: float, of: int) -> list[ModelPlan]:
    """The labels by model, so that each is compared and a true ``gap`` between two of the ``of`` models is seen.

    A model that is spoiled needs all labels. Where the prompts are too few for the gap, a wider one is planned for.
    """
    gaps = [max(gap, compute_min_gap(model.prompt_variance, of)) for model in models]
    required = [
        compute_number_variance(own, of) - model.prompt_variance
        for model, own in zip(models, gaps, strict=True)
    ]
    grid = StrataGrid.build([model.strata for model in models], [model.shares for model in models])
    labels = grid.compute_labels(np.array(required)) if models else np.zeros((0, 0))
    return [
        ModelPlan(model, tuple(_plan_model(model, counts.tolist())), own)
        for model, counts, own in zip(models, labels, gaps, strict=True)
    ]


def _plan_model(model: ModelToCompare, labels: Sequence[float]) -> list[StratumTarget]:
    if model.is_spoiled:
        return [StratumTarget(stratum, stratum.population) for stratum in model.strata]
    counts = [int(n) for n in labels[: len(model.strata)]]
    for scope in model.weights:
        places = [place for place, stratum in enumerate(model.strata) if stratum.scope == scope]
        _fill_column(model.strata, counts, places)
    return [StratumTarget(stratum, n) for stratum, n in zip(model.strata, counts, strict=True)]


def _fill_column(strata: Sequence[PlanStratum], counts: list[int], places: Sequence[int]) -> None:
    """At least ``MIN_LABELS`` in the column, as many of each stratum as it is large."""
    population = sum(strata[place].population for place in places)
    required = min(MIN_LABELS, population)
    if sum(counts[place] for place in places) >= required:
        return
    for place in places:
        share = math.ceil(required * strata[place].population / population)
        counts[place] = min(strata[place].population, max(counts[place], share))
