"""The answers that people wrote where no response was good enough, as responses of a model of their own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from django.db import transaction

from annotation.core.errors import N_, AssayError, Conflict
from annotation.domain.datasets import response_sha256
from annotation.models import (
    ADJUDICATION_SLOT,
    Annotation,
    Batch,
    Collection,
    EvaluatedModel,
    Person,
    Response,
)
from annotation.services.audit import record

EXPERT = "expert"
"""The model whose responses people's answers become."""


@dataclass(frozen=True)
class OwnAnswers:
    """``collections``: the batch's name; where several people wrote an answer to a prompt, more of them, numbered."""

    model: str
    responses: int
    collections: tuple[str, ...]
    authors: int


@transaction.atomic
def make_expert_responses(*, batch: Batch, actor: Person | None = None) -> OwnAnswers:
    """A response for each text that was written in the closed batch; Conflict where that was done before.

    Who wrote an answer is given no response of this model to judge.
    """
    if batch.state != Batch.State.CLOSED:
        raise Conflict(
            N_("Close the batch {name} first: until then its answers may change."), name=batch.name
        )
    if Collection.objects.filter(name=batch.name).exists():
        raise Conflict(N_("There is already a collection named {name}."), name=batch.name)
    written = [
        (annotation, text)
        for annotation in _list_annotations(batch)
        for text in annotation.texts.values()
        if text.strip()
    ]
    if not written:
        raise AssayError(N_("Nobody wrote an answer in {name}."), name=batch.name)
    model, _made = EvaluatedModel.objects.get_or_create(name=EXPERT)
    collections: list[Collection] = []
    earlier: Counter[int] = Counter()
    authors: dict[int, Person] = {}
    for annotation, text in written:
        prompt, author = annotation.assignment.task.prompt, annotation.assignment.person
        place = earlier[prompt.pk]
        earlier[prompt.pk] += 1
        if place == len(collections):
            name = batch.name if not place else f"{batch.name}-{place + 1}"
            collections.append(Collection.objects.create(name=name))
        Response.objects.create(
            prompt=prompt,
            model=model,
            collection=collections[place],
            text=text,
            sha256=response_sha256(text, []),
        )
        authors[author.pk] = author
    for author in authors.values():
        author.own_models.add(model)
    record(actor=actor, verb="make_expert_responses", target=f"batch:{batch.name}", responses=len(written))
    return OwnAnswers(
        EXPERT, len(written), tuple(collection.name for collection in collections), len(authors)
    )


def _list_annotations(batch: Batch) -> list[Annotation]:
    annotations = Annotation.objects.filter(
        assignment__batch=batch, current=True, assignment__slot__lt=ADJUDICATION_SLOT
    ).exclude(texts={})
    related = annotations.select_related("assignment__task__prompt", "assignment__person")
    return list(related.order_by("assignment__task__position", "assignment__slot"))
