"""Several responses side by side: what is chosen under the number that a person reads is stored by the slate's places,
which an adjudicator reads under numbers of their own.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from annotation.domain.batch_spec import Policy
from annotation.models import Adjudication, Annotation, Assignment, Batch, GoldLabel, Person
from tests.annotation.domain.texts.documents import write_answer
from tests.annotation.slates import (
    BEST_GUIDELINE,
    MODELS,
    PREFERENCE_GUIDELINE,
    best_criterion,
    claim,
    give,
    make_slate_batch,
    ranking_criterion,
    read_texts,
    score_criterion,
    slate_guideline,
)
from tests.browser.conftest import SignIn, Violations, until
from tests.browser.test_annotating import answer, press, sent
from tests.browser.test_evidence import hint, select
from tests.browser.test_several_criteria import current, focused
from tests.browser.viewports import table_of

pytestmark = [pytest.mark.browser]

ANSWERS = {model: write_answer(3000, number) for number, model in enumerate(MODELS, start=1)}
WORDS = dict(zip(MODELS, ("An apple is red.", "A pear is green.", "A plum is blue."), strict=True))
DIFFERENCES = "[...(CSS.highlights.get('differs') || [])].map(String)"
DIFFERING_ENTRIES = """[...CSS.highlights.get("differs")].map(
  (range) => range.startContainer.parentElement.closest("[data-entry]").dataset.entry)"""


def read_numbers(page: Page) -> dict[str, str]:
    """The text of each response under the number that it bears on the page."""
    entries = page.locator("[data-entry]")
    numbers = entries.locator(".slate__number").all_text_contents()
    return dict(zip(numbers, entries.locator("[data-turn]").all_text_contents(), strict=True))


def number_of(page: Page, text: str) -> str:
    return next(number for number, words in read_numbers(page).items() if words == text)


def find_place(assignment: Assignment, text: str) -> int:
    """In the slate's own order."""
    return next(place for place, words in read_texts(assignment).items() if words == text)


def list_labels(person: Person) -> list[dict[str, Any]]:
    annotations = Annotation.objects.filter(assignment__person=person, current=True)
    return [a.labels for a in annotations.order_by("assignment__submitted_at")]


def settle(page: Page) -> None:
    """Keys and clicks are for this item from now on (keys.js)."""
    page.wait_for_timeout(400)


# ---- the best of several


def test_three_experts_who_choose_the_same_response_agree_whatever_its_number(
    sign_in: SignIn, lin: Person, chen: Person, zhou: Person
) -> None:
    orders = {lin: "123", chen: "231", zhou: "312"}
    batch = make_slate_batch(BEST_GUIDELINE.load(), annotators=list(orders), prompts=3, answers=WORDS)
    pressed: set[str] = set()
    for person, order in orders.items():
        claim(batch, person, order)
        page = sign_in(person)
        page.goto("/work/")
        for item in range(3):
            number = number_of(page, WORDS["Hidden-13B"])
            pressed.add(number if item == 0 else "")
            press(page, number)
            assert current(page) == "score"
            press(page, "0")  # the key of 10
            answer(page, "Enter") if item < 2 else press(page, "Enter")
        sent(page)
    assert pressed == {"", "1", "2", "3"}
    for annotation in Annotation.objects.select_related("assignment__task__response"):
        place = find_place(annotation.assignment, WORDS["Hidden-13B"])
        assert annotation.labels == {"best": place, "score": 10}
    assert set(batch.tasks.values_list("state", flat=True)) == {"agreed"}
    assert set(GoldLabel.objects.values_list("source", flat=True)) == {"unanimous"}


@pytest.mark.parametrize("order", ["123", "231", "312", "321"])
def test_the_stored_label_names_the_response_that_was_read_under_the_number(
    sign_in: SignIn, lin: Person, order: str
) -> None:
    batch = make_slate_batch(BEST_GUIDELINE.load(), annotators=[lin], answers=WORDS)
    texts = read_texts(claim(batch, lin, order))
    page = sign_in(lin)
    page.goto("/work/")
    assert list(read_numbers(page).values()) == [texts[int(place)] for place in order]
    press(page, "2", "7", "Enter")
    sent(page)
    assert list_labels(lin) == [{"best": int(order[1]), "score": 7}]


@pytest.mark.parametrize("keys", [("0",), ("3", "4")], ids=["none", "a low score"])
def test_an_own_answer_is_asked_for_in_place_and_by_the_server(
    sign_in: SignIn, lin: Person, keys: tuple[str, ...]
) -> None:
    make_slate_batch(BEST_GUIDELINE.load(), annotators=[lin], answers=WORDS)
    page = sign_in(lin)
    page.goto("/work/")
    press(page, *keys)
    assert current(page) == focused(page) == "own_answer"
    settle(page)
    press(page, "Escape", "Enter")
    expect(page.get_by_role("alert").filter(has_text="Answer this question first.")).to_be_visible()
    assert focused(page) == "own_answer"
    # What the page would refuse is sent past its check.
    page.evaluate(
        """() => {
          const form = document.querySelector("form[data-item]");
          const box = form.querySelector("[data-criterion=own_answer]");
          box.dataset.optional = "";
          box.querySelector("textarea").required = false;
        }"""
    )
    press(page, "Escape")
    with page.expect_response("**/submit/") as answered:
        press(page, "Enter")
    assert answered.value.status == 422
    refusal = page.locator("#refusal")
    expect(refusal).to_contain_text("own_answer")
    assert not Annotation.objects.exists()
    page.wait_for_timeout(800)  # keys pressed just when an item comes back are not for it
    assert current(page) == focused(page) == "own_answer"
    page.keyboard.type("I would say 3 things.")
    press(page, "Control+Enter")
    sent(page)
    stored = Annotation.objects.get()
    assert stored.texts == {"own_answer": "I would say 3 things."}
    assert ("score" in stored.labels) == (keys != ("0",))


def test_a_score_of_five_needs_no_own_answer(sign_in: SignIn, lin: Person) -> None:
    make_slate_batch(BEST_GUIDELINE.load(), annotators=[lin], answers=WORDS)
    page = sign_in(lin)
    page.goto("/work/")
    press(page, "1", "5")
    expect(page.locator("[data-criterion=own_answer]")).to_be_hidden()
    press(page, "Enter")
    sent(page)
    assert list_labels(lin)[0]["score"] == 5


def test_a_tie_is_a_key_of_its_own(sign_in: SignIn, lin: Person) -> None:
    make_slate_batch(
        PREFERENCE_GUIDELINE.load(), annotators=[lin], prompts=2, models=MODELS[:2], answers=WORDS
    )
    page = sign_in(lin)
    page.goto("/work/")
    press(page, "0", "3")
    assert page.locator(".level__input:checked").count() == 0
    press(page, "=")
    expect(page.get_by_role("radio", name="Tie")).to_be_checked()
    answer(page, "Enter")
    press(page, "2", "Enter")
    sent(page)
    orders = Assignment.objects.order_by("submitted_at").values_list("shown_order", flat=True)
    assert list_labels(lin) == [{"best": -1}, {"best": int(orders[1][1])}]


# ---- a ranking


def list_ranks(page: Page) -> str:
    """The rank of each response as it is shown, from the first number; 0 where there is none."""
    rows = page.locator("[data-rank-of]")
    ranks = [rows.nth(row).locator(":checked") for row in range(rows.count())]
    return "".join(rank.input_value() if rank.count() else "0" for rank in ranks)


@pytest.mark.parametrize(
    ("keys", "ranks", "words"),
    [
        ("312", "231", "3 > 1 > 2"),
        ("31=2", "221", "3 > 1 = 2"),
        ("2=1=3", "111", "1 = 2 = 3"),
        ("=123", "123", "1 > 2 > 3"),  # there is none before to tie
        ("12313=2", "122", "1 > 2 = 3"),  # begun anew, for all had their ranks
    ],
)
def test_a_ranking_is_pressed_from_the_best_to_the_worst(
    sign_in: SignIn, lin: Person, keys: str, ranks: str, words: str
) -> None:
    batch = make_slate_batch(slate_guideline(ranking_criterion()), annotators=[lin], answers=WORDS)
    assignment = claim(batch, lin, "231")
    page = sign_in(lin)
    page.goto("/work/")
    press(page, *keys)
    assert list_ranks(page) == ranks
    press(page, "Enter")
    sent(page)
    by_position = dict(zip("231", ranks, strict=True))
    in_slate = "".join(by_position[place] for place in "123")
    assert list_labels(lin) == [{"order": int(in_slate)}]
    page.goto("/history/")
    expect(page.get_by_role("cell", name=words)).to_be_visible()
    page.goto(f"/history/{assignment.pk}/")
    assert list_ranks(page) == ranks


def test_ranks_are_chosen_by_mouse_too_and_a_draft_brings_them_back(sign_in: SignIn, lin: Person) -> None:
    batch = make_slate_batch(slate_guideline(ranking_criterion()), annotators=[lin], answers=WORDS)
    claim(batch, lin, "312")
    page = sign_in(lin)
    page.goto("/work/")
    rows = page.locator("[data-rank-of]")
    for row, rank in enumerate("133"):
        rows.nth(row).get_by_role("radio", name=rank, exact=True).check()
    with page.expect_response("**/draft/"):
        press(page, "d")
    page.evaluate("localStorage.clear()")
    page.reload()
    assert list_ranks(page) == "122"  # a rank that nothing has is left out
    page.goto("/history/")
    expect(page.get_by_text("1 > 2 = 3")).to_be_visible()
    page.goto("/work/")
    settle(page)
    press(page, "Enter")
    sent(page)
    assert list_labels(lin) == [{"order": 221}]  # the slate's third entry was read first


def test_where_no_rank_may_be_shared_the_last_choice_takes_it(sign_in: SignIn, lin: Person) -> None:
    make_slate_batch(
        slate_guideline(ranking_criterion(ties=False)), annotators=[lin], models=MODELS[:2], answers=WORDS
    )
    page = sign_in(lin)
    page.goto("/work/")
    expect(page.get_by_text("before one ties it")).to_have_count(0)
    press(page, "1", "=", "2")
    assert list_ranks(page) == "12"
    page.locator("[data-rank-of='2']").get_by_role("radio", name="1", exact=True).check()
    assert list_ranks(page) == "01"


# ---- a level of each entry


def test_what_is_asked_of_each_entry_bears_its_number_and_is_stored_under_its_turn(
    sign_in: SignIn, lin: Person, chen: Person
) -> None:
    people = [lin, chen]
    batch = make_slate_batch(slate_guideline(score_criterion()), annotators=people, answers=WORDS)
    assignment = claim(batch, lin, "312")
    page = sign_in(lin)
    page.goto("/work/")
    labels = page.locator("fieldset:not([data-criterion=overall]) .criterion__label")
    assert labels.all_text_contents() == ["Help #1", "Help #2", "Help #3"]
    for number in "123":
        about = page.locator(f"[data-entry='{number}'] .turn[data-current]")
        expect(about).to_have_count(1)
        press(page, number)
    press(page, "Enter")
    sent(page)
    assert list_labels(lin) == [{"help@0": 2, "help@1": 3, "help@2": 1}]
    page.goto("/history/")
    row = page.get_by_role("row").last.inner_text()
    assert re.findall(r"Help #(\d)\s+(\d)", row) == [("1", "1"), ("2", "2"), ("3", "3")]
    page.goto(f"/history/{assignment.pk}/")
    boxes = page.locator("fieldset:not([data-criterion=overall]) input:checked")
    assert [box.input_value() for box in boxes.all()] == ["1", "2", "3"]


# ---- the adjudicator


def test_an_adjudicator_reads_both_labels_under_numbers_of_their_own(
    sign_in: SignIn, lin: Person, chen: Person, wu: Person
) -> None:
    guideline = slate_guideline(best_criterion(none=True), ranking_criterion(), score_criterion())
    batch = make_slate_batch(guideline, annotators=[lin, chen], adjudicators=[wu], answers=WORDS)
    scores = {"help@0": 1, "help@1": 2, "help@2": 3}
    marks = [{"turn": 2, "start": 0, "end": 6, "criterion": "best", "level": 3}]
    first = claim(batch, lin, "123")
    give(first, {"best": 3, "order": 231, **scores}, evidence=marks, rationale="L")
    marks = [{"turn": 0, "start": 3, "end": 8, "criterion": "best", "level": 1}]
    second = claim(batch, chen, "231")
    give(second, {"best": 1, "order": 122, **scores, "help@1": 1}, evidence=marks, rationale="C")
    texts = read_texts(first)
    page = sign_in(wu)
    page.goto("/disputes/first/")
    own = Assignment.objects.get(person=wu)
    Assignment.objects.filter(pk=own.pk).update(shown_order="312")
    page.reload()
    assert list(read_numbers(page).values()) == [texts[3], texts[1], texts[2]]
    assert page.locator("mark").count() == 0
    press(page, "0", "1", "2", "3")  # none is best; the order as they stand
    assert current(page) == "help@1"  # what both said alike is asked of nobody
    answer(page, "2", "Enter")
    expect(page.get_by_role("heading", name="Annotator A")).to_be_visible()
    own_verdict = page.locator(".side--mine").inner_text()
    assert "None of them" in own_verdict
    assert "1 > 2 > 3" in own_verdict
    sides = {
        side.locator(".side__rationale").last.inner_text(): " ".join(side.inner_text().split())
        for side in page.locator(".side:not(.side--mine)").all()
    }
    assert "Best Response 1" in sides["L"]  # the slate's third
    assert "Order 1 > 2 > 3" in sides["L"]  # 231: the third, the first, the second
    assert "Help #3 2 Careless" in sides["L"]
    assert "Best Response 2" in sides["C"]
    assert "Order 2 > 1 = 3" in sides["C"]
    assert "Help #3 1 Harmful" in sides["C"]
    letters = dict(zip(sides, ("A", "B"), strict=True))
    marks_by_entry = {
        entry.get_attribute("data-entry"): [
            (mark.get_attribute("data-owner"), mark.inner_text()) for mark in entry.locator("mark").all()
        ]
        for entry in page.locator("[data-entry]").all()
    }
    assert marks_by_entry == {
        "1": [(letters["L"], texts[3][:6])],
        "2": [(letters["C"], texts[1][3:8])],
        "3": [],
    }
    title = page.locator("mark[data-says]").first.get_attribute("data-says")
    assert title == "Best: Response 1"
    press(page, "ArrowUp", "ArrowUp")
    page.locator("[data-criterion=best]").get_by_role("radio", name="Response 2").check(force=True)
    page.locator("[name=reason]").first.check()
    page.get_by_role("button", name="Decide").click()
    expect(page.get_by_role("heading", name="No dispute waits")).to_be_visible()
    assert Adjudication.objects.get().labels == {"best": 1, "order": 231, "help@1": 2}
    page.goto("/history/")
    row = " ".join(page.get_by_role("row").last.inner_text().split())
    assert "Best Response 2" in row
    assert "Order 1 > 2 > 3" in row
    assert "Help #3 2 Careless" in row
    page.goto(f"/history/{own.pk}/")
    decided = " ".join(page.get_by_role("region", name="My decision").inner_text().split())
    assert "Best Response 2" in decided
    assert "Help #3 2 Careless" in decided
    # What became of it, to the first annotator under the first annotator's numbers.
    page = sign_in(lin)
    page.goto(f"/history/{first.pk}/")
    outcome = " ".join(page.get_by_role("region", name="Outcome of the item").inner_text().split())
    assert "Best My label Response 3 → settled as Response 1" in outcome


# ---- evidence


def test_evidence_is_marked_in_any_response_and_stored_with_the_place_of_its_turn(
    sign_in: SignIn, lin: Person
) -> None:
    texts = {model: f"First words of {model[0]}.\n\nThen **more** words." for model in MODELS}
    batch = make_slate_batch(PREFERENCE_GUIDELINE.load(), annotators=[lin], answers=texts)
    assignment = claim(batch, lin, "312")
    page = sign_in(lin)
    page.goto("/work/")
    press(page, "2")
    for number in (1, 3):
        page.locator(f"[data-entry='{number}'] strong").dblclick()
        press(page, "e")
        expect(hint(page)).to_have_text("Marked as evidence of Response 2.")
    assert page.locator("mark:visible").all_text_contents() == ["more", "more"]
    press(
        page, "Escape", "e"
    )  # with nothing selected: the keys choose words, first in the response that is chosen
    start = page.evaluate("getSelection().anchorNode.parentElement.closest('[data-entry]').dataset.entry")
    assert start == "2"
    press(page, "Shift+ArrowRight", "Enter", "Enter")
    sent(page)
    stored = Annotation.objects.get()
    assert stored.labels == {"best": 1}
    spans = [(span["turn"], span["level"]) for span in stored.evidence]
    assert spans == [(0, 1), (1, 1), (2, 1)]
    entries = read_texts(assignment)
    words = [entries[span["turn"] + 1][span["start"] : span["end"]] for span in stored.evidence]
    assert words[1:] == ["more", "more"]
    assert words[0].startswith("First words")


def test_evidence_of_a_ranking_is_of_the_one_that_is_submitted(
    sign_in: SignIn, lin: Person, chen: Person
) -> None:
    batch = make_slate_batch(slate_guideline(ranking_criterion()), annotators=[lin, chen], answers=WORDS)
    assignment = claim(batch, lin, "231")
    page = sign_in(lin)
    page.goto("/work/")
    select(page, 0, 5, turn=0)
    press(page, "e")
    expect(hint(page)).to_contain_text("Choose")
    press(page, "2", "1", "3", "ArrowUp")
    select(page, 0, 5, turn=0)
    press(page, "e")
    expect(page.locator(".chip__level")).to_have_text("Order")
    press(page, "Enter")
    sent(page)
    (span,) = Annotation.objects.get().evidence
    assert (span["turn"], span["level"]) == (1, 321)
    page.goto(f"/history/{assignment.pk}/")
    expect(page.locator(".chip__level")).to_have_text("Order")


# ---- the words that differ


def test_the_words_that_differ_are_painted_pair_by_pair(sign_in: SignIn, lin: Person) -> None:
    texts = {
        "Secretive-7B": "An **apple** is [red](http://x.y) and round.",
        "Hidden-13B": "A **pear** is [red](http://x.y) and long.",
        "Masked-70B": "A **pear** is [red](http://x.y) and long.",
    }
    batch = make_slate_batch(BEST_GUIDELINE.load(), annotators=[lin], prompts=2, answers=texts)
    assignment = claim(batch, lin)
    responses = [read_texts(assignment)[place] for place in assignment.list_shown_places()]
    page = sign_in(lin)
    page.goto("/work/")
    status = page.locator("[data-slate-says]")
    for first, second in ((1, 2), (1, 3), (2, 3)):
        press(page, "w")
        expect(status).to_have_text(f"Words that differ between {first} and {second}")
        same = responses[first - 1] == responses[second - 1]
        words = set(page.evaluate(DIFFERENCES))
        assert words == (set() if same else {"An", "A", "apple", "pear", "round", "long"})
        assert set(page.evaluate(DIFFERING_ENTRIES)) <= {str(first), str(second)}
    press(page, "w")
    expect(status).to_have_text("")
    assert page.evaluate(DIFFERENCES) == []
    press(page, "w")
    expect(status).not_to_have_text("")
    press(page, "1")
    answer(page, "9", "Enter")
    expect(status).to_have_text("")
    assert page.evaluate(DIFFERENCES) == []


def test_differences_that_cannot_be_read_are_said(sign_in: SignIn, lin: Person) -> None:
    make_slate_batch(BEST_GUIDELINE.load(), annotators=[lin], answers=WORDS)
    page = sign_in(lin)
    page.goto("/work/")
    page.route("**/differences/**", lambda route: route.abort())
    press(page, "w")
    expect(page.locator("[data-slate-says]")).to_contain_text("Try again")
    expect(page.locator("[data-slate-differences]")).to_have_attribute("aria-pressed", "false")


# ---- the page at every size


def fill_batch(lin: Person, chen: Person, wu: Person) -> Batch:
    guideline = BEST_GUIDELINE.load()
    return make_slate_batch(guideline, annotators=[lin, chen], adjudicators=[wu], prompts=2, answers=ANSWERS)


def check(page: Page) -> None:
    wrong = table_of(page)
    assert not wrong, "\n".join(f"{width}x{height}: {faults}" for (width, height), faults in wrong.items())


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_nothing_is_out_of_reach_on_the_annotators_page(
    sign_in: SignIn, lin: Person, chen: Person, wu: Person, language: str
) -> None:
    fill_batch(lin, chen, wu)
    page = sign_in(lin, language=language, color_scheme="dark" if language == "en" else "light")
    page.goto("/work/first/")
    check(page)
    press(page, "1", "4")
    check(page)


def test_nothing_is_out_of_reach_on_the_adjudicators_pages_and_the_histories(
    sign_in: SignIn, lin: Person, chen: Person, wu: Person
) -> None:
    batch = fill_batch(lin, chen, wu)
    first = claim(batch, lin)
    give(first, {"best": 1, "score": 4, "own_answer": "Mine."}, rationale="Because.")
    page = sign_in(lin)
    page.goto(f"/history/{first.pk}/")
    check(page)
    give(claim(batch, chen), {"best": 2, "score": 8})
    page = sign_in(wu)
    page.goto("/disputes/first/")
    check(page)
    press(page, "1", "9")
    answer(page, "Enter")
    expect(page.get_by_role("heading", name="Annotator A")).to_be_visible()
    check(page)


@pytest.mark.parametrize("size", [(390, 844), (1440, 900)])
def test_the_number_of_a_response_stays_in_sight_while_it_is_read(
    sign_in: SignIn, lin: Person, chen: Person, wu: Person, size: tuple[int, int]
) -> None:
    fill_batch(lin, chen, wu)
    width, height = size
    page = sign_in(lin, viewport={"width": width, "height": height})
    page.goto("/work/first/")
    for past in (600, 1200):
        page.locator("[data-read]").evaluate("(pane, past) => pane.scrollTo(0, past)", past)
        covering = page.evaluate(
            """() => {
              const pane = document.querySelector("[data-read]").getBoundingClientRect();
              const entry = document.querySelector("[data-entry]").getBoundingClientRect();
              return document.elementFromPoint(entry.left + 40, pane.top + 2).closest(".slate__name")?.innerText;
            }"""
        )
        assert covering is not None, past


SIDE_BY_SIDE = """() => new Set(
  [...document.querySelectorAll("[data-entry]")].map((entry) => entry.getBoundingClientRect().top)).size === 1"""


def test_three_responses_stand_side_by_side_on_every_laptop(
    sign_in: SignIn, lin: Person, chen: Person, wu: Person
) -> None:
    batch = fill_batch(lin, chen, wu)
    sizes = [(1280, 720), (1280, 800), (1366, 650), (1440, 900), (1920, 1080)]

    def look(page: Page) -> None:
        for width, height in sizes:
            page.set_viewport_size({"width": width, "height": height})
            until(page, lambda: bool(page.evaluate(SIDE_BY_SIDE)))

    page = sign_in(lin)
    page.goto("/work/first/")
    look(page)
    give(claim(batch, lin), {"best": 1, "score": 9})
    give(claim(batch, chen), {"best": 2, "score": 8})
    page = sign_in(wu)
    page.goto("/disputes/first/")
    look(page)
    press(page, "1", "9")
    answer(page, "Enter")
    expect(page.get_by_role("heading", name="Annotator A")).to_be_visible()
    look(page)


COLUMNS = """() => [...document.querySelectorAll("[data-entry]")].map((entry) => {
  const { height } = entry.getBoundingClientRect();
  return [entry.scrollHeight > entry.clientHeight + 1, height];
})"""


def test_responses_that_scroll_apart_do_so_at_the_next_item_too(
    sign_in: SignIn, lin: Person, chen: Person, wu: Person, violations: Violations
) -> None:
    fill_batch(lin, chen, wu)
    page = sign_in(lin, viewport={"width": 1440, "height": 900})
    page.goto("/work/first/")
    assert not any(scrolls for scrolls, _height in page.evaluate(COLUMNS))
    press(page, "a")

    def fits() -> bool:
        pane = page.locator("[data-read]").evaluate("pane => [pane.clientHeight, pane.scrollHeight]")
        columns = page.evaluate(COLUMNS)
        fill = all(scrolls and 0.5 * pane[0] < height <= pane[0] for scrolls, height in columns)
        return bool(fill) and pane[1] <= pane[0] + 1  # nothing is left for the pane to scroll

    until(page, fits)
    expect(page.locator("[data-slate-apart]")).to_have_attribute("aria-pressed", "true")
    assert violations(page) == []
    page.locator("[data-entry='2']").evaluate("entry => entry.scrollTo(0, 300)")
    tops = page.locator("[data-entry]").evaluate_all("all => all.map((entry) => entry.scrollTop)")
    assert tops == [0, 300, 0]
    press(page, "1")
    answer(page, "9", "Enter")
    until(page, fits)
    page.reload()
    until(page, fits)
    press(page, "a")
    until(page, lambda: not any(scrolls for scrolls, _height in page.evaluate(COLUMNS)))


@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(
    sign_in: SignIn,
    lin: Person,
    chen: Person,
    wu: Person,
    violations: Violations,
    language: str,
    theme: str,
) -> None:
    guideline = slate_guideline(best_criterion(none=True, ties=True), ranking_criterion(), score_criterion())
    batch = make_slate_batch(guideline, annotators=[lin, chen], adjudicators=[wu], answers=ANSWERS)
    page = sign_in(lin, language=language, color_scheme=theme)
    page.goto("/work/first/")
    for width, height in ((390, 844), (844, 390), (1440, 900)):
        page.set_viewport_size({"width": width, "height": height})
        assert violations(page) == [], (width, height)
    scores = {"help@0": 1, "help@1": 2, "help@2": 3}
    marks = [{"turn": 1, "start": 0, "end": 30, "criterion": "best", "level": 2}]
    first = claim(batch, lin)
    give(first, {"best": 2, "order": 111, **scores}, evidence=marks)
    give(claim(batch, chen), {"best": 0, "order": 123, **scores})
    page.goto(f"/history/{first.pk}/")
    assert violations(page) == []
    page = sign_in(wu, language=language, color_scheme=theme)
    page.goto("/disputes/first/")
    assert violations(page) == []
    press(page, "0", "1", "2", "3")
    answer(page, "Enter")
    assert violations(page) == []


# ---- the guideline beside, and what must be read


def test_the_guideline_says_what_the_answers_mean_and_the_rules_where_it_defines_no_levels(
    sign_in: SignIn, lin: Person
) -> None:
    make_slate_batch(BEST_GUIDELINE.load(), annotators=[lin], answers=WORDS)
    page = sign_in(lin, viewport={"width": 1440, "height": 900})
    page.goto("/work/")
    guide = page.get_by_role("complementary", name="Guideline")
    expect(guide).to_contain_text("No response is good enough.")
    expect(guide).to_contain_text("Six rules by which to weigh each response")
    press(page, "1")
    rules = guide.get_by_role("heading", name="Six rules by which to weigh each response")
    expect(rules).to_be_hidden()
    expect(guide).to_contain_text("It would mislead or hurt the person who asks.")
    press(page, "2")
    assert current(page) == "own_answer"
    expect(rules).to_be_visible()
    page.locator("summary[data-key='?']").click()
    keys = page.locator("details[data-keys]")
    expect(keys).to_contain_text("Scroll the responses together or apart")
    expect(keys).to_contain_text("Next and previous response")


@pytest.mark.parametrize("scrolls_apart", [False, True])
def test_the_end_of_every_response_must_have_been_in_sight(
    sign_in: SignIn, lin: Person, scrolls_apart: bool
) -> None:
    texts = {**ANSWERS, "Masked-70B": write_answer(1200, 3)}
    policy = Policy(overlap=1, read_to_end=True)
    batch = make_slate_batch(PREFERENCE_GUIDELINE.load(), annotators=[lin], answers=texts, policy=policy)
    assignment = claim(batch, lin, "123")
    short = next(place for place, text in read_texts(assignment).items() if len(text) < 1500)
    page = sign_in(lin, viewport={"width": 1440, "height": 900})
    page.goto("/work/")
    if scrolls_apart:
        press(page, "a")
    press(page, "1")
    settle(page)
    for number in [n for n in (1, 2, 3) if n != short]:
        press(page, "Enter")
        expect(hint(page)).to_contain_text("to its end first.")
        last = page.locator(f"[data-entry='{number}'] .markdown > :last-child")
        last.evaluate("element => element.scrollIntoView({ block: 'end' })")
        page.locator(f"[data-entry='{number}']").evaluate(
            "element => (element.scrollTop = element.scrollHeight)"
        )
        page.locator("[data-read]").evaluate("pane => pane.scrollBy(0, 40)")
        page.wait_for_timeout(100)
    press(page, "Enter")
    expect(hint(page)).to_have_text(f"Read response {short} to its end first.")
    assert not Annotation.objects.exists()
    if scrolls_apart:
        assert page.evaluate("document.activeElement.dataset.entry") == str(short)
    page.locator("[data-read]").evaluate("pane => pane.scrollTo(0, 0)")
    page.locator(f"[data-entry='{short}'] .markdown > :last-child").scroll_into_view_if_needed()
    page.locator(f"[data-entry='{short}']").evaluate("element => (element.scrollTop = element.scrollHeight)")
    page.locator("[data-read]").evaluate("pane => pane.scrollBy(0, 40)")
    page.wait_for_timeout(100)
    press(page, "Enter")
    sent(page)
    assert Annotation.objects.count() == 1
