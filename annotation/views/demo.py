"""One-click sign-in as one of the demo's people.

It exists in the processes that the ``demo`` command started, for a browser on the same machine; anywhere else, and
behind any proxy, it is a 404.
"""

from __future__ import annotations

from functools import wraps
from ipaddress import ip_address
from typing import Any

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.http.request import split_domain_port
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from annotation.models import SignInSession
from annotation.services.demo import CAST, find_demo_person
from annotation.services.people.sessions import note_method
from annotation.views.access import View

BACKEND = "django.contrib.auth.backends.ModelBackend"
PROXY_HEADERS = ("HTTP_FORWARDED", "HTTP_X_REAL_IP", "HTTP_VIA", "HTTP_X_FORWARDED")


def is_demo(request: HttpRequest) -> bool:
    """Whether this process serves the demo and this request comes straight from this machine."""
    return (
        settings.ASSAY_DEMO_PROCESS
        and _is_loopback(request.META.get("REMOTE_ADDR", ""))
        and split_domain_port(request.META.get("HTTP_HOST", ""))[0] in settings.LOOPBACK
        and not any(name.startswith(PROXY_HEADERS) for name in request.META)
    )


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def demo_only(view: View) -> View:
    @wraps(view)
    def guarded_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not is_demo(request):
            raise Http404
        return view(request, *args, **kwargs)

    return guarded_view


@login_not_required
@demo_only
@require_GET
def demo(request: HttpRequest) -> HttpResponse:
    return render(request, "demo.html", {"cast": CAST})


@login_not_required
@demo_only
@require_POST
def demo_sign_in(request: HttpRequest, username: str) -> HttpResponse:
    person = find_demo_person(username)
    if person is None:
        raise Http404
    note_method(request, SignInSession.Method.DEMO)
    login(request, person, backend=BACKEND)
    return redirect("home")
