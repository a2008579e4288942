"""A session that ended over the work: it leads to the sign-in page, and nothing that was entered is lost."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone
from playwright.sync_api import Locator, Page, expect

from annotation.models import Annotation, AuditEvent, Batch, Person
from tests.browser.conftest import SignIn, Violations
from tests.browser.test_annotating import answer, press, sent
from tests.browser.test_claim_ahead import start
from tests.browser.test_workspace import type_rationale

pytestmark = [pytest.mark.browser]
RATIONALE = "what I think of it"


def submit_signed_out(page: Page) -> tuple[str, Locator]:
    """The id of the item that an ended session left unsent, and the notice that says so."""
    item = start(page)
    type_rationale(page, RATIONALE)
    Session.objects.update(expire_date=timezone.now() - timedelta(minutes=1))
    answer(page, "2", "Enter")
    notice = page.get_by_role("alert").filter(has_text="Your session has ended")
    expect(notice).to_be_visible()
    return item, notice


def check_sent(page: Page, item: str, notice: Locator) -> None:
    sent(page)
    expect(notice).to_be_hidden()
    annotation = Annotation.objects.get()
    assert (str(annotation.assignment_id), annotation.rationale) == (item, RATIONALE)


def test_an_idle_person_signs_in_in_another_tab_and_the_work_is_sent(
    sign_in: SignIn, batch: Batch, lin: Person
) -> None:
    page = sign_in(lin)
    item, notice = submit_signed_out(page)
    assert not Annotation.objects.exists()
    with page.context.expect_page() as opened:
        notice.get_by_role("link", name="Sign in in another tab").click()
    tab = opened.value
    tab.get_by_label("User name").fill("lin")
    tab.get_by_label("Password").fill("lin-password")
    tab.get_by_role("button", name="Sign in").click()
    expect(tab.get_by_role("heading", level=1)).to_be_visible()
    check_sent(page, item, notice)
    assert AuditEvent.objects.filter(verb="sign_in", actor=lin).count() == 1


def test_an_idle_person_signs_in_in_place_and_the_work_is_sent(
    sign_in: SignIn, batch: Batch, lin: Person, violations: Violations
) -> None:
    """A wrong password is said in place; keys typed into the field choose no label; a retry does not empty it."""
    page = sign_in(lin)
    item, notice = submit_signed_out(page)
    field = notice.get_by_label("Password of lin")
    field.fill("wrong-1")
    assert not violations(page)
    field.press("Enter")
    expect(notice.get_by_role("status")).to_have_text("This is not the password.")
    assert not Annotation.objects.exists()
    field.press_sequentially("lin-pass")
    page.wait_for_timeout(2500)  # the outbox has tried again
    field.press_sequentially("word")
    field.press("Enter")
    check_sent(page, item, notice)
    assert page.locator("input:checked").count() == 0


def test_the_second_item_that_waits_says_that_signing_in_sends_it(
    sign_in: SignIn, batch: Batch, lin: Person
) -> None:
    page = sign_in(lin)
    start(page)
    page.wait_for_function("ahead.items().length == 1")
    Session.objects.update(expire_date=timezone.now() - timedelta(minutes=1))
    answer(page, "3", "Enter")  # the item ahead follows at once
    expect(page.get_by_role("alert").filter(has_text="Your session has ended")).to_be_visible()
    page.locator("[data-read]").focus()
    press(page, "2", "Enter")
    expect(page.locator("[data-waits]")).to_have_text(
        "Saved here. The next item comes when you have signed in again. To be sent: 2"
    )
