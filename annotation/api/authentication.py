"""Tokens of programs: who speaks, and how far the token reaches."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _
from rest_framework.authentication import TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from annotation.api.throttling import count_refused_token
from annotation.models import ApiToken
from annotation.models.sql.people import find_live_token
from annotation.selectors.people import hash_secret

# How exactly "last used" is told: at most one write a minute, however many calls come.
LAST_USED_EVERY = timedelta(minutes=1)


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
        due_before = now - LAST_USED_EVERY
        token_and_due = find_live_token(hash_secret(key), now=now, long_ago=due_before)
        if token_and_due is None:
            raise AuthenticationFailed(_("Invalid token."))
        token, is_due = token_and_due
        if is_due:  # of calls at one time one writes, and a later one is never taken back
            due = Q(last_used_at=None) | Q(last_used_at__lt=due_before)
            ApiToken.objects.filter(due, pk=token.pk).update(last_used_at=now)
        return token.person, token
