"""The requests to one endpoint, sent by an event loop in its own thread; what comes of them goes into a queue."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from math import inf
from queue import SimpleQueue
from types import TracebackType
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from annotation.core.errors import N_, AssayError
from annotation.core.tracing import SpanKind, open_span
from benchmark.domain.llm_client import keys, protocol, retry
from benchmark.domain.llm_client.protocol import (
    ChatQuestion,
    Endpoint,
    EndpointAnswer,
    RequestFailure,
    RequestTotals,
)
from benchmark.domain.llm_client.retry import EndpointPace, RetryLater

BEAT = 0.5
"""Seconds after which whoever waits looks again."""
CONNECT_SECONDS = 10.0
MAX_REFUSALS = 20
"""After so many refusals in a row that are about no single question, nothing more is sent."""
REFUSALS = frozenset({401, 403, 404})
TROUBLES = frozenset({408, 409})
GATEWAYS = frozenset({502, 503, 504})
Outcome = EndpointAnswer | RequestFailure
# It would write a line for every request.
logging.getLogger("httpx").setLevel(logging.WARNING)


class EndpointAway(AssayError):
    """The endpoint has not answered for longer than the patience; every open question is a RequestFailure."""

    code = "endpoint_away"


class EndpointRefuses(AssayError):
    """It refuses everything: a wrong key, a wrong address, an unknown model."""

    code = "endpoint_refuses"


@dataclass
class _PendingQuestion:
    """A question on its way: the requests that were sent for it, and the tries that these cost."""

    question: ChatQuestion
    attempts: int = 0
    spent: float = 0.0


class RequestLoop:
    """The thread and its event loop. The methods without an underscore are for the caller's thread.

    What came of each question goes into ``outcomes``, and None where there is room for more questions.
    """

    def __init__(
        self, endpoint: Endpoint, outcomes: SimpleQueue[Outcome | None], tries: int, patience: float
    ) -> None:
        self._url = keys.check_endpoint(endpoint.url)
        self._attributes = {
            "http.request.method": "POST",
            "server.address": urlsplit(self._url).hostname or "",
        }
        self._key = keys.find_key(self._url)
        self._endpoint, self._tries, self._patience = endpoint, tries, patience
        # Each question on its way has its own client: a shared one would look through all its connections for each of
        # them at every request, which at 64 at once takes longer than the requests.
        self._new_client = partial(_build_client, self._url, self._key, _build_ssl_context(self._url))
        self._idle = [self._new_client()]
        self._pace = EndpointPace(time.monotonic())
        self._outcomes = outcomes
        self._requests = self._retries = self._limited = self._at_gate = self._refused = 0
        self._last_miss = ""
        self.refusal: AssayError | None = None
        self._gate = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="asking", daemon=True)

    def __enter__(self) -> RequestLoop:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def queue_questions(self, questions: Sequence[ChatQuestion]) -> None:
        self._loop.call_soon_threadsafe(self._start_tasks, list(questions))

    def count_room(self, free: int) -> int:
        """How many more questions to begin with; what would only wait at the gate waits with the caller."""
        return max(0, min(free, self._pace.count_ready(time.monotonic(), free) - self._at_gate))

    def read_totals(self) -> RequestTotals:
        pause = self._pace.find_pause(time.monotonic())
        return RequestTotals(self._requests, self._retries, self._pace.waited, self._limited, pause)

    # In the thread.

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            for task in self._tasks:
                task.cancel()
            self._loop.run_until_complete(self._close())
            self._loop.close()

    async def _close(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(client.aclose() for client in self._idle))

    def _start_tasks(self, questions: Sequence[ChatQuestion]) -> None:
        for question in questions:
            self._at_gate += 1
            task = self._loop.create_task(self._settle_question(question))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _settle_question(self, question: ChatQuestion) -> None:
        pending = _PendingQuestion(question)
        try:
            outcome: Outcome = await self._ask_question(pending)
        except Exception as error:  # a mistake of ours must not leave the caller waiting
            words = self._hide_key(f"{type(error).__name__}: {error}")
            outcome = RequestFailure(question.key, None, words, pending.attempts)
        self._outcomes.put(outcome)

    async def _ask_question(self, pending: _PendingQuestion) -> Outcome:
        def is_spent(_state: RetryCallState) -> bool:
            return pending.spent > self._tries - 1e-6 or self.refusal is not None

        try:
            async for attempt in AsyncRetrying(
                retry=retry_if_exception_type(RetryLater),
                stop=is_spent,
                wait=retry.compute_backoff,
                reraise=True,
            ):
                with attempt:
                    return await self._try_once(pending)
        except RetryLater as trouble:
            words = self._hide_key(trouble.error)
            return RequestFailure(pending.question.key, trouble.status, words, pending.attempts)
        raise AssertionError("tenacity ends with a value or an error")

    async def _try_once(self, pending: _PendingQuestion) -> Outcome:
        """Send one request. Raises RetryLater where another one may help."""
        await self._pass_gate(pending)
        pending.attempts += 1
        self._requests += 1
        self._retries += pending.attempts > 1
        try:
            return await self._send_request(pending)
        except RetryLater as trouble:
            pending.spent += trouble.cost
            raise

    async def _pass_gate(self, pending: _PendingQuestion) -> None:
        """Wait for the gate, which lets questions through one after another in the order in which they came."""
        self._at_gate += pending.attempts > 0
        try:
            async with self._gate:
                while (
                    self.refusal is None and (seconds := self._pace.request_departure(time.monotonic())) > 0
                ):
                    if self._pace.is_given_up(time.monotonic(), self._patience):
                        self._mark_away()
                    await asyncio.sleep(min(seconds, BEAT))
        finally:
            self._at_gate -= 1
            if self._pace.top < inf or self._pace.away_since is not None:
                self._outcomes.put(None)
        if self.refusal is not None:
            raise RetryLater(self._last_miss or str(self.refusal))

    async def _send_request(self, pending: _PendingQuestion) -> Outcome:
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._endpoint.timeout):
                status, headers, body = await self._post_body(
                    protocol.build_body(self._endpoint, pending.question)
                )
        except httpx.TransportError as error:
            raise self._record_miss(began, f"{type(error).__name__}: {error}") from None
        except (TimeoutError, httpx.RequestError) as error:
            self._pace.record_stall()
            stalled = isinstance(error, TimeoutError)
            words = (
                f"no answer within {self._endpoint.timeout:g} s"
                if stalled
                else f"{type(error).__name__}: {error}"
            )
            raise RetryLater(words) from None
        except BaseException:
            self._pace.record_stall()
            raise
        if status == 200 and body is not None:
            return self._build_answer(pending, body, began)
        return self._handle_error(pending, status, headers, body, began)

    async def _post_body(self, body: bytes) -> tuple[int, httpx.Headers, bytes | None]:
        """Status, headers and body; None for a body that is longer than an answer may be."""
        client = self._idle.pop() if self._idle else self._new_client()
        try:
            with open_span("POST chat/completions", SpanKind.CLIENT, self._attributes) as span:
                async with client.stream("POST", f"{self._url}/chat/completions", content=body) as response:
                    span.set_attributes({"http.response.status_code": response.status_code})
                    read = bytearray()
                    async for part in response.aiter_bytes():
                        read += part
                        if len(read) > protocol.MAX_ANSWER_BYTES:
                            return response.status_code, response.headers, None
                    return response.status_code, response.headers, bytes(read)
        finally:
            self._idle.append(client)

    def _build_answer(self, pending: _PendingQuestion, body: bytes, began: float) -> EndpointAnswer:
        now = time.monotonic()
        self._pace.record_answer(now)
        self._refused = 0
        hide = partial(keys.hide_key, key=self._key, min_length=keys.MIN_HIDDEN_CHARACTERS)
        try:
            completion = protocol.parse_answer(body, hide)
        except protocol.MalformedAnswer as error:
            raise RetryLater(str(error), status=200) from None
        return EndpointAnswer(
            key=pending.question.key,
            text=completion.text,
            served_model=completion.served_model,
            fingerprint=completion.fingerprint,
            finish_reason=completion.finish_reason,
            prompt_tokens=completion.prompt_tokens,
            completion_tokens=completion.completion_tokens,
            seconds=now - began,
            attempts=pending.attempts,
            answered_at=datetime.now(UTC),
            replaced=completion.replaced,
        )

    def _handle_error(
        self, pending: _PendingQuestion, status: int, headers: httpx.Headers, body: bytes | None, began: float
    ) -> RequestFailure:
        """Of a response that is no answer: a RequestFailure where a retry is of no use; raises RetryLater else."""
        now = time.monotonic()
        words, code = protocol.parse_error(body or b"", partial(keys.hide_key, key=self._key))
        error = f"HTTP {status}" + (f": {words}" if words else "")
        if status == 429:
            self._limited += 1
            self._pace.record_limit(began, now, retry.parse_retry_after(headers))
            if code not in protocol.OUT_OF_QUOTA:
                raise RetryLater(error, status=status, cost=1 / retry.LIMITED_TRIES, held=True)
        elif status in GATEWAYS:
            raise self._record_miss(began, error, status, retry.parse_retry_after(headers))
        else:
            self._pace.record_answer(now)
        if status >= 500 or status in TROUBLES:
            raise RetryLater(error, status=status)
        if status == 200:
            error = f"the answer is longer than {protocol.MAX_ANSWER_BYTES} bytes"
        elif 300 <= status < 400:
            error += "; redirects are not followed, name the address itself"
        error = self._hide_key(error)
        self._count_refusal(status, error)
        return RequestFailure(pending.question.key, status, error, pending.attempts)

    def _record_miss(
        self, began: float, error: str, status: int | None = None, pause: float | None = None
    ) -> RetryLater:
        """It costs a try only where other requests were answered meanwhile; else the endpoint is away, and all wait."""
        is_answering = self._pace.answered_at is not None and self._pace.answered_at >= began
        self._pace.record_miss(began, time.monotonic(), pause)
        away = self._pace.away_since is not None
        self._last_miss = error
        return RetryLater(error, status=status, cost=1.0 if is_answering or not away else 0.0, held=away)

    def _count_refusal(self, status: int, error: str) -> None:
        self._refused = self._refused + 1 if status in REFUSALS else 0
        if self._refused >= MAX_REFUSALS and self.refusal is None:
            self.refusal = EndpointRefuses(
                N_(
                    "The endpoint refuses everything ({why}): fix the address, the model or the key, then go on."
                ),
                why=error,
            )

    def _mark_away(self) -> None:
        self.refusal = self.refusal or EndpointAway(
            N_("The endpoint has not answered for a while ({why}): start it, then go on."),
            why=self._hide_key(self._last_miss),
        )

    def _hide_key(self, words: str) -> str:
        return protocol.shorten(keys.hide_key(words, self._key), 2 * protocol.MAX_ERROR_CHARACTERS)


def _build_ssl_context(url: str) -> ssl.SSLContext:
    """It trusts the certificates that httpx brings, which take a while to load; over plain HTTP none."""
    return httpx.create_ssl_context() if url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _build_client(url: str, key: str | None, verify: ssl.SSLContext) -> httpx.AsyncClient:
    headers = {
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
    }
    if key:
        headers["Authorization"] = f"Bearer {key}"
    return httpx.AsyncClient(
        headers=headers,
        # Nothing of the environment but what is named here: no .netrc, no proxy that could read a request.
        trust_env=False,
        proxy=_find_proxy(url),
        verify=verify,
        follow_redirects=False,
        timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=60),
    )


def _find_proxy(url: str) -> str | None:
    """``HTTPS_PROXY`` for https alone, which it can pass on but not read; ``NO_PROXY`` is heeded."""
    proxy = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")
    parts = urlsplit(url)
    host = parts.hostname or ""
    if (
        not proxy
        or parts.scheme != "https"
        or keys.is_loopback(host)
        or proxy_bypass_environment(parts.netloc)
    ):
        return None
    return proxy
