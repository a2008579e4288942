from __future__ import annotations

import json
from typing import Any

from django.utils.translation import gettext as _
from rest_framework.authentication import TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from annotation.api.throttling import count_refused_token
from annotation.models import Person
from annotation.statements import first, loaded

WHO = """
SELECT p.id, p.username, p.display_name, p.is_active, p.is_superuser, p.languages
FROM authtoken_token t JOIN annotation_person p ON p.id = t.user_id WHERE t.key = %s
"""


class PlainTokenAuthentication(TokenAuthentication):
    """The framework's, but for the query: each call of the annotation loop begins with it (annotation/statements.py).

    What a program's person has beside these columns is read when it is asked for.
    """

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        try:
            return super().authenticate(request)
        except AuthenticationFailed:
            count_refused_token(request)
            raise

    def authenticate_credentials(self, key: str) -> tuple[Any, Any]:
        found = first(WHO, [key])
        if found is None:
            raise AuthenticationFailed(_("Invalid token."))
        pk, username, display_name, is_active, is_superuser, languages = found
        if not is_active:
            raise AuthenticationFailed(_("User inactive or deleted."))
        person = loaded(
            Person,
            id=pk,
            username=username,
            display_name=display_name,
            is_active=bool(is_active),
            is_superuser=bool(is_superuser),
            languages=json.loads(languages),
        )
        return person, key
