"""Tokens of programs: who speaks, and how far the token reaches."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _
from rest_framework.authentication import TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from annotation.api.throttling import count_refused_token
from annotation.models import ApiToken, Person
from annotation.selectors.invitations import hashed
from annotation.statements import Statement, execute, first, loaded, stored

# How exactly "last used" is told: no more than one write a minute, however many calls come.
USED_EVERY = timedelta(minutes=1)
WHO = """
SELECT p.id, p.username, p.display_name, p.is_superuser, p.languages,
    t.id, t.scope, t.last_used_at IS NULL OR t.last_used_at < %s
FROM annotation_apitoken t JOIN annotation_person p ON p.id = t.person_id
WHERE t.sha256 = %s AND t.ended_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > %s) AND p.is_active
"""
USED = "UPDATE annotation_apitoken SET last_used_at = %s WHERE id = %s AND (last_used_at IS NULL OR last_used_at < %s)"


class ApiTokenAuthentication(TokenAuthentication):
    """``Authorization: Token ..``, looked up by its hash: each call of the annotation loop begins with it
    (annotation/statements.py).

    What a program's person has beside these columns is read when it is asked for. Unknown, expired, ended and
    somebody deactivated: all get one answer.
    """

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        try:
            return super().authenticate(request)
        except AuthenticationFailed:
            count_refused_token(request)
            raise

    def authenticate_credentials(self, key: str) -> tuple[Any, Any]:
        now = timezone.now()
        at, long_ago = (stored(ApiToken, "last_used_at", time) for time in (now, now - USED_EVERY))
        row = first(WHO, [long_ago, hashed(key), at])
        if row is None:
            raise AuthenticationFailed(_("Invalid token."))
        pk, username, display_name, is_superuser, languages, token, scope, is_due = row
        if is_due:
            execute(Statement(USED, [at, token, long_ago]))
        person = loaded(
            Person,
            id=pk,
            username=username,
            display_name=display_name,
            is_active=True,
            is_superuser=bool(is_superuser),
            languages=json.loads(languages),
        )
        return person, loaded(ApiToken, id=token, person_id=pk, scope=scope)
