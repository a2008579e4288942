"""The answers that people wrote where no response was good enough, as responses of a model of their own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from django.db import transaction

from annotation.core.errors import N_, AssayError, Conflict
from annotation.domain.datasets import response_sha256
from annotation.domain.verbs import AnnotationVerb
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
    written = [
        (annotation, text)
        for annotation in _list_annotations(batch)
        for text in annotation.texts.values()
        if text.strip()
    ]
    if not written:
        raise AssayError(N_("Nobody wrote an answer in {name}."), name=batch.name)
    model, _made = EvaluatedModel.objects.get_or_create(name=EXPERT)
    places: list[int] = []
    earlier: Counter[int] = Counter()
    for annotation, _text in written:
        prompt = annotation.assignment.task.prompt_id
        places.append(earlier[prompt])
        earlier[prompt] += 1
    collections = _make_collections(batch, count=max(earlier.values()))
    Response.objects.bulk_create(
        Response(
            prompt_id=annotation.assignment.task.prompt_id,
            model=model,
            collection=collections[place],
            text=text,
            sha256=response_sha256(text, []),
        )
        for (annotation, text), place in zip(written, places, strict=True)
    )
    authors = {annotation.assignment.person_id: annotation.assignment.person for annotation, _ in written}
    for author in authors.values():
        author.own_models.add(model)
    record(
        actor=actor,
        verb=AnnotationVerb.MAKE_EXPERT_RESPONSES,
        target=f"batch:{batch.name}",
        responses=len(written),
    )
    return OwnAnswers(
        EXPERT, len(written), tuple(collection.name for collection in collections), len(authors)
    )


def _make_collections(batch: Batch, *, count: int) -> list[Collection]:
    """The collection of the batch's name and ``count - 1`` numbered ones; Conflict if any of them exists."""
    names = [batch.name, *(f"{batch.name}-{number}" for number in range(2, count + 1))]
    duplicate = (
        Collection.objects.filter(name__in=names).order_by("pk").values_list("name", flat=True).first()
    )
    if duplicate is not None:
        raise Conflict(N_("There is already a collection named {name}."), name=duplicate)
    return [Collection.objects.create(name=name) for name in names]


def _list_annotations(batch: Batch) -> list[Annotation]:
    annotations = Annotation.objects.filter(
        assignment__batch=batch, current=True, assignment__slot__lt=ADJUDICATION_SLOT
    ).exclude(texts={})
    related = annotations.select_related("assignment__task", "assignment__person")
    return list(related.order_by("assignment__task__position", "assignment__slot"))
