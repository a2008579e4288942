"""What the pages of both kinds of runs that ask endpoints do alike: the list, beginning a run, and a run at work."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError, Conflict
from annotation.core.http import Crumb
from annotation.forms.lists import ListColumns
from annotation.selectors.jobs import diagnose
from annotation.selectors.operations.queues import get_queue
from annotation.views.access import person_of
from annotation.views.lists import narrow_by_request
from benchmark.domain.llm_client import build_key_name, find_key
from benchmark.forms.collection import CollectionForm
from benchmark.models import EndpointRun
from benchmark.selectors.endpoint_runs import EndpointRunRow, R, RunProgress, list_open_runs
from benchmark.selectors.leaderboards.runs import list_open_collections, list_open_models
from benchmark.services.endpoint_runs import refuse_unlisted_endpoints


def render_list(
    request: HttpRequest,
    template: str,
    model: type[R],
    build_rows: Callable[[Sequence[R]], list[EndpointRunRow[R]]],
    columns: ListColumns,
) -> HttpResponse:
    runs = list_open_runs(model, person_of(request))
    narrowed = narrow_by_request(request, runs, columns)
    context = {**narrowed.context, "rows": build_rows(list(narrowed.rows)), "any": runs.exists()}
    return render(request, template, context)


def render_new_run(
    request: HttpRequest,
    template: str,
    form_class: type[CollectionForm],
    start: Callable[..., EndpointRun],
    *,
    run_page: str,
    crumbs: list[Crumb],
) -> HttpResponse:
    """The form of a new run; once it is right the run begins, and its page follows."""
    person = person_of(request)
    form = form_class(request.POST or None, person=person)
    if request.method == "POST" and form.is_valid():
        try:
            run = start(actor=person, **form.options())
        except AssayError as error:
            form.add_error(None, error_text(error))
        else:
            return redirect(run_page, run.pk)
    context = {
        "form": form,
        "endpoints": list_endpoint_choices(),
        "models": list_open_models(person).values_list("name", flat=True),
        "collections": list_open_collections(person).exclude(name="").values_list("name", flat=True),
        "crumbs": crumbs,
    }
    return render(request, template, context, status=422 if form.is_bound else 200)


def render_live(
    request: HttpRequest, template: str, context: dict[str, Any], *, goes_on: bool
) -> HttpResponse:
    """The live part of a page, which asks again; once it ``goes_on`` no more the whole page is loaded anew."""
    answer = render(request, template, context)
    if not goes_on:
        answer["HX-Refresh"] = "true"
    return answer


@dataclass(frozen=True)
class EndpointChoice:
    """An endpoint of the settings. ``key`` is what is known of its key here, never the key."""

    name: str
    url: str
    variable: str
    has_key: bool
    refusal: str


def list_endpoint_choices() -> list[EndpointChoice]:
    endpoints = []
    for name, url in settings.ASSAY_ENDPOINTS.items():
        try:
            has_key, refusal = find_key(url) is not None, ""
            variable = build_key_name(url)
        except AssayError as error:
            has_key, refusal, variable = False, error_text(error), ""
        endpoints.append(EndpointChoice(name, url, variable, has_key, refusal))
    return endpoints


def is_listed(urls: Sequence[str], command: str) -> bool:
    """Whether a page may ask these addresses."""
    try:
        refuse_unlisted_endpoints(urls, settings.ASSAY_ENDPOINTS, command)
    except Conflict:
        return False
    return True


def build_live_context(
    run: EndpointRun, progress: RunProgress, rate_name: str, *, done: int, total: int
) -> dict[str, Any]:
    """How far it is, and what the job reports while it is at it; ``done`` and ``total`` are in the unit of the rate."""
    job = run.job
    at_work = job is not None and not job.is_over
    points = job.history[-8:] if job is not None and at_work else []
    rate = {point["name"]: point["value"] for point in points}.get(rate_name)
    return {
        "run": run,
        "job": job,
        "at_work": at_work,
        "progress": progress,
        # What a worker that died left under way is lost, although nobody has counted it yet.
        "lost": run.lost + (0 if at_work else progress.pending),
        "done": done,
        "total": total,
        "rate": rate,
        "minutes_left": (total - done) / rate / 60 if rate else None,
        "trouble": None if job is None else diagnose(job),
        "queue": "" if job is None else get_queue(job.kind),
    }


def format_setting(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
