"""What a plan of labels starts from: the strata of a run and how its models differ. Pure.

Computed once, when the run is finished; what people have labelled since is found when somebody plans.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from annotation.domain.guidelines import GuidelineDocument, Metric
from benchmark.domain.estimates.estimates import (
    OVERALL,
    Bounds,
    ResponseKey,
    find_bounds,
    find_scale,
)
from benchmark.domain.estimates.label_plan.label_plan import PlanStratum
from benchmark.domain.leaderboards.metrics import (
    ALL,
    list_metric_scopes,
    list_metrics,
    list_numbers,
    list_scopes,
)
from benchmark.domain.leaderboards.responses import CountedResponse

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


def weigh_columns(
    document: GuidelineDocument, metric: Metric, responses: Mapping[str, int]
) -> dict[str, float]:
    """What each column counts in the metric's overall number, for so many responses: independent columns alike, others
    by the labels that they have of each term.
    """
    weights: dict[str, float] = defaultdict(float)
    numbers = list_numbers(document, metric)
    for number in numbers:
        for term in number.terms:
            scopes = [scope for scope in list_metric_scopes(document, term) if scope in number.scopes]
            labels = {
                scope: responses.get(scope, 0)
                * len(document.criteria_of(term, scope if document.dimensions else None))
                for scope in scopes
            }
            if len(scopes) == 1:
                labels = {scopes[0]: 1}
            for scope, n in labels.items():
                if n:
                    weights[scope] += n / sum(labels.values()) / len(number.terms) / len(numbers)
    return dict(weights)


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
