"""What an annotator or adjudicator receives: frozen values, and nothing else of the database.

Blindness lives here: a view never holds the Response, so it cannot tell whose it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from annotation.core.errors import N_, NotFound
from annotation.domain.annotations import list_judged_turns, list_markable_texts
from annotation.domain.guidelines import Criterion, Dimension, GuidelineDocument, Subcomponent
from annotation.models import ADJUDICATION_SLOT, Assignment, Batch, Person, Task
from annotation.models.sql.annotations import read_handout


@dataclass(frozen=True)
class Turn:
    """``role`` is ``assistant`` for what is judged, ``user`` for what it answers."""

    role: str
    text: str


@dataclass(frozen=True)
class WorkItem:
    """One item of work. ``turns`` is what is judged; a plain response is one turn of the assistant. ``criteria`` are
    the questions about it: one that is asked of each turn stands there once for each turn that is judged.

    ``guideline`` is the sha256 of the ``document`` that the ``criteria`` are of; ``severity`` is the dimension's.
    ``topic`` is the dimension and the subcomponent, as far as the guideline knows them. The formats are the batch's:
    how its texts are shown. ``is_clarified``: a manager has answered something beside the guideline.
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
    guideline_id: int = 0
    is_clarified: bool = False
    severity: int = 0
    topic: tuple[Dimension | Subcomponent, ...] = ()
    response_format: str = "plain"
    prompt_format: str = "plain"

    @property
    def is_dialogue(self) -> bool:
        """Whether somebody speaks more than once, or the greeting stands before."""
        return len(self.turns) > 2


def build_item(assignment: Assignment) -> WorkItem:
    """One query, beside the guideline's document, which is kept by its hash."""
    item = read_handout(assignment.task_id)
    document = item.guideline.document
    turns = item.turns or [{"role": "assistant", "text": item.text}]
    markable = list_markable_texts(item.text, item.turns)
    return WorkItem(
        assignment=assignment.pk,
        batch=item.batch,
        lease_expires=assignment.lease_expires,
        prompt=document.hide_prompt(item.prompt),
        turns=tuple(Turn(role=turn["role"], text=turn["text"]) for turn in turns),
        criteria=document.list_questions(
            item.dimension, list_judged_turns(markable), subcomponent=item.subcomponent
        ),
        dimension=item.dimension,
        subcomponent=item.subcomponent,
        document=document,
        language=item.language,
        guideline=item.guideline.sha256,
        guideline_id=item.guideline.pk,
        is_clarified=bool(item.is_clarified),
        severity=document.severity_of(item.dimension),
        topic=document.list_topic(item.dimension, item.subcomponent),
        response_format=item.response_format,
        prompt_format=item.prompt_format,
    )


def read_markable_texts(task: int) -> list[str | None]:
    """The turns of a task's response, as they are handed out; None for one that is not judged."""
    text, turns = Task.objects.values_list("response__text", "response__turns").get(pk=task)
    return list_markable_texts(text, turns)


def read_subcomponent(assignment: Assignment) -> str:
    """That of the assignment's prompt, where the guideline's questions depend on it; else empty, without a query."""
    if not assignment.batch.guideline.document.asks_by_subcomponent:
        return ""
    tasks = Task.objects.filter(pk=assignment.task_id)
    return tasks.values_list("response__prompt__subcomponent", flat=True).get()


def get_own_assignment(assignment_id: UUID, person: Person) -> Assignment:
    assignment = (
        Assignment.objects.filter(pk=assignment_id, person=person).select_related("batch__guideline").first()
    )
    if assignment is None:
        raise NotFound(N_("There is no such item among yours."))
    return assignment


def find_last_submission(batch: Batch, person: Person) -> Assignment | None:
    """The person's last submitted annotation in the batch: what "undo" goes back to."""
    submitted = Assignment.objects.filter(
        batch=batch, person=person, state=Assignment.State.SUBMITTED, slot__lt=ADJUDICATION_SLOT
    )
    return submitted.order_by("-submitted_at").first()
