"""Long work: a row that one worker claims, beats for, and finishes (docs/decisions/jobs-are-rows.md).

A message only says that a row waits; delivered twice, the second claim finds nothing. A worker that dies
stops beating, and the sweep gives its row to another, up to ``JOB_MAX_ATTEMPTS`` times. Handlers therefore
must be resumable: what a handler did before it died must not be done twice.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from functools import partial
from typing import Any

from celery import current_app
from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone
from django.utils.module_loading import autodiscover_modules

from annotation.errors import N_, AssayError, Conflict, NotFound
from annotation.models import Job, Person
from annotation.services.audit import record
from annotation.wording import kept_error

logger = logging.getLogger(__name__)
Handler = Callable[["JobContext"], dict[str, Any]]
Watcher = Callable[[float, str], None]
HANDLERS: dict[str, Handler] = {}
HISTORY_LIMIT = 2000
RESEND_AFTER = timedelta(seconds=10)
WAIT_SECONDS = 0.5
DEAD = (Job.State.FAILED, Job.State.CANCELLED)


class Cancelled(Exception):
    """Somebody cancelled the job; the handler must let it pass."""


class LostJob(Exception):
    """Another worker has taken the row over; whatever this one does further must not count."""


def handles(kind: str) -> Callable[[Handler], Handler]:
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

    @property
    def is_held(self) -> bool:
        """Whether the job is still this worker's: nobody took it over, nobody declared it dead."""
        return self._row().exists()

    def report(self, progress: float, stage: str = "", **values: float) -> None:
        """Show ``progress`` (0 to 1), what is being done (an English phrase), and points for the live curves.

        Raises Cancelled or LostJob, which the handler must not catch.
        """
        row = self._row()
        self.job.progress = progress
        self.job.stage = stage or self.job.stage
        changes: dict[str, Any] = {"progress": progress, "stage": self.job.stage, "heartbeat": timezone.now()}
        if values:
            points = [{"at": progress, "stage": stage, "name": n, "value": v} for n, v in values.items()]
            self.job.history = (self.job.history + points)[-HISTORY_LIMIT:]
            changes["history"] = self.job.history
        if not row.update(**changes):
            raise LostJob
        if self._watcher is not None:
            self._watcher(progress, self.job.stage)
        if row.filter(cancel_requested=True).exists():
            raise Cancelled

    def keep(self, result: dict[str, Any]) -> None:
        """Keep the result in the transaction of the work itself, so that it is done once. Raises LostJob."""
        if not self._row().update(result=result):
            raise LostJob

    def _row(self) -> QuerySet[Job]:
        return Job.objects.filter(pk=self.job.pk, state=Job.State.RUNNING, attempt=self.attempt)


def enqueue(
    *,
    kind: str,
    payload: dict[str, Any],
    title: str = "",
    actor: Person | None = None,
    depends_on: Job | None = None,
    send: bool = True,
) -> Job:
    """Make the row, and on commit tell a worker. With ``send`` False the caller runs it in its own process."""
    job = Job.objects.create(kind=kind, payload=payload, title=title, created_by=actor, depends_on=depends_on)
    if send and (depends_on is None or depends_on.state == Job.State.DONE):
        transaction.on_commit(partial(_send, job.pk))
    return job


def run(job_id: int, *, watcher: Watcher | None = None) -> Job:
    """Claim the job and do it to its end, here. Does nothing if it is claimed already or may not run yet."""
    job = _claim(job_id)
    if job is None:
        return Job.objects.get(pk=job_id)
    context = JobContext(job, watcher)
    with _Heartbeat(job):
        try:
            result = _handler(job.kind)(context)
        except Cancelled:
            _finish(job, Job.State.CANCELLED)
        except LostJob:
            logger.warning("job %s was taken over by another worker", job.pk)
        except AssayError as error:
            _finish(job, Job.State.FAILED, error=error)
        except Exception as error:  # the reason belongs on the page, whatever it is
            logger.exception("job %s failed", job.pk)
            _finish(job, Job.State.FAILED, error=AssayError("{why}", why=f"{type(error).__name__}: {error}"))
        else:
            _finish(job, Job.State.DONE, result=result)
    job.refresh_from_db()
    return job


def _handler(kind: str) -> Handler:
    """Of whichever app does this kind of job: a process may have imported the tasks of some apps only."""
    if kind not in HANDLERS:
        autodiscover_modules("tasks")
    if kind not in HANDLERS:
        raise AssayError(N_("Nothing here does jobs of the kind {kind}."), kind=kind)
    return HANDLERS[kind]


def run_now(job: Job, *, watcher: Watcher | None = None) -> Job:
    """Run a job and what it made to depend on it, in this process; raises the reason if one failed.

    A worker may be faster at what depends on it, which is told to all as soon as it can run: that is waited for.
    """
    done = run(job.pk, watcher=watcher)
    while job.depends_on_id is not None and done.state == Job.State.RUNNING:
        time.sleep(WAIT_SECONDS)
        done = run(job.pk, watcher=watcher)
    if done.state == Job.State.FAILED:
        raise AssayError(N_("The job failed: {why}"), why=done.error)
    if done.state != Job.State.DONE:
        raise Conflict(N_("The job is {state}, run by another process."), state=done.state)
    for dependent in done.dependents.filter(state=Job.State.QUEUED).order_by("pk"):
        run_now(dependent, watcher=watcher)
    return done


@transaction.atomic
def cancel(*, job: Job, actor: Person | None = None) -> Job:
    """Cancel: at once if it waits, at its next report if it runs. Cancelling twice changes nothing."""
    locked = Job.objects.select_for_update().filter(pk=job.pk).first()
    if locked is None:
        raise NotFound(N_("There is no such job."))
    if locked.state == Job.State.QUEUED:
        locked.state, locked.finished_at = Job.State.CANCELLED, timezone.now()
    locked.cancel_requested = True
    locked.save(update_fields=["state", "finished_at", "cancel_requested"])
    _close_dependents(locked)
    record(actor=actor, verb="cancel_job", target=f"job:{locked.pk}")
    return locked


def sweep() -> int:
    """Give back the rows of dead workers, and send again what waits. The number of messages sent."""
    now = timezone.now()
    silent = now - timedelta(seconds=settings.JOB_STALE_SECONDS)
    stale = Job.objects.filter(state=Job.State.RUNNING, heartbeat__lt=silent)
    for job in stale.filter(attempt__gte=settings.JOB_MAX_ATTEMPTS):
        reason = N_("The worker died {attempts} times while doing this; look at its log.")
        _finish(job, Job.State.FAILED, error=AssayError(reason, attempts=job.attempt))
    for job in stale.filter(cancel_requested=True):
        _finish(job, Job.State.CANCELLED)
    stale.update(state=Job.State.QUEUED, worker="", heartbeat=None)
    for dead in Job.objects.filter(dependents__state=Job.State.QUEUED, state__in=DEAD).distinct():
        _close_dependents(dead)
    waiting = Job.objects.filter(
        Q(depends_on=None) | Q(depends_on__state=Job.State.DONE), state=Job.State.QUEUED
    )
    due = list(
        waiting.filter(Q(attempt__gt=0) | Q(created_at__lt=now - RESEND_AFTER)).values_list("pk", flat=True)
    )
    for job_id in due:
        _send(job_id)
    return len(due)


def _claim(job_id: int) -> Job | None:
    claimed = (
        Job.objects.filter(pk=job_id, state=Job.State.QUEUED)
        .filter(Q(depends_on=None) | Q(depends_on__state=Job.State.DONE))
        .update(
            state=Job.State.RUNNING,
            attempt=F("attempt") + 1,
            heartbeat=timezone.now(),
            started_at=timezone.now(),
            worker=f"{socket.gethostname()}:{os.getpid()}"[:100],
        )
    )
    return Job.objects.get(pk=job_id) if claimed else None


@transaction.atomic
def _finish(
    job: Job, state: str, *, error: AssayError | None = None, result: dict[str, Any] | None = None
) -> None:
    mine = Job.objects.filter(pk=job.pk, state=Job.State.RUNNING, attempt=job.attempt)
    changes: dict[str, Any] = {"state": state, "finished_at": timezone.now()}
    if error is not None:  # beside what the handler kept until then
        kept = mine.values_list("result", flat=True).first() or {}
        changes |= {"error": str(error), "result": {**kept, **_told(error)["result"]}}
    if state == Job.State.DONE:
        changes |= {"progress": 1.0, "result": result or {}}
    if not mine.update(**changes):
        return
    job.state = state
    if state == Job.State.DONE:
        for dependent_id in job.dependents.values_list("pk", flat=True):
            transaction.on_commit(partial(_send, dependent_id))
    else:
        _close_dependents(job)


def _told(error: AssayError | None) -> dict[str, Any]:
    """The fields that say why a job ended: in English for the log, and to be told in any language."""
    return {} if error is None else {"error": str(error), "result": {"error": kept_error(error)}}


def _close_dependents(job: Job) -> None:
    """What waits for a failed or cancelled job can never run: say so, all the way down."""
    if job.state not in DEAD:
        return
    for dependent in Job.objects.filter(depends_on=job, state=Job.State.QUEUED):
        why = AssayError(N_("It waited for “{title}”, which did not come to its end."), title=job.title)
        Job.objects.filter(pk=dependent.pk).update(
            state=Job.State.CANCELLED, finished_at=timezone.now(), **_told(why)
        )
        dependent.state = Job.State.CANCELLED
        _close_dependents(dependent)


def _send(job_id: int) -> None:
    """Tell the workers. A broker that is away loses nothing: the sweep sends again."""
    kind = Job.objects.values_list("kind", flat=True).get(pk=job_id)
    try:
        current_app.send_task("annotation.run_job", args=[job_id], retry=False)
    except Exception as error:  # any broker's own kind of exception
        logger.warning("the broker did not take the message for job %s (%s): %s", job_id, kind, error)


class _Heartbeat:
    """Beats for a job from a thread of its own, so that a long step without a report is no death."""

    def __init__(self, job: Job) -> None:
        self._row = Job.objects.filter(pk=job.pk, state=Job.State.RUNNING, attempt=job.attempt)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def _beat(self) -> None:
        with closing(connection):
            while not self._stop.wait(settings.JOB_HEARTBEAT_SECONDS):
                try:
                    self._row.all().update(heartbeat=timezone.now())
                except DatabaseError as error:  # a locked database now; the next beat comes
                    logger.warning("no heartbeat: %s", error)
