"""The configurations of proxies that are shipped."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.urls import URLPattern, URLResolver, get_resolver

from tests.conftest import ROOT, missing
from tests.serving import NGINX, all_of, proxied, proxy_files, served

MIB = 1024 * 1024
LOCATION = re.compile(r"location (=|~)? ?(\S+) \{(.*?)\}", re.DOTALL)


@pytest.fixture
def nginx() -> None:
    if NGINX is None:
        missing("nginx", "nginx is not installed")


def views(resolver: URLResolver, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every address, its parameters as ``x``, with its view."""
    for pattern in resolver.url_patterns:
        route = before + re.sub(r"<[^>]+>", "x", str(pattern.pattern))
        if isinstance(pattern, URLPattern):
            yield f"/{route}", pattern.callback
        else:
            yield from views(pattern, route)


def limits_of(text: str) -> list[tuple[str, int]]:
    """A pattern and the largest body there, in MiB, as nginx looks for it."""
    return [
        (re.escape(path) + "$" if kind == "=" else path, int(match[1]))
        for kind, path, inside in LOCATION.findall(text)
        if (match := re.search(r"client_max_body_size (\d+)m;", inside))
    ]


def test_nginx_takes_the_file(nginx: None, tmp_path: Path):
    main = proxy_files(tmp_path, backend=8000, plain=8080, secure=8443)
    command = [str(NGINX), "-t", "-c", str(main), "-p", str(tmp_path)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert "[warn]" not in process.stderr


def test_nginx_takes_as_much_as_each_page_says_and_nothing_more():
    text = (ROOT / "config" / "nginx.conf").read_text()
    (usual,) = re.findall(r"^    client_max_body_size (\d+)m;", text, re.MULTILINE)
    assert int(usual) * MIB == settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    limits, declared = limits_of(text), 0
    for address, view in views(get_resolver()):
        allowed = [most * MIB for pattern, most in limits if re.match(pattern, address)]
        assert allowed == ([view.max_body] if hasattr(view, "max_body") else []), address
        declared += bool(allowed)
    assert declared == 4


def test_caddy_has_the_limits_of_nginx():
    caddy = (ROOT / "config" / "Caddyfile").read_text()
    nginx = (ROOT / "config" / "nginx.conf").read_text()
    for pattern, most in limits_of(nginx):
        address = pattern.replace("\\", "").removesuffix("$") if "^" not in pattern else pattern
        assert re.search(re.escape(address) + rf"\n.*?max_size {most}MiB", caddy, re.DOTALL)
    assert "max_size 10MiB #" in caddy
    assert caddy.count("max_conns_per_host 4 ") == len(limits_of(nginx))  # uploads that hold a thread each


def test_through_nginx_half_sent_requests_hold_nobody_up(nginx: None, tmp_path: Path):
    """Bodies, which without a proxy hold a thread each until they are cut; here Assay hears of none of them."""
    with served(tmp_path, ALLOWED_HOSTS="localhost,127.0.0.1") as server, ExitStack() as clients:
        proxy = clients.enter_context(proxied(tmp_path / "nginx", server.port))
        for path in (b"/sign-in/", b"/imports/new/"):
            head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n" % path
            waiting = [clients.enter_context(proxy.connect()) for _ in range(12)]
            for client in waiting:
                client.sendall(head + b"csrf")
            with closing(proxy.client(seconds=3)) as client:
                client.request("GET", "/sign-in/")
                assert client.getresponse().status == 200
        for path in (b"/sign-in/", b"/imports/new/"):
            client = clients.enter_context(proxy.connect())
            client.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 600000000\r\n\r\n" % path)
            assert all_of(client).startswith(b"HTTP/1.1 413 ")
