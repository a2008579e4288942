"""A run once more, with what came since: its responses, and the scorer that its lineage promoted last.

Again: a scorer from a release, and the boards of its lineage with it as new runs beside the old.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from annotation.core.errors import N_, AssayError, Conflict
from annotation.core.names import MAX_NAME_CHARACTERS, check_name
from annotation.core.study_scope import choose_study_id
from annotation.domain.guidelines import GuidelineDocument
from annotation.models import (
    Collection,
    Dataset,
    EvaluatedModel,
    GoldRelease,
    Job,
    Person,
    Response,
)
from annotation.selectors.access import refuse_sealed_gold
from annotation.services import jobs
from annotation.services.audit import record
from benchmark.domain.verbs import BenchmarkVerb
from benchmark.models import BenchmarkRun, Retraining
from benchmark.selectors.leaderboards.freshness import Freshness, compute_freshness, list_added_models
from benchmark.selectors.leaderboards.runs import (
    find_running_retraining,
    get_finished_board,
    list_responses,
    plan_retraining,
    refuse_sealed_dataset,
)
from scoring.domain.spec import Spec
from scoring.models import Scorer
from scoring.services import create_scorer

KIND = "run_benchmark"
ATTEMPTS = 5
"""So many names are tried for a run that is made again, of which others take each just before."""


class NameTaken(Conflict):
    """There is a run of this name, or somebody has just made one."""

    def __init__(self, name: str) -> None:
        super().__init__(N_("There is a benchmark run named {name} already; choose another name."), name=name)


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
    _check_run(check_name(name), scorer, depends_on)
    if actor is not None:
        refuse_sealed_gold(actor, scorer.release.batches.all())
        refuse_sealed_dataset(actor, dataset)
    evaluated = list_answering_models(dataset, collection, models)
    _check_dimensions(list_responses(dataset, collection, evaluated), scorer.guideline.document, dataset)
    run = _insert_run(
        study_id=choose_study_id(scorer.study_id),
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
    record(
        actor=actor,
        verb=BenchmarkVerb.CREATE_RUN,
        target=f"run:{name}",
        scorer=scorer.name,
        dataset=dataset.name,
    )
    return run


def repeat_run(
    old: BenchmarkRun, scorer: Scorer, *, models: Sequence[EvaluatedModel], **options: Any
) -> BenchmarkRun:
    """A run of the same responses that will replace the old one; ``options`` are those of ``create_run``.

    Nobody chose its name, so where another run has just taken it, it gets the next one.
    """
    create = partial(
        create_run,
        scorer=scorer,
        dataset=old.dataset,
        collection=old.collection,
        models=models,
        replaces=old,
        **options,
    )
    for _attempt in range(ATTEMPTS - 1):
        with suppress(NameTaken):
            return create(name=next_run_name(old.name, scorer))
    return create(name=next_run_name(old.name, scorer))


def next_run_name(old: str, scorer: Scorer) -> str:
    """``board`` becomes ``board @ scorer-2``, and that ``board @ scorer-3``."""
    stem, _at, _scorer = old.partition(" @ ")
    full_name = f"{stem[: max(1, MAX_NAME_CHARACTERS - len(scorer.name) - 9)]} @ {scorer.name}"[
        : MAX_NAME_CHARACTERS - 6
    ]
    names = (full_name if n == 1 else f"{full_name} ({n})" for n in count(1))
    return next(name for name in names if not BenchmarkRun.objects.filter(name=name).exists())


def _insert_run(**fields: Any) -> BenchmarkRun:
    """Of two that take one name at the same moment, the later is refused like any other."""
    try:
        with transaction.atomic():
            return BenchmarkRun.objects.create(**fields)
    except IntegrityError as error:
        raise NameTaken(fields["name"]) from error


def _check_run(name: str, scorer: Scorer, depends_on: Job | None) -> None:
    if BenchmarkRun.objects.filter(name=name).exists():
        raise NameTaken(name)
    if scorer.ready_at is None and depends_on is None:
        raise Conflict(
            N_("The scorer {name} is not ready: it has not been trained to its end."), name=scorer.name
        )


def list_answering_models(
    dataset: Dataset, collection: Collection, models: Sequence[EvaluatedModel]
) -> list[EvaluatedModel]:
    """The ``models``, or all where none is named. Raises AssayError where one of them, or none, has a response."""
    model_ids = list_responses(dataset, collection).order_by().values("model")
    answered = list(EvaluatedModel.objects.filter(pk__in=model_ids))
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
    dimensions = set(responses.order_by().values_list("prompt__dimension", flat=True).distinct())
    if dimensions.isdisjoint(document.dimension_names):
        raise AssayError(
            N_("No prompt of {dataset} is of a dimension of {guideline} ({known}); they are of: {there}."),
            dataset=dataset.name,
            guideline=document.name,
            known=", ".join(document.dimension_names),
            there=", ".join(sorted(name or "-" for name in dimensions)),
        )


@transaction.atomic
def rerun_board(*, run: BenchmarkRun, actor: Person | None = None, send: bool = True) -> BenchmarkRun:
    """The new run, which will replace the old one when it is finished.

    It has the models of the old one and those that came since; who was left out then is left out again. Of two
    presses at once the second finds the first.
    """
    BenchmarkRun.objects.select_for_update().get(pk=run.pk)
    get_finished_board(run)
    run_freshness = compute_freshness(run)
    _check_not_replaced(run, run_freshness)
    models = EvaluatedModel.objects.filter(pk__in=[*_list_model_ids(run), *list_added_models(run)])
    return repeat_run(
        run, run_freshness.scorer or run.scorer, models=list(models.order_by("name")), actor=actor, send=send
    )


def _list_model_ids(run: BenchmarkRun) -> list[int]:
    return list(run.evaluated_models.values_list("pk", flat=True))


def _check_not_replaced(run: BenchmarkRun, run_freshness: Freshness) -> None:
    if run_freshness.replaced_by is not None:
        raise Conflict(
            N_("{name} was replaced by {later}: run that one again."),
            name=run.name,
            later=run_freshness.replaced_by.name,
        )
    if run_freshness.repetition is not None:
        raise Conflict(
            N_("{name} is being run again already, as {later}."),
            name=run.name,
            later=run_freshness.repetition.name,
        )


@transaction.atomic
def retrain(
    *,
    release: GoldRelease,
    name: str | None = None,
    spec: Spec | None = None,
    seen: str | None = None,
    actor: Person | None = None,
    send: bool = True,
) -> Retraining:
    """Make the scorer, the runs and their jobs; each run waits for the training.

    ``seen`` is the digest of the plan that the person has read: another plan is refused. A release whose retraining
    is still under way is refused, so that a second press makes nothing twice.
    """
    GoldRelease.objects.select_for_update().get(pk=release.pk)
    if find_running_retraining(release.pk) is not None:
        raise Conflict(N_("A retraining on {release} is under way already."), release=release.name)
    plan = plan_retraining(release, name=name, spec=spec)
    if seen not in {None, plan.digest}:
        raise Conflict(
            N_("What would be trained and run again was not confirmed as it is now: look at it again.")
        )
    scorer, training = create_scorer(plan.training, actor=actor, send=send)
    retraining = Retraining.objects.create(release=release, scorer=scorer, created_by=actor)
    for board in plan.boards:
        repeat_run(
            board,
            scorer,
            models=list(board.evaluated_models.all()),
            retraining=retraining,
            depends_on=training,
            actor=actor,
            send=send,
        )
    boards = [board.name for board in plan.boards]
    record(
        actor=actor,
        verb=BenchmarkVerb.RETRAIN,
        target=f"release:{release.name}",
        scorer=scorer.name,
        runs=len(boards),
        boards=boards,
    )
    return retraining
