"""Chromium for tests, measurements and pictures: where it is, and how it is started."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Playwright, sync_playwright

CHROMIUM = os.environ.get("ASSAY_CHROMIUM", "/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # In a container the shared memory may be small, and a Chromium that fills it dies.
    "--disable-dev-shm-usage",
]


def find_executable() -> str | None:
    return (
        CHROMIUM if Path(CHROMIUM).exists() else shutil.which("chromium") or shutil.which("chromium-browser")
    )


class Chromium:
    """One browser for all tests of a process, started anew when it has died: one crash fails one test."""

    def __init__(self, playwright: Playwright, executable: str) -> None:
        self.playwright = playwright
        self.executable = executable
        self.started: Browser | None = None

    def start(self) -> Browser:
        if self.started is None or not self.started.is_connected():
            self.started = self.playwright.chromium.launch(executable_path=self.executable, args=ARGUMENTS)
        return self.started

    def close(self) -> None:
        if self.started is not None:
            self.started.close()


@contextmanager
def launch() -> Iterator[Browser]:
    """A browser for a command, which ends where there is no Chromium."""
    executable = find_executable()
    if executable is None:
        sys.exit(f"There is no Chromium at {CHROMIUM}; name one in ASSAY_CHROMIUM.")
    with sync_playwright() as playwright:
        browser = Chromium(playwright, executable).start()
        yield browser
        browser.close()
