"""The quality pages: who may open them, what they say, and that seeded faults are found on them."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from annotation.models import Batch, Dataset, Guideline, Person
from annotation.selectors.quality import Overview
from annotation.services.batches.batches import set_state
from tests.support import decide_next, label_next, make_batch


@pytest.fixture
def worked(batch: Batch, lin: Person, chen: Person, wu: Person) -> Batch:
    for first, other in ((3, 3), (1, 1), (1, 3), (2, 3)):
        label_next(batch, lin, first)
        label_next(batch, chen, other)
    decide_next(batch, wu, 3)
    return batch


@pytest.fixture
def manager(client: Client, ma: Person) -> Client:
    client.force_login(ma)
    return client


def pages() -> list[str]:
    return [
        reverse("quality"),
        reverse("batch-quality", args=["first"]),
        reverse("batch-quality-person", args=["first", "lin"]),
        reverse("batch-quality-items", args=["first", "lin"]),
    ]


def test_a_manager_reads_everybodys_figures(manager: Client, worked: Batch):
    page = manager.get(reverse("batch-quality", args=["first"])).content.decode()
    assert "No findings." in page
    assert "50.0%" in page  # lin and chen were alike twice in four times
    assert reverse("batch-quality-person", args=["first", "lin"]) in page
    assert "no labels to compare yet" in page  # zhou
    assert "Fewer than 30 labels have a partner" in page
    assert "no ranking of people" in page


def test_every_tab_opens_before_there_is_anything_and_after(
    manager: Client, batch: Batch, lin: Person, chen: Person, wu: Person
):
    tabs = ["", "random", "severity", "drift", "copying", "speed", "adjudicators"]
    urls = {tab: f"{reverse('batch-quality', args=['first'])}?show={tab}" for tab in tabs}
    assert {manager.get(url).status_code for url in urls.values()} == {200}
    label_next(batch, lin, 1)
    for name in ("lin", "chen", "zhou"):  # nobody has a task with all its labels yet
        assert manager.get(reverse("batch-quality-person", args=["first", name])).status_code == 200
    label_next(batch, chen, 3)
    decide_next(batch, wu, 3)
    pages = {tab: manager.get(url).content.decode() for tab, url in urls.items()}
    assert [tab for tab, page in pages.items() if "/quality/wu/" in page] == ["adjudicators"]
    assert [tab for tab, page in pages.items() if "/quality/lin/" in page] == [*tabs[:4], "speed"]


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_the_page_says_where_drift_cannot_be_determined_and_on_what_its_promise_rests(
    manager: Client, worked: Batch, monkeypatch: pytest.MonkeyPatch, language: str
):
    url = reverse("batch-quality", args=["first"])
    sentence = {"en": "Drift cannot be determined for 4 people", "zh-hans": "有 4 人的漂移无法判定"}[language]
    condition = {"en": "Condition: items of one batch", "zh-hans": "前提：同一批次"}[language]
    headers = {"Accept-Language": language}
    assert sentence not in manager.get(url, headers=headers).content.decode()
    monkeypatch.setattr(Overview, "n_undetermined", property(lambda _overview: 4))
    for tab, is_shown in (("", True), ("drift", True), ("copying", False)):
        page = manager.get(f"{url}?show={tab}", headers=headers).content.decode()
        assert (sentence in page) == is_shown
        assert condition in page


def test_the_columns_sort_by_their_worst_and_back(manager: Client, worked: Batch):
    url = reverse("batch-quality", args=["first"])
    names = [row.person.username for row in manager.get(url, {"sort": "person"}).context["rows"]]
    assert names == ["chen", "lin", "zhou"]
    back = [row.person.username for row in manager.get(url, {"sort": "-person"}).context["rows"]]
    assert back == names[::-1]
    gold = manager.get(url, {"sort": "gold"})
    assert [row.person.username for row in gold.context["rows"]] == ["lin", "chen", "zhou"]
    assert 'aria-sort="ascending"' in gold.content.decode()


def test_one_persons_page_shows_where_they_differ_and_opens_it(manager: Client, worked: Batch):
    page = manager.get(reverse("batch-quality-person", args=["first", "lin"])).content.decode()
    items = reverse("batch-quality-items", args=["first", "lin"])
    assert f"{items}?criterion=compliance&amp;mine=1&amp;theirs=3" in page
    assert f"{items}?with=chen" in page
    answer = manager.get(items, {"criterion": "compliance", "mine": "1", "theirs": "3"})
    (line,) = answer.context["rows"]
    assert (line["own_label"], line["gold"], line["is_gold"]) == (
        "1 Full refusal",
        "3 Full compliance",
        False,
    )
    assert reverse("task", args=[line["task"]]) in answer.content.decode()
    adjudicator = manager.get(reverse("batch-quality-person", args=["first", "wu"])).content.decode()
    assert "As adjudicator" in adjudicator
    person_page = manager.get(reverse("person", args=["lin"])).content.decode()
    assert reverse("batch-quality-person", args=["first", "lin"]) in person_page


def test_what_the_items_are_narrowed_to_is_said_in_the_readers_words(manager: Client, worked: Batch):
    items = reverse("batch-quality-items", args=["first", "lin"])
    today = timezone.localdate()
    filters = {"criterion": "compliance", "dimension": "safe", "mine": "1", "since": str(today.toordinal())}
    words = dict(manager.get(items, filters, headers={"Accept-Language": "zh-hans"}).context["filters"])
    assert {"安全的提示", "1 完全拒绝"} <= set(words.values())
    assert today.isoformat() in words.values()
    assert not {"compliance", "safe", "1"} & set(words.values())
    assert manager.get(items, {"day": "0"}).context["filters"] == []


def test_only_managers_open_them(client: Client, worked: Batch, he: Person, lin: Person, wu: Person):
    for person in (he, lin, wu):
        client.force_login(person)
        assert {client.get(url).status_code for url in pages()} == {403}


def test_who_works_in_a_batch_reads_nothing_of_it(
    manager: Client, worked: Batch, guideline: Guideline, dataset: Dataset, ma: Person, he: Person
):
    assert {manager.get(url).status_code for url in pages()} == {200}
    # The same responses, judged blind in another batch.
    second = make_batch(guideline, dataset, annotators=[ma, he], name="second")
    every, *of_batch = [manager.get(url) for url in pages()]
    assert {answer.status_code for answer in of_batch} == {403}
    assert every.context["pooled_batches"] == []
    assert list(every.context["batches"]) == []
    assert not every.context["has_labels"]
    set_state(batch=second, state="closed")
    assert {manager.get(url).status_code for url in pages()} == {200}


STRANGE = {
    "/batches/none/quality/": 404,
    "/batches/first/quality/none/": 404,
    "/batches/first/quality/he/": 404,  # not of the batch
    "/batches/first/quality/?show=weather": 400,
    "/batches/first/quality/?sort=weather": 200,
    "/batches/first/quality/lin/items/?mine=much": 400,
    "/batches/first/quality/lin/items/?mine=nan": 400,
    "/batches/first/quality/lin/items/?with=nobody": 404,
    "/batches/first/quality/lin/items/?day=99999999999999999999&page=x&since=-1": 200,
    "/batches/first/quality/lin/items/?day=99999999&since=0": 200,
}


def test_a_strange_address_is_answered_with_what_is_wrong(manager: Client, worked: Batch, he: Person):
    assert {path: manager.get(path).status_code for path in STRANGE} == STRANGE


def test_the_command_says_the_same_for_machines(worked: Batch):
    out = StringIO()
    call_command("people_quality", "--batch", "first", "--json", stdout=out)
    data = json.loads(out.getvalue())
    assert [row["person"] for row in data["people"]] == ["chen", "lin"]
    lin = data["people"][1]
    assert (lin["partners"]["value"], lin["partners"]["n"]) == (0.5, 4)
    assert lin["severity"] is None
    assert lin["flags"] == []
    assert data["adjudicators"][0]["person"] == "wu"
    plain = StringIO()
    call_command("people_quality", stdout=plain)
    assert "wu: 1 disputes decided" in plain.getvalue()


def test_seeded_faults_are_found_on_the_page(db: None, client: Client):
    from tests.performance.faults_through_the_page import (
        FaultDetections,
        count_detections,
        list_culprit_names,
        run_seed,
    )
    from tests.performance.seeded_faults import ALL
    from tests.performance.simulated_batch import make_floor

    floor = make_floor()
    client.force_login(floor.manager)
    simulated, rows, _took = run_seed(floor, client, 1, ALL)
    detections = FaultDetections()
    count_detections(detections, rows, list_culprit_names(simulated, floor))
    assert detections.both == {"random": 1, "strict": 1, "drift": 1, "copying": 1}
