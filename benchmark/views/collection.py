"""The pages of collecting: what was gathered, beginning one, and one at work."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from django.conf import settings
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from annotation.core.charts import PADDING, chart_url, draw_line, draw_rules, make_picture, make_quantity
from annotation.core.http import Crumb, breadcrumbs, parse_int
from annotation.domain.permissions import COLLECT_RESPONSES, READ_COLLECTIONS
from annotation.forms.lists import ListColumns
from annotation.views.access import act_required, person_of
from benchmark.domain.llm_client.protocol import CUT
from benchmark.forms.collection import CollectionForm
from benchmark.models import CollectionRun
from benchmark.selectors.collection import (
    StretchRate,
    compute_progress,
    count_finish_reasons,
    count_served_models,
    count_texts,
    get_collection_run,
    list_failures,
    list_rates,
    list_sample,
    list_samples,
)
from benchmark.selectors.endpoint_runs import build_run_rows, list_jobs
from benchmark.services.collection import KIND, resume_collection, start_collection
from benchmark.services.endpoint_runs import refuse_unlisted_endpoints
from benchmark.views.endpoint_runs import (
    build_live_context,
    format_setting,
    is_listed,
    render_list,
    render_live,
    render_new_run,
)

PER_PAGE = 50
WIDTH, HEIGHT = 560, 160
SHORT_MINUTES = 3
"""Minutes; of what took less the times are in seconds."""


@require_safe
@act_required(READ_COLLECTIONS)
def collections(request: HttpRequest) -> HttpResponse:
    columns = ListColumns(("model__name", "dataset__name", "collection__name", "endpoint"))
    return render_list(request, "benchmark/collection/list.html", CollectionRun, build_run_rows, columns)


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(COLLECT_RESPONSES)
def new_collection(request: HttpRequest) -> HttpResponse:
    return render_new_run(
        request,
        "benchmark/collection/new.html",
        CollectionForm,
        start_collection,
        run_page="collecting-run",
        crumbs=_crumbs(_("Collect responses")),
    )


@require_safe
@never_cache
@act_required(READ_COLLECTIONS)
def collection_run(request: HttpRequest, number: str) -> HttpResponse:
    person = person_of(request)
    run = get_collection_run(person, parse_int(number))
    unit, rates = _scale_times(list_rates(run))
    failures = Paginator(list_failures(run), PER_PAGE).get_page(request.GET.get("page"))
    context = _live_context(run) | {
        "texts": count_texts(run),
        "is_listed": is_listed([run.endpoint], KIND),
        "crumbs": _crumbs(str(run)),
        "rates": rates,
        "rate_unit": unit,
        "chart": _rate_chart(unit, rates) if len(rates) > 1 else "",
        "reasons": [(name, n, name == CUT) for name, n in count_finish_reasons(run)],
        "served": count_served_models(run),
        "settings": [(name, format_setting(value)) for name, value in run.settings.items()],
        "page": failures,
        "pages": failures.paginator.get_elided_page_range(failures.number),
        "sample": list_sample(run),
        "jobs": list_jobs(sorted({run.pk, run.first_id or run.pk}), KIND),
    }
    return render(request, "benchmark/collection/run.html", context)


@require_safe
@never_cache
@act_required(READ_COLLECTIONS)
def collection_progress(request: HttpRequest, number: str) -> HttpResponse:
    context = _live_context(get_collection_run(person_of(request), parse_int(number)))
    return render_live(request, "benchmark/collection/live.html", context, goes_on=context["at_work"])


@require_POST
@act_required(COLLECT_RESPONSES)
def collection_resume(request: HttpRequest, number: str) -> HttpResponse:
    """Go on: ask for whatever lacks a response."""
    person = person_of(request)
    run = get_collection_run(person, parse_int(number))
    refuse_unlisted_endpoints([run.endpoint], settings.ASSAY_ENDPOINTS, KIND)
    resume_collection(run=run, actor=person)
    return redirect("collecting-run", run.pk)


def _live_context(run: CollectionRun) -> dict[str, Any]:
    """``samples`` are those that go on together with this one, itself among them; ``left`` is of all of them."""
    progress, samples = compute_progress(run), []
    done, total = progress.stored, progress.prompts
    if run.sample is not None:
        samples = build_run_rows(list_samples(run))
        done, total = sum(row.stored for row in samples), sum(row.prompts for row in samples)
    context = build_live_context(run, progress, "responses a second", done=done, total=total)
    return {**context, "samples": samples, "left": total - done}


def _scale_times(rates: list[StretchRate]) -> tuple[str, list[StretchRate]]:
    """The unit of their times, and the rates by it."""
    if not rates or rates[-1].at >= SHORT_MINUTES:
        return _("Minutes"), rates
    return _("Seconds"), [replace(rate, at=60 * rate.at) for rate in rates]


def _rate_chart(unit: str, rates: list[StretchRate]) -> str:
    values = [{"at": rate.at, "rate": rate.per_second, "stretch": rate.stretch} for rate in rates]
    breaks = [later.at for rate, later in pairwise(rates) if rate.stretch != later.stretch]
    x = make_quantity("at", unit, tickCount=6)
    y = make_quantity("rate", _("Responses a second"), scale={"zero": True})
    detail = {"field": "stretch", "type": "nominal"}
    layer = [
        draw_line(x, y, mark={"interpolate": "step-after"}, detail=detail),
        *draw_rules(breaks, mark={"strokeWidth": 1}, x=x),
    ]
    return chart_url(make_picture(layer, values, padding=PADDING, width=WIDTH, height=HEIGHT))


def _crumbs(label: str) -> list[Crumb]:
    return breadcrumbs((_("Data"), "datasets", []), (_("Response collection"), "collecting", []), title=label)
