"""The token of a program with its person, and whether a person has a role."""

from __future__ import annotations

import json
from datetime import datetime
from typing import NamedTuple

from annotation.core.sql import fetch_first, load_object, to_database
from annotation.models import ApiToken, Person
from annotation.models.sql.tables import PEOPLE, STUDY_MEMBERSHIPS, TOKENS

# Of the person "p" in the study of the batch "b"; {role} is SQL that gives the role.
HAS_ROLE = f"""(p.is_active AND (p.is_superuser OR EXISTS (
    SELECT 1 FROM {STUDY_MEMBERSHIPS} sm
    WHERE sm.person_id = p.id AND sm.study_id = b.study_id AND sm.role = {{role}})))"""


# Who speaks: the token of a program.


class SpeakingToken(NamedTuple):
    """A live token with its person. ``is_due``: that it is used is to be written down."""

    token: ApiToken
    is_due: bool


def find_live_token(sha256: str, *, now: datetime, long_ago: datetime) -> SpeakingToken | None:
    """The live token of this hash, of an active person; what else they have is read when something asks for it."""
    at, due = (to_database(ApiToken, "last_used_at", time) for time in (now, long_ago))
    row = fetch_first(FIND_LIVE_TOKEN, [due, sha256, at])
    if row is None:
        return None
    pk, scope, is_due, person, username, display_name, is_superuser, languages = row
    token = load_object(ApiToken, id=pk, person_id=person, scope=scope)
    token.person = load_object(
        Person,
        id=person,
        username=username,
        display_name=display_name,
        is_active=True,
        is_superuser=bool(is_superuser),
        languages=json.loads(languages),
    )
    return SpeakingToken(token, bool(is_due))


FIND_LIVE_TOKEN = f"""
SELECT t.id, t.scope, t.last_used_at IS NULL OR t.last_used_at < %s,
    p.id, p.username, p.display_name, p.is_superuser, p.languages
FROM {TOKENS} t JOIN {PEOPLE} p ON p.id = t.person_id
WHERE t.sha256 = %s AND t.ended_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > %s) AND p.is_active
"""
