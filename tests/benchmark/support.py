"""A settled batch, a release and a scorer, made by the product's own services."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django.utils import timezone

import benchmark.tasks  # noqa: F401 (the handlers of the jobs that this process runs)
import scoring.tasks  # noqa: F401 (the handlers of the jobs that this process runs)
from annotation.models import Assignment, Batch, GoldRelease, Guideline, Person, Response
from annotation.services.distribution import next_assignment
from annotation.services.gold import cut_release
from scoring.models import Prediction, Scorer
from tests.support import decide_next, label

Rule = Callable[[Response], int]


def settle(batch: Batch, people: Sequence[Person], rule: Rule, *, tasks: int | None = None) -> None:
    """Each task of the batch, or the first ``tasks``, labelled by two people as the rule says."""
    for person in people[:2]:
        done = 0
        while (tasks is None or done < tasks) and (claim := next_assignment(batch=batch, person=person)):
            label(claim, person, rule(response_of(claim)))
            done += 1


def response_of(assignment: Assignment) -> Response:
    return Response.objects.select_related("prompt", "model").get(tasks=assignment.task_id)


def decide_all(batch: Batch, person: Person, value: int) -> None:
    while decide_next(batch, person, value):
        pass


def release_of(batch: Batch, name: str = "gold-1") -> GoldRelease:
    return cut_release(name=name, batches=[batch])


def ready_scorer(release: GoldRelease, guideline: Guideline, name: str = "scorer-1") -> Scorer:
    """A registered scorer whose weights nobody asks for: the tests store its predictions themselves."""
    return Scorer.objects.create(
        name=name,
        guideline=guideline,
        release=release,
        backbone="ngram",
        weights_sha256="ab" * 32,
        ready_at=timezone.now(),
    )


def predict(scorer: Scorer, response: Response, value: int, *, fold: int | None = None) -> Prediction:
    return Prediction.objects.create(
        scorer=scorer,
        response=response,
        criterion="compliance",
        value=value,
        probabilities={str(level): float(level == value) for level in (1, 2, 3)},
        fold=fold,
    )
