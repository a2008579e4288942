from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings, settings
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import override

from annotation.core.databases import seconds_ago
from annotation.core.errors import N_, AssayError, Conflict, NotFound
from annotation.models import AuditEvent, Batch, Import, Job, Person
from annotation.selectors.jobs import Curve
from annotation.services import jobs
from annotation.services.batches.batches import set_state
from annotation.services.people.people import set_roles
from annotation.services.studies import find_or_make_study
from tests.annotation import job_kinds
from tests.conftest import ROOT, missing

pytestmark = pytest.mark.django_db
Sent = list[int]


@pytest.fixture(autouse=True)
def _beats(settings: LazySettings) -> None:
    """As the product beats; the other tests' jobs do not (tests/settings.py)."""
    settings.JOB_HEARTBEAT_SECONDS = 2


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """The ids that were told to the broker, in order; a broker is another test's business."""
    ids: Sent = []
    monkeypatch.setattr(jobs, "_send_message", lambda job_id, _kind: ids.append(job_id))
    return ids


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch) -> Callable[[jobs.Handler], str]:
    """Register a handler for this test alone."""

    def register(handler: jobs.Handler) -> str:
        monkeypatch.setitem(jobs.HANDLERS, "here", handler)
        return "here"

    return register


def queue(kind: str, **changes: Any) -> Job:
    return jobs.enqueue(kind=kind, payload={}, title=kind, **changes)


def let_die(job: Job, *, attempt: int = 1, silent_for: int = 60, **changes: Any) -> None:
    """As a worker leaves it that was killed: running, no beat any more, and suspected by a sweep before."""
    beat, suspected = seconds_ago(silent_for), seconds_ago(silent_for / 2)
    died = {"attempt": attempt, "heartbeat": beat, "suspected_at": suspected, "worker": "gone:1"} | changes
    Job.objects.filter(pk=job.pk).update(state="running", **died)


def test_the_message_is_sent_when_the_row_is_committed_and_not_before(
    sent: Sent, django_capture_on_commit_callbacks: Any
):
    with django_capture_on_commit_callbacks(execute=False) as callbacks:
        job = queue("here")
        assert sent == []
    for callback in callbacks:
        callback()
    assert sent == [job.pk]


def test_a_message_delivered_twice_runs_once(sent: Sent, kind: Any):
    runs: list[int] = []

    def handler(context: jobs.JobContext) -> dict[str, Any]:
        runs.append(context.attempt)
        # The second delivery comes while the first one is at work.
        assert jobs.run(context.job.pk).state == "running"
        return {"ok": True}

    job = queue(kind(handler))
    assert jobs.run(job.pk).state == jobs.run(job.pk).state == "done"
    assert runs == [1]
    job.refresh_from_db()
    assert (job.progress, job.result, job.attempt) == (1.0, {"ok": True}, 1)


def test_a_job_whose_worker_died_is_swept_and_run_again(sent: Sent, kind: Any):
    job = queue(kind(lambda context: {"attempt": context.attempt}))
    let_die(job)
    assert jobs.run(job.pk).state == "running"  # nobody takes it before the sweep
    assert jobs.sweep() == 1
    assert sent == [job.pk]
    assert jobs.run(job.pk).result == {"attempt": 2}


def test_a_job_that_beats_is_left_alone(sent: Sent, kind: Any):
    job = queue(kind(lambda _context: {}))
    let_die(job, silent_for=settings.JOB_STALE_SECONDS - 5)
    assert jobs.sweep() == 0
    job.refresh_from_db()
    assert job.state == "running"


def test_a_job_that_kills_its_workers_fails_with_the_reason(sent: Sent, kind: Any, caplog: Any):
    job = queue(kind(lambda _context: {}))
    for _death in range(settings.JOB_MAX_ATTEMPTS):
        assert job.state == "queued"
        let_die(job)
        jobs.sweep()
        job.refresh_from_db()
    assert job.state == "failed"
    assert f"died {settings.JOB_MAX_ATTEMPTS} times" in job.error
    assert "memory" in job.error
    assert f"job {job.pk} " in job.error
    assert f"job {job.pk} (here, “here”): the worker gone:1 died" in caplog.text


def test_a_message_that_was_lost_is_sent_again_after_a_while(sent: Sent, kind: Any):
    job = queue(kind(lambda _context: {}))
    assert jobs.sweep() == 0
    Job.objects.update(created_at=timezone.now() - timedelta(seconds=11))
    assert jobs.sweep() == 1
    assert sent == [job.pk]


def test_the_job_of_an_import_is_as_blind_as_the_import(
    batch: Batch, lin: Person, he: Person, client: Client
):
    set_roles(person=lin, roles=["annotator", "manager"])
    message = "a.jsonl:3: another response of Secretive-7B to the prompt p1 is stored."
    upload = Import.objects.create(
        study=find_or_make_study(),
        kind="responses",
        format="jsonl",
        file_name="Secretive-7B.jsonl",
        options={"dataset": "small"},
    )
    job = Job.objects.create(
        study=upload.study,
        kind="import",
        payload={"import": upload.pk},
        created_by=he,
        state="failed",
        error=message,
    )
    address = reverse("job-progress", args=[job.pk])
    client.force_login(lin)
    assert client.get(address).status_code == 404
    Person.objects.filter(pk=lin.pk).update(is_superuser=True, is_staff=True)
    own_page = reverse("operations-job", args=[job.pk])
    assert own_page not in client.get(reverse("operations")).content.decode()
    assert client.get(own_page).status_code == 404
    set_state(batch=batch, state="closed")
    assert message in client.get(address).content.decode()
    assert own_page in client.get(reverse("operations")).content.decode()


def test_a_broker_that_is_away_loses_nothing(monkeypatch: pytest.MonkeyPatch, kind: Any, caplog: Any):
    def refuse(*_args: Any, **_kwargs: Any) -> None:
        raise ConnectionError("nobody listens")

    monkeypatch.setattr(jobs, "_broker_rests_until", 0.0)
    monkeypatch.setattr(jobs.current_app, "send_task", refuse)
    job = queue(kind(lambda _context: {}))
    jobs._send_message(job.pk, job.kind)
    assert "nobody listens" in caplog.text
    job.refresh_from_db()
    assert job.state == "queued"


def test_a_failure_says_why(sent: Sent, kind: Any, caplog: Any):
    def explode(_context: jobs.JobContext) -> dict[str, Any]:
        raise ZeroDivisionError("no labels")

    def refuse(_context: jobs.JobContext) -> dict[str, Any]:
        raise AssayError(N_("No batch is named {name}."), name="x")

    exploded, refused = jobs.run(queue(kind(explode)).pk), None
    refused = jobs.run(queue(kind(refuse)).pk)
    assert (exploded.state, exploded.error) == ("failed", "ZeroDivisionError: no labels")
    assert (refused.state, refused.error) == ("failed", "No batch is named x.")
    assert exploded.finished_at is not None


def test_a_job_of_a_kind_that_nobody_knows_fails_and_breaks_nothing(sent: Sent, caplog: Any):
    assert jobs.run(queue("unheard-of").pk).state == "failed"


def test_progress_and_points_of_a_curve_are_kept(sent: Sent, kind: Any):
    def handler(context: jobs.JobContext) -> dict[str, Any]:
        context.report(0.5, "fold 1", loss=0.7)
        context.report(1.0, loss=0.4, accuracy=0.9)
        return {}

    seen: list[tuple[float, str]] = []
    job = jobs.run(queue(kind(handler)).pk, watcher=lambda *event: seen.append(event))
    assert seen == [(0.5, "fold 1"), (1.0, "fold 1")]
    assert [(point["name"], point["at"], point["value"]) for point in job.history] == [
        ("loss", 0.5, 0.7),
        ("loss", 1.0, 0.4),
        ("accuracy", 1.0, 0.9),
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.35219, "0.352"), (0.0, "0"), (12, "12"), (4269.5, "4,270"), (38267, "38,267"), (-120.4, "-120")],
)
def test_the_last_value_of_a_curve_is_shown_as_one_reads_it(value: float, text: str):
    assert Curve("", "", value).last_text == text


def test_a_queued_job_is_cancelled_at_once_and_a_running_one_at_its_next_report(
    sent: Sent, kind: Any, ma: Person
):
    def handler(context: jobs.JobContext) -> dict[str, Any]:
        jobs.cancel(job=context.job, actor=ma)
        assert Job.objects.get(pk=context.job.pk).state == "running"
        context.report(0.1)
        raise AssertionError("it went on after the cancel")

    queued = queue(kind(handler))
    assert jobs.cancel(job=queued).state == "cancelled"
    assert jobs.run(queued.pk).attempt == 0
    running = jobs.run(queue("here").pk)
    assert (running.state, running.error) == ("cancelled", "")
    assert AuditEvent.objects.get(verb="cancel_job", actor=ma).target == f"job:{running.pk}"


def test_cancelling_what_is_over_changes_nothing(sent: Sent, kind: Any):
    job = jobs.run(queue(kind(lambda _context: {"a": 1})).pk)
    assert jobs.cancel(job=job).state == "done"
    assert Job.objects.get().result == {"a": 1}


def test_a_cancelled_job_whose_worker_died_is_not_run_again_and_takes_what_waits_along(sent: Sent, kind: Any):
    job = queue(kind(lambda _context: {}))
    waiting = queue("here", depends_on=job)
    let_die(job)
    jobs.cancel(job=job)
    jobs.sweep()
    job.refresh_from_db()
    waiting.refresh_from_db()
    assert (job.state, waiting.state, sent) == ("cancelled", "cancelled", [])


def test_a_worker_that_was_given_up_cannot_finish_what_another_took_over(sent: Sent, kind: Any):
    def handler(context: jobs.JobContext) -> dict[str, Any]:
        # While this worker slept it was taken for dead, and another one has claimed the row.
        Job.objects.filter(pk=context.job.pk).update(attempt=2, worker="other:2")
        context.report(0.9)
        raise AssertionError("it went on with a job that is another's")

    job = jobs.run(queue(kind(handler)).pk)
    assert (job.state, job.attempt, job.worker, job.progress) == ("running", 2, "other:2", 0)


def test_dependents_run_after_one_another_and_not_before(
    sent: Sent, kind: Any, django_capture_on_commit_callbacks: Any
):
    order: list[int] = []

    def handler(context: jobs.JobContext) -> dict[str, Any]:
        order.append(context.job.pk)
        return {}

    with django_capture_on_commit_callbacks(execute=True):
        first = queue(kind(handler))
        second = queue("here", depends_on=first)
        third = queue("here", depends_on=second)
    assert jobs.run(second.pk).state == "queued"
    for step in (first, second, third):
        with django_capture_on_commit_callbacks(execute=True):
            jobs.run(step.pk)
    assert order == sent == [first.pk, second.pk, third.pk]


def test_a_chain_runs_to_its_end_in_one_process(sent: Sent, kind: Any):
    first = queue(kind(lambda _context: {}), send=False)
    second = queue("here", depends_on=first)
    jobs.run_now(first)
    second.refresh_from_db()
    assert (second.state, sent) == ("done", [])


def test_a_chain_waits_for_what_a_worker_took_of_it_first(
    sent: Sent, kind: Any, monkeypatch: pytest.MonkeyPatch
):
    first = queue(kind(lambda _context: {}), send=False)
    running, third = (queue("here", depends_on=first, send=False) for _ in range(2))

    def a_worker_ends_it(_seconds: float) -> None:
        Job.objects.filter(pk=running.pk).update(state="done")

    def a_worker_takes_it(job_id: int) -> None:
        Job.objects.filter(pk=job_id, pk__in=[running.pk]).update(state="running", attempt=1)

    def handler(context: jobs.JobContext) -> dict[str, Any]:
        a_worker_takes_it(running.pk)
        return {}

    kind(handler)
    monkeypatch.setattr(jobs.time, "sleep", a_worker_ends_it)
    jobs.run_now(first)
    third.refresh_from_db()
    assert third.state == "done"


def test_a_process_that_imported_no_tasks_does_every_kind_of_job(sent: Sent):
    kinds = ("train_scorer", "score_responses", "run_benchmark", "import", "demo_board")
    code = (
        "import sys, django; django.setup();"
        "from annotation.services import jobs; assert not jobs.HANDLERS, jobs.HANDLERS;"
        "[jobs._get_handler(kind) for kind in sys.argv[1:]];"
        "heavy = {'torch', 'transformers', 'sklearn', 'pyarrow'} & set(sys.modules); assert not heavy, heavy"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings"}
    subprocess.run([sys.executable, "-c", code, *kinds], cwd=ROOT, env=environment, check=True, timeout=120)


def test_a_job_of_an_unknown_kind_says_so(sent: Sent):
    assert jobs.run(queue("nobody").pk).error == "Nothing here does jobs of the kind nobody."


def test_what_waits_for_a_failed_job_is_closed_all_the_way_down(sent: Sent, kind: Any, caplog: Any):
    def handler(_context: jobs.JobContext) -> dict[str, Any]:
        raise ZeroDivisionError

    first = queue(kind(handler))
    second = queue("here", depends_on=first)
    third = queue("here", depends_on=second)
    jobs.run(first.pk)
    for waiting in (second, third):
        waiting.refresh_from_db()
        assert waiting.state == "cancelled"
        assert "It waited for" in waiting.error


def test_what_is_made_to_wait_for_a_failed_job_is_closed_by_the_sweep(sent: Sent, kind: Any):
    dead = queue(kind(lambda _context: {}))
    Job.objects.update(state="failed")
    waiting = queue("here", depends_on=dead)
    jobs.sweep()
    waiting.refresh_from_db()
    assert waiting.state == "cancelled"


def test_running_here_raises_the_reason_and_refuses_what_another_runs(sent: Sent, kind: Any, caplog: Any):
    def handler(_context: jobs.JobContext) -> dict[str, Any]:
        raise ZeroDivisionError("no labels")

    with pytest.raises(AssayError, match="no labels"):
        jobs.run_now(queue(kind(handler)))
    running = queue("here")
    let_die(running, silent_for=0)
    with pytest.raises(Conflict, match="running"):
        jobs.run_now(running)


# Real workers, real brokers, kill -9.


class Workers:
    """Worker processes on the database of this test, each in a process group of its own."""

    def __init__(self, broker: str, log: Path) -> None:
        self.log = log
        self.running: list[subprocess.Popen[bytes]] = []
        self.environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "DATABASE_URL": database_url(),
            "ASSAY_DATA_DIR": str(log.parent),
            "CELERY_BROKER_URL": broker,
            "ASSAY_JOB_HEARTBEAT_SECONDS": "1",
            "ASSAY_JOB_STALE_SECONDS": "3",
        }

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        options = ("--beat", "--loglevel", "info", "--include", "tests.annotation.job_kinds", *options)
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "config", "worker", *options],
                cwd=ROOT,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.running.append(process)
        return process

    def enqueue(self, payload: dict[str, Any], *, kind: str = "tally") -> Job:
        """In a process with the workers' settings, as a page or a command does it; so that it meets their broker."""
        code = (
            "import django, json, sys; django.setup(); from annotation.services import jobs;"
            "print(jobs.enqueue(kind=sys.argv[2], payload=json.loads(sys.argv[1]), title='Tally').pk)"
        )
        command = [sys.executable, "-c", code, json.dumps(payload), kind]
        made = subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, check=True)
        return Job.objects.get(pk=int(made.stdout))

    def kill(self, process: subprocess.Popen[bytes], signal_number: int = signal.SIGKILL) -> None:
        os.killpg(process.pid, signal_number)
        process.wait(timeout=60)

    def stop(self) -> None:
        for process in self.running:
            if process.poll() is None:
                self.kill(process)


def database_url() -> str:
    database = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{database['NAME']}"
    user = database["USER"] + (f":{database['PASSWORD']}" if database["PASSWORD"] else "")
    return f"postgres://{user}@{database['HOST']}:{database['PORT']}/{database['NAME']}"


def wait_for(
    condition: Callable[[], bool], worker: subprocess.Popen[bytes], *, seconds: float, log: Path
) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end or worker.poll() is not None:
            pytest.fail(f"waited in vain for {seconds} s or a dead worker:\n{log.read_text()[-4000:]}")
        time.sleep(0.1)


@pytest.fixture(params=["filesystem", "redis"])
def workers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workers]:
    broker = "filesystem://"
    if request.param == "redis":
        broker = os.environ.get("ASSAY_TEST_REDIS", "")
        if not broker:
            missing("redis", "ASSAY_TEST_REDIS does not name a Redis server")
    at_work = Workers(broker, tmp_path / "workers.log")
    yield at_work
    at_work.stop()


@pytest.mark.django_db(transaction=True)
def test_a_worker_killed_in_the_middle_loses_nothing_and_the_page_says_so(
    workers: Workers, tmp_path: Path, he: Person, client: Client
):
    assert job_kinds.tally  # what the workers include
    file = tmp_path / "tally"
    training = workers.enqueue({"scorer": 0}, kind="train_scorer")
    first = workers.start("--queues", "housekeeping,assay")
    job = workers.enqueue({"file": str(file), "steps": 30, "pause": 0.2})
    wait_for(lambda: file.exists() and len(file.read_text()) >= 5, first, seconds=180, log=workers.log)
    workers.kill(first)
    written = len(file.read_text())
    assert written < 30
    training.refresh_from_db()
    assert training.state == "queued"  # the first worker took nothing from the queue of trainings
    second = workers.start()
    wait_for(lambda: Job.objects.get(pk=job.pk).is_over, second, seconds=180, log=workers.log)
    wait_for(lambda: Job.objects.get(pk=training.pk).is_over, second, seconds=180, log=workers.log)
    training.refresh_from_db()
    assert training.error == "The scorer of this job is there no more."  # a worker took it, and answered
    job.refresh_from_db()
    assert (job.state, job.attempt, job.error) == ("done", 2, "")
    assert job.result == {"strokes": 30, "began_at": written}  # it went on, and did nothing twice
    client.force_login(he)
    assert b"attempt 2" in client.get(f"/jobs/{job.pk}/").content


def test_a_failed_job_is_tried_again_with_what_waited_for_it(sent: Sent, kind: Any, ma: Person, caplog: Any):
    broken = True

    def handler(_context: jobs.JobContext) -> dict[str, Any]:
        if broken:
            raise AssayError(N_("No batch is named {name}."), name="x")
        return {"ok": True}

    job = queue(kind(handler))
    follower = queue("here", depends_on=job)
    withdrawn = jobs.cancel(job=queue("here", depends_on=job))
    with pytest.raises(Conflict, match="only a failed job"):
        jobs.retry(job=job)
    assert jobs.run(job.pk).state == "failed"
    Job.objects.filter(pk=job.pk).update(deaths=2, progress=0.4, furthest=0.4)
    broken = False
    jobs.retry(job=job, actor=ma)
    job.refresh_from_db()
    assert (job.state, job.error, job.result, job.deaths, job.furthest) == ("queued", "", {}, 0, 0)
    assert AuditEvent.objects.get(verb="retry_job", actor=ma).target == f"job:{job.pk}"
    assert (jobs.run(job.pk).state, jobs.run(follower.pk).state) == ("done", "done")
    withdrawn.refresh_from_db()
    assert (withdrawn.state, withdrawn.error) == ("cancelled", "")
    with pytest.raises(NotFound):
        jobs.retry(job=Job(pk=0))


def test_a_failure_is_told_in_the_language_of_whoever_reads_it():
    @jobs.register_handler("fails in words")
    def fail(context: jobs.JobContext) -> dict[str, Any]:
        raise NotFound(N_("There is no person named {names}."), names="Lin")

    job = jobs.run(jobs.enqueue(kind="fails in words", payload={}, send=False).pk)
    assert job.error == "There is no person named Lin."
    with override("zh-hans"):
        assert "Lin" in job.error_text
        assert job.error_text != job.error
