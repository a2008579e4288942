"""Addresses that moved: what was linked or bookmarked leads to where the page is now, until the next version."""

from __future__ import annotations

import re
from collections.abc import Callable

from django.http import HttpRequest, HttpResponsePermanentRedirect
from django.http.response import HttpResponseBase

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
