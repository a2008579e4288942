"""``/healthz``, ``/readyz`` and ``/metrics``: for a load balancer, a container's supervisor, Prometheus.

``config.operations.requests.RequestMiddleware`` answers them before anything else; they stand among the addresses for
those who look there, and for the tests of who may open what.
"""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.utils.crypto import constant_time_compare

from annotation.core.health import CheckState, Readiness, load_checks, run_checks
from config.operations.metrics import render_metrics

View = Callable[[HttpRequest], HttpResponse]
METHODS = ("GET", "HEAD")
OK, FAILED = "ok", "failed"


@login_not_required
def healthz(request: HttpRequest) -> HttpResponse:
    """This process answers. Nothing else is asked: who restarts it for a database that is away mends nothing."""
    return _finish(request, JsonResponse({"status": OK}))


@login_not_required
def readyz(request: HttpRequest) -> HttpResponse:
    """Whether this process should get requests; of the reasons strangers read the names alone."""
    checks = [check for check in load_checks() if check.readiness != Readiness.NONE]
    answers, is_ready = {}, True
    for check, result in run_checks(checks):
        is_required = check.readiness == Readiness.REQUIRED
        has_failed = result.state == CheckState.FAULT
        answers[check.name] = FAILED if has_failed else OK
        is_ready = is_ready and not (is_required and has_failed)
    body = {"status": OK if is_ready else FAILED, "checks": answers}
    return _finish(request, JsonResponse(body, status=200 if is_ready else 503))


@login_not_required
def metrics(request: HttpRequest) -> HttpResponse:
    """In Prometheus' text format, for whoever has the token; without a token in the settings there are none."""
    if not settings.METRICS_TOKEN:
        return _finish(request, JsonResponse({"status": "not found"}, status=404))
    scheme, _space, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "bearer" or not constant_time_compare(token.strip(), settings.METRICS_TOKEN):
        refusal = JsonResponse({"status": "unauthorized"}, status=401)
        refusal.headers["WWW-Authenticate"] = "Bearer"
        return _finish(request, refusal)
    content, content_type = render_metrics()
    return _finish(request, HttpResponse(content, content_type=content_type))


def _finish(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    if request.method not in METHODS:
        response = HttpResponseNotAllowed(METHODS)
    # CommonMiddleware, which says it of other answers, comes after these.
    response.headers["Content-Length"] = str(len(response.content))
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    if response.status_code == 503:  # a probe asks every few seconds; the outage itself is a line
        response._has_been_logged = True  # type: ignore[attr-defined]
    return response


EARLY_VIEWS: dict[str, View] = {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}
"""By address."""
