"""What it costs a request to be watched: its id, its place in the log, its histogram, the timing of its statements, and
its trace.

    DATABASE_URL=postgres://HOST/NAME python -m tests.performance.watching_cost [--requests 2000] [--rounds 9]

In process, on the sign-in page and with SELECT 1, with and without in turn, so that both meet the same load of the
machine. Printed are medians of the rounds' means, in microseconds of processor time, which other work on the machine
changes least; the middleware stands alone in the last ones. Histograms are written to files, as by gunicorn. Traces are
made, and sent by the thread that always does it, to a collector in a process of its own that throws them away.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from time import process_time

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", tempfile.mkdtemp(prefix="assay-metrics-"))
django.setup()

from django.conf import settings  # noqa: E402
from django.core.handlers.wsgi import WSGIHandler  # noqa: E402
from django.db import connection  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.test import RequestFactory, override_settings  # noqa: E402
from django.urls import resolve  # noqa: E402

from annotation.core.tracing import SpanKind, Tracer, open_span, set_tracer  # noqa: E402
from config.operations.requests import RequestMiddleware  # noqa: E402
from config.operations.tracing import OpenTelemetryTracer, build_provider  # noqa: E402

WATCHING = "config.operations.requests.RequestMiddleware"
TOKEN = "x" * 32
COLLECTOR = """
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_arguments):
        pass
server = HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def collecting() -> Iterator[OpenTelemetryTracer]:
    """A tracer that sends to a collector of its own."""
    process = subprocess.Popen([sys.executable, "-c", COLLECTOR], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url = f"http://127.0.0.1:{process.stdout.readline().strip()}/v1/traces"
    with override_settings(OTLP_TRACES_URL=url):
        provider = build_provider("web")
    try:
        yield OpenTelemetryTracer(provider)
    finally:
        provider.force_flush()
        process.terminate()
        process.wait()


def traced(call: Callable[[], None], tracer: Tracer) -> Callable[[], None]:
    def act() -> None:
        set_tracer(tracer)
        try:
            call()
        finally:
            set_tracer(None)

    return act


def make_handler(*, is_watched: bool, is_measured: bool) -> WSGIHandler:
    remaining = [name for name in settings.MIDDLEWARE if name != WATCHING]
    with override_settings(
        MIDDLEWARE=[WATCHING, *remaining] if is_watched else remaining,
        METRICS_TOKEN=TOKEN if is_measured else "",
    ):
        return WSGIHandler()


def answer(handler: WSGIHandler) -> Callable[[], None]:
    factory = RequestFactory()

    def call() -> None:
        response = handler.get_response(factory.get("/sign-in/", HTTP_HOST="localhost"))
        assert response.status_code == 200

    return call


def pass_through(*, is_watched: bool, is_measured: bool) -> Callable[[], None]:
    """The middleware alone, before an answer that is there already."""
    factory, response = RequestFactory(), HttpResponse()
    with override_settings(METRICS_TOKEN=TOKEN if is_measured else ""):
        act = RequestMiddleware(lambda _request: response) if is_watched else lambda _request: response
    request = factory.get("/sign-in/")
    request.resolver_match = resolve("/sign-in/")
    return lambda: act(request) and None


def select(*, is_timed: bool) -> Callable[[], None]:
    connection.ensure_connection()
    timers = list(connection.execute_wrappers)
    assert timers

    def call() -> None:
        connection.execute_wrappers[:] = timers if is_timed else []
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")

    return call


def select_traced(tracer: OpenTelemetryTracer) -> Callable[[], None]:
    """As a part of a request that is traced, which is not counted."""
    connection.ensure_connection()
    wrappers = [*connection.execute_wrappers, tracer.trace_statement]

    def call() -> None:
        connection.execute_wrappers[:] = wrappers
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        connection.execute_wrappers[:] = wrappers[:-1]

    return call


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=2000, help="of each kind (default 2000)")
    parser.add_argument("--rounds", type=int, default=9, help="in which they are taken in turn (default 9)")
    options = parser.parse_args()
    with collecting() as tracer:
        measure(options, tracer)


def measure(options: argparse.Namespace, tracer: OpenTelemetryTracer) -> None:
    watched = make_handler(is_watched=True, is_measured=True)
    kinds = {
        "sign-in page, not watched": answer(make_handler(is_watched=False, is_measured=False)),
        "sign-in page, watched, no metrics": answer(make_handler(is_watched=True, is_measured=False)),
        "sign-in page, watched, with metrics": answer(watched),
        "sign-in page, watched, metrics, traces": traced(answer(watched), tracer),
        "SELECT 1, not timed": select(is_timed=False),
        "SELECT 1, timed": select(is_timed=True),
        "SELECT 1, timed and traced": select_traced(tracer),
        "nothing": pass_through(is_watched=False, is_measured=False),
        "the middleware, no metrics": pass_through(is_watched=True, is_measured=False),
        "the middleware, with metrics": pass_through(is_watched=True, is_measured=True),
        "the middleware, metrics and traces": traced(pass_through(is_watched=True, is_measured=True), tracer),
    }
    times = defaultdict(list)
    number = options.requests // options.rounds
    for call in kinds.values():
        call()
    for _round in range(options.rounds):
        for kind, call in kinds.items():
            times[kind].append(
                time_calls(call, number, tracer if kind.endswith("timed and traced") else None)
            )
    for kind, means in times.items():
        print(f"{kind:<40} {median(means):8.1f} µs")


def time_calls(call: Callable[[], None], number: int, tracer: OpenTelemetryTracer | None) -> float:
    """Microseconds of a call; with a tracer within spans, each of as many statements as get a span."""
    total, left = 0.0, number
    set_tracer(tracer)
    while left > 0:
        part = min(left, 500)
        with open_span("request", SpanKind.SERVER):
            start = process_time()
            for _request in range(part):
                call()
            total += process_time() - start
        left -= part
    set_tracer(None)
    return 1e6 * total / number


if __name__ == "__main__":
    main()
