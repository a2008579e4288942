"""Texts of nearly the same meaning: a worker embeds the texts of a dataset, and says of a submitted proposal what it
is near to. It warns and never blocks, so nobody waits for it.

The jobs of a dataset run one after the other. Each embeds what has no vector by the encoder that the settings name now,
so that after a stop, or with another encoder, the next one does what is left. What another encoder computed is deleted
then; what was written to a proposal stays.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from django.conf import settings
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from annotation.core.errors import N_, AssayError
from annotation.models import Dataset, Job, Person, Prompt
from annotation.services import jobs
from benchmark.domain.workbench.meanings import MAX_SIMILAR, Floats, find_near_meanings
from benchmark.models import Campaign, Proposal, ProposalRevision, TextEmbedding
from scoring.backbones.embedding import load_encoder
from scoring.backbones.folder import fingerprint
from scoring.backbones.transformer.backbone import require_torch

EMBED_JOB = "embed_texts"
EMBEDDING = N_("embedding texts")
COMPARING = N_("comparing meanings")
EMBED_CHUNK = 256
READ_CHUNK = 4096
COMPARED_AT_ONCE = 100
"""For so many revisions the stored vectors are read once."""
MAX_KEPT = 5
EMBEDDED_SHARE = 0.9
"""Of the job's progress."""
VECTOR = np.dtype("<f4")


def check_encoder() -> None:
    """AssayError where no encoder is set, by which meanings could be compared."""
    if not settings.ASSAY_ENCODER:
        raise AssayError(
            N_(
                "Texts are compared by meaning only where an encoder is set: set ASSAY_ENCODER, or give no cosine."
            )
        )


def enqueue_embedding(campaign: Campaign, *, actor: Person | None = None, send: bool = True) -> Job | None:
    """Queue what is to be embedded for this campaign; None where its texts are not compared by meaning."""
    if campaign.warn_cosine is None or not settings.ASSAY_ENCODER:
        return None
    dataset = campaign.dataset
    ahead = Job.objects.filter(
        kind=EMBED_JOB, payload__dataset=dataset.pk, state__in=[Job.State.QUEUED, Job.State.RUNNING]
    )
    return jobs.enqueue(
        kind=EMBED_JOB,
        payload={"dataset": dataset.pk},
        title=dataset.name,
        actor=actor,
        depends_on=ahead.order_by("-pk").first(),
        send=send,
    )


def execute_embedding(context: jobs.JobContext) -> dict[str, Any]:
    """The body of the job; again after a stop it goes on where it was."""
    check_encoder()
    dataset = Dataset.objects.get(pk=context.payload["dataset"])
    encoder = _identify_encoder()
    embedded = _embed_missing(
        dataset, encoder, lambda share: context.report(EMBEDDED_SHARE * share, EMBEDDING)
    )
    TextEmbedding.objects.filter(dataset=dataset).exclude(encoder=encoder).delete()
    compared = _compare_waiting(
        dataset,
        encoder,
        lambda share: context.report(EMBEDDED_SHARE + (1 - EMBEDDED_SHARE) * share, COMPARING),
    )
    return {"dataset": dataset.pk, "encoder": encoder, "embedded": embedded, "compared": compared}


# Embedding


class TextEncoder(Protocol):
    def embed(self, texts: Sequence[str]) -> Floats:
        """(texts, width), each of length 1, or 0 where a text has no token."""


def load_text_encoder() -> TextEncoder:
    """The encoder that the settings name, loaded once in a process."""
    require_torch(settings.ASSAY_ENCODER)
    return load_encoder(settings.ASSAY_ENCODER, remote_code=False)


def _identify_encoder() -> str:
    """The sha256 of the encoder's folder, read anew where a file of it changed."""
    folder = Path(settings.ASSAY_ENCODER)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if not files:
        raise AssayError(
            N_("The encoder cannot be read: {folder} is no folder with a model."), folder=str(folder)
        )
    state = tuple((str(path), (stat := path.stat()).st_size, stat.st_mtime_ns) for path in files)
    return _hash_folder(folder, state)


@lru_cache(maxsize=2)
def _hash_folder(folder: Path, _state: tuple[tuple[str, int, int], ...]) -> str:
    return fingerprint(folder)


def _embed_missing(dataset: Dataset, encoder: str, report: Callable[[float], None]) -> int:
    """Embed the prompts and the submitted revisions that have no vector by the encoder; how many they were."""
    prompts = _exclude_embedded(Prompt.objects.filter(dataset=dataset), "prompt", encoder)
    revisions = _exclude_embedded(_list_submitted(dataset), "revision", encoder)
    total = prompts.count() + revisions.count()
    done = 0
    for name, rows in (("prompt_id", prompts), ("revision_id", revisions)):
        for chunk in _cut_chunks(rows):
            report(min(1.0, done / total) if total else 1.0)
            vectors = load_text_encoder().embed([text.strip() for _pk, text in chunk])
            # Where a stopped worker's statement arrives late, the vectors are the same.
            TextEmbedding.objects.bulk_create(
                [
                    TextEmbedding(
                        dataset=dataset,
                        encoder=encoder,
                        vector=vector.astype(VECTOR).tobytes(),
                        **{name: pk},
                    )
                    for (pk, _text), vector in zip(chunk, vectors, strict=True)
                ],
                ignore_conflicts=True,
            )
            done += len(chunk)
    return done


def _exclude_embedded(rows: QuerySet[Any], name: str, encoder: str) -> QuerySet[Any]:
    return rows.filter(~Exists(TextEmbedding.objects.filter(encoder=encoder, **{name: OuterRef("pk")})))


def _list_submitted(dataset: Dataset) -> QuerySet[ProposalRevision]:
    return ProposalRevision.objects.filter(proposal__campaign__dataset=dataset, submitted_at__isnull=False)


def _cut_chunks(rows: QuerySet[Any]) -> Iterator[list[tuple[int, str]]]:
    """(id, text) in the order of the ids, each row once."""
    last = 0
    while chunk := list(rows.filter(pk__gt=last).order_by("pk").values_list("pk", "text")[:EMBED_CHUNK]):
        yield chunk
        last = chunk[-1][0]


# Comparing


@dataclass
class _Waiting:
    """A submitted revision, its vector, and what was found near to it so far: (row of TextEmbedding, cosine)."""

    pk: int
    proposal: Any
    prompt: int | None
    threshold: float
    vector: Floats
    near: list[tuple[int, float]]


@dataclass(frozen=True)
class _StoredChunk:
    """Vectors as they are stored, (N, W), with their rows, and the revision and the prompt of each, 0 where none."""

    rows: list[int]
    revisions: Any
    prompts: Any
    vectors: Floats


def _compare_waiting(dataset: Dataset, encoder: str, report: Callable[[float], None]) -> int:
    """Write to the submitted revisions of campaigns that ask for it what they are near to; how many they were."""
    revisions = _list_submitted(dataset).filter(
        near_meanings__isnull=True, proposal__campaign__warn_cosine__isnull=False
    )
    total = revisions.count()
    done, last = 0, 0
    while waiting := _read_waiting(revisions.filter(pk__gt=last), encoder):
        report(min(1.0, done / total) if total else 1.0)
        _find_near(dataset, encoder, waiting)
        for revision in waiting:
            ProposalRevision.objects.filter(pk=revision.pk, near_meanings__isnull=True).update(
                near_meanings=_describe_near(revision)
            )
        done += len(waiting)
        last = waiting[-1].pk
    return done


def _read_waiting(revisions: QuerySet[ProposalRevision], encoder: str) -> list[_Waiting]:
    """The next ones. One that came since the vectors were computed has none, and waits for the next job."""
    vectors = TextEmbedding.objects.filter(
        encoder=encoder,
        revision__in=list(revisions.order_by("pk").values_list("pk", flat=True)[:COMPARED_AT_ONCE]),
    )
    rows = vectors.annotate(threshold=F("revision__proposal__campaign__warn_cosine")).order_by("revision")
    return [
        _Waiting(
            pk=revision,
            proposal=proposal,
            prompt=prompt,
            threshold=threshold,
            vector=np.frombuffer(bytes(vector), VECTOR),
            near=[],
        )
        for revision, proposal, prompt, threshold, vector in rows.values_list(
            "revision", "revision__proposal", "revision__proposal__prompt", "threshold", "vector"
        )
    ]


def _find_near(dataset: Dataset, encoder: str, waiting: Sequence[_Waiting]) -> None:
    left_out = {revision.pk: _list_left_out(dataset, revision) for revision in waiting}
    for chunk in _read_chunks(dataset, encoder):
        for revision in waiting:
            # Not what came later: it is the same whenever a worker comes to it.
            is_other = chunk.revisions <= revision.pk
            is_other &= ~np.isin(chunk.revisions, left_out[revision.pk])
            if revision.prompt is not None:
                is_other &= chunk.prompts != revision.prompt
            places = np.flatnonzero(is_other)
            has_all = len(places) == len(chunk.rows)
            rows = chunk.rows if has_all else [chunk.rows[place] for place in places]
            vectors = chunk.vectors if has_all else chunk.vectors[places]
            near = find_near_meanings(revision.vector, [(rows, vectors)], revision.threshold)
            revision.near = heapq.nlargest(MAX_SIMILAR, [*revision.near, *near], key=lambda pair: pair[1])


def _list_left_out(dataset: Dataset, revision: _Waiting) -> list[int]:
    """The revisions of the same proposal, and those of accepted ones: these are prompts, and no second texts."""
    is_left_out = Q(proposal=revision.proposal) | Q(proposal__state=Proposal.State.ACCEPTED)
    return list(_list_submitted(dataset).filter(is_left_out).values_list("pk", flat=True))


def _read_chunks(dataset: Dataset, encoder: str) -> Iterator[_StoredChunk]:
    stored = TextEmbedding.objects.filter(dataset=dataset, encoder=encoder).order_by("pk")
    columns = stored.values_list("pk", "revision", "prompt", "vector").iterator(chunk_size=READ_CHUNK)
    while rows := list(islice(columns, READ_CHUNK)):
        yield _StoredChunk(
            rows=[pk for pk, _revision, _prompt, _vector in rows],
            revisions=np.array([revision or 0 for _pk, revision, _prompt, _vector in rows]),
            prompts=np.array([prompt or 0 for _pk, _revision, prompt, _vector in rows]),
            vectors=np.stack([np.frombuffer(bytes(vector), VECTOR) for *_ids, vector in rows]),
        )


def _describe_near(revision: _Waiting) -> list[dict[str, Any]]:
    """The nearest texts, each once, without a word of whose they are."""
    texts = {
        pk: prompt_text or revision_text
        for pk, prompt_text, revision_text in TextEmbedding.objects.filter(
            pk__in=[pk for pk, _cosine in revision.near]
        ).values_list("pk", "prompt__text", "revision__text")
    }
    nearest: dict[str, float] = {}
    for pk, cosine in revision.near:
        nearest.setdefault(texts[pk], min(cosine, 1.0))
    return [{"text": text, "cosine": round(cosine, 4)} for text, cosine in nearest.items()][:MAX_KEPT]
