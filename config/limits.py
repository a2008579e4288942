"""How large a request's body may be, asked before anything of it is read.

Django reads a form, and writes its files to the disk, before a view is called. Here the view says what it takes
(``annotation.views.access.accepts_body``), and only people who may open it can send so much.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.template.defaultfilters import filesizeformat

from annotation.core.error_messages import error_text
from annotation.core.errors import N_, AssayError, StorageAway
from annotation.models import Person
from annotation.selectors.access import may

View = Callable[..., HttpResponseBase]
DIGITS = 18
QUERY_CANCELED = "57014"


class RequestRefusal(AssayError):
    """What the server says of a request before, or instead of, its view."""

    def __init__(self, status: int, code: str, template: str, **params: Any) -> None:
        super().__init__(template, **params)
        self.status = status
        self.code = code


class BodyLimit:
    """Stands first: what it refuses, nobody has read, and the server closes the connection."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: View, args: Any, kwargs: Any) -> HttpResponse | None:
        if request.META.get("HTTP_TRANSFER_ENCODING"):
            message = N_("Say how long the content is, with Content-Length; it cannot come in chunks.")
            return refuse(request, RequestRefusal(411, "length_required", message))
        length = _content_length(request)
        limit: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        if length > limit:  # only then is it worth to ask who it is
            limit = max(limit, _declared_limit(request, view))
        return _refuse_too_large(request, limit) if length > limit else None


RETRY_SECONDS = 5


def refuse(request: HttpRequest, error: AssayError) -> HttpResponse:
    """The error as a page, or in the shape of the API."""
    message = error_text(error)
    answer: HttpResponse
    if request.path_info.startswith("/api/"):
        answer = JsonResponse({"error": {"code": error.code, "message": message}}, status=error.status)
    else:
        answer = render(request, "error.html", {"message": message}, status=error.status)
    if isinstance(error, StorageAway):
        answer.headers["Retry-After"] = str(RETRY_SECONDS)
    return answer


def is_cut_short(request: HttpRequest, answer: HttpResponse) -> bool:
    """Whether config/worker.py gave up waiting; who wanted the body made an error of it, of one kind or another."""
    return answer.status_code >= 400 and getattr(request.META.get("wsgi.input"), "failed", False)


def cut_short_error() -> RequestRefusal:
    template = N_(
        "The content did not arrive whole: the connection was too slow, or broke off. Send it again."
    )
    return RequestRefusal(408, "request_timeout", template)


def too_long_error() -> RequestRefusal:
    template = N_("The database took too long for this. Ask for less at once, or try again later.")
    return RequestRefusal(503, "too_long", template)


def is_statement_timeout(error: BaseException | None) -> bool:
    """Whether PostgreSQL ended a statement after its time (config/database.py)."""
    return isinstance(error, OperationalError) and getattr(error.__cause__, "pgcode", "") == QUERY_CANCELED


def _content_length(request: HttpRequest) -> int:
    """What the request says; of a number that is too long for one its first digits, which are too many as well."""
    text = str(request.META.get("CONTENT_LENGTH") or "").lstrip("0")
    return int(text[:DIGITS]) if text.isdecimal() else 0


def _declared_limit(request: HttpRequest, view: View) -> int:
    """What the view takes from this person."""
    person, act = request.user, getattr(view, "act", None)
    if not isinstance(person, Person) or (act is not None and not may(person, act)):
        return 0
    return int(getattr(view, "max_body", 0))


def _refuse_too_large(request: HttpRequest, limit: int) -> HttpResponse:
    template = N_("The content is too large: at most {limit} are taken here.")
    return refuse(request, RequestRefusal(413, "too_large", template, limit=filesizeformat(limit)))
