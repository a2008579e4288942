from __future__ import annotations

from collections import Counter
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from annotation.core.formatting import format_grouped
from annotation.core.text_templates import join_names
from annotation.errors import AssayError
from annotation.models import MANAGER, RESEARCHER
from annotation.selectors.gold import release_for
from annotation.views.access import person_of, role_required
from annotation.views.crumbs import trail
from annotation.wording import error_text
from benchmark.models import BenchmarkRun, Retraining
from benchmark.selectors.comparisons import ExplainedChange, compared
from benchmark.selectors.retrainings import jobs_of, plan_retraining, runs_of, under_way
from benchmark.selectors.runs import refuse_sealed_run
from benchmark.services.retraining import retrain as start
from benchmark.views.cells import change_word
from benchmark.views.presenting import cell_url, metric_label, scope_label


@require_http_methods(["GET", "POST"])
@never_cache
@role_required(RESEARCHER)
def retrain(request: HttpRequest, release: str) -> HttpResponse:
    """First what would be trained and run again; POST, with what was ``seen`` there, starts it.

    Where that has changed since, it is shown anew, and nothing is started.
    """
    person = person_of(request)
    gold = release_for(person, release)
    plan = plan_retraining(gold)
    for board in plan.boards:
        refuse_sealed_run(person, board)
    refusal, status = "", 200
    if request.method == "POST":
        try:
            made = start(release=gold, seen=request.POST.get("seen", ""), actor=person)
            return redirect("retraining", made.pk)
        except AssayError as error:
            refusal, status = error_text(error), error.status
    label = _("Retrain and re-benchmark")
    context = {
        "plan": plan,
        "boards": [(board, plan.models[board.pk]) for board in plan.boards],
        "under_way": under_way(gold.pk),
        "refusal": refusal,
        "crumbs": trail(
            (_("Gold releases"), "releases", []), (gold.name, "release", [gold.name]), here=label
        ),
    }
    return render(request, "benchmark/retrain.html", context, status=status)


@require_GET
@role_required(RESEARCHER, MANAGER)
def retraining(request: HttpRequest, retraining_id: int) -> HttpResponse:
    """The chain of jobs while it goes on; then old beside new."""
    retrainings = Retraining.objects.select_related("release", "scorer__job", "scorer__guideline")
    past_retraining = get_object_or_404(retrainings, pk=retraining_id)
    release_for(person_of(request), past_retraining.release.name)
    runs = runs_of(past_retraining)
    for run in runs:
        refuse_sealed_run(person_of(request), run)
    jobs = jobs_of(past_retraining)
    context = {
        "retraining": past_retraining,
        "jobs": jobs,
        "working": [job for job in jobs if not job.is_over],
        "runs": [_compared(run) for run in runs if run.finished_at],
        "crumbs": _crumbs(past_retraining),
    }
    return render(request, "benchmark/retraining.html", context)


def _compared(run: BenchmarkRun) -> dict[str, Any]:
    comparison = compared(run)
    moved: dict[str, list[dict[str, Any]]] = {}
    for moved_number in comparison.moved:
        cells = moved.setdefault(moved_number.change.model, [])
        cells.append(
            _shown(
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
        "totals": join_names(_words(comparison.totals)),
    }


def _shown(run: BenchmarkRun, moved: ExplainedChange, *, is_first: bool) -> dict[str, Any]:
    """What all numbers of a scope rest on stands below the first of them alone."""
    change = moved.change
    return {
        "scope": scope_label(run.scorer.guideline.document, change.scope),
        "metric": metric_label(change.metric),
        "change": change,
        "url": cell_url(run, change.model, change.scope),
        "is_first": is_first,
        "reasons": _words(moved.reasons) if is_first else [],
    }


def _words(reasons: Counter[str]) -> list[str]:
    return [f"{format_grouped(n)} × {change_word(kind)}" for kind, n in sorted(reasons.items())]


def _crumbs(past_retraining: Retraining) -> list[dict[str, str]]:
    return [
        {"label": _("Benchmarks"), "url": reverse("runs")},
        {"label": _("Retraining on {release}").format(release=past_retraining.release.name), "url": ""},
    ]
