"""A run once more, with what came since: its responses, and the guideline's current scorer."""

from __future__ import annotations

from django.db import transaction

from annotation.errors import N_, Conflict
from annotation.models import EvaluatedModel, Person
from benchmark.models import BenchmarkRun
from benchmark.selectors.freshness import freshness, models_added
from benchmark.selectors.runs import finished_board
from benchmark.services.runs import repeat_run
from scoring.models import Scorer
from scoring.selectors.promotions import current_scorer


@transaction.atomic
def run_again(*, run: BenchmarkRun, actor: Person | None = None, send: bool = True) -> BenchmarkRun:
    """The new run, which will replace the old one when it is finished.

    It has the models of the old one and those that came since; who was left out then is left out again. Of two
    presses at once the second finds the first.
    """
    BenchmarkRun.objects.select_for_update().get(pk=run.pk)
    finished_board(run)
    _refuse_replaced(run)
    scorer = scorer_for(run)
    wanted = EvaluatedModel.objects.filter(pk__in=[*_models_of(run), *models_added(run)])
    return repeat_run(run, scorer, models=list(wanted.order_by("name")), actor=actor, send=send)


def scorer_for(run: BenchmarkRun) -> Scorer:
    """The current scorer of the run's guideline; the run's own where none was promoted yet."""
    return current_scorer(run.scorer.guideline.name) or run.scorer


def _models_of(run: BenchmarkRun) -> list[int]:
    return list(run.evaluated_models.values_list("pk", flat=True))


def _refuse_replaced(run: BenchmarkRun) -> None:
    found = freshness(run)
    if found.replaced_by is not None:
        raise Conflict(
            N_("{name} was replaced by {later}: run that one again."),
            name=run.name,
            later=found.replaced_by.name,
        )
    if found.again is not None:
        raise Conflict(
            N_("{name} is being run again already, as {later}."), name=run.name, later=found.again.name
        )
