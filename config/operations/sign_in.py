"""Before each page of somebody who is signed in: may they still be, and have they the factor that is demanded?"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from annotation.models import Person, SignInSession
from annotation.services.people import providers, second_factor
from annotation.services.people.sessions import read_state, write_state

API = "/api/"
# What somebody opens who must first add a second factor.
WITHOUT_FACTOR = frozenset(
    {
        "second-factor",
        "second-factor-app",
        "second-factor-passkey",
        "second-factor-codes",
        "account-confirm",
        "logout",
        "set_language",
    }
)


class SignInMiddleware:
    """Most requests ask nothing: what is due, and when, stands in the session, which was read for them anyway."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Any, _arguments: Any, _names: Any
    ) -> HttpResponseBase | None:
        """Pages without a sign-in ask nobody. The API's own sign-in, by a token, comes later: here it is the session of
        a browser that asks it, whatever else it sends.
        """
        is_open = not getattr(view, "login_required", True) and not request.path_info.startswith(API)
        if is_open or not request.user.is_authenticated:
            return None
        person, state = request.user, read_state(request)
        if not _is_session_good(request, person, state):
            return _end(request)
        if settings.SECOND_FACTOR_ROLES and not state.get("factor"):
            return _demand_factor(request, person, state)
        return None


def _is_session_good(request: HttpRequest, person: Person, state: dict[str, Any]) -> bool:
    now = time.time()
    if state.get("ends_at") and now >= state["ends_at"]:
        return False
    if state.get("method") == SignInSession.Method.PASSWORD and not settings.LOCAL_PASSWORDS:
        return person.is_superuser  # let in by the command allow_password
    if state.get("check_at") and now >= state["check_at"]:
        if not providers.check_session(request, person):
            return False
        # As they are from now on: what was read for this request may have changed.
        person.refresh_from_db(fields=["is_superuser", "is_staff", "is_active"])
        vars(person).pop("_roles", None)
        return person.is_active
    return True


def _end(request: HttpRequest) -> HttpResponseBase:
    logout(request)
    if request.path_info.startswith(API):
        words = _("You are signed out: sign in again.")
        return JsonResponse({"error": {"code": "not_authenticated", "message": words}}, status=401)
    messages.info(request, _("You are signed out: sign in again."))
    return redirect_to_login(request.get_full_path() if request.method == "GET" else "/")


def _demand_factor(request: HttpRequest, person: Person, state: dict[str, Any]) -> HttpResponseBase | None:
    """Who has one was asked for it when they signed in, unless a link signed them in, or they have it since."""
    match = request.resolver_match
    if not second_factor.is_demanded(person):
        return None
    if match is not None and match.url_name in WITHOUT_FACTOR:
        return None
    if not state.get("demanded"):
        second_factor.record_demand(person)
        write_state(request, demanded=True)
    if request.path_info.startswith(API):
        words = _("Your roles require a second factor: sign in with a browser and add one.")
        return JsonResponse({"error": {"code": "second_factor", "message": words}}, status=403)
    if second_factor.has_factor(person):
        logout(request)  # by a way in that did not ask for it
        return redirect("login")
    return redirect("second-factor")
