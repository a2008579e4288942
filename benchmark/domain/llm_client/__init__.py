"""Asking an OpenAI-compatible endpoint many questions at once. Pure: no Django, no database.

``ask_all`` blocks; what it sends and what comes back it tells through two callbacks from the calling thread, so that a
caller can keep both in a database. Keys come from the environment by the host's name and go nowhere but into the
header of a request to that host (docs/decisions/keys-by-host.md).
"""

from __future__ import annotations

from benchmark.domain.llm_client.client import EndpointAway, EndpointRefuses, send_requests
from benchmark.domain.llm_client.keys import check_endpoint, key_for, key_name
from benchmark.domain.llm_client.protocol import (
    MOST_BYTES,
    RESERVED,
    ChatQuestion,
    Endpoint,
    EndpointAnswer,
    RequestFailure,
    RequestTotals,
    build_body,
)

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
    "send_requests",
    "build_body",
    "check_endpoint",
    "key_for",
    "key_name",
]
