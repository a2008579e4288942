"""Gathering responses from an endpoint: asked for once, stored as they come, gone on with after any stop."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from django.db import transaction

from annotation.core.errors import N_, AssayError, Conflict
from annotation.core.names import check_printable_name
from annotation.domain.datasets import response_sha256
from annotation.models import Collection, Dataset, EvaluatedModel, Person, Response
from annotation.services import jobs
from annotation.services.sharing import refuse_borrowed
from benchmark.domain.llm_client import (
    ChatQuestion,
    Endpoint,
    EndpointAnswer,
    Outcome,
    RequestFailure,
    RequestTotals,
    check_endpoint,
    find_key,
    send_requests,
)
from benchmark.domain.llm_client.settings import (
    build_question,
    build_sample_settings,
    check_samples,
    check_settings,
    select_parameters,
)
from benchmark.models import CollectedResponse, CollectionRun, DialogueRun, FailedRequest, PendingRequest
from benchmark.selectors.collection import list_runs_of_job, list_samples, list_texts_to_ask
from benchmark.selectors.leaderboards.runs import refuse_sealed_dataset
from benchmark.services.endpoint_runs import (
    CONCURRENCY,
    TIMEOUT,
    EndpointJob,
    build_failure,
    build_origin,
    check_model,
    check_pace,
    check_unchanged,
    create_responses,
    start_job,
)

KIND = "collect_responses"


@transaction.atomic
def start_collection(
    *,
    model: str,
    dataset: Dataset,
    endpoint: str,
    collection: str = "",
    samples: int = 1,
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

    Of several ``samples`` each is a run in a collection of its own, ``collection`` with its number behind it; a seed
    counts up from one to the next. One job fills them in turn. Begun for more samples than before, those come to them;
    for fewer, the others are left alone. The result is the first one's run.
    """
    if actor is not None:
        refuse_sealed_dataset(actor, dataset)
    url = check_endpoint(endpoint)
    checked_settings = check_settings(settings or {}, key=find_key(url))
    endpoint_model = check_model(served_model or model)
    check_pace(concurrency, timeout)
    check_printable_name(model)
    if collection:
        check_printable_name(collection)
    refuse_borrowed(dataset)
    if not dataset.prompts.exists():
        raise AssayError(N_("The dataset {name} has no prompts; import them first."), name=dataset.name)
    check_samples(samples, collection, checked_settings)
    evaluated, _made = EvaluatedModel.objects.get_or_create(name=model)
    values: dict[str, Any] = {"endpoint": url, "served_model": endpoint_model}
    if samples == 1:
        place, _made = Collection.objects.get_or_create(name=collection)
        values["settings"] = checked_settings
        return _start_job(
            [_get_or_make_run(evaluated, dataset, place, values, actor)], concurrency, timeout, actor, send
        )
    runs: list[CollectionRun] = []
    for sample in range(1, samples + 1):
        place, _made = Collection.objects.get_or_create(name=check_printable_name(f"{collection}-{sample}"))
        values["settings"] = check_settings(build_sample_settings(checked_settings, sample))
        run = _get_or_make_run(evaluated, dataset, place, values, actor)
        run.first, run.sample = runs[0] if runs else None, sample
        run.save(update_fields=["first", "sample"])
        runs.append(run)
    return _start_job(runs, concurrency, timeout, actor, send)


def _get_or_make_run(
    model: EvaluatedModel,
    dataset: Dataset,
    collection: Collection,
    values: Mapping[str, Any],
    actor: Person | None,
) -> CollectionRun:
    """Conflict where it was begun otherwise than with these ``values``."""
    run, made = CollectionRun.objects.get_or_create(
        model=model, dataset=dataset, collection=collection, defaults={**values, "created_by": actor}
    )
    if not made:
        check_unchanged(
            run,
            {"endpoint": run.endpoint, "model": run.served_model, **run.settings},
            {"endpoint": values["endpoint"], "model": values["served_model"], **values["settings"]},
        )
    elif DialogueRun.objects.filter(model=model, dataset=dataset, collection=collection).exists():
        raise Conflict(N_("{run} is a run of dialogues; name another collection."), run=str(run))
    return run


@transaction.atomic
def resume_collection(*, run: CollectionRun, actor: Person | None = None, send: bool = True) -> CollectionRun:
    """Ask again for whatever lacks a response, in all samples where there are several."""
    if actor is not None:
        refuse_sealed_dataset(actor, run.dataset)
    find_key(run.endpoint)
    return _start_job(list_samples(run), run.concurrency, run.timeout, actor, send)


def _start_job(
    runs: Sequence[CollectionRun], concurrency: int, timeout: float, actor: Person | None, send: bool
) -> CollectionRun:
    return start_job(
        runs[0],
        further=runs[1:],
        kind=KIND,
        subject="collecting",
        concurrency=concurrency,
        timeout=timeout,
        actor=actor,
        send=send,
    )


def execute_collection(context: jobs.JobContext) -> dict[str, Any]:
    """The body of the job; again after a stop it asks for what is not stored."""
    run = CollectionRun.objects.select_related("model", "dataset", "collection").get(
        pk=context.payload["run"]
    )
    return _Collector(list_runs_of_job(run, context.payload), context).work()


class _Collector(EndpointJob[CollectionRun]):
    pending_model = PendingRequest
    rate_name = N_("responses a second")

    def _ask(self) -> None:
        run = self._run
        send_requests(
            self._list_questions(),
            Endpoint(run.endpoint, run.served_model, select_parameters(run.settings), run.timeout),
            concurrency=run.concurrency,
            sent=self._record_sent,
            done=self._record_outcomes,
        )

    def _list_questions(self) -> Iterator[ChatQuestion]:
        for prompt, text in list_texts_to_ask(self._run):
            yield build_question(prompt, text, self._run.settings)

    def _record_outcomes(self, batch: Sequence[Outcome], totals: RequestTotals) -> None:
        self._record_totals(totals)
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
                FailedRequest(run=self._run, prompt_id=failure.key, **build_failure(failure))
                for failure in failures
            )
            self._delete_pending(prompts)
        return new

    def _store_answers(self, answers: Sequence[EndpointAnswer]) -> int:
        run, by_prompt = self._run, {answer.key: answer for answer in answers}
        responses = create_responses(
            run,
            [
                Response(
                    prompt_id=answer.key,
                    model_id=run.model_id,
                    collection_id=run.collection_id,
                    text=answer.text,
                    sha256=response_sha256(answer.text, []),
                )
                for answer in answers
            ],
        )
        CollectedResponse.objects.bulk_create(
            CollectedResponse(response=response, run=run, **build_origin(by_prompt[response.prompt_id]))
            for response in responses
        )
        return len(responses)
