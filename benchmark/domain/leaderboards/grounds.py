"""What each number of a board rests on, and so what may be said of it: gold, gold with predictions, or neither. Pure.

A scorer's errors differ from model to model. A number of predictions alone therefore has no interval and is not
compared (docs/decisions/ranks-without-predictions.md); one that a chance sample of gold corrects has the interval of
both, and is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from annotation.domain.guidelines import GuidelineDocument, Metric
from benchmark.domain.leaderboards.intervals import MeanMoments
from benchmark.domain.leaderboards.metrics import (
    BoardSample,
    MetricEstimate,
    MetricPart,
    build_moments,
    build_parts,
    estimate_part,
    estimate_value,
    find_range,
    find_span,
    list_metric_scopes,
    list_scopes,
    pool_parts,
)
from benchmark.domain.leaderboards.responses import GOLD, CountedResponse

COMBINED, PREDICTED = "combined", "predicted"
"""Beside GOLD, the grounds of a number: a chance sample of gold with predictions, or predictions that none corrects."""

NO_RESPONSES, NO_GOLD, SELECTION = "no_responses", "no_gold", "selection"
FEW_LABELS, FEW_PROMPTS, EARLIER = "few_labels", "few_prompts", "earlier"
REASONS = (NO_RESPONSES, NO_GOLD, SELECTION, FEW_LABELS, FEW_PROMPTS, EARLIER)
"""Why a number is not compared: nothing was answered; no response has gold; its gold was not chosen by chance; it is
less than ``MIN_LABELS``; a column of a mean over columns has less than ``MIN_PROMPTS``; it was computed by an earlier
version."""

MIN_LABELS = 20
"""Labels of a chance sample in a column, below which it corrects no prediction. Rows of ``rank_coverage`` have it."""
MIN_PROMPTS = 10
"""Responses in each column, below which a mean over columns has no interval. Rows of ``rank_coverage`` have it."""

CellKey = tuple[str, str]
"""A model and a column."""
Group = tuple[str, str]
"""An attribute of prompts and its value."""


@dataclass(frozen=True)
class CombinedNumber:
    """A metric from gold and predictions: ``labelled`` responses have gold; the others as ``MeanMoments`` has them.

    Its interval lies around ``centre`` and reaches as far as the value.
    """

    value: float
    centre: float
    labelled: int
    labels: float
    variance: float
    degrees: float

    def build_moments(self, metric: Metric) -> MeanMoments:
        arrays = (np.array([number]) for number in (self.centre, self.labels, self.variance, self.degrees))
        return MeanMoments(metric.kind == "rate", np.ones(1), *arrays)


@dataclass(frozen=True)
class BiasEstimate:
    """What a scorer says less what people say of the same ``n`` responses."""

    value: float
    variance: float
    degrees: float
    n: int


class Combiner(Protocol):
    """Combines the gold and the predictions of one model's responses; None where they are too few."""

    def combine(
        self, rows: Sequence[CountedResponse], metric: Metric, scopes: Sequence[str]
    ) -> CombinedNumber | None: ...

    def measure_bias(
        self, rows: Sequence[CountedResponse], metric: Metric, scope: str
    ) -> BiasEstimate | None: ...


@dataclass(frozen=True)
class Ground:
    """``name`` is None without a response; ``reason`` says why the number is not compared, None if it is."""

    name: str | None
    reason: str | None = None

    @property
    def is_compared(self) -> bool:
        return self.name is not None and self.reason is None

    def to_json(self) -> dict[str, str | None]:
        return {"ground": self.name, "reason": self.reason}


@dataclass(frozen=True)
class BoardNumber:
    """A number with its ground; ``moments`` are None where it has no interval."""

    ground: Ground
    value: Fraction | float | None = None
    moments: MeanMoments | None = None
    part: MetricPart | None = None
    """Of what is gold and of one column."""
    ends: tuple[float, float] = (-math.inf, math.inf)
    """Those of the metric's scale."""

    @property
    def estimate(self) -> MetricEstimate:
        if self.part is not None:
            return estimate_part(self.part, self.moments, self.ends)
        return estimate_value(self.value, self.moments, self.ends)

    @property
    def is_compared(self) -> bool:
        return self.ground.is_compared and self.value is not None and self.moments is not None


@dataclass(frozen=True)
class BoardNumbers:
    """The numbers of a sample. Chance did not choose the gold of ``selected_cells``."""

    sample: BoardSample
    combiner: Combiner | None = None
    selected_cells: frozenset[CellKey] = frozenset()
    _grounds: dict[CellKey, Ground] = field(default_factory=dict, init=False)
    _parts: dict[tuple[str, str], dict[str, MetricPart]] = field(default_factory=dict, init=False)
    _numbers: dict[tuple[str, str, str], BoardNumber] = field(default_factory=dict, init=False)

    @property
    def document(self) -> GuidelineDocument:
        return self.sample.document

    def find_ground(self, model: str, scope: str) -> Ground:
        """Of all numbers of a column."""
        key = (model, scope)
        if key not in self._grounds:
            self._grounds[key] = self._classify(key, self.sample.columns[scope].select_rows(model))
        return self._grounds[key]

    def _classify(self, key: CellKey, rows: Sequence[CountedResponse]) -> Ground:
        if not rows:
            return Ground(None, NO_RESPONSES)
        if all(row.basis == GOLD for row in rows):
            return Ground(GOLD)
        labelled = sum(bool(row.gold) for row in rows)
        if not labelled:
            return Ground(PREDICTED, NO_GOLD)
        if key in self.selected_cells:
            return Ground(PREDICTED, SELECTION)
        if labelled < MIN_LABELS or self.combiner is None:
            return Ground(PREDICTED, FEW_LABELS)
        return Ground(COMBINED)

    def list_parts(self, metric: Metric, scope: str) -> dict[str, MetricPart]:
        """By model, the labels that a column counts."""
        key = (metric.name, scope)
        if key not in self._parts:
            self._parts[key] = build_parts(self.sample, metric, scope)
        return self._parts[key]

    def find_number(self, model: str, metric: Metric, scope: str) -> BoardNumber:
        key = (model, metric.name, scope)
        if key not in self._numbers:
            self._numbers[key] = self._build_number(model, metric, scope)
        return self._numbers[key]

    def _build_number(self, model: str, metric: Metric, scope: str) -> BoardNumber:
        part = self.list_parts(metric, scope)[model]
        rows = self.sample.columns[scope].select_rows(model)
        return self._choose_number(self.find_ground(model, scope), part, rows, metric, (scope,))

    def _choose_number(
        self,
        ground: Ground,
        part: MetricPart,
        rows: Sequence[CountedResponse],
        metric: Metric,
        scopes: Sequence[str],
    ) -> BoardNumber:
        """Of the labels that count, or of both kinds together; hollow where neither may be."""
        ranges = [find_range(self.document, metric, scope) for scope in scopes]
        ends = min(low for low, _high in ranges), max(high for _low, high in ranges)
        if ground.name == GOLD and part.value is not None:
            moments = build_moments(metric, part, ends[1] - ends[0])
            return BoardNumber(ground, part.value, moments, part, ends)
        if ground.name == COMBINED and self.combiner is not None:
            combined = self.combiner.combine(rows, metric, scopes)
            if combined is not None and combined.labelled >= MIN_LABELS:
                return BoardNumber(ground, combined.value, combined.build_moments(metric), ends=ends)
            ground = Ground(PREDICTED, FEW_LABELS)
        return BoardNumber(ground, part.value)

    def find_overall(self, model: str, metric: Metric) -> BoardNumber:
        """The unweighted mean of the columns' numbers, undefined if one of them is; or of all labels pooled."""
        scopes = list_metric_scopes(self.document, metric)
        if metric.overall == "pooled":
            scopes = tuple(scope for scope in scopes if self.find_ground(model, scope).name) or scopes
            part = pool_parts([self.list_parts(metric, scope)[model] for scope in scopes])
            rows = [row for scope in scopes for row in self.sample.columns[scope].select_rows(model)]
            ground = self._join_grounds([self.find_ground(model, scope) for scope in scopes])
            return self._choose_number(ground, part, rows, metric, scopes)
        return self._average(model, metric, scopes)

    def _average(self, model: str, metric: Metric, scopes: Sequence[str]) -> BoardNumber:
        numbers = [self.find_number(model, metric, scope) for scope in scopes]
        ground = self._join_grounds([number.ground for number in numbers])
        values = [number.value for number in numbers if number.value is not None]
        if len(values) < len(numbers):
            return BoardNumber(Ground(ground.name, ground.reason or NO_RESPONSES))
        value = average_values(values)
        known = [number.moments for number in numbers if number.moments is not None]
        if ground.reason is not None or len(known) < len(numbers):
            return BoardNumber(ground, value)
        if len(scopes) > 1 and self._count_fewest(model, scopes) < MIN_PROMPTS:
            return BoardNumber(Ground(ground.name, FEW_PROMPTS), value)
        return BoardNumber(ground, value, join_moments(known), ends=self._average_ends(metric, scopes))

    def _average_ends(self, metric: Metric, scopes: Sequence[str]) -> tuple[float, float]:
        ranges = [find_range(self.document, metric, scope) for scope in scopes]
        return float(np.mean([low for low, _high in ranges])), float(np.mean([high for _low, high in ranges]))

    @staticmethod
    def _join_grounds(grounds: Sequence[Ground]) -> Ground:
        """The weakest of them."""
        for name in (None, PREDICTED):
            for ground in grounds:
                if ground.name == name:
                    return ground
        return Ground(GOLD if all(ground.name == GOLD for ground in grounds) else COMBINED)

    def _count_fewest(self, model: str, scopes: Sequence[str]) -> int:
        place = self.sample.models.index(model)
        return min(int((self.sample.columns[scope].model == place).sum()) for scope in scopes)

    def find_group_number(
        self, model: str, metric: Metric, scopes: Sequence[str], group: Group, parts: Sequence[MetricPart]
    ) -> BoardNumber:
        """Of the responses to a group of prompts in these columns; gold alone where those are, whatever others are."""
        rows = [
            row
            for scope in scopes
            for row in self.sample.columns[scope].select_rows(model, self.sample.select_units(scope, group))
        ]
        ground = self._join_grounds(
            [
                self._classify((model, scope), own)
                for scope in scopes
                if (own := [row for row in rows if row.scope == scope])
            ]
            or [Ground(None, NO_RESPONSES)]
        )
        if ground.reason == FEW_LABELS and self._is_sampled(rows):
            ground = Ground(COMBINED)  # a few of each column, but together enough
        return self._choose_number(ground, pool_parts(parts), rows, metric, scopes)

    def _is_sampled(self, rows: Sequence[CountedResponse]) -> bool:
        """Whether chance chose those of the rows that have gold, in each column with predictions."""
        with_predictions = {(row.model, row.scope) for row in rows if row.basis != GOLD}
        labelled = {(row.model, row.scope) for row in rows if row.gold}
        return (
            self.combiner is not None
            and with_predictions <= labelled
            and not with_predictions & self.selected_cells
            and sum(bool(row.gold) for row in rows) >= MIN_LABELS
        )


def average_values(values: Sequence[Fraction | float]) -> Fraction | float:
    """An exact one if all of them are."""
    exact = [value for value in values if isinstance(value, Fraction)]
    if len(exact) == len(values):
        return sum(exact, Fraction(0)) / len(exact)
    return float(np.mean([float(value) for value in values]))


def join_moments(parts: Sequence[MeanMoments]) -> MeanMoments:
    """Of the mean of these columns, each counting as much as any other."""
    arrays = (
        np.concatenate([getattr(part, name) for part in parts], axis=-1)
        for name in ("means", "labels", "variance", "degrees")
    )
    return MeanMoments(parts[0].rate, np.full(len(parts), 1 / len(parts)), *arrays)


def list_bias(numbers: BoardNumbers, metric: Metric, models: Sequence[str]) -> dict[str, Any]:
    """By model and column of the metric, and for the mean over columns, what the scorer's labels are off by."""
    document, scopes = numbers.document, list_metric_scopes(numbers.document, metric)
    spans = {scope: find_span(document, metric, scope) for scope in scopes}
    rows = []
    for model in models:
        cells = {scope: _measure_bias(numbers, model, metric, scope) for scope in scopes}
        rows.append(
            {
                "model": model,
                "n": sum(estimate.n for estimate in cells.values() if estimate),
                "overall": _bias_to_json(cells, spans)
                if metric.overall == "mean_of_dimensions" or len(scopes) == 1
                else None,
                "dimensions": {scope: _bias_to_json({scope: cells[scope]}, spans) for scope in scopes},
            }
        )
    return {
        "metric": metric.name,
        "scopes": [scope for scope in list_scopes(document) if scope in scopes],
        "rows": rows,
    }


def _measure_bias(numbers: BoardNumbers, model: str, metric: Metric, scope: str) -> BiasEstimate | None:
    if numbers.combiner is None or (model, scope) in numbers.selected_cells:
        return None
    return numbers.combiner.measure_bias(numbers.sample.columns[scope].select_rows(model), metric, scope)


def _bias_to_json(
    cells: Mapping[str, BiasEstimate | None], spans: Mapping[str, float]
) -> dict[str, float | None] | None:
    """None unless every column has an estimate. No bias is larger than the scale: the interval ends there."""
    known = [estimate for estimate in cells.values() if estimate is not None]
    if len(known) < len(cells) or not known:
        return None
    moments = join_moments(
        [
            MeanMoments(
                False,
                np.ones(1),
                *(np.array([value]) for value in (own.value, np.nan, own.variance, own.degrees)),
            )
            for own in known
        ]
    )
    largest = float(np.mean([spans[scope] for scope in cells]))
    return estimate_value(float(moments.value), moments, (-largest, largest)).to_json()
