"""Chromium against the real server. ``sign_in(person)`` gives a page of that person's own browser session."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from playwright.sync_api import Browser, BrowserContext, Page, expect

from annotation.models import Person
from tests.chromium import Chromium

WINDOW = {"width": 1280, "height": 800}
PATIENCE = 30_000  # milliseconds; two busy cores are slow

expect.set_options(timeout=PATIENCE)

SignIn = Callable[..., Page]
Violations = Callable[..., list[str]]
"""Of a page; further arguments are the only rules to check, ``within`` a selector of what is looked at."""


def until(page: Page, is_so: Callable[[], bool]) -> None:
    """Wait for what no locator tells of, while the page's events arrive: two busy cores keep no time."""
    ends = time.monotonic() + PATIENCE / 1000
    while not is_so():
        assert time.monotonic() < ends
        page.wait_for_timeout(50)


@pytest.fixture
def browser(chromium: Chromium) -> Browser:
    return chromium.start()


@pytest.fixture
def sign_in(browser: Browser, live_server: Any, transactional_db: None) -> Iterator[SignIn]:
    """``sign_in(person)``; further arguments go to the browser context, such as ``color_scheme="dark"``.

    At the end the test fails if any page broke the Content-Security-Policy or threw a script error.
    """
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def enter(person: Person, *, language: str = "en", **options: Any) -> Page:
        context = browser.new_context(base_url=live_server.url, **{"viewport": WINDOW, **options})
        contexts.append(context)
        cookies = {settings.SESSION_COOKIE_NAME: session_of(person), settings.LANGUAGE_COOKIE_NAME: language}
        context.add_cookies(
            [{"name": name, "value": value, "url": live_server.url} for name, value in cookies.items()]
        )
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(error.stack or str(error)))
        page.on(
            "console", lambda line: complaints.append(line.text) if "Content Security" in line.text else None
        )
        return page

    yield enter
    for context in contexts:
        context.close()
    assert not complaints


@pytest.fixture
def violations() -> Violations:
    """What axe-core finds wrong with a page for people who use assistive technology."""
    script = Axe().axe_script

    def check(page: Page, *rules: str, within: str = "html") -> list[str]:
        page.wait_for_load_state()  # a page that is still being read lacks its main part
        if not page.evaluate("'axe' in window"):
            page.evaluate(script)
            page.context.add_init_script(script)  # it is large: later pages have it from the start
        options = {
            "resultTypes": ["violations"],
            **({"runOnly": {"type": "rule", "values": rules}} if rules else {}),
        }
        run = "async ([within, options]) => (await axe.run(within, options)).violations"
        results = page.evaluate(run, [within, options])
        return [
            f"{violation['id']}: {node['html'][:200]}" for violation in results for node in violation["nodes"]
        ]

    return check


def session_of(person: Person) -> str:
    session = SessionStore()
    session[SESSION_KEY] = str(person.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = person.get_session_auth_hash()
    session.create()
    return str(session.session_key)
