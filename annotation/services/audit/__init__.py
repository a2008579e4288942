"""The audit trail: who did what to what, when and from where. What it knows is declared in annotation/domain/audit.py
and in ``verbs.py`` beside it and in the other apps.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from annotation.core.study_scope import get_study_scope
from annotation.domain.audit import Verb
from annotation.models import AuditEvent, Person
from annotation.selectors.audit.targets import find_study_of

VIEW_MINUTES = 60
"""Whoever looks at the same thing again within this time is not recorded again."""


def record(
    *, actor: Person | None, verb: Verb, target: str, study_id: int | None = None, **data: Any
) -> AuditEvent:
    """Append to the audit trail; call it inside the transaction of the change that it records.

    The event is of ``study_id``, else of the one study that the work under way is limited to, else of the target's.
    """
    verb.check_target(target)
    if verb.meaning.is_of_site:
        study_id = None
    elif study_id is None:
        studies = get_study_scope()
        is_one = studies is not None and len(studies) == 1
        study_id = next(iter(studies or ())) if is_one else find_study_of(target)
    return AuditEvent.append(actor=actor, verb=verb, target=target, study_id=study_id, data=data)


def record_view(*, actor: Person, verb: Verb, target: str, **data: Any) -> None:
    """As ``record``, of somebody who looks at something: once an hour for each person and target."""
    lately = timezone.now() - timedelta(minutes=VIEW_MINUTES)
    seen = AuditEvent.objects.filter(actor=actor, verb=verb.value, target=target, at__gte=lately)
    if not seen.exists():
        record(actor=actor, verb=verb, target=target, **data)
