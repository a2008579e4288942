"""What people and managers write to each other about items, thread by thread: the messages of an assignment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet, Subquery

from annotation.core.errors import N_, NotFound
from annotation.core.study_scope import build_study_filter
from annotation.models import Assignment, Batch, GuidelineNote, ItemMessage, Person

LAST_MESSAGE = ItemMessage.objects.filter(assignment=OuterRef("pk")).order_by("-created_at", "-id")


@dataclass(frozen=True)
class ItemThread:
    """The messages about an item, the oldest first. ``waits``: the last is a question."""

    assignment: Assignment
    messages: Sequence[ItemMessage]

    @property
    def waits(self) -> bool:
        return not self.messages[-1].answers


def read_thread(assignment: Assignment) -> list[ItemMessage]:
    return list(assignment.messages.all())


def list_threads(batch: Batch) -> QuerySet[Assignment]:
    """The items of a batch that somebody asked about, those that wait first and the longest of them first."""
    return (
        Assignment.objects.filter(Exists(LAST_MESSAGE), batch=batch)
        .annotate(
            answered=Subquery(LAST_MESSAGE.values("answers")[:1]),
            last_message_at=Subquery(LAST_MESSAGE.values("created_at")[:1]),
        )
        .select_related("batch__guideline", "task__response__prompt")
        .prefetch_related("messages")
        .order_by("answered", "last_message_at")
    )


def list_own_threads(person: Person) -> QuerySet[Assignment]:
    """The items that the person asked about, the latest message first."""
    return (
        Assignment.objects.filter(person=person)
        .annotate(last_message_at=Max("messages__created_at"))
        .filter(last_message_at__isnull=False)
        .select_related("batch__guideline", "task__response__prompt")
        .prefetch_related("messages")
        .order_by(F("last_message_at").desc())
    )


def build_threads(assignments: Sequence[Assignment]) -> list[ItemThread]:
    return [ItemThread(assignment, read_thread(assignment)) for assignment in assignments]


def count_waiting_threads(batches: Iterable[int]) -> Counter[int]:
    """By batch, the items whose last message is a question."""
    later = Q(created_at__gt=OuterRef("created_at")) | Q(
        created_at=OuterRef("created_at"), pk__gt=OuterRef("pk")
    )
    answers = ItemMessage.objects.filter(later, assignment=OuterRef("assignment"), answers=True)
    waiting = ItemMessage.objects.filter(~Exists(answers), assignment__batch__in=list(batches), answers=False)
    by_batch = waiting.order_by().values_list("assignment__batch")
    return Counter(dict(by_batch.annotate(n=Count("assignment", distinct=True))))


def count_unread_answers(person: Person) -> Counter[int]:
    """By study, the answers to the person that they have not had on a page."""
    unread = ItemMessage.objects.filter(
        assignment__person=person,
        answers=True,
        read_at=None,
        **build_study_filter("assignment__batch__study"),
    )
    return Counter(dict(unread.order_by().values_list("assignment__batch__study").annotate(n=Count("pk"))))


def get_batch_assignment(batch: Batch, assignment_id: UUID) -> Assignment:
    """One that somebody asked about."""
    assignment = list_threads(batch).filter(pk=assignment_id).first()
    if assignment is None:
        raise NotFound(N_("Nobody asked about this item of the batch {name}."), name=batch.name)
    return assignment


def list_clarifications(batch: Batch) -> list[GuidelineNote]:
    """What managers of its study answered for everybody who works by the batch's version of the guideline."""
    of_study = Q(study=None) | Q(study=batch.study_id)
    notes = GuidelineNote.objects.filter(of_study, guideline=batch.guideline_id)
    return list(notes.filter(for_everybody=True, resolved_at=None).order_by("created_at", "id"))
