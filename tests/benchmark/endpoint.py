"""A real OpenAI-compatible endpoint on loopback, that does what its policy says and remembers what it was asked.

    with local_endpoint(policy) as url:
        ...  # url is the base, as in http://127.0.0.1:41234/v1; url.requests what came in

``policy(messages, request)`` answers with a text; ``(status, headers, body)``; or the seconds to stall for before the
connection is cut. It runs in the endpoint's thread, one request after another.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from django.core.management import call_command

Messages = Sequence[Mapping[str, str]]
Reply = str | float | tuple[int, Mapping[str, str], Any]
Policy = Callable[[Messages, Mapping[str, Any]], Reply]
SERVED = "served-model-2026"
FINGERPRINT = "fp_test"


@dataclass(frozen=True)
class Asked:
    """One request. ``status`` is what it got, 0 for a stall; ``at`` seconds of the monotonic clock."""

    at: float
    prompt: str
    status: int
    request: Mapping[str, Any]
    headers: Mapping[str, str]


class Address(str):
    """The endpoint's base address, and the endpoint behind it."""

    requests: list[Asked]
    delivered: list[str]
    _endpoint: _Server

    @property
    def answered(self) -> list[str]:
        """The prompts that got a 200, in order, each as often as it did."""
        return [request.prompt for request in self.requests if request.status == 200]

    def down(self) -> None:
        """Stop listening, and cut every connection."""
        self._endpoint.call(self._endpoint.close())

    def up(self) -> None:
        """Listen again, at the same address."""
        self._endpoint.call(self._endpoint.listen())


def run_endpoint_command(name: str, *arguments: str) -> tuple[dict[str, Any], int]:
    """What the command prints with ``--json``, and its exit code."""
    out, code = StringIO(), 0
    try:
        call_command(name, *arguments, "--json", stdout=out, stderr=StringIO())
    except SystemExit as error:
        code = int(error.code or 0)
    return (json.loads(out.getvalue()) if out.getvalue() else {}), code


def build_answer_body(text: str | None, **changes: Any) -> dict[str, Any]:
    """The body of an answer."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 7, "completion_tokens": len((text or "").split())}
    body = {"id": "x", "object": "chat.completion", "model": SERVED, "system_fingerprint": FINGERPRINT}
    return body | {"choices": [choice], "usage": usage} | changes


@dataclass
class Bucket:
    """A token bucket: ``rate`` requests a second, ``burst`` at once."""

    rate: float
    burst: float
    level: float = field(init=False)
    at: float = field(init=False)

    def __post_init__(self) -> None:
        self.level, self.at = self.burst, time.monotonic()

    def take(self) -> float | None:
        """None where it lets one through; else the seconds until it would."""
        now = time.monotonic()
        self.level = min(self.burst, self.level + (now - self.at) * self.rate)
        self.at = now
        if self.level >= 1:
            self.level -= 1
            return None
        return (1 - self.level) / self.rate


def troubled(
    policy: Policy,
    *,
    fails: float = 0.05,
    stalls: float = 0.01,
    stall: float = 60.0,
    bucket: Bucket | None = None,
    unit: float = 1.0,
    seed: int = 0,
) -> Policy:
    """The same, but a share fails with 500 or 503, a share stalls, and a bucket's limit is answered with 429.

    ``unit`` is what the limit says to wait in multiples of, where a real one says whole seconds.
    """
    luck = random.Random(seed)

    def answer(messages: Messages, request: Mapping[str, Any]) -> Reply:
        wait = bucket.take() if bucket else None
        if wait is not None:
            return (
                429,
                {"Retry-After": str((int(wait / unit) + 1) * unit)},
                {"error": {"message": "slow down"}},
            )
        drawn = luck.random()
        if drawn < fails:
            return luck.choice([500, 503]), {}, {"error": {"message": "something broke"}}
        return stall if drawn < fails + stalls else policy(messages, request)

    return answer


class _Server:
    def __init__(self, policy: Policy, latency: float) -> None:
        self.policy, self.latency = policy, latency
        self.requests: list[Asked] = []
        self.delivered: list[str] = []
        self.port = 0
        self._server: asyncio.Server | None = None
        self._at_work: set[asyncio.Task[None]] = set()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="endpoint", daemon=True)

    def call(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout=10)

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in list(self._at_work):
            task.cancel()
        await asyncio.gather(*self._at_work, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._at_work.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._answer_request(reader, writer):
                pass
        self._at_work.discard(task)
        writer.transport.abort()

    async def _answer_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])
        }
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if head[0] != "POST /v1/chat/completions HTTP/1.1":
            reply: Reply = (404, {}, {"error": {"message": "no such address", "line": head[0]}})
            request: Mapping[str, Any] = {}
        else:
            request = json.loads(body)
            reply = self.policy(request["messages"], request)
        messages = request.get("messages") or [{"content": ""}]
        status, more, answer = (
            (200, {}, build_answer_body(reply)) if isinstance(reply, str) else _as_tuple(reply)
        )
        prompt = messages[-1]["content"]
        self.requests.append(Asked(time.monotonic(), prompt, status, request, headers))
        if status == 0:
            await asyncio.sleep(float(reply))  # type: ignore[arg-type]
            return False
        if self.latency and status == 200:
            await asyncio.sleep(self.latency)
        content = answer if isinstance(answer, bytes) else _text(answer).encode("utf-8", "surrogatepass")
        lines = {"Content-Type": "application/json", "Content-Length": str(len(content)), **more}
        start = f"HTTP/1.1 {status} X\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        writer.write(start.encode("latin-1") + b"\r\n" + content)
        await writer.drain()
        if status == 200:
            self.delivered.append(prompt)
        return True


def _as_tuple(reply: float | tuple[int, Mapping[str, str], Any]) -> tuple[int, Mapping[str, str], Any]:
    return reply if isinstance(reply, tuple) else (0, {}, b"")


def _text(body: Any) -> str:
    return body if isinstance(body, str) else json.dumps(body)


@contextmanager
def local_endpoint(policy: Policy, *, latency: float = 0.0) -> Iterator[Address]:
    """Serve until the block ends. ``latency`` are seconds that an answer takes."""
    server = _Server(policy, latency)
    server.thread.start()
    server.call(server.listen())
    url = Address(f"http://127.0.0.1:{server.port}/v1")
    url.requests, url.delivered, url._endpoint = server.requests, server.delivered, server
    try:
        yield url
    finally:
        server.call(server.close())
        server.loop.call_soon_threadsafe(server.loop.stop)
        server.thread.join()
        server.loop.close()
