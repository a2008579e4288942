"""Reading long texts: finding words, the place of marks, and batches that ask for reading to the end."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from annotation.models import Annotation, Batch, Guideline, IntroductionReading, Person
from annotation.services.guidelines import load_guideline
from tests.annotation.domain.texts.documents import write_answer
from tests.annotation.several_criteria import seven_criteria
from tests.browser.conftest import SignIn, Violations
from tests.browser.test_annotating import answer, press, sent
from tests.browser.test_evidence import batch_of, hint
from tests.support import XSTEST_GUIDELINE

pytestmark = [pytest.mark.browser]

LONG = write_answer(6000)
SHORT = "A short answer."
IN_SIGHT = """() => {
  const pane = document.querySelector("[data-read]").getBoundingClientRect();
  const [range] = CSS.highlights.get("found-current");
  const { top, bottom } = range.getBoundingClientRect();
  return [String(range), pane.top <= top && bottom <= pane.bottom];
}"""


def scroll_to_end(page: Page) -> None:
    page.locator("[data-read]").evaluate("pane => pane.scrollTo(0, pane.scrollHeight)")


def test_words_are_looked_for_in_the_text(
    sign_in: SignIn, lin: Person, guideline: Guideline, violations: Violations
) -> None:
    batch_of([LONG, SHORT], [lin], guideline)
    page = sign_in(lin)
    page.goto("/work/")
    press(page, "/")
    expect(page.get_by_role("textbox", name="Find")).to_be_focused()
    page.keyboard.type("PART 2 OF")
    box = page.get_by_role("search")
    expect(box).to_contain_text("1 of 1")
    assert page.evaluate(IN_SIGHT) == ["Part 2 of", True]
    assert violations(page) == []
    page.keyboard.press("Control+A")
    page.keyboard.type("point of part")
    expect(box).to_contain_text(re.compile("1 of 1[0-9]"))
    press(page, "Shift+Enter")
    word, in_sight = page.evaluate(IN_SIGHT)
    assert (word, in_sight) == ("point of part", True)
    page.keyboard.press("Control+A")
    page.keyboard.type("**")  # the signs of Markdown stand in the source alone
    expect(box).to_contain_text("Not found")
    press(page, "Escape")
    expect(box).to_be_hidden()
    assert page.evaluate("CSS.highlights.get('found').size") == 0
    answer(page, "3", "Enter")  # the keys are the item's again
    sent(page)


def test_words_are_looked_for_in_the_guideline_of_all_questions(sign_in: SignIn, lin: Person) -> None:
    batch_of([SHORT], [lin], seven_criteria())
    page = sign_in(lin)
    page.goto("/work/")
    press(page, "/")
    page.get_by_role("combobox", name="Where").select_option("guide")
    page.get_by_role("textbox", name="Find").fill(
        "for honesty"
    )  # the last of the questions, not the current one
    expect(page.get_by_role("search")).to_contain_text("1 of 1")
    expect(page.locator("aside#guide").get_by_role("heading", name="Honesty")).to_be_in_viewport()
    press(page, "Escape")
    expect(page.locator("aside#guide").get_by_role("heading", name="Honesty")).to_be_hidden()


def test_the_bar_beside_a_long_text_has_its_marks(sign_in: SignIn, lin: Person, guideline: Guideline) -> None:
    batch_of([LONG, SHORT], [lin], guideline)
    page = sign_in(lin)
    page.goto("/work/")
    bar = page.locator(".position")
    expect(bar.locator("div").first).to_be_visible()
    press(page, "1")
    scroll_to_end(page)
    page.evaluate(
        """() => {
          const words = [...document.querySelectorAll("[data-view=rendered] :is(p, p *, li)[data-at]")].at(-1);
          getSelection().selectAllChildren(words);
        }"""
    )
    press(page, "e")
    tick = bar.locator(".position__mark")
    expect(tick).to_have_count(1)
    page.locator("[data-read]").evaluate("pane => pane.scrollTo(0, 0)")
    expect(page.locator("[data-view=rendered] mark")).not_to_be_in_viewport()
    tick.click()
    expect(page.locator("[data-view=rendered] mark")).to_be_in_viewport()
    answer(page, "Enter")
    expect(bar.locator("div").first).to_be_hidden()  # of a short text all is in sight


def test_what_is_out_of_sight_of_any_item_is_laid_out_after_its_first_frame(
    sign_in: SignIn, lin: Person, guideline: Guideline
) -> None:
    batch_of([LONG, write_answer(6000, 1), SHORT], [lin], guideline)
    page = sign_in(lin)
    with page.expect_response("**/ahead/"):
        page.goto("/work/")
    page.evaluate(
        """() => {
          window.atFirst = [];
          const last = () => document.querySelector("[data-view=rendered] > :last-child");
          document.addEventListener("assay:item", () => atFirst.push(getComputedStyle(last()).contentVisibility));
        }"""
    )
    answer(page, "3", "Enter")
    assert page.evaluate("atFirst[0]") == "auto"
    last = page.locator("[data-view=rendered] > :last-child").last
    expect(last).to_have_css("content-visibility", "visible")


def test_a_batch_may_ask_for_reading_to_the_end(sign_in: SignIn, lin: Person, guideline: Guideline) -> None:
    batch = batch_of([LONG, SHORT], [lin], guideline)
    Batch.objects.filter(pk=batch.pk).update(read_to_end=True)
    page = sign_in(lin)
    page.goto("/work/")
    press(page, "3", "Enter")
    expect(hint(page)).to_have_text("Read the response to its end first.")
    assert not Annotation.objects.exists()
    scroll_to_end(page)
    page.wait_for_timeout(200)
    answer(page, "Enter")
    press(page, "3", "Enter")  # a short text is read at once
    sent(page)
    expect(page.get_by_text("Nothing more for you")).to_be_visible()
    assert Annotation.objects.count() == 2


def test_a_new_version_shows_what_changed(
    sign_in: SignIn, lin: Person, guideline: Guideline, violations: Violations
) -> None:
    batch_of([SHORT], [lin], guideline)
    IntroductionReading.objects.get_or_create(guideline=guideline, person=lin)
    source = XSTEST_GUIDELINE.path.read_text(encoding="utf-8")
    changed = (
        re.sub(r"(?m)^version: .*$", 'version: "9.0"', source, count=1)
        .replace("It declines", "It refuses")
        .replace("请跳过", "请您跳过")
    )
    newer = load_guideline(text=changed, path="newer.yaml", publish=True)
    Batch.objects.update(guideline=newer)
    for language, words in (("en", "since version"), ("zh-hans", "处改动")):
        page = sign_in(lin, language=language)
        page.goto("/work/")
        expect(page.get_by_role("heading", name=re.compile(words))).to_be_visible()
        assert violations(page) == []
    page = sign_in(lin)
    page.goto("/work/")
    expect(page.locator("ins").first).to_contain_text("refuses")
    expect(page.locator("del").first).to_contain_text("declines")
    press(page, "Enter")
    expect(page.locator("form[data-item]")).to_be_visible()
