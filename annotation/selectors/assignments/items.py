"""What an annotator or adjudicator receives: frozen values, and nothing else of the database.

Blindness lives here: a view never holds the Response, so it cannot tell whose it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from annotation.core.errors import N_, NotFound
from annotation.domain.annotations import list_judged_turns, list_markable_texts
from annotation.domain.guidelines import Criterion, Dimension, GuidelineDocument, Subcomponent
from annotation.domain.guidelines.entries import SINGLE_RESPONSE, ShownOrder
from annotation.domain.slates import group_entries, read_order
from annotation.models import ADJUDICATION_SLOT, Assignment, Batch, Person, Task
from annotation.models.sql.annotations import read_handout


@dataclass(frozen=True)
class Turn:
    """``role`` is ``assistant`` for what is judged, ``user`` for what it answers. ``is_judged``: words of it may be
    marked as evidence.
    """

    role: str
    text: str
    is_judged: bool = False


@dataclass(frozen=True)
class WorkItem:
    """One item of work. ``turns`` is what is judged; a plain response is one turn of the assistant. ``criteria`` are
    the questions about it: one that is asked of each turn stands there once for each turn that is judged, and of each
    entry of a slate in the words of its number as it is shown.

    ``guideline`` is the sha256 of the ``document`` that the ``criteria`` are of; ``severity`` is the dimension's.
    ``topic`` is the dimension and the subcomponent, as far as the guideline knows them. The formats are the batch's:
    how its texts are shown. ``is_clarified``: a manager has answered something beside the guideline.

    ``entries`` are those of a slate in the order in which this person reads them: the place of each in the slate, from
    1, and the places of its ``turns``; empty where a single response is judged.
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
    entries: tuple[tuple[int, tuple[int, ...]], ...] = ()
    order: ShownOrder = SINGLE_RESPONSE

    @property
    def is_dialogue(self) -> bool:
        """Whether somebody speaks more than once, or the greeting stands before."""
        return len(self.turns) > 2 and not self.entries


def build_item(assignment: Assignment) -> WorkItem:
    """One query, beside the guideline's document, which is kept by its hash."""
    item = read_handout(assignment.task_id)
    document = item.guideline.document
    turns = item.turns or [{"role": "assistant", "text": item.text}]
    markable = list_markable_texts(item.text, item.turns)
    order = read_order(assignment.list_shown_places(), turns) if document.unit == "slate" else SINGLE_RESPONSE
    groups = group_entries(turns)
    entries = tuple((place, tuple(groups[place])) for place in order.places)
    questions = document.list_questions(
        item.dimension, _order_judged_turns(markable, entries), subcomponent=item.subcomponent
    )
    return WorkItem(
        assignment=assignment.pk,
        batch=item.batch,
        lease_expires=assignment.lease_expires,
        prompt=document.hide_prompt(item.prompt),
        turns=tuple(
            Turn(role=turn["role"], text=turn["text"], is_judged=text is not None)
            for turn, text in zip(turns, markable, strict=True)
        ),
        criteria=tuple(_word_by_position(questions, document, order)),
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
        entries=entries,
        order=order,
    )


def _word_by_position(
    questions: Sequence[Criterion], document: GuidelineDocument, order: ShownOrder
) -> Iterator[Criterion]:
    """What is asked of an entry in the words of its number as it is shown."""
    for question in questions:
        shown_name = document.show_name_in(order, question.name)
        if shown_name == question.name:
            yield question
        else:
            worded = document.criterion(shown_name)
            yield question.model_copy(update={"label": worded.label, "question": worded.question})


def _order_judged_turns(
    texts: Sequence[str | None], entries: Sequence[tuple[int, tuple[int, ...]]]
) -> list[int]:
    """The judged turns in the order in which they are shown."""
    judged = list_judged_turns(texts)
    return [turn for _place, turns in entries for turn in turns if turn in judged] if entries else judged


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
