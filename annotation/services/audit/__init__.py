"""The audit trail: who did what to what, when and from where. What it knows is declared in annotation/domain/audit.py
and in ``verbs.py`` beside it and in the other apps.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from annotation.core.study_scope import get_study_scope
from annotation.domain.audit import Verb
from annotation.domain.verbs import AnnotationVerb
from annotation.models import AuditEvent, Person
from annotation.selectors.audit.targets import find_study_of
from annotation.services.audit.outbox import announce_event

VIEW_MINUTES = 60
"""Whoever looks at the same thing again within this time is not recorded again."""


def record(*, actor: Person | None, verb: Verb, target: str, **data: Any) -> AuditEvent:
    """Append to the audit trail; call it inside the transaction of the change that it records.

    The event is of the one study that the work under way is limited to, else of the target's.
    """
    verb.check_target(target)
    study_id = None if verb.meaning.is_of_site else _find_study(target)
    return _append(actor, verb, target, study_id, data)


def record_in_study(
    study_id: int | None, /, *, actor: Person | None, verb: Verb, target: str, **data: Any
) -> AuditEvent:
    """As ``record``, where the study is known and the work under way may not be limited to it; None is the site."""
    verb.check_target(target)
    return _append(actor, verb, target, study_id, data)


def record_view(*, actor: Person, verb: Verb, target: str, **data: Any) -> None:
    """As ``record``, of somebody who looks at something: once an hour for each person and target."""
    lately = timezone.now() - timedelta(minutes=VIEW_MINUTES)
    earlier = AuditEvent.objects.filter(
        actor=actor, verb=verb.value, target=target, data=data, at__gte=lately
    )
    if not earlier.exists():
        record(actor=actor, verb=verb, target=target, **data)


def record_file(*, actor: Person, target: str, file: str) -> None:
    """Somebody takes a file that is made as it is sent."""
    record(actor=actor, verb=AnnotationVerb.DOWNLOAD_FILE, target=target, file=file)


def _append(
    actor: Person | None, verb: Verb, target: str, study_id: int | None, data: dict[str, Any]
) -> AuditEvent:
    """The event, and in the same transaction what webhooks are to tell of it."""
    event = AuditEvent.append(actor=actor, verb=verb, target=target, study_id=study_id, data=data)
    announce_event(event)
    return event


def _find_study(target: str) -> int | None:
    studies = get_study_scope()
    return next(iter(studies)) if studies is not None and len(studies) == 1 else find_study_of(target)
