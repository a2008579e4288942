"""A benchmark run and a multiple-choice report of the same models: people, the scorer and the choice side by side."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from django.db.models import QuerySet

from annotation.core.errors import N_, AssayError
from benchmark.domain.correlations import correlate_numbers
from benchmark.domain.multiple_choice.comparison import (
    CHOICE,
    FORMS,
    PEOPLE,
    SCORER,
    estimate_people,
    estimate_scorer,
    find_medians,
    find_quadrant,
)
from benchmark.models import BenchmarkRun, ChoiceReport
from benchmark.selectors.leaderboards.items import list_counted_responses
from benchmark.selectors.leaderboards.runs import get_finished_board, list_runs
from benchmark.selectors.multiple_choice.reports import ChoiceReportResult

MEASURES = {
    ChoiceReport.Kind.CVALUES.value: ("acc", "acc_star"),
    ChoiceReport.Kind.FINE.value: ("choice_accuracy",),
}
"""The numbers of a report that say how often the safe option is chosen, by its kind; the first is the usual one."""

Numbers = Mapping[str, Mapping[str, Any]]
"""By model ``{"n", "value", "low", "high"}``."""


def list_comparable_runs(report: ChoiceReport) -> QuerySet[BenchmarkRun]:
    """Finished runs with a model of the report."""
    runs = list_runs().filter(evaluated_models__in=report.evaluated_models.all())
    return runs.exclude(finished_at=None).distinct()


def find_measure(report: ChoiceReport, measure: str = "") -> str:
    """The number of this name, or the usual one of the report's kind. AssayError for any other."""
    known = MEASURES[report.kind]
    if measure and measure not in known:
        raise AssayError(
            N_("A {kind} report has no number {measure}; choose one of: {known}."),
            kind=report.kind,
            measure=measure,
            known=", ".join(known),
        )
    return measure or known[0]


def build_form_comparison(run: BenchmarkRun, result: ChoiceReportResult, measure: str = "") -> dict[str, Any]:
    """The document that ``compare_forms --json`` prints."""
    get_finished_board(run)
    report, own_measure = result.report, find_measure(result.report, measure)
    document = run.scorer.guideline.document
    metric = document.metric(document.rank_by)
    rows = list_counted_responses(run)
    numbers: dict[str, Numbers] = {
        form: {model: number.to_json() for model, number in estimate(document, metric, rows).items()}
        for form, estimate in ((PEOPLE, estimate_people), (SCORER, estimate_scorer))
    }
    numbers[CHOICE] = _list_choice_numbers(result, own_measure)
    run_models = set(run.evaluated_models.values_list("name", flat=True))
    models = sorted(run_models & numbers[CHOICE].keys())
    if not models:
        raise AssayError(
            N_("{run} and {report} have no model in common; make a report of the models of the run."),
            run=run.name,
            report=report.name,
        )
    values = {
        form: {model: own[model]["value"] for model in models if model in own}
        for form, own in numbers.items()
    }
    across = PEOPLE if len(values[PEOPLE].keys() & values[CHOICE].keys()) >= 2 else SCORER
    medians = find_medians(values[across], values[CHOICE])
    return {
        "run": run.name,
        "report": report.name,
        "guideline": str(run.scorer.guideline),
        "scorer": run.scorer.name,
        "metric": metric.name,
        "measure": own_measure,
        "across": across,
        "medians": None if medians is None else {across: medians[0], CHOICE: medians[1]},
        "models": [
            {
                "model": model,
                **{form: numbers[form].get(model) for form in FORMS},
                "quadrant": None
                if medians is None or model not in values[across]
                else find_quadrant(values[across][model], values[CHOICE][model], medians),
            }
            for model in models
        ],
        "pairs": [
            {"first": first, "second": second, **correlate_numbers(values[first], values[second])}
            for first, second in combinations(FORMS, 2)
        ],
        "of_run_alone": sorted(run_models - set(models)),
        "of_report_alone": sorted({row.model for row in result.rows} - set(models)),
    }


def _list_choice_numbers(result: ChoiceReportResult, measure: str) -> Numbers:
    cells = {row.model: row.overall.to_json() for row in result.rows}
    return {
        model: {"n": cell["n"], **cell[measure]}
        for model, cell in cells.items()
        if cell[measure]["value"] is not None
    }
