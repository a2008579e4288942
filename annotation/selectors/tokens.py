"""API tokens, for their owner and for managers: everything but the tokens themselves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Q, QuerySet
from django.utils import timezone

from annotation.models import ApiToken, Person

ENDED_DAYS = 90  # an ended token is listed so long, with why it ended


@dataclass(frozen=True)
class ListedToken:
    token: ApiToken
    live: bool
    expired: bool


def live_tokens(person: Person) -> QuerySet[ApiToken]:
    unexpired = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    return ApiToken.objects.filter(unexpired, person=person, ended_at=None)


def list_tokens(person: Person) -> list[ListedToken]:
    """The person's tokens that work and those that ended lately, the newest first."""
    now = timezone.now()
    lately = now - timedelta(days=ENDED_DAYS)
    tokens = ApiToken.objects.filter(person=person).exclude(Q(ended_at__lt=lately) | Q(expires_at__lt=lately))
    listed = []
    for token in tokens:
        expired = token.ended_at is None and token.expires_at is not None and token.expires_at <= now
        listed.append(ListedToken(token, live=token.ended_at is None and not expired, expired=expired))
    return listed
