"""The text that is judged has half of the window or more, at every size, and nothing is out of reach beside it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy
from annotation.domain.datasets import response_sha256
from annotation.models import MANAGER, RESEARCHER, Batch, Guideline, Person, Response
from annotation.services.adjudication.disputes import adjudicate, record_verdict
from annotation.services.annotations.submission import submit
from annotation.services.assignments import claim_next_dispute, claim_next_task
from annotation.services.people.people import add_person
from annotation.services.people.setup_links import make_setup_link
from tests.annotation.domain.texts.documents import write_answer
from tests.annotation.several_criteria import many_kinds, many_levels, seven_criteria, three_criteria
from tests.browser.conftest import SignIn, Violations, until
from tests.browser.viewports import measure_viewport, table_of
from tests.support import XSTEST_GUIDELINE, make_batch, make_corpus

pytestmark = [pytest.mark.browser]

LONG = "\n\n".join(
    f"Paragraph {n} of a long response says one more thing, at the length of a line or two."
    for n in range(60)
)
MARKDOWN = write_answer(6000)
Turn = dict[str, str]
DIALOGUE: list[Turn] = [
    {"role": role, "text": f"{words} of step {n}, in **a few** words, as people write to a model."}
    for n in range(6)
    for role, words in (("user", "A question"), ("assistant", "An answer"))
]
COVERED = """one => {
  const { x, y, width, height } = one.getBoundingClientRect();
  return !one.contains(document.elementFromPoint(x + width / 2, y + height / 2));
}"""


def batch_of(
    guideline: Guideline, lin: Person, chen: Person, wu: Person, answer: str | list[Turn] = LONG
) -> Batch:
    dataset = make_corpus(prompts=1, models=["Only-1B"], dimensions=["safe"])
    text, turns = (answer, []) if isinstance(answer, str) else ("", answer)
    Response.objects.update(text=text, turns=turns, sha256=response_sha256(text, turns))
    return make_batch(guideline, dataset, annotators=[lin, chen], adjudicators=[wu], policy=Policy(overlap=2))


def give(batch: Batch, person: Person, value: int) -> str:
    """Submit this value for every criterion, with all that a level may need; the assignment."""
    claim = claim_next_task(batch=batch, person=person)
    assert claim is not None
    names = [criterion.name for criterion in batch.guideline.document.criteria]
    evidence = [{"turn": 0, "start": 0, "end": 9, "criterion": name, "level": value} for name in names]
    work = Submission(dict.fromkeys(names, value), rationale="A rationale of some words.", evidence=evidence)
    submit(assignment_id=claim.pk, person=person, key="k", work=work)
    return str(claim.pk)


def wait_until_it_fits(part: Locator, width: int, height: int) -> None:
    def fits() -> bool:
        box = part.bounding_box()
        assert box is not None
        within = box["x"] + box["width"] <= width and box["y"] + box["height"] <= height
        return within and min(box["x"], box["y"]) >= 0

    until(part.page, fits)


def check(page: Page) -> None:
    wrong = table_of(page)
    assert not wrong, "\n".join(f"{width}x{height}: {faults}" for (width, height), faults in wrong.items())


@pytest.mark.parametrize(
    ("guideline", "language", "answer"),
    [
        (XSTEST_GUIDELINE.load, "en", MARKDOWN),
        (three_criteria, "en", DIALOGUE),
        (seven_criteria, "zh-hans", MARKDOWN),
        (many_levels, "zh-hans", LONG),
        (many_kinds, "zh-hans", DIALOGUE),
    ],
    ids=[
        "one",
        "three, of a dialogue",
        "seven, in Chinese",
        "many levels, in Chinese",
        "many kinds, in Chinese",
    ],
)
def test_the_annotation_page(
    sign_in: SignIn,
    lin: Person,
    chen: Person,
    wu: Person,
    guideline: Callable[[], Guideline],
    language: str,
    answer: str | list[Turn],
) -> None:
    batch_of(guideline(), lin, chen, wu, answer)
    page = sign_in(lin, language=language)
    page.goto("/work/first/")
    check(page)


@pytest.mark.parametrize("size", [(1440, 900), (1280, 720)])
def test_seven_criteria_are_in_the_window_at_once(
    sign_in: SignIn, lin: Person, chen: Person, wu: Person, size: tuple[int, int]
) -> None:
    batch_of(seven_criteria(), lin, chen, wu, MARKDOWN)
    width, height = size
    page = sign_in(lin, viewport={"width": width, "height": height})
    page.goto("/work/first/")
    levels = page.locator(".level")
    assert levels.count() == 35
    assert levels.evaluate_all(f"all => all.filter({COVERED}).length") == 0
    assert measure_viewport(page)["text"] >= 0.5


def test_the_annotation_page_with_all_that_can_be_said_on_it(
    sign_in: SignIn, lin: Person, chen: Person, wu: Person
) -> None:
    """Levels chosen, evidence marked, a refusal and a long rationale."""
    batch_of(three_criteria(), lin, chen, wu)
    page = sign_in(lin)
    page.goto("/work/first/")
    for key in ("3", "2", "2", "ArrowUp", "e", "Enter", "r"):
        page.keyboard.press(key)
    page.keyboard.type("word " * 60)
    page.keyboard.press("Escape")
    expect(page.get_by_role("list", name="Evidence").get_by_role("listitem")).to_have_count(1)
    check(page)


def test_the_adjudicators_pages_and_the_histories(
    sign_in: SignIn, lin: Person, chen: Person, wu: Person
) -> None:
    batch = batch_of(three_criteria(), lin, chen, wu)
    assignment = give(batch, lin, 1)
    page = sign_in(lin)
    page.goto(f"/history/{assignment}/")
    check(page)
    give(batch, chen, 3)
    page = sign_in(wu)
    page.goto("/disputes/first/")
    check(page)
    for number in range(3):
        page.locator("fieldset[data-criterion]").nth(number).locator("input").first.check(force=True)
    page.get_by_role("button", name="Record my verdict").click()
    expect(page.get_by_role("heading", name="Annotator")).to_have_count(2)
    check(page)
    page.locator("[name=reason]").first.check()
    page.get_by_role("button", name="Decide").click()
    expect(page.get_by_role("heading", name="No dispute waits")).to_be_visible()
    page.goto("/history/")
    page.locator("a.clip").first.click()
    page.wait_for_url("**/history/*/")  # with its style: a page that is still loading fits no window
    check(page)


@pytest.mark.parametrize("size", [(320, 256), (390, 844), (720, 450), (844, 390), (1280, 720)])
def test_what_opens_over_the_page_fits_the_window_and_leaves_its_button_free(
    sign_in: SignIn, lin: Person, chen: Person, wu: Person, size: tuple[int, int]
) -> None:
    batch_of(three_criteria(), lin, chen, wu)
    width, height = size
    page = sign_in(lin, viewport={"width": width, "height": height})
    page.goto("/work/first/")
    for key in ("f", "s", "?"):
        page.locator(f"summary[data-key='{key}']").click()
        panel = page.locator("details[open] > div")
        wait_until_it_fits(panel, width, height)
        last = panel.locator("input, button, a, td").last
        last.scroll_into_view_if_needed()
        expect(last).to_be_in_viewport()
        summary = page.locator("details[open] > summary")
        if key != "?":  # the sheet of keys is as high as the window
            until(page, lambda summary=summary: not summary.evaluate(COVERED))
        page.keyboard.press("Escape")
        expect(panel).to_have_count(0)
    page.keyboard.press("i")
    wait_until_it_fits(page.locator("dialog[open]"), width, height)


def test_axe_finds_nothing_on_short_and_narrow_windows(
    sign_in: SignIn, lin: Person, chen: Person, wu: Person, violations: Violations
) -> None:
    batch = batch_of(three_criteria(), lin, chen, wu)
    give(batch, chen, 3)
    page = sign_in(lin)
    page.goto("/work/first/")
    for width, height in ((320, 256), (390, 844), (720, 450), (844, 390)):
        page.set_viewport_size({"width": width, "height": height})
        assert violations(page) == [], (width, height)


def test_a_notice_above_the_work_leaves_the_decision_in_the_window(
    sign_in: SignIn, lin: Person, chen: Person, wu: Person, he: Person
) -> None:
    """It has its room from the text, until it is confirmed on the account."""
    batch_of(three_criteria(), lin, chen, wu)
    make_setup_link(person=lin, actor=he)
    page = sign_in(lin)
    for width, height in ((1280, 800), (1280, 720), (844, 390), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        page.goto("/work/first/")
        expect(page.get_by_role("heading", name="Links were made")).to_be_visible()
        wait_until_it_fits(page.get_by_role("button", name="Submit"), width, height)
        wait_until_it_fits(page.locator(".turn--prompt"), width, height)
        expect(page.get_by_role("button", name="I have read this")).to_be_hidden()
    page.get_by_role("region", name="Links were made").get_by_role("link", name="My account").click()
    page.get_by_role("button", name="I have read this").click()
    expect(page.get_by_role("heading", name="Links were made")).to_have_count(0)


def test_a_correction_begins_with_the_levels_and_what_became_of_the_item_follows(
    sign_in: SignIn, lin: Person, chen: Person, wu: Person
) -> None:
    batch = batch_of(three_criteria(), lin, chen, wu)
    assignment = give(batch, lin, 1)
    give(batch, chen, 3)
    claim = claim_next_dispute(batch=batch, person=wu)
    assert claim is not None
    names = [criterion.name for criterion in batch.guideline.document.criteria]
    work = Submission(dict.fromkeys(names, 3), rationale="Words that tell why.", reason="reading_slip")
    record_verdict(assignment_id=claim.pk, person=wu, work=work)
    adjudicate(assignment_id=claim.pk, person=wu, key="k", work=work)
    page = sign_in(lin)
    page.goto(f"/history/{assignment}/")
    top = page.get_by_role("region", name="Outcome of the item").bounding_box()
    last = page.locator("fieldset[data-criterion]").last.bounding_box()
    assert top is not None
    assert last is not None
    assert top["y"] > last["y"]
    Batch.objects.update(name="responses-of-the-second-round")  # the head has little room for it on a phone
    page.reload()
    check(page)


def test_a_narrow_window_shows_the_tab_and_the_page_where_one_is(sign_in: SignIn, batch: Batch) -> None:
    chief = add_person(name="chief", roles=[MANAGER, RESEARCHER])
    page = sign_in(chief, viewport={"width": 320, "height": 568})
    for address, tab in ((f"/batches/{batch.name}/quality/", "Quality"), ("/runs/", "Boards")):
        page.goto(address)
        current = page.locator(".nav [aria-current], .tabs [aria-current]").filter(has_text=tab).first
        expect(current).to_be_in_viewport(ratio=0.9)
