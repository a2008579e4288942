"""Notes on the clauses of a guideline: what the floor found missing or unclear, for the next version."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone

from annotation.errors import N_, NotFound, Unprocessable
from annotation.models import Guideline, Note, Person, Task
from annotation.services.audit import record

LONGEST_NOTE = 4000
NOT_RESOLVED: dict[str, Any] = {"resolved_at": None, "resolved_by": None}


def leave_note(
    *,
    guideline: Guideline,
    source: str,
    author: Person,
    criterion: str = "",
    level: float | None = None,
    text: str = "",
    task: Task | None = None,
) -> Note:
    """Leave a note, within the transaction of what it comes from. Without a criterion it is on the whole guideline.

    The same author, task, source and criterion again say the note anew; it then waits again.
    """
    said = {"guideline": guideline, "level": level, "text": text, **NOT_RESOLVED}
    if task is None:
        return Note.objects.create(criterion=criterion, source=source, created_by=author, **said)
    note, created = Note.objects.get_or_create(
        task=task, created_by=author, source=source, criterion=criterion, defaults=said
    )
    if not created and (note.level, note.text) != (level, text):
        Note.objects.filter(pk=note.pk).update(**said, created_at=timezone.now())
        note.refresh_from_db()
    return note


@transaction.atomic
def leave_own_note(
    *, guideline: Guideline, author: Person, text: str, criterion: str = "", level: float | None = None
) -> Note:
    """A manager's own remark on a clause of this version."""
    if criterion:
        known = guideline.document.criterion(criterion)
        if level is not None and level not in known.values:
            raise NotFound(
                N_('"{criterion}" has no level {level}; it has {known}.'),
                criterion=criterion,
                level=f"{level:g}",
                known=", ".join(map(str, known.values)),
            )
    if not text.strip() or len(text) > LONGEST_NOTE:
        raise Unprocessable(N_("Write what the note says, in at most {most} characters."), most=LONGEST_NOTE)
    return leave_note(
        guideline=guideline,
        source=Note.Source.MANAGER,
        author=author,
        criterion=criterion,
        level=level if criterion else None,
        text=text.strip(),
    )


@transaction.atomic
def resolve_note(*, note: Note, actor: Person, resolved: bool = True) -> Note:
    """Say that a note was dealt with, or open it again. The first who resolves it stays named."""
    waiting = Note.objects.filter(pk=note.pk, resolved_at__isnull=resolved)
    now = {"resolved_at": timezone.now(), "resolved_by": actor} if resolved else NOT_RESOLVED
    if waiting.update(**now):
        verb = "resolve_note" if resolved else "reopen_note"
        record(actor=actor, verb=verb, target=f"guideline:{note.guideline}", note=note.pk)
    note.refresh_from_db()
    return note
