"""An annotator's and an adjudicator's day at the keyboard: no mouse anywhere in this file."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from annotation.models import Adjudication, Annotation, Assignment, Batch, CorrectionRequest, Person, Task
from tests.annotation.views.test_dispute_pages import two_criteria
from tests.browser.conftest import PATIENCE, SignIn
from tests.support import label_next

pytestmark = [pytest.mark.browser]

TOLD = "Prompt and response"


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def enter_until_it_says_what_is_missing(page: Page) -> None:
    """Again and again: what is pressed within a moment of the item's coming is taken for the item before."""
    alert = page.get_by_role("alert").filter(has_text="Choose a level")
    for _ in range(PATIENCE // 250):
        press(page, "Enter")
        if alert.is_visible():
            return
        page.wait_for_timeout(250)
    raise AssertionError("no Enter was heard")


def read_item(page: Page) -> str:
    return str(page.locator("form[data-item]").get_attribute("data-item"))


def answer(page: Page, *keys: str) -> None:
    """Press the keys that decide the item, and wait for the next page: of the next item, or of the second step."""
    before = page.locator("form[data-item]").get_attribute("data-draft")
    press(page, *keys)
    page.wait_for_function(
        "id => document.querySelector('form[data-item]')?.dataset.draft !== id", arg=before
    )


def sent(page: Page) -> None:
    """Wait until all that was submitted has its receipt."""
    page.wait_for_function("() => !Object.keys(localStorage).some(key => key.startsWith('assay-outbox:'))")


def list_values(person: Person) -> list[int]:
    """The person's current labels, in the order in which they were first submitted."""
    annotations = Annotation.objects.filter(assignment__person=person, current=True)
    return [a.labels["compliance"] for a in annotations.order_by("assignment__submitted_at")]


def test_labels_by_keyboard_one_after_another(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    page = sign_in(lin)
    page.goto("/")
    expect(page).to_have_url(f"{page.url.split('/work')[0]}/work/{batch.name}/")
    answer(page, "3", "Enter")
    answer(page, "1", "Enter")
    answer(page, "3", "2", "Enter")  # a change of mind before submitting
    sent(page)
    assert list_values(lin) == [3, 1, 2]
    expect(page.get_by_text("3 done, 5 left")).to_be_visible()


def test_enter_without_a_level_says_what_is_missing(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    page = sign_in(lin)
    page.goto("/work/")
    enter_until_it_says_what_is_missing(page)
    assert list_values(lin) == []


def test_a_rationale_is_typed_left_and_sent_with_the_seconds(
    sign_in: SignIn, batch: Batch, lin: Person
) -> None:
    page = sign_in(lin)
    page.goto("/work/")
    press(page, "2", "r")
    page.keyboard.type("Gives 1 of 3 things; skips the rest.")  # s, r, g and digits are plain letters here
    press(page, "Escape")
    answer(page, "Enter")
    sent(page)
    stored = Annotation.objects.get()
    assert (stored.labels, stored.rationale) == ({"compliance": 2}, "Gives 1 of 3 things; skips the rest.")
    assert stored.seconds is not None
    assert 0 < stored.seconds < 60


def test_the_rationale_submits_with_control_and_enter(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    page = sign_in(lin)
    page.goto("/work/")
    press(page, "2", "r")
    page.keyboard.type("first line")
    press(page, "Enter")
    page.keyboard.type("second line")
    answer(page, "Control+Enter")
    sent(page)
    assert Annotation.objects.get().rationale == "first line\nsecond line"


def test_skips_with_a_reason(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    page = sign_in(lin)
    page.goto("/work/")
    skipped = read_item(page)
    press(page, "s", "Tab", "Tab")
    expect(page.get_by_role("button", name="Skip this item")).to_be_focused()
    press(page, "Enter")
    expect(page.get_by_text("Choose a reason for skipping this item")).to_be_visible()
    assert read_item(page) == skipped
    page.keyboard.type("It quotes a private letter")
    answer(page, "Enter")
    answer(page, "s", "2", "Enter")
    reasons = Assignment.objects.exclude(skip_reason="").order_by("claimed_at")
    assert [reason.skip_reason for reason in reasons] == [
        "It quotes a private letter",
        "The response is empty, cut off or garbled",
    ]
    assert str(reasons[0].pk) == skipped


def test_undo_goes_back_to_the_last_one_and_corrects_it(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    page = sign_in(lin)
    page.goto("/work/")
    answer(page, "1", "Enter")
    answer(page, "3", "Enter")
    waiting = read_item(page)
    press(page, "1", "r")
    page.keyboard.type("half a thought")
    press(page, "Escape")
    answer(page, "u")
    expect(page.get_by_role("radio", name="3 Full compliance")).to_be_checked()
    answer(page, "2", "Enter")
    expect(page.get_by_text("Corrected.")).to_be_visible()
    assert list_values(lin) == [1, 2]
    assert Annotation.objects.filter(current=False).get().labels == {"compliance": 3}
    assert read_item(page) == waiting
    expect(page.get_by_label("Rationale")).to_have_value("half a thought")


@pytest.mark.parametrize("partner", [1, 3], ids=["agreed", "disputed"])
def test_a_closed_item_is_corrected_by_way_of_the_manager(
    sign_in: SignIn, batch: Batch, lin: Person, chen: Person, partner: int
) -> None:
    label_next(batch, chen, partner)
    page = sign_in(lin)
    page.goto("/work/")
    answer(page, "1", "Enter")
    answer(page, "u")
    answer(page, "2", "Enter")
    expect(page.get_by_text("This item is closed; your correction was sent to the manager.")).to_be_visible()
    assert list_values(lin) == [1]
    assert CorrectionRequest.objects.get().labels == {"compliance": 2}


# Pressed by the page itself: three keys from here take as long as a busy machine likes.
ENTER = """document.activeElement.dispatchEvent(
  new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }))"""
# And once more in the moment in which another item is on the screen.
ENTER_AT_ONCE = f"""() => {{
  const before = document.querySelector("form[data-item]");
  const look = () => {{
    const now = document.querySelector("form[data-item]");
    if (now === before || !now) return;
    watcher.disconnect();
    {ENTER};
  }};
  const watcher = new MutationObserver(look);
  watcher.observe(document.body, {{ childList: true, subtree: true }});
}}"""


@pytest.mark.parametrize("ahead", [True, False], ids=["the next at hand", "the next with the answer"])
def test_a_double_enter_submits_once(sign_in: SignIn, batch: Batch, lin: Person, ahead: bool) -> None:
    """Whenever the next item comes: nobody has read it, so an Enter at once is not for it."""
    page = sign_in(lin)
    posted: list[str] = []
    page.on("request", lambda request: posted.append(request.url) if request.method == "POST" else None)
    if not ahead:
        page.route("**/ahead/", lambda route: route.abort())
    with page.expect_event(
        "requestfinished" if ahead else "requestfailed", lambda request: "/ahead/" in request.url
    ):
        page.goto("/work/")
    page.evaluate(ENTER_AT_ONCE)
    before = read_item(page)
    press(page, "2")
    page.evaluate(f"() => {{ for (const _ of [1, 2, 3]) {ENTER}; }}")
    page.wait_for_function("id => document.querySelector('form[data-item]')?.dataset.item !== id", arg=before)
    sent(page)
    page.wait_for_load_state("networkidle")
    assert [url.rsplit("/", 2)[1] for url in posted if not url.endswith("/ahead/")] == ["submit"]
    assert list_values(lin) == [2]
    expect(page.get_by_role("alert").filter(has_text="Choose a level")).to_be_hidden()
    enter_until_it_says_what_is_missing(page)  # what is pressed later is meant


def test_a_reload_keeps_what_was_typed(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    page = sign_in(lin)
    page.goto("/work/")
    press(page, "3", "r")
    page.keyboard.type("not lost")
    page.reload()
    expect(page.get_by_role("radio", name="3 Full compliance")).to_be_checked()
    expect(page.get_by_label("Rationale")).to_have_value("not lost")
    answer(page, "Enter")
    expect(page.get_by_label("Rationale")).to_have_value("")
    sent(page)
    assert page.evaluate("Object.keys(localStorage).filter(key => key.startsWith('assay-draft:'))") == []


def test_the_guideline_hides_and_comes_back(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    page = sign_in(lin)
    page.goto("/work/")
    guide = page.get_by_role("complementary", name="Guideline")
    expect(guide).to_contain_text("The response gives nothing of what was asked for.")
    press(page, "g")
    expect(guide).to_be_hidden()
    answer(page, "1", "Enter")
    expect(guide).to_be_hidden()  # the wish holds for the next item
    press(page, "g")
    expect(guide).to_be_visible()
    press(page, "?")
    expect(page.get_by_text("Skip, with a reason")).to_be_visible()
    press(page, "Escape")
    expect(page.get_by_text("Skip, with a reason")).to_be_hidden()


def test_the_keys_move_on_to_the_next_criterion(
    sign_in: SignIn, lin: Person, chen: Person, wu: Person
) -> None:
    """Compliance is chosen by key; the tone, on a scale of 21 values, is typed."""
    two_criteria(lin, chen, wu)
    page = sign_in(lin)
    page.goto("/work/")
    guide = page.get_by_role("complementary", name="Guideline")
    expect(guide.get_by_role("heading", name="Tone")).to_be_hidden()
    press(page, "2")
    expect(page.get_by_role("spinbutton", name="Tone")).to_be_focused()
    expect(guide.get_by_role("heading", name="Tone")).to_be_visible()
    expect(guide.get_by_role("heading", name="Compliance")).to_be_hidden()
    answer(page, "1", "7", "Enter")
    sent(page)
    assert Annotation.objects.get().labels == {"compliance": 2, "tone": 17}
    expect(page.get_by_role("heading", name="Nothing more for you in two")).to_be_visible()


def test_the_lease_is_extended_while_the_page_is_in_use(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    Batch.objects.filter(pk=batch.pk).update(lease_seconds=6)
    page = sign_in(lin)
    with page.expect_response("**/extend/") as extended:
        page.goto("/work/")
    assert extended.value.status == 204


def test_adjudicates_by_keyboard_with_a_third_value(
    sign_in: SignIn, batch: Batch, lin: Person, chen: Person, wu: Person
) -> None:
    for _ in range(2):
        label_next(batch, lin, 1)
        label_next(batch, chen, 3)
    page = sign_in(wu)
    page.goto("/disputes/first/")
    expect(page.get_by_text("The response gives nothing of what was asked for.").first).to_be_visible()
    sides = page.get_by_role("heading", name="Annotator")
    expect(sides).to_have_count(0)
    press(page, "2", "r")
    page.keyboard.type("Both have a point.")
    press(page, "Escape")
    answer(page, "Enter")
    expect(sides).to_have_count(2)
    guide = page.get_by_role("complementary", name="Guideline")
    expect(guide).to_be_visible()
    press(page, "g")
    expect(guide).to_be_hidden()
    press(page, "v")
    answer(page, "Enter")
    settled = Task.objects.get(state=Task.State.ADJUDICATED)
    decision = settled.adjudication
    assert (decision.labels, decision.rationale) == ({"compliance": 2}, "Both have a point.")
    assert decision.reason is not None
    assert decision.reason.key == "defensible_either_way"
    answer(page, "3", "Enter")
    expect(sides).to_have_count(2)
    answer(page, "1", "x", "Enter")
    expect(page.get_by_role("heading", name=f"No dispute waits in {batch.name}")).to_be_visible()
    assert Adjudication.objects.filter(labels={"compliance": 1}, reason__key="guideline_gap").exists()


def test_without_scripts_the_forms_work_all_the_same(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    page = sign_in(lin, java_script_enabled=False)
    page.goto("/work/")
    before = read_item(page)
    page.get_by_role("radio", name="2 Partial refusal").focus()
    press(page, "Space", "Enter")
    expect(page.locator(f"form[data-item='{before}']")).to_have_count(0)
    expect(page.locator("form[data-item]")).to_be_visible()
    assert list_values(lin) == [2]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_pages_are_accessible_and_fit_the_screen(
    sign_in: SignIn,
    batch: Batch,
    lin: Person,
    chen: Person,
    wu: Person,
    stranger: Person,
    violations: Callable[[Page], list[str]],
    theme: str,
) -> None:
    label_next(batch, lin, 1)
    label_next(batch, chen, 3)
    assignment = Assignment.objects.get(person=lin).pk
    visits = {
        lin: ["/work/", "/work/?list", "/history/", f"/history/{assignment}/"],
        wu: ["/disputes/", "/disputes/first/"],
        stranger: ["/"],
    }
    for person, places in visits.items():
        page = sign_in(person, color_scheme=theme)
        for place in places:
            page.goto(place)
            assert violations(page) == [], place
            assert page.evaluate("document.documentElement.scrollHeight <= innerHeight"), place
        page.set_viewport_size({"width": 360, "height": 740})
        for place in places:
            page.goto(place)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place


def test_the_open_menus_are_accessible(
    sign_in: SignIn, batch: Batch, lin: Person, violations: Callable[[Page], list[str]]
) -> None:
    page = sign_in(lin)
    page.goto("/work/")
    for key in ("s", "f", "?"):
        press(page, key)
        assert violations(page) == []
        press(page, "Escape")
    assert page.get_by_label(TOLD).is_visible()
