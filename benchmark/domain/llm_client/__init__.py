"""Many questions to an OpenAI-compatible endpoint at once. Pure: no Django, no database.

``send_requests`` blocks. It reports what it sends and what comes back through two callbacks in the calling thread, so
that a caller can store both in a database. Keys come from the environment by the host's name and go nowhere but into
the header of a request to that host (docs/decisions/keys-by-host.md).
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
