"""Links that work once, and what has become of each: invitations, and set-up links (selectors/setup_links.py)."""

from __future__ import annotations

import hashlib
from enum import StrEnum

from django.db.models import QuerySet
from django.utils import timezone

from annotation.models import MANAGER, Invitation, OneTimeLink, Person


class State(StrEnum):
    WAITING = "waiting"
    ACCEPTED = "accepted"
    EXPIRED = "expired"
    REVOKED = "revoked"


def hashed(secret: str) -> str:
    """What is stored of a link's secret. It is long and random, so that a plain hash tells nothing of it."""
    return hashlib.sha256(secret.encode()).hexdigest()


def invitations() -> QuerySet[Invitation]:
    """All of them with what ``state_of`` asks for, the latest first."""
    found = Invitation.objects.select_related("created_by", "accepted_by")
    return found.prefetch_related("created_by__groups").order_by("-id")


def invitation_of(secret: str) -> Invitation | None:
    return invitations().filter(secret_sha256=hashed(secret)).first()


def state_of(link: OneTimeLink) -> State:
    """A link ends with the power of whoever sent it: none outlives its manager's leaving."""
    if link.accepted_at is not None:
        return State.ACCEPTED
    if link.revoked_at is not None or not _may_invite(link.created_by):
        return State.REVOKED
    return State.EXPIRED if link.expires_at <= timezone.now() else State.WAITING


def _may_invite(person: Person | None) -> bool:
    if person is None or not person.is_active:
        return False
    return person.is_superuser or any(group.name == MANAGER for group in person.groups.all())
