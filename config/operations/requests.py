"""Each request gets an id and is measured. While it lasts it is what the lines of the log are about, and what is
written down of acts says from where it came.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from uuid import uuid4

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from annotation.core.log_context import log_request
from annotation.core.request_origin import RequestOrigin, set_request_origin
from annotation.core.tracing import SpanKind, TraceSpan, open_span
from annotation.services.people.sign_ins import client_address
from config.operations.health import EARLY_VIEWS
from config.operations.metrics import METHODS, OTHER, find_route, observe_request

HEADER = "X-Request-ID"
WELL_FORMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")


class RequestMiddleware:
    """Stands first. Health and metrics are answered here: whoever asks for them knows no host name of this site, has no
    session, and must get an answer while the database is away.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        self.is_measured = bool(settings.METRICS_TOKEN)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        start = time.perf_counter()
        request.request_id = request_id = choose_request_id(request)  # type: ignore[attr-defined]
        origin = RequestOrigin(client_address(request), request.headers.get("User-Agent", ""))
        with log_request(request), set_request_origin(origin):
            view = EARLY_VIEWS.get(request.path_info)
            response = self._trace(request) if view is None else view(request)
        response.headers[HEADER] = request_id
        if self.is_measured and view is None:
            observe_request(request, response, time.perf_counter() - start)
        return response

    def _trace(self, request: HttpRequest) -> HttpResponseBase:
        """A client's own trace is not taken up: it could choose what is recorded."""
        with open_span("request", SpanKind.SERVER) as span:
            response = self.get_response(request)
            describe_request(span, request, response)
        return response


def describe_request(span: TraceSpan, request: HttpRequest, response: HttpResponseBase) -> None:
    """By the name of its route, as in the metrics; never by its address."""
    method = request.method if request.method in METHODS else OTHER
    route = find_route(request) or OTHER
    span.rename(f"{method} {route}")
    span.set_attributes(
        {
            "http.request.method": method,
            "http.route": route,
            "http.response.status_code": response.status_code,
            "assay.request_id": request.request_id,  # type: ignore[attr-defined]
        }
    )
    if response.status_code >= 500:
        span.mark_failed(str(response.status_code))


def choose_request_id(request: HttpRequest) -> str:
    """That of the proxy, if it is ours and the id is well-formed; anybody else's may be made to look like another."""
    if settings.TRUSTED_PROXIES:
        text = request.META.get("HTTP_X_REQUEST_ID", "")
        if WELL_FORMED.fullmatch(text):
            return str(text)
    return uuid4().hex
