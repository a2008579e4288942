"""Guideline versions and the notes on their clauses.

A version is stored, then published, and a published one never changes. Notes say what is missing or unclear in it.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import OuterRef
from django.utils import timezone

from annotation.core.errors import N_, Conflict, NotFound, Unprocessable
from annotation.domain.guidelines import GuidelineDocument, parse_guideline
from annotation.domain.verbs import AnnotationVerb
from annotation.models import (
    Batch,
    Guideline,
    GuidelineNote,
    IntroductionReading,
    Membership,
    Person,
    Task,
)
from annotation.selectors.access import build_role_filter
from annotation.selectors.guidelines import list_shipped
from annotation.selectors.studies import find_study_id
from annotation.services.audit import record
from annotation.services.studies import find_or_make_study


@transaction.atomic
def load_guideline(*, text: str, path: str, publish: bool = False, actor: Person | None = None) -> Guideline:
    """Validate and store a guideline version; a draft may be replaced, a published version never changes.

    The same document again is no error and changes nothing (but publishes, if asked to).
    """
    document = parse_guideline(text, path=path)
    stored = (
        Guideline.objects.select_for_update().filter(name=document.name, version=document.version).first()
    )
    if stored is None:
        study = None if _is_of_site(document) else find_or_make_study(actor=actor)
        stored = Guideline(study=study, name=document.name, version=document.version)
    if stored.sha256 != document.sha256:
        if stored.is_published:
            raise Conflict(
                N_("{guideline} is published and never changes; give the changed document a new version."),
                guideline=str(stored),
            )
        stored.source, stored.content, stored.sha256 = text, document.to_json(), document.sha256
        stored.created_by = actor
        stored.save()
        record(
            actor=actor,
            verb=AnnotationVerb.LOAD_GUIDELINE,
            target=f"guideline:{stored}",
            sha256=stored.sha256,
        )
    if publish:
        publish_guideline(guideline=stored, actor=actor)
    return stored


def _is_of_site(document: GuidelineDocument) -> bool:
    """Whether it comes with Assay, and no study has another document by its name and version."""
    shipped = list_shipped().get(document.name)
    if shipped is None or shipped.sha256 != document.sha256:
        return False
    same = Guideline._base_manager.filter(name=document.name, version=document.version)
    return not same.exists()


@transaction.atomic
def publish_guideline(*, guideline: Guideline, actor: Person | None = None) -> Guideline:
    """Freeze the version. Publishing twice changes nothing."""
    changed = Guideline.objects.filter(pk=guideline.pk, published_at=None).update(published_at=timezone.now())
    if changed:
        record(
            actor=actor,
            verb=AnnotationVerb.PUBLISH_GUIDELINE,
            target=f"guideline:{guideline}",
            sha256=guideline.sha256,
        )
    guideline.refresh_from_db()
    return guideline


def record_introduction(*, batch: str, person: Person, role: str = "") -> None:
    """The person has read the introduction of the batch's guideline version; twice is once. Without a role: any."""
    memberships = Membership.objects.filter(
        build_role_filter(OuterRef("role")), batch__name=batch, person=person, active=True
    )
    if role:
        memberships = memberships.filter(role=role)
    guideline = memberships.values_list("batch__guideline", flat=True).first()
    if guideline is None:
        raise NotFound(N_("No batch is named {name}."), name=batch)
    IntroductionReading.objects.get_or_create(guideline_id=guideline, person=person)


def refuse_unread_introduction(batch: Batch, person: Person) -> None:
    """Raise where the batch requires that its guideline's introduction was read, and the person has not."""
    if not batch.introduction_required:
        return
    if not IntroductionReading.objects.filter(guideline=batch.guideline_id, person=person).exists():
        raise Conflict(
            N_("Read the introduction of {guideline} first: {batch} requires it."),
            guideline=str(batch.guideline),
            batch=batch.name,
        )


MAX_NOTE_LENGTH = 4000
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
    study_id: int | None = None,
    for_everybody: bool = False,
) -> GuidelineNote:
    """Leave a note, within the transaction of what it comes from. Without a criterion it is on the whole guideline,
    without a task of the study, or of the one that the work under way is about.

    The same author, task, source and criterion again say the note anew; it then waits again.
    """
    fields = {"guideline": guideline, "level": level, "text": text, **NOT_RESOLVED}
    if task is None:
        return GuidelineNote.objects.create(
            study_id=study_id or find_study_id(),
            criterion=criterion,
            source=source,
            created_by=author,
            for_everybody=for_everybody,
            **fields,
        )
    note, created = GuidelineNote.objects.get_or_create(
        task=task, created_by=author, source=source, criterion=criterion, defaults=fields
    )
    if not created and (note.level, note.text) != (level, text):
        GuidelineNote.objects.filter(pk=note.pk).update(**fields, created_at=timezone.now())
        note.refresh_from_db()
    return note


@transaction.atomic
def leave_own_note(
    *,
    guideline: Guideline,
    author: Person,
    text: str,
    criterion: str = "",
    level: float | None = None,
    study_id: int | None = None,
    for_everybody: bool = False,
) -> GuidelineNote:
    """A manager's own remark on a clause of this version."""
    refuse_unknown_clause(guideline, criterion, level)
    if not text.strip() or len(text) > MAX_NOTE_LENGTH:
        raise Unprocessable(
            N_("Write what the note says, in at most {most} characters."), most=MAX_NOTE_LENGTH
        )
    return leave_note(
        guideline=guideline,
        source=GuidelineNote.Source.MANAGER,
        author=author,
        criterion=criterion,
        level=level if criterion else None,
        text=text.strip(),
        study_id=study_id,
        for_everybody=for_everybody,
    )


def refuse_unknown_clause(guideline: Guideline, criterion: str, level: float | None) -> None:
    """Raise where the guideline has no such criterion, or the criterion no such level; no criterion is the whole."""
    if not criterion:
        return
    definition = guideline.document.criterion(criterion)
    if level is not None and level not in definition.values:
        raise NotFound(
            N_('"{criterion}" has no level {level}; it has {known}.'),
            criterion=criterion,
            level=f"{level:g}",
            known=", ".join(map(str, definition.values)),
        )


@transaction.atomic
def resolve_note(*, note: GuidelineNote, actor: Person, resolved: bool = True) -> GuidelineNote:
    """Say that a note was dealt with, or open it again. The first who resolves it stays named."""
    notes = GuidelineNote.objects.filter(pk=note.pk, resolved_at__isnull=resolved)
    fields = {"resolved_at": timezone.now(), "resolved_by": actor} if resolved else NOT_RESOLVED
    if notes.update(**fields):
        verb = AnnotationVerb.RESOLVE_NOTE if resolved else AnnotationVerb.REOPEN_NOTE
        record(actor=actor, verb=verb, target=f"guideline:{note.guideline}", note=note.pk)
    note.refresh_from_db()
    return note
