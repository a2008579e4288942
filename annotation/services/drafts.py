"""Work that came too late for its place, kept for its author."""

from __future__ import annotations

from uuid import UUID

from django.utils import timezone

from annotation.errors import AssayError
from annotation.models import Draft
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
