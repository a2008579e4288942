"""The strata that labels of a run were drawn within, by the plans that came before it."""

from __future__ import annotations

from itertools import takewhile

from annotation.domain.releases.selection import DrawnStratum
from annotation.models import BatchDraw
from benchmark.domain.estimates.estimates import Bounds, ResponseKey
from benchmark.domain.estimates.label_plan.basis import (
    assign_strata,
)
from benchmark.models import BenchmarkRun, LabelPlan
from benchmark.selectors.leaderboards.items import list_counted_responses
from benchmark.selectors.leaderboards.runs import (
    find_part,
    list_runs,
)


def list_recorded_strata(run: BenchmarkRun) -> list[DrawnStratum]:
    """Those that batches of this run's guideline were drawn from, of its dataset."""
    draws = BatchDraw.objects.filter(
        imported=False,
        batch__study=run.study_id,
        batch__guideline__name=run.scorer.guideline.name,
        batch__tasks__prompt__dataset=run.dataset_id,
    ).distinct()
    return [DrawnStratum.from_json(row) for draw in draws for row in draw.strata]


def list_drawn_strata(run: BenchmarkRun) -> dict[ResponseKey, Bounds]:
    """By model and prompt, the strata that labels were drawn within, for the estimates.

    They are those of the first run that labels of this response were planned from, and stay: labels are a random draw
    within them, and need not be within the strata of a later scorer, which has learned from them. Without a plan, or
    where the run itself was the first, nothing: its own strata hold.
    """
    strata: dict[ResponseKey, Bounds] = {}
    for pk in list_earlier_runs(run):
        earlier = list_runs().get(pk=pk)
        estimates = find_part(earlier, "estimates")
        edges = {} if estimates is None else estimates["strata"]
        for (_model, _scope, bounds), row in assign_strata(list_counted_responses(earlier), edges, {}):
            assert row.prompt is not None
            strata.setdefault((row.model, row.prompt), bounds)
    return strata


def list_earlier_runs(run: BenchmarkRun) -> list[int]:
    """Ids of the study's runs over these responses by this guideline that labels were planned from, up to this run
    itself.
    """
    plans = LabelPlan.objects.filter(
        run__study=run.study_id,
        run__dataset=run.dataset_id,
        run__collection=run.collection_id,
        run__scorer__guideline__name=run.scorer.guideline.name,
    )
    run_ids = dict.fromkeys(plans.order_by("pk").values_list("run", flat=True))
    return list(takewhile(lambda pk: pk != run.pk, run_ids))
