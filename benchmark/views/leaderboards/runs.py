"""The list of boards, the form of a new run, and the page of a run: its progress, then its tabs.

One click on a run that is out of date: the same once more, with what came since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import pgettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.formatting import format_duration, format_grouped
from annotation.core.http import breadcrumbs
from annotation.core.text_templates import join_names, render_text
from annotation.domain.permissions import COMPUTE_SENSITIVITY, READ_BOARDS, RUN_BENCHMARK
from annotation.forms.lists import ListColumns
from annotation.models import Person
from annotation.selectors.releases.releases import get_release_for
from annotation.views.access import act_required, person_of
from annotation.views.lists import narrow_by_request
from benchmark.forms.leaderboards import NewRunForm
from benchmark.models import BenchmarkRun, Retraining
from benchmark.selectors.leaderboards.comparison import ExplainedChange, compare_run
from benchmark.selectors.leaderboards.freshness import compute_freshness, find_stale_kinds
from benchmark.selectors.leaderboards.runs import (
    BoardTop,
    find_running_retraining,
    get_finished_board,
    get_run,
    list_board_tops,
    list_jobs,
    list_retraining_runs,
    list_run_rows,
    list_runs,
    plan_retraining,
    refuse_sealed_run,
)
from benchmark.services.leaderboards.runs import create_run
from benchmark.services.leaderboards.runs import rerun_board as start
from benchmark.services.leaderboards.runs import retrain as runs_start
from benchmark.services.sensitivity import start_sensitivity
from benchmark.views.leaderboards.cells import change_word
from benchmark.views.leaderboards.formatting import cell_url, metric_label, scope_label
from benchmark.views.leaderboards.lineage import lineage_context
from benchmark.views.leaderboards.query import (
    BOARD,
    ESTIMATES,
    GROUPS,
    LINEAGE,
    PAIRS,
    SENSITIVITY,
    TIME,
    VIEWS,
    BoardChoice,
    BoardQuery,
    Context,
)
from benchmark.views.leaderboards.tabs.estimates import estimates_context
from benchmark.views.leaderboards.tabs.groups import groups_context
from benchmark.views.leaderboards.tabs.pairs import pairs_context
from benchmark.views.leaderboards.tabs.reading import headline_column
from benchmark.views.leaderboards.tabs.sensitivity import sensitivity_context
from benchmark.views.leaderboards.tabs.table import board_context
from benchmark.views.leaderboards.tabs.trend import trend_context
from scoring.views.scorers.promotions import find_promotion_reason

# Large, and a list reads none of them.
NOT_LISTED = (
    "board",
    "cost",
    "replaces__board",
    "replaces__cost",
    "scorer__card",
    "scorer__evaluation",
    "scorer__guideline__content",  # kept by its hash, once it was read
    "scorer__guideline__source",
    "scorer__release__manifest",
)


@require_GET
@act_required(READ_BOARDS)
def runs(request: HttpRequest) -> HttpResponse:
    """Every run, the newest first; of what the person judges blind no more than its name."""
    person = person_of(request)
    columns = ListColumns(guideline="scorer__guideline__name")
    narrowed = narrow_by_request(request, list_runs().defer(*NOT_LISTED), columns)
    listed = list_run_rows(person, narrowed.rows)
    readable = [listed_run.run for listed_run in listed if not listed_run.sealed]
    stale, tops = find_stale_kinds(readable), list_board_tops(readable)
    lines = [
        {"run": row.run, "sealed": row.sealed, "stale": row.run.pk in stale}
        | _describe_leader(row.run, tops.get(row.run.pk))
        for row in listed
    ]
    context = {**narrowed.context, "runs": lines, "any": BenchmarkRun.objects.exists()}
    return render(request, "benchmark/leaderboards/runs.html", context)


def _describe_leader(benchmark_run: BenchmarkRun, top: BoardTop | None) -> dict[str, Any]:
    """``first`` is the row of who stands highest, if anybody has the number that the board is ranked by;
    ``first_compared`` how many models are compared, where they are not all.
    """
    if top is None:
        return {}
    column = headline_column(benchmark_run)
    compared = top.compared.get(column.name)
    is_part = compared is not None and compared["n"] != compared["of"]
    return {
        "first": top.row if column.statistic(top.row)["value"] is not None else None,
        "first_compared": compared["n"] if compared is not None and is_part else 0,
    }


@require_http_methods(["GET", "POST"])
@act_required(RUN_BENCHMARK)
def new_run(request: HttpRequest) -> HttpResponse:
    form = NewRunForm(request.POST or None, person=person_of(request))
    made = _create_run(request, form) if request.method == "POST" and form.is_valid() else None
    if made is not None:
        return redirect("run", made.name)
    status = 400 if form.is_bound else 200
    return render(
        request,
        "benchmark/leaderboards/new_run.html",
        {"form": form, "crumbs": _run_breadcrumbs(_("New run"))},
        status=status,
    )


def _create_run(request: HttpRequest, form: NewRunForm) -> BenchmarkRun | None:
    """The new run; None, with the reason on the form, where it is refused."""
    try:
        return create_run(actor=person_of(request), **form.cleaned_data)
    except AssayError as error:
        form.add_error(None, error_text(error))
        return None


@require_GET
@act_required(READ_BOARDS)
def run(request: HttpRequest, name: str) -> HttpResponse:
    """``?view=..`` is the tab; while the job runs, its progress alone."""
    benchmark_run, person = get_run(name), person_of(request)
    refuse_sealed_run(person, benchmark_run)
    context: Context = {
        "run": benchmark_run,
        "job": benchmark_run.job,
        "crumbs": _run_breadcrumbs(benchmark_run.name),
        "freshness": compute_freshness(benchmark_run),
        "gate_reason": find_promotion_reason(benchmark_run.scorer),
    }
    if benchmark_run.finished_at is None:
        return render(request, "benchmark/leaderboards/run.html", context)
    place = BoardQuery.of(request.GET)
    context |= {
        "tabs": list_tabs(place.view),
        "part": f"benchmark/leaderboards/tabs/{place.view or 'board'}.html",
        **_tab_context(benchmark_run, place.view, request, person),
    }
    return render(request, "benchmark/leaderboards/run.html", context)


def _tab_context(
    benchmark_run: BenchmarkRun, view: str, request: HttpRequest, person: Person
) -> dict[str, Any]:
    """Only what the tab shows is read: the parts of a large board are large."""
    query = request.GET
    made: dict[str, Callable[[], Context]] = {
        BOARD: lambda: board_context(benchmark_run, query, reader=person),
        PAIRS: lambda: pairs_context(benchmark_run, query),
        GROUPS: lambda: groups_context(benchmark_run, query, reader=person),
        ESTIMATES: lambda: estimates_context(benchmark_run, query),
        SENSITIVITY: lambda: sensitivity_context(benchmark_run, person),
        TIME: lambda: trend_context(benchmark_run, query, person=person),
        LINEAGE: lambda: lineage_context(benchmark_run, person),
    }
    return made[view]()


def list_tabs(current: str, views: tuple[str, ...] = VIEWS) -> list[BoardChoice]:
    """The tabs of a run; the page for outsiders shows some of them."""
    labels = {
        BOARD: _("Board"),
        PAIRS: pgettext("board", "Pairs"),
        GROUPS: pgettext("board", "Groups"),
        ESTIMATES: _("Estimates"),
        SENSITIVITY: pgettext("board", "Sensitivity"),
        TIME: _("Over time"),
        LINEAGE: _("Lineage"),
    }
    return BoardQuery().list_choices("view", {name: labels[name] for name in views}, current)


def _run_breadcrumbs(label: str) -> list[dict[str, str]]:
    return [{"label": _("Boards"), "url": reverse("runs")}, {"label": label, "url": ""}]


@require_POST
@act_required(COMPUTE_SENSITIVITY)
def sensitivity(request: HttpRequest, name: str) -> HttpResponse:
    """Once more, where the job that was to compute it did not come to its end."""
    person = person_of(request)
    benchmark_run = get_run(name)
    refuse_sealed_run(person, benchmark_run)
    get_finished_board(benchmark_run)
    start_sensitivity(benchmark_run, actor=person)
    return redirect(f"{reverse('run', args=[benchmark_run.name])}?view={SENSITIVITY}")


@require_POST
@act_required(RUN_BENCHMARK)
def rerun(request: HttpRequest, name: str) -> HttpResponse:
    person = person_of(request)
    run = get_run(name)
    refuse_sealed_run(person, run)
    made = start(run=run, actor=person)
    messages.success(request, render_text("benchmark/wording/message.txt", code="run_again", name=run.name))
    return redirect("run", made.name)


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(RUN_BENCHMARK)
def retrain(request: HttpRequest, release: str) -> HttpResponse:
    """First what would be trained and run again; POST, with what was ``seen`` there, starts it.

    Where that has changed since, it is shown anew, and nothing is started.
    """
    person = person_of(request)
    gold = get_release_for(person, release)
    plan = plan_retraining(gold)
    for board in plan.boards:
        refuse_sealed_run(person, board)
    refusal, status = "", 200
    if request.method == "POST":
        try:
            made = runs_start(release=gold, seen=request.POST.get("seen", ""), actor=person)
            return redirect("retraining", made.pk)
        except AssayError as error:
            refusal, status = error_text(error), error.status
    label = _("Retrain and re-benchmark")
    context = {
        "plan": plan,
        "expected_time": "" if plan.seconds is None else format_duration(max(1, plan.seconds)),
        "boards": [(board, plan.models[board.pk]) for board in plan.boards],
        "under_way": find_running_retraining(gold.pk),
        "refusal": refusal,
        "crumbs": breadcrumbs(
            (_("Gold releases"), "releases", []), (gold.name, "release", [gold.name]), title=label
        ),
    }
    return render(request, "benchmark/leaderboards/retrain.html", context, status=status)


@require_GET
@act_required(READ_BOARDS)
def retraining(request: HttpRequest, retraining_id: int) -> HttpResponse:
    """The chain of jobs while it goes on; then old beside new."""
    retrainings = Retraining.objects.select_related("release", "scorer__job", "scorer__guideline")
    past_retraining = get_object_or_404(retrainings, pk=retraining_id)
    get_release_for(person_of(request), past_retraining.release.name)
    runs = list_retraining_runs(past_retraining)
    for run in runs:
        refuse_sealed_run(person_of(request), run)
    jobs = list_jobs(past_retraining)
    context = {
        "retraining": past_retraining,
        "jobs": jobs,
        "working": [job for job in jobs if not job.is_over],
        "runs": [_comparison_context(run) for run in runs if run.finished_at],
        "crumbs": _retraining_breadcrumbs(past_retraining),
    }
    return render(request, "benchmark/leaderboards/retraining.html", context)


def _comparison_context(run: BenchmarkRun) -> dict[str, Any]:
    comparison = compare_run(run)
    moved: dict[str, list[dict[str, Any]]] = {}
    for moved_number in comparison.moved:
        cells = moved.setdefault(moved_number.change.model, [])
        cells.append(
            _moved_row(
                run,
                moved_number,
                is_first=not cells or cells[-1]["change"].scope != moved_number.change.scope,
            )
        )
    heads = next(iter(moved.values()), [])
    return {
        "run": run,
        "old": run.replaces,
        "heads": heads,
        "rows": moved,
        "totals": join_names(_format_reasons(comparison.totals)),
    }


def _moved_row(run: BenchmarkRun, moved: ExplainedChange, *, is_first: bool) -> dict[str, Any]:
    """What all numbers of a scope rest on stands below the first of them alone."""
    change = moved.change
    return {
        "scope": scope_label(run.scorer.guideline.document, change.scope),
        "metric": metric_label(change.metric),
        "change": change,
        "url": cell_url(run, change.model, change.scope),
        "is_first": is_first,
        "reasons": _format_reasons(moved.reasons) if is_first else [],
    }


def _format_reasons(reasons: Counter[str]) -> list[str]:
    return [f"{format_grouped(n)} × {change_word(kind)}" for kind, n in sorted(reasons.items())]


def _retraining_breadcrumbs(past_retraining: Retraining) -> list[dict[str, str]]:
    return [
        {"label": _("Boards"), "url": reverse("runs")},
        {"label": _("Retraining on {release}").format(release=past_retraining.release.name), "url": ""},
    ]
