"""The audit trail: who did what to what."""

from __future__ import annotations

from typing import Any

from annotation.models import AuditEvent, Person


def record(*, actor: Person | None, verb: str, target: str, **data: Any) -> AuditEvent:
    """Append to the audit trail; call it inside the transaction of the change that it records."""
    return AuditEvent.objects.create(actor=actor, verb=verb, target=target, data=data)
