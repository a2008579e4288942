"""Spans of requests, jobs and what they ask of others, for OpenTelemetry (docs/operations.md).

Whoever has something to trace opens a span and need not know whether anybody collects it: without a tracer, which
``config/operations/tracing.py`` sets where the settings name a collector, a span is nothing, and no package of
OpenTelemetry is loaded. A span has names of code, numbers and codes: no text, name, address or word of anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from typing import Protocol

Attributes = Mapping[str, str | int | float | bool]


class SpanKind(StrEnum):
    SERVER = "server"
    CONSUMER = "consumer"
    PRODUCER = "producer"
    CLIENT = "client"


class TraceSpan(Protocol):
    def rename(self, name: str) -> None: ...

    def set_attributes(self, attributes: Attributes) -> None: ...

    def mark_failed(self, reason: str) -> None:
        """``reason`` is a code, such as the class of an exception."""


class Tracer(Protocol):
    def open_span(
        self, name: str, kind: SpanKind, attributes: Attributes, parent: str
    ) -> AbstractContextManager[TraceSpan]: ...

    def read_parent(self) -> str: ...

    def read_trace_id(self) -> str | None: ...


class _NoSpan:
    def rename(self, name: str) -> None:
        pass

    def set_attributes(self, attributes: Attributes) -> None:
        pass

    def mark_failed(self, reason: str) -> None:
        pass


_NO_SPAN = nullcontext[TraceSpan](_NoSpan())
_tracer: Tracer | None = None


def set_tracer(tracer: Tracer | None) -> None:
    """From now on, in this process."""
    global _tracer  # noqa: PLW0603 (of this process)
    _tracer = tracer


def open_span(
    name: str, kind: SpanKind, attributes: Attributes | None = None, *, parent: str = ""
) -> AbstractContextManager[TraceSpan]:
    """A part of the span that is open, or of ``parent``, as ``get_trace_parent`` named it, perhaps in another process.
    An exception that passes through marks it as failed, by its class alone.
    """
    return _NO_SPAN if _tracer is None else _tracer.open_span(name, kind, attributes or {}, parent)


def get_trace_parent() -> str:
    """What names the open span to another process (W3C's ``traceparent``); empty where none is open."""
    return "" if _tracer is None else _tracer.read_parent()


def get_trace_id() -> str | None:
    return None if _tracer is None else _tracer.read_trace_id()
