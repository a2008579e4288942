"""Notes on the clauses of guidelines, for those who may read them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from django.db.models import Count, Q, QuerySet

from annotation.errors import N_, NotFound
from annotation.models import Guideline, Note, Person
from annotation.selectors.blindness import record_openings, sealed_batches, sealed_datasets

ClauseKey: TypeAlias = tuple[str, float | None]
"""A criterion and a level of it; None for the criterion itself, and no criterion for the whole guideline."""


def notes_for(person: Person) -> QuerySet[Note]:
    """The notes that this person may read, the latest first.

    A note tells of labels: none of a batch that is sealed for them, nor of a dataset that they judge blind.
    """
    sealed = Q(task__batch__in=sealed_batches(person)) | Q(
        task__response__prompt__dataset__in=sealed_datasets(person)
    )
    return (
        Note.objects.filter(Q(task=None) | ~sealed)
        .select_related("created_by", "resolved_by", "guideline", "task__batch")
        .order_by("-created_at", "-id")
    )


def open_notes(person: Person) -> QuerySet[Note]:
    """Those that wait for an answer: for the next version, or a word."""
    return notes_for(person).filter(resolved_at=None)


def open_counts(person: Person) -> dict[int, int]:
    """Of each guideline version (its primary key) that has any: how many notes are open."""
    counted = open_notes(person).order_by().values("guideline").annotate(n=Count("pk"))
    return {row["guideline"]: row["n"] for row in counted}


def note_for(person: Person, note_id: int) -> Note:
    """The note, if the person may read it."""
    found = notes_for(person).filter(pk=note_id).first()
    if found is None:
        raise NotFound(N_("There is no such note."))
    return found


def open_batches_of(person: Person, notes: Iterable[Note]) -> None:
    """The person reads these notes, and with them what somebody thought of items of their batches."""
    record_openings(person, {note.task.batch_id for note in notes if note.task is not None})


def by_clause(guideline: Guideline, notes: Iterable[Note]) -> dict[ClauseKey, list[Note]]:
    """The notes by the clause they stand beside.

    One on a level that has no words of its own stands by its criterion, and one on an unknown criterion by the whole.
    """
    levels = {one.name: {level.value for level in one.scale} for one in guideline.document.criteria}
    found: dict[ClauseKey, list[Note]] = {}
    for note in notes:
        criterion = note.criterion if note.criterion in levels else ""
        level = note.level if note.level in levels.get(criterion, ()) else None
        found.setdefault((criterion, level), []).append(note)
    return found
