"""The batch of what to label next: drawn at random within strata, so that estimates from its labels stay unbiased."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from django.db import transaction

from annotation.core.errors import N_, AssayError, Conflict
from annotation.core.specs import MAX_SEED
from annotation.domain.batch_spec import USUAL_POLICY, BatchSpec, Policy
from annotation.domain.releases.selection import DrawnStratum, compute_chance
from annotation.models import ADJUDICATOR, ANNOTATOR, Batch, Dataset, Person
from annotation.services.audit import record
from annotation.services.batches.batches import create_batch
from annotation.services.batches.draws import count_drawn_before, record_draw
from benchmark.domain.estimates.estimates import MIN_LABELLED
from benchmark.domain.estimates.label_plan.label_plan import StratumTarget, draw_responses
from benchmark.domain.verbs import BenchmarkVerb
from benchmark.models import BenchmarkRun, LabelPlan
from benchmark.selectors.estimates.comparison_plan import find_comparison_under_way, plan_run_comparison
from benchmark.selectors.estimates.label_plan import (
    LabellingStatus,
    PlanGoal,
    get_labelling_status,
    refuse_nothing_to_draw,
    to_parts,
)
from benchmark.selectors.estimates.strata import list_recorded_strata
from benchmark.selectors.leaderboards.runs import refuse_sealed_run
from benchmark.services.leaderboards.execution import store_parts
from scoring.selectors.scorers import get_latest_guideline, list_release_people
from scoring.services.predictions.abstention import MAX_RESPONSES

MAX_STEM_CHARACTERS = 80
"""Of a batch's name that is made here, which leaves room for a number behind it."""


@transaction.atomic
def create_label_plan(
    *,
    run: BenchmarkRun,
    goal: PlanGoal,
    name: str,
    annotators: Sequence[Person] = (),
    adjudicators: Sequence[Person] = (),
    policy: Policy = USUAL_POLICY,
    open_now: bool = True,
    seed: int | None = None,
    actor: Person | None = None,
) -> LabelPlan:
    """Draw what the goal still needs, without what people label or have labelled, and make a batch of it.

    The same seed draws the same from the same responses; without one, chance chooses it. Judged by the version of the
    guideline that was published last. Raises AssayError where nothing can be drawn, and what ``create_batch`` raises.
    """
    if actor is not None:
        refuse_sealed_run(actor, run)
    # Two who press at once would draw the same responses, also from two runs over them.
    Dataset.objects.select_for_update(no_key=True).get(pk=run.dataset_id)
    seed = secrets.randbelow(MAX_SEED + 1) if seed is None else seed
    standing = load_standing(run)
    demands = list_targets(standing, goal)
    refuse_nothing_to_draw(demands)
    drawn = draw_demands(standing, demands, seed)
    responses = [response for responses in drawn for response in responses]
    if len(responses) > MAX_RESPONSES:
        raise AssayError(
            N_(
                "This takes {n} labels, and a batch holds {most}: choose a wider interval, or a pair of models."
            ),
            n=len(responses),
            most=MAX_RESPONSES,
        )
    batch = create_batch(
        BatchSpec(
            name=name,
            guideline=_latest_guideline(run).pk,
            dataset=run.dataset_id,
            among=tuple(responses),
            annotators=tuple(person.pk for person in annotators),
            adjudicators=tuple(person.pk for person in adjudicators),
            policy=policy,
            open_now=open_now,
        ),
        actor=actor,
    )
    record_draw(batch, list_drawn_strata(run, standing, demands, drawn))
    made = LabelPlan.objects.create(
        run=run,
        batch=batch,
        goal=goal.to_json()
        | {
            "metric": standing.metric.name,
            "scorer": run.scorer.name,
            "least": MIN_LABELLED,
        },
        strata=[
            _stratum_to_json(demand, responses) for demand, responses in zip(demands, drawn, strict=True)
        ],
        seed=seed,
        created_by=actor,
    )
    record(
        actor=actor,
        verb=BenchmarkVerb.LABEL_NEXT,
        target=f"batch:{name}",
        run=run.name,
        responses=len(responses),
        seed=seed,
    )
    return made


def list_targets(status: LabellingStatus, goal: PlanGoal) -> list[StratumTarget]:
    """The labels for the goal. Raises AssayError where no label reaches it."""
    if goal.gap is not None:
        return plan_run_comparison(status, goal.gap).targets
    return status.plan_labels(goal)


def create_comparison_batch(
    *, run: BenchmarkRun, gap: float | None = None, seed: int | None = None, actor: Person | None = None
) -> LabelPlan:
    """The draft that would compare every model, with a name of its own and the people of the scorer's release.

    Raises Conflict where such a batch has all of these labels already, and what ``create_label_plan`` raises.
    """
    status = load_standing(run)
    under_way = find_comparison_under_way(run)
    comparison = plan_run_comparison(status, gap)
    if under_way is not None and not comparison.more:
        raise Conflict(
            N_("The batch {name} has the labels that it takes; it is {state}."),
            name=under_way.batch.name,
            state=under_way.batch.get_state_display(),
        )
    return create_label_plan(
        run=run,
        goal=PlanGoal(gap=comparison.gap),
        name=_find_free_name(f"{run.name}-compare"),
        annotators=list(list_release_people(run.scorer, ANNOTATOR)),
        adjudicators=list(list_release_people(run.scorer, ADJUDICATOR)),
        open_now=False,
        seed=seed,
        actor=actor,
    )


def _find_free_name(stem: str) -> str:
    """``board-compare``, then ``board-compare-2`` and so on."""
    stem = stem[:MAX_STEM_CHARACTERS]
    names = (stem if n == 1 else f"{stem}-{n}" for n in count(1))
    return next(name for name in names if not Batch.objects.filter(name=name).exists())


def load_standing(run: BenchmarkRun) -> LabellingStatus:
    """The status of the labelling. What it computes anew, because other plans were made since, is stored."""
    status = get_labelling_status(run)
    if not status.is_stored:
        parts = to_parts(status.basis, status.unlabelled, status.before)
        with transaction.atomic():
            BenchmarkRun.objects.select_for_update(no_key=True).only("pk").get(
                pk=run.pk
            )  # both parts are of one computing
            store_parts(run, parts)
    return status


def draw_demands(standing: LabellingStatus, demands: Sequence[StratumTarget], seed: int) -> list[list[int]]:
    """For each stratum the responses that are drawn; at most those that are free."""
    return [
        draw_responses(
            standing.free_responses.get(demand.stratum.key, ()),
            demand.more,
            seed=seed,
            stratum=demand.stratum,
        )
        for demand in demands
    ]


def list_drawn_strata(
    run: BenchmarkRun,
    standing: LabellingStatus,
    demands: Sequence[StratumTarget],
    drawn: Sequence[Sequence[int]],
) -> list[DrawnStratum]:
    """What was drawn, with the chance of every response of a stratum, or why there is none to weigh by."""
    earlier = list_recorded_strata(run)
    strata = []
    for demand, responses in zip(demands, drawn, strict=True):
        own, free = demand.stratum, frozenset(standing.free_responses.get(demand.stratum.key, ()))
        stratum = DrawnStratum(
            own.model, own.scope, *own.bounds, own.population, len(responses), None, "", tuple(responses)
        )
        chance, reason = compute_chance(
            len(responses),
            pool=own.population,
            held=own.population - len(free),
            drawn_before=count_drawn_before(earlier, stratum, free),
        )
        strata.append(replace(stratum, chance=chance, reason=reason))
    return strata


def _latest_guideline(run: BenchmarkRun) -> Any:
    return get_latest_guideline(run.scorer.guideline.name)


def _stratum_to_json(demand: StratumTarget, drawn: Sequence[int]) -> dict[str, Any]:
    stratum = demand.stratum
    low, high = stratum.bounds
    return {
        "model": stratum.model,
        "scope": stratum.scope,
        "low": low,
        "high": high,
        "population": stratum.population,
        "labelled": stratum.labelled,
        "held": stratum.held,
        "drawn": len(drawn),
    }
