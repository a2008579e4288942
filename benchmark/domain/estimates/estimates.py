"""What people, the scorer, and both together say of every model and dimension of a run. Pure.

Gold labels correct the scorer (prediction_powered.py). The labelled responses of a stratum, those whose
sureness lies between two edges, must be a random draw of it: ``ASSUMPTION``. docs/estimates.md has each number.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from annotation.domain.guidelines import GuidelineDocument, Metric
from benchmark.domain.estimates.prediction_powered import (
    Estimate,
    Floats,
    Interval,
    MetricScale,
    StrataMoments,
    build_stratum,
    estimate_plain,
    join_strata,
)
from benchmark.domain.estimates.prediction_powered import estimate_mean as prediction_powered_estimate
from benchmark.domain.leaderboards.intervals import TermBalance
from benchmark.domain.leaderboards.metrics import (
    NumberTerms,
    build_terms,
    list_metric_scopes,
    list_metrics,
    list_scopes,
)
from benchmark.domain.leaderboards.responses import CountedResponse, Labels

OVERALL = "overall"
ASSUMPTION = "random_within_stratum"
MIN_LABELLED = 5
"""A stratum with fewer labels is joined with its neighbour, unless all of it is labelled."""
MIN_CELL_LABELS = 2
"""Labels with predictions below which a cell has no estimate."""
PARTS = 3

Bounds = tuple[float, float]
"""A stratum: from this sureness to that one."""
ResponseKey = tuple[str, int | str]
"""A response by its model and its prompt."""


def compute_estimates(
    document: GuidelineDocument,
    rows: Sequence[CountedResponse],
    *,
    seed: int = 0,  # noqa: ARG001  # every part of a board is told it; nothing here is drawn
    strata: Mapping[ResponseKey, Bounds] | None = None,
) -> dict[str, Any]:
    """The part ``estimates`` of a run, as JSON.

    ``strata`` are those that labels were drawn within, where a plan drew them; without one a response's stratum is
    its third of the run's sureness in its dimension.
    """
    edges = compute_edges(rows)
    cells: dict[tuple[str, str], list[CountedResponse]] = defaultdict(list)
    for row in rows:
        cells[row.model, row.scope].append(row)
    model_rows = []
    for model in sorted({row.model for row in rows}):
        own = {
            scope: EstimateCell(document, scope, cells.get((model, scope), []), edges, strata or {})
            for scope in list_scopes(document)
        }
        model_rows.append({"model": model, "cells": _cells_to_json(document, own)})
    return {"rows": model_rows, "strata": edges, "assumption": ASSUMPTION}


def find_scale(document: GuidelineDocument, metric: Metric, scope: str) -> MetricScale:
    """The values that a metric can have in a column of the board."""
    return _LabelValues.build(document, metric, _find_dimension(document, scope)).scale


def _find_dimension(document: GuidelineDocument, scope: str) -> str | None:
    return scope if document.dimensions else None


def compute_edges(rows: Sequence[CountedResponse]) -> dict[str, list[float]]:
    """By dimension, the inner edges between the thirds of the sureness of all predictions."""
    sureness: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.predicted and row.sureness is not None:
            sureness[row.scope].append(row.sureness)
    return {scope: split_thirds(values) for scope, values in sorted(sureness.items())}


def split_thirds(sureness: Sequence[float]) -> list[float]:
    """Fewer than two where values coincide: no stratum is empty."""
    inner = np.quantile(sureness, [part / PARTS for part in range(1, PARTS)])
    least = min(sureness)
    return sorted({float(edge) for edge in inner if edge > least})


def find_bounds(sureness: float | None, edges: Sequence[float]) -> Bounds:
    """Where it lies: an edge belongs to the stratum above it. All in one where nothing is known."""
    if sureness is None:
        return 0.0, 1.0
    below = bisect_right(edges, sureness)
    around = [0.0, *edges, 1.0]
    return around[below], around[below + 1]


@dataclass(frozen=True)
class EstimateCell:
    """The responses of one model to the prompts of one dimension."""

    document: GuidelineDocument
    scope: str
    rows: Sequence[CountedResponse]
    edges: Mapping[str, Sequence[float]]
    drawn: Mapping[ResponseKey, Bounds]

    def weight(self, metric: Metric) -> int:
        """How many labels it adds to a metric over all labels."""
        criteria = {criterion.name for criterion in self.document.criteria_of(metric, self.dimension)}
        return sum(criterion in criteria for row in self.rows for criterion, _value in row.labels)

    @property
    def dimension(self) -> str | None:
        return _find_dimension(self.document, self.scope)

    @cached_property
    def predicted(self) -> list[CountedResponse]:
        return [row for row in self.rows if row.predicted]

    @cached_property
    def strata(self) -> dict[Bounds, list[CountedResponse]]:
        """The responses with a prediction, by stratum, the least sure first."""
        rows_by_stratum: dict[Bounds, list[CountedResponse]] = defaultdict(list)
        for row in self.predicted:
            own = find_bounds(row.sureness, self.edges.get(self.scope, []))
            drawn = None if row.prompt is None else self.drawn.get((row.model, row.prompt))
            rows_by_stratum[drawn or own].append(row)
        return dict(sorted(rows_by_stratum.items()))

    @cached_property
    def merged_strata(self) -> list[list[Bounds]]:
        """The strata, joined with neighbours until each has labels enough; none where the cell has not."""
        groups: list[list[Bounds]] = []
        waiting: list[Bounds] = []
        for bounds in self.strata:
            waiting.append(bounds)
            rows = [row for member in waiting for row in self.strata[member]]
            labelled = sum(bool(row.gold) for row in rows)
            if labelled >= min(MIN_LABELLED, len(rows)):
                groups, waiting = [*groups, waiting], []
        if waiting and groups:
            groups[-1].extend(waiting)
            waiting = []
        return groups or [waiting]

    @property
    def lacks_gold(self) -> bool:
        """Whether it has predictions and too little gold to correct them."""
        labelled = sum(bool(row.gold) for row in self.predicted)
        return labelled < min(MIN_CELL_LABELS, len(self.predicted))

    def metric(self, metric: Metric) -> CellMetric:
        return CellMetric((self,), build_terms(self.document, metric, self.scope))


@dataclass(frozen=True)
class _LabelValues:
    """What labels come to in a metric: for a rate the share of a response's labels that it counts."""

    scale: MetricScale
    by_label: Mapping[tuple[str, float], float]
    elsewhere: Mapping[tuple[str, float], float]
    """The mean of the other levels of the same criterion."""

    @classmethod
    def build(cls, document: GuidelineDocument, metric: Metric, dimension: str | None) -> _LabelValues:
        counted = set(metric.levels_for(dimension))
        by_label: dict[tuple[str, float], float] = {}
        elsewhere: dict[tuple[str, float], float] = {}
        for criterion in document.criteria_of(metric, dimension):
            values = [
                float(level in counted) if metric.kind == "rate" else metric.of_mean(level)
                for level in criterion.values
            ]
            for level, value in zip(criterion.values, values, strict=True):
                by_label[criterion.name, level] = value
                elsewhere[criterion.name, level] = (sum(values) - value) / (len(values) - 1)
        known = by_label.values()
        rate = metric.kind == "rate"
        scale = MetricScale() if rate or not known else MetricScale(min(known), max(known), rate=False)
        return cls(scale, by_label, elsewhere)

    def average_labels(self, labels: Labels) -> float:
        """The mean over the labels that count here; NaN where none does."""
        own = [self.by_label[label] for label in labels if label in self.by_label]
        return sum(own) / len(own) if own else math.nan

    def expect_value(self, labels: Labels, sureness: float | None) -> float:
        """What a prediction lets one expect: its level with its probability, the rest spread over the others.

        On two levels that is the expected value exactly.
        """
        sure = 1.0 if sureness is None else sureness
        own = [
            sure * self.by_label[label] + (1 - sure) * self.elsewhere[label]
            for label in labels
            if label in self.by_label
        ]
        return sum(own) / len(own) if own else math.nan


ReadValue = Callable[[_LabelValues, CountedResponse], float]


def _read_gold(values: _LabelValues, row: CountedResponse) -> float:
    return values.average_labels(row.gold)


def _read_predicted(values: _LabelValues, row: CountedResponse) -> float:
    return values.average_labels(row.predicted)


def _read_expected(values: _LabelValues, row: CountedResponse) -> float:
    return values.expect_value(row.predicted, row.sureness)


def _read_error(values: _LabelValues, row: CountedResponse) -> float:
    """In the criteria that people answered."""
    answered = {criterion for criterion, _value in row.gold}
    predicted = tuple(label for label in row.predicted if label[0] in answered)
    return values.average_labels(predicted) - values.average_labels(row.gold)


@dataclass(frozen=True)
class _Stratum:
    """Responses of one cell, and those of them that are labelled, drawn by chance."""

    scope: str
    rows: Sequence[CountedResponse]

    @cached_property
    def labelled(self) -> list[CountedResponse]:
        return [row for row in self.rows if row.gold]


@dataclass(frozen=True)
class CellMetric:
    """One number of one model: of its cell, or of several together, those without a response left out.

    What a response has in it, by its gold or by its prediction, is one value as a ``TermBalance`` of the gold makes it:
    so a label that people left out is no 0, and of the mean over criteria each counts alike.
    """

    cells: Sequence[EstimateCell]
    number: NumberTerms

    @cached_property
    def scorer(self) -> _IntervalValue:
        return self._estimate_plain([cell.predicted for cell in self.cells], _read_predicted)

    @cached_property
    def people(self) -> _IntervalValue:
        """By strata where every labelled response has its stratum, else all gold labels alike."""
        gold = [[row for row in cell.rows if row.gold] for cell in self.cells]
        if self.estimate is not None and all(row.predicted for rows in gold for row in rows):
            n = int((~np.isnan(self._gold_values).all(axis=1)).sum())
            return _to_interval_value(prediction_powered_estimate(self.moments, self.scale, weight=0), n)
        return self._estimate_plain(gold, _read_gold)

    def _estimate_plain(
        self, rows_by_cell: Sequence[Sequence[CountedResponse]], read: ReadValue
    ) -> _IntervalValue:
        """Of the responses that have a label in it; undefined where a cell has none."""
        if not rows_by_cell or not all(rows_by_cell):
            return _IntervalValue(n=sum(map(len, rows_by_cell)))
        values = np.concatenate(
            [
                self._list_values(cell.scope, rows, read)
                for cell, rows in zip(self.cells, rows_by_cell, strict=True)
            ]
        )
        values = values[~np.isnan(values).all(axis=1)]
        if np.isnan(values).all(axis=0).any():
            return _IntervalValue(n=len(values))
        balanced = TermBalance.build(values).value_responses(values)
        return _to_interval_value(estimate_plain(balanced, self.scale), len(values))

    @cached_property
    def _label_values(self) -> dict[str, list[_LabelValues]]:
        """By column, of each term."""
        return {
            cell.scope: [
                _LabelValues.build(cell.document, term, cell.dimension)
                if cell.scope in list_metric_scopes(cell.document, term)
                else _LabelValues(MetricScale(), {}, {})
                for term in self.number.terms
            ]
            for cell in self.cells
        }

    def _list_values(self, scope: str, rows: Sequence[CountedResponse], read: ReadValue) -> Floats:
        """(responses, terms), NaN where a response has not the term."""
        terms = self._label_values[scope]
        return np.array([[read(values, row) for values in terms] for row in rows], dtype=float).reshape(
            len(rows), len(terms)
        )

    @cached_property
    def scale(self) -> MetricScale:
        """Of each term from its least to its largest value in any of the cells; of several terms their mean."""
        if self.number.metric.kind == "rate":
            return MetricScale()
        by_term = [
            [values.scale for values in own if values.by_label]
            for own in zip(*self._label_values.values(), strict=True)
        ]
        lows = [min(scale.low for scale in own) for own in by_term if own]
        highs = [max(scale.high for scale in own) for own in by_term if own]
        return MetricScale(float(np.mean(lows)), float(np.mean(highs)), rate=False) if lows else MetricScale()

    @cached_property
    def strata(self) -> list[_Stratum]:
        """Of each cell its strata; after them what has gold and no prediction, all of which is labelled."""
        strata = []
        for cell in self.cells:
            strata += list(self._list_predicted_strata(cell))
            unpredicted = [row for row in cell.rows if row.gold and not row.predicted]
            if unpredicted:
                strata.append(_Stratum(cell.scope, unpredicted))
        return strata

    @staticmethod
    def _list_predicted_strata(cell: EstimateCell) -> Iterator[_Stratum]:
        for group in cell.merged_strata:
            if group:
                yield _Stratum(cell.scope, [row for member in group for row in cell.strata[member]])

    @cached_property
    def _gold_values(self) -> Floats:
        return np.concatenate(
            [self._list_values(stratum.scope, stratum.labelled, _read_gold) for stratum in self.strata]
        )

    @property
    def fewest(self) -> int:
        """Labelled responses that have the rarest term."""
        return int((~np.isnan(self._gold_values)).sum(axis=0).min()) if self.strata else 0

    @cached_property
    def moments(self) -> StrataMoments:
        shares = [
            len(stratum.rows) / len(stratum.labelled) for stratum in self.strata for _ in stratum.labelled
        ]
        balance = TermBalance.build(self._gold_values, np.array(shares))
        return join_strata([self._build_stratum(stratum, balance) for stratum in self.strata])

    def _build_stratum(self, stratum: _Stratum, balance: TermBalance) -> StrataMoments:
        def value_responses(rows: Sequence[CountedResponse], read: ReadValue) -> Floats:
            return balance.value_responses(self._list_values(stratum.scope, rows, read))

        gold = value_responses(stratum.labelled, _read_gold)
        if not any(row.predicted for row in stratum.rows):
            return build_stratum(gold, np.zeros(len(gold)), np.zeros(0))
        return build_stratum(
            gold,
            value_responses(stratum.labelled, _read_expected),
            value_responses([row for row in stratum.rows if not row.gold], _read_expected),
        )

    @cached_property
    def estimate(self) -> Estimate | None:
        """None with too few labels."""
        labelled = sum(bool(row.gold) for cell in self.cells for row in cell.predicted)
        if labelled < MIN_CELL_LABELS or any(cell.lacks_gold for cell in self.cells) or not self.fewest:
            return None
        return prediction_powered_estimate(self.moments, self.scale)

    @property
    def combined(self) -> _IntervalValue:
        return _IntervalValue() if self.estimate is None else _to_interval_value(self.estimate, None)

    @property
    def finite(self) -> _IntervalValue:
        if self.estimate is None:
            return _IntervalValue()
        return _IntervalValue(float(self.estimate.value), *_read_bounds(self.estimate.finite))

    def measure_bias(self) -> tuple[Estimate, int] | None:
        """What the predictions say less what people say, of the labelled responses that have both, and how many these
        are; None of too few.
        """
        strata = [stratum for cell in self.cells for stratum in self._list_predicted_strata(cell)]
        n = sum(len(stratum.labelled) for stratum in strata)
        if n < MIN_LABELLED or any(cell.lacks_gold for cell in self.cells):
            return None
        errors = [self._list_values(stratum.scope, stratum.labelled, _read_error) for stratum in strata]
        shares = [len(stratum.rows) / len(stratum.labelled) for stratum in strata for _ in stratum.labelled]
        if np.isnan(np.concatenate(errors)).all(axis=0).any():
            return None
        balance = TermBalance.build(np.concatenate(errors), np.array(shares))
        moments = []
        for stratum, own in zip(strata, errors, strict=True):
            values = balance.value_responses(own)
            moments.append(build_stratum(values, values, np.zeros(len(stratum.rows) - len(values))))
        span = self.scale.high - self.scale.low
        return prediction_powered_estimate(
            join_strata(moments), MetricScale(-span, span, rate=False), weight=0
        ), n

    def list_plan_strata(self) -> list[dict[str, Any]]:
        """What a plan needs of each stratum of a single cell: its size, its labels, and the variance of one after the
        prediction.
        """
        (cell,) = self.cells
        variances: dict[Bounds, float] = {}
        if self.estimate is not None:
            # Strata come before what has no prediction, which no plan draws from.
            for group, variance in zip(cell.merged_strata, self.estimate.variances, strict=False):
                variances |= dict.fromkeys(group, float(variance))
        return [
            {
                "low": bounds[0],
                "high": bounds[1],
                "population": len(rows),
                "labelled": sum(bool(row.gold) for row in rows),
                "variance": variances.get(bounds),
            }
            for bounds, rows in cell.strata.items()
        ]

    def sources_to_json(self) -> dict[str, Any]:
        return _sources_to_json(self.people, self.scorer, self.combined, self.finite)

    def to_json(self) -> dict[str, Any]:
        weight = None if self.estimate is None else float(self.estimate.weight)
        return self.sources_to_json() | {"weight": weight, "strata": self.list_plan_strata()}


@dataclass(frozen=True)
class _IntervalValue:
    """A number with its interval; None is undefined."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = 0

    def to_json(self, *, counted: bool = False) -> dict[str, Any]:
        statistic = {"value": self.value, "low": self.low, "high": self.high}
        return statistic | {"n": self.n} if counted else statistic


def _to_interval_value(result: Estimate, n: int | None) -> _IntervalValue:
    return _IntervalValue(float(result.value), *_read_bounds(result.combined), n)


def _read_bounds(interval: Interval) -> tuple[float | None, float | None]:
    low, high = float(interval.low), float(interval.high)
    return (None, None) if math.isnan(low) else (low, high)


def _sources_to_json(
    people: _IntervalValue, scorer: _IntervalValue, combined: _IntervalValue, finite: _IntervalValue
) -> dict[str, Any]:
    known = scorer.value is not None and combined.value is not None
    return {
        "people": people.to_json(counted=True),
        "scorer": scorer.to_json(counted=True),
        "combined": combined.to_json() if combined.value is not None else None,
        "finite": finite.to_json() if finite.value is not None else None,
        "weight": None,
        "bias": (scorer.value or 0) - (combined.value or 0) if known else None,
    }


def _cells_to_json(document: GuidelineDocument, own: Mapping[str, EstimateCell]) -> dict[str, Any]:
    by_metric = {
        metric.name: {scope: own[scope].metric(metric) for scope in list_metric_scopes(document, metric)}
        for metric in document.metrics
    }
    cells: dict[str, Any] = {
        scope: {
            metric.name: by_metric[metric.name][scope].to_json() for metric in list_metrics(document, scope)
        }
        for scope in own
    }
    cells[OVERALL] = {
        metric.name: _overall_to_json(build_terms(document, metric), list(by_metric[metric.name].values()))
        for metric in document.metrics
        if metric.overall != "none"
    }
    return cells


def _overall_to_json(number: NumberTerms, parts: Sequence[CellMetric]) -> dict[str, Any]:
    """Of independent dimensions. A dimension without a label has no part in a metric over all labels; several terms of
    the same responses are not independent, and are estimated at once.
    """
    if number.is_balanced:
        return CellMetric(
            [cell for part in parts for cell in part.cells if cell.rows], number
        ).sources_to_json()
    weights = [1.0] * len(parts)
    if number.metric.overall == "pooled":
        weights = [float(cell.weight(number.metric)) for part in parts for cell in part.cells]
        parts = [part for part, weight in zip(parts, weights, strict=True) if weight]
        weights = [weight for weight in weights if weight]
    return _sources_to_json(
        mix_values([part.people for part in parts], weights),
        mix_values([part.scorer for part in parts], weights),
        mix_values([part.combined for part in parts], weights),
        mix_values([part.finite for part in parts], weights),
    )


def mix_values(parts: Sequence[_IntervalValue], weights: Sequence[float]) -> _IntervalValue:
    """The weighted mean of independent numbers; undefined if one of them is.

    The squares of the distances to their bounds add, each side by itself (Zou, Donner, Statistics in Medicine 27,
    2008): as variances do, and true to intervals that are not symmetric.
    """
    shares = [weight / sum(weights) for weight in weights]
    values = [part.value for part in parts if part.value is not None]
    n = sum(part.n or 0 for part in parts)
    if not parts or len(values) < len(parts):
        return _IntervalValue(n=n)
    value = math.fsum(share * value for share, value in zip(shares, values, strict=True))
    lows = [value - part.low for value, part in zip(values, parts, strict=True) if part.low is not None]
    highs = [part.high - value for value, part in zip(values, parts, strict=True) if part.high is not None]
    if len(lows) < len(parts) or len(highs) < len(parts):
        return _IntervalValue(value, n=n)
    below, above = (math.hypot(*(s * d for s, d in zip(shares, ends, strict=True))) for ends in (lows, highs))
    return _IntervalValue(value, value - below, value + above, n)
