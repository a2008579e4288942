"""Ending sessions: one's own, and for admins anybody's."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from annotation.domain.permissions import MANAGE_SIGN_INS
from annotation.selectors.people import get_person
from annotation.services.people.sessions import revoke_all_sessions, revoke_session
from annotation.views.access import act_required, person_of
from annotation.views.notices import add_notice


@require_POST
def account_session_revoke(request: HttpRequest, session_id: int) -> HttpResponse:
    person = person_of(request)
    revoke_session(row_id=session_id, person=person, actor=person)
    messages.success(request, _("The session has ended."))
    return redirect("account")


@require_POST
def account_sessions_revoke(request: HttpRequest) -> HttpResponse:
    """All but the one in which the button was pressed."""
    person = person_of(request)
    ended = revoke_all_sessions(person=person, actor=person, but=request.session.session_key or "")
    add_notice(request, "sessions_ended", n=ended)
    return redirect("account")


@require_POST
@act_required(MANAGE_SIGN_INS)
def person_session_revoke(request: HttpRequest, username: str, session_id: int) -> HttpResponse:
    revoke_session(row_id=session_id, person=get_person(username), actor=person_of(request))
    messages.success(request, _("The session has ended."))
    return redirect("person", username)


@require_POST
@act_required(MANAGE_SIGN_INS)
def person_sessions_revoke(request: HttpRequest, username: str) -> HttpResponse:
    ended = revoke_all_sessions(person=get_person(username), actor=person_of(request))
    add_notice(request, "sessions_ended", n=ended)
    return redirect("person", username)
