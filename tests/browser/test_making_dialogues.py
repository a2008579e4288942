"""A run of dialogues from the form to the dialogue it made, at the keyboard: no mouse anywhere in this file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.urls import reverse
from playwright.sync_api import Page, expect

from annotation.models import Dataset, Person, Prompt
from annotation.services.studies import find_or_make_study
from benchmark.models import DialogueRun
from tests.annotation.views.test_jobs import Workers
from tests.benchmark.endpoint import Address, Messages, Reply, local_endpoint
from tests.browser.conftest import SignIn, Violations
from tests.browser.test_annotating import press
from tests.browser.test_whole_loop import A_WHILE, at

pytestmark = pytest.mark.browser
CARDS, ROUNDS = 3, 2
GREETING = "Hello, I listen."


def converse(messages: Messages, request: Any) -> Reply:
    number = len(messages) // 2
    if request["model"] == "agent":
        return f"I feel low, and this is the {number}. thing I can say of it."
    return f"That sounds heavy. What helps you a little? ({number})"


@pytest.fixture
def endpoint() -> Iterator[Address]:
    """Slow enough for the page to be seen at work."""
    with local_endpoint(converse, latency=0.5) as url:
        yield url


@pytest.fixture
def dataset(db: None) -> Dataset:
    """Three role cards, and a dataset that stands before them in the list."""
    study = find_or_make_study()
    Prompt.objects.create(dataset=Dataset.objects.create(study=study, name="answers"), key="p", text="Why?")
    cards = Dataset.objects.create(study=study, name="cards")
    Prompt.objects.bulk_create(
        Prompt(
            dataset=cards,
            key=f"card-{number}",
            text=f"Age: {20 + number}\nProblem: a lost bicycle",
            language="en",
            dimension=("family", "work")[number % 2],
            source="ESConv",
        )
        for number in range(CARDS)
    )
    return cards


@pytest.fixture
def worker(sign_in: SignIn, dataset: Dataset) -> Iterator[None]:
    workers = Workers(settings.CELERY_BROKER_URL, Path(settings.ASSAY_DATA_DIR) / "making-worker.log")
    workers.start()
    yield
    workers.stop()


def go(page: Page, name: str, *arguments: int) -> None:
    """Along a link to this page, whatever it is called in the language."""
    address = reverse(name, args=arguments)
    at(page, page.locator(f"a[href$='{address}']").last)
    press(page, "Enter")
    page.wait_for_url(f"**{address}")


def fill_in(page: Page, name: str, text: str) -> None:
    """Type into the field, over what stands there; in a list the letters choose."""
    field = at(page, page.locator(f"[name={name}]"))
    if field.evaluate("element => element.tagName") != "SELECT":
        press(page, "Control+A")
    page.keyboard.type(text)


def unfold(page: Page, name: str) -> None:
    """The folded part with this field."""
    at(page, page.locator(f"details:has([name={name}]) summary"))
    press(page, "Enter")
    expect(page.locator(f"[name={name}]")).to_be_visible()


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_a_run_from_the_form_to_its_dialogues(
    sign_in: SignIn,
    violations: Violations,
    worker: None,
    endpoint: Address,
    he: Person,
    settings: Any,
    language: str,
) -> None:
    settings.ASSAY_ENDPOINTS = {"hosted": "http://127.0.0.1:9/v1", "local": endpoint}
    page = sign_in(he, language=language)
    page.goto("/")
    go(page, "datasets")
    go(page, "dialogue-runs")
    assert violations(page) == []
    go(page, "dialogue-run-new")
    assert violations(page) == []
    for name, text in (
        ("name", "first"),
        ("dataset", "cards"),
        ("rounds", str(ROUNDS)),
        ("model", "Tested-7B"),
        ("endpoint", "local"),
        ("served_model", "tested"),
        ("agent_endpoint", "local"),
        ("agent", "ESC-Role"),
    ):
        fill_in(page, name, text)
    press(page, "Enter")  # before it is whole: the field that lacks something gets the focus
    expect(page.locator("[name=agent_model]")).to_be_focused()
    page.keyboard.type("agent")
    for name, text in (("opening", GREETING), ("concurrency", "1")):
        unfold(page, name)
        fill_in(page, name, text)
    at(page, page.locator("form.form button"))
    press(page, "Enter")
    page.wait_for_url(re.compile(r"/dialogues/\d+/$"))
    watch(page, violations)

    run = DialogueRun.objects.get()
    assert (run.name, run.dataset.name, run.rounds, run.concurrency) == ("first", "cards", ROUNDS, 1)
    assert (run.model.name, run.served_model, run.agent, run.agent_model) == (
        "Tested-7B",
        "tested",
        "ESC-Role",
        "agent",
    )
    assert run.openings == {"": GREETING}
    assert violations(page) == []
    card = Prompt.objects.get(key="card-1")
    address = page.url
    go(page, "dialogue", run.pk, card.pk)
    expect(page.get_by_role("heading", level=1)).to_have_text("card-1")
    assert page.locator(".turns > li").count() == 1 + 2 * ROUNDS
    expect(page.locator(".turns > li").first).to_contain_text(GREETING)
    unfold_card(page)
    assert violations(page) == []
    go(page, "dialogue-run", run.pk)
    assert page.url == address
    go(page, "dialogue-runs")
    expect(page.get_by_role("row").filter(has_text="first").locator("progress")).to_have_attribute(
        "value", str(CARDS)
    )
    assert violations(page) == []


def watch(page: Page, violations: Violations) -> None:
    """The page of the run grows of itself until every card has its dialogue."""
    bar, turns = page.locator(".job__live progress"), CARDS * 2 * ROUNDS
    expect(bar).to_have_attribute("value", re.compile("^[1-6]$"), timeout=A_WHILE)
    expect(bar).to_have_attribute("max", str(turns))
    assert violations(page) == []
    at(
        page, page.locator(".job__live form button")
    )  # it can be cancelled by key; the part that asks again keeps focus
    page.wait_for_timeout(2500)
    expect(page.locator(".job__live form button")).to_be_focused()
    expect(bar).to_have_attribute("value", str(turns), timeout=A_WHILE)
    expect(page.locator(".job__live form button")).to_have_count(0)
    expect(page.locator(".card--next")).to_be_visible()


def unfold_card(page: Page) -> None:
    at(page, page.locator("details.card summary"))
    press(page, "Enter")
    expect(page.get_by_text("a lost bicycle")).to_be_visible()
    expect(page.get_by_text("ESConv")).to_be_visible()
