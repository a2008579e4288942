"""A real receiver of webhooks on this machine, which can be away, slow or unwilling; and a clock that is moved on."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from django.utils import timezone

from tests.serving import free_port


@dataclass
class ReceivedMessage:
    headers: dict[str, str]
    body: bytes

    @property
    def message_id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def content(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.body)
        return content


@dataclass
class Receiver:
    """``status`` is its answer; where ``holds`` is set it answers only once ``released`` is."""

    port: int = field(default_factory=free_port)
    status: int = 204
    answer_headers: dict[str, str] = field(default_factory=dict)
    answer_body: bytes = b""
    holds: bool = False
    messages: list[ReceivedMessage] = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    _server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def ids(self) -> list[str]:
        return [message.message_id for message in self.messages]

    def start(self) -> None:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.messages.append(ReceivedMessage(headers, body))
                receiver.arrived.set()
                if receiver.holds:
                    receiver.released.wait(30)
                self.send_response(receiver.status)
                for name, value in receiver.answer_headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(receiver.answer_body)))
                self.end_headers()
                self.wfile.write(receiver.answer_body)

            def log_message(self, *_words: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self._server.serve_forever, args=[0.02], daemon=True).start()

    def stop(self) -> None:
        """Nobody is there any more: connections are refused."""
        if self._server is not None:
            self.released.set()
            self._server.shutdown()
            self._server.server_close()
            self._server = None


@contextmanager
def run_receiver(**options: Any) -> Iterator[Receiver]:
    receiver = Receiver(**options)
    receiver.start()
    try:
        yield receiver
    finally:
        receiver.stop()


class MovedClock:
    """The time of senders in a test: it stands still until it is moved on."""

    def __init__(self) -> None:
        self.now = timezone.now() + timedelta(seconds=1)

    def __call__(self) -> datetime:
        return self.now

    def move(self, **time: float) -> None:
        self.now += timedelta(**time)
