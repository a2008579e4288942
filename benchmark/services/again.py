"""A run once more, with what came since: its responses, and the scorer that its lineage promoted last."""

from __future__ import annotations

from django.db import transaction

from annotation.errors import N_, Conflict
from annotation.models import EvaluatedModel, Person
from benchmark.models import BenchmarkRun
from benchmark.selectors.freshness import Freshness, freshness, models_added
from benchmark.selectors.runs import finished_board
from benchmark.services.runs import repeat_run


@transaction.atomic
def run_again(*, run: BenchmarkRun, actor: Person | None = None, send: bool = True) -> BenchmarkRun:
    """The new run, which will replace the old one when it is finished.

    It has the models of the old one and those that came since; who was left out then is left out again. Of two
    presses at once the second finds the first.
    """
    BenchmarkRun.objects.select_for_update().get(pk=run.pk)
    finished_board(run)
    run_freshness = freshness(run)
    _refuse_replaced(run, run_freshness)
    models = EvaluatedModel.objects.filter(pk__in=[*_models_of(run), *models_added(run)])
    return repeat_run(
        run, run_freshness.scorer or run.scorer, models=list(models.order_by("name")), actor=actor, send=send
    )


def _models_of(run: BenchmarkRun) -> list[int]:
    return list(run.evaluated_models.values_list("pk", flat=True))


def _refuse_replaced(run: BenchmarkRun, run_freshness: Freshness) -> None:
    if run_freshness.replaced_by is not None:
        raise Conflict(
            N_("{name} was replaced by {later}: run that one again."),
            name=run.name,
            later=run_freshness.replaced_by.name,
        )
    if run_freshness.again is not None:
        raise Conflict(
            N_("{name} is being run again already, as {later}."),
            name=run.name,
            later=run_freshness.again.name,
        )
