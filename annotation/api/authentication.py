"""Tokens of programs: who speaks, and how far the token reaches."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _
from rest_framework.authentication import TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from annotation.api.throttling import count_refused_token
from annotation.models import ApiToken
from annotation.selectors.invitations import hashed

# How exactly "last used" is told: at most one write a minute, however many calls come.
LAST_USED_EVERY = timedelta(minutes=1)
# What the annotation loop asks of a token and its person; other columns are read when something asks for them.
TOKENS = (
    ApiToken.objects.order_by()
    .select_related("person")
    .only(
        *("scope", "expires_at", "ended_at", "last_used_at", "person__username", "person__display_name"),
        *("person__is_active", "person__is_superuser", "person__languages"),
    )
)


class ApiTokenAuthentication(TokenAuthentication):
    """``Authorization: Token ..``, looked up by its hash.

    An unknown, an expired and an ended token and one of a deactivated person all get the same answer.
    """

    model = ApiToken

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        try:
            return super().authenticate(request)
        except AuthenticationFailed:
            count_refused_token(request)
            raise

    def authenticate_credentials(self, key: str) -> tuple[Any, Any]:
        now = timezone.now()
        token = next(iter(TOKENS.filter(sha256=hashed(key))), None)
        if token is None or not token.is_live(now) or not token.person.is_active:
            raise AuthenticationFailed(_("Invalid token."))
        _note_use(token, now)
        return token.person, token


def _note_use(token: ApiToken, now: datetime) -> None:
    """Of calls at one time one writes, and a later one is never taken back."""
    long_ago = now - LAST_USED_EVERY
    if token.last_used_at is None or token.last_used_at < long_ago:
        due = Q(last_used_at=None) | Q(last_used_at__lt=long_ago)
        ApiToken.objects.filter(due, pk=token.pk).update(last_used_at=now)
