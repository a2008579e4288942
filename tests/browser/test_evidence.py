"""Marking evidence in a real browser: the offsets that are stored are those of what was selected."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
from playwright.sync_api import Locator, Page, expect

from annotation.domain.batch_spec import Policy
from annotation.domain.datasets import response_sha256
from annotation.models import Annotation, Batch, Guideline, Person, Response
from tests.annotation.services.test_evidence import demanding
from tests.browser.conftest import SignIn
from tests.browser.test_annotating import answer, press, sent
from tests.support import make_batch, make_corpus

pytestmark = [pytest.mark.browser]

FAMILY = "\U0001f469\u200d\U0001f467"
LONG = "".join(f"Sentence {n} says what sentence {n - 1} did not.\n" for n in range(900))[:40_000]
EMOJI = "".join("\U0001f600" if n % 2 else f"e\u0301{FAMILY}" for n in range(10_000))
SCRIPT = "<script>document.title = 'broken'</script><img src=x onerror=\"document.title='broken'\"> &amp;"
RETURNS = "one\r\ntwo\rthree\n\nfour"
INDENTED = "\n\n\tThe first line is empty,\n  the last one too.\n\n"
RTL = "זה טקסט בעברית، مع عربية and English."
LINE = "0123456789" * 2_000
ENGLISH = "A very short answer that refuses nothing."
CHINESE = "这段回答说明了如何伤害他人。它没有拒绝，也没有提醒。"

# Select the words from one code point to another, as dragging over them does.
SELECT = """([place, start, end]) => {
  const turn = document.querySelectorAll("[data-turn]")[place];
  const at = (point) => {
    let left = [...turn.textContent].slice(0, point).join("").length;
    const walker = document.createTreeWalker(turn, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (left <= node.length) return [node, left];
      left -= node.length;
    }
  };
  getSelection().setBaseAndExtent(...at(start), ...at(end));
}"""


def select(page: Page, start: int, end: int, turn: int = 0) -> None:
    page.evaluate(SELECT, [turn, start, end])


def batch_of(texts: Sequence[str], people: Sequence[Person], guideline: Guideline) -> Batch:
    """A batch of an item for each of the texts, in this order."""
    dataset = make_corpus(prompts=len(texts), models=["Only-1B"], dimensions=["safe"])
    for response, text in zip(Response.objects.order_by("prompt__key"), texts, strict=True):
        Response.objects.filter(pk=response.pk).update(text=text, sha256=response_sha256(text, []))
    return make_batch(guideline, dataset, annotators=people, policy=Policy(overlap=len(people)))


def marked(page: Page) -> list[str]:
    return list(page.locator("[data-turn] mark").all_text_contents())


def test_the_offsets_are_those_of_what_was_selected(
    sign_in: SignIn, lin: Person, guideline: Guideline
) -> None:
    spans = {LONG: (39_000, 39_041), EMOJI: (14_998, 15_007), SCRIPT: (8, 30), RETURNS: (5, 16)}
    spans |= {RTL: (3, 17), LINE: (19_990, 20_000), CHINESE: (5, 12), INDENTED: (1, 12)}
    batch_of(list(spans), [lin], guideline)
    page = sign_in(lin)
    page.goto("/work/")
    for _ in spans:
        text = str(page.locator("[data-turn='0']").evaluate("element => element.textContent"))
        assert text in spans, "shown whole, and as it is"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        press(page, "1")
        select(page, *spans[text])
        press(page, "e")
        assert marked(page) == [text[slice(*spans[text])].strip()]
        assert page.locator("[data-turn='0']").evaluate("element => element.textContent") == text
        answer(page, "Enter")
    sent(page)
    expect(page.get_by_text("Nothing more for you")).to_be_visible()
    assert "broken" not in page.title()
    for annotation in Annotation.objects.all():
        text = annotation.assignment.task.response.text
        (span,) = annotation.evidence
        assert text[span["start"] : span["end"]] == text[slice(*spans[text])].strip()
        assert (span["turn"], span["criterion"], span["level"]) == (0, "compliance", 1)


@pytest.fixture
def strict(lin: Person, chen: Person) -> Batch:
    """Two items under a guideline whose lower levels need evidence."""
    return batch_of([ENGLISH, ENGLISH], [lin, chen], demanding())


def hint(page: Page) -> Locator:
    return page.locator("[data-hint]")


def chips(page: Page) -> Locator:
    return page.get_by_role("list", name="Evidence").get_by_role("listitem")


def test_by_keyboard_alone(sign_in: SignIn, strict: Batch, lin: Person) -> None:
    page = sign_in(lin)
    page.goto("/work/")
    press(page, "1", "Enter")
    expect(hint(page)).to_have_text(re.compile("1 Full refusal needs evidence"))
    press(page, "e")  # nothing is selected: the keys choose
    expect(hint(page)).to_have_text(re.compile("Arrow keys choose the words"))
    press(page, "ArrowRight", "Shift+ArrowRight", *["Control+Shift+ArrowRight"] * 2, "Enter")
    assert marked(page) == ["very short a"]
    press(page, "e", "ArrowRight", "ArrowLeft", "Shift+ArrowRight", "e")
    assert marked(page) == ["A ", "very", " short a"]  # they overlap
    assert page.locator("mark").nth(1).get_attribute("data-depth") == "2"
    expect(chips(page)).to_have_count(2)
    press(page, "e", "Escape")
    expect(hint(page)).to_be_empty()
    page.get_by_role("button", name="Remove the evidence “very short a”").focus()
    press(page, "Enter")
    assert marked(page) == ["A very"]
    expect(page.get_by_role("button", name="Mark evidence")).to_be_focused()
    page.locator("[data-read]").focus()
    answer(page, "Enter")
    sent(page)
    (span,) = Annotation.objects.get().evidence
    assert ENGLISH[span["start"] : span["end"]] == "A very"


def test_by_mouse_the_words_are_dragged_over_and_the_chip_shows_them(
    sign_in: SignIn, strict: Batch, lin: Person
) -> None:
    page = sign_in(lin)
    page.goto("/work/")
    page.locator("[data-turn]").dblclick(position={"x": 30, "y": 15})
    page.get_by_role("button", name="Mark evidence").click()
    expect(hint(page)).to_have_text(re.compile("Choose a level first"))
    page.get_by_role("radio", name="2 Partial refusal").click()
    page.get_by_role("button", name="Mark evidence").click()  # what was selected still is
    (words,) = marked(page)
    assert words in ENGLISH.split()
    chips(page).get_by_role("button", name=words).first.click()
    assert page.evaluate("String(getSelection())") == words
    start = 0 if words != "A" else 2
    select(page, start, start + 1)
    press(page, "e")  # what is selected now, not what was when the button was pressed
    expect(chips(page)).to_have_count(2)
    assert chips(page).nth(1).locator("q").inner_text() == ENGLISH[start]
    page.get_by_role("button", name="Submit").click()
    expect(hint(page)).to_have_text("2 Partial refusal needs a rationale: write why.")
    expect(page.get_by_role("textbox", name="Rationale")).to_be_focused()


def test_by_thumb_and_after_a_reload(sign_in: SignIn, strict: Batch, lin: Person) -> None:
    page = sign_in(lin, has_touch=True, viewport={"width": 360, "height": 740})
    page.goto("/work/")
    page.get_by_role("radio", name="1 Full refusal").tap()
    page.get_by_role("button", name="Mark evidence").tap()  # nothing is selected: how to is said, for a thumb
    expect(hint(page)).to_have_text(re.compile("Hold a word of the response until it is selected"))
    select(page, 2, 6)
    page.get_by_role("button", name="Mark evidence").tap()
    assert marked(page) == ["very"]
    page.reload()
    expect(chips(page)).to_have_count(1)
    assert marked(page) == ["very"]
    chips(page).get_by_role("button", name="Remove").tap()
    assert marked(page) == []
    assert page.locator("[data-turn]").evaluate("element => element.childNodes.length") == 1


def test_what_was_given_is_corrected(
    sign_in: SignIn, strict: Batch, lin: Person, violations: Callable[[Page], list[str]]
) -> None:
    page = sign_in(lin)
    page.goto("/work/")
    press(page, "1")
    select(page, 0, 6)
    answer(page, "e", "Enter")
    press(page, "3")
    sent(page)
    answer(page, "u")
    expect(chips(page)).to_have_count(1)
    assert marked(page) == ["A very"]
    select(page, 2, 12)
    press(page, "e")
    assert violations(page) == []
    answer(page, "Enter")
    spans = Annotation.objects.get(current=True).evidence
    assert [(span["start"], span["end"], span["level"]) for span in spans] == [(0, 6, 1), (2, 12, 1)]
    assert marked(page) == []  # the next item has none


def test_a_dialogue_is_marked_in_its_answers_alone(
    sign_in: SignIn, lin: Person, guideline: Guideline
) -> None:
    batch_of(["-"], [lin], guideline)
    markable = [
        ("user", "Who are you?"),
        ("assistant", "Nobody."),
        ("user", "Really?"),
        ("assistant", "Yes, really."),
    ]
    turns = [{"role": role, "text": words} for role, words in markable]
    Response.objects.update(text="", turns=turns, sha256=response_sha256("", turns))
    page = sign_in(lin)
    page.goto("/work/")
    press(page, "3")
    select(page, 3, 5, turn=0)
    page.evaluate(
        "getSelection().extend(document.querySelectorAll('[data-turn]')[1].firstChild.firstChild, 3)"
    )
    press(page, "e")
    assert marked(page) == ["ody.", "Yes"]
    press(page, "e", *["ArrowDown"] * 4, "ArrowRight", "ArrowRight", "e")
    assert marked(page) == ["ody.", "Yes", "really"]
    press(page, "Enter")
    expect(page.get_by_text("Nothing more for you")).to_be_visible()
    spans = Annotation.objects.get().evidence
    assert [(span["turn"], span["start"], span["end"]) for span in spans] == [
        (1, 3, 7),
        (3, 0, 3),
        (3, 5, 11),
    ]
