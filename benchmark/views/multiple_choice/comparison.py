"""The page that lays a multiple-choice report beside a benchmark run: do models do what they choose?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.core.charts import (
    BLUE,
    GOLD,
    INK,
    PADDING,
    Look,
    Spec,
    chart_url,
    draw_points,
    draw_rules,
    make_looks,
    make_picture,
    make_quantity,
)
from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.formatting import format_percent, format_percent_number, format_range
from annotation.core.http import breadcrumbs
from annotation.domain.guidelines import Metric
from annotation.domain.permissions import READ_BOARDS
from annotation.views.access import act_required, person_of
from benchmark.domain.correlations import MIN_MODELS
from benchmark.domain.leaderboards.metrics import format_metric_interval, format_metric_value
from benchmark.domain.multiple_choice.comparison import (
    BOTH,
    CHOICE,
    CHOICE_ONLY,
    NEITHER,
    PEOPLE,
    QUADRANTS,
    SCORER,
    WORDS_ONLY,
)
from benchmark.models import BenchmarkRun
from benchmark.selectors.leaderboards.runs import list_run_rows, refuse_sealed_run
from benchmark.selectors.multiple_choice.comparison import (
    MEASURES,
    build_form_comparison,
    list_comparable_runs,
)
from benchmark.services.multiple_choice import compute_result
from benchmark.views.leaderboards.formatting import metric_label
from benchmark.views.multiple_choice.reports import get_open_report
from benchmark.views.multiple_choice.wording import list_form_measures, list_measures
from scoring.views.scorers.wording import ScorerFigure, to_figure

MAX_ITEMS = 100_000
"""Of so many labels a page waits for the comparison."""
WIDTH, HEIGHT = 560, 440
LABEL_PIXELS = 150
THIN: Spec = {"strokeWidth": 1}


@dataclass(frozen=True)
class NumberText:
    value: str
    interval: str
    n: int


@dataclass(frozen=True)
class ModelLine:
    """``numbers`` are people's, the scorer's and the choice; ``quadrant`` is blank where one of the two is missing."""

    model: str
    numbers: tuple[NumberText | None, ...]
    quadrant: str


@dataclass(frozen=True)
class FormPair:
    first: str
    second: str
    n: int
    spearman: ScorerFigure | None
    whisker: Mapping[str, float | None]


@require_GET
@never_cache
@act_required(READ_BOARDS)
def compare(request: HttpRequest, name: str) -> HttpResponse:
    """``?run=..``, and as wished ``&measure=..``; the newest run of its models where none is named."""
    report = get_open_report(request, name)
    person = person_of(request)
    open_runs = [row.run for row in list_run_rows(person, list_comparable_runs(report)) if not row.sealed]
    stated = request.GET.get("run", "")
    run = next(
        (run for run in open_runs if run.name == stated), None if stated else next(iter(open_runs), None)
    )
    measure = request.GET.get("measure", "")
    context: dict[str, Any] = {
        "report": report,
        "run": run,
        "runs": [run.name for run in open_runs],
        "is_unknown": bool(stated) and run is None,
        "is_large": run is not None and run.items.count() > MAX_ITEMS,
        "min_models": MIN_MODELS,
        "crumbs": breadcrumbs(
            (_("Boards"), "runs", []),
            (_("Multiple choice"), "choice-reports", []),
            (report.name, "choice-report", [report.name]),
            title=_("Compared with people"),
        ),
    }
    if run is not None and not context["is_large"]:
        refuse_sealed_run(person, run)
        known = MEASURES[report.kind]
        own_measure = measure if measure in known else known[0]
        try:
            document = build_form_comparison(run, compute_result(report), own_measure)
        except AssayError as error:
            context["refusal"] = error_text(error)
        else:
            context |= _build_context(document, run) | {
                "measures": _list_measure_links(report.name, run.name, report.kind, own_measure)
            }
    return render(request, "benchmark/multiple_choice/comparison.html", context)


def _build_context(document: Mapping[str, Any], run: BenchmarkRun) -> dict[str, Any]:
    guideline = run.scorer.guideline.document
    metric = guideline.metric(guideline.rank_by)
    lines = [_model_line(row, metric) for row in document["models"]]
    forms = list_form_labels()
    return {
        "document": document,
        "metric": metric_label(metric),
        "lines": lines,
        "quadrants": _list_quadrants(document),
        "across": forms[document["across"]],
        "pairs": [_form_pair(pair, forms) for pair in document["pairs"]],
        "chart": _draw(document, metric),
        "has_interval": len(lines) >= MIN_MODELS,
    }


def list_form_labels() -> dict[str, str]:
    return {PEOPLE: _("people"), SCORER: _("scorer"), CHOICE: _("multiple choice")}


def list_quadrant_labels() -> dict[str, str]:
    return {
        BOTH: _("high in both"),
        WORDS_ONLY: _("high in its own words only"),
        CHOICE_ONLY: _("high in multiple choice only"),
        NEITHER: _("low in both"),
    }


def _list_measure_links(report: str, run: str, kind: str, own_measure: str) -> list[tuple[str, str, bool]]:
    """(label, address, whether it is chosen); none where the report has one number alone."""
    labels = {measure.key: measure.short for measure in (*list_measures(kind), *list_form_measures(kind))}
    address = reverse("choice-comparison", args=[report])
    links = [
        (labels[measure], f"{address}?{urlencode({'run': run, 'measure': measure})}", measure == own_measure)
        for measure in MEASURES[kind]
    ]
    return links if len(links) > 1 else []


def _model_line(row: Mapping[str, Any], metric: Metric) -> ModelLine:
    own_words = (
        None
        if row[form] is None
        else NumberText(
            format_metric_value(metric, row[form]["value"]),
            format_metric_interval(metric, row[form]["low"], row[form]["high"]),
            row[form]["n"],
        )
        for form in (PEOPLE, SCORER)
    )
    choice = row[CHOICE]
    ends = (format_percent_number(choice[end], undefined="") for end in ("low", "high"))
    choice_text = NumberText(format_percent(choice["value"]), format_range(*ends) or "-", choice["n"])
    quadrant = list_quadrant_labels()[row["quadrant"]] if row["quadrant"] else ""
    return ModelLine(row["model"], (*own_words, choice_text), quadrant)


def _list_quadrants(document: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """(label, its models), every quadrant; none where there are no medians."""
    if document["medians"] is None:
        return []
    labels = list_quadrant_labels()
    return [
        (labels[quadrant], [row["model"] for row in document["models"] if row["quadrant"] == quadrant])
        for quadrant in QUADRANTS
    ]


def _form_pair(pair: Mapping[str, Any], forms: Mapping[str, str]) -> FormPair:
    spearman = pair["spearman"]
    return FormPair(
        first=forms[pair["first"]],
        second=forms[pair["second"]],
        n=pair["n"],
        spearman=to_figure(spearman),
        whisker={
            end: None if spearman[end] is None else 50 + 50 * spearman[end]
            for end in ("low", "value", "high")
        },
    )


def _draw(document: Mapping[str, Any], metric: Metric) -> str | None:
    """The address of the scatter plot; None where no model has a number in its own words."""
    unit = 100 if metric.kind == "rate" else 1
    forms = list_form_labels()
    points = [
        {
            "model": row["model"],
            "form": forms[form],
            "label": row["model"] if form == PEOPLE or row[PEOPLE] is None else "",
            **_ends("x", row[CHOICE], 100),
            **_ends("y", row[form], unit),
        }
        for row in document["models"]
        for form in (PEOPLE, SCORER)
        if row[form] is not None
    ]
    return chart_url(_plot(points, document, metric, unit)) if points else None


def _ends(axis: str, number: Mapping[str, Any], unit: int) -> dict[str, float]:
    """The value and both ends; of a number without an interval they are the value."""
    value = number["value"]
    ends = {end: value if number[end] is None else number[end] for end in ("low", "high")}
    return {axis: unit * value, **{f"{axis}_{end}": unit * bound for end, bound in ends.items()}}


def _plot(
    points: Sequence[Mapping[str, Any]], document: Mapping[str, Any], metric: Metric, unit: int
) -> Spec:
    forms = list_form_labels()
    drawn_forms = [form for form in (PEOPLE, SCORER) if any(point["form"] == forms[form] for point in points)]
    looks = {PEOPLE: Look(forms[PEOPLE], GOLD, "circle"), SCORER: Look(forms[SCORER], BLUE, "diamond")}
    colour, shape = make_looks("form", [looks[form] for form in drawn_forms], {"orient": "top"})
    name = metric_label(metric)
    x = make_quantity("x", f"{forms[CHOICE]}, %", scale={"zero": False})
    y = make_quantity("y", f"{name}, %" if unit == 100 else name, scale={"zero": False})
    across = {"x": {**x, "field": "x_low"}, "x2": {"field": "x_high"}, "y": y}
    along = {"x": x, "y": {**y, "field": "y_low"}, "y2": {"field": "y_high"}}
    whisker = {"type": "rule", "strokeWidth": 1, "opacity": 0.55}
    medians = document["medians"]
    layer = [
        *(draw_rules([100 * medians[CHOICE]], mark=THIN, x=x) if medians else []),
        *(draw_rules([unit * medians[document["across"]]], mark=THIN, y=y) if medians else []),
        {"mark": whisker, "encoding": {**across, "color": colour}},
        {"mark": whisker, "encoding": {**along, "color": colour}},
        draw_points(x, y, mark={"size": 70}, color=colour, shape=shape),
        {
            "mark": {"type": "text", "align": "left", "dx": 8, "dy": -8, "color": INK, "limit": LABEL_PIXELS},
            "encoding": {"x": x, "y": y, "text": {"field": "label", "type": "nominal"}},
        },
    ]
    return make_picture(layer, points, width=WIDTH, height=HEIGHT, padding={**PADDING, "right": LABEL_PIXELS})
