"""The leaderboard of a run with its parts, computed from its stored items alone and kept with what made it.

What a run counts: gold where the scorer's release has it, else a prediction that is never in-sample.

Beside its gold a response keeps the prediction of it too, where there is one: what the scorer would have said.

Doing a run: have the scorer predict what it has not yet, store what counts, compute the board.

Every step finds what is already done and leaves it, so that a run which died goes on where it was.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from operator import or_
from typing import Any, Protocol

from django.db import transaction
from django.db.models import Count, IntegerField, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from annotation.core.errors import N_
from annotation.core.version import code_version
from annotation.models import Response
from annotation.services.audit import record_in_study
from benchmark.domain.estimates.board_numbers import StratifiedCombiner
from benchmark.domain.estimates.estimates import compute_estimates
from benchmark.domain.estimates.selection import UNKNOWN
from benchmark.domain.leaderboards.board import BoardFigures
from benchmark.domain.leaderboards.responses import CountedResponse
from benchmark.domain.verbs import BenchmarkVerb
from benchmark.models import BenchmarkRun, BoardPart, RunItem
from benchmark.selectors.estimates.estimates import list_selections
from benchmark.selectors.estimates.label_plan import build_plan_parts
from benchmark.selectors.estimates.strata import list_drawn_strata, list_earlier_runs
from benchmark.selectors.leaderboards.items import (
    BASES,
    CellKey,
    count_responses,
    find_scope,
    list_counted_responses,
)
from benchmark.selectors.leaderboards.runs import (
    AS_LABELS,
    ItemSource,
    Key,
    list_gold,
    list_judged_responses,
    list_run_responses,
)
from scoring.models import Prediction
from scoring.services import score
from scoring.services.predictions.predictions import PREDICTING

GROUPS, PAIRS, ESTIMATES = "groups", "pairs", "estimates"
SELECTION = "selection"


def finish_run(run: BenchmarkRun) -> dict[str, Any]:
    """Compute everything, then store it at once; done again, it changes nothing but the time."""
    board, parts = compute_board(run)
    run.board = board
    run.weights_sha256 = run.scorer.weights_sha256
    run.code_version = code_version()
    run.finished_at = timezone.now()
    with transaction.atomic():
        store_parts(run, parts)
        run.save(update_fields=["board", "weights_sha256", "code_version", "finished_at"])
        record_in_study(
            run.study_id, actor=None, verb=BenchmarkVerb.END_RUN, target=f"run:{run.name}", run=run.pk
        )
    return board


def store_parts(run: BenchmarkRun, parts: Mapping[str, Any]) -> None:
    for name, content in parts.items():
        BoardPart.objects.update_or_create(run=run, name=name, defaults={"content": content})


def compute_board(run: BenchmarkRun) -> tuple[dict[str, Any], dict[str, Any]]:
    """The board, and its parts by name."""
    rows = list_counted_responses(run)
    models = run.evaluated_models.values_list("name", flat=True)  # one without any value still has its row
    document, seed = run.scorer.guideline.document, run.scorer.seed
    before = list_earlier_runs(
        run
    )  # first: a plan that is made meanwhile makes what is kept stale, never wrong
    drawn, selections = list_drawn_strata(run), list_selections(run)
    figures = BoardFigures(
        document,
        rows,
        models=models,
        combiner=StratifiedCombiner(document, rows, drawn),
        selected_cells={(row["model"], row["dimension"]) for row in selections if row["how"] in UNKNOWN},
    )
    as_labels = figures.pairs_as_labels
    parts = {
        GROUPS: figures.groups,
        PAIRS: figures.pairs | {AS_LABELS: as_labels},
        ESTIMATES: compute_estimates(document, rows, seed=seed, strata=drawn) | {SELECTION: selections},
    }
    planning = build_plan_parts(
        run, rows, estimates=parts[ESTIMATES], pairs=as_labels, drawn=drawn, earlier_runs=before
    )
    return _add_bases(figures.board, run, rows), parts | planning


def _add_bases(board: dict[str, Any], run: BenchmarkRun, rows: Sequence[CountedResponse]) -> dict[str, Any]:
    """The board with what each cell rests on, and what made it."""
    totals = count_responses(run)
    composition: dict[CellKey, Counter[str]] = defaultdict(Counter)
    for counted_row in rows:
        composition[counted_row.model, counted_row.scope][counted_row.basis] += 1
    for row in board["rows"]:
        for scope, cell in row["dimensions"].items():
            bases = composition[row["model"], scope]
            cell["composition"] = {str(basis): bases[basis] for basis in BASES}
            cell["missing"] = totals[row["model"], scope] - cell["n"]
    return board | {"run": run.name, "left_out": totals["", ""], "lineage": describe_lineage(run)}


def describe_lineage(run: BenchmarkRun) -> dict[str, Any]:
    """What made the numbers, by name and by hash."""
    scorer = run.scorer
    return {
        "scorer": scorer.name,
        "weights_sha256": scorer.weights_sha256,
        "seed": scorer.seed,
        "release": scorer.release.name,
        "release_sha256": scorer.release.sha256,
        "guideline": str(scorer.guideline),
        "guideline_sha256": scorer.guideline.sha256,
        "dataset": run.dataset.name,
        "collection": run.collection.name,
        "code_version": code_version(),
    }


CHUNK = 1000


def list_judgeable_responses(run: BenchmarkRun) -> QuerySet[Response]:
    """The run's responses that its guideline can judge."""
    dimensions = {dimension for dimension, _subcomponent in _list_criteria_by_topic(run)}
    return list_run_responses(run).filter(prompt__dimension__in=dimensions)


def list_unscored_responses(run: BenchmarkRun) -> QuerySet[Response]:
    """Responses that lack a prediction of the run's scorer in some criterion, whether they have gold or not."""
    own = Prediction.objects.filter(scorer=run.scorer, response=OuterRef("pk"))
    prediction_counts = own.order_by().values("response").annotate(n=Count("pk")).values("n")
    conditions = [
        Q(prompt__dimension=dimension, prompt__subcomponent__in=subcomponents, told__lt=n)
        for (dimension, n), subcomponents in _group_topics(run).items()
    ]
    judged = list_judgeable_responses(run).annotate(
        told=Coalesce(Subquery(prediction_counts, output_field=IntegerField()), 0)
    )
    return judged.filter(reduce(or_, conditions)) if conditions else judged.none()


def write_items(run: BenchmarkRun, report: Callable[[float], None]) -> int:
    """Store what the run counts; done again, it changes nothing. The number of items."""
    gold, predicted, criteria = list_gold(run), _load_predictions(run), _list_criteria_by_topic(run)
    may_lack = [c.name for c in run.scorer.guideline.document.countable_criteria if c.may_lack_value]
    judged = list_judged_responses(run) if may_lack else frozenset()
    responses = list(
        list_judgeable_responses(run)
        .select_related(None)
        .values_list("pk", "prompt__dimension", "prompt__subcomponent")
    )
    for start in range(0, len(responses), CHUNK):
        report(start / len(responses))
        keys = [
            (response, criterion)
            for response, *topic in responses[start : start + CHUNK]
            for criterion in criteria[tuple(topic)]
            # Where people said that there is no value, no prediction stands for it.
            if criterion not in may_lack or response not in judged or (response, criterion) in gold
        ]
        RunItem.objects.bulk_create(_build_items(run, keys, gold, predicted), ignore_conflicts=True)
    return run.items.count()


def _list_criteria_by_topic(run: BenchmarkRun) -> dict[tuple[str, ...], tuple[str, ...]]:
    """By dimension and subcomponent, as the prompts of the run's responses have them and its guideline knows the
    dimension: what is asked of these prompts.
    """
    document = run.scorer.guideline.document
    topics = list_run_responses(run).order_by().values_list("prompt__dimension", "prompt__subcomponent")
    return {
        (dimension, subcomponent): tuple(
            criterion.name for criterion in document.countable_at(dimension or None, subcomponent)
        )
        for dimension, subcomponent in sorted(set(topics.distinct()))
        if find_scope(run, dimension) is not None
    }


def _group_topics(run: BenchmarkRun) -> dict[tuple[str, int], list[str]]:
    """The subcomponents by their dimension and the number of criteria that are asked of them."""
    groups: dict[tuple[str, int], list[str]] = defaultdict(list)
    for (dimension, subcomponent), criteria in _list_criteria_by_topic(run).items():
        groups[dimension, len(criteria)].append(subcomponent)
    return groups


def _build_items(
    run: BenchmarkRun,
    keys: Iterable[Key],
    gold: Mapping[Key, ItemSource],
    predicted: Mapping[Key, ItemSource],
) -> Iterator[RunItem]:
    """Of those that have gold or a prediction."""
    for response, criterion in keys:
        label, prediction = gold.get((response, criterion)), predicted.get((response, criterion))
        counts = label or prediction
        if counts is not None:
            yield RunItem(
                run=run,
                response_id=response,
                criterion=criterion,
                value=counts.value,
                basis=counts.basis,
                released_label_id=label and label.pk,
                prediction_id=prediction and prediction.pk,
            )


def _load_predictions(run: BenchmarkRun) -> dict[Key, ItemSource]:
    rows = Prediction.objects.filter(
        scorer=run.scorer, response__in=list_run_responses(run).order_by().values("pk")
    ).values_list("response_id", "criterion", "pk", "value", "fold")
    return {
        (response, criterion): ItemSource(
            pk, value, RunItem.Basis.UNSEEN if fold is None else RunItem.Basis.OUT_OF_FOLD
        )
        for response, criterion, pk, value, fold in rows.iterator()
    }


SCORING = 0.8
"""The share of the work that predicting is."""
COLLECTING = N_("gathering what counts")
COMPUTING = N_("computing the board")
PREDICTED = N_("responses predicted")
RATE = N_("responses a second")

MIN_CHUNK, MAX_CHUNK = 50, 1000
"""Responses that are predicted between two reports."""
CHUNK_SECONDS = 2.0
"""How long that should take."""


class RunReporter(Protocol):
    """A job's ``report``: the fraction that is done, the stage, and values that are shown while it runs."""

    def __call__(self, progress: float, stage: str = "", **values: float) -> None: ...


@dataclass
class ScoringCost:
    """What scoring took, over all attempts: ``predicted`` of so many ``responses``, seconds and processor seconds."""

    responses: int = 0
    predicted: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0

    @classmethod
    def of(cls, run: BenchmarkRun) -> ScoringCost:
        stored = {name: value for name, value in run.cost.items() if name != "per_response"}
        return cls(**stored)

    def to_json(self) -> dict[str, Any]:
        """``per_response`` are seconds; None where nothing had to be predicted."""
        each = self.seconds / self.predicted if self.predicted else None
        return asdict(self) | {"per_response": each}


def execute_run(run: BenchmarkRun, report: RunReporter) -> dict[str, Any]:
    """The job's result. A run that is finished is left as it is."""
    if run.finished_at is None:
        report(0.0, COLLECTING)
        _predict_missing(run, report)
        write_items(run, lambda done: report(SCORING + 0.8 * (1 - SCORING) * done, COLLECTING))
        report(1 - 0.2 * (1 - SCORING), COMPUTING)
        finish_run(run)
    return {"run": run.name, "items": run.items.count(), "cost": run.cost}


def _predict_missing(run: BenchmarkRun, report: RunReporter) -> None:
    """Predict what lacks a prediction, copies of a text together; cost and progress are told every few seconds."""
    cost = ScoringCost.of(run)
    pending = list(
        list_unscored_responses(run).order_by("prompt_id", "sha256", "pk").values_list("pk", flat=True)
    )
    cost.responses = list_judgeable_responses(run).count()
    _store_cost(run, cost)
    began, done, size = time.monotonic(), 0, MIN_CHUNK
    while done < len(pending):
        chunk = pending[done : done + size]
        took = _predict_chunk(run, chunk, cost)
        done += len(chunk)
        _store_cost(run, cost)
        rate = done / (time.monotonic() - began)
        report(
            SCORING * done / len(pending),
            PREDICTING,
            **{PREDICTED: cost.predicted, RATE: round(rate, 1)},
        )
        size = max(MIN_CHUNK, min(MAX_CHUNK, int(len(chunk) * CHUNK_SECONDS / max(took, 0.001))))


def _predict_chunk(run: BenchmarkRun, keys: list[int], cost: ScoringCost) -> float:
    """Predict these and add what it took to the cost. The seconds."""
    wall, processor = time.monotonic(), time.process_time()
    predicted = Prediction.objects.filter(scorer=run.scorer, response__in=keys).values("response").distinct()
    before = predicted.count()
    score(scorer=run.scorer, responses=Response.objects.filter(pk__in=keys))
    took = time.monotonic() - wall
    cost.predicted += predicted.count() - before  # of a criterion that was not learned there is none
    cost.seconds += took
    cost.processor_seconds += time.process_time() - processor
    return took


def _store_cost(run: BenchmarkRun, cost: ScoringCost) -> None:
    run.cost = cost.to_json()
    BenchmarkRun.objects.filter(pk=run.pk).update(cost=run.cost)
