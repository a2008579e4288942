"""The page that is never waited for: the item ahead, and what is submitted in the background, whatever happens."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.utils import timezone
from playwright.sync_api import Page, Route, expect

from annotation.models import Annotation, Assignment, Batch, Draft, Guideline, Person
from annotation.services.batches.batches import set_state
from tests.browser.conftest import SignIn, until
from tests.browser.test_annotating import answer, list_values, press, read_item, sent
from tests.support import label_next, make_batch, make_corpus

pytestmark = [pytest.mark.browser]

SUBMIT = "**/submit/"
NOTE = "[data-outbox]"


def holding(person: Person) -> set[str]:
    """The items that are the person's to work on, as the database has them."""
    claims = Assignment.objects.filter(person=person, state=Assignment.State.CLAIMED)
    return {str(pk) for pk in claims.values_list("pk", flat=True)}


def start(page: Page, where: str = "/work/first/") -> str:
    """Open the page and wait for the item ahead; the item on the screen."""
    with page.expect_response("**/ahead/") as answered:
        page.goto(where)
    assert answered.value.status == 200
    answered.value.finished()
    return read_item(page)


def the_other(person: Person, item: str) -> str:
    (held_item,) = holding(person) - {item}
    return held_item


def follow(page: Page, *keys: str) -> None:
    """Press the keys that decide the item, and wait until the page holds the next two."""
    with page.expect_response(SUBMIT) as answered:
        answer(page, *keys)
    assert answered.value.status == 200
    sent(page)


def press_until(page: Page, key: str, is_so: Callable[[], bool]) -> None:
    """Again and again: for a moment after an item has come, keys are meant for the item before."""

    def press_once_more() -> bool:
        if not is_so():
            press(page, key)
        return is_so()

    until(page, press_once_more)


def is_chosen(page: Page, level: str) -> bool:
    return page.get_by_role("radio", name=level).is_checked()


def lose(page: Page, where: str) -> list[str]:
    """Requests to ``where`` arrive nowhere; their bodies, as they come."""
    bodies: list[str] = []

    def drop(route: Route) -> None:
        bodies.append(route.request.post_data or "")
        route.abort()

    page.route(where, drop)
    return bodies


def hold(page: Page, where: str = SUBMIT) -> list[Route]:
    """Requests to ``where`` that have left and wait on their way."""
    held: list[Route] = []

    def keep(route: Route) -> None:
        held.append(route)

    page.route(where, keep)
    return held


def keys_of(bodies: list[str]) -> set[str]:
    return {part for body in bodies for part in body.split("&") if part.startswith("key=")}


def test_the_next_item_is_claimed_while_one_reads_and_shown_at_once(
    sign_in: SignIn, batch: Batch, lin: Person
) -> None:
    page = sign_in(lin)
    first = start(page)
    second = the_other(lin, first)
    hold(page)  # no answer ever comes
    press(page, "3", "Enter")
    expect(page.locator(f"form[data-item='{second}']")).to_be_visible()
    assert holding(lin) == {first, second}
    expect(page.get_by_text("1 waiting to be sent")).to_be_visible()  # it takes long, and is said


def test_the_receipt_becomes_visible_and_the_hand_is_filled_again(
    sign_in: SignIn, batch: Batch, lin: Person
) -> None:
    page = sign_in(lin)
    first = start(page)
    second = the_other(lin, first)
    follow(page, "3", "Enter")
    stored = Annotation.objects.get()
    note = page.get_by_role("status").filter(has_text="saved")
    expect(note).to_have_text(f"saved {str(stored.receipt)[:8]}")
    assert read_item(page) == second
    assert len(holding(lin)) == 2
    expect(page.get_by_text("1 done, 7 left")).to_be_visible()
    assert page.evaluate("Object.keys(localStorage).filter(key => /^assay-(draft|outbox)/.test(key))") == []


def test_the_time_from_enter_to_the_next_item(
    sign_in: SignIn, guideline: Guideline, lin: Person, chen: Person
) -> None:
    """Measured by the page itself, from the key to the frame that shows the next item; told, not judged."""
    corpus = make_corpus(prompts=40, models=["m"], name="long")
    make_batch(guideline, corpus, annotators=[lin, chen], name="long")
    page = sign_in(lin)
    start(page, "/work/long/")
    page.evaluate(
        """() => {
        window.times = [];
        let pressed = 0, before = null;
        addEventListener("keydown", (event) => {
          if (event.key !== "Enter") return;
          pressed = performance.now();
          before = document.querySelector("form[data-item]");
          requestAnimationFrame(function look() {
            if (document.querySelector("form[data-item]") === before) return requestAnimationFrame(look);
            setTimeout(() => times.push(performance.now() - pressed));
          });
        }, true);
      }"""
    )
    for _ in range(20):
        follow(page, "3", "Enter")
    page.wait_for_function("() => times.length === 20")
    times = sorted(page.evaluate("times"))
    print(f"Enter to next item: median {times[10]:.1f} ms, slowest {times[-1]:.1f} ms")
    assert list_values(lin) == [3] * 20
    assert len(times) == 20


def test_the_seconds_of_an_item_count_from_when_it_is_shown(
    sign_in: SignIn, batch: Batch, lin: Person
) -> None:
    page = sign_in(lin)
    start(page)
    page.wait_for_timeout(1500)
    decided = time.monotonic()
    follow(page, "3", "Enter")
    follow(page, "3", "Enter")
    since_the_first = time.monotonic() - decided
    first, second = [annotation.seconds for annotation in Annotation.objects.order_by("created_at")]
    assert first is not None
    assert second is not None
    assert first >= 1.5
    assert second <= since_the_first  # and not the second and a half before it


def test_a_refused_submit_brings_its_item_back_with_everything_typed(
    sign_in: SignIn, batch: Batch, lin: Person
) -> None:
    """The form says a level that the guideline does not have, as after a change of the page by hand."""
    page = sign_in(lin)
    first = start(page)
    second = the_other(lin, first)
    page.evaluate("document.querySelectorAll('[name=\"label.compliance\"]')[2].value = 9")
    press(page, "3", "r")
    page.keyboard.type("typed before it was refused")
    press(page, "Escape", "Enter")
    expect(page.locator(f"form[data-item='{first}']").get_by_role("alert")).to_contain_text(
        "use one of 1, 2, 3"
    )
    expect(page.get_by_label("Rationale")).to_have_value("typed before it was refused")
    assert holding(lin) == {first, second}
    press_until(page, "2", lambda: is_chosen(page, "2 Partial refusal"))
    follow(page, "Enter")
    stored = Annotation.objects.get()
    assert (stored.labels, stored.rationale) == ({"compliance": 2}, "typed before it was refused")
    assert read_item(page) == second
    assert len(holding(lin)) == 2


def test_what_was_begun_on_the_next_item_is_there_when_a_refused_one_is_mended(
    sign_in: SignIn, batch: Batch, lin: Person
) -> None:
    page = sign_in(lin)
    start(page)
    page.evaluate("document.querySelectorAll('[name=\"label.compliance\"]')[2].value = 9")
    held = hold(page)
    answer(page, "3", "Enter")
    press(page, "1", "r")
    page.keyboard.type("half a thought")
    held[0].continue_()
    expect(page.get_by_role("alert").filter(has_text="use one of")).to_be_visible()
    page.unroute(SUBMIT)
    press_until(page, "2", lambda: is_chosen(page, "2 Partial refusal"))
    answer(page, "Enter")
    expect(page.get_by_label("Rationale")).to_have_value("half a thought")
    expect(page.get_by_role("radio", name="1 Full refusal")).to_be_checked()


def test_work_that_comes_too_late_is_kept_and_said_at_once(
    sign_in: SignIn, batch: Batch, lin: Person, chen: Person, zhou: Person
) -> None:
    page = sign_in(lin)
    first = start(page)
    second = the_other(lin, first)
    task = Assignment.objects.get(pk=first).task
    Assignment.objects.filter(pk=first).update(lease_expires=timezone.now() - timedelta(hours=1))
    for person in (chen, zhou):
        while not task.assignments.filter(person=person, state="submitted").exists():
            assert label_next(batch, person, 3)
    answer(page, "1", "Enter")
    expect(page.get_by_text("someone else has taken it over")).to_be_visible()
    assert read_item(page) == second
    assert Draft.objects.get().labels == {"compliance": 1}
    page.get_by_role("link", name="Your work is saved as a draft.").click()
    expect(page.get_by_role("heading", name="Saved drafts")).to_be_visible()
    expect(page.locator("#drafts")).to_contain_text("someone else has taken it over")


def test_without_a_network_it_is_sent_again_with_the_same_key(
    sign_in: SignIn, batch: Batch, lin: Person
) -> None:
    page = sign_in(lin)
    start(page)
    bodies = lose(page, SUBMIT)
    press(page, "2", "r")
    page.keyboard.type("typed before the tunnel")
    press(page, "Escape")
    answer(page, "Enter")
    expect(page.get_by_text("1 waiting to be sent")).to_be_visible()
    press(page, "3", "Enter")
    expect(page.get_by_text("2 waiting to be sent")).to_be_visible()
    expect(page.locator("form[data-item]")).to_have_attribute("aria-busy", "true")
    until(page, lambda: len(bodies) >= 2)
    assert len(keys_of(bodies)) == 1
    assert len(page.evaluate("Object.keys(localStorage).filter(key => key.startsWith('assay-draft:'))")) == 2
    page.unroute(SUBMIT)
    sent(page)
    assert list_values(lin) == [2, 3]
    assert {
        f"key={annotation.idempotency_key}" for annotation in Annotation.objects.filter(labels__compliance=2)
    } == keys_of(bodies)
    expect(page.locator("form[data-item]:not([aria-busy])")).to_be_visible()
    expect(page.locator(NOTE)).to_contain_text("saved")


def test_an_answer_lost_on_its_way_back_changes_nothing_twice(
    sign_in: SignIn, batch: Batch, lin: Person
) -> None:
    page = sign_in(lin)
    start(page)
    page.route(SUBMIT, lambda route: (route.fetch(), route.abort()), times=1)
    answer(page, "2", "Enter")
    sent(page)
    stored = Annotation.objects.get()
    expect(page.locator(NOTE)).to_have_text(f"saved {str(stored.receipt)[:8]}")


def test_leaving_with_something_unsent_is_warned_of(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    page = sign_in(lin)
    start(page)
    lose(page, SUBMIT)
    answer(page, "2", "Enter")
    expect(page.get_by_text("1 waiting to be sent")).to_be_visible()
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.type), dialog.dismiss()))
    page.close(run_before_unload=True)
    until(page, lambda: dialogs == ["beforeunload"])
    assert not page.is_closed()


def test_after_a_reload_what_waited_is_sent(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    page = sign_in(lin)
    first = start(page)
    second = the_other(lin, first)
    bodies = lose(page, SUBMIT)
    answer(page, "2", "Enter")
    expect(page.get_by_text("1 waiting to be sent")).to_be_visible()
    page.unroute(SUBMIT)
    page.reload()
    sent(page)
    stored = Annotation.objects.get()
    assert (str(stored.assignment_id), f"key={stored.idempotency_key}") == (first, *keys_of(bodies))
    page.wait_for_function("id => document.querySelector('form[data-item]').dataset.item !== id", arg=first)
    expect(page.locator("form[data-item]:not([aria-busy])")).to_be_visible()
    answer(page, "3", "Enter")
    sent(page)
    assert list_values(lin) == [2, 3]
    assert second  # it was given back on the way and may come later


def test_nobody_sends_what_another_person_left_behind(
    sign_in: SignIn, batch: Batch, lin: Person, chen: Person
) -> None:
    page = sign_in(lin)
    start(page)
    lose(page, SUBMIT)
    answer(page, "2", "Enter")
    expect(page.get_by_text("1 waiting to be sent")).to_be_visible()
    hers = sign_in(chen).context.cookies()
    page.context.add_cookies([cookie for cookie in hers if cookie["name"] == settings.SESSION_COOKIE_NAME])
    page.unroute(SUBMIT)  # only now: the page tries again by itself, and must not come through as lin
    start(page)
    assert page.evaluate("Object.keys(localStorage).filter(k => k.startsWith('assay-outbox:')).length") == 1
    assert not Annotation.objects.exists()


def test_whoever_is_signed_out_meanwhile_loses_nothing(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    page = sign_in(lin)
    first = start(page)
    old = {cookie["name"]: cookie for cookie in page.context.cookies()}[settings.SESSION_COOKIE_NAME]
    stored = Session.objects.get(pk=old["value"])
    Session.objects.all().delete()
    answer(page, "2", "Enter")
    expect(page.get_by_text("Your session has ended")).to_be_visible()
    expect(page.get_by_text("1 waiting to be sent")).to_be_visible()
    stored.save(force_insert=True)  # signed in again, in another tab
    page.context.add_cookies([old])
    sent(page)
    assert str(Annotation.objects.get().assignment_id) == first
    expect(page.get_by_text("Your session has ended")).to_be_hidden()


def test_a_second_tab_follows_the_first_and_nothing_is_submitted_twice(
    sign_in: SignIn, batch: Batch, lin: Person
) -> None:
    first_tab = sign_in(lin)
    first = start(first_tab)
    second = the_other(lin, first)
    second_tab = first_tab.context.new_page()
    assert start(second_tab) == first
    assert len(holding(lin)) == 2
    follow(first_tab, "3", "Enter")
    expect(second_tab.locator(f"form[data-item='{second}']")).to_be_visible()
    assert read_item(first_tab) == second
    follow(second_tab, "1", "Enter")
    first_tab.wait_for_function(
        "id => document.querySelector('form[data-item]').dataset.item !== id", arg=second
    )
    assert list_values(lin) == [3, 1]
    assert Annotation.objects.count() == 2
    until(first_tab, lambda: read_item(first_tab) == read_item(second_tab))
    assert len(holding(lin)) == 2


def test_a_second_tab_without_an_item_ahead_waits_for_the_first_and_goes_on(
    sign_in: SignIn, guideline: Guideline, lin: Person, chen: Person, zhou: Person
) -> None:
    corpus = make_corpus(prompts=2, models=["m"], name="few")
    make_batch(guideline, corpus, annotators=[lin, chen, zhou], name="few")  # too few to claim ahead
    first_tab = sign_in(lin)
    first_tab.goto("/work/few/")
    first = read_item(first_tab)
    second_tab = first_tab.context.new_page()
    second_tab.goto("/work/few/")
    held = hold(first_tab)
    press(first_tab, "3", "Enter")
    expect(second_tab.locator(f"form[data-item='{first}'][aria-busy]")).to_be_visible()
    press(second_tab, "1", "Enter")
    held[0].continue_()
    for tab in (first_tab, second_tab):
        tab.wait_for_function(
            "id => document.querySelector('form[data-item]')?.dataset.item !== id", arg=first
        )
    assert list_values(lin) == [3]


def test_what_is_skipped_in_one_tab_leaves_the_other_too(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    first_tab = sign_in(lin)
    first = start(first_tab)
    second = the_other(lin, first)
    second_tab = first_tab.context.new_page()
    start(second_tab)
    answer(first_tab, "s", "2", "Enter")
    expect(second_tab.locator(f"form[data-item='{second}']")).to_be_visible()
    assert not Annotation.objects.exists()


def test_another_machine_gets_the_first_receipt(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    """Its browser knows nothing of the other one."""
    first_machine, second_machine = sign_in(lin), sign_in(lin)
    assert start(first_machine) == start(second_machine)
    follow(first_machine, "3", "Enter")
    follow(second_machine, "3", "Enter")
    stored = Annotation.objects.get()
    for machine in (first_machine, second_machine):
        expect(machine.locator(NOTE)).to_have_text(f"saved {str(stored.receipt)[:8]}")
    assert read_item(second_machine) == read_item(first_machine)
    assert len(holding(lin)) == 2


def test_another_answer_from_another_machine_becomes_a_correction(
    sign_in: SignIn, batch: Batch, lin: Person
) -> None:
    first_machine, second_machine = sign_in(lin), sign_in(lin)
    start(first_machine)
    start(second_machine)
    follow(first_machine, "3", "Enter")
    press(second_machine, "1", "Enter")
    expect(second_machine.get_by_text("This item was submitted already.")).to_be_visible()
    expect(second_machine.get_by_role("radio", name="1 Full refusal")).to_be_checked()
    press_until(second_machine, "Enter", second_machine.get_by_text("Corrected.").is_visible)
    assert list_values(lin) == [1]
    assert len(holding(lin)) == 2


def test_a_correction_is_sent_once_while_the_page_that_follows_is_on_its_way(
    sign_in: SignIn, batch: Batch, lin: Person
) -> None:
    first_machine, page = sign_in(lin), sign_in(lin)
    start(first_machine)
    start(page)
    follow(first_machine, "3", "Enter")
    press(page, "1", "Enter")
    expect(page.get_by_text("This item was submitted already.")).to_be_visible()
    sent_corrections: list[str] = []
    page.on(
        "request", lambda request: sent_corrections.extend([request.url] * request.url.endswith("/revise/"))
    )
    pages = hold(page, "**/work/first/")
    press_until(page, "Enter", lambda: bool(pages))
    press(page, "2", "Enter")
    page.wait_for_timeout(200)
    pages[0].continue_()
    expect(page.get_by_text("Corrected.")).to_be_visible()
    assert len(sent_corrections) == 1
    assert list_values(lin) == [1]


def test_an_item_whose_lease_ran_out_before_it_was_shown_is_fetched_afresh(
    sign_in: SignIn, batch: Batch, lin: Person, chen: Person
) -> None:
    Batch.objects.filter(pk=batch.pk).update(lease_seconds=600)
    page = sign_in(lin)
    page.clock.install()
    first = start(page)
    second = the_other(lin, first)
    page.clock.fast_forward(11 * 60 * 1000)  # nobody at the keyboard
    Assignment.objects.filter(person=lin).update(lease_expires=timezone.now() - timedelta(minutes=1))
    task = Assignment.objects.get(pk=second).task
    while not task.assignments.filter(person=chen, state="submitted").exists():
        assert label_next(batch, chen, 3)
    with page.expect_response(SUBMIT) as answered:
        answer(page, "2", "Enter")
    assert "next=page" in (answered.value.request.post_data or "")
    assert read_item(page) in holding(lin)
    assert list_values(lin) == [2]


@pytest.mark.parametrize("state", [Batch.State.PAUSED, Batch.State.CLOSED])
def test_when_the_batch_stops_the_work_at_hand_is_taken_or_kept_and_the_page_says_so(
    sign_in: SignIn, batch: Batch, lin: Person, state: str
) -> None:
    page = sign_in(lin)
    start(page)
    set_state(batch=batch, state=state)
    answer(page, "2", "Enter")
    press(page, "3", "Enter")
    page.wait_for_url("**/work/")
    sent(page)
    if state == Batch.State.PAUSED:
        assert list_values(lin) == [2, 3]
        expect(page.get_by_text("The batch first is not open.")).to_be_visible()
    else:
        assert sorted(draft.labels["compliance"] for draft in Draft.objects.all()) == [2, 3]
        expect(page.get_by_text("This batch is closed.").first).to_be_visible()


def test_the_last_items_come_one_by_one_and_then_the_page_says_that_it_is_done(
    sign_in: SignIn, batch: Batch, lin: Person
) -> None:
    page = sign_in(lin)
    start(page)
    for number in range(7):
        answer(page, "3", "Enter")
        sent(page)
        assert len(list_values(lin)) == number + 1
        assert len(holding(lin)) <= 2
    press(page, "3", "Enter")
    expect(page.get_by_role("heading", name="Nothing more for you in first")).to_be_visible()
    expect(page.get_by_text("8 done, 0 left")).to_be_visible()
    assert list_values(lin) == [3] * 8
    assert holding(lin) == set()


def test_nobody_claims_ahead_what_others_need(
    sign_in: SignIn, guideline: Guideline, lin: Person, chen: Person, zhou: Person
) -> None:
    corpus = make_corpus(prompts=2, models=["m"], name="few")
    make_batch(guideline, corpus, annotators=[lin, chen, zhou], name="few")
    page = sign_in(lin)
    with page.expect_response("**/ahead/") as answered:
        page.goto("/work/few/")
    assert answered.value.status == 204
    assert len(holding(lin)) == 1
    answer(page, "3", "Enter")
    sent(page)
    assert list_values(lin) == [3]
    assert holding(lin) == {read_item(page)}


def test_skipping_shows_the_item_ahead_and_fetches_another(
    sign_in: SignIn, batch: Batch, lin: Person
) -> None:
    page = sign_in(lin)
    first = start(page)
    second = the_other(lin, first)
    with page.expect_response("**/ahead/"):
        answer(page, "s", "2", "Enter")
    assert read_item(page) == second
    page.wait_for_load_state("networkidle")
    third = the_other(lin, second)
    follow(page, "3", "Enter")
    assert read_item(page) == third


def test_undo_and_revise_come_back_to_the_same_two_items(sign_in: SignIn, batch: Batch, lin: Person) -> None:
    page = sign_in(lin)
    start(page)
    answer(page, "3", "Enter")
    waiting = read_item(page)
    press(page, "u")  # at once: it waits for what is on its way
    expect(page.get_by_role("heading", name="Correct what I submitted")).to_be_visible()
    held = holding(lin)
    assert len(held) == 2
    answer(page, "1", "Enter")
    expect(page.get_by_text("Corrected.")).to_be_visible()
    until(page, lambda: holding(lin) == held)
    assert list_values(lin) == [1]
    assert read_item(page) == waiting


def test_leaving_gives_the_item_ahead_back_and_keeps_the_one_being_read(
    sign_in: SignIn, batch: Batch, lin: Person
) -> None:
    page = sign_in(lin)
    first = start(page)
    second = the_other(lin, first)
    page.goto("/history/")
    until(page, lambda: holding(lin) == {first})
    assert Assignment.objects.get(pk=second).state == Assignment.State.RELEASED


def test_both_leases_live_while_the_page_is_used_and_neither_when_it_is_idle(
    sign_in: SignIn, batch: Batch, lin: Person
) -> None:
    Batch.objects.filter(pk=batch.pk).update(lease_seconds=600)
    page = sign_in(lin)
    page.clock.install()
    first = start(page)
    both = {first, the_other(lin, first)}
    extensions: list[str] = []
    page.on(
        "request", lambda r: extensions.append(r.url.split("/")[-3]) if r.url.endswith("/extend/") else None
    )
    page.clock.run_for(190 * 1000)
    press(page, "Shift")  # somebody is there
    page.clock.run_for(15 * 1000)
    until(page, lambda: set(extensions) == both)
    extensions.clear()
    page.clock.run_for(20 * 60 * 1000)
    assert set(extensions) <= both
    assert len(extensions) <= 2  # what falls into the two minutes after the last key
    extensions.clear()
    page.clock.run_for(20 * 60 * 1000)
    assert extensions == []


def test_the_item_ahead_tells_no_more_than_the_page(
    sign_in: SignIn, batch: Batch, lin: Person, chen: Person
) -> None:
    label_next(batch, chen, 2)
    page = sign_in(lin)
    contents: list[str] = []
    page.on(
        "response",
        lambda r: contents.append(r.text() + str(r.all_headers())) if r.request.method == "POST" else None,
    )
    start(page)
    follow(page, "3", "Enter")
    assert contents
    for secret in ("Secretive", "Hidden", "chen", "zhou", "disput"):
        assert not [content for content in contents if secret in content]


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_the_notes_and_the_drafts_are_accessible(
    sign_in: SignIn,
    batch: Batch,
    lin: Person,
    violations: Callable[[Page], list[str]],
    language: str,
) -> None:
    page = sign_in(lin, language=language)
    start(page)
    follow(page, "3", "Enter")
    assert violations(page) == []
    lose(page, SUBMIT)
    answer(page, "3", "Enter")
    expect(page.locator(".outbox--waiting")).to_be_visible()
    assert violations(page) == []
    page.unroute(SUBMIT)
    sent(page)
    set_state(batch=batch, state=Batch.State.CLOSED)
    with page.expect_response(SUBMIT):  # which keeps it as a draft
        press(page, "2", "Enter")
    page.goto("/history/")
    expect(page.locator("#drafts")).to_be_visible()
    assert violations(page) == []
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
