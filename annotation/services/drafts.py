"""Work that came too late for its place, kept for its author."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.utils import timezone

from annotation.errors import N_, AssayError, NotFound
from annotation.models import Draft, Person
from annotation.services.audit import record
from annotation.services.work import Work
from annotation.wording import kept_error


def keep_draft(assignment_id: UUID, work: Work, refusal: AssayError) -> Draft:
    """Keep what was refused, in the place of an earlier draft of the same assignment, with the reason."""
    draft, _created = Draft.objects.update_or_create(
        assignment_id=assignment_id,
        defaults={
            "labels": dict(work.labels),
            "rationale": work.rationale,
            "evidence": list(work.evidence),
            "flags": list(work.flags),
            "seconds": work.seconds,
            "why": kept_error(refusal),
            "updated_at": timezone.now(),
        },
    )
    return draft


@transaction.atomic
def discard_draft(*, assignment_id: UUID, person: Person) -> None:
    """Throw away a draft of the person's own, for good."""
    discarded, _by_model = Draft.objects.filter(assignment=assignment_id, assignment__person=person).delete()
    if not discarded:
        raise NotFound(N_("There is no such draft among yours."))
    record(actor=person, verb="discard_draft", target=f"assignment:{assignment_id}")


def work_of(draft: Draft) -> Work:
    """What was kept, to be submitted again."""
    return Work(
        labels=draft.labels,
        rationale=draft.rationale,
        evidence=draft.evidence,
        flags=draft.flags,
        seconds=draft.seconds,
    )
