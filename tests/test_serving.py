"""The server as it is started in production: what is sent by half, too slowly or too large ends, and others go on."""

from __future__ import annotations

import http.client
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.serving import SECONDS, Served, all_of, answers, connected, served

LATEST = SECONDS + 2.5
"""When a connection must be cut: the server's loop looks once a second, and this machine has other work."""
# Without the cookie the body is not even read.
START = b"POST /sign-in/ HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: csrftoken=" + b"a" * 32 + b"\r\n"
HEAD = START + b"Content-Type: application/x-www-form-urlencoded\r\n"
GET = b"GET /sign-in/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture
def port(server: Served) -> int:
    return server.port


Connect = Callable[..., socket.socket]


@pytest.fixture
def connect(port: int) -> Iterator[Connect]:
    with ExitStack() as clients:
        yield lambda data=b"": clients.enter_context(connected(port, data))


@pytest.mark.parametrize("half", [b"", b"GET /sign-in/ HT", HEAD, b"\r\n"])
def test_requests_without_their_head_hold_nobody_up_and_are_cut(port: int, connect: Connect, half: bytes):
    started = time.monotonic()
    waiting = [connect(half) for _ in range(12)]
    assert answers(port, seconds=1.5) == 200
    for client in waiting:
        assert all_of(client) == b""
    assert time.monotonic() - started < LATEST


def test_a_head_that_comes_byte_by_byte_is_cut(connect: Connect):
    client, started = connect(), time.monotonic()
    with suppress(OSError):
        for byte in HEAD:
            client.sendall(bytes([byte]))
            time.sleep(0.2)
    assert time.monotonic() - started < LATEST


def test_bodies_that_stop_are_cut_and_told_so(port: int, connect: Connect):
    started = time.monotonic()
    waiting = [connect(HEAD + b"Content-Length: 500\r\n\r\nusername=li") for _ in range(12)]
    for client in waiting:
        answer = all_of(client)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"Content-Security-Policy" in answer
    assert time.monotonic() - started < LATEST
    assert answers(port, seconds=1.5) == 200


def test_a_body_that_trickles_is_cut(connect: Connect):
    client, started = connect(HEAD + b"Content-Length: 500\r\n\r\n"), time.monotonic()
    with suppress(OSError):
        for _ in range(100):
            client.sendall(b"a")
            time.sleep(0.2)
    assert time.monotonic() - started < LATEST + 1


def test_a_slow_line_that_keeps_sending_is_heard_to_the_end(connect: Connect):
    """Twice the time without a byte, at four times the least rate."""
    body = b"username=" + b"a" * 16_400
    client = connect(HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
    for at in range(0, len(body), 1000):
        client.sendall(body[at : at + 1000])
        time.sleep(0.25)
    assert all_of(client).startswith(b"HTTP/1.1 403 ")  # it has no CSRF token


def test_a_request_after_another_on_the_same_connection_is_answered(port: int, connect: Connect):
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as client:
        for _ in range(3):
            client.request("GET", "/sign-in/")
            answer = client.getresponse()
            assert (answer.status, b"<form" in answer.read()) == (200, True)
            time.sleep(0.2)
    pipelined = connect(GET + GET + GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert all_of(pipelined).count(b"HTTP/1.1 200 OK") == 3


def test_a_half_sent_request_after_a_whole_one_is_cut(connect: Connect):
    client, started = connect(GET + b"GET /sign-in/ HTT"), time.monotonic()
    assert all_of(client).count(b"HTTP/1.1 200 OK") == 1
    assert time.monotonic() - started < LATEST


def test_half_sent_requests_after_whole_ones_hold_nobody_up(port: int, connect: Connect):
    waiting = [connect(GET + b"GET /sign-in/ HTT") for _ in range(12)]
    for client in waiting:
        assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert answers(port, seconds=1) == 200


def test_the_other_half_of_a_request_after_a_whole_one_is_answered(connect: Connect):
    last = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    client = connect(GET + last[:20])
    time.sleep(0.5)
    client.sendall(last[20:])
    assert all_of(client).count(b"HTTP/1.1 200 OK") == 2


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux ends such connections")
def test_clients_that_do_not_read_their_answers_are_cut(port: int):
    """More than sockets hold between here and there, so that the threads wait."""
    with ExitStack() as clients:
        for _ in range(3):
            client = clients.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.connect(("127.0.0.1", port))
            client.sendall(GET.replace(b"/sign-in/", b"/static/css/assay.css") * 300)
        time.sleep(1)
        assert answers(port, seconds=20) == 200


def test_a_slow_reader_gets_all_of_the_answer(connect: Connect, port: int):
    """Over three times the time after which who takes nothing is cut."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as client:
        client.request("GET", "/static/css/assay.css")
        size = len(client.getresponse().read())
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        slow.connect(("127.0.0.1", port))
        request = GET.replace(b"/sign-in/", b"/static/css/assay.css")
        slow.sendall(request * 99 + request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        read, end = 0, time.monotonic() + 3 * SECONDS + 1
        while part := slow.recv(65536):
            read += len(part)
            if time.monotonic() < end:
                time.sleep(0.1)
    assert read > 100 * size


def test_a_worker_outlives_more_connections_than_files(tmp_path: Path):
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, usual)
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, usual[1]))
        server = stack.enter_context(served(tmp_path))
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)
        for _ in range(150):
            stack.enter_context(connected(server.port))
        time.sleep(SECONDS + 2)
        assert answers(server.port) == 200
        assert "Exception in worker process" not in (tmp_path / "gunicorn.log").read_text()


def test_a_client_that_never_closes_holds_nobody_up(port: int, connect: Connect):
    """The server has ended these connections; their clients have not."""
    request = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    open_still = [connect(request) for _ in range(12)]
    started = time.monotonic()
    assert answers(port, seconds=5) == 200
    assert time.monotonic() - started < 1.5
    assert len(open_still) == 12


def test_what_is_too_large_is_refused_unread(server: Served, connect: Connect):
    fields = b"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 600000000\r\n\r\n"
    part = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n' + b"a" * 60_000
    before, sent = server.written(), []
    for path in (b"/sign-in/", b"/imports/new/", b"/api/v1/batches/"):
        client = connect(START.replace(b"/sign-in/", path) + fields)
        sent.append(sum(pieces(client, part, 600_000_000)))
        with suppress(OSError):
            all_of(client)
    assert max(sent) < 30_000_000  # what sockets hold between here and there
    assert server.written() - before < 50_000  # the refusals


def pieces(client: socket.socket, part: bytes, most: int) -> Iterator[int]:
    """Send the part again and again; the bytes of each, until all of them or the other side's end."""
    with suppress(OSError):
        for _ in range(0, most, len(part)):
            client.sendall(part)
            yield len(part)


def test_the_refusal_is_read_by_who_waits_for_it(connect: Connect):
    for path, words in ((b"/sign-in/", b"<h1>"), (b"/api/v1/batches/", b'"code": "too_large"')):
        head = b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 600000000\r\n\r\n" % path
        answer = all_of(connect(head))
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert words in answer


def test_a_body_without_a_length_is_refused(connect: Connect):
    client = connect(HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
    assert all_of(client).startswith(b"HTTP/1.1 411 ")


def test_a_stop_waits_for_no_half_sent_request(tmp_path: Path):
    with served(tmp_path, ASSAY_READ_SECONDS="60") as server:
        half = connected(server.port, b"GET /")
        started = time.monotonic()
    assert time.monotonic() - started < 10
    half.close()


def test_it_refuses_to_end_https_itself(tmp_path: Path):
    command = [sys.executable, "-m", "gunicorn", "--config", "config/gunicorn.py", "--bind", "127.0.0.1:0"]
    where = {**os.environ, "ASSAY_DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "config.settings"}
    full_command = [*command, "--http2-cleartext", "both"]
    process = subprocess.run(
        full_command, cwd=ROOT, env=where, capture_output=True, text=True, timeout=60, check=False
    )
    assert process.returncode == 1
    assert "leave HTTPS and HTTP/2 to the proxy" in process.stderr
