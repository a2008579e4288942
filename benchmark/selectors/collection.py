"""What was collected, what lacks, and how fast it went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import Count, Q, QuerySet

from annotation.core.errors import N_
from annotation.models import Person
from benchmark.domain.llm_client.protocol import CUT
from benchmark.models import CollectedResponse, CollectionRun, FailedRequest
from benchmark.selectors.endpoint_runs import (
    CHUNK,
    RunProgress,
    get_run,
    leave_unanswered,
    list_unanswered,
    measure_run,
)

REPLACED = "\ufffd"
SAMPLE_SIZE = 5
PAUSE = 600.0
"""Seconds without an answer after which the chart of the rate begins anew."""
BINS = 60


def get_collection_run(person: Person, number: int | None) -> CollectionRun:
    return get_run(CollectionRun, person, number, N_("There is no such response collection."))


def list_texts_to_ask(run: CollectionRun) -> Iterator[tuple[int, str]]:
    """Id and text of each prompt without a response, looked up again a chunk at a time: imports may be faster."""
    ids = list(list_unanswered(run).values_list("pk", flat=True))
    for start in range(0, len(ids), CHUNK):
        yield from list_unanswered(run).filter(pk__in=ids[start : start + CHUNK]).values_list("pk", "text")


@dataclass(frozen=True)
class CollectionProgress(RunProgress):
    """``cut`` answers were ended by the limit of tokens."""

    cut: int


def compute_progress(run: CollectionRun) -> CollectionProgress:
    collected, cut = CollectedResponse.objects.filter(run=run), Count("pk", filter=Q(finish_reason=CUT))
    measures = measure_run(run, collected, list_failures(run), run.pending.all(), cut=cut)
    return CollectionProgress(**measures, made=measures["answers"])


def list_samples(run: CollectionRun) -> list[CollectionRun]:
    """The runs that were begun together for several samples of each prompt, or this one alone."""
    first = run.first_id or run.pk
    runs = CollectionRun.objects.select_related("model", "dataset", "collection", "job")
    return list(runs.filter(Q(pk=first) | Q(first=first)).order_by("sample"))


def list_runs_of_job(run: CollectionRun, payload: Mapping[str, Any]) -> list[CollectionRun]:
    """Those that a job of this run with this payload fills, in their order."""
    samples = payload.get("samples", 1)
    return list_samples(run)[:samples] if samples > 1 else [run]


def compute_samples_progress(runs: Sequence[CollectionRun]) -> CollectionProgress:
    """Of one run or more together."""
    parts = [compute_progress(run) for run in runs]
    counts = ("prompts", "stored", "made", "answers", "failed", "pending", "retries", "cut")
    sums = {name: sum(getattr(part, name) for part in parts) for name in counts}
    seconds = sum(run.seconds for run in runs)
    rate = sums["answers"] / seconds if seconds and sums["answers"] else None
    return replace(
        parts[0],
        **sums,
        prompt_tokens=_sum_known([part.prompt_tokens for part in parts]),
        completion_tokens=_sum_known([part.completion_tokens for part in parts]),
        per_second=rate,
    )


def _sum_known(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


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
    return leave_unanswered(run, FailedRequest.objects.filter(run=run))


def list_sample(run: CollectionRun) -> list[CollectedResponse]:
    """A few responses from the whole range, the same ones each time."""
    ids = list(CollectedResponse.objects.filter(run=run).order_by("response").values_list("pk", flat=True))
    if not ids:
        return []
    places = {round(number * (len(ids) - 1) / max(1, SAMPLE_SIZE - 1)) for number in range(SAMPLE_SIZE)}
    sample = CollectedResponse.objects.filter(pk__in=[ids[place] for place in sorted(places)])
    return list(sample.select_related("response__prompt").order_by("response"))


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
