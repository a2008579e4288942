"""The bands of the texts of a dataset: stored as rows, so that every process finds the same near texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.db import transaction

from annotation.core.errors import N_
from annotation.models import Dataset, Job, Person, Prompt
from annotation.services import jobs
from benchmark.domain.workbench.duplicates import compute_bands
from benchmark.models import ProposalRevision, TextBand, TextIndex

INDEX_JOB = "index_texts"
INDEXING = N_("indexing texts")
CHUNK = 500
MAX_INLINE = 500
"""So many prompts that came since are indexed while somebody waits; more by a job."""


def execute_indexing(context: jobs.JobContext) -> dict[str, Any]:
    """The body of the job; again after a stop it goes on where it was."""
    dataset = Dataset.objects.get(pk=context.payload["dataset"])
    indexed = index_prompts(dataset, report=lambda share: context.report(share, INDEXING))
    return {"dataset": dataset.pk, "indexed": indexed}


def index_prompts(
    dataset: Dataset, *, most: int | None = None, report: Callable[[float], None] = lambda _share: None
) -> int:
    """Store the bands of the prompts that have none, of ``most`` at most; how many they were."""
    left = count_unindexed(dataset)
    total = left if most is None else min(left, most)
    done = 0
    while done < total:
        report(done / total)
        stored = _index_chunk(dataset, min(CHUNK, total - done))
        if not stored:
            break
        done += stored
    return done


def index_recent_prompts(dataset: Dataset, *, actor: Person | None = None) -> None:
    """Those that came since, before somebody's text is compared with them. Where they are many, as after an import, a
    job indexes the rest.
    """
    left = count_unindexed(dataset)
    if not left:
        return
    index_prompts(dataset, most=MAX_INLINE)
    waiting = Job.objects.filter(kind=INDEX_JOB, payload__dataset=dataset.pk, state=Job.State.QUEUED)
    if left > MAX_INLINE and not waiting.exists():
        jobs.enqueue(kind=INDEX_JOB, payload={"dataset": dataset.pk}, title=dataset.name, actor=actor)


@transaction.atomic
def _index_chunk(dataset: Dataset, number: int) -> int:
    """The next prompts in the order of their ids. Who else indexes the dataset meanwhile waits and goes on behind."""
    TextIndex.objects.get_or_create(dataset=dataset)
    index = TextIndex.objects.select_for_update().get(dataset=dataset)
    prompts = list(
        Prompt.objects.filter(dataset=dataset, pk__gt=index.last_prompt)
        .order_by("pk")
        .values_list("pk", "text")[:number]
    )
    if not prompts:
        return 0
    TextBand.objects.bulk_create(
        TextBand(dataset=dataset, band=band, prompt_id=pk)
        for pk, text in prompts
        for band in compute_bands(text)
    )
    index.last_prompt = prompts[-1][0]
    index.save(update_fields=["last_prompt"])
    return len(prompts)


def count_unindexed(dataset: Dataset) -> int:
    last = TextIndex.objects.filter(dataset=dataset).values_list("last_prompt", flat=True).first() or 0
    return Prompt.objects.filter(dataset=dataset, pk__gt=last).count()


def index_revisions(dataset_id: int, revisions: Sequence[ProposalRevision]) -> None:
    TextBand.objects.bulk_create(
        TextBand(dataset_id=dataset_id, band=band, revision=revision)
        for revision in revisions
        for band in compute_bands(revision.text)
    )


def forget_revisions(revisions: Iterable[int]) -> None:
    """Delete the bands of revisions whose text stands in the dataset now."""
    TextBand.objects.filter(revision__in=list(revisions)).delete()
