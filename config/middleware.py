"""One application error becomes one page, or one JSON shape."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponsePermanentRedirect,
    JsonResponse,
    UnreadablePostError,
)
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import get_script_prefix, set_script_prefix
from django.utils.translation import gettext
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.response import Response as ApiResponse
from rest_framework.views import exception_handler

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError, InputError
from annotation.core.errors import NotFound as NothingFound
from annotation.core.http import STUDY_PREFIX, enter_study
from annotation.core.study_scope import limit_to_studies
from annotation.selectors.studies import SAY_WHICH, locate
from annotation.services.people.sessions import touch_session
from config.limits import cut_short_error, is_cut_short, is_statement_timeout, refuse, too_long_error

# What no page uses. Copying a link needs the clipboard, which is therefore not denied.
DENIED = (
    "accelerometer",
    "autoplay",
    "camera",
    "display-capture",
    "geolocation",
    "gyroscope",
    "hid",
    "magnetometer",
    "microphone",
    "midi",
    "payment",
    "serial",
    "usb",
    "xr-spatial-tracking",
)


class PermissionsPolicyMiddleware:
    """No page, and no frame that a hostile text might open in one, may use the reader's device."""

    header = ", ".join(f"{feature}=()" for feature in DENIED)

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response.headers["Permissions-Policy"] = self.header
        return response


class NoStoreMiddleware:
    """Neither a browser nor a proxy keeps what a view answered: pages, pictures, files, the API.

    The next person at the same screen must not get it with the back button. Static files are answered before this.
    A download that broke off goes on all the same: the file's ETag tells whether it is still the same one.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if "no-store" not in response.headers.get("Cache-Control", ""):
            response.headers["Cache-Control"] = "private, no-store"
        return response


# Addresses that moved: what was linked or bookmarked leads to the present page, until the next version.
MOVED = [
    (re.compile(former), present)
    for former, present in (
        (r"^/care/", "/wellbeing/"),
        (r"^/account/care/", "/account/wellbeing/"),
        (r"^/batches/([^/]+)/known/", r"/batches/\1/gold-questions/"),
        (r"^/runs/-/collecting/", "/runs/-/collection/"),
        (r"^/runs/([^/]+)/label-next/", r"/runs/\1/label-plan/"),
        (r"^/scorers/-/must-fail/", "/scorers/-/regression-cases/"),
    )
]


class MovedAddressMiddleware:
    """Answer a former address with a redirect that keeps the method, the body and the query."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        address = request.get_full_path()
        for former, present in MOVED:
            moved, count = former.subn(present, address, count=1)
            if count:
                return HttpResponsePermanentRedirect(moved, preserve_request=True)
        return self.get_response(request)


# What pages ask for by themselves, again and again: nobody need be there.
POLLED = {
    "batch-needs-notice",
    "batch-progress",
    "collecting-progress",
    "dialogue-progress",
    "dialogue-turns",
    "job-progress",
    "operations-live",
}
_USED_AT = "used_at"
SESSION_USE_RESOLUTION = 5 * 60  # seconds


class IdleSessionMiddleware:
    """A session that is used goes on, and ends SESSION_COOKIE_AGE after its last use.

    That is written once in five minutes at most, and not with each request: the annotation loop waits for no write.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        session, match = request.session, request.resolver_match
        is_used = session.accessed and SESSION_KEY in session and not (match and match.url_name in POLLED)
        if is_used and time.time() - session.get(_USED_AT, 0) > SESSION_USE_RESOLUTION:
            session[_USED_AT] = int(time.time())
            touch_session(request)
        return response


@receiver(user_logged_in)
def _record_use(request: HttpRequest, **_signal: Any) -> None:
    request.session[_USED_AT] = int(time.time())


class ApplicationErrorMiddleware:
    """Answers an AssayError that a page let through with its own status and words."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if _has_nul(request):
            return _answer_not_found(request)
        answer = self.get_response(request)
        return refuse(request, cut_short_error()) if is_cut_short(request, answer) else answer

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if is_statement_timeout(error):
            return refuse(request, too_long_error())
        if isinstance(error, UnreadablePostError):
            return refuse(request, cut_short_error())
        return refuse(request, error) if isinstance(error, AssayError) else None


def _has_nul(request: HttpRequest) -> bool:
    """Nothing has a NUL in its name: PostgreSQL cannot even be asked for it."""
    return "\0" in request.path_info or "%00" in request.META.get("QUERY_STRING", "")


def _answer_not_found(request: HttpRequest) -> HttpResponse:
    if not request.path_info.startswith("/api/"):
        raise Http404
    missing = NotFound()
    body = {"code": missing.default_code, "message": str(missing.detail)}
    return JsonResponse({"error": body}, status=missing.status_code)


def api_error(error: Exception, context: dict[str, Any]) -> ApiResponse | None:
    """``{"error": {"code": .., "message": .., ..}}`` for every refusal, ours and the framework's."""
    if is_statement_timeout(error):
        error = too_long_error()
    if isinstance(error, AssayError):
        body: dict[str, Any] = {"code": error.code, "message": error_text(error)}
        receipt = getattr(error, "receipt", None)
        if receipt is not None:
            body["receipt"] = str(receipt.receipt)
        if getattr(error, "draft", False):
            body["draft"] = True
        if isinstance(error, InputError):
            body["problems"] = [describe_problem(problem) for problem in getattr(error, "problems", [error])]
        return ApiResponse({"error": body}, status=error.status)
    answer = exception_handler(error, context)
    if answer is not None:
        answer.data = {"error": _framework_refusal(error, answer)}
    return answer


def describe_problem(problem: InputError) -> dict[str, Any]:
    """As ``ProblemSerializer`` of the API has it."""
    message = gettext(problem.template).format(**problem.params)
    return {"message": message, "line": problem.line, "field": problem.field}


def _framework_refusal(error: Exception, answer: ApiResponse) -> dict[str, Any]:
    if isinstance(error, ValidationError):
        return {"code": "invalid", "message": gettext("The content is not valid."), "fields": answer.data}
    code = getattr(getattr(error, "detail", None), "code", "not_found")
    return {"code": code, "message": str(answer.data.get("detail", ""))}


API_ROOT = "/api/v1/"
SAFE = frozenset({"GET", "HEAD"})


class StudyPrefixMiddleware:
    """Stands first: what follows ``/s/STUDY`` is routed, and addresses are reversed with it while the request lasts."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        prefix = get_script_prefix()
        request.study_name = None  # type: ignore[attr-defined]
        for root in ("/", API_ROOT):
            beginning = f"{root.rstrip('/')}{STUDY_PREFIX}"
            if request.path_info.startswith(beginning):
                name, slash, rest = request.path_info[len(beginning) :].partition("/")
                if name and slash:
                    request.study_name, request.path_info = name, f"{root}{rest}"  # type: ignore[attr-defined]
                break
        try:
            return self.get_response(request)
        finally:
            set_script_prefix(prefix)


class StudyScopeMiddleware:
    """Stands after the sign-in: limits the request to its study, or to those that the person may see. A program's token
    is read later, and its calls are limited there (annotation/api/base.py).
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        with limit_to_studies(None):
            return self.get_response(request)

    def process_view(
        self, request: HttpRequest, _view: Any, _arguments: Any, names: Mapping[str, Any]
    ) -> HttpResponseBase | None:
        if not request.user.is_authenticated or request.resolver_match is None:
            return None
        try:
            located = locate(
                request.user,
                request.study_name,  # type: ignore[attr-defined]
                request.resolver_match.route,
                names,
            )
            enter_study(located.studies, located.name)
            if request.method not in SAFE:
                located.check_writable()
            if not located.is_open:
                return None
            if request.method in SAFE:
                return redirect("home")
            raise NothingFound(SAY_WHICH)
        except AssayError as error:
            return refuse(request, error)
