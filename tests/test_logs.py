"""The lines of a log: as JSON, with the request and the job that they are of, and without secrets."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.decorators import login_not_required
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import include, path

from annotation.core.errors import AssayError
from annotation.core.log_lines import LineFormatter
from annotation.models import Job, Person
from annotation.services import jobs
from config.operations.logs import JsonFormatter, SecretsFilter
from tests.conftest import ROOT

pytestmark = pytest.mark.django_db
SECRET = "/join/0123456789abcdefghij"


@login_not_required
def break_down(request: HttpRequest, text: str = "") -> HttpResponse:
    _name = request.user.username  # as a page would
    raise RuntimeError(f"of {SECRET} and Zhang Wei")


urlpatterns = [
    path("break/<str:text>/", break_down, name="breaks"),
    path("api/v1/break/", break_down, name="api-breaks"),
    path("", include("config.urls")),
]
handler500 = "config.operations.outages.server_error"


@pytest.fixture
def lines() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """What the console would have of it as JSON."""
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(SecretsFilter())
    root = logging.getLogger()
    root.addHandler(handler)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.removeHandler(handler)


@pytest.fixture
def breaking(settings: Any) -> Client:
    settings.ROOT_URLCONF = __name__
    return Client(raise_request_exception=False)


def test_a_line_has_the_request_and_the_person_as_a_number(
    breaking: Client, lines: Callable[[], list[dict[str, Any]]], lin: Person
):
    breaking.force_login(lin)
    answer = breaking.get("/break/text-of-somebody/?q=1", REMOTE_ADDR="198.51.100.7")
    (line,) = [line for line in lines() if line["level"] == "ERROR"]
    assert line["request_id"] == answer.headers["X-Request-ID"]
    assert (line["person"], line["address"], line["route"]) == (lin.pk, "198.51.100.7", "breaks")
    assert (line["logger"], line["method"]) == ("django.request", "GET")
    assert "RuntimeError" in line["exception"]
    assert SECRET not in json.dumps(line)
    assert "lin" not in {*line.values()}


def test_the_page_of_a_fault_says_the_id_in_both_languages(breaking: Client, lin: Person):
    breaking.force_login(lin)
    for language, words in (("en", "If you report it, say this number"), ("zh-hans", "报告时请附上此编号")):
        breaking.cookies["django_language"] = language
        answer = breaking.get("/break/x/")
        assert answer.status_code == 500
        assert re.search(f"{words}.*{answer.headers['X-Request-ID']}", answer.content.decode())
    answer = breaking.get("/api/v1/break/")
    assert answer.json()["error"]["request_id"] == answer.headers["X-Request-ID"]


def test_an_id_is_taken_of_a_trusted_proxy_alone_and_if_it_is_well_formed(client: Client, settings: Any):
    def echo(text: str) -> bool:
        return client.get("/healthz", headers={"x-request-id": text}).headers["X-Request-ID"] == text

    assert not echo("a-good-request-id")
    settings.TRUSTED_PROXIES = 1
    assert echo("a-good-request-id")
    assert [echo(text) for text in ("short", "x" * 65, "with space in it", "line\tbreak-in-it")] == [
        False
    ] * 4


def test_secrets_are_taken_out_of_words_and_tracebacks_in_either_format():
    try:
        raise ValueError(f"no such link {SECRET}, postgres://assay:hunter2@db/assay")
    except ValueError as error:
        record = logging.LogRecord(
            "n",
            logging.ERROR,
            "f",
            1,
            "%s: Bearer %s",
            (SECRET, "abcdef"),
            (ValueError, error, error.__traceback__),
        )
    assert SecretsFilter().filter(record)
    for formatter in (JsonFormatter(), LineFormatter("{message}", style="{")):
        line = formatter.format(record)
        record.exc_text = None
        assert "0123456789abcdefghij" not in line
        assert "hunter2" not in line
        assert "abcdef" not in line
        assert "ValueError" in line


def test_a_quotation_mark_after_a_secret_leaves_the_line_json():
    record = logging.LogRecord("n", logging.INFO, "f", 1, 'asked for "%s"\nand "more"', (SECRET,), None)
    assert json.loads(JsonFormatter().format(record))["message"] == 'asked for "/join/***"\nand "more"'


def test_a_slow_statement_is_one_line_without_its_parameters(
    settings: Any, lines: Callable[[], list[dict[str, Any]]]
):
    settings.SLOW_QUERY_SECONDS = 0.05
    slow = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %s) SELECT count(*), %s FROM n"
    with connection.cursor() as cursor:
        cursor.execute(slow, [600_000, "Zhang Wei"])
        cursor.execute("SELECT %s", ["quick"])
    (line,) = [line for line in lines() if "slow statement" in line["message"]]
    assert line["message"].endswith("SELECT count(*), %s FROM n")
    assert line["level"] == "WARNING"


@jobs.register_handler("tests.logged")
def _do_what_it_says(context: jobs.JobContext) -> dict[str, Any]:
    logging.getLogger("tests").warning("at work")
    if context.payload:
        raise AssayError("no")
    return {}


def test_the_beginning_and_the_end_of_a_job_are_lines_with_its_number(
    lines: Callable[[], list[dict[str, Any]]], caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO")
    ended = [
        jobs.run(jobs.enqueue(kind="tests.logged", payload=payload, title="t", send=False).pk)
        for payload in ({}, {"fails": True})
    ]
    assert [job.state for job in ended] == [Job.State.DONE, Job.State.FAILED]
    for job, word in zip(ended, ("done", "failed"), strict=True):
        first, middle, last = [line["message"] for line in lines() if line.get("job") == job.pk]
        assert first == f"job {job.pk} (tests.logged, “t”) begins, attempt 1"
        assert middle == "at work"
        assert re.fullmatch(rf"job {job.pk} \(tests.logged, “t”\) ends: {word} after \d+\.\d s", last)


class Collector(BaseHTTPRequestHandler):
    bodies: list[str] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = zlib.decompress(body, wbits=31)
        self.bodies.append(body.decode())
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_arguments: object) -> None:
        """Silent."""


REPORT = """
import config.wsgi
from django.conf import settings
from django.test import Client
settings.ROOT_URLCONF = "tests.test_logs"
client = Client(raise_request_exception=False)
answer = client.get("/break/text-of-somebody/?q=1", REMOTE_ADDR="198.51.100.7", HTTP_COOKIE="sessionid=abc")
import logging, sentry_sdk
logging.getLogger("x").error("job %s of %s", 7, "Li Lei")
sentry_sdk.flush(10)
print(answer.headers["X-Request-ID"])
"""


def test_what_goes_to_sentry_has_the_place_of_an_error_and_nobodys_data(tmp_path: Path):
    server = HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    where = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "ALLOWED_HOSTS": "testserver",
        "SECRET_KEY": "k" * 50,
        "ASSAY_DATA_DIR": str(tmp_path),
        "DATABASE_URL": "",
        "SENTRY_DSN": f"http://key@127.0.0.1:{server.server_port}/1",
    }
    command = [sys.executable, "-c", REPORT]
    process = subprocess.run(command, cwd=ROOT, env=where, capture_output=True, text=True, check=False)
    server.shutdown()
    server.server_close()
    assert process.returncode == 0, process.stderr
    sent = "\n".join(Collector.bodies)
    for useful in ("RuntimeError", "break_down", "job %s of %s", process.stdout.strip()):
        assert useful in sent, useful
    for private in ("Zhang Wei", "Li Lei", SECRET, "text-of-somebody", "198.51.100.7", "q=1", "sessionid"):
        assert private not in sent, private


def test_without_an_address_for_it_the_library_is_not_even_loaded(tmp_path: Path):
    code = "import config.wsgi, sys; print('sentry_sdk' in sys.modules)"
    where = {**os.environ, "ASSAY_DATA_DIR": str(tmp_path), "DATABASE_URL": "", "SENTRY_DSN": ""}
    where["DJANGO_SETTINGS_MODULE"] = "config.settings"
    command = [sys.executable, "-c", code]
    process = subprocess.run(command, cwd=ROOT, env=where, capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "False"
