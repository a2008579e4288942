from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from annotation.errors import AssayError
from annotation.models import MANAGER, RESEARCHER
from annotation.views.access import has_role, person_of, role_required
from annotation.wording import error_text
from benchmark.forms import NewRunForm
from benchmark.models import BenchmarkRun
from benchmark.selectors.runs import refuse_sealed_run, run_named, runs_for
from benchmark.services.runs import create_run
from benchmark.views.charting import board_chart
from benchmark.views.lineages import chain
from benchmark.views.presenting import columns, metric_label, rows


@require_GET
@role_required(RESEARCHER, MANAGER)
def runs(request: HttpRequest) -> HttpResponse:
    person = person_of(request)
    context = {"runs": runs_for(person), "may_run": has_role(person, RESEARCHER)}
    return render(request, "benchmark/runs.html", context)


@require_http_methods(["GET", "POST"])
@role_required(RESEARCHER)
def new_run(request: HttpRequest) -> HttpResponse:
    form = NewRunForm(request.POST or None, person=person_of(request))
    made = _create(request, form) if request.method == "POST" and form.is_valid() else None
    if made is not None:
        return redirect("run", made.name)
    status = 400 if form.is_bound else 200
    return render(
        request, "benchmark/new_run.html", {"form": form, "crumbs": _crumbs(_("New run"))}, status=status
    )


def _create(request: HttpRequest, form: NewRunForm) -> BenchmarkRun | None:
    """The new run; None, with the reason on the form, where it is refused."""
    try:
        return create_run(actor=person_of(request), **form.cleaned_data)
    except AssayError as error:
        form.add_error(None, error_text(error))
        return None


@require_GET
@role_required(RESEARCHER, MANAGER)
def run(request: HttpRequest, name: str) -> HttpResponse:
    """The leaderboard; while the job runs, its progress."""
    found = run_named(name)
    refuse_sealed_run(person_of(request), found)
    return render(request, "benchmark/run.html", _run_context(found))


def _run_context(found: BenchmarkRun) -> dict[str, Any]:
    context: dict[str, Any] = {
        "run": found,
        "job": found.job,
        "crumbs": _crumbs(found.name),
        "steps": chain(found, []),
        "newer": found.replaced_by.order_by("-pk").first(),
    }
    if found.finished_at is None:
        return context
    document = found.scorer.guideline.document
    views = rows(found)
    return context | {
        "rows": views,
        "columns": columns(document),
        "rank_by": metric_label(document.metric(document.rank_by)),
        "chart": board_chart(found),
        "left_out": found.board.get("left_out", 0),
        "unclear": not any(row.leads for row in views) and len(views) > 1,
    }


def _crumbs(label: str) -> list[dict[str, str]]:
    return [{"label": _("Benchmarks"), "url": reverse("runs")}, {"label": label, "url": ""}]
