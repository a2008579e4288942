from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import Exists, OuterRef, Q, QuerySet

from annotation.errors import N_, Conflict, NotFound
from annotation.models import (
    Batch,
    Collection,
    Dataset,
    EvaluatedModel,
    Person,
    ReleasedLabel,
    Response,
    Task,
)
from annotation.selectors.blindness import refuse_sealed, sealed_batches, sealed_datasets
from annotation.selectors.gold import refuse_sealed_gold
from benchmark.models import BenchmarkRun, RunItem
from scoring.models import Scorer

from ..figures.withholding import PredictedModels, without_claims, without_ranks

PAIRS = "pairs"

Key = tuple[int, str]
"""A response and a criterion."""


class ItemSource(NamedTuple):
    """The id and value of a gold label or of a prediction, and the basis that it is."""

    pk: int
    value: float
    basis: str


def run_named(name: str) -> BenchmarkRun:
    run = runs_with_all().filter(name=name).first()
    if run is None:
        known = ", ".join(BenchmarkRun.objects.values_list("name", flat=True)[:20]) or "-"
        raise NotFound(N_("No benchmark run is named {name}; known are: {known}."), name=name, known=known)
    return run


def runs_with_all() -> QuerySet[BenchmarkRun]:
    return BenchmarkRun.objects.select_related(
        "scorer__guideline", "scorer__release", "dataset", "collection", "job", "replaces", "retraining"
    )


def board_of(run: BenchmarkRun) -> dict[str, Any]:
    """The board as anybody may see it; what a run has stored is read here alone. Empty until the run is finished."""
    board: dict[str, Any] = run.board
    return without_ranks(board, _predicted(run)) if board else board


def rows_of(run: BenchmarkRun) -> list[dict[str, Any]]:
    """The rows of the board, best first."""
    rows: list[dict[str, Any]] = board_of(run).get("rows", [])
    return rows


def _predicted(run: BenchmarkRun) -> PredictedModels:
    return PredictedModels.of_board(run.scorer.guideline.document, run.board)


def finished_board(run: BenchmarkRun) -> dict[str, Any]:
    if run.finished_at is None:
        state = run.job.get_state_display() if run.job else "-"
        raise Conflict(
            N_("The run {name} has no leaderboard yet: its job is {state}."), name=run.name, state=state
        )
    return board_of(run)


def part(run: BenchmarkRun, name: str) -> dict[str, Any] | None:
    """What the run has beside its board: ``groups``, ``pairs`` or ``estimates``; None of a run that has none."""
    content = stored_part(run, name)
    return without_claims(content, _predicted(run)) if content and name == PAIRS else content


def stored_part(run: BenchmarkRun, name: str) -> dict[str, Any] | None:
    """As it was computed, for what is computed from it; ``part`` is for whoever is to see it."""
    content: dict[str, Any] | None = run.parts.filter(name=name).values_list("content", flat=True).first()
    return content


def collection_named(name: str) -> Collection:
    """The default collection has the empty name."""
    collection = Collection.objects.filter(name=name).first()
    if collection is None:
        known = ", ".join(repr(known_name) for known_name in Collection.objects.values_list("name", flat=True)) or "-"
        raise NotFound(
            N_("There is no collection named {name}; known are: {known}."), name=repr(name), known=known
        )
    return collection


def responses_to(
    dataset: Dataset, collection: Collection, models: Iterable[EvaluatedModel] | None = None
) -> QuerySet[Response]:
    responses = Response.objects.filter(prompt__dataset=dataset, collection=collection)
    if models is not None:
        responses = responses.filter(model__in=list(models))
    return responses.select_related("prompt", "model").order_by("pk")


def responses_of(run: BenchmarkRun) -> QuerySet[Response]:
    return responses_to(run.dataset, run.collection, run.evaluated_models.all())


def gold_of(run: BenchmarkRun) -> dict[Key, ItemSource]:
    """The gold of the scorer's release, by response and criterion.

    A label of an older version of the guideline that is not on the scorer's scale is no label here.
    """
    scorer = run.scorer
    labels = ReleasedLabel.objects.filter(
        release=scorer.release,
        task__kind=Task.Kind.WORK,
        task__batch__guideline__name=scorer.guideline.name,
        task__response__in=responses_of(run).order_by().values("pk"),
    ).order_by("task__batch__guideline__published_at", "pk")
    allowed = {criterion.name: set(criterion.values) for criterion in scorer.guideline.document.criteria}
    return {
        (response, criterion): ItemSource(pk, value, RunItem.Basis.GOLD)
        for response, criterion, pk, value in labels.values_list(
            "task__response_id", "criterion", "pk", "value"
        ).iterator()
        if value in allowed.get(criterion, ())
    }


def current_runs(guideline_name: str) -> QuerySet[BenchmarkRun]:
    """The finished runs of a guideline that no finished run has replaced.

    Two chains at once may have replaced the same run: the later of the two stands, or each chain would double it.
    """
    finished = BenchmarkRun.objects.filter(finished_at__isnull=False)
    replaced = finished.filter(replaces=OuterRef("pk"))
    rival = finished.filter(replaces=OuterRef("replaces"), pk__gt=OuterRef("pk"))
    return (
        finished.filter(scorer__guideline__name=guideline_name)
        .filter(~Exists(replaced), ~Exists(rival))
        .select_related("scorer__release", "scorer__guideline", "dataset", "collection")
        .order_by("created_at", "pk")
    )


def refuse_sealed_run(person: Person, run: BenchmarkRun) -> None:
    """Forbidden for who works blind in a batch behind the run, or on the responses that it scores."""
    refuse_sealed_gold(person, run.scorer.release.batches.all())
    refuse_sealed_dataset(person, run.dataset)


def refuse_sealed_dataset(person: Person, dataset: Dataset) -> None:
    """Forbidden for who judges responses of the dataset blind now."""
    refuse_sealed(person, sealed_batches(person).filter(tasks__response__prompt__dataset=dataset))


def datasets_open_to(person: Person) -> QuerySet[Dataset]:
    return Dataset.objects.exclude(pk__in=sealed_datasets(person).values("pk"))


def models_open_to(person: Person) -> QuerySet[EvaluatedModel]:
    """Evaluated models that a blind judge may hear of: those with responses outside of what they judge."""
    return EvaluatedModel.objects.filter(
        Exists(Response.objects.filter(model=OuterRef("pk"), prompt__dataset__in=datasets_open_to(person)))
    )


def scorers_open_to(person: Person) -> QuerySet[Scorer]:
    """Trained scorers whose release is not sealed for the person."""
    ready = Scorer.objects.exclude(ready_at=None).select_related("release", "guideline")
    return ready.exclude(release__batches__in=_sealed_for_gold(person))


def collections_open_to(person: Person) -> QuerySet[Collection]:
    """Collections of responses outside of what the person judges blind: a collection's name may tell the model's."""
    open_to = Response.objects.filter(collection=OuterRef("pk"), prompt__dataset__in=datasets_open_to(person))
    return Collection.objects.filter(Exists(open_to))


def _sealed_for_gold(person: Person) -> list[int]:
    """The batches whose gold ``refuse_sealed_gold`` refuses: sealed ones, and others on the same datasets."""
    sealed = Q(pk__in=sealed_batches(person).values("pk"))
    judged = Task.objects.filter(response__prompt__dataset__in=sealed_datasets(person).values("pk"))
    return list(Batch.objects.filter(sealed | Q(pk__in=judged.values("batch"))).values_list("pk", flat=True))


@dataclass(frozen=True)
class RunRow:
    """A run as the list shows it; of a ``sealed`` one no more than its name."""

    run: BenchmarkRun
    sealed: bool


def runs_for(person: Person) -> list[RunRow]:
    batches = set(_sealed_for_gold(person))
    datasets = set(sealed_datasets(person).values_list("pk", flat=True))
    runs = runs_with_all().prefetch_related("scorer__release__batches", "evaluated_models")
    return [
        RunRow(
            run=run,
            sealed=run.dataset_id in datasets
            or any(batch.pk in batches for batch in run.scorer.release.batches.all()),
        )
        for run in runs
    ]


def items_in(run: BenchmarkRun, model: str, dimension: str | None) -> QuerySet[RunItem]:
    """The items of one cell; of the model's whole row without a dimension."""
    items = run.items.filter(response__model__name=model)  # which knows its run
    if dimension is not None:
        items = items.filter(response__prompt__dimension=dimension)
    return items
