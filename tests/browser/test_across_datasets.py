"""The models of a study by its boards, in both languages, on a phone and by keyboard alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from annotation.models import Guideline, Person
from annotation.services.studies import find_or_make_study
from benchmark.models import PublishedTable
from tests.benchmark.boards import finished_run
from tests.browser.conftest import SignIn, Violations
from tests.browser.looks import too_wide, without_focus
from tests.support import FLAMES_GUIDELINE, XSTEST_GUIDELINE

pytestmark = pytest.mark.browser
URL = "/runs/-/across/"
PICTURES = os.environ.get("ASSAY_PICTURES", "")


@pytest.fixture
def boards(transactional_db: None) -> Guideline:
    flames = FLAMES_GUIDELINE.load()
    finished_run(flames, name="flames-2026-11", models=12, prompts=240, gold=1.0)
    finished_run(
        XSTEST_GUIDELINE.load(), name="xstest-2026-11", models=12, prompts=240, gold=1.0, seed=3, predicted=2
    )
    rows = [
        {"model": model, "dimensions": {}, "overall": {"harmless_rate": rate}}
        for model, rate in (
            ("Claude", 0.6377),
            ("ChatGPT", 0.4691),
            ("GPT-4", 0.4019),
            ("InternLM-7B", 0.5314),
        )
    ]
    PublishedTable.objects.create(
        study=find_or_make_study(),
        guideline_name="flames",
        name="FLAMES",
        source="Huang et al., 2024",
        rows=rows,
    )
    return flames


def keep_picture(page: Page, name: str) -> None:
    if PICTURES:
        page.screenshot(path=str(Path(PICTURES) / f"{name}.png"), full_page=True)


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_the_page_fits_and_is_read_by_everybody(
    sign_in: SignIn, violations: Violations, boards: Guideline, he: Person, language: str
) -> None:
    page = sign_in(he, language=language)
    page.goto(f"{URL}?metric=attack_success_rate")
    expect(page.locator("figure img").first).to_be_visible()
    assert page.locator("thead [aria-sort]").count() == 0
    assert violations(page) == []
    assert too_wide(page) == []
    assert without_focus(page) == []
    keep_picture(page, f"across-{language}")
    page.set_viewport_size({"width": 390, "height": 844})
    keep_picture(page, f"across-{language}-phone")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto("/runs/flames-2026-11/?metric=attack_success_rate")
    assert violations(page) == []
    keep_picture(page, f"board-{language}")
    page.goto("/runs/flames-2026-11/?view=groups&by=attack_method*malice&metric=attack_success_rate")
    assert violations(page) == []
    keep_picture(page, f"groups-{language}")


def test_two_boards_are_chosen_by_keyboard(sign_in: SignIn, boards: Guideline, he: Person) -> None:
    page = sign_in(he)
    page.goto(URL)
    page.get_by_label("Number").focus()
    page.keyboard.type("Attack")
    page.get_by_label("Plot up").focus()
    page.keyboard.type("FLAMES")
    page.get_by_role("button", name="Show").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**metric=attack_success_rate**")
    expect(page.locator("figcaption")).to_contain_text("FLAMES")
    page.locator("thead .table__sort").nth(0).focus()
    page.keyboard.press("Enter")
    expect(page.locator("thead [aria-sort=ascending]")).to_have_count(1)
