"""Sixty half-sent requests and ten posts of 600 MB, while others ask for a page: with nginx before it, and without.

    python -m tests.performance.half_sent [--seconds 20]

Starts gunicorn with two processes of eight threads and nginx, both with the shipped configurations, on loopback and on
data of their own. A third of the sixty stops in the head of a request, a third in its body, a third sends a byte a
second; who is cut comes again. Exit code 1 where what the documentation promises does not hold.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

from tests.serving import connected, proxied, served

HALVES, POSTS, POST_BYTES = 60, 10, 600_000_000
BODY = 512
LATEST_CUT, LATEST_P95 = 10.0, 1.0
START = b"POST /sign-in/ HTTP/1.1\r\nHost: localhost\r\nCookie: csrftoken=" + b"a" * 32 + b"\r\n"
FORM = START + b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n" % BODY
UPLOAD = START + b"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: %d\r\n\r\n" % POST_BYTES
PART = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n' + b"a" * 60_000
Connect = Callable[[], socket.socket]


@dataclass
class AttackResult:
    cut_after: list[float] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    refused: int = 0
    answered: list[float] = field(default_factory=list)
    failed: int = 0


def send_halves(connect: Connect, kind: int, stop: Event, seen: AttackResult) -> None:
    """Half a request again and again; after how many seconds each was cut."""
    while not stop.is_set():
        with suppress(OSError), connect() as client:
            started = time.monotonic()
            client.sendall((START, FORM + b"username=", FORM)[kind])
            _wait(client, stop, trickles=kind == 2)
            if not stop.is_set():
                seen.cut_after.append(time.monotonic() - started)


def _wait(client: socket.socket, stop: Event, *, trickles: bool) -> None:
    """Until the other side has ended the connection."""
    client.settimeout(1)
    with suppress(ConnectionError):
        while not stop.is_set():
            with suppress(TimeoutError):
                if not client.recv(65536):
                    return
            if trickles:
                client.sendall(b"a")


def post(connect: Connect, stop: Event, seen: AttackResult) -> None:
    with suppress(OSError), connect() as client:
        sent, answer = 0, b""
        with suppress(OSError):
            client.sendall(UPLOAD)
            while sent < POST_BYTES and not stop.is_set():
                client.sendall(PART)
                sent += len(PART)
        with suppress(OSError):
            answer = client.recv(65536)
        seen.sent.append(sent)
        seen.refused += answer.startswith(b"HTTP/1.1 413 ") or sent < POST_BYTES


def ask(client: Callable[[], http.client.HTTPConnection], stop: Event, seen: AttackResult) -> None:
    while not stop.is_set():
        started = time.monotonic()
        try:
            with closing(client()) as connection:
                connection.request("GET", "/sign-in/")
                status = connection.getresponse().status
            seen.answered.append(time.monotonic() - started)
            seen.failed += status != 200
        except OSError:
            seen.failed += 1
        time.sleep(0.1)


def attack(
    connect: Connect, client: Callable[[], http.client.HTTPConnection], seconds: float
) -> AttackResult:
    seen, stop = AttackResult(), Event()
    with ThreadPoolExecutor(HALVES + POSTS + 1) as pool:
        for number in range(HALVES):
            pool.submit(send_halves, connect, number % 3, stop, seen)
        time.sleep(0.5)
        for _ in range(POSTS):
            pool.submit(post, connect, stop, seen)
        pool.submit(ask, client, stop, seen)
        time.sleep(seconds)
        stop.set()
    return seen


@contextmanager
def servers(folder: Path) -> Iterator[tuple[object, object]]:
    environment = {"ASSAY_WEB_WORKERS": "2", "ASSAY_WEB_THREADS": "8", "ASSAY_READ_SECONDS": ""}
    with (
        served(folder, ALLOWED_HOSTS="localhost,127.0.0.1", **environment) as server,
        proxied(folder / "nginx", server.port) as proxy,
    ):
        yield server, proxy


def measure(folder: Path, seconds: float) -> dict[str, dict[str, float | int | None]]:
    with servers(folder) as (server, proxy):
        before, disk = server.written(), proxy.written()
        direct = attack(
            lambda: connected(server.port),
            lambda: http.client.HTTPConnection("127.0.0.1", server.port, timeout=30),
            seconds,
        )
        between = server.written()
        through = attack(proxy.connect, lambda: proxy.client(30), seconds)
        return {
            "without_proxy": summarize(direct, between - before),
            "nginx": summarize(through, server.written() - between + proxy.written() - disk),
        }


def summarize(seen: AttackResult, written: int) -> dict[str, float | int | None]:
    times = sorted(seen.answered)
    return {
        "half_sent_cut": len(seen.cut_after),
        "cut_after_at_most_s": round(max(seen.cut_after), 2) if seen.cut_after else None,
        "posts_refused": seen.refused,
        "posts_sent_at_most_bytes": max(seen.sent, default=0),
        "bytes_written": written,
        "pages": len(times),
        "pages_failed": seen.failed,
        "pages_median_s": round(statistics.median(times), 3) if times else None,
        "pages_p95_s": round(times[int(0.95 * (len(times) - 1))], 3) if times else None,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20, help="of each of the two (default 20)")
    seconds = parser.parse_args().seconds
    with TemporaryDirectory(prefix="assay-half-sent-") as folder:
        figures = measure(Path(folder), seconds)
    print(json.dumps(figures, indent=2))
    direct, through = figures["without_proxy"], figures["nginx"]
    holds = (
        (direct["cut_after_at_most_s"] or 99) <= LATEST_CUT,
        direct["posts_refused"] == through["posts_refused"] == POSTS,
        through["pages_failed"] == 0,
        (through["pages_p95_s"] or 99) < LATEST_P95,
    )
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
