"""What it takes to compare every model of a run, and the batch that is at it already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from annotation.domain.guidelines import GuidelineDocument, Metric
from annotation.models import Batch
from benchmark.domain.estimates.label_plan.basis import compute_span, list_ranked_scopes, weigh_columns
from benchmark.domain.estimates.label_plan.comparison import (
    DEFAULT_GAP,
    ModelPlan,
    ModelToCompare,
    plan_comparison,
)
from benchmark.domain.estimates.label_plan.label_plan import StratumTarget
from benchmark.domain.leaderboards.grounds import COMBINED, SELECTION, Ground
from benchmark.domain.leaderboards.responses import GOLD
from benchmark.models import BenchmarkRun, LabelPlan
from benchmark.selectors.estimates.label_plan import LabellingStatus
from benchmark.selectors.leaderboards.runs import find_grounds, list_board_rows

UNDER_WAY = (Batch.State.DRAFT, Batch.State.OPEN, Batch.State.PAUSED)


@dataclass(frozen=True)
class ComparisonStatus:
    """``plans`` are of the models whose numbers rest on predictions somewhere and that labels can help.

    ``gap`` is a true difference of two numbers, in the metric's own unit.
    """

    grounds: Mapping[str, Ground]
    plans: tuple[ModelPlan, ...]
    gap: float

    @property
    def compared(self) -> int:
        return sum(ground.is_compared for ground in self.grounds.values())

    @property
    def targets(self) -> list[StratumTarget]:
        """What a batch draws: nothing of models that no draw makes comparable."""
        return [target for plan in self.plans if not plan.model.is_spoiled for target in plan.targets]

    @property
    def more(self) -> int:
        return sum(target.more for target in self.targets)

    @property
    def short_of_prompts(self) -> int:
        """How many models have too few prompts for the gap."""
        return sum(plan.gap > self.gap for plan in self.plans)

    @property
    def shown_gap(self) -> float:
        """What the labels show of every two models."""
        return max((plan.gap for plan in self.plans), default=self.gap)

    @property
    def helpless(self) -> dict[str, Ground]:
        """The models that are not compared and that no label would make so: without a response, or of few prompts."""
        planned = {plan.model.model for plan in self.plans}
        return {
            model: ground
            for model, ground in self.grounds.items()
            if not ground.is_compared and model not in planned
        }


def find_default_gap(document: GuidelineDocument) -> float:
    metric = document.metric(document.rank_by)
    scopes = list_ranked_scopes(document)
    return DEFAULT_GAP * max(compute_span(document, metric, scope) for scope in scopes)


def plan_run_comparison(status: LabellingStatus, gap: float | None = None) -> ComparisonStatus:
    """Where no gap is asked for, the usual one."""
    grounds = find_grounds(status.run)
    gap = find_default_gap(status.document) if gap is None else gap
    models = [
        model
        for name, ground in grounds.items()
        if ground.name not in (None, GOLD) and (model := _build_model(status, name, ground)) is not None
    ]
    return ComparisonStatus(grounds, tuple(plan_comparison(models, gap=gap, of=len(grounds))), gap)


def _build_model(status: LabellingStatus, name: str, ground: Ground) -> ModelToCompare | None:
    """None where nothing was predicted in a column, or too little answered: no label mends that."""
    weights = status.compute_weights(name)
    strata = [stratum for stratum in status.list_strata(name) if stratum.scope in weights]
    row = next(row for row in list_board_rows(status.run) if row["model"] == name)
    variance = _measure_prompt_variance(status.document, status.metric, row)
    has_gold_elsewhere = {stratum.scope for stratum in strata} | {
        scope
        for scope in weights
        if not row["dimensions"][scope].get("missing") and row["dimensions"][scope]["n"]
    }
    if not strata or variance is None or has_gold_elsewhere != set(weights):
        return None
    return ModelToCompare(
        name,
        strata,
        weights,
        prompt_variance=variance,
        is_compared=ground.name == COMBINED and ground.reason is None,
        is_spoiled=ground.reason == SELECTION,
    )


def _measure_prompt_variance(
    document: GuidelineDocument, metric: Metric, row: Mapping[str, Any]
) -> float | None:
    """Of a model's ranked number, from the levels that its cells count, predictions too; None where a column has none.

    Labels of several criteria to one response count as one label of their mean level, which is the larger variance.
    """
    columns = {
        scope: column
        for scope in list_ranked_scopes(document)
        if (column := _measure_column(document, metric, row["dimensions"][scope], scope)) is not None
    }
    weights = weigh_columns(document, metric, {scope: n for scope, (_variance, n) in columns.items()})
    if not weights or not weights.keys() <= columns.keys():
        return None
    return sum(weight**2 * columns[scope][0] / columns[scope][1] for scope, weight in weights.items())


def _measure_column(
    document: GuidelineDocument, metric: Metric, cell: Mapping[str, Any], scope: str
) -> tuple[float, int] | None:
    """The variance of one label, and how many responses there are."""
    dimension = scope if document.dimensions else None
    counted = set(metric.levels_for(dimension))
    values: list[tuple[float, int]] = []
    for criterion in document.criteria_of(metric, dimension):
        for level, n in cell["levels"].get(criterion.name, {}).items():
            number = float(level)
            values.append((float(number in counted) if metric.kind == "rate" else metric.of_mean(number), n))
    labels = sum(n for _value, n in values)
    if not labels or not cell["n"]:
        return None
    mean = sum(value * n for value, n in values) / labels
    return sum((value - mean) ** 2 * n for value, n in values) / labels, cell["n"]


def find_comparison_under_way(run: BenchmarkRun) -> LabelPlan | None:
    """The study's latest plan to compare all models whose batch is not closed, of these responses by this guideline."""
    plans = LabelPlan.objects.filter(
        run__study=run.study_id,
        run__dataset=run.dataset_id,
        run__collection=run.collection_id,
        run__scorer__guideline__name=run.scorer.guideline.name,
        goal__gap__isnull=False,
        batch__state__in=UNDER_WAY,
    )
    return plans.select_related("batch").order_by("-pk").first()
