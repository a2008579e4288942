"""The pages of dialogues: what they show while a run grows, what they take in, and that they ask listed endpoints."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from annotation.models import (
    Batch,
    Collection,
    Dataset,
    DialogueFault,
    Guideline,
    Job,
    Person,
    Prompt,
    Response,
)
from annotation.services import jobs
from annotation.services.guidelines import load_guideline
from annotation.services.studies import find_or_make_study
from benchmark.models import DialogueRun, DialogueTurn
from benchmark.services.dialogues import DialogueSide, start_dialogues
from tests.benchmark.endpoint import Messages, Reply, local_endpoint
from tests.support import FIXTURES, make_batch

pytestmark = pytest.mark.django_db
CLOSED = "http://127.0.0.1:9/v1"


def policy(messages: Messages, request: Any) -> Reply:
    if request["model"] == "agent":
        number = messages[0]["content"].rsplit("Card ", 1)[1]
        if number == "3":
            return 400, {}, {"error": {"message": "<b>not this</b>"}}
        return (
            "As an AI, I have no troubles." if number == "1" else f"<script>alert(1)</script> {len(messages)}"
        )
    return f"I hear you: {len(messages)}"


@pytest.fixture
def cards(db: None) -> Dataset:
    dataset = Dataset.objects.create(study=find_or_make_study(), name="cards")
    for number in range(4):
        Prompt.objects.create(dataset=dataset, key=f"c{number}", text=f"Card {number}", language="en")
    return dataset


@pytest.fixture
def run(cards: Dataset, settings: Any) -> DialogueRun:
    with local_endpoint(policy) as url:
        settings.ASSAY_ENDPOINTS = {"local": url}
        made = start_dialogues(
            name="first",
            dataset=cards,
            model=DialogueSide("Tested-7B", url, "tested", {"system": "Be <i>kind</i>."}),
            agent=DialogueSide("ESC-Role", url, "agent"),
            rounds=2,
            send=False,
        )
        jobs.run(made.job.pk)
    made.refresh_from_db()
    return made


def read(client: Client, name: str, *arguments: Any, query: str = "") -> str:
    answer = client.get(reverse(name, args=arguments) + query)
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_list_the_run_and_its_live_part(run: DialogueRun, he: Person, client: Client):
    client.force_login(he)
    assert "3 of 4" in read(client, "dialogue-runs")
    page = read(client, "dialogue-run", run.pk)
    assert "Continue with 1 dialogue" in page
    assert "Be &lt;i&gt;kind" in page
    assert "The agent says that it is an AI" in page
    assert client.get(reverse("dialogue-progress", args=[run.pk])).headers["HX-Refresh"] == "true"
    for query, keys in (
        ("?state=failed", ["c3"]),
        ("?state=complete", ["c0", "c1", "c2"]),
        ("?state=faulty", ["c1"]),
        ("?fault=unmasked", ["c1"]),
        ("?fault=cut", []),
        ("?state=nonsense&fault=nonsense", ["c0", "c1", "c2", "c3"]),
    ):
        part = read(client, "dialogue-run", run.pk, query=query)
        assert [key for key in ("c0", "c1", "c2", "c3") if f">{key}</a>" in part] == keys, query


def test_a_dialogue_with_its_greeting_its_card_and_its_neighbours(
    run: DialogueRun, he: Person, client: Client
):
    client.force_login(he)
    first, second, _third, last = run.dataset.prompts.order_by("pk")
    page = read(client, "dialogue", run.pk, first.pk)
    assert "Greeting (scripted)" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; 2" in page
    assert "<script>alert" not in page
    assert "Card 0" in page
    assert reverse("dialogue", args=[run.pk, second.pk]) in page
    assert "the agent says that it is an AI" in read(client, "dialogue", run.pk, second.pk)
    assert "&lt;b&gt;not this" in read(client, "dialogue", run.pk, last.pk)
    for number in (10**9, 10**30, "x"):
        assert client.get(reverse("dialogue", args=[run.pk, number])).status_code == 404
        assert client.get(reverse("dialogue-run", args=[number])).status_code == 404


def test_a_dialogue_is_shown_as_it_grows(run: DialogueRun, he: Person, client: Client):
    client.force_login(he)
    response = Response.objects.get(prompt__key="c0")
    response.delete()
    DialogueTurn.objects.filter(prompt__key="c0", place__gte=2).delete()
    Job.objects.update(state="running")
    page = read(client, "dialogue", run.pk, response.prompt_id)
    assert "2 of 4 turns" in page
    address = reverse("dialogue-turns", args=[run.pk, response.prompt_id])
    assert f'hx-get="{address}"' in page
    assert "HX-Refresh" not in client.get(address).headers
    Job.objects.update(state="done")
    assert client.get(address).headers["HX-Refresh"] == "true"


def test_go_on_from_the_page(run: DialogueRun, he: Person, ma: Person, client: Client, settings: Any):
    client.force_login(ma)
    assert "Continue with" not in read(client, "dialogue-run", run.pk)  # a manager reads
    assert client.post(reverse("dialogue-again", args=[run.pk])).status_code == 403
    client.force_login(he)
    answer = client.post(reverse("dialogue-again", args=[run.pk]))
    assert answer.headers["Location"] == reverse("dialogue-run", args=[run.pk])
    assert client.post(reverse("dialogue-again", args=[run.pk])).status_code == 409
    Job.objects.update(state="done")
    settings.ASSAY_ENDPOINTS = {}
    assert "the command make_dialogues goes on" in read(client, "dialogue-run", run.pk)
    assert client.post(reverse("dialogue-again", args=[run.pk])).status_code == 409


def form(**changes: Any) -> dict[str, Any]:
    fields = {
        "name": "first",
        "endpoint": "local",
        "served_model": "tested",
        "model": "Tested-7B",
        "rounds": "2",
    }
    fields |= {"agent": "ESC-Role", "agent_endpoint": "local", "agent_model": "agent"}
    return fields | {"concurrency": "4", "timeout": "30"} | changes


def test_a_new_run_from_the_page(cards: Dataset, he: Person, client: Client, settings: Any):
    settings.ASSAY_ENDPOINTS = {"local": CLOSED}
    client.force_login(he)
    read(client, "dialogue-run-new")
    fields = form(
        dataset=cards.pk, agent_temperature="1", opening="Hello", temperature="0", agent_extra='{"top_k": 4}'
    )
    answer = client.post(reverse("dialogue-run-new"), fields)
    run = DialogueRun.objects.get()
    assert answer.headers["Location"] == reverse("dialogue-run", args=[run.pk])
    assert (run.settings, run.agent_settings) == ({"temperature": 0.0}, {"temperature": 1.0, "top_k": 4})
    assert (run.rounds, run.openings, run.created_by, run.job.state) == (2, {"": "Hello"}, he, "queued")
    assert set(run.templates) == {"", "en", "zh"}
    refusal = client.post(reverse("dialogue-run-new"), fields)
    assert refusal.status_code == 422
    assert "being collected now" in refusal.content.decode()


HOSTILE: list[dict[str, str]] = [
    {"name": ".."},
    {"name": ""},
    {"name": "x" * 101},
    {"endpoint": "http://169.254.169.254/latest"},
    {"agent_endpoint": "other"},
    {"agent": "\x00"},
    {"agent_model": "x" * 201},
    {"model": ".."},
    {"collection": ".."},
    {"dataset": "9" * 5000},
    {"rounds": "0"},
    {"rounds": "51"},
    {"template": "\x00"},
    {"template": "x" * 40_001},
    {"agent_temperature": "nan"},
    {"agent_extra": '{"temperature": 1}'},
    {"agent_extra": '{"api_key": "x"}'},
    {"concurrency": "0"},
]


def test_hostile_forms_are_refused(cards: Dataset, he: Person, client: Client, settings: Any):
    settings.ASSAY_ENDPOINTS = {"local": CLOSED}
    client.force_login(he)
    for changes in HOSTILE:
        answer = client.post(reverse("dialogue-run-new"), form(dataset=cards.pk) | changes)
        assert answer.status_code == 422, str(changes)[:60]
        assert not DialogueRun.objects.exists()
        assert not Job.objects.exists()
        assert not Collection.objects.exists()


@pytest.fixture
def dialogue_guideline(db: None) -> Guideline:
    text = (FIXTURES / "guidelines" / "esc_eval.yaml").read_text(encoding="utf-8")
    return load_guideline(text=text, path="g.yaml", publish=True)


def test_a_batch_leaves_dialogues_with_a_fault_out_where_it_says_so(
    run: DialogueRun, dialogue_guideline: Guideline, lin: Person, chen: Person, ma: Person, client: Client
):
    assert DialogueFault.objects.values_list("response__prompt__key", flat=True)[0] == "c1"
    every = make_batch(dialogue_guideline, run.dataset, annotators=[lin, chen], name="every")
    part = make_batch(
        dialogue_guideline, run.dataset, annotators=[lin, chen], name="part", without_faults=True
    )
    assert (every.tasks.count(), part.tasks.count()) == (3, 2)
    assert not part.tasks.filter(response__prompt__key="c1").exists()
    client.force_login(ma)
    assert "Leave out dialogues with a fault" in read(client, "batch-new", run.dataset.name)
    fields = {"guideline": dialogue_guideline.pk, "overlap": "2", "without_faults": "on"}
    plan = client.post(reverse("batch-plan", args=[run.dataset.name]), fields).content.decode()
    assert (
        plan
        != client.post(
            reverse("batch-plan", args=[run.dataset.name]), fields | {"without_faults": ""}
        ).content.decode()
    )
    DialogueFault.objects.all().delete()
    assert "Leave out dialogues" not in read(client, "batch-new", run.dataset.name)
    assert Batch.objects.count() == 2


def test_the_list_takes_the_same_queries_for_many_runs(run: DialogueRun, he: Person, client: Client):
    client.force_login(he)
    url = reverse("dialogue-runs")
    client.get(url)
    with CaptureQueriesContext(connection) as before:
        client.get(url)
    for number in range(3):
        start_dialogues(
            name=f"more-{number}",
            dataset=run.dataset,
            model=DialogueSide("Tested-7B", CLOSED),
            agent=DialogueSide("A", CLOSED),
            collection=f"more-{number}",
            send=False,
        )
    with CaptureQueriesContext(connection) as after:
        page = client.get(url).content.decode()
    assert len(after) == len(before)
    assert page.count("0 of 4") == 3
    assert "3 of 4" in page
