"""A forgotten password, from the sign-in page to the new one, by keyboard alone; and the pages of mail for people who
use assistive technology, in both languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from annotation.models import MailProfile, OutgoingMail, Person
from tests.browser.conftest import PATIENCE, SignIn, Violations
from tests.mail import MailHost, get_text, give_address, run_host, send_all, use_server

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
GOOD = "glacier-lantern-42"
NARROW = {"width": 390, "height": 844}


@pytest.fixture
def host(settings: Any, live_server: Any) -> Iterator[MailHost]:
    with run_host() as started:
        use_server(settings, started.url)
        settings.SITE_URL = live_server.url
        yield started


@pytest.fixture
def guest(browser: Browser, live_server: Any) -> Iterator[Page]:
    context = browser.new_context(base_url=live_server.url)
    context.set_default_timeout(PATIENCE)
    yield context.new_page()
    context.close()


def tab_to(page: Page, name: str) -> None:
    """Press Tab until what has the focus is named so."""
    for _press in range(30):
        focused = page.evaluate(
            "(document.activeElement.labels?.[0] ?? document.activeElement).textContent.trim()"
        )
        if focused == name:
            return
        page.keyboard.press("Tab")
    pytest.fail(f"Tab does not reach {name}")


def find_link(host: MailHost) -> str:
    send_all()
    (url,) = re.findall(r"http://\S+/set-up/\S+", get_text(host.messages[-1]))
    return str(url)


def test_a_forgotten_password_is_set_by_keyboard(
    guest: Page, host: MailHost, lin: Person, violations: Violations
) -> None:
    give_address(lin)
    guest.goto("/sign-in/")
    assert violations(guest) == []
    tab_to(guest, "Forgot your user name or password?")
    guest.keyboard.press("Enter")
    expect(guest.get_by_role("heading", level=1)).to_have_text("Forgot your password?")
    expect(guest.get_by_label("E-mail address")).to_be_focused()
    assert violations(guest) == []
    guest.keyboard.type("lin@example.org")
    guest.keyboard.press("Enter")
    expect(guest.get_by_role("heading", level=1)).to_have_text("Check your mail")
    assert violations(guest) == []
    guest.goto(find_link(host))
    tab_to(guest, "New password")
    guest.keyboard.type(GOOD)
    tab_to(guest, "The password again")
    guest.keyboard.type(GOOD)
    guest.keyboard.press("Enter")
    expect(guest.get_by_text("Your password is set.")).to_be_visible()
    assert Person.objects.get(username="lin").check_password(GOOD)


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_the_address_is_confirmed_and_the_digest_chosen(
    sign_in: SignIn, host: MailHost, lin: Person, violations: Violations, language: str
) -> None:
    lin.set_password(GOOD)
    lin.save()
    page = sign_in(lin, language=language, viewport=NARROW)
    page.goto("/account/mail/")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    page.locator("#id_address").fill("lin@example.org")
    page.locator("#id_password").fill(GOOD)
    page.locator("#address button").click()
    expect(page.locator(".message--success")).to_contain_text("lin@example.org")
    send_all()
    assert OutgoingMail.objects.get().state == "sent"
    (url,) = re.findall(r"http://\S+/account/mail/confirm/\S+", get_text(host.messages[0]))
    page.goto(url)
    assert violations(page) == []
    page.get_by_role("main").get_by_role("button").click()
    expect(page.locator(".message--success")).to_contain_text("lin@example.org")
    page.locator("#settings input[value=weekly]").check()
    page.locator("#settings button").click()
    expect(page.locator(".message--success")).to_be_visible()
    assert violations(page) == []
    profile = MailProfile.objects.get()
    assert (profile.digest, profile.language) == ("weekly", language)
