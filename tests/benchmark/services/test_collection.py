"""Response collection: what is stored is not asked for again, a stop's losses are counted, nothing is stored twice."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import IntegrityError, OperationalError, connection, transaction
from django.utils import timezone

from annotation.core.errors import AssayError, Conflict, Forbidden
from annotation.domain.datasets import response_sha256
from annotation.models import (
    AuditEvent,
    Batch,
    Collection,
    Dataset,
    EvaluatedModel,
    Job,
    Person,
    Prompt,
    Response,
)
from annotation.services import jobs
from annotation.services.people.people import set_roles
from annotation.services.studies import find_or_make_study
from benchmark.models import CollectedResponse, CollectionRun, FailedRequest, PendingRequest
from benchmark.selectors.collection import (
    compute_progress,
    compute_samples_progress,
    count_texts,
    list_rates,
    list_samples,
    list_texts_to_ask,
)
from benchmark.services import collection, endpoint_runs
from benchmark.services.collection import resume_collection, start_collection
from tests.annotation.views.test_jobs import Workers, wait_for
from tests.benchmark.endpoint import (
    FINGERPRINT,
    SERVED,
    Bucket,
    Messages,
    Reply,
    build_answer_body,
    local_endpoint,
    run_endpoint_command,
    troubled,
)

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
CLOSED = "http://127.0.0.1:9/v1"
SAMPLED: dict[str, Any] = {"collection": "C", "samples": 3, "settings": {"temperature": 0.7, "seed": 7}}


def polite(messages: Messages, _request: Any) -> Reply:
    return f"Answer to {messages[-1]['content']}"


@pytest.fixture
def prompts(db: None) -> Dataset:
    return ask_dataset(12)


def ask_dataset(number: int) -> Dataset:
    dataset = Dataset.objects.create(study=find_or_make_study(), name="asked")
    Prompt.objects.bulk_create(
        Prompt(dataset=dataset, key=f"p{n}", text=f"Question {n}?") for n in range(number)
    )
    return dataset


def collect(dataset: Dataset, url: str, **changes: Any) -> tuple[CollectionRun, Job]:
    options: dict[str, Any] = {"model": "Asked-7B", "timeout": 5, "send": False}
    run = start_collection(dataset=dataset, endpoint=url, **(options | changes))
    return finished(run)


def finished(run: CollectionRun) -> tuple[CollectionRun, Job]:
    assert run.job is not None
    job = jobs.run(run.job.pk)
    run.refresh_from_db()
    return run, job


def test_every_prompt_gets_its_response_and_how_it_came_about(prompts: Dataset):
    with local_endpoint(polite) as url:
        wished = {"temperature": 0.5, "max_tokens": 9, "system": "Be brief.", "top_k": 4}
        run, job = collect(prompts, url, settings=wished, served_model="asked-7b-chat")
    assert job.state == "done", job.error
    assert run.finished_at is not None
    sent = url.requests[0]
    assert sent.request["messages"][0] == {"role": "system", "content": "Be brief."}
    assert {name: sent.request[name] for name in ("temperature", "max_tokens", "top_k", "model")} == {
        "temperature": 0.5,
        "max_tokens": 9,
        "top_k": 4,
        "model": "asked-7b-chat",
    }
    assert "system" not in sent.request
    response = Response.objects.select_related("collected", "prompt").get(prompt__key="p3")
    assert response.text == "Answer to Question 3?"
    assert response.sha256 == response_sha256(response.text, [])
    collected = response.collected
    assert (collected.served_model, collected.fingerprint, collected.finish_reason) == (
        SERVED,
        FINGERPRINT,
        "stop",
    )
    assert (collected.prompt_tokens, collected.completion_tokens, collected.attempts) == (7, 4, 1)
    assert collected.answered_at >= run.created_at
    assert (run.requests, run.lost, Response.objects.count()) == (12, 0, 12)
    assert run.seconds > 0
    assert not PendingRequest.objects.exists()


def test_what_was_imported_counts_as_there_and_stays_as_it_is(prompts: Dataset):
    model, place = EvaluatedModel.objects.create(name="Asked-7B"), Collection.objects.create(name="")
    first = prompts.prompts.get(key="p0")
    Response.objects.create(prompt=first, model=model, collection=place, text="mine", sha256="x")
    with local_endpoint(polite) as url:
        run, _job = collect(prompts, url)
        assert "Question 0?" not in {request.prompt for request in url.requests}
    progress = compute_progress(run)
    assert (progress.stored, progress.imported, progress.made, progress.left) == (12, 1, 11, 0)
    assert Response.objects.get(prompt=first).text == "mine"


def test_an_import_that_is_faster_wins_and_nothing_is_stored_beside_it(
    prompts: Dataset, monkeypatch: pytest.MonkeyPatch
):
    """It comes between the question and its answer."""
    slow = prompts.prompts.get(key="p5")
    stored = collection._Collector._store

    def store(self: Any, answers: Any, failures: Any) -> int:
        if any(answer.key == slow.pk for answer in answers) and not slow.responses.exists():
            run = self._run
            Response.objects.create(
                prompt=slow, model=run.model, collection=run.collection, text="imported", sha256="x"
            )
        return stored(self, answers, failures)

    monkeypatch.setattr(collection._Collector, "_store", store)
    with local_endpoint(polite) as url:
        run, job = collect(prompts, url)
    assert (job.state, job.result["answers"], job.result["already_there"]) == ("done", 11, 1)
    assert Response.objects.get(prompt=slow).text == "imported"
    assert not CollectedResponse.objects.filter(response__prompt=slow).exists()
    assert not PendingRequest.objects.exists()
    assert run.finished_at is not None


def test_the_same_again_goes_on_and_asks_only_for_what_lacks(prompts: Dataset):
    broken = {"Question 2?", "Question 7?"}

    def policy(messages: Messages, request: Any) -> Reply:
        return (400, {}, {"error": {"message": "no"}}) if messages[-1]["content"] in broken else "fine"

    with local_endpoint(policy) as url:
        run, job = collect(prompts, url)
        assert (job.state, run.finished_at, job.result["failures"]) == ("done", None, 2)
        failed = FailedRequest.objects.order_by("prompt")
        assert [(failure.prompt.text, failure.status, failure.attempts) for failure in failed] == [
            ("Question 2?", 400, 1),
            ("Question 7?", 400, 1),
        ]
        assert failed[0].error == "HTTP 400: no"
        broken.clear()
        before = len(url.requests)
        resumed, job = collect(prompts, url, concurrency=2, timeout=9)
        assert resumed.pk == run.pk
        assert sorted(request.prompt for request in url.requests[before:]) == ["Question 2?", "Question 7?"]
        assert (resumed.concurrency, resumed.timeout, resumed.requests) == (2, 9, 14)
        assert resumed.finished_at is not None
        assert not FailedRequest.objects.exists()
        Prompt.objects.create(dataset=prompts, key="new", text="Question new?")
        third, job = finished(resume_collection(run=resumed, send=False))
        assert (job.result["answers"], third.finished_at is not None) == (1, True)
    assert max(Counter(url.answered).values()) == 1


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"settings": {"temperature": 1}}, "temperature: 0.5 ≠ 1"),
        ({"settings": {}}, "temperature: 0.5 ≠ -"),
        ({"settings": {"temperature": 0.5, "seed": 3}}, "seed: - ≠ 3"),
        ({"served_model": "other"}, "model: "),
        ({"endpoint": "http://127.0.0.1:10/v1"}, "endpoint: "),
    ],
)
def test_other_settings_are_another_collection(prompts: Dataset, changes: dict[str, Any], difference: str):
    options: dict[str, Any] = {
        "model": "M",
        "dataset": prompts,
        "endpoint": CLOSED,
        "settings": {"temperature": 0.5},
        "send": False,
    }
    first = start_collection(**options)
    Job.objects.update(state="done")
    with pytest.raises(Conflict, match="another collection") as refusal:
        start_collection(**(options | changes))
    assert difference in str(refusal.value)
    assert Job.objects.count() == 1
    second = start_collection(**(options | changes | {"collection": "second"}))
    assert second.pk != first.pk
    assert second.collection.name == "second"


def test_one_job_at_a_time(prompts: Dataset):
    run = start_collection(model="M", dataset=prompts, endpoint=CLOSED, send=False)
    for attempt in (
        lambda: start_collection(model="M", dataset=prompts, endpoint=CLOSED, send=False),
        lambda: resume_collection(run=run),
    ):
        with pytest.raises(Conflict, match="being collected now"):
            attempt()


@pytest.mark.parametrize("changes", [{}, SAMPLED])
def test_the_same_goes_on_at_once_after_its_process_was_killed(prompts: Dataset, changes: dict[str, Any]):
    """There may be no worker whose sweep finds that out."""
    with local_endpoint(polite) as url:
        run, job = collect(prompts, url, **changes)
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        running = {"state": Job.State.RUNNING, "heartbeat": timezone.now(), "finished_at": None}
        Job.objects.filter(pk=job.pk).update(**running, worker=f"{socket.gethostname()}:{os.getpid()}")
        with pytest.raises(Conflict, match="being collected now"):
            resume_collection(run=run)
        Job.objects.filter(pk=job.pk).update(worker=f"{socket.gethostname()}:{gone.pid}")
        resumed = resume_collection(run=run, send=False)
    assert resumed.job_id != job.pk
    job.refresh_from_db()
    assert job.cancel_requested


BAD: list[tuple[dict[str, Any], str]] = [
    ({"endpoint": "ftp://x/v1"}, "http://"),
    ({"endpoint": "https://me:secret@x/v1"}, "no user or password"),
    ({"endpoint": "https://x/v1?key=1"}, "no \\?"),
    ({"endpoint": "https://x/\x00"}, "no address"),
    ({"model": ".."}, "cannot be a name"),
    ({"model": ""}, "1 to 200"),
    ({"collection": "\x00"}, "cannot be a name"),
    ({"served_model": "x" * 201}, "1 to 200"),
    ({"concurrency": 0}, "1 to 512"),
    ({"concurrency": 10**9}, "1 to 512"),
    ({"timeout": 0}, "Give a request up"),
    ({"timeout": float("nan")}, "Give a request up"),
    ({"settings": {"temperature": float("inf")}}, "no JSON"),
    ({"settings": {"temperature": -1}}, "temperature must be"),
    ({"settings": {"temperature": 10**400}}, "temperature must be"),
    ({"settings": {"max_tokens": 0}}, "max_tokens must be"),
    ({"settings": {"seed": 10**5000}}, "seed|no JSON"),
    ({"settings": {"stop": [""]}}, "stop must be"),
    ({"settings": {"model": "x"}}, "writes it itself"),
    ({"settings": {"stream": True}}, "writes it itself"),
    ({"settings": {"api_key": "x"}}, "environment alone"),
    ({"settings": {"x": "\x00"}}, "NUL"),
    ({"settings": {"x": "\ud800"}}, "half of a character"),
    ({"settings": {"x": {"y": float("nan")}}}, "no JSON"),
    ({"settings": {"system": "x" * 40_001}}, "system must be"),
    ({"settings": {"x": "y" * 60_000}}, "longer than"),
]


@pytest.mark.parametrize(("changes", "words"), BAD)
def test_what_cannot_be_sent_or_kept_is_refused_at_once(
    prompts: Dataset, changes: dict[str, Any], words: str
):
    options: dict[str, Any] = {"model": "M", "dataset": prompts, "endpoint": CLOSED, "send": False}
    with pytest.raises(AssayError, match=words):
        start_collection(**(options | changes))
    assert not CollectionRun.objects.exists()
    assert not Job.objects.exists()
    assert not EvaluatedModel.objects.exists()


def test_an_empty_dataset_and_an_unknown_one(db: None):
    with pytest.raises(AssayError, match="has no prompts"):
        start_collection(
            model="M",
            dataset=Dataset.objects.create(study=find_or_make_study(), name="empty"),
            endpoint=CLOSED,
        )


def test_who_judges_the_dataset_blind_collects_nothing_for_it(
    batch: Batch, lin: Person, he: Person, dataset: Dataset
):
    set_roles(person=lin, roles=["annotator", "researcher"])
    with pytest.raises(Forbidden):
        start_collection(model="M", dataset=dataset, endpoint=CLOSED, actor=lin, send=False)
    run = start_collection(model="M", dataset=dataset, endpoint=CLOSED, actor=he, send=False)
    with pytest.raises(Forbidden):
        resume_collection(run=run, actor=lin)
    event = AuditEvent.objects.get(verb="collect_responses")
    assert (event.actor, event.data["model"]) == (he, "M")


def test_the_key_goes_with_the_request_and_nowhere_else(
    prompts: Dataset, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    key = "sk-very-secret-0123456789"
    caplog.set_level("DEBUG")

    def echo(messages: Messages, _request: Any) -> Reply:
        bad = messages[-1]["content"] == "Question 1?"
        return (400, {}, {"error": {"message": f"wrong key {key}"}}) if bad else f"Your key is {key}"

    with local_endpoint(echo) as url:
        port = url.split(":")[2].removesuffix("/v1")
        monkeypatch.setenv(f"ASSAY_KEY_127_0_0_1_{port}", key)
        with pytest.raises(AssayError, match="hold the endpoint's key"):
            start_collection(model="M", dataset=prompts, endpoint=url, settings={"x": key}, send=False)
        run, _job = collect(prompts, url)
        assert {request.headers["authorization"] for request in url.requests} == {f"Bearer {key}"}
    assert FailedRequest.objects.get().error == "HTTP 400: wrong key [key]"
    assert Response.objects.first().text == "Your key is [key]"
    stored = json.dumps(
        [
            list(model.objects.values())
            for model in (CollectionRun, Job, AuditEvent, Response, FailedRequest, CollectedResponse)
        ],
        default=str,
    )
    assert key not in stored
    assert key not in caplog.text
    assert key not in repr(run.__dict__)


def test_no_character_of_an_answer_stops_the_collecting(prompts: Dataset):
    hostile = {"Question 0?": "a\x00b", "Question 1?": "half \ud83d only", "Question 2?": "x" * 1_000_000}

    def policy(messages: Messages, _request: Any) -> Reply:
        text = hostile.get(messages[-1]["content"], "fine")
        return 200, {}, json.dumps(build_answer_body(text, model="m\x00", system_fingerprint="f" * 5000))

    with local_endpoint(policy) as url:
        run, job = collect(prompts, url)
    assert (job.state, job.result["replaced"]) == ("done", 2)
    texts = {response.prompt.text: response.text for response in Response.objects.select_related("prompt")}
    assert texts["Question 0?"] == "a\ufffdb"
    assert texts["Question 1?"] == "half \ufffd only"
    assert len(texts["Question 2?"]) == 1_000_000
    assert count_texts(run).replaced == 2
    collected = CollectedResponse.objects.first()
    assert (collected.served_model, len(collected.fingerprint)) == ("m\ufffd", 200)


def test_answers_cut_off_by_the_limit_and_empty_ones_are_counted(prompts: Dataset):
    def policy(messages: Messages, _request: Any) -> Reply:
        body = (
            build_answer_body(None)
            if messages[-1]["content"] == "Question 4?"
            else build_answer_body("never ended")
        )
        body["choices"][0]["finish_reason"] = "length"
        return 200, {}, body

    with local_endpoint(policy) as url:
        run, _job = collect(prompts, url)
    progress = compute_progress(run)
    assert (progress.cut, count_texts(run).empty, progress.prompt_tokens, progress.completion_tokens) == (
        12,
        1,
        84,
        22,
    )
    assert sum(rate.answers for rate in list_rates(run)) == 12


def test_a_cancel_keeps_what_came_back_and_counts_what_did_not(
    prompts: Dataset, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(endpoint_runs, "REPORT_SECONDS", 0)

    def policy(messages: Messages, _request: Any) -> Reply:
        number = int(messages[-1]["content"].split()[1].rstrip("?"))
        return 30.0 if number >= 4 else "fine"

    with local_endpoint(policy) as url:
        run = start_collection(
            model="M", dataset=prompts, endpoint=url, concurrency=6, timeout=60, send=False
        )

        def watch(_fraction: float, _stage: str) -> None:
            if Response.objects.count() == 4 and PendingRequest.objects.count() == 6:
                jobs.cancel(job=run.job)

        job = jobs.run(run.job.pk, watcher=watch)
        run.refresh_from_db()
        assert (job.state, Response.objects.count(), run.lost) == ("cancelled", 4, 6)
        assert job.result["lost"] == 6
        assert not PendingRequest.objects.exists()
        assert len(url.requests) == 10


def test_a_worker_that_was_given_up_stores_nothing_any_more(
    prompts: Dataset, monkeypatch: pytest.MonkeyPatch
):
    """While it slept it was taken for dead; another one has claimed the job and counted what was under way."""
    stored = collection._Collector._store

    def store(self: Any, answers: Any, failures: Any) -> int:
        Job.objects.filter(pk=self._context.job.pk).update(attempt=2, worker="other:2")
        return stored(self, answers, failures)

    monkeypatch.setattr(collection._Collector, "_store", store)
    with local_endpoint(polite) as url:
        run, job = collect(prompts, url)
    assert (job.state, job.attempt, job.worker) == ("running", 2, "other:2")
    assert not Response.objects.exists()
    assert run.lost == 0  # the other one counts
    assert PendingRequest.objects.count() > 0


def test_what_a_dead_worker_left_under_way_is_counted_and_asked_for_again(prompts: Dataset):
    with local_endpoint(polite) as url:
        run = start_collection(model="M", dataset=prompts, endpoint=url, send=False)
        PendingRequest.objects.bulk_create(
            PendingRequest(run=run, prompt=prompt) for prompt in prompts.prompts.order_by("pk")[:5]
        )
        run, job = finished(run)
    assert (job.state, run.lost, job.result["lost"], Response.objects.count()) == ("done", 5, 5, 12)


def test_an_endpoint_that_is_not_there_fails_the_job_and_says_so(
    prompts: Dataset, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("benchmark.domain.llm_client.retry.FIRST_PATIENCE", 0.5)
    run, job = collect(prompts, CLOSED)
    assert job.state == "failed"
    assert "has not answered for a while (ConnectError" in job.error
    assert "go on" in job.error
    assert run.lost == 0
    assert FailedRequest.objects.count() == 12
    assert not PendingRequest.objects.exists()


def test_what_came_before_it_failed_stands_beside_the_reason(
    prompts: Dataset, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("benchmark.domain.llm_client.retry.PATIENCE", 0.5)
    questions: list[str] = []

    def policy(messages: Messages, request: Any) -> Reply:
        questions.append(messages[-1]["content"])
        return "fine" if len(questions) <= 4 else (404, {}, {"error": {"message": "gone"}})

    monkeypatch.setattr("benchmark.domain.llm_client.client.MAX_REFUSALS", 3)
    with local_endpoint(policy) as url:
        _run, job = collect(prompts, url, concurrency=1)
    assert job.state == "failed"
    assert "refuses everything" in job.error_text
    assert (job.result["answers"], job.result["failures"], job.result["requests"]) == (4, 3, 7)


@pytest.mark.django_db(transaction=True)
def test_a_connection_lost_at_the_very_commit_stops_nothing(
    prompts: Dataset, monkeypatch: pytest.MonkeyPatch
):
    """The rows are there, and whoever wrote them was told that they are not."""
    monkeypatch.setattr(endpoint_runs, "TRANSIENT_SECONDS", 0.1)
    lost: set[str] = set()

    def once(name: str) -> None:
        written = getattr(collection._Collector, name)

        def write(self: Any, *arguments: Any) -> Any:
            result = written(self, *arguments)
            if name not in lost:
                lost.add(name)
                raise OperationalError("server closed the connection unexpectedly")
            return result

        monkeypatch.setattr(collection._Collector, name, write)

    for name in ("_store_pending", "_store"):
        once(name)
    with local_endpoint(polite) as url:
        run, job = collect(prompts, url, concurrency=2)
    assert lost == {"_store_pending", "_store"}
    assert (job.state, run.finished_at is not None) == ("done", True), job.error
    assert Response.objects.count() == CollectedResponse.objects.count() == 12
    assert not PendingRequest.objects.exists()


def test_texts_are_looked_up_again_for_each_chunk(prompts: Dataset, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("benchmark.selectors.collection.CHUNK", 5)
    run = start_collection(model="M", dataset=prompts, endpoint=CLOSED, send=False)
    texts = list_texts_to_ask(run)
    first = [next(texts) for _ in range(5)]
    for prompt in prompts.prompts.order_by("pk")[5:9]:
        Response.objects.create(
            prompt=prompt, model=run.model, collection=run.collection, text="x", sha256="x"
        )
    assert [text for _pk, text in (*first, *texts)] == [f"Question {n}?" for n in (0, 1, 2, 3, 4, 9, 10, 11)]


def test_the_database_keeps_each_of_them_once(prompts: Dataset):
    with local_endpoint(polite) as url:
        run, _job = collect(prompts, url)
    prompt = prompts.prompts.all()[0]
    PendingRequest.objects.create(run=run, prompt=prompt)
    FailedRequest.objects.create(run=run, prompt=prompt, error="x", attempts=1)
    collected = CollectedResponse.objects.all()[0]
    attacks: dict[str, Callable[[], Any]] = {
        "collection_run_once": lambda: CollectionRun.objects.create(
            model=run.model, dataset=prompts, collection=run.collection, endpoint=CLOSED
        ),
        "pending_ask_once": lambda: PendingRequest.objects.create(run=run, prompt=prompt),
        "failed_ask_once": lambda: FailedRequest.objects.create(
            run=run, prompt=prompt, error="y", attempts=1
        ),
        "benchmark_collectedresponse_response_id": lambda: CollectedResponse.objects.create(
            run=run, response=collected.response, seconds=1, attempts=1, answered_at=collected.answered_at
        ),
    }
    for name, attack in attacks.items():
        with pytest.raises(IntegrityError) as refusal, transaction.atomic():
            attack()
        assert connection.vendor != "postgresql" or name in str(refusal.value)


# Several samples of each prompt.


def count_texts_by_collection() -> dict[str, int]:
    return dict(Counter(Response.objects.values_list("collection__name", flat=True)))


def echo_seed(messages: Messages, request: Any) -> Reply:
    return f"{messages[-1]['content']} {request.get('seed', 'no seed')}"


def test_samples_are_collections_with_seeds_of_their_own_filled_by_one_job(prompts: Dataset):
    with local_endpoint(echo_seed, latency=0.02) as url:
        run, job = collect(prompts, url, **SAMPLED)
    assert (job.state, job.progress, Job.objects.count()) == ("done", 1, 1)
    assert job.title == "Asked-7B: asked C-1 – C-3"
    runs = list(CollectionRun.objects.order_by("sample"))
    assert [(each.collection.name, each.sample, each.first_id) for each in runs] == [
        ("C-1", 1, None),
        ("C-2", 2, run.pk),
        ("C-3", 3, run.pk),
    ]
    assert run == runs[0]
    assert [each.settings["seed"] for each in runs] == [7, 8, 9]
    assert {each.job_id for each in runs} == {job.pk}
    assert all(each.finished_at is not None and each.seconds > 0 and each.requests == 12 for each in runs)
    assert (job.result["prompts"], job.result["answers"], job.result["requests"]) == (36, 36, 36)
    assert count_texts_by_collection() == {"C-1": 12, "C-2": 12, "C-3": 12}
    assert set(
        Response.objects.filter(prompt__key="p3").values_list("collection__name", "text", "collected__run")
    ) == {(each.collection.name, f"Question 3? {6 + each.sample}", each.pk) for each in runs}
    # No collection has the bare name.
    assert not Collection.objects.filter(name="C").exists()
    assert AuditEvent.objects.get(verb="collect_responses").data["samples"] == 3


def test_no_more_are_asked_at_once_for_several_samples(prompts: Dataset):
    with local_endpoint(echo_seed, latency=0.02) as url:
        collect(prompts, url, concurrency=2, **SAMPLED)
        at = sorted(request.at for request in url.requests)
    # Two at once, each 20 ms: 36 take 18 turns.
    assert at[-1] - at[0] >= 16 * 0.02


def test_without_a_seed_none_is_sent_and_other_names_of_it_count_up_too(prompts: Dataset):
    with local_endpoint(echo_seed) as url:
        collect(prompts, url, collection="A", samples=2)
        assert {"seed" in request.request for request in url.requests} == {False}
        before = len(url.requests)
        collect(prompts, url, collection="B", samples=2, settings={"random_seed": 1, "top_k": 5})
        settings_sent = {
            (request.request["random_seed"], request.request["top_k"]) for request in url.requests[before:]
        }
    assert settings_sent == {(1, 5), (2, 5)}


def test_samples_go_on_together_and_only_for_what_lacks(prompts: Dataset):
    broken = {("Question 2?", 7), ("Question 5?", 9)}

    def policy(messages: Messages, request: Any) -> Reply:
        is_broken = (messages[-1]["content"], request["seed"]) in broken
        return (400, {}, {"error": {"message": "no"}}) if is_broken else echo_seed(messages, request)

    with local_endpoint(policy) as url:
        run, job = collect(prompts, url, **SAMPLED)
        assert (job.result["answers"], job.result["failures"]) == (34, 2)
        assert [each.finished_at is not None for each in list_samples(run)] == [False, True, False]
        broken.clear()
        before = len(url.requests)
        last = CollectionRun.objects.get(sample=3)
        # From whichever of them.
        resumed, job = finished(resume_collection(run=last, send=False))
        assert (resumed.pk, job.result["answers"]) == (run.pk, 2)
        repeated = [(request.prompt, request.request["seed"]) for request in url.requests[before:]]
        assert repeated == [("Question 2?", 7), ("Question 5?", 9)]
        before = len(url.requests)
        _run, job = collect(prompts, url, **SAMPLED)
        assert (job.state, len(url.requests)) == ("done", before)
        _run, job = collect(prompts, url, **SAMPLED | {"samples": 5})
        assert {request.request["seed"] for request in url.requests[before:]} == {10, 11}
        assert compute_samples_progress(list_samples(run)).stored == 60
        before = len(url.requests)
        _run, job = collect(prompts, url, **SAMPLED | {"samples": 2})
        assert (job.result["prompts"], len(url.requests), CollectionRun.objects.count()) == (24, before, 5)
    assert all(each.finished_at is not None for each in list_samples(run))
    assert max(Counter((request.prompt, request.request["seed"]) for request in url.requests).values()) == 2


def test_a_collection_of_the_same_name_and_settings_becomes_a_sample_and_another_one_refuses(
    prompts: Dataset,
):
    with local_endpoint(echo_seed) as url:
        single, _job = collect(prompts, url, collection="C-2", settings={"temperature": 0.7, "seed": 8})
        before = len(url.requests)
        run, job = collect(prompts, url, **SAMPLED)
        assert job.result["answers"] == 24
        assert {request.request["seed"] for request in url.requests[before:]} == {7, 9}
        single.refresh_from_db()
        assert (single.first_id, single.sample) == (run.pk, 2)
        collect(prompts, url, collection="D-2", settings={"temperature": 1})
        with pytest.raises(Conflict, match="seed: - ≠ 8"):
            collect(prompts, url, **SAMPLED | {"collection": "D"})
    assert not Collection.objects.filter(name="D-1").exists()


def test_one_job_at_a_time_of_all_samples(prompts: Dataset):
    options: dict[str, Any] = {"model": "M", "dataset": prompts, "endpoint": CLOSED, "send": False}
    start_collection(**options, **SAMPLED)
    single = {"collection": "C-3", "settings": {"temperature": 0.7, "seed": 9}}
    for attempt in (
        lambda: start_collection(**options, **SAMPLED),
        lambda: start_collection(**options, **single),
        lambda: resume_collection(run=CollectionRun.objects.get(sample=2)),
    ):
        with pytest.raises(Conflict, match="being collected now"):
            attempt()
    Job.objects.update(state="done")
    start_collection(**options, **single)
    with pytest.raises(Conflict, match=r"M: asked C-3 is being collected now"):
        start_collection(**options, **SAMPLED)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"samples": 0}, "1 to 100 samples of each prompt, not 0"),
        ({"samples": 101}, "1 to 100"),
        ({"collection": ""}, "Name the collection: several samples are kept as NAME-1 to NAME-3"),
        ({"collection": "x" * 99}, "cannot be a name"),
        ({"settings": {"temperature": 0}}, "At temperature 0 all samples of a prompt are the same response"),
        ({"settings": {"temperature": 0.0, "seed": 1}}, "set a higher temperature, or gather one sample"),
        ({"settings": {"seed": 2**53 - 1}}, "seed must be a whole number"),
    ],
)
def test_samples_that_cannot_be_are_refused_at_once(prompts: Dataset, changes: dict[str, Any], words: str):
    options: dict[str, Any] = {"model": "M", "dataset": prompts, "endpoint": CLOSED, "send": False}
    with pytest.raises(AssayError, match=words):
        start_collection(**options | SAMPLED | changes)
    assert not CollectionRun.objects.exists()
    assert not Collection.objects.exists()
    assert not Job.objects.exists()


def test_one_sample_may_have_temperature_0(prompts: Dataset):
    with local_endpoint(polite) as url:
        run, _job = collect(prompts, url, settings={"temperature": 0})
    assert (run.sample, run.collection.name, compute_samples_progress([run])) == (
        None,
        "",
        compute_progress(run),
    )


# The command.


def test_the_command_collects_and_tells(prompts: Dataset, tmp_path: Path):
    system = tmp_path / "system.txt"
    system.write_text("Antworte knapp.\n", encoding="utf-8")
    with local_endpoint(polite) as url:
        data, code = run_endpoint_command(
            "collect_responses",
            *("--model", "Asked-7B", "--endpoint", f"{url}/", "--dataset", "asked", "--collection", "run-1"),
            *(
                "--system",
                f"@{system}",
                "--temperature",
                "0",
                "--set",
                "top_k=3",
                "--stop",
                "###",
                "--max-tokens",
                "5",
            ),
        )
        assert url.requests[0].request["stop"] == ["###"]
        assert url.requests[0].request["messages"][0]["content"] == "Antworte knapp.\n"
    assert code == 0
    assert (data["state"], data["stored"], data["left"], data["lost_in_all"]) == ("done", 12, 0, 0)
    assert CollectionRun.objects.get().settings["top_k"] == 3


def test_the_command_gathers_samples_and_counts_all_of_them(prompts: Dataset):
    def policy(messages: Messages, request: Any) -> Reply:
        is_broken = messages[-1]["content"] == "Question 1?" and request["seed"] == 2
        return (400, {}, {"error": {"message": "no"}}) if is_broken else echo_seed(messages, request)

    with local_endpoint(policy) as url:
        arguments = ("--model", "M", "--endpoint", url, "--dataset", "asked", "--collection", "C")
        options = (*arguments, "--samples", "2", "--temperature", "1", "--seed", "1")
        data, code = run_endpoint_command("collect_responses", *options)
        out, err = StringIO(), StringIO()
        with pytest.raises(SystemExit):
            call_command("collect_responses", *options[:-1], "5", stdout=out, stderr=err)
        assert "C-1 was begun otherwise (seed: 1 ≠ 5)" in err.getvalue()
        out, err = StringIO(), StringIO()
        call_command("collect_responses", *options, stdout=out, stderr=err)
    assert code == 0
    assert (data["prompts"], data["stored"], data["left"], data["failed"]) == (24, 23, 1, 1)
    assert (data["collections"], data["requests"], data["lost_in_all"]) == (["C-1", "C-2"], 24, 0)
    assert "23 of 24 responses in 2 samples are stored" in out.getvalue()
    assert "goes on with the 1 responses left" in err.getvalue()


def test_the_command_leaves_it_to_a_worker_where_told(prompts: Dataset):
    data, code = run_endpoint_command(
        "collect_responses", "--model", "M", "--endpoint", CLOSED, "--dataset", "asked", "--detach"
    )
    assert (data["state"], code) == ("queued", 0)


def test_ctrl_c_ends_the_command_cleanly_and_says_what_was_lost(prompts: Dataset):
    def policy(messages: Messages, _request: Any) -> Reply:
        if messages[-1]["content"] == "Question 3?":
            os.kill(os.getpid(), signal.SIGINT)
        return 20.0 if messages[-1]["content"] > "Question 3?" else "fine"

    out, err = StringIO(), StringIO()
    before = signal.getsignal(signal.SIGINT)
    with local_endpoint(policy) as url, pytest.raises(SystemExit) as exit_:
        call_command(
            *(
                "collect_responses",
                "--model",
                "M",
                "--endpoint",
                url,
                "--dataset",
                "asked",
                "--concurrency",
                "3",
            ),
            stdout=out,
            stderr=err,
        )
    assert exit_.value.code == 1
    run = CollectionRun.objects.get()
    assert run.job.state == "cancelled"
    assert 1 <= run.lost <= 3
    assert f"{run.lost} answer" in err.getvalue()
    assert "The same command goes on" in err.getvalue()
    assert signal.getsignal(signal.SIGINT) is before


# A real worker, killed and cancelled; an endpoint that fails, stalls, limits, and goes away.


@pytest.fixture
def workers() -> Iterator[Workers]:
    """With the data folder of this process, so that its messages meet their broker."""
    at_work = Workers("filesystem://", settings.ASSAY_DATA_DIR / "workers.log")
    yield at_work
    at_work.stop()


@pytest.mark.django_db(transaction=True)
def test_killed_cancelled_and_cut_off_it_ends_with_exactly_one_response_each(workers: Workers):
    number, at_once = 400, 24
    dataset = ask_dataset(number)
    stalled: set[str] = set()

    def policy(messages: Messages, request: Any) -> Reply:
        """Besides what luck stalls, each hundredth does, once."""
        text = messages[-1]["content"]
        if text not in {"Question 60?", "Question 160?"} or text in stalled:
            return polite(messages, request)
        stalled.add(text)
        return 20.0

    bucket = Bucket(rate=60, burst=15)  # less than are asked at once
    with local_endpoint(troubled(policy, bucket=bucket, stall=20), latency=0.1) as url:
        first = workers.start()
        start_collection(model="M", dataset=dataset, timeout=5, endpoint=url, concurrency=at_once)
        wait_for(lambda: Response.objects.count() > 30, first, seconds=180, log=workers.log)
        workers.kill(first)
        served_at_kill, stored_at_kill = len(set(url.answered)), Response.objects.count()
        under_way = PendingRequest.objects.count()
        assert served_at_kill - stored_at_kill <= under_way <= at_once
        second = workers.start()
        wait_for(
            lambda: (
                CollectionRun.objects.get().lost == under_way
                and Response.objects.count() > stored_at_kill + 20
            ),
            second,
            seconds=180,
            log=workers.log,
        )
        url.down()
        time.sleep(1)
        frozen = Response.objects.count()
        url.up()
        wait_for(lambda: Response.objects.count() > frozen + 10, second, seconds=180, log=workers.log)
        job = CollectionRun.objects.get().job
        assert job is not None
        jobs.cancel(job=job)
        wait_for(
            lambda: Job.objects.get(pk=job.pk).state == "cancelled", second, seconds=180, log=workers.log
        )
        run = CollectionRun.objects.get()
        assert under_way <= run.lost <= under_way + at_once
        assert not PendingRequest.objects.exists()
        assert Response.objects.count() < number
        stored = set(Response.objects.values_list("prompt__text", flat=True))
        asked_before = len(url.requests)
        resume_collection(run=CollectionRun.objects.get())
        wait_for(
            lambda: CollectionRun.objects.get().finished_at is not None, second, seconds=180, log=workers.log
        )
        assert stored.isdisjoint(request.prompt for request in url.requests[asked_before:])
    run = CollectionRun.objects.get()
    assert Response.objects.count() == CollectedResponse.objects.count() == number
    assert not FailedRequest.objects.exists()
    assert not PendingRequest.objects.exists()
    # A prompt is answered again only where its answer was lost.
    repeats = sum(times - 1 for times in Counter(url.delivered).values())
    assert repeats <= run.lost <= 2 * at_once
    assert {request.status for request in url.requests} >= {0, 200, 429}


@pytest.mark.django_db(transaction=True)
def test_samples_of_a_killed_worker_are_gathered_to_the_end_and_nothing_stored_is_asked_again(
    workers: Workers,
):
    number, at_once = 60, 4
    dataset = ask_dataset(number)

    def count(sample: int) -> int:
        return Response.objects.filter(collected__run__sample=sample).count()

    with local_endpoint(echo_seed, latency=0.1) as url:
        first = workers.start()
        start_collection(model="M", dataset=dataset, timeout=5, endpoint=url, concurrency=at_once, **SAMPLED)
        wait_for(lambda: count(2) > 20, first, seconds=180, log=workers.log)
        workers.kill(first)
        stored = set(Response.objects.values_list("prompt__text", "collected__run__settings__seed"))
        under_way = set(PendingRequest.objects.values_list("prompt__text", "run__settings__seed"))
        assert count(1) == number
        assert len(under_way) <= at_once
        asked_before = len(url.requests)
        second = workers.start()
        wait_for(
            lambda: Job.objects.get().state == "done" and count(3) == number,
            second,
            seconds=180,
            log=workers.log,
        )
        repeated = [(request.prompt, request.request["seed"]) for request in url.requests[asked_before:]]
    assert stored.isdisjoint(repeated)
    assert count_texts_by_collection() == {"C-1": number, "C-2": number, "C-3": number}
    runs = CollectionRun.objects.order_by("sample")
    assert [run.lost for run in runs] == [0, len(under_way), 0]
    assert all(run.finished_at is not None for run in runs)
    assert not PendingRequest.objects.exists()
    repeats = Counter((request.prompt, request.request["seed"]) for request in url.requests)
    assert {key for key, times in repeats.items() if times > 1} <= under_way
    assert CollectedResponse.objects.count() == Response.objects.count() == 3 * number
