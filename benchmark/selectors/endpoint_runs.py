"""What both kinds of runs that ask endpoints share: which there are, how far they are, what lacks a response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db.models import Count, Exists, Model, OuterRef, Q, QuerySet, Sum

from annotation.core.errors import NotFound
from annotation.models import Job, Person, Prompt, Response
from benchmark.models import EndpointRun
from benchmark.selectors.leaderboards.runs import list_open_datasets, refuse_sealed_dataset

CHUNK = 200
"""Prompts that are asked about are looked up again so many at a time: imports may be faster."""
R = TypeVar("R", bound=EndpointRun)
M = TypeVar("M", bound=Model)


def _list_runs(model: type[R]) -> QuerySet[R]:
    return model._default_manager.select_related("model", "dataset", "collection", "job", "created_by")


def list_open_runs(model: type[R], person: Person) -> QuerySet[R]:
    """All but those on datasets that the person judges blind, the newest first."""
    return _list_runs(model).filter(dataset__in=list_open_datasets(person))


def get_run(model: type[R], person: Person, number: int | None, missing: str) -> R:
    """The run of this number; NotFound with ``missing``, Forbidden for who judges responses to its dataset blind."""
    run = _list_runs(model).filter(pk=number).first() if number is not None else None
    if run is None:
        raise NotFound(missing)
    refuse_sealed_dataset(person, run.dataset)
    return run


@dataclass(frozen=True)
class EndpointRunRow(Generic[R]):
    """``stored`` of ``prompts`` have a response, wherever it came from; ``flagged`` of these meet a condition."""

    run: R
    prompts: int
    stored: int
    failed: int
    flagged: int


def build_run_rows(runs: Sequence[R], condition: Exists | None = None) -> list[EndpointRunRow[R]]:
    """In a fixed number of queries; ``condition`` is about a response."""
    if not runs:
        return []
    prompts, stored = _count_prompts(runs), _count_responses(runs, Q())
    flagged = {} if condition is None else _count_responses(runs, condition)
    failed = type(runs[0])._default_manager.filter(pk__in=[run.pk for run in runs]).order_by()
    failures = dict(failed.values_list("pk").annotate(n=Count("failures")))
    return [
        EndpointRunRow(
            run,
            prompts.get(run.dataset_id, 0),
            stored.get(_get_place(run), 0),
            failures[run.pk],
            flagged.get(_get_place(run), 0),
        )
        for run in runs
    ]


RunPlace = tuple[int, int, int]
"""Dataset, model and collection: whose responses a run gathers."""


def _get_place(run: EndpointRun) -> RunPlace:
    return run.dataset_id, run.model_id, run.collection_id


def _count_prompts(runs: Sequence[EndpointRun]) -> dict[int, int]:
    """By dataset of the runs."""
    prompts = Prompt.objects.filter(dataset__in=[run.dataset_id for run in runs])
    return dict(prompts.order_by().values_list("dataset").annotate(n=Count("pk")))


def _count_responses(runs: Sequence[EndpointRun], condition: Q | Exists) -> dict[RunPlace, int]:
    """By place, the responses to the datasets of the runs that are so."""
    responses = Response.objects.filter(
        condition,
        prompt__dataset__in=[run.dataset_id for run in runs],
        model__in=[run.model_id for run in runs],
    )
    places = responses.order_by().values_list("prompt__dataset", "model", "collection")
    return {
        (dataset, model, collection): n for dataset, model, collection, n in places.annotate(n=Count("pk"))
    }


def list_collection_responses(run: EndpointRun) -> QuerySet[Response]:
    """Also those that were imported."""
    return Response.objects.filter(
        prompt__dataset=run.dataset_id, model=run.model_id, collection=run.collection_id
    )


def list_unanswered(run: EndpointRun) -> QuerySet[Prompt]:
    responses = Response.objects.filter(
        prompt=OuterRef("pk"), model=run.model_id, collection=run.collection_id
    )
    return Prompt.objects.filter(~Exists(responses), dataset=run.dataset_id).order_by("pk")


def list_answered(run: EndpointRun, prompts: Sequence[int]) -> set[int]:
    responses = Response.objects.filter(model=run.model_id, collection=run.collection_id, prompt__in=prompts)
    return set(responses.values_list("prompt", flat=True))


@dataclass(frozen=True)
class RunProgress:
    """How far a run is: ``answers`` are stored, ``made`` responses are its own, ``imported`` ones are not.

    Asked for every two seconds while it is shown, so it looks into no text. Undefined is None.
    """

    prompts: int
    stored: int
    made: int
    answers: int
    failed: int
    pending: int
    retries: int
    prompt_tokens: int | None
    completion_tokens: int | None
    per_second: float | None

    @property
    def left(self) -> int:
        return self.prompts - self.stored

    @property
    def imported(self) -> int:
        return self.stored - self.made


def measure_run(
    run: EndpointRun,
    answers: QuerySet[Any],
    failures: QuerySet[Any],
    pending: QuerySet[Any],
    **more_counts: Count,
) -> dict[str, Any]:
    """The fields of a RunProgress but ``made``, and ``more_counts`` of the ``answers``, which are rows with the
    fields of an EndpointOrigin.
    """
    sums: dict[str, Any] = answers.aggregate(
        **more_counts,
        n=Count("pk"),
        attempts=Sum("attempts"),
        prompt=Sum("prompt_tokens"),
        completion=Sum("completion_tokens"),
    )
    return {
        **{name: sums[name] for name in more_counts},
        "answers": sums["n"],
        "prompts": Prompt.objects.filter(dataset=run.dataset_id).count(),
        "stored": list_collection_responses(run).count(),
        "failed": failures.count(),
        "pending": pending.count(),
        "retries": (sums["attempts"] or 0) - sums["n"],
        "prompt_tokens": sums["prompt"],
        "completion_tokens": sums["completion"],
        "per_second": sums["n"] / run.seconds if run.seconds and sums["n"] else None,
    }


def leave_unanswered(run: EndpointRun, failures: QuerySet[M]) -> QuerySet[M]:
    """Those of prompts that have no response now: one may have been imported since."""
    waiting = list_unanswered(run).order_by()
    return failures.filter(prompt__in=waiting).select_related("prompt").order_by("prompt")


def list_jobs(runs: Sequence[int], kind: str) -> list[Job]:
    """Every job that was at one of these runs, the newest first."""
    return list(Job.objects.filter(kind=kind, payload__run__in=runs).order_by("-pk"))
