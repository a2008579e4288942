"""The runs that can be laid beside each other over time: of the same responses, by the same guideline."""

from __future__ import annotations

from django.db.models import Q

from annotation.models import Person
from benchmark.models import BenchmarkRun
from benchmark.selectors.runs import runs_with_all, scorers_open_to

LATEST = 12
"""More than these would not be read from small pictures."""


def runs_over_time(run: BenchmarkRun, person: Person | None, *, latest: int = LATEST) -> list[BenchmarkRun]:
    """Finished runs of the run's dataset, collection and guideline, oldest first: the ``latest`` and the run itself.

    ``person`` sees no run whose scorer rests on what they judge blind; nobody (None) sees all.
    """
    same = runs_with_all().filter(
        dataset=run.dataset_id,
        collection=run.collection_id,
        scorer__guideline__name=run.scorer.guideline.name,
        finished_at__isnull=False,
    )
    if person is not None:
        same = same.filter(Q(scorer__in=scorers_open_to(person).values("pk")) | Q(pk=run.pk))
    newest = list(same.exclude(pk=run.pk).order_by("-finished_at", "-pk")[: latest - 1])
    return sorted([*newest, run], key=lambda finished_run: (finished_run.finished_at is None, finished_run.finished_at, finished_run.pk))
