"""What the rules read in answers, kept: a report is opened often, and reading takes longer than all else of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from annotation.errors import N_
from annotation.models import EvaluatedModel, Job, Person
from annotation.services import jobs
from benchmark.choices import VERSION
from benchmark.models import ChoiceReport, ReadAnswer
from benchmark.selectors.choice_answers import AnswerTable, sheet_of
from benchmark.selectors.choices import ChoiceReportResult, reports_with_all, result_in

KIND = "read_answers"
READING = N_("reading the answers")
CHUNK = 2000


def result_of(report: ChoiceReport) -> ChoiceReportResult:
    """As the labels are now."""
    return result_in(sheet_with(report))


def sheet_with(report: ChoiceReport, models: Iterable[EvaluatedModel] | None = None) -> AnswerTable:
    """The sheet of all models of the report, or of these; whoever asks next finds what was read for it."""
    sheet = sheet_of(report, models)
    if sheet.anew:
        ReadAnswer.objects.bulk_create(
            (
                ReadAnswer(response_id=pk, rules=VERSION, choice=parsed.choice, rule=parsed.rule)
                for pk, parsed in sheet.anew.items()
            ),
            batch_size=CHUNK,
            ignore_conflicts=True,  # somebody else has just read it, too
        )
    return sheet


def read_ahead(report: ChoiceReport, *, actor: Person | None = None) -> Job:
    """Have a worker read the answers before somebody opens the report."""
    return jobs.enqueue(kind=KIND, payload={"report": report.pk}, title=report.name, actor=actor)


def perform(context: jobs.JobContext) -> dict[str, Any]:
    """Model by model; what was read before is found."""
    report = reports_with_all().get(pk=context.payload["report"])
    models, n = list(report.evaluated_models.order_by("name")), 0
    for done, model in enumerate(models):
        context.report(done / len(models), READING)
        n += len(sheet_with(report, [model]).anew)
    return {"report": report.name, "read": n}
