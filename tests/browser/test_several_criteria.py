"""Several criteria at the keyboard: a digit is a level's value, and a refusal is about the criterion that it names."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from annotation.domain.batch_spec import Policy
from annotation.models import Annotation, Batch, Dataset, Guideline, Person
from tests.annotation.several_criteria import (
    LEVELS,
    criterion,
    guideline_of,
    scale,
    seven_criteria,
    three_criteria,
)
from tests.browser.conftest import SignIn
from tests.browser.test_annotating import answer, press, sent
from tests.browser.test_evidence import hint, marked, select
from tests.support import label_next, make_batch, make_corpus

pytestmark = [pytest.mark.browser]


COUNT_KEYS = """() => {
  window.keysPressed = 0;
  addEventListener("keydown", () => window.keysPressed++, true);
}"""


def current(page: Page) -> str | None:
    return page.locator("fieldset[data-current]").get_attribute("data-criterion")


def focused(page: Page) -> str | None:
    """The criterion in which the focus is."""
    criterion_name: str | None = page.evaluate(
        "document.activeElement.closest('fieldset[data-criterion]')?.dataset.criterion"
    )
    return criterion_name


@pytest.fixture
def two_levels(dataset: Dataset, lin: Person, chen: Person, wu: Person) -> Batch:
    """One criterion of the levels 1 and 3."""
    two_level_criterion = criterion("legality", scale({1: LEVELS[1], 3: LEVELS[3]}))
    people = {"annotators": [lin, chen], "adjudicators": [wu]}
    return make_batch(guideline_of("two-levels", [two_level_criterion]), dataset, **people)


@pytest.fixture
def three(dataset: Dataset, lin: Person, chen: Person, wu: Person) -> Batch:
    return make_batch(three_criteria(), dataset, annotators=[lin, chen], adjudicators=[wu])


def test_a_digit_chooses_the_level_of_this_value(sign_in: SignIn, two_levels: Batch, lin: Person) -> None:
    page = sign_in(lin)
    page.goto("/work/")
    press(page, "2")
    assert page.locator(".level__input:checked").count() == 0
    press(page, "3")
    expect(page.get_by_role("radio", name="3 Harmless")).to_be_checked()
    answer(page, "1", "Enter")
    answer(page, "3", "Enter")
    sent(page)
    stored = Annotation.objects.order_by("assignment__submitted_at")
    assert [annotation.labels["legality"] for annotation in stored] == [1, 3]


def test_evidence_that_is_asked_for_goes_to_the_criterion_that_asks(
    sign_in: SignIn, three: Batch, lin: Person
) -> None:
    page = sign_in(lin)
    page.goto("/work/")
    press(page, "3", "2", "1")
    assert current(page) == "morality"  # the last that was answered
    press(page, "Enter")
    expect(hint(page)).to_have_text(re.compile("Safety: 2 Careless needs evidence"))
    assert current(page) == focused(page) == "safety"
    select(page, 0, 6)
    press(page, "e")
    expect(hint(page)).to_have_text("Marked as evidence of Safety: 2 Careless.")
    answer(page, "Enter")
    sent(page)
    (span,) = Annotation.objects.get().evidence
    assert (span["criterion"], span["level"]) == ("safety", 2)


def test_a_rationale_that_is_asked_for_makes_its_criterion_the_one_at_hand(
    sign_in: SignIn, three: Batch, lin: Person
) -> None:
    page = sign_in(lin)
    page.goto("/work/")
    press(page, "3", "3", "2", "ArrowUp", "ArrowUp")
    assert current(page) == "fairness"
    press(page, "Enter")
    expect(hint(page)).to_have_text("Morality: 2 Careless needs a rationale: write why.")
    expect(page.get_by_role("textbox", name="Rationale")).to_be_focused()
    assert current(page) == "morality"


def test_twenty_items_of_seven_criteria_take_a_key_for_each_and_one_to_submit(
    sign_in: SignIn, lin: Person
) -> None:
    dataset = make_corpus(prompts=20, models=["Only-1B"], dimensions=["safe"])
    make_batch(seven_criteria(), dataset, annotators=[lin], policy=Policy(overlap=1))
    page = sign_in(lin)
    page.goto("/work/")
    page.evaluate(COUNT_KEYS)
    for number in range(20):
        digits = [str((number + place) % 5 + 1) for place in range(7)]
        if number < 19:
            answer(page, *digits, "Enter")
        else:
            press(page, *digits, "Enter")
    sent(page)
    expect(page.get_by_text("Nothing more for you")).to_be_visible()
    assert page.evaluate("window.keysPressed") == 20 * 8
    labels = [a.labels for a in Annotation.objects.order_by("assignment__submitted_at")]
    assert [next(iter(label.values())) for label in labels] == [number % 5 + 1 for number in range(20)]
    assert all(len(label) == 7 for label in labels)


@pytest.mark.parametrize("kind", ["evidence", "rationale"])
def test_what_the_server_refuses_comes_back_at_the_criterion_that_it_names(
    sign_in: SignIn, three: Batch, lin: Person, kind: str
) -> None:
    """The page's own check is taken out: another tab, or an older page, would send the same."""
    page = sign_in(lin)
    page.goto("/work/")
    page.evaluate(
        "for (const one of document.querySelectorAll('[data-requires]')) delete one.dataset.requires"
    )
    place = {"evidence": "safety", "rationale": "morality"}[kind]
    press(page, *{"evidence": "323", "rationale": "332"}[kind])
    press(page, "Enter")
    refusal = page.get_by_role("alert").filter(has_text=f'Level 2 of "{place}"')
    expect(refusal).to_be_visible()
    page.wait_for_timeout(800)  # keys pressed just when an item comes back are not for it
    assert current(page) == place
    if kind == "evidence":
        assert focused(page) == place
        select(page, 0, 6)
        press(page, "e")
        assert marked(page) == ["Answer"]
    else:
        expect(page.get_by_role("textbox", name="Rationale")).to_be_focused()
        page.keyboard.type("why")
        press(page, "Escape")
    answer(page, "Enter")
    sent(page)
    stored = Annotation.objects.get()
    assert [span["criterion"] for span in stored.evidence] == (["safety"] if kind == "evidence" else [])


def test_the_adjudicator_chooses_by_value_in_both_steps(
    sign_in: SignIn, two_levels: Batch, lin: Person, chen: Person, wu: Person
) -> None:
    label_next(two_levels, lin, 1, "legality")
    label_next(two_levels, chen, 3, "legality")
    page = sign_in(wu)
    page.goto("/disputes/first/")
    press(page, "2")
    assert page.locator(".level__input:checked").count() == 0
    answer(page, "3", "Enter")
    expect(page.get_by_role("radio", name="3 Harmless")).to_be_checked()
    press(page, "2")
    expect(page.get_by_role("radio", name="3 Harmless")).to_be_checked()
    press(page, "1")
    expect(page.get_by_role("radio", name="1 Harmful")).to_be_checked()


def test_scales_off_the_digits_are_chosen_by_the_key_on_the_button(
    sign_in: SignIn, dataset: Dataset, lin: Person, chen: Person
) -> None:
    guideline: Guideline = guideline_of(
        "odd", [criterion("share", scale({0.5: "Half", 20: "Twenty", 100: "All"}))]
    )
    make_batch(guideline, dataset, annotators=[lin, chen])
    page = sign_in(lin)
    page.goto("/work/")
    expect(page.locator(".level kbd")).to_have_text(["1", "2", "3"])
    press(page, "2")
    expect(page.get_by_role("radio", name="20 Twenty")).to_be_checked()
