"""Again: a scorer from a release, and the guideline's benchmark runs with it as new runs beside the old."""

from __future__ import annotations

import re
from itertools import count

from django.db import transaction

from annotation.errors import N_, Conflict
from annotation.models import GoldRelease, Person
from annotation.names import LONGEST
from annotation.services.audit import record
from benchmark.models import Retraining
from benchmark.selectors.retrainings import under_way
from benchmark.selectors.runs import current_runs
from benchmark.services.runs import repeat_run
from scoring.models import Scorer
from scoring.selectors.lessons import guideline_of
from scoring.services import create_scorer
from scoring.spec import Spec


@transaction.atomic
def retrain(
    *,
    release: GoldRelease,
    name: str | None = None,
    spec: Spec | None = None,
    actor: Person | None = None,
    send: bool = True,
) -> Retraining:
    """Make the scorer, the runs and their jobs; each run waits for the training.

    Without a name or a backbone, those of the scorer behind the latest current run are followed. A release
    whose retraining is still under way is refused, so that a second press makes nothing twice.
    """
    GoldRelease.objects.select_for_update().get(pk=release.pk)
    if under_way(release.pk) is not None:
        raise Conflict(N_("A retraining on {release} is under way already."), release=release.name)
    olds = list(current_runs(guideline_of(release).name))
    latest = olds[-1].scorer if olds else None
    scorer, training = create_scorer(
        name=name or _next_name(latest.name if latest else f"{release.name}-scorer"),
        release=release,
        spec=spec or (latest.spec if latest else None),
        evaluate=latest.config.get("evaluate", []) if latest else [],
        seed=latest.seed if latest else 0,
        actor=actor,
        send=send,
    )
    retraining = Retraining.objects.create(release=release, scorer=scorer, created_by=actor)
    for old in olds:
        repeat_run(
            old,
            scorer,
            models=list(old.evaluated_models.all()),
            retraining=retraining,
            depends_on=training,
            actor=actor,
            send=send,
        )
    record(actor=actor, verb="retrain", target=f"release:{release.name}", scorer=scorer.name, runs=len(olds))
    return retraining


def _next_name(name: str) -> str:
    """``scorer-1`` is followed by the first of ``scorer-2``, ``scorer-3`` .. that is free."""
    numbered = re.fullmatch(r"(.+)-([0-9]{1,6})", name)
    stem, number = (numbered[1], int(numbered[2])) if numbered else (name, 1)
    names = (f"{stem[: LONGEST - 8]}-{n}" for n in count(number + 1))
    return next(one for one in names if not Scorer.objects.filter(name=one).exists())
