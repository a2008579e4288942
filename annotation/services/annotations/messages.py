"""Questions about items and the managers' answers. Neither side reads the other's name."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from annotation.core.errors import N_, NotFound, Unprocessable
from annotation.models import Assignment, Clarification, ItemMessage, Person
from annotation.services.audit import record

MAX_MESSAGE_LENGTH = 2000


def ask_about_item(*, assignment: Assignment, author: Person, text: str) -> ItemMessage:
    """A question of whoever works on the item, or worked on it."""
    assert assignment.person_id == author.pk
    return ItemMessage.objects.create(
        assignment=assignment, answers=False, text=_check_text(text), created_by=author
    )


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

    ``for_everybody`` puts it beside that clause for all who work by this version of the guideline.
    """
    text = _check_text(text)
    guideline = assignment.batch.guideline
    if criterion and level is not None and level not in guideline.document.criterion(criterion).values:
        raise NotFound(
            N_('"{criterion}" has no level {level}; it has {known}.'),
            criterion=criterion,
            level=f"{level:g}",
            known=", ".join(map(str, guideline.document.criterion(criterion).values)),
        )
    clause = {"criterion": criterion, "level": level}
    message = ItemMessage.objects.create(
        assignment=assignment, answers=True, text=text, created_by=author, **clause
    )
    if for_everybody:
        Clarification.objects.create(
            guideline=guideline, study_id=assignment.batch.study_id, text=text, created_by=author, **clause
        )
        record(actor=author, verb="clarify_guideline", target=f"guideline:{guideline}", text=text, **clause)
    return message


def mark_read(*, assignment: Assignment, answers: bool) -> None:
    """The other side's messages of a thread were on a page: the answers, or the questions."""
    unread = ItemMessage.objects.filter(assignment=assignment, answers=answers, read_at=None)
    unread.update(read_at=timezone.now())


def withdraw_clarification(*, clarification: Clarification, actor: Person) -> None:
    """Take it from beside the guideline; the audit trail keeps its text."""
    record(
        actor=actor,
        verb="withdraw_clarification",
        target=f"guideline:{clarification.guideline}",
        text=clarification.text,
    )
    clarification.delete()


def _check_text(text: str) -> str:
    text = text.strip()
    if not text or len(text) > MAX_MESSAGE_LENGTH:
        raise Unprocessable(N_("Write your message, in at most {most} characters."), most=MAX_MESSAGE_LENGTH)
    return text
