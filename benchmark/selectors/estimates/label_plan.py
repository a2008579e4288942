"""What to label next for a run: its strata with what people have of them, and which models are not told apart."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from annotation.core.errors import N_, AssayError, Conflict, NotFound
from annotation.core.proportions import Z
from annotation.core.study_scope import build_study_filter
from annotation.domain.guidelines import GuidelineDocument, Metric
from annotation.models import Adjudication, Task
from annotation.selectors.assignments.availability import tasks_in_progress
from annotation.selectors.batches.plan import measure_pace
from benchmark.domain.estimates.estimates import Bounds, ResponseKey
from benchmark.domain.estimates.label_plan.basis import (
    Key,
    PlanBasis,
    assign_strata,
    compute_span,
    find_ranked_scope,
    map_metrics,
    weigh_columns,
)
from benchmark.domain.estimates.label_plan.label_plan import (
    LabelEffort,
    PlanStratum,
    StratumTarget,
    fill_variances,
    plan_for_precision,
)
from benchmark.domain.estimates.label_plan.separation import ModelPair
from benchmark.domain.leaderboards.grounds import Ground
from benchmark.domain.leaderboards.responses import CountedResponse
from benchmark.models import BenchmarkRun, LabelPlan
from benchmark.selectors.estimates.strata import list_drawn_strata, list_earlier_runs
from benchmark.selectors.leaderboards.items import CHUNK, list_counted_responses
from benchmark.selectors.leaderboards.runs import (
    AS_LABELS,
    find_grounds,
    find_part,
    find_stored_part,
    get_finished_board,
    list_run_responses,
)

MAX_DECISIONS = 1000
"""The latest decisions that tell how long one takes."""
PLANNING, UNLABELLED = "planning", "unlabelled"
"""Parts of a run: what plans start from, and the strata of its responses that have no gold."""


@dataclass(frozen=True)
class PlanGoal:
    """Every dimension of every model to plus or minus ``half_width``, in the metric's own unit; or a ``pair``; or all
    models compared, so that a true ``gap`` between two is seen (``selectors/comparison_plans.py``).
    """

    half_width: float | None = None
    pair: tuple[str, str] | None = None
    gap: float | None = None

    def to_json(self) -> dict[str, Any]:
        stated = {"half_width": self.half_width, "pair": None if self.pair is None else list(self.pair)}
        return stated if self.gap is None else stated | {"gap": self.gap}


@dataclass(frozen=True)
class UnlabelledResponses:
    """Responses by id, and of each the place of its stratum among those of the basis."""

    responses: Sequence[int]
    strata: Sequence[int]

    def count_held(self, in_progress: frozenset[int], strata: int) -> list[int]:
        """How many of each stratum are at work."""
        is_held = np.isin(np.array(self.responses, dtype=np.int64), np.array([*in_progress], dtype=np.int64))
        places = np.array(self.strata, dtype=np.int64)[is_held]
        counts: list[int] = np.bincount(places, minlength=strata).tolist()
        return counts

    def to_json(self) -> dict[str, Any]:
        return {"responses": self.responses, "strata": self.strata}


@dataclass(frozen=True)
class LabellingStatus:
    """What is known of a run, and what can still be labelled.

    ``unlabelled`` are its responses with a prediction and without gold, ``in_progress`` those that people have.
    ``earlier_runs`` are those that its strata were drawn for; ``is_stored`` says that the basis was read, not computed.
    """

    run: BenchmarkRun
    basis: PlanBasis
    strata: tuple[PlanStratum, ...]
    unlabelled: UnlabelledResponses
    in_progress: frozenset[int]
    before: Sequence[int]
    is_stored: bool = field(compare=False)

    @cached_property
    def free_responses(self) -> dict[Key, list[int]]:
        """Ids of the responses that nobody labels or has labelled, by stratum."""
        free_ids: dict[Key, list[int]] = defaultdict(list)
        for response, place in zip(self.unlabelled.responses, self.unlabelled.strata, strict=True):
            if response not in self.in_progress:
                free_ids[self.strata[place].key].append(response)
        return dict(free_ids)

    @property
    def document(self) -> GuidelineDocument:
        document: GuidelineDocument = self.run.scorer.guideline.document
        return document

    @property
    def metric(self) -> Metric:
        """The one that the board is ranked by."""
        return self.document.metric(self.document.rank_by)

    @property
    def models(self) -> tuple[str, ...]:
        """Best first."""
        return self.basis.models

    @property
    def waiting(self) -> int:
        """Responses that people are at or have labelled since: their labels are in no number here yet."""
        return sum(stratum.held - stratum.labelled for stratum in self.strata)

    @cached_property
    def grounds(self) -> dict[str, Ground]:
        """What the number of each model rests on, and whether the board compares it."""
        return find_grounds(self.run)

    @cached_property
    def neighbours(self) -> list[ModelPair | None]:
        """Each model and the one below it; None where their difference is undefined."""
        return [self.find_pair(first, second) for first, second in pairwise(self.models)]

    def find_pair(self, first: str, second: str) -> ModelPair | None:
        """As the board compares them; else by what gold and predictions say of both, or predictions alone."""
        known = self._turn_difference(self.basis.differences, first, second)
        if known is None:
            return None
        value, low, high = known
        stated = self._turn_difference(self._board_differences, first, second)
        first_value, second_value = (self.basis.combined.get(model) for model in (first, second))
        if stated is not None:
            difference = stated[0]
        elif first_value is None or second_value is None:
            difference = value
        else:
            difference = first_value - second_value
        weights = {
            (model, scope): share
            for model in (first, second)
            for scope, share in self.compute_weights(model).items()
        }
        return ModelPair(
            first,
            second,
            difference=difference,
            prompt_variance=((high - low) / 2 / Z) ** 2,
            strata=[
                stratum
                for model in (first, second)
                for stratum in self.list_strata(model)
                if (model, stratum.scope) in weights
            ],
            weights=weights,
            is_compared=self.grounds[first].is_compared and self.grounds[second].is_compared,
            interval=stated and stated[1:],
        )

    @cached_property
    def _board_differences(self) -> dict[str, tuple[float, float, float]]:
        """Those of the board that have an interval, by the places of both models."""
        pairs = find_part(self.run, "pairs") or {"pairs": {}}
        scope = find_ranked_scope(self.document)
        known = {key: cells.get(scope) for key, cells in pairs["pairs"].items()}
        return {
            key: (difference["value"], difference["low"], difference["high"])
            for key, difference in known.items()
            if difference is not None and difference["low"] is not None
        }

    def _turn_difference(
        self, differences: Mapping[str, tuple[float, float, float]], first: str, second: str
    ) -> tuple[float, float, float] | None:
        """The first minus the second, with its interval. Raises NotFound where a name is no model's."""
        places = {model: place for place, model in enumerate(self.models)}
        if first not in places or second not in places or first == second:
            unknown = next((model for model in (first, second) if model not in places), first)
            raise NotFound(
                N_("Name two different models of the run; {name} is none. It has: {known}."),
                name=unknown,
                known=", ".join(self.models),
            )
        low, high = sorted((places[first], places[second]))
        difference = differences.get(f"{low}-{high}")
        if difference is None or low == places[first]:
            return difference
        return -difference[0], -difference[2], -difference[1]

    @cached_property
    def _by_model(self) -> dict[str, list[PlanStratum]]:
        strata_by_model: dict[str, list[PlanStratum]] = defaultdict(list)
        for stratum in self.strata:
            strata_by_model[stratum.model].append(stratum)
        return dict(strata_by_model)

    def list_strata(self, model: str) -> Sequence[PlanStratum]:
        return self._by_model.get(model, ())

    def compute_weights(self, model: str) -> dict[str, float]:
        """What each dimension counts in the number that models are ranked by."""
        responses: Counter[str] = Counter()
        for stratum in self.list_strata(model):
            responses[stratum.scope] += stratum.population
        return weigh_columns(self.document, self.metric, responses)

    def plan_labels(self, goal: PlanGoal) -> list[StratumTarget]:
        """The labels for the goal. Raises AssayError where no label reaches it."""
        if goal.pair is None:
            assert goal.half_width is not None
            return plan_for_precision(self.strata, goal.half_width)
        pair = self.find_pair(*goal.pair)
        if pair is None:
            raise Conflict(N_("The difference of these two models is not defined."))
        targets = pair.plan_labels()
        if targets is None:
            raise Conflict(
                N_(
                    "{first} and {second} differ by less than this dataset can tell, however much of it is labelled."
                ),
                first=goal.pair[0],
                second=goal.pair[1],
            )
        return targets


def get_labelling_status(run: BenchmarkRun) -> LabellingStatus:
    """Raises AssayError of a run that is not finished, or that was before runs kept what is needed here.

    What is kept of the run is read, and which of its responses people have been given: no prediction.
    """
    get_finished_board(run)
    earlier_runs = list_earlier_runs(
        run
    )  # first: a plan that is made meanwhile makes the stored parts stale, never wrong
    stored = _find_stored(run, earlier_runs)
    basis, unlabelled = stored or _compute_basis(run)
    in_progress = _list_in_progress(run)
    held = unlabelled.count_held(in_progress, len(basis.strata))
    document = run.scorer.guideline.document
    # of labels of which half are at either end
    largest = {
        scope: compute_span(document, metric, scope) ** 2 / 4
        for scope, metric in map_metrics(document).items()
    }
    strata = [
        replace(stratum, held=stratum.labelled + n) for stratum, n in zip(basis.strata, held, strict=True)
    ]
    return LabellingStatus(
        run,
        basis,
        tuple(fill_variances(strata, basis.variances, largest)),
        unlabelled,
        in_progress,
        earlier_runs,
        is_stored=stored is not None,
    )


def _find_stored(
    run: BenchmarkRun, earlier_runs: Sequence[int]
) -> tuple[PlanBasis, UnlabelledResponses] | None:
    """None where nothing was kept yet, or plans have come before since."""
    # In one statement: another process may be keeping both anew.
    parts = dict(run.parts.filter(name__in=[PLANNING, UNLABELLED]).values_list("name", "content"))
    if len(parts) < 2 or parts[PLANNING]["before"] != earlier_runs:
        return None
    return PlanBasis.from_json(parts[PLANNING]), UnlabelledResponses(**parts[UNLABELLED])


def _compute_basis(run: BenchmarkRun) -> tuple[PlanBasis, UnlabelledResponses]:
    """The same from the stored items."""
    estimates, pairs = find_part(run, "estimates"), find_stored_part(run, "pairs")
    if estimates is None or pairs is None:
        raise Conflict(
            N_(
                "The run {name} was made before runs kept estimates; run it again, and plan from the new run."
            ),
            name=run.name,
        )
    rows, drawn = list_counted_responses(run), list_drawn_strata(run)
    document = run.scorer.guideline.document
    basis = PlanBasis.build(
        document, rows, estimates=estimates, pairs=pairs.get(AS_LABELS, pairs), drawn=drawn
    )
    return basis, list_unlabelled(run, basis, rows, estimates["strata"], drawn)


def list_unlabelled(
    run: BenchmarkRun,
    basis: PlanBasis,
    rows: Sequence[CountedResponse],
    edges: Mapping[str, Sequence[float]],
    drawn: Mapping[ResponseKey, Bounds],
) -> UnlabelledResponses:
    responses = list_run_responses(run).select_related(None).order_by()
    ids = {
        (model, prompt): pk
        for pk, model, prompt in responses.values_list("pk", "model__name", "prompt_id").iterator(CHUNK)
    }
    places = {stratum.key: place for place, stratum in enumerate(basis.strata)}
    entries = sorted(
        (ids[row.model, row.prompt], places[key])
        for key, row in assign_strata(rows, edges, drawn)
        if key in places and not row.gold and isinstance(row.prompt, int)
    )
    return UnlabelledResponses([pk for pk, _place in entries], [place for _pk, place in entries])


def build_plan_parts(
    run: BenchmarkRun,
    rows: Sequence[CountedResponse],
    *,
    estimates: Mapping[str, Any],
    pairs: Mapping[str, Any],
    drawn: Mapping[ResponseKey, Bounds],
    earlier_runs: Sequence[int],
) -> dict[str, dict[str, Any]]:
    """The parts that a finished run keeps for plans, by name; ``earlier_runs`` are those that ``drawn`` is of."""
    document = run.scorer.guideline.document
    basis = PlanBasis.build(document, rows, estimates=estimates, pairs=pairs, drawn=drawn)
    unlabelled = list_unlabelled(run, basis, rows, estimates["strata"], drawn)
    return to_parts(basis, unlabelled, earlier_runs)


def to_parts(
    basis: PlanBasis, unlabelled: UnlabelledResponses, earlier_runs: Sequence[int]
) -> dict[str, dict[str, Any]]:
    return {PLANNING: basis.to_json() | {"before": earlier_runs}, UNLABELLED: unlabelled.to_json()}


def _list_in_progress(run: BenchmarkRun) -> frozenset[int]:
    """Responses that people label or have labelled by the guideline; also those of other collections."""
    tasks = tasks_in_progress(run.scorer.guideline.name).filter(prompt__dataset=run.dataset_id)
    return frozenset(tasks.values_list("response_id", flat=True))


def measure_effort(guideline_name: str, overlap: int = 2) -> LabelEffort:
    """What past work by the guideline took."""
    measured = measure_pace(guideline_name)
    settled = Task.objects.filter(
        kind=Task.Kind.WORK,
        batch__guideline__name=guideline_name,
        overlap__gt=1,
        **build_study_filter("batch__study"),
        state__in=[Task.State.AGREED, Task.State.DISPUTED, Task.State.ADJUDICATED],
    )
    all_settled = settled.count()
    decisions = Adjudication.objects.filter(
        task__kind=Task.Kind.WORK,
        task__batch__guideline__name=guideline_name,
        seconds__gt=0,
        **build_study_filter("task__batch__study"),
    )
    seconds = [
        value
        for value in decisions.order_by("-pk").values_list("seconds", flat=True)[:MAX_DECISIONS]
        if value
    ]
    return LabelEffort(
        seconds=measured.seconds if measured else None,
        overlap=overlap,
        disputed=1 - settled.filter(state=Task.State.AGREED).count() / all_settled if all_settled else None,
        decision_seconds=median(seconds) if seconds else None,
    )


def list_plans(run: BenchmarkRun) -> list[LabelPlan]:
    return list(run.labelling_plans.select_related("batch", "created_by"))


def refuse_nothing_to_draw(targets: Sequence[StratumTarget]) -> None:
    if not any(target.more for target in targets):
        raise AssayError(N_("Nothing is left to label for this: people have labelled it, or are at it."))
