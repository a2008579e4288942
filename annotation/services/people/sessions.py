"""The sessions of people: a row for each browser in which somebody is signed in, and ending them.

The session itself is Django's. Its row here goes with it: with signing out, with revoking, with a new password and with
the account. What a session must remember for each request stands in the session under ``STATE``, so that no request
asks the table.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from django.contrib.auth import get_user_model, update_session_auth_hash
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.signals import post_save
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils import timezone

from annotation.core.errors import N_, NotFound
from annotation.core.request_origin import get_request_origin
from annotation.domain.verbs import AnnotationVerb
from annotation.models import Person, SignInSession
from annotation.services.audit import record

STATE = "sign_in"
"""In the session: ``row`` (the id of its SignInSession), ``method``, ``at`` (when they signed in, in seconds),
``confirmed`` (when they last proved again who they are), ``factor`` (whether by a second factor), and of a provider
``check_at`` and ``ends_at``.
"""
FRESH_SECONDS = 300
MAX_ADDRESS, MAX_AGENT = 45, 200


def read_state(request: HttpRequest) -> dict[str, Any]:
    return cast("dict[str, Any]", request.session.get(STATE) or {})


def get_row_id(request: HttpRequest) -> int:
    """Of the session's SignInSession; 0 for a session without."""
    return int(read_state(request).get("row") or 0)


def write_state(request: HttpRequest, **changes: Any) -> None:
    request.session[STATE] = read_state(request) | changes


def note_method(request: HttpRequest, method: SignInSession.Method) -> None:
    """How the person who is about to be signed in by this request does it."""
    request._sign_in_method = method.value  # type: ignore[attr-defined]


@receiver(user_logged_in)
def begin_session(request: HttpRequest, user: Person, **_signal: Any) -> None:
    """The row of a new session."""
    session, origin, now = request.session, get_request_origin(), timezone.now()
    if not session.session_key:
        session.create()
    method = getattr(request, "_sign_in_method", "")
    # Django gave the session another key when it signed somebody in who was signed in already.
    SignInSession.objects.filter(pk=get_row_id(request)).delete()
    row = SignInSession.objects.create(
        person=user,
        session_key=session.session_key or "",
        method=method,
        began_at=now,
        seen_at=now,
        address=origin.address[:MAX_ADDRESS],
        agent=origin.agent[:MAX_AGENT],
    )
    factor = method == SignInSession.Method.PASSKEY or read_state(request).get("factor_of") == user.pk
    session[STATE] = {"row": row.pk, "method": method, "at": int(time.time()), "factor": factor}


@receiver(user_logged_out)
def end_row(request: HttpRequest, **_signal: Any) -> None:
    """Before the session is flushed: its key is still the row's."""
    SignInSession.objects.filter(session_key=request.session.session_key or "").delete()


def touch_session(request: HttpRequest) -> None:
    """The session was used. Called once in five minutes at most (config.middleware.IdleSessionMiddleware)."""
    origin = get_request_origin()
    SignInSession.objects.filter(pk=get_row_id(request)).update(
        session_key=request.session.session_key,
        seen_at=timezone.now(),
        address=origin.address[:MAX_ADDRESS],
        agent=origin.agent[:MAX_AGENT],
    )


def keep_session(request: HttpRequest, person: Person) -> None:
    """After the person's new password this session goes on, under another key; the others have ended, and with the
    rows of all of them that of this one. A provider's session is not made again: it ends with its next check.
    """
    update_session_auth_hash(request, person)
    request.session.save()
    state, origin = read_state(request), get_request_origin()
    row = SignInSession.objects.create(
        person=person,
        session_key=request.session.session_key or "",
        method="" if state.get("method") == SignInSession.Method.PROVIDER else state.get("method", ""),
        began_at=datetime.fromtimestamp(state.get("at") or time.time(), tz=UTC),
        seen_at=timezone.now(),
        address=origin.address[:MAX_ADDRESS],
        agent=origin.agent[:MAX_AGENT],
    )
    write_state(request, row=row.pk)


@transaction.atomic
def revoke_session(*, row_id: int, person: Person, actor: Person) -> SignInSession:
    """End a session of ``person``, of which the next request is one of somebody who is not signed in."""
    row = SignInSession.objects.filter(pk=row_id, person=person).first()
    if row is None:
        raise NotFound(N_("There is no such session; it may have ended already."))
    _record_end(person, actor, [row])
    delete_sessions(SignInSession.objects.filter(pk=row.pk))
    return row


@transaction.atomic
def revoke_all_sessions(*, person: Person, actor: Person | None, but: str = "") -> int:
    """End all sessions of ``person``, ``but`` the one with this key; how many those were."""
    rows = SignInSession.objects.filter(person=person).exclude(session_key=but)
    ended = list(rows)
    if ended:
        _record_end(person, actor, ended)
        delete_sessions(rows)
    return len(ended)


def delete_sessions(rows: QuerySet[SignInSession]) -> None:
    """The rows and the sessions themselves."""
    keys = list(rows.values_list("session_key", flat=True))
    Session.objects.filter(session_key__in=keys).delete()
    rows.delete()


def _record_end(person: Person, actor: Person | None, rows: Collection[SignInSession]) -> None:
    """Of many one event: it names the addresses, which is what somebody asks for later."""
    record(
        actor=actor,
        verb=AnnotationVerb.REVOKE_SESSION,
        target=f"person:{person.username}",
        sessions=[{"id": row.pk, "address": row.address, "began": row.began_at.isoformat()} for row in rows],
    )


def clean_up_rows() -> int:
    """Rows whose session is gone by itself; how many."""
    lost = SignInSession.objects.exclude(
        session_key__in=Session.objects.filter(expire_date__gt=timezone.now()).values("session_key")
    ).filter(began_at__lt=timezone.now() - timedelta(minutes=5))
    return lost.delete()[0]


def is_fresh(request: HttpRequest) -> bool:
    """Whether the person proved who they are within the last five minutes."""
    state = read_state(request)
    latest = int(max(state.get("at", 0), state.get("confirmed", 0)))
    return time.time() - latest < FRESH_SECONDS


def confirm(request: HttpRequest) -> None:
    write_state(request, confirmed=int(time.time()))


@receiver(post_save, sender=get_user_model())
def end_sessions_with_account(instance: Person, created: bool, **_signal: Any) -> None:
    """Deactivated, or with another password: sessions that Django no longer lets in are not listed, either."""
    reason = getattr(instance, "_ends_tokens", None)
    if not created and reason is not None and reason.value in {"account", "password"}:
        delete_sessions(SignInSession.objects.filter(person=instance))
