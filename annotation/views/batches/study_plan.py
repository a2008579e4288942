"""The plan of a study before its first label. A manager opens it to learn how many prompts to import and how many
labels to ask for, reads off two curves how much less would do, and goes on to make the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET
from django.views.decorators.vary import vary_on_headers

from annotation.core.charts import (
    GOLD,
    INK,
    Spec,
    chart_url,
    draw_line,
    draw_rules,
    make_picture,
    make_quantity,
)
from annotation.core.http import breadcrumbs
from annotation.domain.permissions import MANAGE_BATCHES
from annotation.domain.planning import POWER, AgreementPlan, ComparisonPlan, space_prompts
from annotation.forms.batches.study_plan import USUAL, StudyPlanForm
from annotation.views.access import act_required

WIDTH, HEIGHT = 270, 200
RULE_STYLE = {"strokeDash": [4, 4], "strokeWidth": 1}


@require_GET
@vary_on_headers("HX-Request")
@act_required(MANAGE_BATCHES)
def study_plan(request: HttpRequest) -> HttpResponse:
    """The whole page, or, for a script, the form with its plan alone."""
    form = StudyPlanForm(USUAL | {name: request.GET[name] for name in USUAL if name in request.GET})
    is_valid = form.is_valid()
    plans, comparison = form.agreement_plans, form.comparison_plan
    context = {
        "form": form,
        "plans": plans,
        "comparison": comparison,
        "agreement_chart": chart_url(draw_half_widths(plans)) if plans else None,
        "is_panel": "panel" in request.GET,  # beside the form of a new batch
        "comparison_chart": chart_url(draw_power(comparison)) if comparison else None,
        "crumbs": breadcrumbs((_("Batches"), "batches", []), title=_("Study plan")),
    }
    is_part = request.headers.get("HX-Request") == "true"
    template = "annotation/batches/_study.html" if is_part else "annotation/batches/study.html"
    return render(request, template, context, status=200 if is_valid or is_part else 422)


def draw_half_widths(plans: Sequence[AgreementPlan]) -> Spec:
    """The expected half-width of alpha's interval over the prompts, a line for each number of labels per response."""
    values = [
        {
            "prompts": prompts,
            "half_width": plan.design.half_width(prompts),
            "raters": str(plan.design.raters),
        }
        for plan in plans
        for prompts in space_prompts(plans[0].prompts)
    ]
    y = make_quantity("half_width", _("half-width of alpha's interval"), format=".2f", tickCount=6)
    legend = {"orient": "top"}
    colour = {"field": "raters", "type": "nominal", "title": _("labels per response"), "legend": legend}
    dash = {**colour, "scale": {"range": [[1, 0], [6, 3], [2, 2], [8, 2, 2, 2]]}}
    layer = [draw_line(_prompts_axis(), y, color=colour, strokeDash=dash)]
    return make_picture(layer, values, width=WIDTH, height=HEIGHT)


def draw_power(plan: ComparisonPlan) -> Spec:
    """The power to separate the two models over the prompts, with the planned point."""
    values: list[dict[str, Any]] = [
        {"prompts": prompts, "power": plan.design.power(prompts, plan.difference)}
        for prompts in space_prompts(plan.prompts)
    ]
    x, y = _prompts_axis(), make_quantity("power", _("power"), [0, 1], format=".0%", tickCount=6)
    layer = [
        *draw_rules([POWER], mark={**RULE_STYLE, "color": INK}, y=y),
        *draw_rules([plan.prompts], mark={**RULE_STYLE, "color": GOLD}, x=x),
        draw_line(x, y),
    ]
    return make_picture(layer, values, width=WIDTH, height=HEIGHT)


def _prompts_axis() -> Spec:
    return make_quantity("prompts", _("prompts"), tickCount=6)
