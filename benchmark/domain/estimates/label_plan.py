"""How many gold labels more would do, and which: the labels for a goal, spread where they tell most. Pure.

A label of a stratum is worth as much as the prediction leaves open there, so strata get labels by their size times the
deviation after the prediction (J. Neyman, Journal of the Royal Statistical Society 97, 1934), over the root of what a
label costs. The variance that labels leave is the finite one of ``benchmark/prediction_powered.py``: with everything
labelled it is 0. docs/estimates.md says what is assumed.

What a plan of labels starts from: the strata of a run and how its models differ. Pure.

Computed once, when the run is finished; what people have labelled since is found when somebody plans.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from annotation.core.proportions import Z
from annotation.domain.guidelines import GuidelineDocument, Metric
from benchmark.domain.estimates.estimates import (
    MIN_LABELLED,
    OVERALL,
    Bounds,
    ResponseKey,
    find_bounds,
    find_scale,
)
from benchmark.domain.estimates.prediction_powered import Floats
from benchmark.domain.leaderboards.metrics import ALL, list_metrics, list_scopes
from benchmark.domain.leaderboards.responses import CountedResponse

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
    variances = _compute_label_variances(_build_grid(cells), cells)
    return {
        (cell[0].model, cell[0].scope): compute_half_width(variance)
        for cell, variance in zip(cells, variances, strict=True)
    }


def _compute_label_variances(grid: StrataGrid, cells: Sequence[Sequence[PlanStratum]]) -> list[float]:
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
class ModelPair:
    """Two models, what they differ by, and the variance of that from the choice of prompts, which no label lowers.

    ``strata`` are those of both, ``weights`` what each dimension counts in the number that they are compared by, and
    ``span`` is the largest difference that there can be. The difference is ``corrected`` if gold that chance has chosen
    has taken the scorer's errors out of it; else the board compares the two only where all of both is labelled.
    """

    first: str
    second: str
    difference: float
    prompt_variance: float
    strata: Sequence[PlanStratum]
    weights: Mapping[tuple[str, str], float]
    span: float
    corrected: bool = True

    @property
    def is_compared(self) -> bool:
        return self.corrected or all(stratum.labelled == stratum.population for stratum in self.strata)

    @property
    def interval(self) -> tuple[float, float] | None:
        """95%, as the gold labels are now; None of models that are not compared."""
        half = self.half_width if self.is_compared else None
        if half is None:
            return None
        return max(self.difference - half, -self.span), min(self.difference + half, self.span)

    @cached_property
    def half_width(self) -> float | None:
        """Of the difference's interval, as the gold labels are now; None while a stratum has none."""
        return compute_half_width(
            self.prompt_variance + _compute_label_variances(self._grid, [self.strata])[0]
        )

    @property
    def min_half_width(self) -> float:
        """With everything labelled."""
        return Z * math.sqrt(self.prompt_variance)

    @property
    def separated(self) -> bool:
        """Never by predictions that no gold has corrected."""
        return self.is_compared and self.half_width is not None and abs(self.difference) > self.half_width

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
    left = [(pair.difference / Z) ** 2 - pair.prompt_variance for pair in able]
    grid = StrataGrid.build([pair.strata for pair in able], [pair.shares for pair in able])
    labels = iter(grid.compute_labels(np.array(left)))
    return [
        [StratumTarget(stratum, int(n)) for stratum, n in zip(pair.strata, next(labels), strict=False)]
        if pair.is_separable
        else None
        for pair in pairs
    ]


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


Key = tuple[str, str, Bounds]
"""A stratum by its model, its column of the board and its edges."""


@dataclass(frozen=True)
class PlanBasis:
    """``variances`` are those of one label by stratum, where the model has labels enough; ``strata`` hold gold alone.

    ``differences`` are those of the board in the number that it is ranked by: value, low and high by the places of two
    ``models``, which are best first. ``combined`` is each model's number from gold and predictions.
    """

    models: tuple[str, ...]
    differences: Mapping[str, tuple[float, float, float]]
    combined: Mapping[str, float]
    strata: tuple[PlanStratum, ...]
    variances: Mapping[Key, float]

    @classmethod
    def build(
        cls,
        document: GuidelineDocument,
        rows: Sequence[CountedResponse],
        *,
        estimates: Mapping[str, Any],
        pairs: Mapping[str, Any],
        drawn: Mapping[ResponseKey, Bounds],
    ) -> PlanBasis:
        """From the parts of a run; ``drawn`` are the strata that its estimates used."""
        metrics = map_metrics(document)
        counts: dict[Key, Counter[str]] = defaultdict(Counter)
        for key, row in assign_strata(rows, estimates["strata"], drawn):
            if row.scope in metrics:
                counts[key].update(population=1, labelled=bool(row.gold))
        compared = find_ranked_scope(document)
        combined = {row["model"]: _find_combined(document, row["cells"]) for row in estimates["rows"]}
        known = {key: cells.get(compared) for key, cells in pairs["pairs"].items()}
        return cls(
            models=tuple(pairs["models"]),
            differences={
                key: (difference["value"], difference["low"], difference["high"])
                for key, difference in known.items()
                if difference is not None and difference["low"] is not None
            },
            combined={model: value for model, value in combined.items() if value is not None},
            strata=tuple(
                PlanStratum(*key, n["population"], n["labelled"], held=n["labelled"], variance=0.0)
                for key, n in sorted(counts.items())
            ),
            variances=_collect_variances(estimates, metrics),
        )

    def to_json(self) -> dict[str, Any]:
        """Strata by the places of their models: there are thousands."""
        places = {model: place for place, model in enumerate(self.models)}
        return {
            "models": self.models,
            "differences": self.differences,
            "combined": self.combined,
            "strata": [
                [
                    places[stratum.model],
                    stratum.scope,
                    *stratum.bounds,
                    stratum.population,
                    stratum.labelled,
                    self.variances.get(stratum.key),
                ]
                for stratum in self.strata
            ],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> PlanBasis:
        models = tuple(content["models"])
        strata, variances = [], {}
        for place, scope, low, high, population, labelled, variance in content["strata"]:
            stratum = PlanStratum(
                models[place], scope, (low, high), population, labelled, labelled, variance=0.0
            )
            strata.append(stratum)
            if variance is not None:
                variances[stratum.key] = variance
        differences = {key: tuple(interval) for key, interval in content["differences"].items()}
        return cls(models, differences, content["combined"], tuple(strata), variances)


def assign_strata(
    rows: Sequence[CountedResponse], edges: Mapping[str, Sequence[float]], drawn: Mapping[ResponseKey, Bounds]
) -> list[tuple[Key, CountedResponse]]:
    """The responses with a prediction, each with its stratum, as the estimates have them."""
    keyed_rows = []
    for row in rows:
        if row.predicted:
            known = None if row.prompt is None else drawn.get((row.model, row.prompt))
            bounds = known or find_bounds(row.sureness, edges.get(row.scope, ()))
            keyed_rows.append(((row.model, row.scope, bounds), row))
    return keyed_rows


def map_metrics(document: GuidelineDocument) -> dict[str, Metric]:
    """The metric that the board is ranked by, in columns without it one of its kind."""
    lead = document.metric(document.rank_by)
    metrics = {}
    for scope in list_scopes(document):
        scope_metrics = list_metrics(document, scope)
        metric = (
            lead
            if lead in scope_metrics
            else next((candidate for candidate in scope_metrics if candidate.kind == lead.kind), None)
        )
        if metric is not None:
            metrics[scope] = metric
    return metrics


def list_ranked_scopes(document: GuidelineDocument) -> tuple[str, ...]:
    """The columns of what the board is ranked by."""
    return document.dimensions_of(document.metric(document.rank_by)) or (ALL,)


def find_ranked_scope(document: GuidelineDocument) -> str:
    """The number that models are ranked by: overall, or the only dimension that has one."""
    lead = document.metric(document.rank_by)
    return OVERALL if lead.overall != "none" else list_ranked_scopes(document)[0]


def compute_span(document: GuidelineDocument, metric: Metric, scope: str) -> float:
    """From the least to the largest value that the metric can have."""
    scale = find_scale(document, metric, scope)
    return scale.high - scale.low


def _find_combined(document: GuidelineDocument, cells: Mapping[str, Any]) -> float | None:
    cell = cells.get(find_ranked_scope(document), {}).get(document.rank_by, {})
    value: float | None = (cell.get("combined") or {}).get("value")
    return value


def _collect_variances(estimates: Mapping[str, Any], metrics: Mapping[str, Metric]) -> dict[Key, float]:
    return {
        (row["model"], scope, (stratum["low"], stratum["high"])): stratum["variance"]
        for row in estimates["rows"]
        for scope, metric in metrics.items()
        for stratum in row["cells"].get(scope, {}).get(metric.name, {}).get("strata", [])
        if stratum["variance"] is not None
    }
