"""Beginning to gather responses from an endpoint, and going on after a stop; the work is ``collecting_job``'s."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from annotation.errors import N_, AssayError, Conflict
from annotation.models import Collection, Dataset, EvaluatedModel, Person
from annotation.names import check_name
from annotation.services import jobs
from annotation.services.audit import record
from benchmark.asking import check_endpoint, key_for
from benchmark.asking.generation import check_settings, differences
from benchmark.models import CollectionRun
from benchmark.selectors.runs import refuse_sealed_dataset
from benchmark.services.abandoned import is_abandoned

KIND = "collect_responses"
CONCURRENCY, MOST_AT_ONCE = 16, 512
TIMEOUT, LONGEST_TIMEOUT = 120.0, 3600.0
LONGEST_MODEL = 200


@transaction.atomic
def create_collecting(
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
    checked_settings = check_settings(settings or {}, key=key_for(url))
    endpoint_model = _check_model(served_model or model)
    _check_numbers(concurrency, timeout)
    check_name(model)
    if collection:
        check_name(collection)
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
        _refuse_other(run, url, endpoint_model, checked_settings)
    return _begin(run, concurrency, timeout, actor, send)


@transaction.atomic
def go_on(*, run: CollectionRun, actor: Person | None = None, send: bool = True) -> CollectionRun:
    """Ask again for whatever lacks a response."""
    if actor is not None:
        refuse_sealed_dataset(actor, run.dataset)
    key_for(run.endpoint)
    return _begin(run, run.concurrency, run.timeout, actor, send)


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


def _begin(
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


def _refuse_other(run: CollectionRun, url: str, served_model: str, settings: Mapping[str, Any]) -> None:
    """Responses that came about differently are no one collection."""
    old = {"endpoint": run.endpoint, "model": run.served_model, **run.settings}
    new = {"endpoint": url, "model": served_model, **settings}
    changes = differences(old, new)
    if changes:
        raise Conflict(
            N_(
                "{run} was begun otherwise ({what}); go on with that, or name another collection for another run."
            ),
            run=str(run),
            what="; ".join(changes),
        )


def _check_model(name: str) -> str:
    if not name.strip() or len(name) > LONGEST_MODEL or not name.isprintable():
        raise AssayError(
            N_("Name the model as the endpoint knows it, in 1 to {longest} characters."),
            longest=LONGEST_MODEL,
        )
    return name


def _check_numbers(concurrency: int, timeout: float) -> None:
    if not 1 <= concurrency <= MOST_AT_ONCE:
        raise AssayError(N_("Ask 1 to {most} at once, not {number}."), most=MOST_AT_ONCE, number=concurrency)
    if not 0 < timeout <= LONGEST_TIMEOUT:
        raise AssayError(
            N_("Give a request up after more than 0 and at most {longest} seconds."),
            longest=int(LONGEST_TIMEOUT),
        )
