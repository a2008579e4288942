"""Signing in as a person at a company does: by a provider that runs here, with a second factor, by a passkey."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from playwright.sync_api import Browser, Page, expect

from annotation.models import Person, SignInSession
from annotation.services.people.people import set_roles
from annotation.services.people.sessions import STATE
from annotation.services.studies import create_study
from tests.annotation.sign_in.oidc_support import OLD_WORDS_OF_MOCK, Directory, make_provider, run_directory
from tests.annotation.sign_in.saml_support import run_saml_directory
from tests.annotation.sign_in.support import compute_code
from tests.browser.conftest import WINDOW, Violations

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True), OLD_WORDS_OF_MOCK]


@pytest.fixture(scope="module")
def directory() -> Iterator[Directory]:
    with run_directory() as running:
        yield running


@pytest.fixture
def page(browser: Browser, live_server: Any) -> Iterator[Page]:
    """Of somebody who is not signed in; what breaks the Content-Security-Policy fails the test."""
    complaints: list[str] = []
    context = browser.new_context(base_url=live_server.url, viewport=WINDOW, locale="en-US")
    page = context.new_page()
    page.on("console", lambda line: complaints.append(line.text) if "Content Security" in line.text else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    context.close()
    assert not complaints


def add_device(page: Page) -> None:
    """A device with passkeys that says yes (the DevTools' virtual authenticator)."""
    devtools = page.context.new_cdp_session(page)
    devtools.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})


def add_app(page: Page) -> str:
    """The secret of the app that was added."""
    page.get_by_role("link", name="Add an app").click()
    secret = re.search(
        r"secret=([A-Z2-7]+)", page.get_by_role("link", name="Open the app").get_attribute("href") or ""
    )
    assert secret is not None
    page.get_by_label("Code").fill(compute_code(secret[1]))
    page.get_by_role("button", name="Add the app").click()
    expect(page.get_by_role("heading", name="Your recovery codes")).to_be_visible()
    assert page.locator(".codes li").count() == 10
    return secret[1]


def sign_in_at_company(page: Page, sub: str = "u-1001") -> None:
    page.goto("/sign-in/")
    page.get_by_role("link", name="Sign in with the company").click()
    page.get_by_placeholder("sub").fill(sub)
    page.get_by_role("button", name="Authorize").click()


def wait_for_next_code() -> None:
    """A code works once; the next half minute has another."""
    time.sleep(30 - time.time() % 30 + 0.5)


def test_by_the_company_with_a_second_factor(
    page: Page, directory: Directory, settings: Any, violations: Violations
):
    settings.SIGN_IN_PROVIDERS = (make_provider(directory.issuer),)
    settings.SECOND_FACTOR_ROLES = ("manager",)
    create_study(name="default")
    page.goto("/sign-in/")
    assert violations(page) == []
    sign_in_at_company(page)
    expect(page.get_by_text("One of your roles requires a second factor")).to_be_visible()
    assert violations(page) == []
    secret = add_app(page)
    page.get_by_role("link", name="I have stored them").click()
    page.goto("/people/")
    expect(page.get_by_role("heading", name="Members")).to_be_visible()
    page.goto("/account/")
    expect(page.locator("#sessions")).to_contain_text("company")

    page.context.clear_cookies()
    sign_in_at_company(page)
    expect(page.get_by_role("heading", name="One more step")).to_be_visible()
    assert violations(page) == []
    wait_for_next_code()
    page.get_by_label("Code").fill(compute_code(secret))
    page.get_by_role("button", name="Continue").click()
    page.goto("/people/")
    expect(page.get_by_role("heading", name="Members")).to_be_visible()

    directory.put("u-1001", preferred_username="grace", name="Grace Liu", groups=["staff"])
    make_due()
    page.goto("/people/")
    expect(page.get_by_text("You have no role here")).to_be_visible()


def make_due() -> None:
    """The provider is to be asked at the next request."""
    from django.contrib.sessions.backends.db import SessionStore

    for row in SignInSession.objects.all():
        session = SessionStore(row.session_key)
        session[STATE] = session[STATE] | {"check_at": int(time.time()) - 1}
        session.save()


def test_a_passkey_is_a_factor_and_a_way_in(page: Page, lin: Person, violations: Violations):
    add_device(page)
    page.goto("/sign-in/")
    expect(page.get_by_role("link", name="Sign in with a passkey")).to_have_count(0)
    page.get_by_label("User name").fill("lin")
    page.get_by_label("Password").fill("lin-password")
    page.get_by_role("button", name="Sign in").click()
    page.goto("/account/second-factor/")
    page.get_by_role("link", name="Add a passkey").click()
    page.get_by_label("Name of the passkey").fill("laptop")
    assert violations(page) == []
    page.get_by_role("button", name="Add the passkey").click()
    expect(page.get_by_role("heading", name="Your recovery codes")).to_be_visible()

    page.context.clear_cookies()
    page.goto("/sign-in/")
    page.get_by_label("User name").fill("lin")
    page.get_by_label("Password").fill("lin-password")
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("button", name="Use the passkey").click()
    page.wait_for_url("/work/")
    page.goto("/account/")
    expect(page.locator("#second-factor")).to_contain_text("laptop")

    page.context.clear_cookies()
    page.goto("/sign-in/")
    page.get_by_role("link", name="Sign in with a passkey").click()
    assert violations(page) == []
    page.get_by_role("button", name="Use the passkey").click()
    page.wait_for_url("/work/")
    page.goto("/account/")
    expect(page.locator("#sessions")).to_contain_text("passkey")
    assert set(SignInSession.objects.values_list("method", flat=True)) == {"password", "passkey"}


def test_a_device_that_says_no_signs_nobody_in(page: Page, lin: Person):
    page.goto("/sign-in/passkey/")
    devtools = page.context.new_cdp_session(page)
    devtools.send("WebAuthn.enable")
    page.get_by_role("button", name="Use the passkey").click()
    page.wait_for_timeout(500)
    page.goto("/account/")
    expect(page).to_have_url(re.compile("/sign-in/"))


def test_by_saml_at_the_campus(page: Page, settings: Any):
    with run_saml_directory() as campus:
        settings.SIGN_IN_PROVIDERS = (campus.make_provider(),)
        create_study(name="default")
        page.goto("/sign-in/?next=/people/")
        page.get_by_role("link", name="Sign in with the campus").click()
        page.get_by_role("button", name="Sign in as s-2002").click()
        expect(page.get_by_role("heading", name="Members")).to_be_visible()
        assert django_settings.SESSION_COOKIE_SAMESITE == "Lax"


def test_another_session_is_ended_from_the_list(page: Page, browser: Browser, live_server: Any, lin: Person):
    set_roles(person=lin, roles=["annotator"])
    other = browser.new_context(base_url=live_server.url)
    for tab in (page, other.new_page()):
        tab.goto("/sign-in/")
        tab.get_by_label("User name").fill("lin")
        tab.get_by_label("Password").fill("lin-password")
        tab.get_by_role("button", name="Sign in").click()
        tab.wait_for_url("/work/")
    page.goto("/account/")
    page.locator("#sessions").get_by_role("button", name=re.compile("^End ")).first.click()
    expect(page.get_by_text("The session has ended.")).to_be_visible()
    tab = other.pages[0]
    tab.goto("/account/")
    expect(tab).to_have_url(re.compile("/sign-in/"))
    other.close()
