"""Two models of a board, and the labels that would tell them apart. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from annotation.core.proportions import Z
from benchmark.domain.estimates.label_plan.label_plan import (
    PlanStratum,
    StrataGrid,
    StratumTarget,
    compute_label_variances,
)


@dataclass(frozen=True)
class ModelPair:
    """Two models, what they differ by, and the variance of that from the choice of prompts, which no label lowers.

    ``strata`` are those of both, ``weights`` what each dimension counts in the number that they are compared by.
    Whether the two are compared and what their ``interval`` is the board says, and so whether they are separated; the
    difference is the board's then, else what they seem to differ by.
    """

    first: str
    second: str
    difference: float
    prompt_variance: float
    strata: Sequence[PlanStratum]
    weights: Mapping[tuple[str, str], float]
    is_compared: bool = False
    interval: tuple[float, float] | None = None

    @property
    def separated(self) -> bool:
        """As the board has it."""
        if not self.is_compared or self.interval is None:
            return False
        low, high = self.interval
        return low > 0 or high < 0

    @cached_property
    def inflation(self) -> float:
        """How many times the variance that a plan reckons with the board's interval has, on its side towards 0.

        The plan is made in units of the board, so that a pair which the board does not separate always needs something.
        """
        known = self.prompt_variance + compute_label_variances(self._grid, [self.strata])[0]
        if self.interval is None or not 0 < known < math.inf:
            return 1.0
        low, high = self.interval
        half = self.difference - low if self.difference > 0 else high - self.difference
        return (half / Z) ** 2 / known if half > 0 else 1.0

    @property
    def min_half_width(self) -> float:
        """With everything labelled."""
        return Z * math.sqrt(self.prompt_variance * self.inflation)

    @property
    def max_label_variance(self) -> float:
        """What the labels of the plan may leave, so that the difference is seen."""
        return (self.difference / Z) ** 2 / self.inflation - self.prompt_variance

    @property
    def is_separable(self) -> bool:
        """Whether labels can tell them apart; else they differ by less than these prompts can tell."""
        return abs(self.difference) > self.min_half_width

    @property
    def prompt_factor(self) -> float | None:
        """How many times these prompts would separate them, if they differ by what they seem to; None for equals."""
        return (self.min_half_width / self.difference) ** 2 if self.difference else None

    def plan_labels(self) -> list[StratumTarget] | None:
        """The labels that would separate them, if they differ by what they seem to; None where all are too few."""
        if not self.is_separable:
            return None
        return plan_separations([self])[0]

    @cached_property
    def shares(self) -> list[float]:
        """What each stratum counts in the number of its model."""
        populations: Counter[tuple[str, str]] = Counter()
        for stratum in self.strata:
            populations[stratum.model, stratum.scope] += stratum.population
        return [
            stratum.population
            / populations[stratum.model, stratum.scope]
            * self.weights[stratum.model, stratum.scope]
            for stratum in self.strata
        ]

    @cached_property
    def _grid(self) -> StrataGrid:
        return StrataGrid.build([self.strata], [self.shares])


def plan_separations(pairs: Sequence[ModelPair]) -> list[list[StratumTarget] | None]:
    """What ``plan_labels`` says of each pair, for all pairs at once."""
    able = [pair for pair in pairs if pair.is_separable]
    left = [pair.max_label_variance for pair in able]
    grid = StrataGrid.build([pair.strata for pair in able], [pair.shares for pair in able])
    labels = iter(grid.compute_labels(np.array(left)))
    return [
        [StratumTarget(stratum, int(n)) for stratum, n in zip(pair.strata, next(labels), strict=False)]
        if pair.is_separable
        else None
        for pair in pairs
    ]
