"""How the responses that have gold in a run came to be chosen, batch by batch: what its estimates rest on.

What to label next for a run: its strata with what people have of them, and which models are not told apart.

What only more prompts narrow: the intervals for all prompts like those of a run, however much of it is labelled.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise, takewhile
from statistics import median
from typing import Any

import numpy as np
from django.db.models import Count, QuerySet

from annotation.core.errors import N_, AssayError, Conflict, NotFound
from annotation.core.proportions import Z
from annotation.domain.guidelines import GuidelineDocument, Metric
from annotation.domain.releases.selection import UNRECORDED, DrawnStratum
from annotation.models import Adjudication, BatchDraw, GoldRelease, Task
from annotation.selectors.assignments.availability import tasks_in_progress
from annotation.selectors.batches.plan import measure_pace
from annotation.selectors.releases.selection import find_selection
from benchmark.domain.estimates.estimates import Bounds, ResponseKey
from benchmark.domain.estimates.label_plan import (
    Key,
    LabelEffort,
    ModelPair,
    PlanBasis,
    PlanStratum,
    PromptNeed,
    StratumTarget,
    assign_strata,
    compute_span,
    count_prompts_needed,
    fill_variances,
    list_ranked_scopes,
    map_metrics,
    plan_for_precision,
    round_up,
)
from benchmark.domain.estimates.selection import GoldSelection, selections_to_json
from benchmark.domain.leaderboards.responses import CountedResponse
from benchmark.domain.leaderboards.withholding import is_gold
from benchmark.models import BenchmarkRun, LabelPlan, RunItem
from benchmark.selectors.board_grounds import ModelGround, find_grounds
from benchmark.selectors.leaderboards.items import CHUNK, count_responses, find_scope, list_counted_responses
from benchmark.selectors.leaderboards.runs import (
    AS_LABELS,
    find_part,
    find_stored_part,
    get_finished_board,
    list_board_rows,
    list_run_responses,
    list_runs,
)

BY_BATCH = "released_label__task__batch"
PLACE = ("response__model__name", "response__prompt__dimension")


def list_selections(run: BenchmarkRun) -> list[dict[str, Any]]:
    """A row for each batch, model and column of the board that has gold of it, as ``estimating.selection`` tells it.

    Read from what was kept with the releases when they were cut, never from the batches as they are now.
    """
    gold = run.items.filter(basis=RunItem.Basis.GOLD)
    labels = _count_by_release(run, gold)
    stored = _StoredSelection(run, {release for release, *_rest in labels})
    response_counts = count_responses(run)
    selections = [
        selection
        for (release, batch, model, scope), n in sorted(labels.items())
        for selection in stored.list_selections(
            release, batch, model, scope, labels=n, responses=response_counts[model, scope]
        )
    ]
    return selections_to_json(selections)


class _StoredSelection:
    """What the manifests of some releases say of the run's responses, by batch, model and column."""

    def __init__(self, run: BenchmarkRun, releases: Collection[int]) -> None:
        self._rows: dict[tuple[int, str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
        for release in GoldRelease.objects.filter(pk__in=releases):
            for row in find_selection(release) or ():
                if (row["dataset"], row["collection"]) == (run.dataset.name, run.collection.name):
                    self._rows[release.pk, row["batch"], row["model"], row["dimension"]].append(row)

    def list_selections(
        self, release: int, batch: str, model: str, scope: str, *, labels: int, responses: int
    ) -> list[GoldSelection]:
        """As the release has them; where one of several says nothing, that is unrecorded."""
        rows = self._rows[release, batch, model, scope]
        if len(rows) == 1 or not rows:  # the run may have less of it than the release
            row = rows[0] if rows else {"how": UNRECORDED, "without_gold": 0, "pool": responses}
            rows = [{**row, "labels": labels}]
        return [
            GoldSelection(
                batch=batch,
                model=model,
                dimension=scope,
                labels=row["labels"],
                without_gold=row["without_gold"],
                responses=responses,
                pool=row["pool"],
                stored_method=row["how"],
                scorer=row.get("scorer") or "",
            )
            for row in rows
        ]


def _count_by_release(run: BenchmarkRun, gold: QuerySet[RunItem]) -> Counter[tuple[int, str, str, str]]:
    """Responses with gold by release, batch, model and column."""
    counts: Counter[tuple[int, str, str, str]] = Counter()
    rows = gold.order_by().values_list("released_label__release", BY_BATCH + "__name", *PLACE)
    for release, batch, model, dimension, number in rows.annotate(n=Count("response", distinct=True)):
        scope = find_scope(run, dimension)
        if scope is not None:
            counts[release, batch, model, scope] += number
    return counts


def list_recorded_strata(run: BenchmarkRun) -> list[DrawnStratum]:
    """Those that batches of this run's guideline were drawn from, of its dataset."""
    draws = BatchDraw.objects.filter(
        imported=False,
        batch__guideline__name=run.scorer.guideline.name,
        batch__tasks__prompt__dataset=run.dataset_id,
    ).distinct()
    return [DrawnStratum.from_json(row) for draw in draws for row in draw.strata]


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
    def grounds(self) -> dict[str, ModelGround]:
        """What the number of each model rests on, and whether the board compares it."""
        return find_grounds(self.run)

    @cached_property
    def neighbours(self) -> list[ModelPair | None]:
        """Each model and the one below it; None where their difference is undefined."""
        return [self.find_pair(first, second) for first, second in pairwise(self.models)]

    def find_pair(self, first: str, second: str) -> ModelPair | None:
        """Corrected by gold where both models have enough of it, else as the board has them."""
        known = self._find_difference(first, second)
        if known is None:
            return None
        value, low, high = known
        first_value, second_value = (self.basis.combined.get(model) for model in (first, second))
        weights = {
            (model, scope): share
            for model in (first, second)
            for scope, share in self.compute_weights(model).items()
        }
        return ModelPair(
            first,
            second,
            difference=value if first_value is None or second_value is None else first_value - second_value,
            prompt_variance=((high - low) / 2 / Z) ** 2,
            strata=[
                stratum
                for model in (first, second)
                for stratum in self.list_strata(model)
                if (model, stratum.scope) in weights
            ],
            weights=weights,
            span=max(compute_span(self.document, self.metric, scope) for scope in self._compared_scopes),
            corrected=all(
                model in self.basis.combined and self.grounds[model].is_compared for model in (first, second)
            ),
        )

    def _find_difference(self, first: str, second: str) -> tuple[float, float, float] | None:
        """Their difference on the board, the first minus the second, with its interval."""
        places = {model: place for place, model in enumerate(self.models)}
        if first not in places or second not in places or first == second:
            unknown = next((model for model in (first, second) if model not in places), first)
            raise NotFound(
                N_("Name two different models of the run; {name} is none. It has: {known}."),
                name=unknown,
                known=", ".join(self.models),
            )
        low, high = sorted((places[first], places[second]))
        difference = self.basis.differences.get(f"{low}-{high}")
        if difference is None or low == places[first]:
            return difference
        return -difference[0], -difference[2], -difference[1]

    @cached_property
    def _compared_scopes(self) -> tuple[str, ...]:
        return list_ranked_scopes(self.document)

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
        if self.metric.overall != "pooled":
            return dict.fromkeys(self._compared_scopes, 1 / len(self._compared_scopes))
        labels: Counter[str] = Counter()
        for stratum in self.list_strata(model):
            if stratum.scope in self._compared_scopes:
                dimension = stratum.scope if self.document.dimensions else None
                labels[stratum.scope] += stratum.population * len(
                    self.document.criteria_of(self.metric, dimension)
                )
        return {scope: n / labels.total() for scope, n in labels.items()}

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
    """Ids of the runs over these responses by this guideline that labels were planned from, up to this run itself."""
    plans = LabelPlan.objects.filter(
        run__dataset=run.dataset_id,
        run__collection=run.collection_id,
        run__scorer__guideline__name=run.scorer.guideline.name,
    )
    run_ids = dict.fromkeys(plans.order_by("pk").values_list("run", flat=True))
    return list(takewhile(lambda pk: pk != run.pk, run_ids))


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
        state__in=[Task.State.AGREED, Task.State.DISPUTED, Task.State.ADJUDICATED],
    )
    all_settled = settled.count()
    decisions = Adjudication.objects.filter(
        task__kind=Task.Kind.WORK, task__batch__guideline__name=guideline_name, seconds__gt=0
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


Statistic = Mapping[str, float | None]


def count_labelled(run: BenchmarkRun) -> int:
    """How many responses the run counts, where all of them and all others have gold; else 0."""
    cells = [cell for row in list_board_rows(run) for cell in row["dimensions"].values()]
    is_complete = all(is_gold(cell) and not cell.get("missing") for cell in cells)
    return sum(cell["n"] for cell in cells) if is_complete else 0


def list_prompt_needs(status: LabellingStatus, half_width: float) -> list[PromptNeed]:
    """By column, for the model that needs the most prompts to be known to plus or minus ``half_width``."""
    estimates = find_part(status.run, "estimates") or {"rows": []}
    combined = {row["model"]: row["cells"] for row in estimates["rows"]}
    return [
        _find_greatest(
            [
                _build_need(scope, n, statistic, half_width)
                for n, statistic in _list_statistics(status.run, combined, scope, metric)
            ]
        )
        for scope, metric in map_metrics(status.document).items()
        if any(row["dimensions"][scope]["n"] for row in list_board_rows(status.run))
    ]


def _list_statistics(
    run: BenchmarkRun, combined: Mapping[str, Any], scope: str, metric: Metric
) -> Iterator[tuple[int, Statistic]]:
    """Each model's prompts and its number: the board's where that is gold alone, else the combined one."""
    for row in list_board_rows(run):
        cell = row["dimensions"][scope]
        estimate = combined.get(row["model"], {}).get(scope, {}).get(metric.name, {})
        yield cell["n"], cell[metric.name] if is_gold(cell) else estimate.get("combined") or {}


def _build_need(scope: str, prompts: int, statistic: Statistic, target: float) -> PromptNeed:
    low, high = statistic.get("low"), statistic.get("high")
    if low is None or high is None:
        return PromptNeed(scope, prompts, None, None)
    half = (high - low) / 2
    return PromptNeed(scope, prompts, half, count_prompts_needed(prompts, half, target))


def _find_greatest(needs: list[PromptNeed]) -> PromptNeed:
    return max(needs, key=lambda need: (need.needed is not None, need.needed or 0, need.half_width or 0.0))


def count_prompts_to_separate(status: LabellingStatus, pair: ModelPair) -> int | None:
    """About how many prompts like these would; None where labels do, or where they do not differ at all."""
    times = pair.prompt_factor
    if pair.is_separable or times is None:
        return None
    columns = list_ranked_scopes(status.document)
    rows = [row for row in list_board_rows(status.run) if row["model"] in (pair.first, pair.second)]
    return round_up(times * max(sum(row["dimensions"][scope]["n"] for scope in columns) for row in rows))
