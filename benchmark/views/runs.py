"""The list of boards, the form of a new run, and the page of a run: its progress, then its tabs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import pgettext
from django.views.decorators.http import require_GET, require_http_methods

from annotation.errors import AssayError
from annotation.models import MANAGER, RESEARCHER, Person
from annotation.views.access import has_role, person_of, role_required
from annotation.wording import error_text
from benchmark.models import BenchmarkRun
from benchmark.selectors.freshness import freshness, stale_marks
from benchmark.selectors.runs import refuse_sealed_run, rows_of, run_named, runs_for
from benchmark.services.runs import create_run
from benchmark.views.board_context import board_context
from benchmark.views.board_estimates import estimates_context
from benchmark.views.board_groups import groups_context
from benchmark.views.board_lineage import lineage_context
from benchmark.views.board_pairs import pairs_context
from benchmark.views.board_place import (
    BOARD,
    ESTIMATES,
    GROUPS,
    LINEAGE,
    PAIRS,
    TIME,
    VIEWS,
    Choice,
    Context,
    Place,
)
from benchmark.views.board_reading import standing_of
from benchmark.views.board_time import time_context

from ..forms.runs import NewRunForm


@require_GET
@role_required(RESEARCHER, MANAGER)
def runs(request: HttpRequest) -> HttpResponse:
    """Every run, the newest first; of what the person judges blind no more than its name."""
    person = person_of(request)
    listed = runs_for(person)
    stale = stale_marks([listed_run.run for listed_run in listed if not listed_run.sealed])
    lines = [
        {
            "run": listed_run.run,
            "sealed": listed_run.sealed,
            "stale": listed_run.run.pk in stale,
            "first": _first(listed_run.run),
        }
        for listed_run in listed
    ]
    return render(request, "benchmark/runs.html", {"runs": lines, "may_run": has_role(person, RESEARCHER)})


def _first(benchmark_run: BenchmarkRun) -> dict[str, Any] | None:
    """The row of who stands highest on the board; None where nobody has the number that it is ranked by."""
    rows = rows_of(benchmark_run)
    return rows[0] if rows and standing_of(benchmark_run, rows[0]) is not None else None


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
    """``?view=..`` is the tab; while the job runs, its progress alone."""
    benchmark_run, person = run_named(name), person_of(request)
    refuse_sealed_run(person, benchmark_run)
    context: Context = {
        "run": benchmark_run,
        "job": benchmark_run.job,
        "crumbs": _crumbs(benchmark_run.name),
        "may_run": has_role(person, RESEARCHER),
        "freshness": freshness(benchmark_run),
    }
    if benchmark_run.finished_at is None:
        return render(request, "benchmark/run.html", context)
    place = Place.of(request.GET)
    context |= {
        "tabs": tabs(place.view),
        "part": f"benchmark/tabs/{place.view or 'board'}.html",
        **_part(benchmark_run, place.view, request, person),
    }
    return render(request, "benchmark/run.html", context)


def _part(benchmark_run: BenchmarkRun, view: str, request: HttpRequest, person: Person) -> dict[str, Any]:
    """Only what the tab shows is read: the parts of a large board are large."""
    query = request.GET
    made: dict[str, Callable[[], Context]] = {
        BOARD: lambda: board_context(benchmark_run, query, reader=person),
        PAIRS: lambda: pairs_context(benchmark_run, query),
        GROUPS: lambda: groups_context(benchmark_run, query),
        ESTIMATES: lambda: estimates_context(benchmark_run, query),
        TIME: lambda: time_context(benchmark_run, query, person=person),
        LINEAGE: lambda: lineage_context(benchmark_run),
    }
    return made[view]()


def tabs(current: str, views: tuple[str, ...] = VIEWS) -> list[Choice]:
    """The tabs of a run; the page for outsiders shows some of them."""
    labels = {
        BOARD: _("Board"),
        PAIRS: pgettext("board", "Pairs"),
        GROUPS: pgettext("board", "Groups"),
        ESTIMATES: _("Estimates"),
        TIME: _("Over time"),
        LINEAGE: _("Lineage"),
    }
    return Place().choices("view", {name: labels[name] for name in views}, current)


def _crumbs(label: str) -> list[dict[str, str]]:
    return [{"label": _("Benchmarks"), "url": reverse("runs")}, {"label": label, "url": ""}]
