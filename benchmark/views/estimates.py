"""What to label next for a run: whom labels would tell apart, what a goal takes, and the batch that is made of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from annotation.core.charts import GOLD, SCHEMA, Spec, chart_url, draw_line, make_quantity
from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.formatting import (
    format_decimal,
    format_grouped,
    format_percent,
    format_range,
    format_signed,
    format_significant,
)
from annotation.core.http import breadcrumbs
from annotation.core.text_templates import render_text
from annotation.domain.permissions import MANAGE_BATCHES, PLAN_LABELS, READ_LABEL_PLANS
from annotation.models import ADJUDICATOR, ANNOTATOR
from annotation.views.access import act_required, may, person_of
from benchmark.domain.estimates.label_plan.basis import map_metrics
from benchmark.domain.estimates.label_plan.comparison import POWER
from benchmark.domain.estimates.label_plan.label_plan import (
    LabelEffort,
    StratumTarget,
    compute_curve,
    compute_half_widths,
)
from benchmark.domain.estimates.label_plan.separation import ModelPair, plan_separations
from benchmark.domain.leaderboards.metrics import list_scopes
from benchmark.forms.estimates import GapForm, LabelPlanBatchForm, PointsForm
from benchmark.models import BenchmarkRun
from benchmark.selectors.estimates.comparison_plan import (
    ComparisonStatus,
    find_comparison_under_way,
    find_default_gap,
    plan_run_comparison,
)
from benchmark.selectors.estimates.label_plan import LabellingStatus, PlanGoal, list_plans, measure_effort
from benchmark.selectors.estimates.prompts import (
    count_labelled,
    count_prompts_to_compare,
    count_prompts_to_separate,
    list_prompt_needs,
)
from benchmark.selectors.leaderboards.runs import get_run, refuse_sealed_run
from benchmark.services.estimates import create_comparison_batch, create_label_plan, load_standing
from benchmark.views.leaderboards.formatting import metric_label, scope_label
from scoring.selectors.scorers import list_release_people

CURVE = (0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10)
"""Half-widths that the curve is drawn through, in points."""
WIDTH, HEIGHT = 560, 260


@require_safe
@act_required(READ_LABEL_PLANS)
def label_plan_page(request: HttpRequest, name: str) -> HttpResponse:
    """``?points=2``, or ``?first=..&second=..`` to separate two models."""
    return _render_page(request, name)


@require_POST
@never_cache
@act_required(PLAN_LABELS)
def label_plan_batch(request: HttpRequest, name: str) -> HttpResponse:
    """The batch of what the same query asks for; the page again, with the reason, where it is refused."""
    return _render_page(request, name)


def _render_page(request: HttpRequest, name: str) -> HttpResponse:
    person = person_of(request)
    run = get_run(name)
    refuse_sealed_run(person, run)
    basis = load_standing(run)
    comparison, gap_form = _read_comparison(request, basis)
    if request.method == "POST" and "gap" in request.GET:
        return _create_comparison(request, run, comparison)
    points = PointsForm(request.GET if "points" in request.GET else {"points": "2"})
    goal = _read_goal(request, basis, points)
    form = LabelPlanBatchForm(request.POST or None, initial=_initial_people(run))
    if request.method == "POST" and goal is not None and form.is_valid():
        answer = _create_plan(request, run, goal, form)
        if answer is not None:
            return answer
    context = _plan_context(basis, goal) | {
        "run": run,
        "points": points,
        "form": form,
        "query": request.GET.urlencode(),
        "crumbs": breadcrumbs(
            (_("Boards"), "runs", []), (run.name, "run", [run.name]), title=_("Label plan")
        ),
        "plans": [_plan_row(plan) for plan in list_plans(run)],
        "gap_form": gap_form,
        "comparison": _comparison_context(basis, comparison),
    }
    is_refused = request.method == "POST" or not points.is_valid() or not gap_form.is_valid()
    status = 422 if is_refused else 200
    return render(request, "benchmark/estimates/label_plan.html", context, status=status)


def _read_comparison(request: HttpRequest, basis: LabellingStatus) -> tuple[ComparisonStatus, GapForm]:
    """For the usual gap where none, or no possible one, is asked for."""
    usual = format_significant(find_default_gap(basis.document) * _unit(basis))
    form = GapForm(request.GET if "gap" in request.GET else {"gap": usual})
    gap = form.cleaned_data["gap"] / _unit(basis) if form.is_valid() else None
    return plan_run_comparison(basis, gap), form


def _create_comparison(request: HttpRequest, run: BenchmarkRun, comparison: ComparisonStatus) -> HttpResponse:
    """One press makes the draft; what refuses it is said on the page again."""
    try:
        made = create_comparison_batch(run=run, gap=comparison.gap, actor=person_of(request))
        text = render_text("benchmark/wording/message.txt", code="batch_draft", name=made.batch.name)
        messages.success(request, text)
    except AssayError as error:
        messages.error(request, error_text(error))
    return redirect("label-next", run.name)


@dataclass(frozen=True)
class ComparedModelRow:
    """A model with what it needs; ``reason`` is why it is not compared, blank of one that needs only precision."""

    model: str
    reason: str
    labels: int | None
    more: int | None


def _comparison_context(basis: LabellingStatus, comparison: ComparisonStatus) -> dict[str, Any]:
    unit = _unit(basis)
    rows = [
        ComparedModelRow(
            plan.model.model,
            comparison.grounds[plan.model.model].reason or "",
            plan.labels,
            plan.more,
        )
        for plan in comparison.plans
    ]
    rows += [
        ComparedModelRow(model, ground.reason or "", None, None)
        for model, ground in comparison.helpless.items()
    ]
    under_way = find_comparison_under_way(basis.run)
    return {
        "rows": [row for row in rows if row.reason or row.more],
        "all": len(comparison.grounds),
        "compared": comparison.compared,
        "not_compared": len(comparison.grounds) - comparison.compared,
        "more": comparison.more,
        "more_shown": format_grouped(comparison.more),
        "work": _format_work(measure_effort(basis.run.scorer.guideline.name), comparison.more),
        "gap": format_significant(comparison.gap * unit),
        "short_of_prompts": comparison.short_of_prompts,
        "prompts_needed": count_prompts_to_compare(basis, comparison),
        "shown_gap": format_significant(comparison.shown_gap * unit),
        "spoiled": sum(plan.model.is_spoiled and bool(plan.more) for plan in comparison.plans),
        "lacking": sum(plan.more for plan in comparison.plans),
        "helpless": len(comparison.helpless),
        "power": format_percent(POWER, 0),
        "query": urlencode({"gap": format_significant(comparison.gap * unit)}),
        "batch": under_way and under_way.batch,
        "batch_url": under_way and reverse("batch", args=[under_way.batch.name]),
    }


def _read_goal(request: HttpRequest, basis: LabellingStatus, points: PointsForm) -> PlanGoal | None:
    """None where the number is none."""
    if "first" in request.GET:
        pair = (request.GET["first"], request.GET.get("second", ""))
        basis.find_pair(*pair)  # which raises NotFound where a name is no model's
        return PlanGoal(pair=pair)
    return PlanGoal(half_width=points.cleaned_data["points"] / _unit(basis)) if points.is_valid() else None


def _unit(basis: LabellingStatus) -> int:
    """Points in one of the metric: a rate's are hundredths."""
    return 100 if basis.metric.kind == "rate" else 1


def _create_plan(
    request: HttpRequest, run: BenchmarkRun, goal: PlanGoal, form: LabelPlanBatchForm
) -> HttpResponse | None:
    """None, with the reason on the form, where it is refused."""
    person = person_of(request)
    # Without the people to open it, it stays a draft: a manager adds them.
    open_now = may(person, MANAGE_BATCHES) and "draft" not in request.POST
    try:
        made = create_label_plan(run=run, goal=goal, open_now=open_now, actor=person, **form.options())
    except AssayError as error:
        form.add_error(None, error_text(error))
        return None
    code = "batch_open" if open_now else "batch_draft"
    messages.success(request, render_text("benchmark/wording/message.txt", code=code, name=made.batch.name))
    return (
        redirect("batch", made.batch.name)
        if may(person, MANAGE_BATCHES)
        else redirect("label-next", run.name)
    )


def _initial_people(run: BenchmarkRun) -> dict[str, Any]:
    return {
        "annotators": list_release_people(run.scorer, ANNOTATOR),
        "adjudicators": list_release_people(run.scorer, ADJUDICATOR),
    }


def _plan_context(basis: LabellingStatus, goal: PlanGoal | None) -> dict[str, Any]:
    takes = measure_effort(basis.run.scorer.guideline.name)
    pairs = [pair for pair in basis.neighbours if pair is not None]
    neighbours = [
        _neighbour_row(basis, pair, own, takes)
        for pair, own in zip(pairs, plan_separations(pairs), strict=True)
    ]
    demands, refusal = _list_demands(basis, goal)
    needs = _prompt_needs(basis, goal)
    more = sum(demand.more for demand in demands)
    context = {
        "metric": metric_label(basis.metric),
        "rate": basis.metric.kind == "rate",
        "neighbours": [neighbour for neighbour in neighbours if not neighbour.separated],
        "uncompared_neighbours": any(not neighbour.is_compared for neighbour in neighbours),
        "separated": sum(neighbour.separated for neighbour in neighbours),
        "undefined": sum(pair is None for pair in basis.neighbours),
        "pair": goal.pair if goal else None,
        "half_width": ""
        if goal is None or goal.half_width is None
        else _format_points(basis, goal.half_width),
        "refusal": refusal,
        "more": more,
        "more_shown": format_grouped(more),
        "work": _format_work(takes, more),
        "waiting": basis.waiting,
        "assumed": sum(demand.stratum.assumed for demand in demands),
        "strata": len(demands),
        "all_labelled": count_labelled(basis.run),
        "prompt_needs": needs,
        "prompts_met": bool(needs) and all(need["is_met"] for need in needs),
    }
    return context | _table_context(basis, demands) | _curve_context(basis)


def _prompt_needs(basis: LabellingStatus, goal: PlanGoal | None) -> list[dict[str, Any]]:
    """What only more prompts narrow, by column; nothing where a pair is asked for."""
    if goal is None or goal.half_width is None:
        return []
    return [
        {
            "label": scope_label(basis.document, prompt_need.scope),
            "prompts": prompt_need.prompts,
            "now": _format_half_width(basis, prompt_need.half_width),
            "needed": prompt_need.needed,
            "is_met": prompt_need.is_met,
        }
        for prompt_need in list_prompt_needs(basis, goal.half_width)
    ]


def _list_demands(basis: LabellingStatus, goal: PlanGoal | None) -> tuple[list[StratumTarget], str]:
    if goal is None:
        return [], ""
    try:
        return basis.plan_labels(goal), ""
    except AssayError as error:
        return [], error_text(error)


@dataclass(frozen=True)
class NeighbourRow:
    """Two models as a line of the table; ``more`` labels would separate them, None where no number would."""

    first: str
    second: str
    difference: str
    interval: str
    is_compared: bool
    separated: bool
    more: int | None
    work: str
    url: str
    prompts: int | None
    """About so many would separate them, where no label does."""


def _neighbour_row(
    basis: LabellingStatus, pair: ModelPair, demands: Sequence[StratumTarget] | None, takes: LabelEffort
) -> NeighbourRow:
    more = None if demands is None else sum(demand.more for demand in demands)
    unit = _unit(basis)
    low, high = (format_signed(end * unit, 1) for end in pair.interval) if pair.interval else ("", "")
    return NeighbourRow(
        first=pair.first,
        second=pair.second,
        difference=format_signed(pair.difference * unit, 1),
        interval=format_range(low, high),
        is_compared=pair.is_compared,
        separated=pair.separated,
        more=more,
        work=_format_work(takes, more or 0),
        url=f"{_address(basis)}?{urlencode({'first': pair.first, 'second': pair.second})}#wanted",
        prompts=count_prompts_to_separate(basis, pair),
    )


def _address(basis: LabellingStatus) -> str:
    return reverse("label-next", args=[basis.run.name])


def _format_points(basis: LabellingStatus, half_width: float) -> str:
    return format_significant(half_width * _unit(basis))


def _format_half_width(basis: LabellingStatus, half_width: float | None) -> str:
    return format_decimal(None if half_width is None else half_width * _unit(basis), 1, undefined="")


def _format_work(takes: LabelEffort, labels: int) -> str:
    """Hours of each annotator, and of who decides; blank where nobody has measured it."""
    each, deciding = takes.compute_hours(labels), takes.compute_decision_hours(labels)
    if each is None or not labels:
        return ""
    return render_text("benchmark/wording/work.txt", each=each, annotators=takes.overlap, deciding=deciding)


def _table_context(basis: LabellingStatus, demands: Sequence[StratumTarget]) -> dict[str, Any]:
    """The labels that are wanted by model and dimension, beside how well each is known now."""
    columns = [scope for scope in list_scopes(basis.document) if scope in map_metrics(basis.document)]
    more: dict[tuple[str, str], int] = defaultdict(int)
    for demand in demands:
        more[demand.stratum.model, demand.stratum.scope] += demand.more
    now = compute_half_widths([demand.stratum for demand in demands])
    models = [model for model in basis.models if any((model, scope) in more for scope in columns)]
    return {
        "columns": [scope_label(basis.document, scope) for scope in columns],
        "rows": [
            {
                "model": model,
                "more": sum(more.get((model, scope), 0) for scope in columns),
                "cells": [
                    _table_cell(basis, more.get((model, scope)), now.get((model, scope))) for scope in columns
                ],
            }
            for model in models
        ],
        "by_column": [sum(more.get((model, scope), 0) for model in models) for scope in columns],
    }


def _table_cell(basis: LabellingStatus, more: int | None, now: float | None) -> dict[str, Any]:
    return {"more": more, "now": _format_half_width(basis, now)}


def _curve_context(basis: LabellingStatus) -> dict[str, Any]:
    """What each half-width would take, as a picture and as its table."""
    unit = _unit(basis)
    labels = compute_curve(basis.strata, [points / unit for points in CURVE])
    values = [{"points": points, "labels": n} for points, n in zip(CURVE, labels, strict=True)]
    if not any(labels):
        return {"chart": "", "curve": []}
    return {"chart": chart_url(_draw_curve(values)), "curve": values}


def _draw_curve(values: Sequence[dict[str, Any]]) -> Spec:
    x = make_quantity("labels", _("More gold labels"), format=",d", tickCount=5, titlePadding=10)
    title = _("Plus or minus, in points")
    y = make_quantity("points", title, scale={"domainMin": 0}, tickCount=6, titlePadding=10)
    # Where two half-widths take as many labels, by half-width too: else the line would go back and forth.
    order = {"field": "points", "type": "quantitative"}
    return {
        "$schema": SCHEMA,
        "data": {"values": list(values)},
        "padding": {"left": 20, "top": 6, "right": 26, "bottom": 6},
        "width": WIDTH,
        "height": HEIGHT,
        **draw_line(x, y, mark={"point": {"color": GOLD, "filled": True, "size": 50}}, order=order),
    }


def _plan_row(plan: Any) -> dict[str, Any]:
    return {
        "plan": plan,
        "url": reverse("batch", args=[plan.batch.name]),
        "drawn": sum(stratum["drawn"] for stratum in plan.strata),
        "pair": plan.goal.get("pair"),
        "gap": plan.goal.get("gap"),
    }
