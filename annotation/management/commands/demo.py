from __future__ import annotations

import os
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from argparse import ArgumentParser
from typing import Any, NoReturn

from django.conf import settings
from django.core.management import call_command

from annotation.core.errors import N_, AssayError
from annotation.management.base import AssayCommand
from annotation.management.processes import Child, stop
from annotation.services.demo import CAST, ensure_demo_password, load_demo

HOST = "127.0.0.1"
START_WITHIN = 60.0
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Command(AssayCommand):
    is_of_study = False
    help = "Migrate, load invented data and people, start web and worker on this machine; Ctrl-C stops all."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="the port on 127.0.0.1 (default 8000)")

    def handle(self, *args: Any, **options: Any) -> None:
        self.children: list[Child] = []
        for number in STOPS:  # SIGINT too: a shell ignores it for what runs in its background
            signal.signal(number, _interrupt)
        try:
            super().handle(*args, **options)
            self.stdout.flush()
            self._watch()
        except KeyboardInterrupt:
            self.stderr.write("Stopping ...")
        except AssayError as error:
            self.stderr.write(str(error))
            raise SystemExit(1) from error
        finally:
            _ignore_signals()
            stop(self.children)

    def act(self, **options: Any) -> dict[str, Any]:
        port = options["port"]
        _refuse_busy(port)
        self._announce("tables")
        call_command("migrate", verbosity=0, interactive=False, stdout=sys.stderr)
        load_demo(announce=self._announce)
        self._announce("web and worker")
        self.children += [_build_web(port), _build_worker()]
        for child in self.children:
            child.start()
        self._wait_for_web(port)
        return {
            "address": f"http://{HOST}:{port}/",
            "password": ensure_demo_password(),
            "people": [{"name": member.name, "groups": list(member.roles)} for member in CAST],
        }

    def show(self, data: dict[str, Any]) -> None:
        lines = [
            "",
            f"Assay is at {data['address']}demo/  (Ctrl-C stops it)",
            "",
            "Sign in there with one click, and try this:",
            *(f"  {member.name:<5} {member.tries}" for member in CAST),
            "",
            f"The password of all of them: {data['password']}",
            f"The data are kept in {settings.ASSAY_DATA_DIR}",
        ]
        self.stdout.write("\n".join(lines))

    def _announce(self, step: str) -> None:
        self.stderr.write(f"Preparing {step} ...")
        self.stderr.flush()

    def _wait_for_web(self, port: int) -> None:
        end = time.monotonic() + START_WITHIN
        while not _is_answering(port):
            self._revive()
            if time.monotonic() > end:
                raise AssayError(N_("The web process does not answer; see what it said above."))
            time.sleep(0.2)

    def _watch(self) -> NoReturn:
        while True:
            time.sleep(0.5)
            self._revive()

    def _revive(self) -> None:
        for child in self.children:
            if child.revive():
                self.stderr.write(f"The {child.name} process had ended; it runs again.")


def _interrupt(_number: int, _frame: Any) -> NoReturn:
    _ignore_signals()
    raise KeyboardInterrupt


def _ignore_signals() -> None:
    """Stopping takes seconds: who presses Ctrl-C again would leave the children behind."""
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)


def _refuse_busy(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            raise AssayError(
                N_("Port {port} on {host} cannot be used ({why}); choose another one with --port."),
                port=port,
                host=HOST,
                why=getattr(error, "strerror", None) or error,
            ) from error


def _build_environment() -> dict[str, str]:
    """The demo's own marks, which settings.py accepts on loopback alone."""
    return {
        **os.environ,
        "ASSAY_DEMO_PROCESS": "true",
        "ALLOWED_HOSTS": "localhost,127.0.0.1,[::1]",
        "ASSAY_HTTPS": "false",
        "DJANGO_SETTINGS_MODULE": "config.settings",
    }


def _build_web(port: int) -> Child:
    config = str(settings.BASE_DIR / "config" / "gunicorn.py")
    options = ["--config", config, "--workers", "1", "--log-level", "warning", "--bind", f"{HOST}:{port}"]
    return Child("web", [sys.executable, "-m", "gunicorn", *options], _build_environment())


def _build_worker() -> Child:
    celery = [sys.executable, "-m", "celery", "--quiet", "-A", "config"]
    command = [*celery, "worker", "--beat", "--loglevel", "warning"]
    return Child("worker", command, _build_environment())


def _is_answering(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}/demo/", timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False
