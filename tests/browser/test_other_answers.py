"""At the keyboard: what is not applicable, stays unanswered, or is asked beside some answers only."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from annotation.models import Annotation, Batch, Dataset, Person
from tests.annotation.several_criteria import LEVELS, criterion, guideline_of, scale
from tests.browser.conftest import SignIn
from tests.browser.test_annotating import answer, press, sent
from tests.browser.test_several_criteria import current, focused
from tests.support import make_batch

pytestmark = [pytest.mark.browser]


@pytest.fixture
def care(dataset: Dataset, lin: Person, chen: Person, wu: Person) -> Batch:
    wide = scale({1: "Lowest", 40: "Highest"})
    guideline = guideline_of(
        "care",
        [
            criterion("empathy", scale(LEVELS)) | {"na": True},
            criterion("repair", scale(LEVELS)) | {"asked_if": {"criterion": "empathy", "at_most": 2}},
            criterion("depth", wide)
            | {"na": True, "measurement": "interval", "range": {"min": 1, "max": 40}},
            criterion("note", scale(LEVELS)) | {"optional": True},
        ],
    )
    return make_batch(guideline, dataset, annotators=[lin, chen], adjudicators=[wu])


def list_shown(page: Page) -> list[str]:
    names: list[str] = page.evaluate(
        "[...document.querySelectorAll('form[data-item] fieldset[data-criterion]:not([hidden])')]"
        ".map((question) => question.dataset.criterion)"
    )
    return names


def test_questions_come_and_go_with_the_answer_and_the_focus_stays(
    sign_in: SignIn, care: Batch, lin: Person
) -> None:
    page = sign_in(lin)
    page.goto("/work/")
    assert list_shown(page) == ["empathy", "depth", "note"]
    press(page, "1")
    assert list_shown(page) == ["empathy", "repair", "depth", "note"]
    assert current(page) == focused(page) == "repair"
    press(page, "3")
    assert current(page) == "depth"
    press(page, "-")
    expect(page.locator("[data-criterion=depth] [type=checkbox]")).to_be_checked()
    expect(page.locator("[data-criterion=depth] [type=number]")).to_be_disabled()
    page.locator("[data-criterion=empathy] input").first.focus()
    press(page, "-")
    assert list_shown(page) == ["empathy", "depth", "note"]
    expect(
        page.locator("[data-criterion=empathy]").get_by_role("radio", name="Not applicable")
    ).to_be_checked()
    assert focused(page) in {"empathy", "depth", "note"}
    answer(page, "Enter")
    sent(page)
    assert Annotation.objects.get().labels == {"empathy": "na", "depth": "na"}


def test_what_is_hidden_is_not_missing_and_what_is_asked_is(
    sign_in: SignIn, care: Batch, lin: Person
) -> None:
    page = sign_in(lin)
    page.goto("/work/")
    press(page, "2")
    page.locator("[data-criterion=depth] [type=number]").fill("7")
    press(page, "Escape", "Enter")
    assert current(page) == focused(page) == "repair"
    press(page, "1")
    page.locator("[data-criterion=note] input").first.focus()
    press(page, "2", ".")
    expect(page.locator("[data-criterion=note]").get_by_role("radio", name="No answer")).to_be_checked()
    answer(page, "Enter")
    sent(page)
    assert Annotation.objects.get().labels == {"empathy": 2, "repair": 1, "depth": 7}
