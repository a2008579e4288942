"""Corrections that came after their task had closed."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from annotation.models import CorrectionRequest, Person
from annotation.services.audit import record


@transaction.atomic
def handle_correction_request(*, request: CorrectionRequest, actor: Person) -> CorrectionRequest:
    """Mark a request as read and dealt with. A second time changes nothing: the first handler stays."""
    changed = CorrectionRequest.objects.filter(pk=request.pk, handled_at=None).update(
        handled_at=timezone.now(), handled_by=actor
    )
    if changed:
        record(
            actor=actor,
            verb="handle_correction",
            target=f"assignment:{request.assignment_id}",
            request=request.pk,
        )
    request.refresh_from_db()
    return request
