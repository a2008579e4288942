"""How many gold labels more would do, and which: the labels for a goal, spread where they tell most. Pure.

A label of a stratum is worth as much as the prediction leaves open there, so strata get labels by their size times the
deviation after the prediction (J. Neyman, Journal of the Royal Statistical Society 97, 1934), over the root of what a
label costs. The variance that labels leave is the finite one of ``benchmark/domain/estimates/prediction_powered.py``:
with everything labelled it is 0. docs/estimates.md says what is assumed.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from annotation.core.proportions import Z
from benchmark.domain.estimates.estimates import (
    MIN_LABELLED,
    Bounds,
)
from benchmark.domain.estimates.prediction_powered import Floats

HALVINGS = 60
"""More than a float holds."""


@dataclass(frozen=True)
class PlanStratum:
    """One model's responses to the prompts of a dimension whose sureness lies between two edges.

    ``held`` are the responses that people label or have labelled, ``labelled`` those whose label is gold by now. The
    ``variance`` of a label after the prediction is ``assumed`` where the model itself has too few labels.
    """

    model: str
    scope: str
    bounds: Bounds
    population: int
    labelled: int
    held: int
    variance: float
    assumed: bool = False

    @property
    def key(self) -> tuple[str, str, Bounds]:
        return self.model, self.scope, self.bounds


@dataclass(frozen=True)
class StratumTarget:
    """A stratum with the labels that it should have in the end, those that it has among them."""

    stratum: PlanStratum
    labels: int

    @property
    def more(self) -> int:
        return self.labels - self.stratum.held


def fill_variances(
    strata: Sequence[PlanStratum],
    known: Mapping[tuple[str, str, Bounds], float],
    largest: Mapping[str, float],
) -> list[PlanStratum]:
    """Each stratum with its variance: its own; else the mean of other models' in the same dimension and stratum, else
    in the same dimension; else the ``largest`` that a label of the dimension can have.
    """
    variances: dict[tuple[str, Bounds | None], list[float]] = defaultdict(list)
    for (_model, scope, bounds), variance in known.items():
        variances[scope, bounds].append(variance)
        variances[scope, None].append(variance)
    completed = []
    for stratum in strata:
        if stratum.key in known:
            completed.append(replace(stratum, variance=known[stratum.key], assumed=False))
        else:
            substitutes = (
                variances[stratum.scope, stratum.bounds]
                or variances[stratum.scope, None]
                or [largest[stratum.scope]]
            )
            completed.append(replace(stratum, variance=sum(substitutes) / len(substitutes), assumed=True))
    return completed


@dataclass(frozen=True)
class StrataGrid:
    """Strata as (cells, strata of a cell), padded with empty ones; ``share`` is their weight in the cell's number."""

    share: Floats
    population: Floats
    held: Floats
    variance: Floats

    @classmethod
    def build(cls, cells: Sequence[Sequence[PlanStratum]], shares: Sequence[Sequence[float]]) -> StrataGrid:
        width = max((len(cell) for cell in cells), default=0)
        arrays = np.zeros((4, len(cells), width))
        for place, (cell, own) in enumerate(zip(cells, shares, strict=True)):
            for at, (stratum, share) in enumerate(zip(cell, own, strict=True)):
                arrays[:, place, at] = share, stratum.population, stratum.held, stratum.variance
        return cls(*arrays)

    @property
    def adds(self) -> Floats:
        """What a stratum adds to the variance of its number, with one label."""
        return np.asarray(self.share**2 * self.variance)

    def compute_minimum(self) -> Floats:
        """No label is taken back, and no stratum keeps so few labels that it must be joined with another."""
        return np.maximum(self.held, np.minimum(self.population, MIN_LABELLED))

    def compute_variance(self, labels: Floats) -> Floats:
        """(.., cells) with so many labels in each stratum; infinite where a stratum that counts has none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            left = self.adds * (1 / labels - 1 / self.population)
        return np.asarray(np.where(self.adds > 0, left, 0).sum(axis=-1))

    def compute_labels(self, variance: Floats) -> Floats:
        """(.., cells, strata): the fewest labels that leave (.., cells) no more variance, cost being alike."""
        least = self.compute_minimum()
        per = np.sqrt(self.adds)
        many = np.where(per > 0, self.population / np.where(per > 0, per, 1), 0).max(axis=-1, initial=0)
        low = np.zeros(np.broadcast_shapes(variance.shape, many.shape))
        high = np.broadcast_to(many, low.shape).copy()
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            enough = self.compute_variance(self._spread_labels(middle, per, least)) <= variance
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return np.ceil(np.round(self._spread_labels(high, per, least), 6))

    def _spread_labels(self, level: Floats, per: Floats, least: Floats) -> Floats:
        return np.clip(level[..., None] * per, least, self.population)


def plan_for_precision(strata: Sequence[PlanStratum], half_width: float) -> list[StratumTarget]:
    """So that the number of every model and dimension is known to plus or minus ``half_width``."""
    cells = _group_cells(strata)
    labels = _build_grid(cells).compute_labels(np.full(len(cells), (half_width / Z) ** 2))
    return [
        StratumTarget(stratum, int(n))
        for cell, own in zip(cells, labels, strict=True)
        for stratum, n in zip(cell, own, strict=False)
    ]


def compute_curve(strata: Sequence[PlanStratum], half_widths: Sequence[float]) -> list[int]:
    """How many more labels each half-width would take."""
    if not strata:
        return [0] * len(half_widths)
    grid = _build_grid(_group_cells(strata))
    targets = (np.asarray(half_widths, dtype=float)[:, None] / Z) ** 2 * np.ones(len(grid.share))
    return [int(n) for n in (grid.compute_labels(targets) - grid.held).sum(axis=(1, 2))]


def compute_half_widths(strata: Sequence[PlanStratum]) -> dict[tuple[str, str], float | None]:
    """By model and dimension, as the gold labels are now; None where a stratum has none."""
    cells = _group_cells(strata)
    variances = compute_label_variances(_build_grid(cells), cells)
    return {
        (cell[0].model, cell[0].scope): compute_half_width(variance)
        for cell, variance in zip(cells, variances, strict=True)
    }


def compute_label_variances(grid: StrataGrid, cells: Sequence[Sequence[PlanStratum]]) -> list[float]:
    """The variance that today's gold labels leave of the number of each cell."""
    labelled = np.zeros(grid.population.shape)
    for place, cell in enumerate(cells):
        labelled[place, : len(cell)] = [stratum.labelled for stratum in cell]
    variances: list[float] = grid.compute_variance(labelled).tolist()
    return variances


@dataclass(frozen=True)
class PromptNeed:
    """About how many prompts would know a column to a target half-width, which no label brings.

    The numbers are of the model that needs the most: it has answered ``prompts``, and ``half_width`` is that of its
    interval for all prompts like these. ``half_width`` and ``needed`` are None where no model's interval is defined.
    """

    scope: str
    prompts: int
    half_width: float | None
    needed: int | None

    @property
    def is_met(self) -> bool:
        return self.needed is not None and self.needed <= self.prompts


def count_prompts_needed(prompts: int, half_width: float, target: float) -> int:
    """A half-width falls with the root of the prompts. Rounded up to two digits, for it says no more than about."""
    return prompts if half_width <= target else round_up(prompts * (half_width / target) ** 2)


def round_up(n: float) -> int:
    step: int = 10 ** max(0, math.floor(math.log10(n)) - 1)
    return math.ceil(n / step) * step


def compute_half_width(variance: float) -> float | None:
    return Z * math.sqrt(variance) if math.isfinite(variance) else None


def _group_cells(strata: Sequence[PlanStratum]) -> list[list[PlanStratum]]:
    cells: dict[tuple[str, str], list[PlanStratum]] = defaultdict(list)
    for stratum in strata:
        cells[stratum.model, stratum.scope].append(stratum)
    return list(cells.values())


def _build_grid(cells: Sequence[Sequence[PlanStratum]]) -> StrataGrid:
    return StrataGrid.build(cells, [_compute_shares(cell) for cell in cells])


def _compute_shares(cell: Sequence[PlanStratum]) -> list[float]:
    population = sum(stratum.population for stratum in cell)
    return [stratum.population / population for stratum in cell]


@dataclass(frozen=True)
class LabelEffort:
    """What a label takes: seconds of an annotator, how many annotators, and how often and how long an adjudicator.

    None where nobody has measured it.
    """

    seconds: float | None
    overlap: int
    disputed: float | None = None
    decision_seconds: float | None = None

    def compute_hours(self, labels: int) -> float | None:
        """Of each of ``overlap`` annotators, if these alone do it."""
        return None if self.seconds is None else labels * self.seconds / 3600

    def compute_decision_hours(self, labels: int) -> float | None:
        if self.disputed is None or self.decision_seconds is None:
            return None
        return labels * self.disputed * self.decision_seconds / 3600


def draw_responses(free: Sequence[int], n: int, *, seed: int, stratum: PlanStratum) -> list[int]:
    """``n`` of these ids at random, the same for the same ids, seed and stratum, whatever else is drawn."""
    low, high = stratum.bounds
    name = f"{seed}/{stratum.model}/{stratum.scope}/{low!r}/{high!r}"
    return random.Random(name).sample(sorted(free), n)  # noqa: S311  # a draw that can be repeated, no secret
