"""Who counts as dead: not a worker whose database was away, whose clock is wrong, or who was told to stop."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.conf import LazySettings
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from annotation.models import Job, Person
from annotation.selectors.jobs import is_silent
from annotation.services import jobs
from annotation.services.jobs import is_abandoned
from tests.annotation.views.test_jobs import Workers, database_url, let_die, wait_for
from tests.databases import cut_other_sessions
from tests.serving import until

pytestmark = pytest.mark.django_db
REAL_NOW = timezone.now


@pytest.fixture(autouse=True)
def _beats(settings: LazySettings) -> None:
    """As the product beats; the other tests' jobs do not (tests/settings.py)."""
    settings.JOB_HEARTBEAT_SECONDS = 2


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_send_message", lambda _job_id, _kind: None)


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch) -> Callable[[jobs.Handler], Job]:
    """Queue a job that this function does."""

    def register(handler: jobs.Handler) -> Job:
        monkeypatch.setitem(jobs.HANDLERS, "here", handler)
        return jobs.enqueue(kind="here", payload={}, title="here")

    return register


@pytest.fixture
def quick(_beats: None, settings: LazySettings) -> None:
    settings.JOB_HEARTBEAT_SECONDS, settings.JOB_STALE_SECONDS = 0.2, 3


def in_a_thread(act: Callable[[], Any]) -> threading.Thread:
    def run() -> None:
        try:
            act()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


# A database that is away.


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_job_outlives_blips_of_the_database(quick: None, kind: Any):
    def handler(context: jobs.JobContext) -> dict[str, Any]:
        for step in range(40):
            context.report(step / 40, "counting", loss=step)
            time.sleep(0.1)
        return {"steps": 40}

    job = kind(handler)
    worker = in_a_thread(lambda: jobs.run(job.pk))
    for _blip in range(3):
        time.sleep(0.8)
        cut_other_sessions()
    worker.join()
    job.refresh_from_db()
    assert (job.state, job.attempt, job.error, job.result) == ("done", 1, "", {"steps": 40})
    assert [point["value"] for point in job.history] == list(range(40))  # each point once


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_the_heart_beats_on_after_a_blip_in_a_long_step(quick: None, kind: Any):
    going_on = threading.Event()

    def handler(_context: jobs.JobContext) -> dict[str, Any]:
        going_on.wait(120)
        return {}

    job = kind(handler)
    worker = in_a_thread(lambda: jobs.run(job.pk))
    for _blip in range(3):
        time.sleep(0.6)
        cut_other_sessions()
    cut_at = database_now()
    until(lambda: Job.objects.filter(pk=job.pk, heartbeat__gt=cut_at).exists(), 60)
    going_on.set()
    worker.join()
    job.refresh_from_db()
    assert (job.state, job.attempt) == ("done", 1)  # the end, too, was written on a new connection


def database_now() -> Any:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_job_whose_own_question_was_cut_off_is_given_back_and_goes_on(quick: None, kind: Any, he: Person):
    def handler(context: jobs.JobContext) -> dict[str, Any]:
        if context.attempt < 5:
            in_a_thread(cut_other_sessions).join()
            Person.objects.count()  # outside of any report
        return {"attempt": context.attempt}

    job = kind(handler)
    for _blip in range(4):
        assert jobs.run(job.pk).state == "queued"
        assert Job.objects.get(pk=job.pk).deaths == 0
    assert jobs.run(job.pk).result == {"attempt": 5}


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_command_goes_on_by_itself_after_a_blip(quick: None, kind: Any):
    def handler(context: jobs.JobContext) -> dict[str, Any]:
        if context.attempt == 1:
            in_a_thread(cut_other_sessions).join()
            Person.objects.count()
        return {}

    assert jobs.run_now(kind(handler)).state == "done"


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_an_error_of_the_job_itself_is_no_blip(quick: None, kind: Any, caplog: Any):
    def handler(_context: jobs.JobContext) -> dict[str, Any]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 / 0")
        return {}

    done = jobs.run(kind(handler).pk)
    assert (done.state, done.error) == ("failed", "DataError: division by zero\n")


class Wire:
    """The network between a worker and the database, which can be cut and mended."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._open: list[socket.socket] = []
        self.is_cut = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed at the end
            while True:
                client, _address = self._listener.accept()
                if self.is_cut:
                    client.close()
                    continue
                server = socket.create_connection(self._server)
                self._open += [client, server]
                for ends in ((client, server), (server, client)):
                    self._threads.append(threading.Thread(target=self._carry, args=ends, daemon=True))
                    self._threads[-1].start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with source:
            with suppress(OSError):
                while part := source.recv(65536):
                    target.sendall(part)
            self._end(source, target)

    def cut(self) -> None:
        self.is_cut = True
        self._end(*self._open)

    def mend(self) -> None:
        self.is_cut = False

    def close(self) -> None:
        self._end(self._listener, *self._open)
        for thread in self._threads:
            thread.join(10)
        self._listener.close()

    @staticmethod
    def _end(*ends: socket.socket) -> None:
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    at_work = Workers("filesystem://", tmp_path / "workers.log")
    at_work.environment["ASSAY_JOB_MAX_ATTEMPTS"] = "1"  # the first death that counts ends the job
    yield at_work
    at_work.stop()


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_worker_whose_database_was_away_for_long_is_not_taken_for_dead(workers: Workers, tmp_path: Path):
    address = urlsplit(database_url())
    wire = Wire(address.hostname or "127.0.0.1", address.port or 5432)
    account = f"{address.netloc.rpartition('@')[0]}@127.0.0.1:{wire.port}"
    workers.environment["DATABASE_URL"] = urlunsplit(address._replace(netloc=account))
    file = tmp_path / "tally"
    worker = workers.start()
    job = workers.enqueue({"file": str(file), "steps": 60, "pause": 0.2})
    wait_for(lambda: file.exists() and len(file.read_text()) >= 5, worker, seconds=180, log=workers.log)
    for _time in range(2):
        wire.cut()
        time.sleep(7)  # more than twice as long as a worker may be silent
        wire.mend()
        time.sleep(4)
    wait_for(lambda: Job.objects.get(pk=job.pk).is_over, worker, seconds=180, log=workers.log)
    job.refresh_from_db()
    workers.kill(worker)
    wire.close()
    assert (job.state, job.attempt, job.error, job.result["strokes"]) == ("done", 1, "", 60)


# A worker that is told to stop.


@pytest.mark.parametrize("whom", ["main process", "all processes"])
@pytest.mark.django_db(transaction=True)
def test_a_worker_that_is_told_to_stop_gives_its_job_back(workers: Workers, tmp_path: Path, whom: str):
    """A person tells the main process; a service manager tells all of them."""
    file = tmp_path / "tally"
    first = workers.start()
    job = workers.enqueue({"file": str(file), "steps": 300, "pause": 0.1})
    wait_for(lambda: file.exists() and len(file.read_text()) >= 5, first, seconds=180, log=workers.log)
    (os.killpg if whom == "all processes" else os.kill)(first.pid, signal.SIGTERM)
    first.wait(timeout=120)
    job.refresh_from_db()
    assert (job.state, job.attempt, job.worker) == ("queued", 1, "")
    written = len(file.read_text())
    assert written < 300
    Job.objects.filter(pk=job.pk).update(payload=job.payload | {"pause": 0})
    second = workers.start()
    wait_for(lambda: Job.objects.get(pk=job.pk).is_over, second, seconds=180, log=workers.log)
    job.refresh_from_db()
    assert (job.state, job.attempt, job.deaths) == ("done", 2, 0)
    assert job.result == {"strokes": 300, "began_at": written}


@pytest.fixture
def shutdown() -> Iterator[Callable[[], None]]:
    from annotation.core.shutdown import begin_shutdown, end_shutdown

    yield begin_shutdown
    end_shutdown()


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_is_killed_while_it_stops_has_not_died(quick: None, kind: Any, shutdown: Any):
    def handler(context: jobs.JobContext) -> dict[str, Any]:
        shutdown()
        end = time.monotonic() + 60
        while not Job.objects.get(pk=context.job.pk).is_stopping:  # the beat says so in a long step
            assert time.monotonic() < end
            time.sleep(0.05)
        context.report(0.5)
        raise AssertionError("it went on")

    job = jobs.run(kind(handler).pk)
    assert (job.state, job.attempt, job.is_stopping) == ("queued", 1, False)
    for _time in range(5):
        let_die(job, is_stopping=True)
        jobs.sweep()
        job.refresh_from_db()
        assert (job.state, job.deaths) == ("queued", 0)


def test_a_job_that_was_cancelled_is_not_given_back(quick: None, kind: Any, shutdown: Any):
    def handler(context: jobs.JobContext) -> dict[str, Any]:
        Job.objects.filter(pk=context.job.pk).update(cancel_requested=True)
        raise jobs.Interrupted

    assert jobs.run(kind(handler).pk).state == "cancelled"


def test_what_was_given_back_is_nobodys(kind: Any):
    """So that a command which goes on with it need not wait for a worker."""

    def handler(_context: jobs.JobContext) -> dict[str, Any]:
        raise KeyboardInterrupt

    job = kind(handler)
    assert not is_abandoned(job)
    with pytest.raises(KeyboardInterrupt):
        jobs.run(job.pk)
    job.refresh_from_db()
    assert (job.state, is_abandoned(job)) == ("queued", True)


# Deaths that count.


@pytest.mark.both_databases
def test_only_deaths_without_progress_count(kind: Any, settings: LazySettings):
    job = kind(lambda _context: {})
    for tenth in range(1, 8):
        let_die(job, progress=tenth / 10)
        jobs.sweep()
        job.refresh_from_db()
        assert (job.state, job.deaths) == ("queued", 0)
    for death in range(1, settings.JOB_MAX_ATTEMPTS):
        let_die(job, progress=0.703)  # hardly further, and never mind where it began again
        jobs.sweep()
        job.refresh_from_db()
        assert (job.state, job.deaths) == ("queued", death)
    let_die(job, progress=0.2)
    jobs.sweep()
    job.refresh_from_db()
    assert job.state == "failed"


def test_the_page_says_that_workers_died(kind: Any, client: Client, he: Person):
    job = kind(lambda _context: {})
    let_die(job)
    jobs.sweep()
    Job.objects.filter(pk=job.pk).update(state="running", attempt=2)
    client.force_login(he)
    page = client.get(f"/jobs/{job.pk}/").content.decode()
    assert "attempt 2" in page
    assert "died over this without getting further" in page


def test_a_process_of_the_job_that_is_killed_counts_as_its_worker(kind: Any, caplog: Any):
    def handler(context: jobs.JobContext) -> dict[str, Any]:
        if context.attempt < 3:
            raise jobs.WorkerDied("signal 9")
        return {"attempt": context.attempt}

    job = kind(handler)
    for death in (1, 2):
        assert jobs.run(job.pk).state == "queued"
        assert Job.objects.get(pk=job.pk).deaths == death
    assert jobs.run(job.pk).result == {"attempt": 3}
    assert "signal 9" in caplog.text


def test_one_silent_look_is_not_enough(kind: Any):
    """After the database was away every beat is old: each worker gets the time for one."""
    job = kind(lambda _context: {})
    let_die(job, suspected_at=None)
    jobs.sweep()
    job.refresh_from_db()
    assert job.state == "running"
    assert job.suspected_at is not None
    jobs.JobContext(job).report(0.1)
    job.refresh_from_db()
    assert job.suspected_at is None


# Clocks that are wrong.


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Set the clock of this process wrong by so many seconds."""

    def set_wrong(seconds: float) -> None:
        monkeypatch.setattr(timezone, "now", lambda: REAL_NOW() + timedelta(seconds=seconds))

    return set_wrong


@pytest.mark.both_databases
@pytest.mark.parametrize("skew", [-3600, -30, 30, 3600])
def test_a_worker_whose_clock_is_wrong_lives(kind: Any, clock: Any, skew: float):
    states: list[tuple[str, bool, bool]] = []

    def handler(context: jobs.JobContext) -> dict[str, Any]:
        clock(skew)
        context.report(0.5)
        clock(0)
        jobs.sweep()
        job = Job.objects.get(pk=context.job.pk)
        states.append((job.state, is_silent(job), is_abandoned(job)))
        return {}

    job = kind(handler)
    clock(skew)
    assert jobs.run(job.pk).state == "done"
    assert states == [("running", False, False)]
    job.refresh_from_db()
    assert abs((REAL_NOW() - job.finished_at).total_seconds()) < 20


@pytest.mark.both_databases
@pytest.mark.parametrize("skew", [-3600, 30, 3600])
def test_a_web_server_whose_clock_is_wrong_takes_nobody_for_dead(kind: Any, clock: Any, skew: float):
    def handler(context: jobs.JobContext) -> dict[str, Any]:
        clock(skew)
        jobs.sweep()
        job = Job.objects.get(pk=context.job.pk)
        return {"state": job.state, "silent": is_silent(job), "abandoned": is_abandoned(job)}

    done = jobs.run(kind(handler).pk)
    assert done.result == {"state": "running", "silent": False, "abandoned": False}


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_a_dead_worker_whose_clock_was_ahead_is_found(settings: LazySettings, kind: Any, clock: Any):
    settings.JOB_HEARTBEAT_SECONDS, settings.JOB_STALE_SECONDS = 0.1, 0.5

    class Died(BaseException):
        """What a killed process does, as far as this one can."""

    def handler(_context: jobs.JobContext) -> dict[str, Any]:
        raise Died

    job = kind(handler)
    clock(3600)
    with pytest.raises(Died):
        jobs.run(job.pk)
    clock(0)
    for _sweep in range(2):
        time.sleep(0.7)
        jobs.sweep()
    job.refresh_from_db()
    assert job.state == "queued"


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_cancel_at_the_moment_of_giving_back_counts(kind: Any):
    """Written and not yet committed when the worker asks; a job that went back so would be done all the same."""

    def handler(context: jobs.JobContext) -> dict[str, Any]:
        canceller.start()
        assert locked.wait(60)
        raise jobs.Interrupted

    def cancel() -> None:
        with closing(connection), transaction.atomic():
            jobs.cancel(job=job, actor=None)
            locked.set()
            time.sleep(1)

    job, locked, canceller = kind(handler), threading.Event(), threading.Thread(target=cancel)
    done = jobs.run(job.pk)
    canceller.join()
    assert done.state == "cancelled"
