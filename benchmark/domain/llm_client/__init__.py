"""Many questions to OpenAI-compatible endpoints at once. Pure: no Django, no database.

``send_requests`` and ``send_conversations`` block. They report what they send and what comes back through two callbacks
in the calling thread, so that a caller can store both in a database. Keys come from the environment by the host's name
and go nowhere but into the header of a request to that host (docs/decisions/keys-by-host.md).
"""

from __future__ import annotations

from benchmark.domain.llm_client.client import EndpointAway, EndpointRefuses, Outcome
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
from benchmark.domain.llm_client.sending import (
    MAX_CONCURRENCY,
    DirectedQuestion,
    send_conversations,
    send_requests,
)

__all__ = [
    "MAX_ANSWER_BYTES",
    "MAX_CONCURRENCY",
    "RESERVED",
    "ChatQuestion",
    "DirectedQuestion",
    "Endpoint",
    "EndpointAnswer",
    "EndpointAway",
    "EndpointRefuses",
    "Outcome",
    "RequestFailure",
    "RequestTotals",
    "build_body",
    "build_key_name",
    "check_endpoint",
    "find_key",
    "send_conversations",
    "send_requests",
]
