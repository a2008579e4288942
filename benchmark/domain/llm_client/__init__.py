"""Asking an OpenAI-compatible endpoint many questions at once. Pure: no Django, no database.

``ask_all`` blocks; what it sends and what comes back it tells through two callbacks from the calling thread, so that a
caller can keep both in a database. Keys come from the environment by the host's name and go nowhere but into the
header of a request to that host (docs/decisions/keys-by-host.md).
"""

from __future__ import annotations

from benchmark.domain.llm_client.client import EndpointAway, EndpointRefuses, send_requests
from benchmark.domain.llm_client.keys import build_key_name, check_endpoint, find_key
from benchmark.domain.llm_client.protocol import (
    MAX_ANSWER_BYTES,
    RESERVED,
    ChatQuestion,
    Endpoint,
    EndpointAnswer,
    RequestFailure,
    RequestTotals,
    build_body,
)

__all__ = [
    "MAX_ANSWER_BYTES",
    "RESERVED",
    "ChatQuestion",
    "Endpoint",
    "EndpointAnswer",
    "EndpointAway",
    "EndpointRefuses",
    "RequestFailure",
    "RequestTotals",
    "build_body",
    "build_key_name",
    "check_endpoint",
    "find_key",
    "send_requests",
]
