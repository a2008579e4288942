"""What the lines of a log are about, beside their words: the request and the job that this thread is at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_REQUEST: ContextVar[Any] = ContextVar("request", default=None)
_JOB: ContextVar[int | None] = ContextVar("job", default=None)


@contextmanager
def log_request(request: Any) -> Iterator[None]:
    token = _REQUEST.set(request)
    try:
        yield
    finally:
        _REQUEST.reset(token)


@contextmanager
def log_job(job_id: int) -> Iterator[None]:
    token = _JOB.set(job_id)
    try:
        yield
    finally:
        _JOB.reset(token)


def get_logged_request() -> Any:
    return _REQUEST.get()


def get_logged_job() -> int | None:
    return _JOB.get()
