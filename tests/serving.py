"""Gunicorn and nginx with the configurations that are shipped, for tests that talk to them over sockets."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 2
"""What the server under test waits for."""
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def connected(port: int, data: bytes = b"") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=30)
    client.sendall(data)
    return client


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Relay:
    """A port of its own that passes on all that comes to another one, until it is closed: then nobody is there."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = free_port()
        self._sockets: set[socket.socket] = set()
        self.open()

    def open(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=[self._listener], daemon=True).start()

    def close(self) -> None:
        """What is connected breaks off, and what would connect is refused."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in list(self._sockets):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _address = listener.accept()
                server = socket.create_connection(("127.0.0.1", self.target))
                self._sockets |= {client, server}
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=[source, sink], daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
            self._sockets.discard(end)


@dataclass(frozen=True)
class Served:
    port: int
    pid: int

    def written(self) -> int:
        """The bytes that its processes have written, to sockets and to the disk."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        counts = [Path(f"/proc/{pid}/io").read_text() for pid in children]
        return sum(int(line.split()[1]) for text in counts for line in text.splitlines() if "wchar" in line)


@contextmanager
def served(folder: Path, *options: str, **environment: str) -> Iterator[Served]:
    """Gunicorn with the shipped configuration: one process, two threads."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "gunicorn",
        "--config",
        "config/gunicorn.py",
        "--bind",
        f"127.0.0.1:{port}",
    ]
    where = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "ASSAY_DATA_DIR": str(folder / "data"),
        "ASSAY_STATIC_ROOT": str(folder / "static"),
        "DATABASE_URL": "",
        "CELERY_BROKER_URL": "",
        "ASSAY_WEB_WORKERS": "1",
        "ASSAY_WEB_THREADS": "2",
        "ASSAY_READ_SECONDS": str(SECONDS),
        "ASSAY_SEND_SECONDS": str(SECONDS),
        "TMPDIR": str(folder),
        **environment,
    }
    log = (folder / "gunicorn.log").open("w")
    server = subprocess.Popen([*command, *options], cwd=ROOT, env=where, stdout=log, stderr=log)
    try:
        until(lambda: answers(port) == 200, 90, (folder / "gunicorn.log").read_text)
        yield Served(port, server.pid)
    finally:
        server.terminate()
        server.wait(30)
        log.close()


def until(holds: Callable[[], bool], seconds: float, explain: Callable[[], str] = str) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, explain()
        time.sleep(0.1)


def answers(port: int, seconds: float = 5) -> int:
    with suppress(OSError), closing(http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)) as client:
        client.request("GET", "/sign-in/")
        return client.getresponse().status
    return 0


def all_of(client: socket.socket) -> bytes:
    """Everything until the server ends the connection."""
    parts = []
    with suppress(ConnectionResetError):
        while part := client.recv(65536):
            parts.append(part)
    return b"".join(parts)


def certificate(folder: Path) -> None:
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"]
    files = ["-keyout", str(folder / "privkey.pem"), "-out", str(folder / "fullchain.pem")]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)


def proxy_files(folder: Path, *, backend: int, plain: int, secure: int) -> Path:
    """The shipped file with what it says to change, and around it what a distribution's nginx.conf has."""
    certificate(folder)
    text = (ROOT / "config" / "nginx.conf").read_text()
    changes = {
        "127.0.0.1:8000": f"127.0.0.1:{backend}",
        "listen 80;": f"listen 127.0.0.1:{plain};",
        "listen 443 ssl": f"listen 127.0.0.1:{secure} ssl",
        "assay.example.org": "localhost",
        "/etc/ssl/assay": str(folder),
    }
    for shipped, changed in changes.items():
        assert shipped in text, shipped
        text = text.replace(shipped, changed)
    (folder / "assay.conf").write_text(text)
    temporary = "".join(
        f"{name}_temp_path {folder}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = folder / "nginx.conf"
    main.write_text(
        f"daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;\nworker_processes 1;\n"
        f"events {{ worker_connections 1024; }}\nhttp {{\naccess_log off;\n"
        f"{temporary}include {folder}/assay.conf;\n}}\n"
    )
    return main


@dataclass(frozen=True)
class Proxied(Served):
    """``port`` is that of HTTPS; ``folder`` has its certificate."""

    folder: Path

    def client(self, seconds: float = 5) -> http.client.HTTPSConnection:
        trusted = ssl.create_default_context(cafile=str(self.folder / "fullchain.pem"))
        return http.client.HTTPSConnection("localhost", self.port, timeout=seconds, context=trusted)

    def connect(self) -> ssl.SSLSocket:
        trusted = ssl.create_default_context(cafile=str(self.folder / "fullchain.pem"))
        return trusted.wrap_socket(connected(self.port), server_hostname="localhost")


@contextmanager
def proxied(folder: Path, backend: int) -> Iterator[Proxied]:
    """Nginx with the shipped configuration before gunicorn at the port ``backend``."""
    folder.mkdir(exist_ok=True)
    secure = free_port()
    main = proxy_files(folder, backend=backend, plain=free_port(), secure=secure)
    server = subprocess.Popen([str(NGINX), "-c", str(main), "-p", str(folder)], stderr=subprocess.DEVNULL)
    proxy = Proxied(secure, server.pid, folder)
    try:
        until(lambda: _is_up(proxy), 20, (folder / "error.log").read_text)
        yield proxy
    finally:
        server.terminate()
        server.wait(30)


def _is_up(proxy: Proxied) -> bool:
    with suppress(OSError), closing(proxy.client()) as client:
        client.request("GET", "/sign-in/")
        return client.getresponse().status == 200
    return False
