"""What a board has of gold and predictions together: its combined numbers, and the scorer's bias. Pure.

They are those of the estimates, within the same strata; docs/estimates.md has the formulas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from annotation.domain.guidelines import GuidelineDocument
from benchmark.domain.estimates.estimates import (
    Bounds,
    CellMetric,
    EstimateCell,
    ResponseKey,
    compute_edges,
)
from benchmark.domain.leaderboards.grounds import BiasEstimate, CombinedNumber
from benchmark.domain.leaderboards.metrics import NumberTerms
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

    def combine(self, rows: Sequence[CountedResponse], number: NumberTerms) -> CombinedNumber | None:
        """Of these responses, of one model; None where a column has predictions and too little gold."""
        measured = self._measure(rows, number)
        estimate = measured.estimate
        if estimate is None:
            return None
        return CombinedNumber(
            value=float(estimate.value),
            centre=float(estimate.centre),
            labelled=sum(bool(row.gold) for cell in measured.cells for row in cell.rows),
            fewest=measured.fewest,
            labels=float(estimate.labels),
            variance=float(estimate.variance),
            degrees=float(estimate.degrees),
        )

    def measure_bias(self, rows: Sequence[CountedResponse], number: NumberTerms) -> BiasEstimate | None:
        """On the responses that have both; None of too few."""
        measured = self._measure(rows, number).measure_bias()
        if measured is None:
            return None
        estimate, n = measured
        return BiasEstimate(float(estimate.value), float(estimate.variance), float(estimate.degrees), n)

    def _measure(self, rows: Sequence[CountedResponse], number: NumberTerms) -> CellMetric:
        by_scope = [[row for row in rows if row.scope == scope] for scope in number.scopes]
        cells = [
            EstimateCell(self.document, scope, own, self.edges, self.strata)
            for scope, own in zip(number.scopes, by_scope, strict=True)
            if own
        ]
        return CellMetric(cells, number)
