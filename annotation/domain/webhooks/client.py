"""One request to a receiver: to an address that was checked, within a time limit, without redirects. Pure."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

import httpx

from annotation.core.errors import AssayError
from annotation.domain.webhooks.addresses import AddressRules, choose_address, read_target

T = TypeVar("T")
TIMEOUT_SECONDS = 15.0
"""For all of it: the name, the connection, the request and the answer."""
MAX_ANSWER_BYTES = 4096
"""So much of an answer is read, and nothing of it is kept: only its status counts."""
MAX_DETAIL_CHARACTERS = 200
AGENT = "Assay-Webhooks/1"
# It would write a line for every request.
logging.getLogger("httpx").setLevel(logging.WARNING)


class DeliveryTrouble(StrEnum):
    """Why an attempt failed; templates have the words."""

    STATUS = "status"
    REDIRECT = "redirect"
    TIMEOUT = "timeout"
    NAME = "name"
    ADDRESS = "address"
    CERTIFICATE = "certificate"
    CONNECTION = "connection"
    KEY = "key"


@dataclass(frozen=True)
class WebhookAnswer:
    """What came of a request. ``trouble`` is None where it was accepted; ``status`` None where none came."""

    seconds: float
    status: int | None = None
    trouble: DeliveryTrouble | None = None
    detail: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


def run_requests(requests: Coroutine[Any, Any, T]) -> T:
    """Wait for them in a thread of their own, since the caller's may run a loop already."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, asyncio.run, requests).result()


def build_context() -> ssl.SSLContext:
    """The certificates that are trusted take a while to load: once for many requests."""
    return httpx.create_ssl_context()


async def post_message(
    url: str, headers: Mapping[str, str], body: bytes, rules: AddressRules, context: ssl.SSLContext
) -> WebhookAnswer:
    """Send it once. Whatever goes wrong is in the answer."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            status, answered = await _post(url, headers, body, rules, context)
    except (AssayError, OSError, ValueError, httpx.HTTPError, httpx.InvalidURL) as error:
        trouble = _find_trouble(error)
        # Of a refused address it is not said where the host is: that would be a look into the network.
        is_plain = trouble not in {DeliveryTrouble.ADDRESS, DeliveryTrouble.TIMEOUT}
        words = f"{type(error).__name__}: {error}" if is_plain else ""
        detail = " ".join(words.split())[:MAX_DETAIL_CHARACTERS]
        return WebhookAnswer(time.monotonic() - began, None, trouble, detail)
    seconds = time.monotonic() - began
    if 200 <= status < 300:
        return WebhookAnswer(seconds, status)
    trouble = DeliveryTrouble.REDIRECT if 300 <= status < 400 else DeliveryTrouble.STATUS
    return WebhookAnswer(seconds, status, trouble, headers=answered)


def _find_trouble(error: Exception) -> DeliveryTrouble:
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        return DeliveryTrouble.TIMEOUT
    if isinstance(error, AssayError):
        return DeliveryTrouble.ADDRESS
    if not isinstance(error, httpx.HTTPError):  # of the resolver
        return DeliveryTrouble.NAME
    is_refused = "CERTIFICATE" in str(error) or "SSL" in str(error)
    return DeliveryTrouble.CERTIFICATE if is_refused else DeliveryTrouble.CONNECTION


async def _post(
    url: str, headers: Mapping[str, str], body: bytes, rules: AddressRules, context: ssl.SSLContext
) -> tuple[int, dict[str, str]]:
    target = read_target(url, rules)
    address = choose_address(await _resolve(target.host, target.port), rules)
    sent = {"Host": target.netloc, "User-Agent": AGENT, "Accept-Encoding": "identity", **headers}
    # Nothing of the environment: a proxy would resolve the name anew.
    client = httpx.AsyncClient(
        trust_env=False, follow_redirects=False, verify=context, timeout=TIMEOUT_SECONDS
    )
    # The certificate must be the host's, though the connection is made to a number.
    extensions = {"sni_hostname": target.host}
    async with (
        client,
        client.stream(
            "POST", target.pin(address), content=body, headers=sent, extensions=extensions
        ) as response,
    ):
        size = 0
        async for part in response.aiter_raw():
            size += len(part)
            if size > MAX_ANSWER_BYTES:
                break
        return response.status_code, {"retry-after": response.headers.get("retry-after", "")}


async def _resolve(host: str, port: int) -> list[str]:
    """All addresses of the host, those first that the system would take first."""
    loop = asyncio.get_running_loop()
    entries = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))
