"""What goes to an endpoint and what comes back.

The words of the protocol: the body of a request, and what an answer's body says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
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

    def add(self, other: RequestTotals) -> RequestTotals:
        """Both together; ``other`` is the later one, and says what holds everything back now."""
        return RequestTotals(
            self.requests + other.requests,
            self.retries + other.retries,
            self.waited + other.waited,
            self.limited + other.limited,
            other.pause,
        )


MAX_ANSWER_BYTES = 8 * 1024 * 1024
"""An answer's body is read up to here; what is longer is refused."""
MAX_TOKENS = 2**31 - 1
MAX_ERROR_CHARACTERS = 500
MAX_WORD_CHARACTERS = {"model": 200, "fingerprint": 200, "finish_reason": 50}
RESERVED = frozenset({"model", "messages", "stream", "stream_options", "n"})
"""Settings that are not the caller's: one whole answer to each question is what this is about."""
NO_HALVES = str.maketrans({0: "\ufffd"} | dict.fromkeys(range(0xD800, 0xE000), "\ufffd"))
CUT = "length"
"""The finish reason of an answer that was ended by the limit of tokens."""
OUT_OF_QUOTA = frozenset({"insufficient_quota", "billing_hard_limit_reached"})


class MalformedAnswer(ValueError):
    """A body that is no answer; the message says what is wrong with it."""


@dataclass(frozen=True)
class Completion:
    """What a body says. ``replaced`` characters of the text could not be kept as they were."""

    text: str
    replaced: int
    served_model: str
    fingerprint: str
    finish_reason: str
    prompt_tokens: int | None
    completion_tokens: int | None


def build_body(endpoint: Endpoint, question: ChatQuestion) -> bytes:
    """The request as JSON in ASCII, whatever script the messages are in."""
    settings = {name: value for name, value in endpoint.settings.items() if name not in RESERVED}
    body = {
        "model": endpoint.model,
        "messages": [dict(message) for message in question.messages],
        **settings,
    }
    return json.dumps(body, allow_nan=False).encode("ascii")


Hide = Callable[[str], str]
"""Takes a key out of a text. It comes before any cut: half a key would no more be found."""


def _keep_text(text: str) -> str:
    return text


def parse_answer(body: bytes, hide: Hide = _keep_text) -> Completion:
    """What the first choice says: its content, or its refusal where that is all. Malformed else."""
    answer = _parse_json(body)
    choices = answer.get("choices") if isinstance(answer, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise MalformedAnswer(f"no choices in the answer{_describe_error(answer, hide)}")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise MalformedAnswer("no message in the answer's first choice")
    text, replaced = replace_unstorable(hide(_read_content(message)))
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Completion(
        text=text,
        replaced=replaced,
        served_model=_read_word(answer.get("model"), "model", hide),
        fingerprint=_read_word(answer.get("system_fingerprint"), "fingerprint", hide),
        finish_reason=_read_word(choices[0].get("finish_reason"), "finish_reason", hide),
        prompt_tokens=_read_count(usage.get("prompt_tokens")),
        completion_tokens=_read_count(usage.get("completion_tokens")),
    )


def parse_error(body: bytes, hide: Hide = _keep_text) -> tuple[str, str]:
    """The text of an error's body, at most ``MAX_ERROR_CHARACTERS`` long, and its code; "" where there is none."""
    try:
        answer = _parse_json(body)
    except MalformedAnswer:
        return shorten(hide(body.decode("utf-8", "replace"))), ""
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    if isinstance(error, dict):
        words = error.get("message") or error.get("detail") or ""
        text = words if isinstance(words, str) and words else json.dumps(error)
        return shorten(hide(text)), _read_word(error.get("code"), "model", hide)
    return shorten(hide(error if isinstance(error, str) else json.dumps(error))), ""


def replace_unstorable(text: str) -> tuple[str, int]:
    """The text as every database keeps it, and how many characters had to be replaced for it.

    NUL and halves of surrogate pairs can be written in JSON, but PostgreSQL keeps no NUL, and UTF-8 no halves.
    """
    storable = text.translate(NO_HALVES)
    return storable, sum(
        old != new for old, new in zip(text, storable, strict=True)
    ) if storable != text else 0


def _parse_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedAnswer("the answer is no JSON") from error


def _read_content(message: Mapping[str, Any]) -> str:
    """Text, parts of text, or nothing at all (null), as after a call of a tool; a refusal is text too."""
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    if content is not None and not isinstance(content, str):
        raise MalformedAnswer("the answer's content is no text")
    refusal = message.get("refusal")
    return content or (refusal if isinstance(refusal, str) else "")


def _read_word(value: Any, kind: str, hide: Hide) -> str:
    return replace_unstorable(hide(value))[0][: MAX_WORD_CHARACTERS[kind]] if isinstance(value, str) else ""


def _read_count(value: Any) -> int | None:
    """Whole and not below 0, as some endpoints write 12.0 for 12; None for what is no count of tokens."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= MAX_TOKENS and int(value) == value else None


def _describe_error(answer: Any, hide: Hide) -> str:
    """Some endpoints say 200 and an error."""
    if isinstance(answer, dict) and answer.get("error"):
        return ": " + parse_error(json.dumps(answer).encode(), hide)[0]
    return ""


def shorten(words: str, most: int = MAX_ERROR_CHARACTERS) -> str:
    """In one line of at most so many characters."""
    words = " ".join(replace_unstorable(words)[0].split())
    return words if len(words) <= most else words[: most - 1] + "…"
