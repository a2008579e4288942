from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet

from annotation.errors import N_, Conflict, NotFound
from annotation.models import (
    Collection,
    Dataset,
    EvaluatedModel,
    GoldRelease,
    Person,
    ReleasedLabel,
    Response,
    Task,
)
from annotation.selectors.blindness import refuse_sealed, sealed_batches, sealed_datasets
from benchmark.models import BenchmarkRun, RunItem
from scoring.models import Scorer

Key = tuple[int, str]
"""A response and a criterion."""


def run_named(name: str) -> BenchmarkRun:
    found = runs_with_all().filter(name=name).first()
    if found is None:
        known = ", ".join(BenchmarkRun.objects.values_list("name", flat=True)[:20]) or "-"
        raise NotFound(N_("No benchmark run is named {name}; known are: {known}."), name=name, known=known)
    return found


def runs_with_all() -> QuerySet[BenchmarkRun]:
    return BenchmarkRun.objects.select_related(
        "scorer__guideline", "scorer__release", "dataset", "collection", "job", "replaces", "retraining"
    )


def finished_board(run: BenchmarkRun) -> dict[str, Any]:
    if run.finished_at is None:
        state = run.job.get_state_display() if run.job else "-"
        raise Conflict(
            N_("The run {name} has no leaderboard yet: its job is {state}."), name=run.name, state=state
        )
    board: dict[str, Any] = run.board
    return board


def collection_named(name: str) -> Collection:
    """The default collection has the empty name."""
    found = Collection.objects.filter(name=name).first()
    if found is None:
        known = ", ".join(repr(one) for one in Collection.objects.values_list("name", flat=True)) or "-"
        raise NotFound(
            N_("There is no collection named {name}; known are: {known}."), name=repr(name), known=known
        )
    return found


def responses_to(
    dataset: Dataset, collection: Collection, models: Iterable[EvaluatedModel] | None = None
) -> QuerySet[Response]:
    found = Response.objects.filter(prompt__dataset=dataset, collection=collection)
    if models is not None:
        found = found.filter(model__in=list(models))
    return found.select_related("prompt", "model").order_by("pk")


def responses_of(run: BenchmarkRun) -> QuerySet[Response]:
    return responses_to(run.dataset, run.collection, run.evaluated_models.all())


def gold_of(run: BenchmarkRun) -> dict[Key, ReleasedLabel]:
    """The gold of the scorer's release, by response and criterion.

    Where two batches of the release settled the same response, an adjudicated label goes before others,
    then the later one.
    """
    scorer = run.scorer
    labels = ReleasedLabel.objects.filter(
        release=scorer.release,
        task__kind=Task.Kind.WORK,
        task__batch__guideline__name=scorer.guideline.name,
        task__response__in=responses_of(run).order_by().values("pk"),
    ).select_related("task")
    allowed = {one.name: set(one.values) for one in scorer.guideline.document.criteria}
    on_scale = [label for label in labels if label.value in allowed.get(label.criterion, ())]
    on_scale.sort(key=lambda one: (one.source == "adjudicated", one.pk))
    return {(label.task.response_id, label.criterion): label for label in on_scale}


def current_runs(guideline_name: str) -> QuerySet[BenchmarkRun]:
    """The finished runs of a guideline that no finished run has replaced."""
    replaced = BenchmarkRun.objects.filter(replaces=OuterRef("pk"), finished_at__isnull=False)
    return (
        BenchmarkRun.objects.filter(scorer__guideline__name=guideline_name, finished_at__isnull=False)
        .filter(~Exists(replaced))
        .select_related("scorer__release", "scorer__guideline", "dataset", "collection")
        .order_by("created_at", "pk")
    )


def refuse_sealed_run(person: Person, run: BenchmarkRun) -> None:
    """Raise Forbidden for who works blind in a batch behind the run, or on the responses that it scores."""
    refuse_sealed_release(person, run.scorer.release)
    refuse_sealed(person, sealed_batches(person).filter(tasks__response__prompt__dataset=run.dataset))


def refuse_sealed_release(person: Person, release: GoldRelease) -> None:
    refuse_sealed(person, release.batches.all())


def datasets_open_to(person: Person) -> QuerySet[Dataset]:
    return Dataset.objects.exclude(pk__in=sealed_datasets(person).values("pk"))


def models_open_to(person: Person) -> QuerySet[EvaluatedModel]:
    """Evaluated models that a blind judge may hear of: those with responses outside of what they judge."""
    return EvaluatedModel.objects.filter(
        Exists(Response.objects.filter(model=OuterRef("pk"), prompt__dataset__in=datasets_open_to(person)))
    )


def ready_scorers() -> QuerySet[Scorer]:
    return Scorer.objects.exclude(ready_at=None).select_related("release", "guideline")


def scorer_named(name: str) -> Scorer:
    found = Scorer.objects.filter(name=name).select_related("release", "guideline").first()
    if found is None:
        known = ", ".join(Scorer.objects.values_list("name", flat=True)[:20]) or "-"
        raise NotFound(N_("No scorer is named {name}; known are: {known}."), name=name, known=known)
    return found


def items_in(run: BenchmarkRun, model: str, dimension: str | None) -> QuerySet[RunItem]:
    """The items of one cell; of the model's whole row without a dimension."""
    items = RunItem.objects.filter(run=run, response__model__name=model)
    if dimension is not None:
        items = items.filter(response__prompt__dimension=dimension)
    return items
