"""What an annotator or adjudicator receives: frozen values, and nothing else of the database.

Blindness lives here: a view never holds the Response, so it cannot tell whose it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from annotation.core.errors import N_, NotFound
from annotation.domain.annotations import markable_texts
from annotation.domain.guidelines import Criterion, GuidelineDocument, LocalizedText
from annotation.models import (
    ADJUDICATION_SLOT,
    Assignment,
    Batch,
    Person,
    Task,
    sql,
)


@dataclass(frozen=True)
class Turn:
    """``role`` is ``assistant`` for what is judged, ``user`` for what it answers."""

    role: str
    text: str


@dataclass(frozen=True)
class Handout:
    """One item of work. ``turns`` is what is judged; a plain response is one turn of the assistant.

    ``guideline`` is the sha256 of the ``document`` that the ``criteria`` are of; ``severity`` is the dimension's.
    ``topic`` is what the guideline calls the dimension and the subcomponent, as far as it knows them.
    """

    assignment: UUID
    batch: str
    lease_expires: datetime
    prompt: str
    turns: tuple[Turn, ...]
    criteria: tuple[Criterion, ...]
    dimension: str
    subcomponent: str
    document: GuidelineDocument
    language: str = ""
    guideline: str = ""
    severity: int = 0
    topic: tuple[LocalizedText, ...] = ()


def handout(assignment: Assignment) -> Handout:
    """One query, beside the guideline's document, which is kept by its hash."""
    read = sql.read_handout(assignment.task_id)
    document = read.guideline.document
    turns = read.turns or [{"role": "assistant", "text": read.text}]
    return Handout(
        assignment=assignment.pk,
        batch=read.batch,
        lease_expires=assignment.lease_expires,
        prompt=read.prompt,
        turns=tuple(Turn(role=turn["role"], text=turn["text"]) for turn in turns),
        criteria=document.criteria_for(read.dimension),
        dimension=read.dimension,
        subcomponent=read.subcomponent,
        document=document,
        language=read.language,
        guideline=read.guideline.sha256,
        severity=document.severity_of(read.dimension),
        topic=document.topic_of(read.dimension, read.subcomponent),
    )


def texts_to_mark(task: int) -> list[str | None]:
    """The turns of a task's response, as they are handed out; None for one that is not judged."""
    text, turns = Task.objects.values_list("response__text", "response__turns").get(pk=task)
    return markable_texts(text, turns)


def my_assignment(assignment_id: UUID, person: Person) -> Assignment:
    found = (
        Assignment.objects.filter(pk=assignment_id, person=person).select_related("batch__guideline").first()
    )
    if found is None:
        raise NotFound(N_("There is no such item among yours."))
    return found


def my_last(batch: Batch, person: Person) -> Assignment | None:
    """The person's last submitted annotation in the batch: what "undo" goes back to."""
    mine = Assignment.objects.filter(
        batch=batch, person=person, state=Assignment.State.SUBMITTED, slot__lt=ADJUDICATION_SLOT
    )
    return mine.order_by("-submitted_at").first()
