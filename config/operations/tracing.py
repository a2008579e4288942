"""Traces to OpenTelemetry, where ``OTEL_EXPORTER_OTLP_ENDPOINT`` names a collector: requests, jobs, the tasks of beat,
their statements, and what they ask of others by HTTP.

The spans are our own: the instrumentations that there are write down addresses, agents and paths with names. The tracer
is nobody else's, either: it is not the global one, so that a library that traces by itself adds nothing.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.conf import settings

from annotation.core.tracing import Attributes, SpanKind, TraceSpan, get_trace_parent, open_span, set_tracer
from annotation.core.version import code_version

if TYPE_CHECKING:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

WEB, WORKER, BEAT = "web", "worker", "beat"
SERVICE = "assay"
MAX_PARTS = 1000
"""Of one request, job or task: so many statements and requests to others get a span; all are counted."""
MAX_STATEMENT = 1000
"""Characters of a statement."""
STOP_SECONDS = 3.0
"""For so long a process that ends waits for a collector."""
JOB_TASK = "annotation.run_job"
"""The job itself is the span."""
_LITERAL = re.compile(r"'(?:[^']|'')*'")
_TABLE = re.compile(r'\b(?:FROM|INTO|UPDATE)\s+"?(\w+)', re.IGNORECASE)
_provider: TracerProvider | None = None


@dataclass
class _Parts:
    """Of a request, a job or a task."""

    number: int = 0
    statements: int = 0
    seconds: float = 0.0

    def take(self) -> bool:
        """Whether there is room for one more span."""
        self.number += 1
        return self.number <= MAX_PARTS


_parts: ContextVar[_Parts | None] = ContextVar("parts", default=None)


class OpenTelemetrySpan:
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def rename(self, name: str) -> None:
        self._span.update_name(name)

    def set_attributes(self, attributes: Attributes) -> None:
        self._span.set_attributes(dict(attributes))

    def mark_failed(self, reason: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        self._span.set_status(Status(StatusCode.ERROR))
        self._span.set_attribute("error.type", reason)


class OpenTelemetryTracer:
    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._trace = trace
        self._tracer = provider.get_tracer(SERVICE, code_version())
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def open_span(
        self, name: str, kind: SpanKind, attributes: Attributes, parent: str
    ) -> Iterator[TraceSpan]:
        parts = _parts.get()
        if kind == SpanKind.CLIENT and parts is not None and not parts.take():
            yield OpenTelemetrySpan(self._trace.INVALID_SPAN)
            return
        is_entry = kind in {SpanKind.SERVER, SpanKind.CONSUMER}
        token = _parts.set(_Parts()) if is_entry else None
        context = self._propagator.extract({"traceparent": parent}) if parent else None
        try:
            with self._tracer.start_as_current_span(
                name,
                context=context,
                kind=self._trace.SpanKind[kind.name],
                attributes=dict(attributes),
                record_exception=False,  # its words may quote a text
                set_status_on_exception=False,
            ) as opened:
                span = OpenTelemetrySpan(opened)
                try:
                    yield span
                except BaseException as error:
                    span.mark_failed(type(error).__name__)
                    raise
                finally:
                    if token is not None:
                        self._add_sums(span)
        finally:
            if token is not None:
                _parts.reset(token)

    def read_parent(self) -> str:
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier.get("traceparent", "")

    def read_trace_id(self) -> str | None:
        context = self._trace.get_current_span().get_span_context()
        return self._trace.format_trace_id(context.trace_id) if context.is_valid else None

    def trace_statement(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]
    ) -> Any:
        """Of what is traced; heartbeats and the like are not. Without its parameters, which may be texts and names."""
        parts = _parts.get()
        if parts is None or not self._trace.get_current_span().is_recording():
            return execute(sql, params, many, context)
        parts.statements += 1
        start = time.perf_counter()
        try:
            if not parts.take():
                return execute(sql, params, many, context)
            text = " ".join(str(sql).split())
            name, attributes = describe_statement(text, context["connection"].vendor)
            with self._tracer.start_as_current_span(
                name,
                kind=self._trace.SpanKind.CLIENT,
                attributes=attributes,
                record_exception=False,
                set_status_on_exception=False,
            ) as span:
                try:
                    return execute(sql, params, many, context)
                except Exception as error:
                    OpenTelemetrySpan(span).mark_failed(type(error).__name__)
                    raise
        finally:
            parts.seconds += time.perf_counter() - start

    def _add_sums(self, span: OpenTelemetrySpan) -> None:
        parts = _parts.get()
        if parts is not None and parts.statements:
            sums = {"assay.statements": parts.statements, "assay.statement_seconds": round(parts.seconds, 6)}
            span.set_attributes(sums)


def describe_statement(text: str, vendor: str) -> tuple[str, dict[str, str]]:
    """Its name and attributes. What stands in it as text, which is never a value of ours, is left out all the same."""
    operation = text.partition(" ")[0].upper()[:20]
    table = _TABLE.search(text)
    attributes = {
        "db.system.name": vendor,
        "db.operation.name": operation,
        "db.query.text": _LITERAL.sub("'?'", text)[:MAX_STATEMENT],
    }
    if table is None:
        return operation, attributes
    return f"{operation} {table[1]}", {**attributes, "db.collection.name": table[1]}


def start_tracing(process: str) -> None:
    """In the process that has something to trace. Its thread that sends begins anew in a child that is forked later."""
    global _provider  # noqa: PLW0603 (of this process)
    if not settings.OTLP_TRACES_URL:
        return
    if _provider is None:
        _provider = build_provider(process)
        tracer = OpenTelemetryTracer(_provider)
        set_tracer(tracer)
        if process != BEAT:  # which has no Django, and no database
            _connect_statements(tracer)
        if process == WORKER:
            _connect_tasks()
    if process == BEAT:
        _connect_publishing()


def build_provider(process: str) -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    own = {"service.name": SERVICE, "service.version": code_version(), "assay.process": process}
    provider = TracerProvider(
        # What the environment says of the service wins.
        resource=Resource.create(own).merge(OTELResourceDetector().detect()),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=settings.OTLP_TRACES_URL)))
    return provider


def stop_tracing() -> None:
    """Send what waits, for a moment; nobody waits for a collector that is away."""
    global _provider
    provider, _provider = _provider, None
    if provider is None:
        return
    set_tracer(None)
    sender = threading.Thread(target=provider.force_flush, daemon=True)
    sender.start()
    sender.join(STOP_SECONDS)


def _connect_statements(tracer: OpenTelemetryTracer) -> None:
    from django.db import connections
    from django.db.backends.signals import connection_created

    def add_tracer(*, connection: Any, **_: Any) -> None:
        if tracer.trace_statement not in connection.execute_wrappers:
            connection.execute_wrappers.append(tracer.trace_statement)

    connection_created.connect(add_tracer, weak=False)
    for connection in connections.all(initialized_only=True):
        add_tracer(connection=connection)


def _connect_tasks() -> None:
    """What beat has done: the sweep and the like."""
    from celery.signals import task_postrun, task_prerun

    spans: dict[str, tuple[AbstractContextManager[TraceSpan], TraceSpan]] = {}

    def begin(task_id: str, task: Any, **_: Any) -> None:
        if task.name != JOB_TASK:
            parent = getattr(task.request, "traceparent", None) or ""
            manager = open_span(f"task {task.name}", SpanKind.CONSUMER, parent=parent)
            spans[task_id] = manager, manager.__enter__()

    def end(task_id: str, state: str = "", **_: Any) -> None:
        manager, span = spans.pop(task_id, (None, None))
        if manager is not None and span is not None:
            if state == "FAILURE":
                span.mark_failed(state)
            manager.__exit__(None, None, None)

    task_prerun.connect(begin, weak=False)
    task_postrun.connect(end, weak=False)


def _connect_publishing() -> None:
    """Beat's messages name the span that sent them."""
    from celery.signals import before_task_publish

    def name_span(sender: str, headers: dict[str, Any], **_: Any) -> None:
        with open_span(f"send {sender}", SpanKind.PRODUCER):
            headers["traceparent"] = get_trace_parent()

    before_task_publish.connect(name_span, weak=False)
