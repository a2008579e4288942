"""Errors to Sentry, where ``SENTRY_DSN`` names one: their kind and their place in the code, and nobody's data.

Left out are the words of an error, which may quote a text or a name, the values of variables, what was sent and by
whom, and everything before the error. The id of the request leads to the line of the log that has the words.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings

from annotation.core.version import code_version
from config.operations.logs import describe_context

LEFT_OUT = "left out: see the log"
TAGS = ("request_id", "route", "job")
KEPT_FIELDS = frozenset(
    {
        "event_id",
        "timestamp",
        "level",
        "platform",
        "release",
        "environment",
        "logger",
        "sdk",
        "exception",
        "tags",
    }
)


def start_sentry() -> None:
    if not settings.SENTRY_DSN:
        return
    import sentry_sdk

    sentry_sdk.init(
        dsn=settings.SENTRY_DSN,
        release=code_version(),
        include_local_variables=False,
        include_source_context=False,
        max_request_body_size="never",
        max_breadcrumbs=0,
        auto_session_tracking=False,
        before_send=strip_event,
    )


def strip_event(event: Any, hint: Any) -> Any:
    """What is left of an event: an allow-list, so that a new version of the library adds nothing."""
    stripped = {name: value for name, value in event.items() if name in KEPT_FIELDS}
    context = describe_context()
    stripped["tags"] = {name: context[name] for name in TAGS if name in context}
    stripped["transaction"] = context.get("route", "")
    for error in (stripped.get("exception") or {}).get("values", []):
        error["value"] = LEFT_OUT
        error.pop("mechanism", None)
    record = hint.get("log_record")
    if record is not None and record.args:  # else what is to be said may stand in the words already
        stripped["logentry"] = {"message": str(record.msg)}
    return stripped
