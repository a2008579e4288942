"""A manager who has never seen the product: from a spreadsheet with a column for each model to an invited person's
first label. The clicks of both are counted.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from openpyxl import Workbook
from playwright.sync_api import Browser, Locator, Page

from annotation.models import Annotation, Job, Person
from annotation.services import jobs
from tests.browser.conftest import SignIn, Violations
from tests.browser.looks import too_wide
from tests.browser.test_annotating import sent

pytestmark = [pytest.mark.browser]

PICTURES = os.environ.get("ASSAY_PICTURES")
MAX_CLICKS = 20
PASSWORD = "an-odd-phrase-of-mine-9"
TABLES = {
    "zh-hans": ("公平题.xlsx", ["编号", "问题", "维度", "模型甲", "模型乙"]),
    "en": ("fairness.xlsx", ["id", "question", "dimension", "Model A", "Model B"]),
}


class Clicks:
    """Counts the clicks; each page is looked at before it is left."""

    def __init__(self, violations: Violations, language: str) -> None:
        self.number = 0
        self._violations = violations
        self._language = language

    def __call__(self, target: Locator) -> None:
        page = target.page
        target.wait_for()
        assert not too_wide(page)
        assert not self._violations(page)
        if PICTURES:
            page.screenshot(path=f"{PICTURES}/newcomer-{self._language}-{self.number:02}.png", full_page=True)
        self.number += 1
        target.click()
        page.wait_for_load_state()


def write_table(folder: Path, language: str) -> Path:
    name, header = TABLES[language]
    book = Workbook()
    sheet = book.create_sheet(index=0)
    sheet.append(header)
    for n in range(1, 7):
        sheet.append(
            [n, f"第{n}个问题：这样做公平吗？", "Fairness", f"这是第{n}个回答。", f"那是第{n}个回答。"]
        )
    book.save(folder / name)
    return folder / name


def primary(page: Page) -> Locator:
    return page.locator("main .button--primary").first


@pytest.mark.parametrize("language", TABLES)
def test_from_a_spreadsheet_to_an_invited_persons_label(
    browser: Browser,
    sign_in: SignIn,
    violations: Violations,
    ma: Person,
    tmp_path: Path,
    language: str,
) -> None:
    click = Clicks(violations, language)
    manager = sign_in(ma, language=language)
    manager.goto("/")
    click(primary(manager))
    manager.locator("#id_file").set_input_files(write_table(tmp_path, language))
    click(primary(manager))
    click(manager.locator("[formaction$='confirm/']"))
    jobs.run(Job.objects.latest("pk").pk)
    manager.reload()
    click(primary(manager))
    click(manager.locator("form[action$='/shipped/flames/'] button"))
    click(manager.locator(".sticky__foot .button--primary"))
    manager.locator("[name=notes]").fill("小林\n小陈")
    click(manager.locator("main form .button--primary").last)
    links = [field.input_value() for field in manager.locator(".copy__text").all()]
    click(manager.locator("[data-copy]").first)
    click(manager.locator("section:has(.copy) a.button"))
    click(manager.locator(".page-header__actions .button--primary"))

    annotator = browser.new_page(locale={"zh-hans": "zh-CN"}.get(language, language))
    annotator.goto(links[0])
    annotator.locator("[name=name]").fill("xiaolin")
    annotator.locator("[name=password]").fill(PASSWORD)
    annotator.locator("[name=again]").fill(PASSWORD)
    click(primary(annotator))
    click(primary(annotator))
    click(annotator.locator(".level").nth(1))
    click(annotator.locator("form[data-item] .button--primary:not([form])"))
    sent(annotator)
    annotator.close()
    assert Annotation.objects.get().assignment.person.username == "xiaolin"
    assert click.number <= MAX_CLICKS
