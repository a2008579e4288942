from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction
from django.db.models import QuerySet

from annotation.errors import N_, AssayError, Conflict
from annotation.guidelines import GuidelineDocument
from annotation.models import Collection, Dataset, EvaluatedModel, Job, Person, Response
from annotation.names import check_name
from annotation.selectors.gold import refuse_sealed_gold
from annotation.services import jobs
from annotation.services.audit import record
from benchmark.models import BenchmarkRun, Retraining
from benchmark.selectors.runs import refuse_sealed_dataset, responses_to
from scoring.models import Scorer

KIND = "run_benchmark"


@transaction.atomic
def create_run(
    *,
    name: str,
    scorer: Scorer,
    dataset: Dataset,
    collection: Collection,
    models: Sequence[EvaluatedModel] = (),
    replaces: BenchmarkRun | None = None,
    retraining: Retraining | None = None,
    depends_on: Job | None = None,
    actor: Person | None = None,
    send: bool = True,
) -> BenchmarkRun:
    """Make the run and its job. Without ``models``, every model that has responses there is in it."""
    _check(check_name(name), scorer, depends_on)
    if actor is not None:
        refuse_sealed_gold(actor, scorer.release.batches.all())
        refuse_sealed_dataset(actor, dataset)
    evaluated = _models(dataset, collection, models)
    _check_dimensions(responses_to(dataset, collection, evaluated), scorer.guideline.document, dataset)
    run = BenchmarkRun.objects.create(
        name=name,
        scorer=scorer,
        dataset=dataset,
        collection=collection,
        replaces=replaces,
        retraining=retraining,
        created_by=actor,
    )
    run.evaluated_models.set(evaluated)
    run.job = jobs.enqueue(
        kind=KIND, payload={"run": run.pk}, title=name, actor=actor, depends_on=depends_on, send=send
    )
    run.save(update_fields=["job"])
    record(actor=actor, verb="create_run", target=f"run:{name}", scorer=scorer.name, dataset=dataset.name)
    return run


def _check(name: str, scorer: Scorer, depends_on: Job | None) -> None:
    if BenchmarkRun.objects.filter(name=name).exists():
        raise Conflict(N_("There is a benchmark run named {name} already; choose another name."), name=name)
    if scorer.ready_at is None and depends_on is None:
        raise Conflict(
            N_("The scorer {name} is not ready: it has not been trained to its end."), name=scorer.name
        )


def _models(
    dataset: Dataset, collection: Collection, models: Sequence[EvaluatedModel]
) -> list[EvaluatedModel]:
    there = responses_to(dataset, collection).order_by().values("model")
    answered = list(EvaluatedModel.objects.filter(pk__in=there))
    silent = [model.name for model in models if model not in answered]
    if not answered:
        raise AssayError(
            N_("{dataset} has no responses in the collection {collection}."),
            dataset=dataset.name,
            collection=repr(collection.name),
        )
    if silent:
        raise AssayError(
            N_(
                "{dataset} has no responses of {models} in the collection {collection}; there are those of: {known}."
            ),
            dataset=dataset.name,
            models=", ".join(silent),
            collection=repr(collection.name),
            known=", ".join(model.name for model in answered),
        )
    return list(models) or answered


def _check_dimensions(responses: QuerySet[Response], document: GuidelineDocument, dataset: Dataset) -> None:
    if not document.dimensions:
        return
    there = set(responses.order_by().values_list("prompt__dimension", flat=True).distinct())
    if there.isdisjoint(document.dimension_names):
        raise AssayError(
            N_("No prompt of {dataset} is of a dimension of {guideline} ({known}); they are of: {there}."),
            dataset=dataset.name,
            guideline=document.name,
            known=", ".join(document.dimension_names),
            there=", ".join(sorted(name or "-" for name in there)),
        )
