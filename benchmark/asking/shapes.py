"""What goes to an endpoint and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Endpoint:
    """``url`` is the base, as in ``http://127.0.0.1:8000/v1``; ``settings`` stand in every request beside the messages.

    ``timeout`` is seconds from sending a request to the last byte of its answer.
    """

    url: str
    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    timeout: float = 120


@dataclass(frozen=True)
class ChatQuestion:
    """``messages`` are ``{"role": "system" | "user" | "assistant", "content": ..}``; ``key`` is the caller's own."""

    key: int
    messages: tuple[Mapping[str, str], ...]


@dataclass(frozen=True)
class EndpointAnswer:
    """``text`` is as the endpoint gave it, but NUL and halves of surrogate pairs are U+FFFD: no database keeps them.

    ``replaced`` counts these. ``seconds`` is how long the request took that was answered, ``attempts`` how many were
    sent. ``served_model`` and ``fingerprint`` are what the endpoint said of itself, "" where it said nothing.
    """

    key: int
    text: str
    served_model: str
    fingerprint: str
    finish_reason: str
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float
    attempts: int
    answered_at: datetime
    replaced: int = 0


@dataclass(frozen=True)
class RequestFailure:
    """``status`` is the last HTTP status; None where there was none, as for a time-out. ``error`` is English."""

    key: int
    status: int | None
    error: str
    attempts: int


@dataclass(frozen=True)
class RequestTotals:
    """Running totals. ``requests`` were sent, ``retries`` of them not for the first time, ``limited`` answered by 429.

    ``waited`` is for how many seconds nothing was sent because of a limit or an endpoint that was away; ``pause`` says
    which of the two holds everything back now: "limited", "away", or "" for neither.
    """

    requests: int = 0
    retries: int = 0
    waited: float = 0.0
    limited: int = 0
    pause: str = ""
