"""Runs that ask endpoints: beginning their job, and the books that the job keeps while it asks.

What is under way stands in rows: inserted before it is sent, deleted in the transaction that stores what came back.
What a stop leaves of them is what it lost. Every write first takes hold of the job's row, so that a worker that was
taken for dead stores nothing beside the worker that went on.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Generic, TypeVar

from django.db import (
    DatabaseError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    connection,
    transaction,
)
from django.db.models import F, Model
from django.utils import timezone

from annotation.core.errors import N_, AssayError, Conflict
from annotation.models import Job, Person, Prompt, Response
from annotation.services import jobs
from annotation.services.audit import record
from annotation.services.jobs import is_abandoned
from benchmark.domain.llm_client import (
    MAX_CONCURRENCY,
    EndpointAnswer,
    RequestFailure,
    RequestTotals,
    check_endpoint,
)
from benchmark.domain.llm_client.settings import list_differences
from benchmark.domain.verbs import BenchmarkVerb
from benchmark.models import EndpointRun
from benchmark.selectors.endpoint_runs import list_answered, list_collection_responses, list_unanswered

CONCURRENCY = 16
TIMEOUT, MAX_TIMEOUT_SECONDS = 120.0, 3600.0
MAX_MODEL_CHARACTERS = 200
MAX_ATTEMPTS = 32767
REPORT_SECONDS = 0.5
POINT_SECONDS = 2.0
"""At least so long between two points of the live curves; further apart the longer it takes."""
POINTS = 200
RATE_SECONDS = 10.0
TRANSIENT_TRIES, TRANSIENT_SECONDS = 5, 1.0
"""How often a write is tried, and the seconds after the first; after each other one so much longer."""
STAGES = {
    "": N_("asking"),
    "limited": N_("waiting: the endpoint limits the rate"),
    "away": N_("waiting: the endpoint does not answer"),
}
logger = logging.getLogger(__name__)
R = TypeVar("R", bound=EndpointRun)
T = TypeVar("T")


def check_model(name: str) -> str:
    if not name.strip() or len(name) > MAX_MODEL_CHARACTERS or not name.isprintable():
        raise AssayError(
            N_("Name the model as the endpoint knows it, in 1 to {longest} characters."),
            longest=MAX_MODEL_CHARACTERS,
        )
    return name


def check_pace(concurrency: int, timeout: float) -> None:
    if not 1 <= concurrency <= MAX_CONCURRENCY:
        raise AssayError(
            N_("Ask 1 to {most} at once, not {number}."), most=MAX_CONCURRENCY, number=concurrency
        )
    if not 0 < timeout <= MAX_TIMEOUT_SECONDS:
        raise AssayError(
            N_("Give a request up after more than 0 and at most {longest} seconds."),
            longest=int(MAX_TIMEOUT_SECONDS),
        )


def check_unchanged(run: EndpointRun, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Responses that came about differently are no one collection."""
    changes = list_differences(old, new)
    if changes:
        raise Conflict(
            N_(
                "{run} was begun otherwise ({what}); go on with that, or name another collection for another run."
            ),
            run=str(run),
            what="; ".join(changes),
        )


def refuse_unlisted_endpoints(urls: Sequence[str], endpoints: Mapping[str, str], command: str) -> None:
    """A page asks no address but those of the settings, also where a command began."""
    listed = {check_endpoint(url) for url in endpoints.values()}
    for url in urls:
        if url not in listed:
            raise Conflict(
                N_(
                    "The settings do not name the endpoint {endpoint} (ASSAY_ENDPOINTS), so no page asks it; the"
                    " command {command} goes on with it."
                ),
                endpoint=url,
                command=command,
            )


def start_job(
    run: R,
    *,
    kind: str,
    subject: str,
    concurrency: int,
    timeout: float,
    actor: Person | None,
    send: bool,
    further: Sequence[R] = (),
    **details: Any,
) -> R:
    """Enqueue a job that goes on with the run, and with the ``further`` samples; Conflict while another is at any of
    them. ``subject`` and ``details`` are for the audit trail.
    """
    runs = [run, *further]
    for job in _lock_open_jobs(runs):
        # Its process was killed, and there may be no worker that sweeps.
        jobs.cancel(job=job, actor=actor)
    payload, title = {"run": run.pk}, str(run)
    if further:
        payload["samples"], title = len(runs), f"{title} – {further[-1].collection}"
        details["samples"] = len(runs)
    job = jobs.enqueue(kind=kind, payload=payload, title=title[:200], actor=actor, send=send)
    for each in runs:
        each.job, each.concurrency, each.timeout, each.finished_at = job, concurrency, timeout, None
        each.save(update_fields=["job", "concurrency", "timeout", "finished_at"])
    record(
        actor=actor,
        verb=BenchmarkVerb.get(kind),
        target=f"{subject}:{run.pk}",
        model=run.model.name,
        dataset=run.dataset.name,
        collection=run.collection.name,
        endpoint=run.endpoint,
        served_model=run.served_model,
        settings=run.settings,
        job=job.pk,
        **details,
    )
    return run


def _lock_open_jobs(runs: Sequence[R]) -> list[Job]:
    """Lock the runs; the jobs of processes that died at them. Conflict where one is at work."""
    rows = type(runs[0])._default_manager.select_for_update(of=("self",))
    names = ("job", "model", "dataset", "collection")
    locked = rows.select_related(*names).filter(pk__in=[run.pk for run in runs]).order_by("pk")
    open_jobs: dict[int, Job] = {}
    for run in locked:
        if run.job is None or run.job.is_over:
            continue
        if not is_abandoned(run.job):
            raise Conflict(
                N_("{run} is being collected now; wait until that is done, or cancel it."), run=str(run)
            )
        open_jobs[run.job.pk] = run.job
    return list(open_jobs.values())


def create_responses(run: EndpointRun, responses: Sequence[Response]) -> list[Response]:
    """Those that are stored: where an import put in a response meanwhile, that one stays."""
    left = list(responses)
    while left:
        try:
            with transaction.atomic():
                Response.objects.bulk_create(left)
        except IntegrityError:
            answered = list_answered(run, [response.prompt_id for response in left])
            if not answered:
                raise
            left = [response for response in left if response.prompt_id not in answered]
        else:
            break
    return left


def build_origin(answer: EndpointAnswer) -> dict[str, Any]:
    """The fields of an EndpointOrigin."""
    return {
        "served_model": answer.served_model,
        "fingerprint": answer.fingerprint,
        "finish_reason": answer.finish_reason,
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "seconds": answer.seconds,
        "attempts": min(answer.attempts, MAX_ATTEMPTS),
        "answered_at": answer.answered_at,
    }


def build_failure(failure: RequestFailure) -> dict[str, Any]:
    """The fields of an EndpointFailure."""
    return {
        "status": failure.status,
        "error": failure.error,
        "attempts": min(failure.attempts, MAX_ATTEMPTS),
    }


class EndpointJob(ABC, Generic[R]):
    """One job at work on one run, or on the samples of a gathering, one after another: its counts are of all."""

    pending_model: ClassVar[type[Model]]
    """The rows of what is under way, unique by run and prompt."""
    rate_name: ClassVar[str]

    def __init__(self, runs: Sequence[R], context: jobs.JobContext) -> None:
        self._runs, self._run, self._context = runs, runs[0], context
        self._answers = self._failures = self._replaced = self._already = self._lost = self._pending = 0
        self._totals = self._counted = self._totals_before = RequestTotals()
        self._began = self._ticked = time.monotonic()
        self._reported = self._pointed = 0.0
        self._prompts = len(runs) * Prompt.objects.filter(dataset=runs[0].dataset_id).count()
        self._stored = 0
        self._recent: deque[tuple[float, int]] = deque()

    def work(self) -> dict[str, Any]:
        """Ask for what is not stored; the result of the job."""
        self._stored = sum(list_collection_responses(run).count() for run in self._runs)
        for run in self._runs:
            self._run, self._totals_before = run, self._totals
            self._work_on_run()
        return self._make_result()

    def _work_on_run(self) -> None:
        self._retry_write(self._count_lost)
        try:
            self._ask()
        except jobs.LostJob:
            raise  # whoever took the job over counts what this one lost
        except BaseException:
            self._retry_write(self._count_lost)
            raise
        self._retry_write(self._finish)

    @abstractmethod
    def _ask(self) -> None:
        """Send the requests and store what comes of them."""

    def _compute_share(self) -> float:
        """How much of the run is done, 0 to 1."""
        return self._stored / max(1, self._prompts)

    def _record_totals(self, totals: RequestTotals) -> None:
        """What was sent for this run comes to what was sent for those before it."""
        self._totals = self._totals_before.add(totals)

    def _record_sent(self, prompts: Sequence[int]) -> None:
        self._retry_write(lambda: self._store_pending(prompts))
        self._pending += len(prompts)

    def _store_pending(self, prompts: Sequence[int]) -> None:
        rows = [self.pending_model(run=self._run, prompt_id=prompt) for prompt in prompts]
        with self._hold_job():
            # Done again where the connection was lost at the very commit: then they are there.
            self.pending_model._default_manager.bulk_create(rows, ignore_conflicts=True)

    def _delete_pending(self, prompts: Sequence[int]) -> None:
        self.pending_model._default_manager.filter(run=self._run, prompt__in=prompts).delete()

    def _count_lost(self) -> None:
        """What this worker or an earlier one left under way is lost: counted, and asked for again."""
        before = self._lost
        with self._hold_job():
            lost, _by_model = self.pending_model._default_manager.filter(run=self._run).delete()
            self._update_run(lost=F("lost") + lost)
            self._lost = before + lost
            self._context.save_result(self._make_result())

    def _finish(self) -> None:
        with self._hold_job():
            if not list_unanswered(self._run).exists():
                self._update_run(finished_at=timezone.now())

    def _update_run(self, **values: Any) -> None:
        type(self._run)._default_manager.filter(pk=self._run.pk).update(**values)

    @contextmanager
    def _hold_job(self) -> Iterator[None]:
        """A transaction that holds the job's row: LostJob, and nothing is stored, where it is another worker's.

        With it go the requests and the seconds since the last one.
        """
        now, totals = time.monotonic(), self._totals
        with transaction.atomic():
            self._context.save_result(self._make_result())
            self._update_run(
                requests=F("requests") + totals.requests - self._counted.requests,
                seconds=F("seconds") + now - self._ticked,
            )
            yield
        self._ticked, self._counted = now, totals

    def _report(self) -> None:
        """Report how far it is, at most twice a second: this is where a cancel arrives."""
        now = time.monotonic()
        if now - self._reported < REPORT_SECONDS:
            return
        self._reported = now
        values: dict[str, float] = {}
        if now - self._pointed >= max(POINT_SECONDS, (now - self._began) / POINTS):
            self._pointed = now
            values = {
                self.rate_name: round(self._compute_rate(now), 2),
                N_("retries"): self._totals.retries,
                N_("without an answer"): self._failures,
                N_("under way"): self._pending,
            }
        try:
            self._context.report(min(1.0, self._compute_share()), STAGES[self._totals.pause], **values)
        except (OperationalError, InterfaceError) as error:  # no more than a report
            _mend_connection(error)

    def _compute_rate(self, now: float) -> float:
        """Answers a second of late."""
        while self._recent and now - self._recent[0][0] > RATE_SECONDS:
            self._recent.popleft()
        span = min(RATE_SECONDS, now - self._began)
        return sum(number for _at, number in self._recent) / span if span > 0 else 0.0

    def _make_result(self) -> dict[str, Any]:
        seconds = time.monotonic() - self._began
        return {
            "prompts": self._prompts,
            "answers": self._answers,
            "failures": self._failures,
            "already_there": self._already,
            "replaced": self._replaced,
            "lost": self._lost,
            "requests": self._totals.requests,
            "retries": self._totals.retries,
            "limited": self._totals.limited,
            "waited": round(self._totals.waited, 2),
            "seconds": round(seconds, 2),
            "per_second": round(self._answers / seconds, 3) if seconds and self._answers else None,
        }

    def _retry_write(self, write: Callable[[], T]) -> T:
        """Do it again where the database was away or locked for a moment: what came back must not be lost."""
        for attempt in range(1, TRANSIENT_TRIES + 1):
            try:
                return write()
            except (OperationalError, InterfaceError) as error:
                if connection.in_atomic_block or attempt == TRANSIENT_TRIES:
                    raise
                _mend_connection(error)
                time.sleep(attempt * TRANSIENT_SECONDS)
        raise AssertionError("the last try returns or raises")


def _mend_connection(error: DatabaseError | InterfaceError) -> None:
    logger.warning("the database refused for a moment: %s", error)
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()
