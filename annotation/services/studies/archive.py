"""The archive of studies: what is in it is read, is out of the way, and changes no more until it is restored."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from annotation.core.errors import N_, Conflict
from annotation.domain.verbs import AnnotationVerb
from annotation.models import Person, Study
from annotation.selectors.studies.deletion import check_archivable
from annotation.services.audit import record_in_study


@transaction.atomic
def set_study_archived(*, study: Study, archived: bool, actor: Person | None = None) -> bool:
    """Whether anything changed. Conflict where a batch or a campaign of it is open or paused, or a job not over."""
    locked = Study._base_manager.select_for_update(no_key=True).get(pk=study.pk)
    if locked.deleted_at is not None:
        raise Conflict(N_("The study {name} was deleted: nothing brings it back."), name=locked.name)
    if (locked.archived_at is not None) == archived:
        return False
    if archived:
        check_archivable(locked)
    locked.archived_at = timezone.now() if archived else None
    locked.save(update_fields=["archived_at"])
    verb = AnnotationVerb.ARCHIVE_STUDY if archived else AnnotationVerb.RESTORE_STUDY
    record_in_study(locked.pk, actor=actor, verb=verb, target=f"study:{locked.name}")
    study.archived_at = locked.archived_at
    return True
