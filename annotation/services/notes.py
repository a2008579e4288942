"""Notes on the clauses of a guideline: what the floor found missing or unclear, for the next version."""

from __future__ import annotations

from django.utils import timezone

from annotation.models import Guideline, Note, Person, Task


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
    said = {"guideline": guideline, "level": level, "text": text, "resolved_at": None, "resolved_by": None}
    if task is None:
        return Note.objects.create(criterion=criterion, source=source, created_by=author, **said)
    note, created = Note.objects.get_or_create(
        task=task, created_by=author, source=source, criterion=criterion, defaults=said
    )
    if not created and (note.level, note.text) != (level, text):
        Note.objects.filter(pk=note.pk).update(**said, created_at=timezone.now())
        note.refresh_from_db()
    return note
