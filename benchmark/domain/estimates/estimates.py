"""What people, the scorer, and both together say of every model and dimension of a run. Pure.

Gold labels correct the scorer (prediction_powered.py). The labelled responses of a stratum, those whose
sureness lies between two edges, must be a random draw of it: ``ASSUMPTION``. docs/estimates.md has each number.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from annotation.domain.guidelines import GuidelineDocument, Metric
from benchmark.domain.estimates.prediction_powered import (
    Estimate,
    Interval,
    MetricScale,
    StrataMoments,
    build_stratum,
    estimate_plain,
    join_strata,
)
from benchmark.domain.estimates.prediction_powered import estimate_mean as prediction_powered_estimate
from benchmark.domain.leaderboards.metrics import ALL, list_metrics, list_scopes
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

    def metric(self, metric: Metric) -> CellMetric:
        return CellMetric(self, metric, _LabelValues.build(self.document, metric, self.dimension))


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
        """The mean over the labels that count here."""
        own = [self.by_label[label] for label in labels if label in self.by_label]
        return sum(own) / len(own)

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
        return sum(own) / len(own)


@dataclass(frozen=True)
class CellMetric:
    """One metric of one cell."""

    cell: EstimateCell
    metric: Metric
    values: _LabelValues

    @cached_property
    def scorer(self) -> _IntervalValue:
        return self._estimate_plain([row.predicted for row in self.cell.predicted])

    @cached_property
    def people(self) -> _IntervalValue:
        """By strata where every labelled response has its stratum, else all gold labels alike."""
        gold = [row for row in self.cell.rows if row.gold]
        if self.estimate is not None and all(row.predicted for row in gold):
            return _to_interval_value(
                prediction_powered_estimate(self.moments, self.values.scale, weight=0), len(gold)
            )
        return self._estimate_plain([row.gold for row in gold])

    def _estimate_plain(self, labels: Sequence[Labels]) -> _IntervalValue:
        if not labels or not self.values.by_label:
            return _IntervalValue()
        return _to_interval_value(
            estimate_plain([self.values.average_labels(label) for label in labels], self.values.scale),
            len(labels),
        )

    @cached_property
    def moments(self) -> StrataMoments:
        """The strata of the cell; after them what has gold and no prediction, all of which is labelled."""
        strata = [self._build_stratum(group) for group in self.cell.merged_strata if group]
        unpredicted = [
            self.values.average_labels(row.gold) for row in self.cell.rows if row.gold and not row.predicted
        ]
        if unpredicted:
            strata.append(build_stratum(unpredicted, np.zeros(len(unpredicted)), np.zeros(0)))
        return join_strata(strata)

    def _build_stratum(self, group: Sequence[Bounds]) -> StrataMoments:
        rows = [row for member in group for row in self.cell.strata[member]]
        gold = [row for row in rows if row.gold]
        return build_stratum(
            [self.values.average_labels(row.gold) for row in gold],
            [self.values.expect_value(row.predicted, row.sureness) for row in gold],
            [self.values.expect_value(row.predicted, row.sureness) for row in rows if not row.gold],
        )

    @cached_property
    def estimate(self) -> Estimate | None:
        """None with too few labels."""
        labelled = sum(bool(row.gold) for row in self.cell.predicted)
        if labelled < MIN_CELL_LABELS or not self.values.by_label:
            return None
        return prediction_powered_estimate(self.moments, self.values.scale)

    @property
    def combined(self) -> _IntervalValue:
        return _IntervalValue() if self.estimate is None else _to_interval_value(self.estimate, None)

    @property
    def finite(self) -> _IntervalValue:
        if self.estimate is None:
            return _IntervalValue()
        return _IntervalValue(float(self.estimate.value), *_read_bounds(self.estimate.finite))

    def build_bias_strata(self) -> StrataMoments:
        """Of the labelled responses with a prediction what it says less what people say, by stratum."""
        return join_strata([self._build_bias_stratum(group) for group in self.cell.merged_strata])

    def _build_bias_stratum(self, group: Sequence[Bounds]) -> StrataMoments:
        rows = [row for member in group for row in self.cell.strata[member]]
        errors = [
            self.values.average_labels(row.predicted) - self.values.average_labels(row.gold)
            for row in rows
            if row.gold
        ]
        return build_stratum(errors, errors, np.zeros(len(rows) - len(errors)))

    def strata(self) -> list[dict[str, Any]]:
        """What a plan needs of each stratum: its size, its labels, and the variance of one after the prediction."""
        variances: dict[Bounds, float] = {}
        if self.estimate is not None:
            # Strata come before what has no prediction, which no plan draws from.
            for group, variance in zip(self.cell.merged_strata, self.estimate.variances, strict=False):
                variances |= dict.fromkeys(group, float(variance))
        return [
            {
                "low": bounds[0],
                "high": bounds[1],
                "population": len(rows),
                "labelled": sum(bool(row.gold) for row in rows),
                "variance": variances.get(bounds),
            }
            for bounds, rows in self.cell.strata.items()
        ]

    def to_json(self) -> dict[str, Any]:
        sources = _sources_to_json(self.people, self.scorer, self.combined, self.finite)
        weight = None if self.estimate is None else float(self.estimate.weight)
        return sources | {"weight": weight, "strata": self.strata()}


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
        metric.name: {scope: own[scope].metric(metric) for scope in document.dimensions_of(metric) or (ALL,)}
        for metric in document.metrics
    }
    cells: dict[str, Any] = {
        scope: {
            metric.name: by_metric[metric.name][scope].to_json() for metric in list_metrics(document, scope)
        }
        for scope in own
    }
    cells[OVERALL] = {
        metric.name: _overall_to_json(metric, list(by_metric[metric.name].values()))
        for metric in document.metrics
        if metric.overall != "none"
    }
    return cells


def _overall_to_json(metric: Metric, parts: Sequence[CellMetric]) -> dict[str, Any]:
    """Of independent dimensions. A dimension without a label has no part in a metric over all labels."""
    weights = [1.0] * len(parts)
    if metric.overall == "pooled":
        parts = [part for part in parts if part.cell.weight(metric)]
        weights = [float(part.cell.weight(metric)) for part in parts]
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
