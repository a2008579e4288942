"""API tokens: made by their owner, shown once, stored as a hash, and ended for good.

They end with the password, with any group that is taken away, with an admin's power and with the account, whoever
does it and wherever: the pages, Django's admin or a shell (token_signals.py).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from annotation.core.errors import N_, AssayError, Conflict, Forbidden, NotFound
from annotation.domain.verbs import AnnotationVerb
from annotation.models import ApiToken, Person
from annotation.selectors.people import hash_secret, list_live_tokens
from annotation.services.audit import record
from annotation.services.people.people import refuse_above

# Scanners for secrets know one by it: "assay_" and 64 hexadecimal digits, 256 random bits.
PREFIX = "assay_"
SECRET_BYTES = 32
MAX_NAME = 100
MAX_DAYS = 366
MAX_TOKENS = 20


@transaction.atomic
def make_token(
    *, person: Person, name: str, scope: str, days: int, actor: Person | None
) -> tuple[ApiToken, str]:
    """A token of ``actor``'s own and its text, which nobody can be told again; an operator's shell has no actor."""
    if actor is not None and actor != person:
        raise Forbidden(N_("Only {name} makes tokens that speak in the name of {name}."), name=str(person))
    name = _check_name(name)
    if scope not in ApiToken.Scope.values:
        known = ", ".join(ApiToken.Scope.values)
        raise AssayError(N_("There is no scope {scope}; the scopes are {known}."), scope=scope, known=known)
    if not 1 <= days <= MAX_DAYS:
        raise AssayError(N_("A token is valid for 1 to {most} days."), most=MAX_DAYS)
    _check_token_limits(person, name)
    text = PREFIX + secrets.token_hex(SECRET_BYTES)
    now = timezone.now()
    ends = now + timedelta(days=days)
    token = ApiToken.objects.create(
        person=person,
        name=name,
        sha256=hash_secret(text),
        scope=scope,
        created_at=now,
        expires_at=ends,
    )
    _record(token, actor, AnnotationVerb.MAKE_TOKEN, scope=scope, expires_at=ends.isoformat())
    return token, text


@transaction.atomic
def revoke_token(*, token_id: int, person: Person, actor: Person) -> ApiToken:
    """End a token of ``person``; twice changes nothing. A manager may, but not of an admin."""
    token = ApiToken.objects.select_for_update(no_key=True).filter(pk=token_id, person=person).first()
    if token is None:
        raise NotFound(N_("There is no such token."))
    refuse_above(person, actor)
    if token.ended_at is None:
        token.ended_at, token.ended_why = timezone.now(), ApiToken.Ended.REVOKED
        token.save(update_fields=["ended_at", "ended_why"])
        _record(token, actor, AnnotationVerb.REVOKE_TOKEN)
    return token


@transaction.atomic
def end_tokens(people: Iterable[int], reason: ApiToken.Ended) -> None:
    """All tokens of these people, for good. Who makes one at the same moment waits for their row."""
    for person in Person.objects.select_for_update(no_key=True).filter(pk__in=list(people)).order_by("pk"):
        live = ApiToken.objects.filter(person=person, ended_at=None)
        ended = live.update(ended_at=timezone.now(), ended_why=reason)
        if ended:
            target = f"person:{person.username}"
            record(actor=None, verb=AnnotationVerb.END_TOKENS, target=target, why=reason.value, tokens=ended)


def _check_name(name: str) -> str:
    name = name.strip()
    if not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise AssayError(N_("A token needs a name of 1 to {most} characters."), most=MAX_NAME)
    return name


def _check_token_limits(person: Person, name: str) -> None:
    """With the person's row locked, so that what ends tokens ends this one, too."""
    locked = Person.objects.select_for_update(no_key=True).get(pk=person.pk)
    if not locked.is_active:
        raise Conflict(N_("{name} is deactivated."), name=str(person))
    names = list(list_live_tokens(person).values_list("name", flat=True))
    if name in names:
        raise AssayError(N_("You have a token named {name} already."), name=name)
    if len(names) >= MAX_TOKENS:
        raise Conflict(N_("There are {most} tokens already: end one that is not used."), most=MAX_TOKENS)


def _record(token: ApiToken, actor: Person | None, verb: AnnotationVerb, **data: Any) -> None:
    target = f"person:{token.person.username}"
    record(actor=actor, verb=verb, target=target, token=token.pk, name=token.name, **data)
