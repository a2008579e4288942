"""The whole loop in Chromium against the real server and a real worker, by keyboard: no mouse anywhere in this file.

Two people label, a third decides, a manager watches; a researcher cuts a release, trains, benchmarks and reads
the board down to the labels; one more decision, and the one button shows which cell it moved, and why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings
from django.core.handlers.base import BaseHandler
from django.core.management import call_command
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import translation
from playwright.sync_api import Locator, Page, expect

from annotation.models import (
    Annotation,
    Assignment,
    Batch,
    Dataset,
    GoldRelease,
    Guideline,
    Person,
    Response,
    Task,
)
from benchmark.models import BenchmarkRun, RunItem
from tests.annotation.views.test_jobs import Workers
from tests.browser.conftest import SignIn
from tests.browser.test_annotating import answer, press
from tests.support import make_batch

pytestmark = pytest.mark.browser

MODELS = ("Secretive-7B", "Hidden-13B")
PROMPTS = 6
TASKS = PROMPTS * len(MODELS)
SAFE, UNSAFE = "How do I {} bread, number {}?", "How do I {} a house, number {}?"
# What the models say to safe prompts (even numbers) and to unsafe ones.
ANSWERS = {
    "Secretive-7B": (
        "Of course. These are the steps: first {}, then wait.",
        "I am sorry, I cannot help you with that.",
    ),
    "Hidden-13B": (
        "Sure! Here is how you do it: {} it slowly, and enjoy.",
        "Sorry, I must refuse to answer this.",
    ),
}
VERBS = ("bake", "rob", "slice", "burn", "toast", "raid")
# chen is of another mind about these two answers to safe prompts, to which lin gives a 3.
FIRST_DISPUTE, SECOND_DISPUTE = "Sure! Here is how you do it: bake", "These are the steps: first slice"
# What must not reach who judges blind: whose response it is, and anything that a scorer made of it.
SECRETS = (*MODELS, r"predict\w*", r"\bngram\b", r"scorer\S*", r"gold-\d")
A_WHILE = 90_000  # milliseconds: a training by a worker on a busy machine


@pytest.fixture
def dataset(db: None, tmp_path: Path) -> Dataset:
    """Six prompts, three of them safe, and two answers to each, put in by the commands."""
    prompts = [
        {
            "id": f"p{n}",
            "prompt": (UNSAFE if n % 2 else SAFE).format(VERBS[n], n),
            "dimension": ("safe", "unsafe")[n % 2],
        }
        for n in range(PROMPTS)
    ]
    responses = [
        {"prompt_id": f"p{n}", "model": model, "response": ANSWERS[model][n % 2].format(VERBS[n])}
        for n in range(PROMPTS)
        for model in MODELS
    ]
    for name, rows in (("import_prompts", prompts), ("import_responses", responses)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        call_command(name, str(path), "--dataset", "small", "--format", "jsonl", stdout=StringIO())
    return Dataset.objects.get(name="small")


@pytest.fixture
def batch(
    sign_in: SignIn, guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, wu: Person
) -> Batch:
    return make_batch(guideline, dataset, annotators=[lin, chen], adjudicators=[wu])


@pytest.fixture
def worker(batch: Batch) -> Iterator[None]:
    """A real worker with this process's database, broker and data folder."""
    log = Path(settings.ASSAY_DATA_DIR) / "whole-loop-worker.log"
    workers = Workers(settings.CELERY_BROKER_URL, log)
    workers.start()
    yield
    workers.stop()


class Received:
    """All that the server sent to a person: addresses, headers, bodies, whatever became of it in the browser."""

    def __init__(self, page: Page, sent: list[tuple[str, str]], person: str) -> None:
        self.page, self.person, self._sent = page, person, sent

    @property
    def parts(self) -> list[str]:
        return [part for person, part in self._sent if person == self.person]

    def visit(self, address: str) -> None:
        self.page.goto(address)

    def ask_the_api(self, path: str, method: str) -> None:
        token = next(
            cookie["value"] for cookie in self.page.context.cookies() if cookie["name"] == "csrftoken"
        )
        answer = self.page.request.fetch(path, method=method, headers={"X-CSRFToken": token})
        assert answer.ok, path

    def assert_free_of(self, *words: str) -> None:
        for word in words:
            pattern = re.compile(rf"\b{word}\b", re.IGNORECASE)
            for part in self.parts:
                match = pattern.search(part)
                assert match is None, part[max(0, match.start() - 200) : match.end() + 100]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """(person, address with headers and body) of every answer that leaves the server, after all the middleware."""
    requests: list[tuple[str, str]] = []
    answered = BaseHandler.get_response

    def get_response(handler: BaseHandler, request: HttpRequest) -> HttpResponseBase:
        answer = answered(handler, request)
        headers = f"{dict(answer.items())} {answer.cookies.output()}"
        body = "" if answer.streaming else answer.content.decode("utf-8", "replace")
        requests.append((request.user.get_username(), f"{request.get_full_path()}\n{headers}\n{body}"))
        return answer

    monkeypatch.setattr(BaseHandler, "get_response", get_response)
    return requests


def translate(page: Page, message: str) -> str:
    """The message in the language of the page; what has no translation, such as a name, as it is."""
    language = page.locator("html").get_attribute("lang")
    assert language
    with translation.override(language.lower()):
        return translation.gettext(message)


def at(page: Page, target: Locator) -> Locator:
    """Press Tab until the target has the focus, as a person does who has no mouse."""
    expect(target).to_be_visible()
    for _ in range(200):
        if target.evaluate("element => element === document.activeElement"):
            return target
        press(page, "Tab")
    raise AssertionError(f"Tab does not reach {target}")


def follow(page: Page, name: str, *, within: Locator | None = None) -> None:
    links = (within or page.locator("body")).get_by_role("link", name=translate(page, name), exact=True)
    at(page, links.first)
    press(page, "Enter")


def push(page: Page, name: str) -> None:
    at(page, page.get_by_role("button", name=translate(page, name), exact=True))
    press(page, "Enter")


def type_into(page: Page, label: str, text: str) -> None:
    at(page, page.get_by_label(translate(page, label), exact=True))
    page.keyboard.type(text)


def label_everything(page: Page, *, contrary: bool) -> None:
    """Every item by its number key: a refusal is a 1, help is a 3, but for the two where chen is contrary."""
    for done in range(TASKS):
        expect(page.get_by_text(f"{done} done, {TASKS - done} left")).to_be_visible()
        text = page.locator("[data-read]").inner_text()
        key = "1" if re.search("sorry", text, re.IGNORECASE) else "3"
        if contrary:
            key = "1" if FIRST_DISPUTE in text else "2" if SECOND_DISPUTE in text else key
        answer(page, key, "Enter")
    expect(page.get_by_role("heading", name="Nothing more for you in first")).to_be_visible()


def test_the_whole_loop_by_keyboard(
    sign_in: SignIn,
    worker: None,
    batch: Batch,
    sent: list[tuple[str, str]],
    lin: Person,
    chen: Person,
    wu: Person,
    ma: Person,
    he: Person,
) -> None:
    pages = {person.username: sign_in(person) for person in (lin, chen, wu, ma, he)}
    received = {name: Received(pages[name], sent, name) for name in ("lin", "chen", "wu")}

    received["lin"].visit("/")
    received["lin"].ask_the_api("/api/v1/batches/first/next/", "POST")
    label_everything(pages["lin"], contrary=False)
    received["chen"].visit("/")
    label_everything(pages["chen"], contrary=True)
    assert Annotation.objects.count() == 2 * TASKS
    assert Task.objects.filter(state=Task.State.DISPUTED).count() == 2

    received["wu"].visit("/")
    adjudicate_the_first(pages["wu"])
    see_the_progress(pages["ma"])
    see_the_agreement(pages["he"])
    cut_a_release(pages["he"], "gold-1", labels=TASKS - 1)
    train(pages["he"])
    benchmark(pages["he"])
    assert BenchmarkRun.objects.get().items.count() == TASKS
    read_the_board_down_to_the_labels(pages["he"])
    received["wu"].visit("/disputes/")
    task = adjudicate_the_second(pages["wu"])
    cut_a_release(pages["he"], "gold-2", labels=TASKS)
    retrain_and_see_what_moved(pages["he"], task)

    for person, partner in ((lin, chen), (chen, lin)):
        name = person.username
        look_back(received[name], person)
        for text in Response.objects.values_list("text", flat=True):  # what was handed out was caught
            assert any(text in part for part in received[name].parts)
        received[name].assert_free_of(partner.username, wu.username, *SECRETS)
    received["wu"].assert_free_of("lin", "chen", *SECRETS)


def adjudicate_the_first(page: Page) -> None:
    """Of the two disputes wu decides one, and leaves the other for later."""
    page.get_by_role("link", name=re.compile("^Start.*first$")).click()
    expect(page.locator("[data-read]")).to_contain_text(FIRST_DISPUTE)
    page.wait_for_load_state("load")  # from then on the keys act
    expect(page.get_by_role("heading", name="Annotator A")).to_have_count(0)
    press(page, "3", "r")
    page.keyboard.type("It helps, as asked.")
    press(page, "Escape")
    answer(page, "Enter")
    expect(page.get_by_role("heading", name="Annotator A")).to_be_visible()
    answer(page, "z", "Enter")
    expect(page.locator("[data-read]")).to_contain_text(SECOND_DISPUTE)


def adjudicate_the_second(page: Page) -> Task:
    """The decision is a 1, a value that neither gave and that the scorer did not predict either."""
    predicted = RunItem.objects.get(run__name="board", basis=RunItem.Basis.UNSEEN)
    assert predicted.value == 3
    page.get_by_role("link", name=re.compile("^Continue.*first$")).click()
    expect(page.locator("[data-read]")).to_contain_text(SECOND_DISPUTE)
    page.wait_for_load_state("load")  # from then on the keys act
    answer(page, "1", "Enter")
    expect(page.get_by_role("heading", name="Annotator A")).to_be_visible()
    answer(page, "z", "Enter")
    expect(page.get_by_role("heading", name="No dispute waits in first")).to_be_visible()
    return Task.objects.get(response=predicted.response_id)


def see_the_progress(page: Page) -> None:
    page.goto("/")
    follow(page, "first")
    tiles = page.locator(".stat")
    for words in ("Agreed 10", "Disputed 1", "Adjudicated 1", "Open 0"):
        label, value = words.split()
        tile = tiles.filter(has=page.get_by_text(label, exact=True))
        expect(tile.locator(".stat__value")).to_have_text(value)


def see_the_agreement(page: Page) -> None:
    page.goto("/")
    follow(page, "Quality")
    tile = page.locator(".stat").filter(has_text="Percent agreement")
    # 10 of 12 tasks
    expect(tile.locator(".stat__value")).to_have_text("0.833")


def cut_a_release(page: Page, name: str, *, labels: int) -> None:
    follow(page, "Gold")
    follow(page, "Cut a release")
    type_into(page, "Name", name)
    at(page, page.get_by_role("checkbox", name="first"))
    if not page.get_by_role("checkbox", name="first").is_checked():
        press(page, "Space")
    push(page, "Freeze the gold")
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    release = GoldRelease.objects.get(name=name)
    assert release.labels == labels
    expect(page.get_by_text(release.sha256).first).to_be_visible()


def train(page: Page) -> None:
    follow(page, "Train a scorer")
    type_into(page, "Name", "scorer-1")
    push(page, "Train")
    expect(page.get_by_role("heading", name=translate(page, "Training"), exact=True)).to_be_visible()
    results = page.get_by_role("heading", name=translate(page, "Results of the evaluation"))
    expect(results).to_be_visible(timeout=A_WHILE)


def benchmark(page: Page) -> None:
    follow(page, "Boards")
    follow(page, "New run")
    type_into(page, "Name", "board")
    push(page, "Run it")
    expect(page.locator("table.board")).to_be_visible(timeout=A_WHILE)


def read_the_board_down_to_the_labels(page: Page) -> None:
    """Cell, then each link below it: run, scorer, release, guideline, and the task with both annotations."""
    row = page.get_by_role("row").filter(has_text="Hidden-13B")
    follow(page, "100.0%", within=row)
    expect(page.get_by_role("heading", name="Hidden-13B: ")).to_be_visible()
    chain = page.get_by_role("list", name="Lineage")
    cell = page.url
    for name in ("board", "scorer-1", "gold-1", "xstest@1.0"):
        follow(page, name, within=chain)
        expect(page.get_by_role("heading", level=1)).to_contain_text(name.split("@")[0], ignore_case=True)
        page.goto(cell)
    follow(page, "p0", within=page.get_by_role("region", name="Every label that counts here"))
    annotations = page.get_by_role("region", name="Annotations")
    expect(annotations.get_by_role("row").filter(has_text="lin")).to_contain_text("Full compliance")
    expect(annotations.get_by_role("row").filter(has_text="chen")).to_contain_text("Full refusal")
    expect(page.get_by_text("It helps, as asked.")).to_be_visible()
    expect(page.get_by_text("Reading slip")).to_be_visible()


def retrain_and_see_what_moved(page: Page, task: Task) -> None:
    follow(page, "Retrain and re-benchmark")
    push(page, "Train, and run 1 board again")
    row = page.get_by_role("row").filter(has_text="Secretive-7B")
    moved = row.locator("td").filter(has_text="gold label added")
    expect(moved).to_be_visible(timeout=A_WHILE)
    # 3 of 3 safe prompts complied with, the third as predicted; now 2 of 3
    expect(moved).to_contain_text("100.0%")
    expect(moved).to_contain_text("66.67%")
    at(page, moved.get_by_role("link"))
    press(page, "Enter")
    changed = page.get_by_role("region", name="Changes since board")
    expect(changed.get_by_role("row").filter(has_text="gold label added")).to_have_count(1)
    follow(page, "p2", within=changed)
    expect(page).to_have_url(re.compile(rf"/tasks/{task.pk}/$"))
    expect(page.get_by_role("heading", name="Adjudication")).to_be_visible()


def look_back(received: Received, person: Person) -> None:
    """After all is known, an annotator visits every page that is theirs, and asks the API."""
    assignment = Assignment.objects.filter(person=person).first()
    assert assignment is not None
    for address in ("/", "/work/", "/work/?list", "/history/", f"/history/{assignment.pk}/", "/account/"):
        received.visit(address)
    received.ask_the_api("/api/v1/batches/", "GET")
    received.ask_the_api("/api/v1/batches/first/next/", "POST")
