"""People at work while something breaks: annotators by the API and by the pages, and a manager who orders jobs.

Nobody gives up: what gets no good answer is sent again under the same key, after the pauses that the page
(static/js/outbox.js) and the client (clients/assay.py) make. Each try is written down.
"""

from __future__ import annotations

import json
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from uuid import uuid4

from tests.performance.annotate_loop.client import Answer, Client, ConnectionLost
from tests.performance.annotate_loop.ledger import Timing
from tests.performance.annotate_loop.people import Browser, Program, Stuck, Worker
from tests.performance.annotate_loop.world import Account

THINK_SECONDS = 0.4
ORDER_SECONDS = 1.0
BROWSER_PATIENCE = 30.0
"""Static/js/outbox.js gives a request so long."""
PAGE_PAUSES = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
MAX_PAUSE = 10.0
GIVE_UP_SECONDS = 150.0
PROBE_SECONDS = 0.25
PROBE_PATIENCE = 5.0
REFUSED, BROKEN, SILENT = "connection refused", "connection broken off", "no answer"


@dataclass(frozen=True)
class Sighting:
    """One try, and what came of it: the status, or that there was none."""

    kind: str
    outcome: str
    is_good: bool
    began: float
    end: float


@dataclass(frozen=True)
class Act:
    """What somebody wanted, from the first try to the good answer."""

    kind: str
    began: float
    end: float
    tries: int

    @property
    def seconds(self) -> float:
        return self.end - self.began


@dataclass
class Diary:
    """What one person saw."""

    sightings: list[Sighting] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)

    def send(self, kind: str, call: Callable[[], Answer], expected: set[int]) -> tuple[Answer | None, float]:
        """The answer if it is a good one, and after how long the server wishes to be asked for it another time."""
        began = time.monotonic()
        try:
            answer = call()
        except ConnectionLost as error:
            self._write(kind, name_loss(error), False, began)
            return None, 0.0
        is_good = answer.status in expected
        wish = answer.header("Retry-After")
        self._write(kind, f"{answer.status}{' with Retry-After' if wish else ''}", is_good, began)
        return answer if is_good else None, float(wish) if wish.isdigit() else 0.0

    def _write(self, kind: str, outcome: str, is_good: bool, began: float) -> None:
        self.sightings.append(Sighting(kind, outcome, is_good, began, time.monotonic()))

    def repeat(
        self,
        kind: str,
        call: Callable[[], Answer],
        expected: set[int],
        choose_pause: Callable[[int, float], float],
    ) -> tuple[Answer, Act]:
        began, tries = time.monotonic(), 0
        while True:
            tries += 1
            answer, wish = self.send(kind, call, expected)
            if answer is not None:
                act = Act(kind, began, time.monotonic(), tries)
                self.acts.append(act)
                return answer, act
            if time.monotonic() - began > GIVE_UP_SECONDS:
                raise Stuck(f"no good answer to {kind} within {GIVE_UP_SECONDS:.0f} s")
            time.sleep(choose_pause(tries, wish))


def name_loss(error: ConnectionLost) -> str:
    cause = error.__cause__
    if isinstance(cause, ConnectionRefusedError):
        return REFUSED
    return SILENT if isinstance(cause, TimeoutError) else BROKEN


def choose_client_pause(tries: int, wish: float) -> float:
    """As clients/assay.py waits."""
    return wish or min(0.5 * 2 ** (tries - 1), MAX_PAUSE)


class Patient(Worker):
    """Writes down each try, and goes on until there is a good answer."""

    @abstractmethod
    def choose_pause(self, tries: int, wish: float) -> float: ...

    def __post_init__(self) -> None:
        self.diary = Diary()
        super().__post_init__()
        self.client.patience = BROWSER_PATIENCE

    def _answered(self, kind: str, call: Callable[[], Answer], *, expected: set[int]) -> Answer:
        answer, act = self.diary.repeat(kind, call, expected, self.choose_pause)
        self.ledger.answers[kind, answer.status] += 1
        self.ledger.timings.append(Timing(kind, act.end, act.seconds))
        return answer


class PatientProgram(Patient, Program):
    def choose_pause(self, tries: int, wish: float) -> float:
        return choose_client_pause(tries, wish)


class PatientBrowser(Patient, Browser):
    def choose_pause(self, tries: int, wish: float) -> float:
        """As the page's outbox waits."""
        return PAGE_PAUSES[min(tries, len(PAGE_PAUSES)) - 1]


@dataclass(frozen=True)
class Order:
    """A job that the server said it has."""

    job: int
    kind: str
    began: float


class Manager:
    """Orders an export, waits for it and orders the next; and now and then a training."""

    def __init__(self, account: Account, port: int, *, release: str, lessons: str) -> None:
        headers = {"Authorization": f"Token {account.token}", "Content-Type": "application/json"}
        self.client = Client(port, headers)
        self.client.patience = BROWSER_PATIENCE
        self.diary = Diary()
        self.release, self.lessons = release, lessons
        self.orders: list[Order] = []

    def export(self) -> int:
        path = f"/api/v1/manage/releases/{self.release}/exports/-/start/"
        return self._order("export", path, {"format": "bundle"})

    def train(self, name: str) -> int:
        content = {"name": name, "release": self.lessons, "evaluate": ["grouped", "leave-one-model-out"]}
        return self._order("training", "/api/v1/manage/scorers/-/train/", content)

    def _order(self, kind: str, path: str, content: Mapping[str, object]) -> int:
        """The number of the job; asked for another time under the same key it is the same."""
        key, body = {"Idempotency-Key": uuid4().hex}, json.dumps(content).encode()
        answer, _act = self.diary.repeat(
            f"order of {kind}", lambda: self.client.send("POST", path, body, key), {202}, choose_client_pause
        )
        job = int(json.loads(answer.body)["job"].rstrip("/").rpartition("/")[2])
        self.orders.append(Order(job, kind, time.monotonic()))
        return job

    def ask(self, job: int) -> str:
        """The state of a job."""
        path = f"/api/v1/manage/jobs/{job}/"
        answer, _act = self.diary.repeat(
            "state of a job", lambda: self.client.send("GET", path), {200}, choose_client_pause
        )
        return str(json.loads(answer.body)["state"])


@dataclass
class Probe:
    """Somebody who reloads a page four times a second, and waits five seconds for it at most."""

    account: Account
    port: int
    diary: Diary = field(default_factory=Diary)

    def run(self, ends: threading.Event) -> None:
        client = Client(self.port, {"Accept": "text/html"})
        client.patience = PROBE_PATIENCE
        client.cookies["sessionid"] = self.account.session
        while not ends.wait(PROBE_SECONDS):
            self.diary.send("page", lambda: client.send("GET", "/account/"), {200})
        client.close()


class Crowd:
    """All of them, one thread to each."""

    def __init__(
        self, people: list[Account], manager: Account, port: int, *, batch: str, releases: tuple[str, str]
    ) -> None:
        kinds = (PatientProgram, PatientBrowser)
        self.workers = [
            kinds[number % len(kinds)](account, batch, port) for number, account in enumerate(people)
        ]
        self.manager = Manager(manager, port, release=releases[0], lessons=releases[1])
        self.trainer = Manager(manager, port, release=releases[0], lessons=releases[1])
        self.probe = Probe(manager, port)
        self.failures: list[BaseException] = []
        self._ends = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        for worker in self.workers:
            self._begin(partial(self._work, worker))
        self._begin(self._order)
        self._begin(partial(self.probe.run, self._ends))

    def stop(self, seconds: float = GIVE_UP_SECONDS) -> None:
        """Each ends what they began."""
        self._ends.set()
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():
                self.failures.append(Stuck("somebody still waits for an answer"))
        for worker in self.workers:
            worker.client.close()

    def list_diaries(self) -> Iterator[Diary]:
        """Without the probe's, which nobody reads."""
        yield from (worker.diary for worker in self.workers)
        yield from (self.manager.diary, self.trainer.diary)

    def count_receipts(self) -> int:
        return sum(len(worker.ledger.promises) for worker in self.workers)

    def _begin(self, run: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                run()
            except BaseException as error:  # the row tells it
                self.failures.append(error)

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _work(self, worker: Worker) -> None:
        while not self._ends.is_set():
            item = worker.next()
            if item is not None:
                self._ends.wait(THINK_SECONDS * (0.5 + worker.chance.random()))
                worker.submit(item)
            else:
                self._ends.wait(1)

    def _order(self) -> None:
        while not self._ends.is_set():
            job = self.manager.export()
            while self.manager.ask(job) in {"queued", "running"}:
                if self._ends.wait(0.5):
                    return
            self._ends.wait(ORDER_SECONDS)
