"""The lines of a log: for a person or as JSON, each with what it is about, and without what must not stand there."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from django.utils.functional import SimpleLazyObject, empty

from annotation.core.log_context import get_logged_job, get_logged_request
from annotation.core.log_lines import mask_secrets
from annotation.core.request_origin import get_request_origin
from annotation.core.tracing import get_trace_id


class SecretsFilter(logging.Filter):
    """Takes the secrets of links and of tokens out of the lines that show them."""

    def filter(self, record: logging.LogRecord) -> bool:
        line = record.getMessage()
        masked = mask_secrets(line)
        if masked != line:
            record.msg, record.args = masked, ()
        return True


class JsonFormatter(logging.Formatter):
    """An object in one line. What is not known is left out; a person is a number, and a route names nobody."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": mask_secrets(record.getMessage()),
            **describe_context(),
        }
        if record.exc_info:
            line["exception"] = mask_secrets(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False, default=str)


def describe_context() -> dict[str, Any]:
    """The request and the job that this thread is at; asks neither the database nor the session."""
    request, job = get_logged_request(), get_logged_job()
    context: dict[str, Any] = {"job": job, "trace_id": get_trace_id()}
    if request is not None:
        context = {**_describe_request(request), **context}
    return {name: value for name, value in context.items() if value is not None}


def _describe_request(request: Any) -> dict[str, Any]:
    match = getattr(request, "resolver_match", None)
    return {
        "request_id": getattr(request, "request_id", None),
        "person": _find_person_id(request),
        "address": get_request_origin().address,
        "route": None if match is None else match.view_name,
        "method": request.method,
    }


def _find_person_id(request: Any) -> int | None:
    """Of whom the request is, if somebody has asked for them already."""
    person = request.__dict__.get("user")
    if isinstance(person, SimpleLazyObject):
        person = person.__dict__["_wrapped"]
    return None if person is empty else getattr(person, "pk", None)
