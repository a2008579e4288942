"""Long work: a row that one worker claims, beats for, and finishes (docs/decisions/jobs-are-rows.md).

A message only says that a row waits; delivered twice, the second claim finds nothing. A worker that dies
stops beating, and the sweep gives its row to another, until ``JOB_MAX_ATTEMPTS`` workers in a row died over it
without getting further. A worker that is told to stop, or loses the database, gives the row back itself. Handlers
therefore must be resumable: what a handler did before it died must not be done twice.

The database's clock alone decides whether a worker lives: the clocks of the workers may differ.

``ProgressReporter`` reports the progress of a job that works in one long transaction. ``is_abandoned`` is for a command
that resumes a job whose process was killed: the sweep finds such a job, too, but only where a worker runs, and only
once its heartbeat is old.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from datetime import timedelta
from functools import partial
from typing import Any

from celery import current_app
from django.conf import settings
from django.db import Error, connection, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Greatest, Now
from django.dispatch import Signal
from django.utils.module_loading import autodiscover_modules

from annotation.core.databases import is_connection_lost, seconds_ago, wait_for_database
from annotation.core.error_messages import error_to_json
from annotation.core.errors import N_, AssayError, Conflict, NotFound, StorageAway
from annotation.core.log_context import log_job
from annotation.core.log_lines import gather_lines
from annotation.core.shutdown import exit_on_sigterm, is_shutting_down
from annotation.core.study_scope import get_study_scope, limit_to_studies
from annotation.core.tracing import Attributes, SpanKind, TraceSpan, get_trace_parent, open_span
from annotation.domain.verbs import AnnotationVerb
from annotation.models import Job, Person, Study, StudyDeletion
from annotation.selectors.jobs import DEAD, is_silent
from annotation.selectors.operations.queues import get_queue
from annotation.services.audit import record

logger = logging.getLogger(__name__)
Handler = Callable[["JobContext"], dict[str, Any]]
Watcher = Callable[[float, str], None]
HANDLERS: dict[str, Handler] = {}
job_failed = Signal()
"""Sent with ``job`` in the transaction in which it is marked; what a receiver raises holds nothing up."""
HISTORY_LIMIT = 2000
RESEND_AFTER = timedelta(seconds=10)
WAIT_SECONDS = 0.5
MIN_PROGRESS = 0.01
"""A worker that died has got further if the job came further than ever before by this much."""
BROKER_REST_SECONDS = 5.0
"""For how long nothing is sent to a broker that did not answer: a page may queue many jobs."""
_broker_rests_until = 0.0


class Cancelled(Exception):
    """Somebody cancelled the job; the handler must let it pass."""


class LostJob(Exception):
    """Another worker has taken the row over; whatever this one does further must not count."""


class Interrupted(Exception):
    """This worker is told to stop; the job is given back, and the handler must let it pass."""


class WorkerDied(Exception):
    """A process that did the job's work was killed: for the job the same as if its worker had been."""


def register_handler(kind: str) -> Callable[[Handler], Handler]:
    """Register the function that does jobs of this kind; it gets a JobContext and returns the job's result."""

    def register(handler: Handler) -> Handler:
        HANDLERS[kind] = handler
        return handler

    return register


class JobContext:
    """What a handler knows of its job. ``report`` is cheap; call it often, it is also where a cancel arrives."""

    def __init__(self, job: Job, watcher: Watcher | None = None) -> None:
        self.job = job
        self.payload: dict[str, Any] = job.payload
        self.attempt = job.attempt
        self._watcher = watcher
        self._changes: dict[str, Any] = {}

    def report(self, progress: float, stage: str = "", **values: float) -> None:
        """Show ``progress`` (0 to 1), what is being done (an English phrase), and points for the live curves.

        Raises Cancelled, LostJob or Interrupted, which the handler must not catch. Waits for a database that is away.
        """
        self._set_progress(progress, stage, values)
        wait_for_database(self._write_progress)

    def try_report(self, progress: float, stage: str = "") -> None:
        """The same at once or never: a database that is away is an error."""
        self._set_progress(progress, stage, {})
        self._write_progress()

    def _set_progress(self, progress: float, stage: str, values: dict[str, float]) -> None:
        self.job.progress = progress
        self.job.stage = stage or self.job.stage
        points = [{"at": progress, "stage": stage, "name": n, "value": v} for n, v in values.items()]
        self._changes = {"progress": progress, "stage": self.job.stage}
        if points:
            self.job.history = (self.job.history + points)[-HISTORY_LIMIT:]
            self._changes["history"] = self.job.history

    def _write_progress(self) -> None:
        """Write what was noted; twice is as good as once."""
        row = self._filter_own_row()
        if not row.update(**self._changes, **_build_heartbeat()):
            raise LostJob
        if self._watcher is not None:
            self._watcher(self.job.progress, self.job.stage)
        if row.filter(cancel_requested=True).exists():
            raise Cancelled
        if is_shutting_down():
            raise Interrupted

    def is_final(self, error: Exception) -> bool:
        """Whether the job is over with this error; else it goes on from what it kept, here or elsewhere."""
        if isinstance(error, LostJob | Interrupted | WorkerDied | StorageAway) or is_connection_lost(error):
            return False
        return self._filter_own_row().exists()

    def save_result(self, result: dict[str, Any]) -> None:
        """Keep the result in the transaction of the work itself, so that it is done once. Raises LostJob."""
        if not self._filter_own_row().update(result=result):
            raise LostJob

    def _filter_own_row(self) -> QuerySet[Job]:
        return Job.objects.filter(pk=self.job.pk, state=Job.State.RUNNING, attempt=self.attempt)


def enqueue(
    *,
    kind: str,
    payload: dict[str, Any],
    title: str = "",
    actor: Person | None = None,
    depends_on: Job | None = None,
    send: bool = True,
    is_of_site: bool = False,
) -> Job:
    """Make the row, and on commit tell a worker. With ``send`` False the caller runs it in its own process. A job that
    ``is_of_site`` is of no study, whichever the work under way is about.
    """
    job = Job.objects.create(
        study_id=None if is_of_site else _find_study(),
        kind=kind,
        payload=payload,
        title=title,
        created_by=actor,
        depends_on=depends_on,
        trace_parent=get_trace_parent(),
    )
    if send and (depends_on is None or depends_on.state == Job.State.DONE):
        transaction.on_commit(partial(_send_message, job.pk, job.kind))
    return job


def _find_study() -> int | None:
    """The study that the work under way is about, where it is about one."""
    studies = get_study_scope()
    if studies is None:
        studies = frozenset(Study.objects.values_list("pk", flat=True)[:2])
    return next(iter(studies)) if len(studies) == 1 else None


def run(job_id: int, *, watcher: Watcher | None = None) -> Job:
    """Claim the job and do it to its end, here. Does nothing if it is claimed already or may not run yet."""
    job = _claim_job(job_id)
    if job is None:
        return Job.objects.get(pk=job_id)
    with log_job(job.pk), _open_span(job) as span, gather_lines() as lines:
        ended = _run_claimed(job, watcher)
        span.set_attributes({"assay.job.state": ended.state})
        if ended.state == Job.State.FAILED:
            span.mark_failed(ended.state)
    if ended.state == Job.State.FAILED:
        ended.log = "\n".join(lines)
        wait_for_database(partial(Job.objects.filter(pk=job.pk, state=ended.state).update, log=ended.log))
    return ended


def _open_span(job: Job) -> AbstractContextManager[TraceSpan]:
    attributes: Attributes = {
        "assay.job.id": job.pk,
        "assay.job.kind": job.kind,
        "assay.job.attempt": job.attempt,
    }
    return open_span(f"job {job.kind}", SpanKind.CONSUMER, attributes, parent=job.trace_parent)


def _run_claimed(job: Job, watcher: Watcher | None) -> Job:
    """Whoever watches sees the beginning and the end; of a worker's job the log tells."""
    level, start = logging.DEBUG if watcher is not None else logging.INFO, time.monotonic()
    logger.log(level, "job %s (%s, “%s”) begins, attempt %s", job.pk, job.kind, job.title, job.attempt)
    studies = None if job.study_id is None else [job.study_id]
    with exit_on_sigterm(), _Heartbeat(job), limit_to_studies(studies, afresh=True):
        try:
            result = _get_handler(job.kind)(JobContext(job, watcher))
        except (KeyboardInterrupt, SystemExit):
            wait_for_database(partial(_requeue_interrupted, job, "it was told to stop"))
            raise
        except Exception as error:
            wait_for_database(partial(_handle_error, job, error))
        else:
            wait_for_database(partial(_finish_job, job, Job.State.DONE, result=result))
    ended = wait_for_database(partial(Job.objects.get, pk=job.pk))
    seconds = time.monotonic() - start
    logger.log(
        level, "job %s (%s, “%s”) ends: %s after %.1f s", job.pk, job.kind, job.title, ended.state, seconds
    )
    return ended


def _handle_error(job: Job, error: Exception) -> None:
    """What becomes of a job whose handler raised this."""
    if isinstance(error, Cancelled):
        _finish_job(job, Job.State.CANCELLED)
    elif isinstance(error, LostJob):
        logger.warning("job %s was taken over by another worker", job.pk)
    elif isinstance(error, WorkerDied):
        for current in Job.objects.filter(pk=job.pk, state=Job.State.RUNNING, attempt=job.attempt):
            _record_death(current, str(error))
    elif isinstance(error, Interrupted | StorageAway) or is_connection_lost(error):
        _requeue_interrupted(job, str(error).strip() or "it was told to stop")
    elif isinstance(error, AssayError):
        _finish_job(job, Job.State.FAILED, error=error)
    else:  # the reason belongs on the page, whatever it is
        logger.error("job %s failed", job.pk, exc_info=error)
        _finish_job(job, Job.State.FAILED, error=AssayError("{why}", why=f"{type(error).__name__}: {error}"))


def _get_handler(kind: str) -> Handler:
    """Of whichever app does this kind of job: a process may have imported the tasks of some apps only."""
    if kind not in HANDLERS:
        autodiscover_modules("tasks")
    if kind not in HANDLERS:
        raise AssayError(N_("Nothing here does jobs of the kind {kind}."), kind=kind)
    return HANDLERS[kind]


def run_now(job: Job, *, watcher: Watcher | None = None) -> Job:
    """Run a job and what it made to depend on it, in this process; raises the reason if one failed.

    A worker may be faster at what depends on it, which is told to all as soon as it can run: that is waited for. What
    was given back on the way is taken up again.
    """
    done = run(job.pk, watcher=watcher)
    while _is_running_elsewhere(done) or _is_requeued(done):
        time.sleep(WAIT_SECONDS)
        done = run(job.pk, watcher=watcher)
    if done.state == Job.State.FAILED:
        raise AssayError(N_("The job failed: {why}"), why=done.error)
    if done.state != Job.State.DONE:
        raise Conflict(N_("The job is {state}, run by another process."), state=done.state)
    for dependent in done.dependents.filter(state=Job.State.QUEUED).order_by("pk"):
        run_now(dependent, watcher=watcher)
    return done


def _is_running_elsewhere(job: Job) -> bool:
    return job.depends_on_id is not None and job.state == Job.State.RUNNING


def _is_requeued(job: Job) -> bool:
    return job.state == Job.State.QUEUED and job.attempt > 0


@transaction.atomic
def cancel(*, job: Job, actor: Person | None = None) -> Job:
    """Cancel: at once if it waits, at its next report if it runs. Cancelling twice changes nothing. Raises Conflict for
    the deletion of a study, of which nothing half-done may stay.
    """
    locked = Job.objects.select_for_update().filter(pk=job.pk).first()
    if locked is None:
        raise NotFound(N_("There is no such job."))
    if StudyDeletion.objects.filter(job=locked).exists():
        raise Conflict(N_("The deletion of a study cannot be cancelled once it has begun."))
    if locked.state == Job.State.QUEUED:
        locked.state, locked.finished_at = Job.State.CANCELLED, Now()
    locked.cancel_requested = True
    locked.save(update_fields=["state", "finished_at", "cancel_requested"])
    locked.refresh_from_db(fields=["finished_at"])
    _cancel_dependents(locked)
    record(actor=actor, verb=AnnotationVerb.CANCEL_JOB, target=f"job:{locked.pk}")
    return locked


@transaction.atomic
def retry(*, job: Job, actor: Person | None = None) -> Job:
    """Queue a failed job anew, and what was cancelled because it waited for it. Raises Conflict for any other."""
    locked = Job.objects.select_for_update().filter(pk=job.pk).first()
    if locked is None:
        raise NotFound(N_("There is no such job."))
    if locked.state != Job.State.FAILED:
        raise Conflict(
            N_("Job {job} is {state}; only a failed job is tried again."), job=locked.pk, state=locked.state
        )
    _queue_anew(locked)
    record(actor=actor, verb=AnnotationVerb.RETRY_JOB, target=f"job:{locked.pk}")
    transaction.on_commit(partial(_send_message, locked.pk, locked.kind))
    return locked


def _queue_anew(job: Job) -> None:
    job.state, job.error, job.log, job.finished_at = Job.State.QUEUED, "", "", None
    job.result.pop("error", None)
    # A job that killed its workers gets all its attempts again: the machine has more memory now, say.
    job.deaths, job.progress, job.furthest, job.stage = 0, 0, 0, ""
    job.worker, job.heartbeat, job.suspected_at, job.is_stopping = "", None, None, False
    job.save()
    for dependent in job.dependents.filter(state=Job.State.CANCELLED, cancel_requested=False):
        _queue_anew(dependent)


def hold_jobs(job_model: type[Job], reason: AssayError) -> int:
    """Cancel all that wait or run, of whom no worker here has any, and say why on their pages; how many. The model may
    be that of an earlier version.
    """
    at_work = job_model.objects.filter(state__in=(Job.State.QUEUED, Job.State.RUNNING))
    fields = _build_error_fields(reason)
    number = 0
    for pk, stored in at_work.values_list("pk", "result"):
        changes = {**fields, "result": {**stored, **fields["result"]}, "state": Job.State.CANCELLED}
        number += job_model.objects.filter(pk=pk).update(**changes, worker="", finished_at=Now())
    return number


def sweep() -> int:
    """Give back the rows of dead workers, and send again what waits. The number of messages sent."""
    _recover_dead_jobs()
    for dead in Job.objects.filter(dependents__state=Job.State.QUEUED, state__in=DEAD).distinct():
        _cancel_dependents(dead)
    waiting = Job.objects.filter(
        Q(depends_on=None) | Q(depends_on__state=Job.State.DONE), state=Job.State.QUEUED
    )
    is_due = Q(attempt__gt=0) | Q(created_at__lt=Now() - RESEND_AFTER)
    due = list(waiting.filter(is_due).values_list("pk", "kind"))
    for job_id, kind in due:
        _send_message(job_id, kind)
    return len(due)


@transaction.atomic
def _recover_dead_jobs() -> None:
    """A worker is dead that was silent for long, and still was when it had been suspected for a while: after the
    database itself was away all are silent, and each gets the time for a beat.
    """
    patience, chance = settings.JOB_STALE_SECONDS, 2 * settings.JOB_HEARTBEAT_SECONDS
    running = Job.objects.filter(state=Job.State.RUNNING)
    dead = running.filter(heartbeat__lt=seconds_ago(patience), suspected_at__lt=seconds_ago(chance))
    for job in dead.select_for_update(of=("self",), skip_locked=True):
        _record_death(job, "no heartbeat")
    running.filter(heartbeat__lt=seconds_ago(patience / 2), suspected_at=None).update(suspected_at=Now())


def _claim_job(job_id: int) -> Job | None:
    claimed = (
        Job.objects.filter(pk=job_id, state=Job.State.QUEUED)
        .filter(Q(depends_on=None) | Q(depends_on__state=Job.State.DONE))
        .update(
            state=Job.State.RUNNING,
            attempt=F("attempt") + 1,
            started_at=Now(),
            worker=f"{socket.gethostname()}:{os.getpid()}"[:100],
            **_build_heartbeat(),
        )
    )
    return Job.objects.get(pk=job_id) if claimed else None


def _build_heartbeat() -> dict[str, Any]:
    """What a living worker writes. One that is told to stop says so: if it is killed then, that is no death."""
    return {"heartbeat": Now(), "suspected_at": None, "is_stopping": is_shutting_down()}


def _record_death(job: Job, reason_text: str) -> None:
    """The job's worker is dead: give the row back, unless too many died over it without getting further."""
    got_further = job.progress >= job.furthest + MIN_PROGRESS
    deaths = 0 if got_further else job.deaths + (not job.is_stopping)
    logger.error(
        "job %s (%s, “%s”): the worker %s died at %.0f%% (%s): %s of %s deaths without getting further",
        *(job.pk, job.kind, job.title, job.worker, 100 * job.progress, reason_text, deaths),
        settings.JOB_MAX_ATTEMPTS,
    )
    if deaths >= settings.JOB_MAX_ATTEMPTS:
        reason = N_(
            "The worker died {attempts} times while doing this and got no further. Most likely the machine ran out of"
            " memory: look for job {job} in the worker’s log and for “out of memory” in the system’s log (dmesg)."
        )
        _finish_job(job, Job.State.FAILED, error=AssayError(reason, attempts=deaths, job=job.pk))
    else:
        _requeue_job(job, deaths=deaths)


def _requeue_interrupted(job: Job, reason: str) -> None:
    """Put the row back of a job that was broken off by no fault of its own; the sweep sends its message."""
    logger.warning("job %s (%s, “%s”) is given back: %s", job.pk, job.kind, job.title, reason)
    _requeue_job(job)


def _requeue_job(job: Job, **changes: Any) -> None:
    """Back into the queue, unless somebody cancelled it meanwhile: asked and written in one statement."""
    changes |= {"worker": "", "heartbeat": None, "suspected_at": None, "is_stopping": False}
    row = Job.objects.filter(pk=job.pk, state=Job.State.RUNNING, attempt=job.attempt)
    furthest = Greatest(F("furthest"), F("progress"))
    if not row.filter(cancel_requested=False).update(state=Job.State.QUEUED, furthest=furthest, **changes):
        _finish_job(job, Job.State.CANCELLED)


@transaction.atomic
def _finish_job(
    job: Job, state: str, *, error: AssayError | None = None, result: dict[str, Any] | None = None
) -> None:
    row = Job.objects.filter(pk=job.pk, state=Job.State.RUNNING, attempt=job.attempt)
    changes: dict[str, Any] = {"state": state, "finished_at": Now()}
    if error is not None:  # beside what the handler kept until then
        stored = row.values_list("result", flat=True).first() or {}
        changes |= {"error": str(error), "result": {**stored, **_build_error_fields(error)["result"]}}
    if state == Job.State.DONE:
        changes |= {"progress": 1.0, "result": result or {}}
    if not row.update(**changes):
        return
    job.state = state
    if state == Job.State.FAILED:
        job_failed.send_robust(sender=Job, job=job)
    if state == Job.State.DONE:
        for dependent_id, kind in job.dependents.values_list("pk", "kind"):
            transaction.on_commit(partial(_send_message, dependent_id, kind))
    else:
        _cancel_dependents(job)


def _build_error_fields(error: AssayError | None) -> dict[str, Any]:
    """The fields that say why a job ended: in English for the log, and to be told in any language."""
    return {} if error is None else {"error": str(error), "result": {"error": error_to_json(error)}}


def _cancel_dependents(job: Job) -> None:
    """What waits for a failed or cancelled job can never run: say so, all the way down."""
    if job.state not in DEAD:
        return
    for dependent in Job.objects.filter(depends_on=job, state=Job.State.QUEUED):
        error = AssayError(N_("It waited for “{title}”, which did not come to its end."), title=job.title)
        Job.objects.filter(pk=dependent.pk).update(
            state=Job.State.CANCELLED, finished_at=Now(), **_build_error_fields(error)
        )
        dependent.state = Job.State.CANCELLED
        _cancel_dependents(dependent)


def _send_message(job_id: int, kind: str) -> None:
    """Tell the workers of its queue. A broker that is away loses nothing and holds nobody: the sweep sends again."""
    global _broker_rests_until  # noqa: PLW0603 (of this process)
    if time.monotonic() < _broker_rests_until:
        return
    try:
        current_app.send_task("annotation.run_job", args=[job_id], queue=get_queue(kind), retry=False)
    except Exception as error:  # any broker's own kind of exception
        _broker_rests_until = time.monotonic() + BROKER_REST_SECONDS
        logger.warning(
            "the broker did not take the message for job %s; the sweep sends it: %s", job_id, error
        )


class _Heartbeat:
    """Beats for a job from a thread of its own, so that a long step without a report is no death."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        row = Job.objects.filter(pk=self._job.pk, state=Job.State.RUNNING, attempt=self._job.attempt)
        with closing(connection):
            while not self._stop.wait(settings.JOB_HEARTBEAT_SECONDS):
                try:
                    row.all().update(**_build_heartbeat())
                except Error as error:  # the next beat, on a new connection, may come through
                    logger.warning("no heartbeat for job %s: %s", self._job.pk, str(error).strip())
                    connection.close()


REPORT_SECONDS = 0.5


class ProgressReporter:
    """Reports a job's progress from a thread with its own connection, because nobody sees what the transaction writes
    before its end. SQLite has one writer at a time, so nothing is reported there until the transaction is over.
    """

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._progress, self._stage = 0.0, ""
        self._refusal: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._can_report = connection.vendor != "sqlite"

    def __enter__(self) -> ProgressReporter:
        if self._can_report:
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        if self._can_report:
            self._thread.join()

    def report(self, progress: float, stage: str = "") -> None:
        """Raises what the last report raised: Cancelled, LostJob or Interrupted."""
        self._progress, self._stage = progress, stage or self._stage
        if self._refusal is not None:
            raise self._refusal

    def _run(self) -> None:
        with closing(connection):
            while not self._stop.wait(REPORT_SECONDS):
                try:
                    self._context.try_report(self._progress, self._stage)
                except (Cancelled, LostJob, Interrupted) as error:
                    self._refusal = error
                    return
                except Error as error:  # the next one, on a new connection, may come through
                    logger.warning("could not tell how far a job is: %s", error)
                    connection.close()


def is_abandoned(job: Job) -> bool:
    """Whether the job is requeued, its heartbeat has stopped, or its process, if it ran on this machine, is gone."""
    if job.state == Job.State.QUEUED and job.attempt:
        return True
    if job.state != Job.State.RUNNING or job.heartbeat is None:
        return False
    if is_silent(job):
        return True
    host, _colon, process = job.worker.rpartition(":")
    return host == socket.gethostname() and process.isdecimal() and not _is_process_alive(int(process))


def _is_process_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another person's process is one, too
        return True
    return True
