"""Again: a scorer from a release, and the boards of its lineage with it as new runs beside the old."""

from __future__ import annotations

from django.db import transaction

from annotation.errors import N_, Conflict
from annotation.models import GoldRelease, Person
from annotation.services.audit import record
from benchmark.models import Retraining
from benchmark.selectors.retrainings import plan_retraining, under_way
from benchmark.services.runs import repeat_run
from scoring.services import create_scorer
from scoring.spec import Spec


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
    if under_way(release.pk) is not None:
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
        verb="retrain",
        target=f"release:{release.name}",
        scorer=scorer.name,
        runs=len(boards),
        boards=boards,
    )
    return retraining
