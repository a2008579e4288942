"""Making dialogues: no stored turn is asked for again, none is lost, and neither side reads what is not its own."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import IntegrityError, OperationalError, connection, transaction

from annotation.core.errors import AssayError, Conflict, Forbidden
from annotation.domain.datasets import response_sha256
from annotation.models import (
    AuditEvent,
    Batch,
    Collection,
    Dataset,
    DialogueFault,
    EvaluatedModel,
    Job,
    Person,
    Prompt,
    Response,
)
from annotation.services import jobs
from annotation.services.people.people import set_roles
from annotation.services.studies import find_or_make_study
from benchmark.domain.dialogues import TEMPLATES
from benchmark.models import DialogueRun, DialogueTurn, FailedTurn, PendingTurn
from benchmark.selectors.dialogues import (
    compute_dialogue_progress,
    count_faults,
    get_dialogue,
    list_dialogue_prompts,
)
from benchmark.services import dialogues, endpoint_runs
from benchmark.services.collection import start_collection
from benchmark.services.dialogues import DialogueSide, resume_dialogues, start_dialogues
from tests.annotation.views.test_jobs import Workers, wait_for
from tests.benchmark.endpoint import (
    Bucket,
    Messages,
    Reply,
    build_answer_body,
    local_endpoint,
    run_endpoint_command,
    troubled,
)

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
AGENT, MODEL = "agent-model", "model-under-test"


def make_cards(number: int) -> Dataset:
    dataset = Dataset.objects.create(study=find_or_make_study(), name="cards")
    Prompt.objects.bulk_create(
        Prompt(
            dataset=dataset,
            key=f"c{n}",
            text=f"Secret-{n} of the card, and what else there is to know of the person",
            language=("en", "zh")[n % 2],
        )
        for n in range(number)
    )
    return dataset


def converse(messages: Messages, request: Any) -> Reply:
    """What each side says depends on the whole of what it was sent."""
    if request["model"] == AGENT:
        number = messages[0]["content"].split("Secret-")[1].split()[0]
        return f"Agent {number}, turn {len(messages) // 2}"
    return f"Model on [{messages[-1]['content']}]"


def begin(dataset: Dataset, url: str, **changes: Any) -> DialogueRun:
    options: dict[str, Any] = {
        "name": "run",
        "model": DialogueSide("Tested-7B", url, MODEL),
        "agent": DialogueSide("ESC-Role", url, AGENT),
        "rounds": 2,
        "timeout": 5,
        "send": False,
    }
    return start_dialogues(dataset=dataset, **(options | changes))


def make(dataset: Dataset, url: str, **changes: Any) -> tuple[DialogueRun, Job]:
    return finished(begin(dataset, url, **changes))


def finished(run: DialogueRun) -> tuple[DialogueRun, Job]:
    assert run.job is not None
    job = jobs.run(run.job.pk)
    run.refresh_from_db()
    return run, job


@pytest.fixture
def cards(db: None) -> Dataset:
    return make_cards(6)


def test_each_card_becomes_a_dialogue_of_the_greeting_and_both_sides_in_turn(cards: Dataset):
    with local_endpoint(converse) as url:
        sides = {
            "model": DialogueSide("Tested-7B", url, MODEL, {"temperature": 0, "system": "Be kind."}),
            "agent": DialogueSide("ESC-Role", url, AGENT, {"max_tokens": 99}),
        }
        run, job = make(cards, url, openings={"zh": "您好", "": "Hello"}, templates={"": "Play: "}, **sides)
        requests = [request.request for request in url.requests]
    assert (job.state, run.finished_at is not None, run.requests) == ("done", True, 24), job.error
    response = Response.objects.select_related("prompt").get(prompt__key="c3")
    assert response.turns == [
        {"role": "opening", "text": "您好"},
        {"role": "user", "text": "Agent 3, turn 1"},
        {"role": "assistant", "text": "Model on [Agent 3, turn 1]"},
        {"role": "user", "text": "Agent 3, turn 2"},
        {"role": "assistant", "text": "Model on [Agent 3, turn 2]"},
    ]
    assert (response.text, response.sha256) == ("", response_sha256("", response.turns))
    agent, model = ([each for each in requests if each["model"] == name] for name in (AGENT, MODEL))
    assert {each["max_tokens"] for each in agent} == {99}
    assert {each["temperature"] for each in model} == {0}
    own = [each["messages"] for each in agent if "Secret-3" in each["messages"][0]["content"]]
    assert [(message["role"], message["content"]) for message in own[1]] == [
        ("system", f"Play: {response.prompt.text}"),
        ("user", "您好"),
        ("assistant", "Agent 3, turn 1"),
        ("user", "Model on [Agent 3, turn 1]"),
    ]
    for each in model:
        assert each["messages"][0] == {"role": "system", "content": "Be kind."}
        assert [message["role"] for message in each["messages"][1:3]] in (["user"], ["user", "assistant"])
        words = str(each["messages"])
        assert "Secret" not in words
        assert "Hello" not in words
        assert "您好" not in words
    turn = DialogueTurn.objects.get(prompt__key="c3", place=3)
    assert (turn.role, turn.finish_reason, turn.prompt_tokens, turn.attempts) == ("assistant", "stop", 7, 1)
    assert not PendingTurn.objects.exists()


def test_a_dialogue_that_stopped_goes_on_where_it_was(cards: Dataset):
    broken = True

    def policy(messages: Messages, request: Any) -> Reply:
        is_third = request["model"] == AGENT and "Agent 2, turn 1" in str(messages)
        return (400, {}, {"error": {"message": "no"}}) if broken and is_third else converse(messages, request)

    with local_endpoint(policy) as url:
        run, job = make(cards, url)
        assert (job.state, run.finished_at, job.result["failures"]) == ("done", None, 1)
        failure = FailedTurn.objects.get()
        assert (failure.prompt.key, failure.place, failure.status, failure.error) == (
            "c2",
            2,
            400,
            "HTTP 400: no",
        )
        progress = compute_dialogue_progress(run)
        assert (progress.stored, progress.open, progress.failed, progress.answers) == (5, 1, 1, 22)
        dialogue = get_dialogue(run, failure.prompt_id)
        assert [turn.text for turn in dialogue.turns] == ["Agent 2, turn 1", "Model on [Agent 2, turn 1]"]
        assert [prompt.key for prompt in list_dialogue_prompts(run, "failed")] == ["c2"]
        broken, before = False, len(url.requests)
        run, job = finished(resume_dialogues(run=run, send=False))
        assert len(url.requests) == before + 2
    assert (job.state, run.finished_at is not None, Response.objects.count()) == ("done", True, 6)
    assert not FailedTurn.objects.exists()


def test_what_was_imported_is_left_alone(cards: Dataset):
    model, place = EvaluatedModel.objects.create(name="Tested-7B"), Collection.objects.create(name="")
    Response.objects.create(
        prompt=cards.prompts.get(key="c0"), model=model, collection=place, text="mine", sha256="x"
    )
    with local_endpoint(converse) as url:
        run, _job = make(cards, url)
        assert not any("Secret-0" in str(request.request) for request in url.requests)
    progress = compute_dialogue_progress(run)
    assert (progress.stored, progress.made, progress.imported, progress.left) == (6, 5, 1, 0)


def test_faults_are_counted_and_lead_to_their_dialogues(cards: Dataset):
    def policy(messages: Messages, request: Any) -> Reply:
        text = str(converse(messages, request))
        if request["model"] == AGENT and "Agent 1, turn 2" in text:
            text = "As an AI, I cannot say. " + messages[0]["content"][-70:]
        body = build_answer_body("" if "Model on [Agent 4, turn 1]" in text else text)
        if "Model on [Agent 5, turn 1]" in text:
            body["choices"][0]["finish_reason"] = "length"
        return 200, {}, body

    with local_endpoint(policy) as url:
        run, _job = make(cards, url)
    assert count_faults(run) == {"empty": 1, "cut": 1, "unmasked": 1, "card_copied": 1, "repeated": 0}
    for fault, key in (("empty", "c4"), ("cut", "c5"), ("unmasked", "c1"), ("card_copied", "c1")):
        assert [prompt.key for prompt in list_dialogue_prompts(run, fault=fault)] == [key]
    assert list_dialogue_prompts(run, "faulty").count() == 3


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"rounds": 3}, "rounds: 2 ≠ 3"),
        ({"templates": {"": "Else: "}}, "templates: "),
        ({"collection": "other"}, "collection: "),
        ({"agent": DialogueSide("ESC-Role", "http://127.0.0.1:9/v1", "else")}, "agent_model: "),
        ({"model": DialogueSide("Else", "http://127.0.0.1:9/v1", MODEL)}, "model: "),
    ],
)
def test_the_same_name_goes_on_with_the_same_settings_alone(
    cards: Dataset, changes: dict[str, Any], difference: str
):
    closed = "http://127.0.0.1:9/v1"
    begin(cards, closed)
    Job.objects.update(state="done")
    with pytest.raises(Conflict, match="otherwise") as refusal:
        begin(cards, closed, **changes)
    assert difference in str(refusal.value)
    assert begin(cards, closed, concurrency=3, timeout=9).pk == DialogueRun.objects.get().pk


def test_one_collection_is_filled_by_one_run(cards: Dataset):
    closed = "http://127.0.0.1:9/v1"
    begin(cards, closed)
    with pytest.raises(Conflict, match="another collection"):
        begin(cards, closed, name="second")
    with pytest.raises(Conflict, match="another collection"):
        start_collection(model="Tested-7B", dataset=cards, endpoint=closed, send=False)
    start_collection(model="Tested-7B", dataset=cards, endpoint=closed, collection="b", send=False)
    with pytest.raises(Conflict, match="another collection"):
        begin(cards, closed, name="third", collection="b")
    begin(cards, closed, name="fourth", collection="c")


def test_two_who_begin_at_once_are_no_server_error(cards: Dataset, monkeypatch: pytest.MonkeyPatch):
    """The second looks before the first has stored its run, and stores after it."""
    begin(cards, "http://127.0.0.1:9/v1")
    monkeypatch.setattr(dialogues, "_refuse_taken_place", lambda *_arguments: None)
    with pytest.raises(Conflict, match="in this moment"):
        begin(cards, "http://127.0.0.1:9/v1", name="second")
    assert DialogueRun.objects.count() == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rounds": 0}, "1 to 50 rounds"),
        ({"name": ""}, "cannot be a name"),
        ({"name": ".."}, "cannot be a name"),
        ({"agent": DialogueSide("", "http://127.0.0.1:9/v1", "x")}, "cannot be a name"),
        ({"agent": DialogueSide("A", "ftp://x/v1")}, "http://"),
        (
            {"agent": DialogueSide("A", "http://127.0.0.1:9/v1", "", {"temperature": -1})},
            "temperature must be",
        ),
        ({"model": DialogueSide("M", "http://127.0.0.1:9/v1", "x" * 201)}, "1 to 200"),
        ({"concurrency": 0}, "1 to 512"),
        ({"timeout": 0}, "Give a request up"),
        ({"openings": {"": " "}}, "greeting must have"),
        ({"templates": {"": "\x00"}}, "text before the card must have"),
    ],
)
def test_what_cannot_be_sent_or_kept_is_refused_at_once(cards: Dataset, changes: dict[str, Any], words: str):
    with pytest.raises(AssayError, match=words):
        begin(cards, "http://127.0.0.1:9/v1", **changes)
    assert not DialogueRun.objects.exists()
    assert not Job.objects.exists()


def test_who_judges_the_dataset_blind_makes_no_dialogues_for_it(
    batch: Batch, lin: Person, he: Person, dataset: Dataset
):
    set_roles(person=lin, roles=["annotator", "researcher"])
    with pytest.raises(Forbidden):
        begin(dataset, "http://127.0.0.1:9/v1", actor=lin)
    run = begin(dataset, "http://127.0.0.1:9/v1", actor=he)
    with pytest.raises(Forbidden):
        resume_dialogues(run=run, actor=lin)
    event = AuditEvent.objects.get(verb="make_dialogues")
    assert (event.actor, event.data["agent"], event.data["model"]) == (he, "ESC-Role", "Tested-7B")


def test_an_agent_that_is_away_stops_the_job_and_says_so(cards: Dataset, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("benchmark.domain.llm_client.retry.FIRST_PATIENCE", 0.5)
    with local_endpoint(converse) as url:
        run, job = make(cards, url, agent=DialogueSide("ESC-Role", "http://127.0.0.1:9/v1", AGENT))
    assert job.state == "failed"
    assert "has not answered for a while" in job.error
    assert not PendingTurn.objects.exists()
    assert run.finished_at is None


@pytest.mark.django_db(transaction=True)
def test_a_connection_lost_at_the_very_commit_stops_nothing(cards: Dataset, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(endpoint_runs, "TRANSIENT_SECONDS", 0.1)
    calls: Counter[str] = Counter()

    def lose(name: str) -> None:
        write = getattr(dialogues._DialogueMaker, name)

        def lossy(self: Any, *arguments: Any) -> Any:
            result = write(self, *arguments)
            calls[name] += 1
            if calls[name] % 5 == 0:
                raise OperationalError("server closed the connection unexpectedly")
            return result

        monkeypatch.setattr(dialogues._DialogueMaker, name, lossy)

    for name in ("_store_pending", "_store"):
        lose(name)
    with local_endpoint(converse) as url:
        run, job = make(cards, url, concurrency=1)
        assert max(Counter(str(request.request) for request in url.requests).values()) == 1
    assert (job.state, run.finished_at is not None) == ("done", True), job.error
    assert (Response.objects.count(), DialogueTurn.objects.count()) == (6, 24)
    assert not PendingTurn.objects.exists()


def test_the_database_keeps_each_of_them_once(cards: Dataset):
    with local_endpoint(converse) as url:
        run, _job = make(cards, url)
    turn = DialogueTurn.objects.filter(place=0)[0]
    prompt, response = turn.prompt, Response.objects.all()[0]
    PendingTurn.objects.create(run=run, prompt=prompt)
    FailedTurn.objects.create(run=run, prompt=prompt, place=0, error="x", attempts=1)
    DialogueFault.objects.create(response=response, kind="cut")
    same_place = {"model": run.model, "dataset": cards, "collection": run.collection, "rounds": 1}
    texts = {"templates": {}, "openings": {}}
    other = Collection.objects.create(name="other")
    attacks = {
        "dialogue_turn_once": lambda: DialogueTurn.objects.create(
            run=run, prompt=prompt, place=0, role="user", seconds=1, attempts=1, answered_at=turn.answered_at
        ),
        "pending_turn_once": lambda: PendingTurn.objects.create(run=run, prompt=prompt),
        "failed_turn_once": lambda: FailedTurn.objects.create(
            run=run, prompt=prompt, place=1, error="y", attempts=1
        ),
        "dialogue_fault_once": lambda: DialogueFault.objects.create(response=response, kind="cut"),
        "dialogue_run_once": lambda: DialogueRun.objects.create(name="b", **same_place, **texts),
        "dialogue_run_name_once_per_dataset": lambda: DialogueRun.objects.create(
            name="run", **(same_place | {"collection": other}), **texts
        ),
        "dialogue_run_has_rounds": lambda: DialogueRun.objects.create(
            name="b", **(same_place | {"collection": other, "rounds": 0}), **texts
        ),
    }
    for name, attack in attacks.items():
        with pytest.raises(IntegrityError) as refusal, transaction.atomic():
            attack()
        assert connection.vendor != "postgresql" or name in str(refusal.value)


@pytest.fixture
def workers() -> Iterator[Workers]:
    """With the data folder of this process, so that its messages meet their broker."""
    at_work = Workers("filesystem://", settings.ASSAY_DATA_DIR / "workers.log")
    yield at_work
    at_work.stop()


@pytest.mark.django_db(transaction=True)
def test_killed_again_and_again_no_stored_turn_is_asked_for_again_and_none_is_lost(workers: Workers):
    """``tests/performance/making_dialogues.py`` is the same with 655 cards, five rounds and twenty kills."""
    number, rounds, at_once, kills = 40, 3, 8, 3
    dataset, luck = make_cards(number), random.Random(7)
    policy = troubled(converse, fails=0.03, stalls=0.01, stall=3, bucket=Bucket(rate=80, burst=10))
    with local_endpoint(policy, latency=0.02) as url:
        begin(
            dataset,
            url,
            model=DialogueSide("Tested-7B", url, MODEL),
            agent=DialogueSide("ESC-Role", url, AGENT),
            rounds=rounds,
            concurrency=at_once,
            timeout=2,
            send=True,
        )
        for _ in range(kills):
            worker, goal = workers.start(), DialogueTurn.objects.count() + luck.randrange(15, 50)
            wait_for(lambda: DialogueTurn.objects.count() >= goal, worker, seconds=120, log=workers.log)  # noqa: B023
            workers.kill(worker)
        stored, before = _list_requests_of_stored_turns(), len(url.requests)
        last = workers.start()
        wait_for(
            lambda: DialogueRun.objects.get().finished_at is not None, last, seconds=180, log=workers.log
        )
        time.sleep(0.2)
        run = DialogueRun.objects.get()
        later_requests = {_identify(request.request) for request in url.requests[before:]}
        delivered = Counter(_identify(each.request) for each in url.requests if each.status == 200)
        words = [str(each.request["messages"]) for each in url.requests if each.request["model"] == MODEL]
    assert stored <= set(delivered)
    assert stored.isdisjoint(later_requests)
    assert DialogueTurn.objects.count() == number * 2 * rounds
    assert Response.objects.count() == number
    assert not FailedTurn.objects.exists()
    assert not PendingTurn.objects.exists()
    # A turn is answered again only where a kill lost its answer, or a time-out did.
    assert sum(times - 1 for times in delivered.values()) <= run.lost <= kills * at_once
    assert not any("Secret" in text for text in words)


def _identify(request: Any) -> str:
    """Which turn a request asks for: what ``converse`` says rests on the card and the turns so far."""
    return f"{request['model']}: {request['messages']}"


def _list_requests_of_stored_turns() -> set[str]:
    """Of each turn that is stored, the request that led to it."""
    run = DialogueRun.objects.get()
    script = dialogues.build_script(run)
    requests = set()
    for prompt in Prompt.objects.all():
        turns = list(
            DialogueTurn.objects.filter(prompt=prompt).order_by("place").values_list("text", flat=True)
        )
        for place in range(len(turns)):
            messages = (
                dialogues.build_model_messages({}, turns[:place])
                if place % 2
                else script.build_agent_messages(prompt.text, prompt.language, turns[:place])
            )
            requests.add(_identify({"model": (AGENT, MODEL)[place % 2], "messages": list(messages)}))
    return requests


# The command.


def test_the_command_makes_dialogues_and_goes_on(cards: Dataset, tmp_path: Path):
    greeting = tmp_path / "greeting.txt"
    greeting.write_text("Guten Tag", encoding="utf-8")
    with local_endpoint(converse) as url:
        options = ["first", "--dataset", "cards", "--model", "Tested-7B", "--endpoint", url]
        options += ["--served-model", MODEL, "--agent", "ESC-Role", "--agent-model", AGENT, "--rounds", "1"]
        options += [
            "--template",
            "zh",
            "--opening",
            f"@{greeting}",
            "--agent-temperature",
            "1",
            "--seed",
            "3",
        ]
        data, code = run_endpoint_command("make_dialogues", *options)
        agent = next(each.request for each in url.requests if each.request["model"] == AGENT)
        assert (agent["temperature"], agent["messages"][1]["content"]) == (1, "Guten Tag")
        assert agent["messages"][0]["content"].startswith(TEMPLATES["zh"])
        assert "seed" not in agent
        before = len(url.requests)
        second, second_code = run_endpoint_command("make_dialogues", *options)
        assert len(url.requests) == before
    assert (code, data["state"], data["stored"], data["turns"], data["left"]) == (0, "done", 6, 12, 0)
    assert (second_code, second["stored"], second["answers"]) == (0, 6, 0)
    assert data["faults"]["repeated"] == 0
