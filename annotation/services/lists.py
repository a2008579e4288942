"""What is done to a row of a list: a title, and the archive, which lists leave out until a row is restored."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from annotation.core.errors import N_, Conflict
from annotation.domain.verbs import AnnotationVerb
from annotation.models import Archivable, Batch, Person
from annotation.services.audit import record
from annotation.services.sharing import refuse_borrowed


@transaction.atomic
def set_archived(*, row: Archivable, archived: bool, actor: Person) -> bool:
    """Whether anything changed. Only a closed batch is archived: work in it would be out of sight."""
    refuse_borrowed(row)
    locked = type(row)._base_manager.select_for_update(no_key=True).get(pk=row.pk)
    if (locked.archived_at is not None) == archived:
        return False
    if archived and isinstance(locked, Batch) and locked.state != Batch.State.CLOSED:
        raise Conflict(N_("Close the batch {name} before you archive it."), name=locked.name)
    locked.archived_at = timezone.now() if archived else None
    locked.save(update_fields=["archived_at"])
    record(
        actor=actor,
        verb=AnnotationVerb.ARCHIVE if archived else AnnotationVerb.RESTORE,
        target=f"{row._meta.model_name}:{row}",
    )
    return True


@transaction.atomic
def set_row_title(*, row: Archivable, title: str, actor: Person) -> bool:
    """Whether anything changed. The name, which stands in addresses, commands and files, stays."""
    refuse_borrowed(row)
    locked = type(row)._base_manager.select_for_update(no_key=True).get(pk=row.pk)
    if locked.title == title.strip():
        return False
    locked.title = title.strip()
    locked.save(update_fields=["title"])
    record(
        actor=actor, verb=AnnotationVerb.SET_TITLE, target=f"{row._meta.model_name}:{row}", title=locked.title
    )
    return True
