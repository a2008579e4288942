"""Twenty dialogues of eleven turns, rated by keyboard on seven criteria from the role card to the leaderboard.

The first annotator, the adjudicator and the researcher read Chinese, the second annotator English.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from playwright.sync_api import Page, expect

from annotation.models import (
    Annotation,
    Batch,
    Dataset,
    GoldLabel,
    Guideline,
    Person,
    Prompt,
    Response,
    Task,
)
from annotation.services import jobs
from annotation.services.guidelines import load_guideline
from annotation.services.studies import find_or_make_study
from benchmark.models import BenchmarkRun
from benchmark.services.dialogues import DialogueSide, start_dialogues
from tests.annotation.views.test_jobs import Workers
from tests.benchmark.endpoint import Messages, Reply, local_endpoint
from tests.browser.conftest import SignIn, Violations
from tests.browser.test_annotating import answer, press, sent
from tests.browser.test_whole_loop import benchmark, cut_a_release, follow, train, translate
from tests.support import FIXTURES, make_batch

pytestmark = pytest.mark.browser
MODELS = ("Warm-7B", "Cold-7B")
CARDS = 10


def converse(messages: Messages, request: Any) -> Reply:
    number = len(messages) // 2
    if request["model"] == "agent":
        place = messages[0]["content"].rsplit("Nr. ", 1)[1]
        return f"I feel low about matter {place}, and this is the {number}. thing I can say of it."
    if request["model"] == "Warm-7B":
        return f"That sounds heavy, and I am glad you tell me. What helps you a little? ({number})"
    return f"State your problem precisely. Request {number} is noted."


@pytest.fixture
def dataset(db: None) -> Dataset:
    """Ten role cards, and on each a dialogue of two models with an agent, made by the product."""
    cards = Dataset.objects.create(study=find_or_make_study(), name="cards")
    Prompt.objects.bulk_create(
        Prompt(
            dataset=cards,
            key=f"card-{number}",
            text=f"Age: {20 + number}. Nr. {number}",
            language="en",
            dimension=("family", "work")[number % 2],
        )
        for number in range(CARDS)
    )
    with local_endpoint(converse) as url:
        for model in MODELS:
            run = start_dialogues(
                name=model,
                dataset=cards,
                model=DialogueSide(model, url),
                agent=DialogueSide("ESC-Role", url, "agent"),
                send=False,
            )
            assert run.job is not None
            jobs.run(run.job.pk)
    assert {len(turns) for turns in Response.objects.values_list("turns", flat=True)} == {11}
    return cards


@pytest.fixture
def guideline(db: None) -> Guideline:
    text = (FIXTURES / "guidelines" / "esc_eval.yaml").read_text(encoding="utf-8")
    return load_guideline(text=text, path="g.yaml", publish=True)


@pytest.fixture
def batch(
    sign_in: SignIn, guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, wu: Person
) -> Batch:
    return make_batch(guideline, dataset, annotators=[lin, chen], adjudicators=[wu], name="first")


@pytest.fixture
def worker(batch: Batch) -> Iterator[None]:
    workers = Workers(settings.CELERY_BROKER_URL, Path(settings.ASSAY_DATA_DIR) / "dialogue-worker.log")
    workers.start()
    yield
    workers.stop()


LIN = {"sounds heavy": "4343344", "State your": "3201101"}
# One apart is within the tolerance; on empathy chen is two away wherever Cold-7B spoke.
CHEN = {"sounds heavy": "3333334", "State your": "3121111"}


def test_from_the_role_card_to_the_leaderboard(
    sign_in: SignIn,
    batch: Batch,
    worker: None,
    lin: Person,
    chen: Person,
    wu: Person,
    he: Person,
) -> None:
    for person, levels, language in ((lin, LIN, "zh-hans"), (chen, CHEN, "en")):
        page = sign_in(person, language=language)
        page.goto("/work/")
        expect(page.get_by_text(translate(page, "Greeting (scripted)"))).to_be_visible()
        assert page.locator(".turns > li").count() == 12  # the folded card, the greeting and ten turns
        rate(page, levels)
    assert Annotation.objects.count() == 2 * CARDS * len(MODELS)
    assert Task.objects.filter(state="disputed").count() == CARDS
    decide_every_dispute(sign_in(wu, language="zh-hans"))
    gold = GoldLabel.objects.all()
    assert gold.count() == 7 * CARDS * len(MODELS)
    adjudicated = gold.filter(source="adjudicated")
    assert adjudicated.count() == CARDS
    assert set(adjudicated.values_list("criterion", "value")) == {("empathy", 1)}

    page = sign_in(he, language="zh-hans")
    page.goto("/")
    cut_a_release(page, "gold-1", labels=7 * CARDS * len(MODELS))
    train(page)
    follow(page, "Figures")
    table = page.locator("table").filter(has_text="最常见等级").filter(has_text="流畅性")
    expect(table.get_by_role("columnheader", name="相差不超过一级")).to_have_count(2)
    row = table.get_by_role("row").filter(has_text="流畅性").locator("td")
    # Warm-7B had a 3 and a 4, Cold-7B two 3: all of them 3 by the lower median, which is the commonest level.
    expect(row.nth(0)).to_have_text("20")
    expect(row.nth(1)).to_contain_text("1.000")
    expect(row.nth(2)).to_contain_text("1.000")
    benchmark(page)
    assert BenchmarkRun.objects.get().items.count() == 7 * CARDS * len(MODELS)
    for model in MODELS:
        expect(page.locator("table.board").get_by_role("row").filter(has_text=model)).to_be_visible()
    # Warm-7B is 25 times a mean; two decimals, as ESC-Eval prints it.
    numbers = re.findall(r"\d+\.\d+", page.locator("table.board").inner_text())
    assert numbers
    assert all(re.fullmatch(r"\d+\.\d\d", number) for number in numbers)


def rate(page: Page, levels: dict[str, str]) -> None:
    """A key for each criterion and one to submit, by a word of the response; the last item leads to no other."""
    for number in range(CARDS * len(MODELS)):
        text = page.locator(".turns").inner_text()
        digits = next(own for word, own in levels.items() if word in text)
        if number < CARDS * len(MODELS) - 1:
            answer(page, *digits, "Enter")
        else:
            press(page, *digits, "Enter")
    sent(page)
    heading = translate(page, "Nothing more for you in %(name)s") % {"name": "first"}
    expect(page.get_by_role("heading", name=heading)).to_be_visible()


def decide_every_dispute(page: Page) -> None:
    """Only what is disputed is asked: empathy, to which both were strangers."""
    page.goto("/")
    page.get_by_role("link", name=re.compile("^开始.*first$")).click()
    for number in range(CARDS):
        expect(page.locator("form[data-item]")).to_be_visible()
        page.wait_for_load_state("load")
        assert page.locator("fieldset[data-criterion]").count() == 1
        answer(page, "1", "Enter")
        expect(page.get_by_role("heading", name="标注员 A")).to_be_visible()
        if number < CARDS - 1:
            answer(page, "z", "Enter")
        else:
            press(page, "z", "Enter")
    expect(page.get_by_role("heading", name="first 中没有待裁决的争议")).to_be_visible()


def list_tops(page: Page) -> list[float]:
    """Where each turn begins, from the upper edge of the pane."""
    tops: list[float] = page.evaluate(
        """() => {
          const pane = document.querySelector("[data-read]").getBoundingClientRect().top;
          return [...document.querySelectorAll(".turn")].map((turn) => turn.getBoundingClientRect().top - pane);
        }"""
    )
    return tops


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_from_turn_to_turn_by_key_and_by_button(
    sign_in: SignIn, batch: Batch, lin: Person, violations: Violations, width: int, height: int
) -> None:
    page = sign_in(lin, language="zh-hans")
    page.set_viewport_size({"width": width, "height": height})
    page.goto("/work/")
    expect(page.get_by_text("开场白（预设）")).to_be_visible()
    assert violations(page) == []
    page.locator("[data-read]").evaluate("pane => pane.scrollTo(0, 0)")
    seen = []
    for _ in range(4):
        press(page, "j")
        page.wait_for_timeout(60)
        seen.append(min(range(12), key=lambda place: abs(list_tops(page)[place])))
    assert seen == sorted(set(seen))
    assert len(seen) == 4
    press(page, "k")
    page.wait_for_timeout(60)
    assert min(range(12), key=lambda place: abs(list_tops(page)[place])) == seen[-2]
    if width > 1024:
        page.get_by_role("button", name="下一轮").click()
    else:
        press(page, "j")
    page.wait_for_timeout(60)
    assert min(range(12), key=lambda place: abs(list_tops(page)[place])) == seen[-1]
    # The speaker's line stays in sight while the turn does.
    assert page.evaluate(
        """() => {
          const pane = document.querySelector("[data-read]");
          pane.scrollBy(0, 40);
          const { top } = pane.getBoundingClientRect();
          const { left } = pane.querySelector(".turns").getBoundingClientRect();
          return Boolean(document.elementFromPoint(left + 4, top + 12).closest(".turn__who"));
        }"""
    )
