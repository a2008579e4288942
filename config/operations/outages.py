"""What is answered when a request fails by no fault of its own: the database is away or has no room, or something broke
on our side.

Django asks ``server_error`` (handler500 of config/urls.py) for an answer to every exception that nobody handled, from a
view or from a middleware.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from annotation.core.databases import is_connection_lost, is_database_full

logger = logging.getLogger(__name__)
RETRY_SECONDS = 5
REPEAT_SECONDS = 60.0
"""A long outage is mentioned again after this time, in each process."""
API = "/api/"


def server_error(request: HttpRequest) -> HttpResponse:
    error = sys.exc_info()[1]
    if error is not None and is_connection_lost(error):
        OUTAGE.note(error)
        return _answer_unavailable(
            request, _("The database is away. Nothing was lost; try again in a moment.")
        )
    if error is not None and is_database_full(error):
        FULL_DISK.note(error)
        return _answer_unavailable(
            request,
            _("The database has no room on its disk. Nothing was lost; try again once there is room."),
            is_full=True,
        )
    if request.path_info.startswith(API):
        body = {
            "code": "server_error",
            "message": _("Something broke on our side."),
            "request_id": _id_of(request),
        }
        return JsonResponse({"error": body}, status=500)
    return render(None, "500.html", {"request_id": _id_of(request)}, status=500)


def _answer_unavailable(request: HttpRequest, message: str, *, is_full: bool = False) -> HttpResponse:
    """Static/js/shell.js takes a 503 with ``Retry-After`` for no answer at all, and tries again."""
    if request.path_info.startswith(API):
        response: HttpResponse = JsonResponse(
            {"error": {"code": "unavailable", "message": message}}, status=503
        )
    else:
        context = {"request_id": _id_of(request), "is_full": is_full}
        response = render(None, "503.html", context, status=503)
    response.headers["Retry-After"] = str(RETRY_SECONDS)
    response._has_been_logged = True  # type: ignore[attr-defined] # or Django writes a traceback for each request
    return response


def _id_of(request: HttpRequest) -> str:
    return getattr(request, "request_id", "")


class Outage:
    """One line when the database is gone, one a minute while it stays away, one when it is back; of this process."""

    def __init__(self, description: str) -> None:
        self.description = description
        self._lock = threading.Lock()
        self._since: float | None = None
        self._told_at = 0.0
        self._answers = 0

    def note(self, error: BaseException) -> None:
        with self._lock:
            now = time.monotonic()
            self._answers += 1
            is_first = self._since is None
            if is_first:
                self._since, self._answers = now, 1
            if is_first or now - self._told_at >= REPEAT_SECONDS:
                self._told_at = now
                logger.error(
                    "%s: %s; requests are answered with 503 (%s so far)",
                    self.description,
                    " ".join(str(error).split()),
                    self._answers,
                )

    def end(self, *, connection: BaseDatabaseWrapper, **_signal: Any) -> None:
        """A connection was opened."""
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
            if since is not None:
                logger.warning(
                    "the database is back after %.0f s; %s answers were 503 meanwhile",
                    time.monotonic() - since,
                    self._answers,
                )


OUTAGE = Outage("the database is away")
FULL_DISK = Outage("the database has no room")
"""Without an end: nothing says that there is room until somebody writes."""
connection_created.connect(OUTAGE.end)
