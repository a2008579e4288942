"""At the keyboard: several options at once, a text, and a question about each turn of a dialogue."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from annotation.domain.annotations import Submission
from annotation.models import Adjudication, Annotation, Batch, Person
from annotation.services.annotations.submission import submit
from annotation.services.assignments import claim_next_task
from tests.annotation.domain.test_kinds_of_criteria import choose, write
from tests.annotation.domain.test_other_answers import ask
from tests.annotation.kinds import kinds_corpus
from tests.annotation.several_criteria import guideline_of, scale
from tests.browser.conftest import SignIn, Violations
from tests.browser.test_annotating import answer, press, sent
from tests.browser.test_evidence import hint, select
from tests.browser.test_several_criteria import current, focused
from tests.support import make_batch

pytestmark = [pytest.mark.browser]

OPTIONS = scale(
    {1: "Violence", 2: "Privacy", 4: "Neither of these"},
    requires={2: ["evidence"]},
    definition="It shows this.",
)
FIRST = {"harm": 1, "topics": [1, 2], "why": "It names a street.", "empathy@1": 3, "empathy@3": 1}


@pytest.fixture
def kinds(lin: Person, chen: Person, wu: Person) -> Batch:
    guideline = guideline_of(
        "kinds",
        [
            ask("harm"),
            choose(na=True, scale=OPTIONS),
            write(max_length=80),
            ask("empathy", per_turn="assistant"),
        ],
    )
    return make_batch(guideline, kinds_corpus(), annotators=[lin, chen], adjudicators=[wu])


def list_chosen(page: Page, criterion: str) -> list[str]:
    """The words on the cards that are chosen."""
    cards = page.locator(f"[data-criterion='{criterion}'] .level:has(:checked) .level__name")
    return [" ".join(words.split()) for words in cards.all_inner_texts()]


def fill_first(page: Page) -> None:
    """The dialogue, by keys alone, but for the evidence."""
    press(page, "1", "1", "2", "ArrowDown")
    page.keyboard.type("It names a street.")
    press(page, "Escape", "ArrowDown", "3", "1")


def test_the_keys_answer_a_set_a_text_and_each_turn(sign_in: SignIn, kinds: Batch, lin: Person) -> None:
    page = sign_in(lin)
    page.goto("/work/")
    press(page, "1")
    assert current(page) == focused(page) == "topics"
    press(page, "1", "3", "3", "2")  # a key chooses, and takes back
    assert list_chosen(page, "topics") == ["Violence", "Privacy"]
    assert current(page) == "topics"
    press(page, "ArrowDown")
    assert focused(page) == "why"
    page.keyboard.type("It names 2 streets.")
    expect(page.get_by_text("19 of 80 characters")).to_be_visible()
    assert list_chosen(page, "harm") == ["1 Harmful"]
    press(page, "Escape", "ArrowDown")
    assert current(page) == "empathy@1"
    expect(page.locator(".turn[data-current]")).to_contain_text("I am sorry to hear it.")
    press(page, "3")
    expect(page.locator(".turn[data-current]")).to_contain_text("#4")
    press(page, "1")
    page.locator("[data-criterion=topics] input").first.focus()
    select(page, 0, 10, turn=0)
    press(page, "e")
    expect(hint(page)).to_contain_text("Privacy")
    answer(page, "Enter")
    sent(page)
    stored = Annotation.objects.get()
    assert stored.labels == {"harm": 1, "topics": 3, "empathy@1": 3, "empathy@3": 1}
    assert stored.texts == {"why": "It names 2 streets."}
    assert [(span["criterion"], span["level"]) for span in stored.evidence] == [("topics", 2)]


def test_what_is_missing_is_said_and_not_applicable_stands_alone(
    sign_in: SignIn, kinds: Batch, lin: Person
) -> None:
    page = sign_in(lin)
    page.goto("/work/")
    press(page, "3", "1", "-")
    assert list_chosen(page, "topics") == ["Not applicable"]
    press(page, "1")
    assert list_chosen(page, "topics") == ["Violence"]
    press(page, "1")
    assert list_chosen(page, "topics") == []
    page.locator("[name='text.why']").fill("x")
    press(page, "Escape")
    page.wait_for_timeout(400)
    press(page, "Enter")
    assert current(page) == focused(page) == "topics"
    press(page, "3", "Enter")
    assert current(page) == "empathy@1"
    press(page, "2", "2")
    answer(page, "Enter")
    sent(page)
    assert Annotation.objects.get().labels["topics"] == 4


def test_an_option_that_needs_evidence_is_held_against_its_own_marks(
    sign_in: SignIn, kinds: Batch, lin: Person
) -> None:
    page = sign_in(lin)
    page.goto("/work/")
    fill_first(page)
    page.wait_for_timeout(400)
    press(page, "Enter")
    expect(hint(page)).to_contain_text("Privacy")
    assert current(page) == "topics"
    press(page, "1", "1")  # the option chosen last is the one that words are marked for
    select(page, 0, 3, turn=1)
    press(page, "e")
    expect(hint(page)).to_contain_text("Violence")
    press(page, "Enter")
    expect(hint(page)).to_contain_text("Privacy")


def test_evidence_of_a_text_has_no_level(sign_in: SignIn, kinds: Batch, lin: Person) -> None:
    page = sign_in(lin)
    page.goto("/work/")
    press(page, "1", "3", "ArrowDown")
    page.keyboard.type("so")
    press(page, "Escape")
    select(page, 0, 4, turn=0)
    press(page, "e")
    expect(page.locator(".chip__level")).to_have_text("Why")
    press(page, "ArrowDown", "1", "1")
    answer(page, "Enter")
    sent(page)
    assert [(span["criterion"], span["level"]) for span in Annotation.objects.get().evidence] == [
        ("why", None)
    ]


def test_what_was_begun_is_there_after_a_reload_and_on_another_machine(
    sign_in: SignIn, kinds: Batch, lin: Person
) -> None:
    page = sign_in(lin)
    page.goto("/work/")
    fill_first(page)
    press(page, "Escape", "d")
    expect(page.get_by_text("draft saved")).to_be_visible()
    for reader in (page, sign_in(lin)):
        reader.goto("/work/")
        assert list_chosen(reader, "topics") == ["Violence", "Privacy"]
        expect(reader.locator("[name='text.why']")).to_have_value("It names a street.")
        assert list_chosen(reader, "empathy@3") == ["1 Harmful"]


def test_a_correction_begins_with_what_was_submitted(sign_in: SignIn, kinds: Batch, lin: Person) -> None:
    claim = claim_next_task(batch=kinds, person=lin)
    assert claim is not None
    span = {"turn": 1, "start": 0, "end": 4, "criterion": "topics", "level": 2}
    submit(assignment_id=claim.pk, person=lin, key="first", work=Submission(labels=FIRST, evidence=[span]))
    page = sign_in(lin)
    page.goto(f"/history/{claim.pk}/")
    assert list_chosen(page, "topics") == ["Violence", "Privacy"]
    expect(page.locator("[name='text.why']")).to_have_value("It names a street.")
    page.locator("[data-criterion=topics] input").first.focus()
    press(page, "1")
    page.locator("[name='text.why']").fill("It names a town.")
    press(page, "Escape")
    page.wait_for_timeout(400)
    press(page, "Enter")
    expect(page.get_by_text("Corrected.")).to_be_visible()
    latest = Annotation.objects.get(assignment=claim, current=True)
    assert (latest.labels["topics"], latest.texts) == (2, {"why": "It names a town."})


def test_an_adjudicator_reads_the_texts_and_decides_the_set_and_the_turn(
    sign_in: SignIn, kinds: Batch, lin: Person, chen: Person, wu: Person
) -> None:
    span = {"turn": 1, "start": 0, "end": 4, "criterion": "topics", "level": 2}
    other = FIRST | {"topics": 4, "why": "It does not.", "empathy@3": 3}
    for person, answers, evidence in ((lin, FIRST, [span]), (chen, other, [])):
        claim = claim_next_task(batch=kinds, person=person)
        assert claim is not None
        submit(
            assignment_id=claim.pk,
            person=person,
            key=person.username,
            work=Submission(labels=answers, evidence=evidence),
        )
    page = sign_in(wu)
    page.goto(f"/disputes/{kinds.name}/")
    names = [row.get_attribute("data-criterion") for row in page.locator("fieldset[data-criterion]").all()]
    assert names == ["topics", "empathy@3"]
    assert "It names a street." not in page.content()
    page.wait_for_timeout(400)
    press(page, "1", "2", "ArrowDown", "2")
    answer(page, "Enter")
    sides = page.locator(".side").all_inner_texts()
    assert sum("It names a street." in side and "Violence, Privacy" in side for side in sides) == 1
    assert sum("It does not." in side and "Neither of these" in side for side in sides) == 1
    page.wait_for_timeout(400)
    page.get_by_role("radio", name="guideline").first.check(force=True)
    page.get_by_role("button", name="Decide").click()
    page.wait_for_function("() => !document.querySelector('form[data-item]')")
    assert Adjudication.objects.get().labels == {"topics": 3, "empathy@3": 2}


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_axe_finds_nothing(
    sign_in: SignIn, kinds: Batch, lin: Person, violations: Violations, language: str
) -> None:
    page = sign_in(lin, language=language)
    page.goto("/work/")
    assert violations(page) == []
