"""A manager copies a guideline that comes with Assay, changes it, reads the preview and the first mistake, and stores
the draft.
"""

from __future__ import annotations

import os
import re

import pytest
from playwright.sync_api import Page, expect

from annotation.models import Guideline, Person
from tests.browser.conftest import SignIn, Violations
from tests.browser.looks import too_wide

pytestmark = [pytest.mark.browser]
PICTURES = os.environ.get("ASSAY_PICTURES")


def look(page: Page, name: str, violations: Violations) -> None:
    assert not too_wide(page)
    if PICTURES:
        page.screenshot(path=f"{PICTURES}/{name}.png", full_page=True)
    assert not violations(page)


@pytest.mark.parametrize(("language", "question"), [("en", "Is it fair?"), ("zh-hans", "这样公平吗？")])
def test_a_copy_is_changed_with_its_preview_beside_it(
    sign_in: SignIn, violations: Violations, ma: Person, language: str, question: str
) -> None:
    page = sign_in(ma, language=language)
    page.goto("/guidelines/")
    look(page, f"guidelines-{language}", violations)
    page.locator("a[href*='shipped%3Aflames']").click()
    text = page.locator("#id_text")
    preview = page.locator("#preview")
    expect(preview.locator(".criterion").first).to_be_visible()
    look(page, f"copied-{language}", violations)

    written = text.input_value()
    code = {"en": "en", "zh-hans": "zh"}[language]
    pattern = re.compile(rf"(question:\n(?:      \w+: .*\n)*?      {code}: ).*")
    changed, number = pattern.subn(rf"\g<1>{question}", written, count=1)
    assert number == 1
    text.fill(changed)
    expect(preview.locator("legend").first).to_contain_text(question)
    preview.locator("summary").first.focus()
    assert not violations(page)

    text.fill(changed.replace("languages: [zh, en]", "languages: [zh, en"))
    expect(preview.locator(".source__line--wrong")).to_be_visible()
    look(page, f"flawed-{language}", violations)
    text.fill(changed)
    expect(preview.locator("legend").first).to_contain_text(question)
    page.locator("main .button--primary").click()
    page.wait_for_url("**/guidelines/flames/1.3/")
    look(page, f"draft-{language}", violations)
    draft = Guideline.objects.get()
    assert not draft.is_published
    assert question in str(draft.content)
