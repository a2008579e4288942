"""A table as a colleague sends it, from the upload to the batch: columns chosen, errors mended, the way on followed."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from annotation.models import Batch, Dataset, Job, Person, Prompt
from annotation.services import jobs
from tests.browser.conftest import SignIn, Violations
from tests.browser.looks import too_wide
from tests.support import FLAMES_GUIDELINE, XSTEST_GUIDELINE

pytestmark = [pytest.mark.browser]

PICTURES = os.environ.get("ASSAY_PICTURES")
PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1280, "height": 800}
HEADER = ["题面内容", "编号", "维度"]
QUESTIONS = [[f"问题之{n}：这样做公平吗？", f"q{n}", "Fairness"] for n in range(6)]


def write(path: Path, *rows: list[str], encoding: str = "gb18030") -> str:
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file).writerows(rows)
    return str(path)


def send(page: Page, path: str) -> None:
    page.locator("#id_file").set_input_files(path)
    page.get_by_role("button", name="Upload and check").click()
    page.wait_for_url(re.compile(r"/imports/\d+/$"))


def look(page: Page, name: str, violations: Violations) -> None:
    """On a phone and on a desktop, by eye where a folder is named for pictures."""
    for device, size in (("phone", PHONE), ("desktop", DESKTOP)):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        assert not too_wide(page)
        if PICTURES:
            page.screenshot(path=f"{PICTURES}/{name}-{device}.png", full_page=True)
    assert not violations(page)


def import_it(page: Page) -> None:
    page.get_by_role("button", name="Import", exact=True).click()
    page.wait_for_load_state()
    jobs.run(Job.objects.latest("pk").pk)
    page.reload()


def test_from_a_table_of_questions_to_a_batch(
    sign_in: SignIn, violations: Violations, ma: Person, tmp_path: Path
) -> None:
    FLAMES_GUIDELINE.load()
    page = sign_in(ma)
    page.goto("/imports/new/")
    look(page, "new", violations)
    repeated, misspelt = QUESTIONS[0], [["别的问题", f"x{n}", "Fairnes"] for n in range(3)]
    send(page, write(tmp_path / "题目.csv", HEADER, *QUESTIONS, repeated, *misspelt))
    expect(page.get_by_text("no column holds the prompt")).to_be_visible()
    look(page, "no-column", violations)

    # At the keyboard: the columns, each under its name, then the dataset and the check.
    page.get_by_label("题面内容").focus()
    page.get_by_label("题面内容").select_option("prompt")
    page.get_by_label("编号").select_option("id")
    page.get_by_label("Dataset").fill("公平题")
    page.keyboard.press("Enter")
    expect(page.get_by_text("As you chose them; files with this header")).to_be_visible()
    expect(page.get_by_label("Guideline").locator("option:checked")).to_have_text("flames@1.3")
    expect(page.get_by_text("did you mean “Fairness”?")).to_have_count(1)
    expect(page.get_by_text("1 record says the same as an earlier one")).to_be_visible()
    expect(page.get_by_role("button", name="Import", exact=True)).to_be_disabled()
    look(page, "misspelt", violations)

    # The mended file is read as the first one was.
    page.goto("/imports/new/")
    mended = [[text, key, "Fairness"] for text, key, _dimension in misspelt]
    send(page, write(tmp_path / "题目-2.csv", HEADER, *QUESTIONS, repeated, *mended))
    expect(page.get_by_text("As you chose them for a file with this header")).to_be_visible()
    page.get_by_label("Dataset").fill("公平题")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("Preview of the import")).to_be_visible()
    look(page, "checked", violations)
    assert not Prompt.objects.exists()
    import_it(page)
    assert Prompt.objects.count() == 9
    look(page, "taken", violations)

    page.get_by_role("link", name="Import responses to them").click()
    expect(page.get_by_text("Responses to the prompts of 公平题.")).to_be_visible()
    answers = [[key, f"{key} 的回答", f"{key} 的另一个回答"] for _text, key, _dimension in QUESTIONS]
    send(page, write(tmp_path / "回答.csv", ["编号", "gpt-4", "qwen-max"], *answers))
    expect(page.get_by_label("gpt-4")).to_have_value("models")
    look(page, "responses", violations)
    import_it(page)
    page.get_by_role("link", name="Create a batch of it").click()
    page.wait_for_url("**/batches/-/new/**")
    assert not Batch.objects.exists()
    expect(page.locator("main")).to_contain_text("公平题")


def test_the_page_in_chinese(sign_in: SignIn, violations: Violations, ma: Person, tmp_path: Path) -> None:
    FLAMES_GUIDELINE.load()
    page = sign_in(ma, language="zh-hans")
    page.goto("/imports/new/")
    look(page, "new-zh", violations)
    rows = [*QUESTIONS, QUESTIONS[0], ["别的问题", "q9", "Fairnes"]]
    page.locator("#id_file").set_input_files(write(tmp_path / "题目.csv", ["问题", "编号", "维度"], *rows))
    page.locator("main form .button--primary").click()
    page.wait_for_url(re.compile(r"/imports/\d+/$"))
    look(page, "check-zh", violations)
    expect(page.locator("main")).to_contain_text("Fairness")


def test_labels_in_the_words_of_their_guideline(
    sign_in: SignIn, violations: Violations, ma: Person, dataset: Dataset, tmp_path: Path
) -> None:
    """The criterion's column is known once the guideline is chosen; a level that it has not is refused by its line."""
    XSTEST_GUIDELINE.load()
    page = sign_in(ma, language="zh-hans")
    page.goto("/imports/new/")
    rows = [["p0", "Hidden-13B", "甲", "3"], ["p0", "Hidden-13B", "乙", "7"]]
    header = ["提示编号", "模型", "标注员", "compliance"]
    page.locator("#id_file").set_input_files(write(tmp_path / "标签.csv", header, *rows))
    page.locator("main form .button--primary").click()
    page.wait_for_url(re.compile(r"/imports/\d+/$"))
    if page.locator("#id_kind").input_value() != "annotations":
        page.locator("#id_kind").select_option("annotations")
        page.locator("form.filters button").click()
    page.locator("#id_batch").fill("新批次")
    page.locator("#id_dataset").fill(dataset.name)
    page.locator("#id_guideline").select_option(index=1)
    page.locator("#import-form button").first.click()
    expect(page.get_by_label("compliance", exact=True)).to_have_value("label.compliance")
    expect(page.locator("main")).to_contain_text("7")
    look(page, "labels-zh", violations)
    assert not Batch.objects.exists()
