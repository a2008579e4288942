"""Asking about an item at the keyboard, and answering it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from annotation.models import Batch, ItemMessage, Person
from tests.browser.conftest import SignIn, Violations
from tests.browser.test_annotating import answer, press, sent

pytestmark = [pytest.mark.browser]

QUESTION = "Does a warning count as refusing?"


def ask(page: Page) -> None:
    press(page, "q")
    box = page.get_by_role("textbox", name="Your question")
    box.fill(QUESTION)
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("listitem")).to_contain_text(QUESTION)


def test_a_question_is_asked_by_key_and_answered_beside_the_guideline(
    sign_in: SignIn, batch: Batch, lin: Person, ma: Person, violations: Violations
) -> None:
    page = sign_in(lin)
    page.goto("/work/")
    ask(page)
    assert violations(page) == []
    press(page, "Escape")
    answer(page, "3", "Enter")  # the keys are the item's again
    press(page, "q")  # the next item has a thread of its own
    expect(page.get_by_role("textbox", name="Your question")).to_be_visible()
    expect(page.get_by_role("dialog").get_by_role("listitem")).to_have_count(0)
    press(page, "Escape")
    sent(page)
    chief = sign_in(ma)
    chief.goto(f"/batches/{batch.name}/")
    chief.get_by_role("link", name="Questions 1").click()
    assert violations(chief) == []
    chief.get_by_role("textbox", name="Answer").fill("It does not.")
    chief.get_by_role("combobox").select_option("compliance:3")
    chief.get_by_role("checkbox", name="Show it beside the guideline").check()
    chief.get_by_role("button", name="Answer").click()
    expect(chief.get_by_text("The answer is sent.")).to_be_visible()
    page.goto("/work/")
    expect(page.locator("aside#guide")).to_contain_text("It does not.")
    page.get_by_role("link", name="1 new answer").click()
    expect(page.get_by_text("It does not.")).to_be_visible()
    assert violations(page) == []
    assert ItemMessage.objects.count() == 2


def test_the_size_of_the_study_comes_when_it_is_opened(sign_in: SignIn, batch: Batch, ma: Person) -> None:
    page = sign_in(ma)
    page.goto(f"/batches/-/new/{batch.tasks.first().response.prompt.dataset.name}/")
    page.get_by_text("Size of the study").click()
    expect(page.locator("#study-plan")).to_be_visible()
