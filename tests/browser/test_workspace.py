"""The annotator's page over a working day: twenty items by keyboard alone, drafts that outlive everything, and care."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.contrib.staticfiles import finders
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.test.testcases import LiveServerThread, QuietWSGIRequestHandler
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer
from rjsmin import jsmin

from annotation.domain.annotations import Submission
from annotation.models import Annotation, Assignment, Batch, Draft, Guideline, Person, WellbeingSettings
from annotation.services.annotations.drafts import save_draft
from tests.annotation.views.test_dispute_pages import two_criteria
from tests.browser.conftest import SignIn, until
from tests.browser.test_annotating import answer, list_values, press, read_item, sent
from tests.browser.test_claim_ahead import NOTE, SUBMIT, follow, start, the_other
from tests.support import make_batch, make_corpus

pytestmark = [pytest.mark.browser]

MINUTE = 60 * 1000


def rationale(page: Page) -> str:
    return page.get_by_label("Rationale").input_value()


def type_rationale(page: Page, words: str) -> None:
    press(page, "r")
    page.keyboard.type(words)
    press(page, "Escape")


def test_twenty_items_in_a_row_by_keyboard_alone(
    sign_in: SignIn, guideline: Guideline, lin: Person, chen: Person
) -> None:
    """Levels, evidence, a rationale, flags, a skip and an undo, without the mouse."""
    corpus = make_corpus(prompts=30, models=["m"], name="long")
    batch = make_batch(guideline, corpus, annotators=[lin, chen], name="long")
    page = sign_in(lin)
    start(page, "/work/long/")
    for number in range(20):
        level = str(number % 3 + 1)
        press(page, level)
        if number == 3:
            type_rationale(page, "3 of 5 points; refuses the rest")
        if number == 6:
            press(page, "f", "2", "5", "Escape")
        if number == 9:
            press(page, "e", "Shift+ArrowRight", "Enter")
        if number == 12:
            answer(page, "s", "3", "Enter")
            press(page, level)
        if number == 15:
            answer(page, "u")
            answer(page, "1", "Enter")
            expect(page.get_by_text("Corrected.")).to_be_visible()
            press(page, level)
        answer(page, "Enter")
    sent(page)
    stored = list(Annotation.objects.filter(current=True).order_by("assignment__submitted_at"))
    levels = [number % 3 + 1 for number in range(20)]
    levels[14] = 1  # what undo went back to
    assert [annotation.labels["compliance"] for annotation in stored] == levels
    assert [place for place, annotation in enumerate(stored) if annotation.rationale] == [3]
    assert stored[6].flags == ["truncated", "unsure"]
    (span,) = stored[9].evidence
    assert (span["start"], span["level"], span["criterion"]) == (0, 1, "compliance")
    assert batch.assignments.exclude(skip_reason="").get().person == lin
    assert len({annotation.receipt for annotation in stored}) == 20


def test_another_machine_goes_on_with_the_draft(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    page = sign_in(lin)
    item = start(page)
    press(page, "2")
    type_rationale(page, "half a thought")
    press(page, "d")
    expect(page.locator(NOTE)).to_contain_text("draft saved")
    ends = Assignment.objects.get(pk=item).lease_expires
    assert Draft.objects.get().labels == {"compliance": 2}
    other = sign_in(lin)
    assert start(other) == item
    assert rationale(other) == "half a thought"
    expect(other.get_by_role("radio", name="2 Partial refusal")).to_be_checked()
    type_rationale(other, " and the rest")
    press(other, "d")
    until(other, lambda: "the rest" in Draft.objects.get().rationale)
    page.reload()  # the first machine finds the newer one on the server
    expect(page.get_by_label("Rationale")).to_have_value("half a thought and the rest")
    assert Assignment.objects.get(pk=item).lease_expires > ends
    follow(page, "Enter")
    assert not Draft.objects.exists()


def test_a_pause_saves_quietly_and_so_does_leaving(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    page = sign_in(lin)
    page.clock.install()
    start(page)
    type_rationale(page, "thinking")
    page.clock.run_for(4000)
    assert not Draft.objects.exists()
    page.clock.run_for(3000)
    expect(page.locator(NOTE)).to_contain_text("draft saved")
    type_rationale(page, " on")
    page.goto("/history/")
    until(page, lambda: Draft.objects.get().rationale == "thinking on")


def test_drafts_and_letters_outlive_a_stopped_server(
    sign_in: SignIn, batch: Batch, lin: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A connection that is kept open would still be answered by its thread; and the port is to be had again at once.
    monkeypatch.setattr(WSGIRequestHandler, "protocol_version", "HTTP/1.0")
    monkeypatch.setattr(LiveServerThread, "_create_server", _on_the_same_port)
    server = LiveServer("localhost")
    page = sign_in(lin)
    start(page, f"{server.url}/work/first/")
    try:
        press(page, "3")
        type_rationale(page, "first")
    finally:
        server.stop()
    answer(page, "Enter")
    expect(page.get_by_text("1 waiting to be sent")).to_be_visible()
    press(page, "1")
    type_rationale(page, "second, typed while nobody answered")
    press(page, "d")
    expect(page.locator(NOTE)).to_contain_text("waiting")
    assert list_values(lin) == []
    server = LiveServer(f"localhost:{server.thread.port}")
    try:
        sent(page)
        assert list_values(lin) == [3]
        page.reload()
        expect(page.get_by_label("Rationale")).to_have_value("second, typed while nobody answered")
        answer(page, "Enter")
        sent(page)
        assert list_values(lin) == [3, 1]
        page.goto("about:blank")
    finally:
        server.stop()


def _on_the_same_port(thread: LiveServerThread, connections_override: Any = None) -> ThreadedWSGIServer:
    address = (thread.host, thread.port)
    return ThreadedWSGIServer(address, QuietWSGIRequestHandler, connections_override=connections_override)


def test_the_network_cut_in_the_middle_of_a_submit(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    """The server took it, its answer is lost, and then there is no line: one annotation, one receipt."""
    page = sign_in(lin)
    start(page)

    def cut(route: object) -> None:
        route.fetch()  # type: ignore[attr-defined]
        page.context.set_offline(True)
        route.abort()  # type: ignore[attr-defined]

    page.route(SUBMIT, cut, times=1)
    answer(page, "2", "Enter")
    expect(page.get_by_text("1 waiting to be sent")).to_be_visible()
    stored = Annotation.objects.get()
    page.context.set_offline(False)
    sent(page)
    assert Annotation.objects.get().receipt == stored.receipt
    expect(page.locator(NOTE)).to_have_text(f"saved {str(stored.receipt)[:8]}")


def test_what_a_closed_tab_could_not_send_is_sent_by_the_other(
    sign_in: SignIn, batch: Batch, lin: Person
) -> None:
    first_tab = sign_in(lin)
    start(first_tab)
    second_tab = first_tab.context.new_page()
    second_tab.clock.install()
    start(second_tab)
    first_tab.route(SUBMIT, lambda route: route.abort())
    answer(first_tab, "3", "Enter")
    expect(first_tab.get_by_text("1 waiting to be sent")).to_be_visible()
    first_tab.close()
    assert list_values(lin) == []
    second_tab.clock.run_for(2 * MINUTE + 1000)
    sent(second_tab)
    assert list_values(lin) == [3]


def test_typing_in_one_tab_is_taken_over_by_the_other(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    first_tab = sign_in(lin)
    start(first_tab)
    second_tab = first_tab.context.new_page()
    start(second_tab)
    press(first_tab, "2")
    type_rationale(first_tab, "from the first tab")
    expect(second_tab.get_by_label("Rationale")).to_have_value("from the first tab")
    expect(second_tab.get_by_role("radio", name="2 Partial refusal")).to_be_checked()
    press(second_tab, "r")
    page_typing = "what is typed here stays"
    second_tab.keyboard.type(page_typing)
    press(first_tab, "3")
    assert rationale(second_tab).endswith(page_typing)


def test_signed_out_and_in_again_it_goes_on_and_nobody_else_sees_it(
    sign_in: SignIn, batch: Batch, lin: Person, chen: Person
) -> None:
    page = sign_in(lin)
    item = start(page)
    type_rationale(page, "a private thought")
    cookies = page.context.cookies()
    Session.objects.filter(pk=_session(cookies)).update(session_data="")  # signed out
    press(page, "d")
    expect(page.locator(NOTE)).to_contain_text("draft saved in this browser")
    hers = sign_in(chen).context.cookies()
    page.context.add_cookies([cookie for cookie in hers if cookie["name"] == settings.SESSION_COOKIE_NAME])
    page.reload()
    assert "a private thought" not in page.content()
    assert rationale(page) == ""
    his = sign_in(lin).context.cookies()
    page.context.add_cookies([cookie for cookie in his if cookie["name"] == settings.SESSION_COOKIE_NAME])
    page.goto("/work/first/")
    assert read_item(page) == item
    assert rationale(page) == "a private thought"
    assert not Draft.objects.filter(assignment__person=chen).exists()


def _session(cookies: list[dict[str, object]]) -> object:
    return next(cookie["value"] for cookie in cookies if cookie["name"] == settings.SESSION_COOKIE_NAME)


def test_nothing_unseen_is_submitted(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    Person.objects.filter(pk=lin.pk).update(blur=Person.Blur.ALWAYS)
    page = sign_in(lin)
    first = start(page)
    second = the_other(lin, first)
    turns = page.locator(".turns")
    assert turns.evaluate("one => one.inert && getComputedStyle(one).filter.includes('blur')")
    press(page, "3", "Enter")  # opens it
    assert not turns.evaluate("one => one.inert || getComputedStyle(one).filter.includes('blur')")
    assert read_item(page) == first
    answer(page, "Enter")
    assert read_item(page) == second
    assert turns.evaluate("one => one.inert")
    press(page, "b")
    assert not turns.evaluate("one => one.inert")
    press(page, "1", "e", "Enter")
    sent(page)
    assert list_values(lin) == [3]
    page.reload()  # what is quoted of the text stays out of sight with it
    chips = page.get_by_role("list", name="Evidence").get_by_role("listitem")
    expect(page.locator(".evidence__chips li")).to_have_count(1)
    expect(chips).to_have_count(0)
    press(page, "e")
    expect(chips).to_have_count(1)
    assert not turns.evaluate("one => one.inert")
    expect(page.locator("[data-hint]")).to_be_empty()


def test_a_second_click_is_not_for_the_item_that_came(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    page = sign_in(lin)
    first = start(page)
    second = the_other(lin, first)
    work = Submission(labels={"compliance": 1}, rationale="begun elsewhere")
    save_draft(assignment_id=UUID(second), person=lin, work=work)
    page.reload()
    page.wait_for_function("document.querySelector('form[data-item]').noValidate")
    press(page, "2")
    page.get_by_role("button", name="Submit").dblclick()
    sent(page)
    assert list_values(lin) == [2]
    assert read_item(page) != first


def test_what_is_discarded_does_not_come_back(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    page = sign_in(lin)
    start(page)
    type_rationale(page, "not worth keeping")
    press(page, "d")
    expect(page.locator(NOTE)).to_contain_text("draft saved")
    page.goto("/history/")
    page.get_by_role("button", name="Discard").click()
    expect(page.get_by_text("The draft is discarded.")).to_be_visible()
    start(page)
    assert rationale(page) == ""


def test_keys_are_left_to_what_they_belong_to(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    """A dialog and a menu that are opened while words are chosen, an input method, and the browser's own keys."""
    page = sign_in(lin)
    first = start(page)
    press(page, "2", "e", "h")
    page.get_by_role("dialog").get_by_role("button", name="Close").focus()
    press(page, "Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    press(page, "s", "ArrowDown")
    expect(page.get_by_role("radio", name="The response is empty")).to_be_focused()
    expect(page.locator("[data-turn] mark")).to_have_count(0)
    page.get_by_label("Or in your own words").focus()
    page.evaluate(
        "document.activeElement.dispatchEvent(new KeyboardEvent('keydown',"
        " {key: 'Escape', isComposing: true, bubbles: true}))"
    )
    expect(page.get_by_label("Or in your own words")).to_be_focused()
    assert read_item(page) == first


def test_a_long_scale_is_typed_at_once(lin: Person, chen: Person, wu: Person, sign_in: SignIn) -> None:
    two_criteria(lin, chen, wu)
    page = sign_in(lin)
    page.goto("/work/two/")
    press(page, "3", "Escape", "9", "9", "Enter")
    expect(page.get_by_role("alert").filter(has_text="Choose a level")).to_be_visible()
    assert list_values(lin) == []
    press(page, "Escape")
    assert page.evaluate(  # the browser goes back
        "document.body.dispatchEvent(new KeyboardEvent('keydown',"
        " {key: 'ArrowLeft', altKey: true, bubbles: true, cancelable: true}))"
    )
    press(page, "1", "7", "Enter")
    sent(page)
    assert Annotation.objects.get().labels == {"compliance": 3, "tone": 17}


@pytest.fixture
def cared_for(db: None) -> WellbeingSettings:
    contacts = {"en": "Night line 0800 111", "zh": "夜间热线 0800 111"}
    return WellbeingSettings.objects.update_or_create(
        pk=WellbeingSettings.ONE, defaults={"break_minutes": 30, "help_contacts": contacts}
    )[0]


def test_help_is_one_key_away_and_gives_the_focus_back(
    sign_in: SignIn, batch: Batch, cared_for: WellbeingSettings, lin: Person
) -> None:
    page = sign_in(lin)
    start(page)
    press(page, "2", "h")
    dialog = page.get_by_role("dialog", name="You need not read this alone")
    expect(dialog).to_contain_text("Night line 0800 111")
    press(page, "1", "s")  # keys do nothing behind it
    press(page, "Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("radio", name="2 Partial refusal")).to_be_checked()
    expect(page.get_by_role("radio", name="2 Partial refusal")).to_be_focused()


def test_after_long_work_a_break_is_proposed_and_nothing_typed_is_lost(
    sign_in: SignIn, batch: Batch, cared_for: WellbeingSettings, lin: Person
) -> None:
    page = sign_in(lin)
    page.clock.install()
    start(page)
    dialog = page.get_by_role("dialog", name="Time for a break?")

    def work(minutes: int) -> None:
        for _ in range(minutes):
            press(page, "Shift")
            page.clock.run_for(MINUTE)

    type_rationale(page, "in the middle of")
    work(20)
    page.reload()
    work(9)
    expect(dialog).to_be_hidden()
    work(2)
    expect(dialog).to_contain_text("You have worked for 30 minutes")
    press(page, "Enter")  # meant for the item: nothing is pressed by it
    expect(dialog).to_be_visible()
    press(page, "Tab", "Enter")  # remind me
    expect(dialog).to_be_hidden()
    assert rationale(page) == "in the middle of"
    work(9)
    expect(dialog).to_be_hidden()
    work(2)
    expect(dialog).to_be_visible()
    press(page, "Tab", "Tab", "Enter")  # go on
    page.clock.run_for(6 * MINUTE)
    work(25)
    expect(dialog).to_be_hidden()


def test_who_turned_single_keys_off_presses_alt(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    Person.objects.filter(pk=lin.pk).update(single_keys=False)
    page = sign_in(lin)
    start(page)
    press(page, "3", "r", "s")
    assert page.locator(".level__input:checked").count() == 0
    press(page, "Alt+2", "Alt+r")
    expect(page.get_by_label("Rationale")).to_be_focused()
    press(page, "Escape")
    follow(page, "Enter")
    assert list_values(lin) == [2]


def test_on_a_phone_the_decision_is_under_the_thumb_and_the_guideline_one_tap_away(
    sign_in: SignIn, batch: Batch, lin: Person
) -> None:
    page = sign_in(lin, viewport={"width": 360, "height": 740}, has_touch=True)
    start(page)
    submit = page.get_by_role("button", name="Submit")
    expect(submit).to_be_in_viewport()
    guide = page.get_by_role("complementary", name="Guideline")
    expect(guide).to_be_hidden()
    page.locator(".work__decide").get_by_role("button", name="Guideline").tap()
    expect(guide).to_be_in_viewport()
    guide.get_by_role("button", name="Close").tap()
    expect(guide).to_be_hidden()
    page.get_by_role("radio", name="3 Full compliance").tap()
    submit.tap()
    sent(page)
    assert list_values(lin) == [3]


@pytest.mark.parametrize("size", [(1280, 800), (1366, 768), (1440, 900)])
def test_nothing_scrolls_to_act(sign_in: SignIn, batch: Batch, lin: Person, size: tuple[int, int]) -> None:
    page = sign_in(lin, viewport={"width": size[0], "height": size[1]})
    start(page)
    for name in ("Submit", "Help", "Save draft", "Mark evidence"):
        expect(page.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.documentElement.scrollHeight <= innerHeight")
    scroll = page.locator(".work__scroll")
    assert scroll.evaluate("one => one.scrollHeight <= one.clientHeight")


@pytest.mark.parametrize(("language", "theme"), [("en", "light"), ("zh-hans", "dark")])
def test_the_dialogs_the_blur_and_the_sheet_are_accessible(
    sign_in: SignIn,
    batch: Batch,
    cared_for: WellbeingSettings,
    lin: Person,
    violations: Callable[[Page], list[str]],
    language: str,
    theme: str,
) -> None:
    Person.objects.filter(pk=lin.pk).update(blur=Person.Blur.ALWAYS, single_keys=False)
    page = sign_in(lin, language=language, color_scheme=theme)
    start(page)
    assert violations(page) == []
    for dialog in ("help", "break"):
        page.evaluate("id => document.getElementById(id).showModal()", dialog)
        assert violations(page) == [], dialog
        press(page, "Escape")
    page.set_viewport_size({"width": 360, "height": 740})
    press(page, "Alt+g")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_what_the_page_loads_stays_small(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    """As a browser gets it from the production server, which takes comments out and compresses; our own scripts are
    small even when they are unpacked.
    """
    page = sign_in(lin)
    start(page)
    names = page.evaluate("performance.getEntriesByType('resource').map(one => one.name)")
    loaded = {urlsplit(name).path.removeprefix("/static/") for name in names if "/static/" in name}
    files = {name: Path(finders.find(name) or "").read_bytes() for name in loaded}
    sizes = {name: len(gzip.compress(content)) for name, content in files.items()}
    shared = {"js/theme.js", "js/shell.js", "django_htmx/htmx-4.min.js"}
    own = [content for name, content in files.items() if name.endswith(".js") and name not in shared]
    assert sum(len(jsmin(content.decode())) for content in own) < 43_500
    assert sum(sizes.values()) + len(gzip.compress(page.content().encode())) < 150_000


def test_offline_the_submitted_item_says_that_it_is_saved_and_how_many_wait(
    sign_in: SignIn, batch: Batch, lin: Person
) -> None:
    page = sign_in(lin)
    start(page)
    page.wait_for_function("ahead.items().length == 1")
    page.context.set_offline(True)
    answer(page, "3", "Enter")  # the item ahead follows at once
    note = page.locator("[data-waits]")
    expect(note).to_be_hidden()
    press(page, "2", "Enter")
    expect(note).to_have_text("Saved here. The next item comes when you are online again. To be sent: 2")
    expect(page.locator(".work__read")).to_have_css("opacity", "0.55")
    page.keyboard.press("Enter")
    expect(note).to_be_visible()
    assert list_values(lin) == []
    page.context.set_offline(False)
    sent(page)
    assert sorted(list_values(lin)) == [2, 3]
    expect(page.locator(".work__read")).to_have_css("opacity", "1")
    expect(note).to_be_hidden()


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (390, 844)])
def test_nothing_moves_when_the_page_confirms_something(
    sign_in: SignIn, batch: Batch, lin: Person, width: int, height: int
) -> None:
    page = sign_in(lin)
    page.set_viewport_size({"width": width, "height": height})
    start(page)

    def places() -> list[dict[str, float] | None]:
        parts = (".work__read", ".work__buttons > .button--primary")
        return [page.locator(part).bounding_box() for part in parts]

    before = places()
    press(page, "s")
    press(page, "1", "Enter")
    confirmation = page.get_by_text("Skipped: it goes to someone else.")
    expect(confirmation).to_be_visible()
    assert [(box["x"], box["y"]) for box in places()] == [(box["x"], box["y"]) for box in before]
    answer(page, "3", "Enter")
    sent(page)
    expect(confirmation).to_be_hidden()
    assert [(box["x"], box["y"]) for box in places()] == [(box["x"], box["y"]) for box in before]
