"""Beginning to gather responses from an endpoint, and going on after a stop; the work is ``collecting_job``'s.

Gathering responses from an endpoint: asked for once, stored as they come, gone on with after any stop.

What is under way stands in PendingRequest rows: inserted before it is sent, deleted in the transaction that stores what
came back. What a stop leaves of them is what it lost. Every write first takes hold of the job's row, so that a worker
that was taken for dead stores nothing beside the one that went on.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError, connection, transaction
from django.db.models import F
from django.utils import timezone

from annotation.core.errors import N_, AssayError, Conflict
from annotation.core.names import check_printable_name
from annotation.domain.datasets import response_sha256
from annotation.models import (
    Collection,
    Dataset,
    EvaluatedModel,
    Person,
    Prompt,
    Response,
)
from annotation.services import jobs
from annotation.services.audit import record
from annotation.services.jobs import is_abandoned
from annotation.services.sharing import refuse_borrowed
from benchmark.domain.llm_client import (
    ChatQuestion,
    Endpoint,
    EndpointAnswer,
    RequestFailure,
    RequestTotals,
    check_endpoint,
    find_key,
    send_requests,
)
from benchmark.domain.llm_client.settings import (
    build_question,
    check_settings,
    list_differences,
    select_parameters,
)
from benchmark.models import CollectedResponse, CollectionRun, FailedRequest, PendingRequest
from benchmark.selectors.collection import (
    list_answered,
    list_collection_responses,
    list_texts_to_ask,
    list_unanswered,
)
from benchmark.selectors.leaderboards.runs import refuse_sealed_dataset

KIND = "collect_responses"
CONCURRENCY, MAX_CONCURRENCY = 16, 512
TIMEOUT, MAX_TIMEOUT_SECONDS = 120.0, 3600.0
MAX_MODEL_CHARACTERS = 200


@transaction.atomic
def start_collection(
    *,
    model: str,
    dataset: Dataset,
    endpoint: str,
    collection: str = "",
    served_model: str = "",
    settings: Mapping[str, Any] | None = None,
    concurrency: int = CONCURRENCY,
    timeout: float = TIMEOUT,
    actor: Person | None = None,
    send: bool = True,
) -> CollectionRun:
    """Collect the model's responses to the dataset's prompts; go on where this was begun with the same settings.

    The model and the collection are made if they are new. Only prompts without a response in the collection are asked,
    whoever put the others in. ``concurrency`` and ``timeout`` may differ each time: no response depends on them.
    """
    if actor is not None:
        refuse_sealed_dataset(actor, dataset)
    url = check_endpoint(endpoint)
    checked_settings = check_settings(settings or {}, key=find_key(url))
    endpoint_model = _check_model(served_model or model)
    _check_numbers(concurrency, timeout)
    check_printable_name(model)
    if collection:
        check_printable_name(collection)
    refuse_borrowed(dataset)
    if not dataset.prompts.exists():
        raise AssayError(N_("The dataset {name} has no prompts; import them first."), name=dataset.name)
    evaluated, _made = EvaluatedModel.objects.get_or_create(name=model)
    place, _made = Collection.objects.get_or_create(name=collection)
    run, made = CollectionRun.objects.get_or_create(
        model=evaluated,
        dataset=dataset,
        collection=place,
        defaults={
            "endpoint": url,
            "served_model": endpoint_model,
            "settings": checked_settings,
            "created_by": actor,
        },
    )
    if not made:
        _check_same_settings(run, url, endpoint_model, checked_settings)
    return _start_job(run, concurrency, timeout, actor, send)


@transaction.atomic
def resume_collection(*, run: CollectionRun, actor: Person | None = None, send: bool = True) -> CollectionRun:
    """Ask again for whatever lacks a response."""
    if actor is not None:
        refuse_sealed_dataset(actor, run.dataset)
    find_key(run.endpoint)
    return _start_job(run, run.concurrency, run.timeout, actor, send)


def refuse_unlisted_endpoint(run: CollectionRun, endpoints: Mapping[str, str]) -> None:
    """A page asks no address but those of the settings, also where a command began."""
    if run.endpoint not in {check_endpoint(url) for url in endpoints.values()}:
        raise Conflict(
            N_(
                "The settings do not name the endpoint {endpoint} (ASSAY_ENDPOINTS), so no page asks it; the command"
                " collect_responses goes on with it."
            ),
            endpoint=run.endpoint,
        )


def _start_job(
    run: CollectionRun, concurrency: int, timeout: float, actor: Person | None, send: bool
) -> CollectionRun:
    locked = CollectionRun.objects.select_for_update(of=("self",)).select_related("job").get(pk=run.pk)
    if locked.job is not None and not locked.job.is_over:
        if not is_abandoned(locked.job):
            raise Conflict(
                N_("{run} is being collected now; wait until that is done, or cancel it."), run=str(run)
            )
        jobs.cancel(
            job=locked.job, actor=actor
        )  # its process was killed, and there may be no worker that sweeps
    job = jobs.enqueue(kind=KIND, payload={"run": run.pk}, title=str(run)[:200], actor=actor, send=send)
    run.job, run.concurrency, run.timeout, run.finished_at = job, concurrency, timeout, None
    run.save(update_fields=["job", "concurrency", "timeout", "finished_at"])
    record(
        actor=actor,
        verb="collect_responses",
        target=f"collecting:{run.pk}",
        model=run.model.name,
        dataset=run.dataset.name,
        collection=run.collection.name,
        endpoint=run.endpoint,
        served_model=run.served_model,
        settings=run.settings,
        job=job.pk,
    )
    return run


def _check_same_settings(
    run: CollectionRun, url: str, served_model: str, settings: Mapping[str, Any]
) -> None:
    """Responses that came about differently are no one collection."""
    old = {"endpoint": run.endpoint, "model": run.served_model, **run.settings}
    new = {"endpoint": url, "model": served_model, **settings}
    changes = list_differences(old, new)
    if changes:
        raise Conflict(
            N_(
                "{run} was begun otherwise ({what}); go on with that, or name another collection for another run."
            ),
            run=str(run),
            what="; ".join(changes),
        )


def _check_model(name: str) -> str:
    if not name.strip() or len(name) > MAX_MODEL_CHARACTERS or not name.isprintable():
        raise AssayError(
            N_("Name the model as the endpoint knows it, in 1 to {longest} characters."),
            longest=MAX_MODEL_CHARACTERS,
        )
    return name


def _check_numbers(concurrency: int, timeout: float) -> None:
    if not 1 <= concurrency <= MAX_CONCURRENCY:
        raise AssayError(
            N_("Ask 1 to {most} at once, not {number}."), most=MAX_CONCURRENCY, number=concurrency
        )
    if not 0 < timeout <= MAX_TIMEOUT_SECONDS:
        raise AssayError(
            N_("Give a request up after more than 0 and at most {longest} seconds."),
            longest=int(MAX_TIMEOUT_SECONDS),
        )


logger = logging.getLogger(__name__)
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
T = TypeVar("T")


def execute_collection(context: jobs.JobContext) -> dict[str, Any]:
    """The body of the job; again after a stop it asks for what is not stored."""
    run = CollectionRun.objects.select_related("model", "dataset", "collection").get(
        pk=context.payload["run"]
    )
    return _Collector(run, context).collect()


class _Collector:
    """One job at work on one collection. The callbacks of ``send_requests`` are ``_sent`` and ``_done``."""

    def __init__(self, run: CollectionRun, context: jobs.JobContext) -> None:
        self._run, self._context = run, context
        self._answers = self._failures = self._replaced = self._already = self._lost = self._pending = 0
        self._totals, self._counted = RequestTotals(), RequestTotals()
        self._began = self._ticked = time.monotonic()
        self._reported = self._pointed = 0.0
        self._prompts = Prompt.objects.filter(dataset=run.dataset_id).count()
        self._stored = 0
        self._recent: deque[tuple[float, int]] = deque()

    def collect(self) -> dict[str, Any]:
        self._retry_write(self._count_lost)
        self._stored = list_collection_responses(self._run).count()
        run = self._run
        endpoint = Endpoint(run.endpoint, run.served_model, select_parameters(run.settings), run.timeout)
        try:
            send_requests(
                self._list_questions(),
                endpoint,
                concurrency=run.concurrency,
                sent=self._record_sent,
                done=self._record_outcomes,
            )
        except jobs.LostJob:
            raise  # whoever took the job over counts what this one lost
        except BaseException:
            self._retry_write(self._count_lost)
            raise
        self._retry_write(self._finish)
        return self._make_result()

    def _list_questions(self) -> Iterator[ChatQuestion]:
        for prompt, text in list_texts_to_ask(self._run):
            yield build_question(prompt, text, self._run.settings)

    def _record_sent(self, prompts: Sequence[int]) -> None:
        self._retry_write(partial(self._store_pending, prompts))
        self._pending += len(prompts)

    def _store_pending(self, prompts: Sequence[int]) -> None:
        with self._hold_job():
            # Done again where the connection was lost at the very commit: then they are there.
            PendingRequest.objects.bulk_create(
                [PendingRequest(run=self._run, prompt_id=prompt) for prompt in prompts], ignore_conflicts=True
            )

    def _record_outcomes(
        self, batch: Sequence[EndpointAnswer | RequestFailure], totals: RequestTotals
    ) -> None:
        self._totals = totals
        if batch:
            answers = [outcome for outcome in batch if isinstance(outcome, EndpointAnswer)]
            failures = [outcome for outcome in batch if isinstance(outcome, RequestFailure)]
            new = self._retry_write(partial(self._store, answers, failures))
            self._pending -= len(batch)
            self._answers += new
            self._already += len(answers) - new
            self._stored += len(answers)
            self._failures += len(failures)
            self._replaced += sum(answer.replaced > 0 for answer in answers)
            self._recent.append((time.monotonic(), new))
        self._report()

    def _store(self, answers: Sequence[EndpointAnswer], failures: Sequence[RequestFailure]) -> int:
        """Keep what came back, all of it or nothing; the number of responses that are new."""
        prompts = [answer.key for answer in answers] + [answer.key for answer in failures]
        with self._hold_job():
            new = self._store_answers(answers)
            FailedRequest.objects.filter(run=self._run, prompt__in=prompts).delete()
            FailedRequest.objects.bulk_create(
                FailedRequest(
                    run=self._run,
                    prompt_id=failure.key,
                    status=failure.status,
                    error=failure.error,
                    attempts=min(failure.attempts, MAX_ATTEMPTS),
                )
                for failure in failures
            )
            PendingRequest.objects.filter(run=self._run, prompt__in=prompts).delete()
        return new

    def _store_answers(self, answers: Sequence[EndpointAnswer]) -> int:
        """An import may have put in a response meanwhile: that one stays, and the answer is none of ours."""
        run, left = self._run, list(answers)
        while left:
            rows = [
                Response(
                    prompt_id=answer.key,
                    model_id=run.model_id,
                    collection_id=run.collection_id,
                    text=answer.text,
                    sha256=response_sha256(answer.text, []),
                )
                for answer in left
            ]
            try:
                with transaction.atomic():
                    Response.objects.bulk_create(rows)
            except IntegrityError:
                answered = list_answered(run, [answer.key for answer in left])
                if not answered:
                    raise
                left = [answer for answer in left if answer.key not in answered]
            else:
                CollectedResponse.objects.bulk_create(
                    _build_collected_response(run, row, answer)
                    for row, answer in zip(rows, left, strict=True)
                )
                break
        return len(left)

    def _count_lost(self) -> None:
        """What this worker or an earlier one left under way is lost: counted, and asked for again."""
        before = self._lost
        with self._hold_job():
            lost, _by_model = PendingRequest.objects.filter(run=self._run).delete()
            CollectionRun.objects.filter(pk=self._run.pk).update(lost=F("lost") + lost)
            self._lost = before + lost
            self._context.save_result(self._make_result())

    def _finish(self) -> None:
        with self._hold_job():
            if not list_unanswered(self._run).exists():
                CollectionRun.objects.filter(pk=self._run.pk).update(finished_at=timezone.now())

    @contextmanager
    def _hold_job(self) -> Iterator[None]:
        """A transaction that holds the job's row: LostJob, and nothing is stored, where it is another worker's.

        With it go the requests and the seconds since the last one.
        """
        now, totals = time.monotonic(), self._totals
        with transaction.atomic():
            self._context.save_result(self._make_result())
            CollectionRun.objects.filter(pk=self._run.pk).update(
                requests=F("requests") + totals.requests - self._counted.requests,
                seconds=F("seconds") + now - self._ticked,
            )
            yield
        self._ticked, self._counted = now, totals

    def _report(self) -> None:
        """Tell how far it is, at most twice a second: this is where a cancel arrives."""
        now = time.monotonic()
        if now - self._reported < REPORT_SECONDS:
            return
        self._reported = now
        values: dict[str, float] = {}
        if now - self._pointed >= max(POINT_SECONDS, (now - self._began) / POINTS):
            self._pointed = now
            values = {
                N_("responses a second"): round(self._compute_rate(now), 2),
                N_("retries"): self._totals.retries,
                N_("without an answer"): self._failures,
                N_("under way"): self._pending,
            }
        try:
            self._context.report(
                min(1.0, self._stored / max(1, self._prompts)), STAGES[self._totals.pause], **values
            )
        except (OperationalError, InterfaceError) as error:  # no more than a report
            _mend_connection(error)

    def _compute_rate(self, now: float) -> float:
        """Responses a second of late."""
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


def _build_collected_response(
    run: CollectionRun, response: Response, answer: EndpointAnswer
) -> CollectedResponse:
    return CollectedResponse(
        response=response,
        run=run,
        served_model=answer.served_model,
        fingerprint=answer.fingerprint,
        finish_reason=answer.finish_reason,
        prompt_tokens=answer.prompt_tokens,
        completion_tokens=answer.completion_tokens,
        seconds=answer.seconds,
        attempts=min(answer.attempts, MAX_ATTEMPTS),
        answered_at=answer.answered_at,
    )
