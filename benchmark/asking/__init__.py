"""Asking an OpenAI-compatible endpoint many questions at once. Pure: no Django, no database.

``ask_all`` blocks; what it sends and what comes back it tells through two callbacks from the calling thread, so that a
caller can keep both in a database. Keys come from the environment by the host's name and go nowhere but into the
header of a request to that host (docs/decisions/keys-by-host.md).
"""

from __future__ import annotations

from benchmark.asking.client import EndpointAway, EndpointRefuses, ask_all
from benchmark.asking.keys import check_endpoint, key_for, key_name
from benchmark.asking.shapes import EndpointAnswer, Endpoint, RequestFailure, ChatQuestion, RequestTotals
from benchmark.asking.wire import MOST_BYTES, RESERVED, body_of

__all__ = [
    "MOST_BYTES",
    "RESERVED",
    "EndpointAnswer",
    "Endpoint",
    "EndpointAway",
    "EndpointRefuses",
    "RequestFailure",
    "ChatQuestion",
    "RequestTotals",
    "ask_all",
    "body_of",
    "check_endpoint",
    "key_for",
    "key_name",
]
