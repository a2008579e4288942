"""Dialogues at endpoints that limit, fail, hang, cut and drop, through a worker that is killed with -9 at random.

    .venv/bin/python -m tests.performance.making_dialogues [--cards 655] [--kills 20] [--at-once 32] [--rate 60]

A real worker on a database of its own (SQLite, or what DATABASE_URL names, which must be empty), and a real HTTP
endpoint for both sides with a token bucket of so many requests a second. Prints what came of it, and fails where a turn
is missing, was asked for again after it was stored, or where the model under test was sent a word of a card.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.performance.collecting_speed import prepare_site, start_worker, wait_until

AGENT, MODEL = "agent-model", "model-under-test"
ROUNDS, TIMEOUT, SECONDS = 5, 3, 900
CUT_BODY = b'{"choices": [{"message": {"content": "cut'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cards", type=int, default=655)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--rate", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with prepare_site() as folder:
        measure(folder, **vars(options))


def measure(folder: Path, *, cards: int, kills: int, at_once: int, rate: float, seed: int) -> None:
    from annotation.models import Dataset, Prompt, Response
    from annotation.services.studies import find_or_make_study
    from benchmark.models import DialogueRun, DialogueTurn, FailedTurn, PendingTurn
    from benchmark.services.dialogues import DialogueSide, start_dialogues
    from tests.benchmark.endpoint import Bucket, local_endpoint, troubled

    luck = random.Random(seed)
    dataset = Dataset.objects.create(study=find_or_make_study(), name="cards")
    Prompt.objects.bulk_create(
        Prompt(
            dataset=dataset,
            key=f"card-{number}",
            text=f"Secret-{number} name: Nobody-{number}\nage: {20 + number % 60}\nproblem: lost-{number}",
            language=("en", "zh")[number % 2],
            dimension=f"theme {number % 7}",
        )
        for number in range(cards)
    )
    bucket = Bucket(rate, rate)
    policy = troubled(
        build_breaking(luck), fails=0.02, stalls=0.005, stall=TIMEOUT + 5, bucket=bucket, seed=seed
    )
    turns = cards * 2 * ROUNDS
    goals = sorted(luck.sample(range(1, turns), kills))
    stored_at_kills: list[tuple[set[str], int]] = []
    under_way = []
    began = time.monotonic()
    with local_endpoint(policy, latency=0.05) as url:
        worker: subprocess.Popen[Any] = start_worker(folder)
        start_dialogues(
            name="run",
            dataset=dataset,
            model=DialogueSide("Tested-7B", url, MODEL),
            agent=DialogueSide("ESC-Role", url, AGENT),
            rounds=ROUNDS,
            concurrency=at_once,
            timeout=TIMEOUT,
        )
        for goal in goals:
            wait_until(lambda goal=goal: DialogueTurn.objects.count() >= goal, SECONDS)  # type: ignore[misc]
            time.sleep(luck.random() / 2)
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
            under_way.append(PendingTurn.objects.count())
            stored_at_kills.append((list_requests_of_stored_turns(), len(url.requests)))
            worker = start_worker(folder)
        wait_until(lambda: DialogueRun.objects.get().finished_at is not None, SECONDS)
        seconds = time.monotonic() - began
    os.killpg(worker.pid, signal.SIGTERM)
    worker.wait()
    run = DialogueRun.objects.get()
    requests = [identify(each.request["model"], each.request["messages"]) for each in url.requests]
    kills_with_repeats = sum(not stored.isdisjoint(requests[count:]) for stored, count in stored_at_kills)
    delivered = Counter(key for key, each in zip(requests, url.requests, strict=True) if each.status == 200)
    leaked = sum(
        word in str(each.request["messages"])
        for each in url.requests
        if each.request["model"] == MODEL
        for word in ("Secret", "Nobody", "problem", "lost-", "age:")
    )
    n_turns, responses = DialogueTurn.objects.count(), Response.objects.filter(model=run.model).count()
    statuses = dict(sorted(Counter(each.status for each in url.requests).items()))
    repeats = sum(times > 1 for times in delivered.values())
    print(f"{cards} cards, {ROUNDS} rounds, {at_once} dialogues at once: {n_turns} turns of {turns}")
    print(f"{responses} dialogues became responses, in {seconds:.0f} s")
    print(f"requests by status (0: hung or dropped): {statuses}")
    print(f"{kills} kills with -9; turns under way at each: {under_way}; {run.lost} counted as lost")
    print(f"kills after which a stored turn was asked for again: {kills_with_repeats}")
    print(f"turns that the endpoint answered more than once: {repeats}")
    print(f"requests to the model under test with a word of a card: {leaked}")
    assert n_turns == turns
    assert responses == cards
    assert not PendingTurn.objects.exists()
    assert not FailedTurn.objects.exists()
    assert (kills_with_repeats, leaked) == (0, 0)
    assert max(under_way) <= at_once
    # Fewer where a worker was killed before it had counted what the one before it left.
    assert repeats <= run.lost <= sum(under_way)


def build_breaking(luck: random.Random) -> Any:
    """A side that now and then cuts its body short, drops the line, or ends by the limit of tokens."""
    from tests.benchmark.endpoint import build_answer_body

    def answer(messages: Sequence[Mapping[str, str]], request: Mapping[str, Any]) -> Any:
        drawn = luck.random()
        if drawn < 0.005:
            return 200, {"Content-Length": "5000"}, CUT_BODY
        if drawn < 0.015:
            return 0.0
        body = build_answer_body(say(messages, str(request["model"])))
        if drawn < 0.03:
            body["choices"][0]["finish_reason"] = "length"
        return 200, {}, body

    return answer


def say(messages: Sequence[Mapping[str, str]], model: str) -> str:
    """What each side says rests on the whole of what it was sent, so that no turn can take another's place."""
    if model == AGENT:
        number = messages[0]["content"].split("Secret-")[1].split()[0]
        return f"Person {number} says {len(messages) // 2}"
    return f"Reply to [{messages[-1]['content']}]"


def identify(model: str, messages: Sequence[Mapping[str, str]]) -> str:
    return f"{model}: {[message['content'] for message in messages]}"


def list_requests_of_stored_turns() -> set[str]:
    """Of each turn that is stored, the request that led to it."""
    from benchmark.domain.dialogues import build_model_messages
    from benchmark.models import DialogueRun, DialogueTurn
    from benchmark.selectors.dialogues import build_script

    script = build_script(DialogueRun.objects.get())
    texts: dict[int, list[str]] = {}
    requests = set()
    for turn in DialogueTurn.objects.select_related("prompt").order_by("prompt", "place"):
        before = texts.setdefault(turn.prompt_id, [])
        messages = (
            build_model_messages({}, before)
            if turn.place % 2
            else script.build_agent_messages(turn.prompt.text, turn.prompt.language, before)
        )
        requests.add(identify((AGENT, MODEL)[turn.place % 2], messages))
        before.append(turn.text)
    return requests


if __name__ == "__main__":
    main()
