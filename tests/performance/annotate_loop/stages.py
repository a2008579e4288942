"""The stages: work without end for a while, and work until nothing is left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from tqdm import tqdm

from tests.performance.annotate_loop import processor, world
from tests.performance.annotate_loop.checks import Batches, Check, check_batches
from tests.performance.annotate_loop.hostile import Mischief
from tests.performance.annotate_loop.ledger import Ledger, Timing, answered, spread
from tests.performance.annotate_loop.people import WORKERS, Adjudicator, Browser, Worker
from tests.performance.annotate_loop.server import Killer, Server
from tests.performance.annotate_loop.world import Account

LOOK_AGAIN = 0.2


@dataclass(frozen=True)
class Plan:
    """What all stages share."""

    port: int
    guideline: str
    annotators: Sequence[Account]
    adjudicators: Sequence[Account]
    tasks: int
    overlap: int
    pairing: str
    via: Sequence[str]  # each round takes the next
    hostile: bool
    seed: int


@dataclass
class Outcome:
    """What a stage found. ``figures`` is what ``--json`` prints."""

    figures: dict[str, Any]
    checks: list[Check] = field(default_factory=list)


class Stage:
    """Threads, one to a person, over one batch at a time."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.mischief = Mischief(plan.seed) if plan.hostile else None
        self.ledgers: list[Ledger] = []
        self.failures: list[BaseException] = []

    def workers(self, batch: str, *, round_number: int = 0) -> list[Worker]:
        kind = WORKERS[self.plan.via[round_number % len(self.plan.via)]]
        made = [kind(annotator, batch, self.plan.port) for annotator in self.plan.annotators]
        self.ledgers += [worker.ledger for worker in made]
        return made

    def deciders(self, batch: str) -> list[Adjudicator]:
        made = [Adjudicator(adjudicator, batch, self.plan.port) for adjudicator in self.plan.adjudicators]
        self.ledgers += [worker.ledger for worker in made]
        return made

    def submit(self, worker: Worker, item: Any) -> None:
        if self.mischief:
            self.mischief.submit(worker, item)
        else:
            worker.submit(item)

    def batch(self, name: str) -> None:
        plan = self.plan
        world.make_batch(
            name, dataset="corpus", guideline=plan.guideline, annotators=list(plan.annotators),
            adjudicators=list(plan.adjudicators), overlap=plan.overlap, pairing=plan.pairing,
        )  # fmt: skip

    def start(self, run: Callable[[Any], None], workers: Iterable[Worker]) -> list[threading.Thread]:
        def guarded(worker: Worker) -> None:
            try:
                run(worker)
            except BaseException as error:  # a thread's end must end the stage
                self.failures.append(error)
                raise

        threads = [threading.Thread(target=guarded, args=(worker,), daemon=True) for worker in workers]
        for thread in threads:
            thread.start()
        return threads

    def finish(self, threads: Iterable[threading.Thread], workers: Iterable[Worker]) -> None:
        for thread in threads:
            while thread.is_alive():  # a wait without a limit would not hear Ctrl-C
                thread.join(0.5)
        for worker in workers:
            worker.client.close()
            worker.ledger.reopened += worker.client.reopened
        if self.failures:
            raise SystemExit(f"The generator itself failed: {self.failures[0]!r}")

    def figures(self, timings: Iterable[Timing]) -> dict[str, Any]:
        mischief: dict[str, int] = {}
        for ledger in self.ledgers:
            for kind, count in ledger.mischief.items():
                mischief[kind] = mischief.get(kind, 0) + count
        return {
            "milliseconds": spread(timings),
            "answers": answered(self.ledgers),
            "reopened": sum(ledger.reopened for ledger in self.ledgers),
            "lost": sum(ledger.lost for ledger in self.ledgers),
            "mischief": mischief,
        }

    def checks(self, batches: Batches, *, may_lose: bool) -> list[Check]:
        surprises = [surprise for ledger in self.ledgers for surprise in ledger.surprises]
        errors = [
            f"{kind} {status}" for ledger in self.ledgers for kind, status in ledger.answers if status >= 500
        ]
        checks = [
            Check.of("no answer of the server is an error of its own (5xx)", errors),
            Check.of("every answer is what such a call may get", surprises),
        ]
        if not may_lose:
            lost = [f"{ledger.person}: {ledger.lost}" for ledger in self.ledgers if ledger.lost]
            checks.append(Check.of("no connection was lost", lost))
        return checks + check_batches(batches, self.ledgers)


def loop(plan: Plan, *, server: Server, seconds: float, warm_up: float, think: float) -> Outcome:
    """Everybody does next and submit for ``seconds`` after ``warm_up``, or until somebody finds nothing."""
    stage = Stage(plan)
    stage.batch("loop")
    workers = stage.workers("loop")
    began = time.monotonic()
    start, end = began + warm_up, began + warm_up + seconds
    emptied: list[float] = []

    def work(worker: Worker) -> None:
        if think:  # people do not sit down at the same moment
            time.sleep(worker.chance.random() * think)
        while time.monotonic() < end and not emptied:
            item = worker.next()
            if item is None:
                emptied.append(time.monotonic())
                return
            if think:
                time.sleep(think * (0.5 + worker.chance.random()))
            stage.submit(worker, item)

    threads = stage.start(work, workers)
    _watch(threads, start, "warming up")
    before = processor.used(server)
    _watch(threads, end, "working")
    after = processor.used(server)
    stage.finish(threads, workers)
    end = min([end, *emptied])
    if end <= start:
        raise SystemExit("Everything was labelled before the warm-up was over: take more --tasks.")
    timings = [
        timing for ledger in stage.ledgers for timing in ledger.timings if start <= timing.end < end
    ]  # fmt: skip
    loops = sum(timing.kind in {Worker.submitting, Browser.submitting} for timing in timings)
    figures = {
        "seconds": end - start,
        "emptied": bool(emptied),
        "loops": loops,
        "loops_per_second": loops / (end - start),
        "processors": processor.shares(before, after),
        **stage.figures(timings),
    }
    return Outcome(figures, stage.checks(Batches(("loop",), plan.overlap, drained=False), may_lose=False))


def drain(plan: Plan, *, rounds: int, server: Server, kill_every: float) -> Outcome:
    """``rounds`` batches, each until nobody gets anything; disputes are decided at the same time."""
    stage = Stage(plan)
    names = [f"drain-{number}" for number in range(1, rounds + 1)]
    spent, late = 0.0, 0
    with ExitStack() as stack:
        killer = None
        if kill_every:
            killer = Killer(server, kill_every)
            killer.start()
            stack.callback(killer.stop)
        for number, name in enumerate(tqdm(names, desc="draining", disable=None, leave=False)):
            stage.batch(name)
            began = time.monotonic()
            first = _pass(stage, name, number)
            spent += time.monotonic() - began
            assert first
            # Whoever found nothing early looks again: what came back to others must not stay behind.
            while late_items := _pass(stage, name, number):
                late += late_items
    batches = Batches(tuple(names), plan.overlap, drained=True)
    checks = stage.checks(batches, may_lose=bool(kill_every))
    if killer is not None:
        checks.append(Check.of("workers were killed meanwhile", [] if killer.killed else ["none was"]))
    timings = [timing for ledger in stage.ledgers for timing in ledger.timings]
    loops = sum(not promise.decision for ledger in stage.ledgers for promise in ledger.promises)
    figures = {
        "rounds": rounds,
        "seconds": spent,
        "loops": loops,
        "loops_per_second": loops / spent,
        "late": late,
        "killed": killer.killed if killer else 0,
        **stage.figures(timings),
    }
    return Outcome(figures, checks)


def _pass(stage: Stage, batch: str, round_number: int) -> int:
    """Everybody works until they find nothing, and then the adjudicators too. How many items were done."""
    workers, deciders = stage.workers(batch, round_number=round_number), stage.deciders(batch)
    done = threading.Event()

    def work(worker: Worker) -> None:
        while (item := worker.next()) is not None:
            stage.submit(worker, item)

    def settle(worker: Adjudicator) -> None:
        while True:
            last = done.is_set()
            item = worker.ask_dispute()
            if item is not None:
                worker.settle(item)
            elif last:
                return
            else:
                time.sleep(LOOK_AGAIN)

    settling = stage.start(settle, deciders)
    threads = stage.start(work, workers)
    try:
        for thread in threads:
            while thread.is_alive():
                thread.join(0.5)
    finally:
        done.set()
    stage.finish([*threads, *settling], [*workers, *deciders])
    return sum(len(worker.ledger.promises) for worker in [*workers, *deciders])


def _watch(threads: Sequence[threading.Thread], end: float, title: str) -> None:
    """Show the time going by until ``end``, or until nobody works any more."""
    began = time.monotonic()
    with tqdm(total=round(end - began), desc=title, unit="s", disable=None, leave=False) as bar:
        while (now := time.monotonic()) < end and any(thread.is_alive() for thread in threads):
            bar.n = round(now - began)
            bar.refresh()
            time.sleep(min(0.2, end - now))
