"""Traces: what a real server, worker and beat send to a real receiver of OTLP, and that nobody's data are in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from annotation.core.tracing import SpanKind, get_trace_id, get_trace_parent, open_span
from config.operations.tracing import MAX_PARTS, describe_statement
from tests.databases import MigratedDatabase
from tests.serving import ROOT, free_port, served, until
from tests.test_client import client, manage, prepare_database

PERSON, DISPLAY_NAME = "wilhelmina", "Zhang Wei"
WORDS = "quenching-the-thirst-of-somebody"
ATTRIBUTES = {
    "http.request.method",
    "http.route",
    "http.response.status_code",
    "assay.request_id",
    "assay.statements",
    "assay.statement_seconds",
    "assay.job.id",
    "assay.job.kind",
    "assay.job.attempt",
    "assay.job.state",
    "db.system.name",
    "db.operation.name",
    "db.collection.name",
    "db.query.text",
    "error.type",
    # Of the process.
    "service.instance.id",  # drawn for each process
    "service.name",
    "service.version",
    "assay.process",
    "telemetry.sdk.language",
    "telemetry.sdk.name",
    "telemetry.sdk.version",
}


@dataclass
class SentSpan:
    process: str
    name: str
    trace: bytes
    span: bytes
    parent: bytes
    attributes: dict[str, Any]
    is_failed: bool


@dataclass
class TraceReceiver:
    """What collectors are to programs: it takes OTLP over HTTP."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)
    messages: list[ExportTraceServiceRequest] = field(default_factory=list)

    def list_spans(self) -> list[SentSpan]:
        return [
            SentSpan(
                process=_read(resource.resource.attributes)["assay.process"],
                name=span.name,
                trace=span.trace_id,
                span=span.span_id,
                parent=span.parent_span_id,
                attributes=_read(span.attributes),
                is_failed=span.status.code == span.status.STATUS_CODE_ERROR,
            )
            for message in list(self.messages)
            for resource in message.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def has(self, name: str) -> bool:
        return any(span.name == name for span in self.list_spans())

    def find(self, name: str) -> SentSpan:
        (span, *_more) = [span for span in self.list_spans() if span.name == name]
        return span

    def list_keys(self) -> set[str]:
        resources = [resource for message in self.messages for resource in message.resource_spans]
        keys = {entry.key for resource in resources for entry in resource.resource.attributes}
        return keys | {key for span in self.list_spans() for key in span.attributes}


def _read(entries: Any) -> dict[str, Any]:
    return {entry.key: getattr(entry.value, entry.value.WhichOneof("value")) for entry in entries}


@pytest.fixture
def receiver() -> Iterator[TraceReceiver]:
    port = free_port()
    sent = TraceReceiver(f"http://127.0.0.1:{port}")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.path == "/v1/traces"
            sent.headers.update(self.headers.items())
            sent.messages.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield sent
    server.shutdown()
    server.server_close()


@contextmanager
def process(environment: dict[str, str], log: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Told to stop at the end, as by a service manager."""
    with log.open("w") as written:
        started = subprocess.Popen(
            [sys.executable, "-m", "celery", *command, "--loglevel", "info"],
            cwd=ROOT,
            env=environment,
            stdout=written,
            stderr=written,
            start_new_session=True,
        )
    try:
        yield started
        started.terminate()
        started.wait(60)
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait()


@pytest.mark.django_db
def test_a_request_its_statements_and_the_job_that_it_queued_are_one_trace_without_anybodys_data(
    tmp_path: Path, receiver: TraceReceiver, migrated_database: MigratedDatabase | None
):
    settings = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20x",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
        "LOG_FORMAT": "json",
        "LOG_LEVEL": "INFO",
    }
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "ASSAY_DATA_DIR": str(tmp_path / "data"),
        "DATABASE_URL": "",
        "CELERY_BROKER_URL": "",
        **settings,
    }
    prepare_database(environment, tmp_path / "data", migrated_database)
    made = ("add_person", PERSON, "--groups", "manager", "--token", "--scope", "manage", "--json")
    token = manage(environment, *made)["token"]
    assert not receiver.messages  # commands are not traced
    prompts = tmp_path / "of-somebody.jsonl"
    prompts.write_text(json.dumps({"id": "p1", "prompt": f"{WORDS} {DISPLAY_NAME}", "dimension": "Safety"}))
    worker_log = tmp_path / "worker.log"
    with served(tmp_path, **settings) as server:
        address = f"http://127.0.0.1:{server.port}"
        with client.Assay(address, token=token) as assay:
            upload = assay.upload(prompts, kind="prompts")
            reading = {"kind": "prompts", "format": "jsonl", "dataset": "of-wilhelmina"}
            job = assay.confirm_import(upload["url"], wait=False, **reading)
            page = httpx.get(f"{address}/sign-in/?next=/{WORDS}/", headers={"user-agent": WORDS})
            lost = httpx.get(f"{address}/batches/{WORDS}/", headers={"cookie": f"sessionid={WORDS}"})
            assert (page.status_code, lost.status_code) == (200, 302)
            with (
                process(environment, worker_log, "-A", "config", "worker"),
                process(
                    environment,
                    tmp_path / "beat.log",
                    *("-A", "config.beat", "beat", "--schedule", str(tmp_path / "schedule")),
                ),
            ):
                assay.wait(f"manage/jobs/{job['id']}/", timeout=90)
                until(lambda: receiver.has("task annotation.sweep_jobs"), 60, worker_log.read_text)
    confirmed = receiver.find("POST api-manage-import-confirm")
    assert confirmed.attributes["http.response.status_code"] == 202
    assert confirmed.attributes["assay.statements"] > 3
    spans = receiver.list_spans()
    statements = [span for span in spans if span.parent == confirmed.span]
    assert "INSERT annotation_job" in {span.name for span in statements}
    ran = receiver.find("job import")
    assert (ran.trace, ran.parent, ran.process) == (confirmed.trace, confirmed.span, "worker")
    assert ran.attributes["assay.job.id"] == job["id"]
    assert (ran.attributes["assay.job.attempt"], ran.attributes["assay.job.state"]) == (1, "done")
    assert {span.trace for span in spans if span.name == "INSERT annotation_prompt"} == {ran.trace}
    swept, sent = receiver.find("task annotation.sweep_jobs"), receiver.find("send annotation.sweep_jobs")
    by_id = {span.span: span for span in spans}
    assert by_id[swept.parent].name == sent.name
    assert (swept.process, sent.process) == ("worker", "beat")
    assert receiver.headers["authorization"] == "Bearer x"
    # The same trace in the log, beside the request and the job.
    lines = [json.loads(line) for line in worker_log.read_text().splitlines() if line.startswith("{")]
    assert {line["trace_id"] for line in lines if line.get("job") == job["id"]} == {ran.trace.hex()}
    # Nobody's data.
    content = b"".join(message.SerializeToString() for message in receiver.messages).decode(errors="replace")
    for private in (PERSON, DISPLAY_NAME, WORDS, "of-somebody", token, "127.0.0.1", "/sign-in/", "p1'"):
        assert private not in content, private
    assert receiver.list_keys() <= ATTRIBUTES


def test_a_statement_has_neither_parameters_nor_texts_and_a_name():
    name, attributes = describe_statement(
        """SELECT "t"."id" FROM "annotation_task" t WHERE "t"."x" = %s AND y = 'Zhang ''Wei'' x'""",
        "postgresql",
    )
    assert name == "SELECT annotation_task"
    assert attributes["db.query.text"].endswith("""WHERE "t"."x" = %s AND y = '?'""")
    assert describe_statement("SAVEPOINT s1", "sqlite")[0] == "SAVEPOINT"
    assert len(describe_statement("SELECT " + "x" * 9999, "sqlite")[1]["db.query.text"]) == 1000


OUTSIDE = """
import sys
import config.wsgi
print("opentelemetry" in sys.modules)
"""
OF_MANY_PARTS = """
import config.wsgi, sys
from django.db import connection
from annotation.core.tracing import SpanKind, open_span
from config.operations.tracing import stop_tracing
try:
    with open_span("many", SpanKind.CONSUMER):
        with connection.cursor() as cursor:
            for number in range(int(sys.argv[1])):
                cursor.execute("SELECT %s", ["Zhang Wei"])
        raise ValueError("of Zhang Wei")
except ValueError:
    pass
stop_tracing()
"""


def run_code(
    code: str, folder: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    where = {**os.environ, "ASSAY_DATA_DIR": str(folder), "DATABASE_URL": "", **environment}
    where["DJANGO_SETTINGS_MODULE"] = "config.settings"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, env=where, capture_output=True, text=True, check=True)


def test_of_very_many_statements_the_first_are_sent_and_all_are_counted(
    tmp_path: Path, receiver: TraceReceiver
):
    queue = {"OTEL_BSP_MAX_QUEUE_SIZE": str(2 * MAX_PARTS)}
    number = MAX_PARTS + 50
    run_code(OF_MANY_PARTS, tmp_path, str(number), OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url, **queue)
    spans = receiver.list_spans()
    assert len([span for span in spans if span.name == "SELECT"]) == MAX_PARTS
    many = receiver.find("many")
    assert many.attributes["assay.statements"] == number
    assert (many.is_failed, many.attributes["error.type"]) == (True, "ValueError")
    assert b"Zhang" not in b"".join(message.SerializeToString() for message in receiver.messages)


@pytest.mark.parametrize(
    "refused", [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}]
)
def test_without_a_collector_the_library_is_not_even_loaded(tmp_path: Path, refused: dict[str, str]):
    assert run_code(OUTSIDE, tmp_path, **refused).stdout.strip() == "False"
    with open_span("nothing", SpanKind.CLIENT) as span:
        span.set_attributes({"a": 1})
        assert (get_trace_parent(), get_trace_id()) == ("", None)


def test_a_collector_that_is_away_holds_nobody_up(tmp_path: Path):
    start = time.monotonic()
    run_code(OF_MANY_PARTS, tmp_path, "5", OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{free_port()}")
    assert time.monotonic() - start < 60
