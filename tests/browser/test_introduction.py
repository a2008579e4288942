"""The introduction by keyboard and by thumb: one action goes on, and one brings it back."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from annotation.models import Assignment, Batch, IntroductionReading, Person
from tests.browser.conftest import SignIn, Violations
from tests.browser.test_annotating import answer, list_values, press, sent
from tests.support import label_next

pytestmark = [pytest.mark.browser]

RULE = "Judge compliance, not quality."


@pytest.fixture
def unread(batch: Batch) -> Batch:
    IntroductionReading.objects.all().delete()
    return batch


def is_open(page: Page) -> bool:
    return page.get_by_role("dialog").filter(has_text=RULE).is_visible()


def test_enter_goes_on_and_i_brings_it_back(sign_in: SignIn, unread: Batch, lin: Person) -> None:
    page = sign_in(lin)
    page.goto("/")
    expect(page.get_by_text(RULE)).to_be_visible()
    assert not Assignment.objects.exists()
    press(page, "PageDown", "Space", "Enter")
    expect(page.locator("form[data-item]")).to_be_visible()
    page.wait_for_load_state("load")  # from then on the keys act
    press(page, "i")
    assert is_open(page)
    press(
        page, "1", "3", "Enter"
    )  # nothing of the item is decided under it, and what has the focus is its heading
    press(page, "Escape")
    assert not is_open(page)
    assert page.locator(".level__input:checked").count() == 0
    answer(page, "2", "Enter")
    sent(page)
    assert list_values(lin) == [2]
    press(page, "?")
    expect(page.get_by_text("The introduction of the guideline")).to_be_visible()
    other = sign_in(lin)  # another machine
    other.goto("/work/")
    expect(other.locator("form[data-item]")).to_be_visible()


def test_by_thumb_and_the_next_item_waits_for_it(sign_in: SignIn, unread: Batch, lin: Person) -> None:
    page = sign_in(lin, has_touch=True, viewport={"width": 360, "height": 640})
    page.goto("/work/")
    page.get_by_role("button", name="I have read this").tap()
    expect(page.locator("form[data-item]")).to_be_visible()
    page.wait_for_function(
        "() => performance.getEntriesByType('resource').some(one => one.name.includes('/ahead/'))"
    )
    page.get_by_role("button", name="Introduction").tap()
    assert is_open(page)
    page.get_by_role("button", name="Close").tap()
    assert not is_open(page)


def test_without_scripts_too(sign_in: SignIn, unread: Batch, lin: Person) -> None:
    page = sign_in(lin, java_script_enabled=False)
    page.goto("/work/")
    page.get_by_role("button", name="I have read this").click()
    expect(page.locator("form[data-item]")).to_be_visible()


@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_adjudicator_reads_it_and_axe_finds_nothing(
    sign_in: SignIn,
    unread: Batch,
    lin: Person,
    chen: Person,
    wu: Person,
    violations: Violations,
    language: str,
    theme: str,
) -> None:
    label_next(unread, lin, 1)
    label_next(unread, chen, 3)
    page = sign_in(wu, language=language, color_scheme=theme)
    page.goto("/disputes/first/")
    assert violations(page) == []
    press(page, "Enter")
    expect(page.locator("form[data-item]")).to_be_visible()
    page.wait_for_load_state("load")  # from then on the keys act
    press(page, "i")
    expect(page.locator("dialog[open]")).to_be_visible()
    assert violations(page) == []
