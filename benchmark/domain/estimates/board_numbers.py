"""What a board has of gold and predictions together: its combined numbers, and the scorer's bias. Pure.

They are those of the estimates, within the same strata; docs/estimates.md has the formulas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from annotation.domain.guidelines import GuidelineDocument, Metric
from benchmark.domain.estimates.estimates import (
    MIN_CELL_LABELS,
    MIN_LABELLED,
    Bounds,
    CellMetric,
    EstimateCell,
    ResponseKey,
    compute_edges,
    find_scale,
)
from benchmark.domain.estimates.prediction_powered import MetricScale, estimate_mean, join_strata
from benchmark.domain.leaderboards.grounds import BiasEstimate, CombinedNumber
from benchmark.domain.leaderboards.responses import CountedResponse


class StratifiedCombiner:
    """``rows`` are those of the whole run, of which the strata are thirds; ``strata`` those that plans drew within."""

    def __init__(
        self,
        document: GuidelineDocument,
        rows: Sequence[CountedResponse],
        strata: Mapping[ResponseKey, Bounds] | None = None,
    ) -> None:
        self.document = document
        self.edges = compute_edges(rows)
        self.strata = strata or {}

    def combine(
        self, rows: Sequence[CountedResponse], metric: Metric, scopes: Sequence[str]
    ) -> CombinedNumber | None:
        """One number of these responses, of one model; None where a column has predictions and too little gold."""
        cells = [self._build_cell(rows, metric, scope) for scope in scopes]
        known = [cell for cell in cells if cell.cell.rows and cell.values.by_label]
        if not known or any(_lacks_gold(cell) for cell in known):
            return None
        scales = [find_scale(self.document, metric, cell.cell.scope) for cell in known]
        scale = MetricScale(
            min(own.low for own in scales), max(own.high for own in scales), rate=metric.kind == "rate"
        )
        estimate = estimate_mean(join_strata([cell.moments for cell in known]), scale)
        return CombinedNumber(
            value=float(estimate.value),
            centre=float(estimate.centre),
            labelled=sum(bool(row.gold) for cell in known for row in cell.cell.rows),
            labels=float(estimate.labels),
            variance=float(estimate.variance),
            degrees=float(estimate.degrees),
        )

    def measure_bias(
        self, rows: Sequence[CountedResponse], metric: Metric, scope: str
    ) -> BiasEstimate | None:
        """On the responses that have both; None of too few."""
        cell = self._build_cell(rows, metric, scope)
        n = _count_labelled(cell)
        if n < MIN_LABELLED or not cell.values.by_label:
            return None
        span = cell.values.scale.high - cell.values.scale.low
        estimate = estimate_mean(cell.build_bias_strata(), MetricScale(-span, span, rate=False), weight=0)
        return BiasEstimate(float(estimate.value), float(estimate.variance), float(estimate.degrees), n)

    def _build_cell(self, rows: Sequence[CountedResponse], metric: Metric, scope: str) -> CellMetric:
        own = [row for row in rows if row.scope == scope]
        return EstimateCell(self.document, scope, own, self.edges, self.strata).metric(metric)


def _count_labelled(cell: CellMetric) -> int:
    return sum(bool(row.gold) for row in cell.cell.predicted)


def _lacks_gold(cell: CellMetric) -> bool:
    return _count_labelled(cell) < min(MIN_CELL_LABELS, len(cell.cell.predicted))
