"""What was collected, what lacks, and how fast it went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Sum

from annotation.core.errors import N_, NotFound
from annotation.models import Job, Person, Prompt, Response
from benchmark.domain.llm_client.protocol import CUT
from benchmark.models import CollectedResponse, CollectionRun, EndpointRun, FailedRequest
from benchmark.selectors.leaderboards.runs import list_open_datasets, refuse_sealed_dataset

CHUNK = 200
REPLACED = "\ufffd"
SAMPLE_SIZE = 5
PAUSE = 600.0
"""Seconds without an answer after which the chart of the rate begins anew."""
BINS = 60


def list_collection_runs() -> QuerySet[CollectionRun]:
    return CollectionRun.objects.select_related("model", "dataset", "collection", "job", "created_by")


def get_collection_run(person: Person, number: int | None) -> CollectionRun:
    """The one of this number; Forbidden for who judges responses to its dataset blind."""
    run = list_collection_runs().filter(pk=number).first() if number is not None else None
    if run is None:
        raise NotFound(N_("There is no such response collection."))
    refuse_sealed_dataset(person, run.dataset)
    return run


@dataclass(frozen=True)
class CollectionRunRow:
    """``stored`` of ``prompts`` have a response, wherever it came from."""

    run: CollectionRun
    prompts: int
    stored: int
    failed: int


def list_collection_rows(person: Person) -> list[CollectionRunRow]:
    """All but those on datasets that the person judges blind, the newest first."""
    runs = list(
        list_collection_runs()
        .filter(dataset__in=list_open_datasets(person))
        .annotate(n_failed=Count("failures"))  # the one join, so that it counts right
    )
    prompts, stored = count_prompts(runs), count_responses(runs)
    return [
        CollectionRunRow(run, prompts.get(run.dataset_id, 0), stored.get(get_place(run), 0), run.n_failed)
        for run in runs
    ]


RunPlace = tuple[int, int, int]
"""Dataset, model and collection: whose responses a run gathers."""


def get_place(run: EndpointRun) -> RunPlace:
    return run.dataset_id, run.model_id, run.collection_id


def count_prompts(runs: Sequence[EndpointRun]) -> dict[int, int]:
    """By dataset of the runs."""
    prompts = Prompt.objects.filter(dataset__in=[run.dataset_id for run in runs])
    return dict(prompts.order_by().values_list("dataset").annotate(n=Count("pk")))


def count_responses(
    runs: Sequence[EndpointRun],
    condition: Q | Exists = Q(),  # noqa: B008 (nobody changes it)
) -> dict[RunPlace, int]:
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


def list_texts_to_ask(run: CollectionRun) -> Iterator[tuple[int, str]]:
    """Id and text of each prompt without a response, looked up again a chunk at a time: imports may be faster."""
    ids = list(list_unanswered(run).values_list("pk", flat=True))
    for start in range(0, len(ids), CHUNK):
        yield from list_unanswered(run).filter(pk__in=ids[start : start + CHUNK]).values_list("pk", "text")


def list_answered(run: EndpointRun, prompts: Sequence[int]) -> set[int]:
    responses = Response.objects.filter(model=run.model_id, collection=run.collection_id, prompt__in=prompts)
    return set(responses.values_list("prompt", flat=True))


@dataclass(frozen=True)
class CollectionProgress:
    """How far it is. ``imported`` responses were not asked for; ``cut`` answers were ended by the limit of tokens.

    Asked for every two seconds while it is shown, so it looks into no text. Undefined is None.
    """

    prompts: int
    stored: int
    collected: int
    failed: int
    pending: int
    cut: int
    retries: int
    prompt_tokens: int | None
    completion_tokens: int | None
    per_second: float | None

    @property
    def left(self) -> int:
        return self.prompts - self.stored

    @property
    def imported(self) -> int:
        return self.stored - self.collected


def compute_progress(run: CollectionRun) -> CollectionProgress:
    collected = CollectedResponse.objects.filter(run=run)
    sums: dict[str, Any] = collected.aggregate(
        n=Count("pk"),
        cut=Count("pk", filter=Q(finish_reason=CUT)),
        attempts=Sum("attempts"),
        prompt=Sum("prompt_tokens"),
        completion=Sum("completion_tokens"),
    )
    return CollectionProgress(
        prompts=Prompt.objects.filter(dataset=run.dataset_id).count(),
        stored=list_collection_responses(run).count(),
        collected=sums["n"],
        failed=list_failures(run).count(),
        pending=run.pending.count(),
        cut=sums["cut"],
        retries=(sums["attempts"] or 0) - sums["n"],
        prompt_tokens=sums["prompt"],
        completion_tokens=sums["completion"],
        per_second=sums["n"] / run.seconds if run.seconds and sums["n"] else None,
    )


@dataclass(frozen=True)
class TextCounts:
    """Of the collected responses, how many are ``empty``, and how many hold the sign for what no database keeps."""

    empty: int
    replaced: int


def count_texts(run: CollectionRun) -> TextCounts:
    """Reads every text: for a page that stands still."""
    counts = CollectedResponse.objects.filter(run=run).aggregate(
        empty=Count("pk", filter=Q(response__text="")),
        replaced=Count("pk", filter=Q(response__text__contains=REPLACED)),
    )
    return TextCounts(**counts)


def count_finish_reasons(run: CollectionRun) -> list[tuple[str, int]]:
    """(why it ended, how many answers), the commonest first; "" where the endpoint did not say."""
    answers = CollectedResponse.objects.filter(run=run).order_by().values_list("finish_reason")
    return sorted(answers.annotate(n=Count("pk")), key=lambda row: (-row[1], row[0]))


def count_served_models(run: CollectionRun) -> list[tuple[str, str, int]]:
    """(model that answered, its fingerprint, how many answers): more than one line, and the endpoint changed."""
    answers = CollectedResponse.objects.filter(run=run).order_by().values_list("served_model", "fingerprint")
    return sorted(answers.annotate(n=Count("pk")), key=lambda row: (-row[2], row[:2]))


def list_failures(run: CollectionRun) -> QuerySet[FailedRequest]:
    """Of prompts that have no response now: one may have been imported since."""
    return (
        run.failures.filter(prompt__in=list_unanswered(run).order_by())
        .select_related("prompt")
        .order_by("prompt")
    )


def list_sample(run: CollectionRun) -> list[CollectedResponse]:
    """A few responses from the whole range, the same ones each time."""
    ids = list(CollectedResponse.objects.filter(run=run).order_by("response").values_list("pk", flat=True))
    if not ids:
        return []
    places = {round(number * (len(ids) - 1) / max(1, SAMPLE_SIZE - 1)) for number in range(SAMPLE_SIZE)}
    sample = CollectedResponse.objects.filter(pk__in=[ids[place] for place in sorted(places)])
    return list(sample.select_related("response__prompt").order_by("response"))


def list_jobs(run: CollectionRun) -> list[Job]:
    """Every job that was at it, the newest first."""
    return list(Job.objects.filter(kind="collect_responses", payload__run=run.pk).order_by("-pk"))


@dataclass(frozen=True)
class StretchRate:
    """Responses a second in a stretch of ``seconds``, which begins ``at`` minutes after the first answer.

    Times without an answer for more than ten minutes are left out: ``stretch`` counts up at each.
    """

    at: float
    seconds: float
    answers: int
    stretch: int

    @property
    def per_second(self) -> float:
        return self.answers / self.seconds


def compute_rates(times: Sequence[datetime]) -> list[StretchRate]:
    """At most about ``BINS`` stretches of one length, of at least a second each; ``times`` go forward."""
    positions: list[tuple[float, int]] = []
    at, stretch = 0.0, 0
    for number, time in enumerate(times):
        gap = (time - times[number - 1]).total_seconds() if number else 0.0
        stretch += gap > PAUSE
        at += 0.0 if gap > PAUSE else gap
        positions.append((at, stretch))
    width = max(1.0, at / BINS)
    counts: dict[tuple[int, int], int] = {}
    for at, stretch in positions:
        place = (stretch, int(at / width))
        counts[place] = counts.get(place, 0) + 1
    stretch_rates = []
    for stretch in sorted({stretch for stretch, _place in counts}):
        places = [place for number, place in counts if number == stretch]
        stretch_rates += [
            StretchRate(place * width / 60, width, counts.get((stretch, place), 0), stretch)
            for place in range(min(places), max(places) + 1)
        ]
    return stretch_rates


def list_rates(run: CollectionRun) -> list[StretchRate]:
    answered = CollectedResponse.objects.filter(run=run).order_by("answered_at")
    return compute_rates(list(answered.values_list("answered_at", flat=True)))
