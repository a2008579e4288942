"""gunicorn's threaded worker, with an end to waiting for what a client does not send.

Gunicorn gives a connection to a thread as soon as it is there, and that thread waits for the rest of the request
without a limit: as many half-sent requests as there are threads, and nobody is answered. Here the worker's own loop
gathers the head of a request (request line and headers), which holds no thread, and a body must keep coming. Nor had it
an end to waiting for a client that does not read its answer.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from errno import EAGAIN, ECONNABORTED, EMFILE, ENFILE, EWOULDBLOCK
from functools import partial
from math import inf
from selectors import EVENT_READ
from time import monotonic, sleep
from typing import Any

from gunicorn.http.errors import NoMoreData
from gunicorn.http.parser import RequestParser
from gunicorn.http.unreader import SocketUnreader
from gunicorn.workers.gthread import STOP_KEEPALIVE_LINGER, TConn, ThreadWorker

from config.settings import READ_RATE, READ_SECONDS, SEND_SECONDS

MAX_HEAD = 64 * 1024
"""Bytes that are gathered; gunicorn's parser then says what is wrong with more."""
MAX_DRAIN = 64 * 1024
"""Bytes that are read and thrown away after the last answer, so that the client reads it before the connection ends."""
MIN_WAIT = 0.01
"""Seconds; what a client sent while its request waited for a thread lies in the socket already."""
USER_TIMEOUT = getattr(socket, "TCP_USER_TIMEOUT", None)
"""An option of Linux: who takes none of what is sent to them loses the connection."""


class PacedUnreader(SocketUnreader):  # type: ignore[misc]
    """Reads while data keep coming: each byte buys a little time, and never more than READ_SECONDS from now."""

    deadline = inf

    def chunk(self, size_hint: int | None = None) -> bytes:
        usual = self.sock.gettimeout()
        self.sock.settimeout(min(max(MIN_WAIT, self.deadline - monotonic()), usual or inf))
        try:
            data: bytes = super().chunk(size_hint)
        except TimeoutError as error:
            raise NoMoreData(b"") from error
        finally:
            self.sock.settimeout(usual)
        self.deadline = min(self.deadline + len(data) / READ_RATE, monotonic() + READ_SECONDS)
        return data


class PacedParser(RequestParser):  # type: ignore[misc]
    def __init__(self, cfg: Any, client: socket.socket, address: Any) -> None:
        super().__init__(cfg, client, address)
        self.unreader = PacedUnreader(client)

    def finish_body(self, deadline: float | None = None, max_bytes: int | None = MAX_DRAIN) -> bool:
        """Throw away what nobody read of the body, if it is there; for more than that the thread does not wait."""
        return bool(super().finish_body(monotonic() + MIN_WAIT, max_bytes))


class Connection(TConn):  # type: ignore[misc]
    """``timeout`` is when the worker's loop gives it up; ``head`` what it has gathered by now."""

    def __init__(self, worker: DeadlineWorker, client: socket.socket, address: Any, server: Any) -> None:
        super().__init__(worker.cfg, client, address, server)
        self.worker = worker
        self.parser = PacedParser(worker.cfg, client, address)
        self.head = bytearray()
        self.drained = 0

    @property
    def has_head(self) -> bool:
        """Whether a thread need not wait for the head."""
        return b"\r\n\r\n" in self.head or len(self.head) >= MAX_HEAD

    def begin(self) -> None:
        """Give the gathered head to the parser; from now on the rest of the request must keep coming."""
        self.init()
        self.parser.unreader.unread(bytes(self.head))
        self.parser.unreader.deadline = self.timeout
        self.head.clear()

    def close(self, graceful: bool = False) -> None:
        if graceful:
            self.worker.linger(self)
        else:
            super().close()


class DeadlineWorker(ThreadWorker):  # type: ignore[misc]
    stop_by = inf

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        super().check_config(cfg, log)
        if cfg.is_ssl or cfg.protocol != "http" or cfg.http2_cleartext != "off":
            raise RuntimeError(
                "config.worker reads plain HTTP/1 alone: leave HTTPS and HTTP/2 to the proxy before it."
            )

    def accept(self, listener: socket.socket) -> None:
        try:
            client, address = listener.accept()
        except OSError as error:
            if error.errno in {EMFILE, ENFILE}:  # there is room again as soon as connections end
                self.log.warning("No connection can be taken: %s", error)
                sleep(MIN_WAIT)
            elif error.errno not in {EAGAIN, ECONNABORTED, EWOULDBLOCK}:
                raise
            return
        if USER_TIMEOUT is not None:
            with suppress(OSError):  # a UNIX socket has no such option
                client.setsockopt(socket.IPPROTO_TCP, USER_TIMEOUT, 1000 * SEND_SECONDS)
        self.nr_conns += 1
        self._watch(Connection(self, client, address, listener.getsockname()), self._gather)

    def on_client_socket_readable(self, conn: Connection, client: socket.socket) -> None:
        """The next request of a connection that was kept alive."""
        self.poller.unregister(client)
        self.keepalived_conns.remove(conn)
        self._watch(conn, self._gather)

    def enqueue_req(self, conn: Connection) -> None:
        """Hand it to a thread; half of a head that came along with the request before is waited for in the loop."""
        conn.head += conn.parser.unreader.take_buffered()
        if not conn.has_head:
            self._watch(conn, self._gather)
            return
        conn.timeout = monotonic() + READ_SECONDS
        super().enqueue_req(conn)

    def handle(self, conn: Connection) -> Any:
        conn.begin()
        return super().handle(conn)

    def linger(self, conn: Connection) -> None:
        """Say that nothing more follows, and let the loop wait for the client's end.

        Gunicorn waits for it in the loop itself, two seconds for each client that does not close.
        """
        try:
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            conn.close()
            return
        self.nr_conns += 1
        self._watch(conn, self._drain)

    def murder_pending(self) -> None:
        """A worker that stops, or has answered ``max_requests``, does not wait for halves to become whole."""
        if not self.alive:
            self.stop_by = min(self.stop_by, monotonic() + STOP_KEEPALIVE_LINGER)
            for conn in self.pending_conns:
                conn.timeout = min(conn.timeout, self.stop_by)
        super().murder_pending()

    def _watch(self, conn: Connection, act: Any) -> None:
        """Wait in the loop for what the client sends, READ_SECONDS in all."""
        conn.sock.setblocking(False)
        conn.timeout = monotonic() + READ_SECONDS
        self.pending_conns.append(conn)
        self.poller.register(conn.sock, EVENT_READ, partial(act, conn))

    def _leave(self, conn: Connection) -> None:
        self.poller.unregister(conn.sock)
        self.pending_conns.remove(conn)

    def _gather(self, conn: Connection, client: socket.socket) -> None:
        data = _receive(client)
        if data is None:
            return
        conn.head += data
        if data and not conn.has_head:
            return
        self._leave(conn)
        if data:
            self.enqueue_req(conn)
        else:
            self._end(conn)

    def _drain(self, conn: Connection, client: socket.socket) -> None:
        data = _receive(client)
        conn.drained += len(data or b"")
        if data == b"" or conn.drained > MAX_DRAIN:
            self._leave(conn)
            self._end(conn)

    def _end(self, conn: Connection) -> None:
        self.nr_conns -= 1
        conn.close()


def _receive(client: socket.socket) -> bytes | None:
    """What is there; None for nothing yet, and nothing at the end."""
    try:
        return client.recv(MAX_HEAD)
    except BlockingIOError:
        return None
    except OSError:
        return b""
