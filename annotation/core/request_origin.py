"""From where the request under way came: its address and its browser, for what is written down of acts.

A middleware sets it for each request (config/operations/requests.py). What no request caused, such as a job, has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    address: str = ""
    agent: str = ""


_NONE = RequestOrigin()
_origin: ContextVar[RequestOrigin] = ContextVar("request_origin", default=_NONE)


def get_request_origin() -> RequestOrigin:
    return _origin.get()


@contextmanager
def set_request_origin(origin: RequestOrigin) -> Iterator[None]:
    token = _origin.set(origin)
    try:
        yield
    finally:
        _origin.reset(token)
