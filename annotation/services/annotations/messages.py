"""Questions about items and the managers' answers. Neither side reads the other's name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.utils import timezone

from annotation.core.errors import N_, Unprocessable
from annotation.models import Assignment, ItemMessage, Person
from annotation.services.guidelines import leave_own_note, refuse_unknown_clause

MAX_MESSAGE_LENGTH = 2000


@transaction.atomic
def ask_about_item(*, assignment: Assignment, author: Person, text: str) -> ItemMessage:
    """A question of whoever works on the item, or worked on it."""
    assert assignment.person_id == author.pk
    message, _created = _add_message(assignment, author, text, answers=False)
    return message


@transaction.atomic
def answer_about_item(
    *,
    assignment: Assignment,
    author: Person,
    text: str,
    criterion: str = "",
    level: float | None = None,
    for_everybody: bool = False,
) -> ItemMessage:
    """A manager's answer, by a clause of the guideline where it names one.

    ``for_everybody`` leaves it as a note on that clause, beside the guideline of all who work by this version.
    """
    guideline = assignment.batch.guideline
    refuse_unknown_clause(guideline, criterion, level)
    clause: dict[str, Any] = {"criterion": criterion, "level": level}
    message, created = _add_message(assignment, author, text, answers=True, **clause)
    if for_everybody and created:
        study = assignment.batch.study_id
        leave_own_note(
            guideline=guideline, author=author, text=text, study_id=study, for_everybody=True, **clause
        )
    return message


def mark_read(*, assignments: Iterable[Assignment], answers: bool) -> None:
    """The other side's messages of these threads were on a page: the answers, or the questions."""
    unread = ItemMessage.objects.filter(assignment__in=assignments, answers=answers, read_at=None)
    unread.update(read_at=timezone.now())


def _add_message(
    assignment: Assignment, author: Person, text: str, **fields: Any
) -> tuple[ItemMessage, bool]:
    """The message, and whether it is new: a second press of the button says nothing more than the first."""
    text = text.strip()
    if not text or len(text) > MAX_MESSAGE_LENGTH:
        raise Unprocessable(N_("Write your message, in at most {most} characters."), most=MAX_MESSAGE_LENGTH)
    Assignment.objects.select_for_update(no_key=True).get(pk=assignment.pk)
    last = assignment.messages.last()
    fields |= {"text": text, "created_by_id": author.pk}
    if last is not None and all(getattr(last, name) == value for name, value in fields.items()):
        return last, False
    return ItemMessage.objects.create(assignment=assignment, **fields), True
