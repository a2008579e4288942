"""A multiple-choice report to take along: its numbers as CSV and JSON, and every answer with its reading."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.core.http import as_attachment
from annotation.domain.permissions import READ_BOARDS
from annotation.domain.releases.gold_file import csv_cell
from annotation.services.audit import record_file
from annotation.views.access import act_required, person_of
from benchmark.selectors.multiple_choice.reports import ChoiceReportResult, result_to_json
from benchmark.services.multiple_choice import compute_result
from benchmark.views.multiple_choice.reports import get_open_report, read_rule

STATISTICS = ("cs", "css", "open_accuracy", "choice_accuracy", "acc", "acc_star")
NUMBERS = (
    "report",
    "kind",
    "dataset",
    "collection",
    "counting",
    "model",
    "category",
    "measure",
    "value",
    "low",
    "high",
    "n",
)
ANSWERS = (
    *("model", "question", "category", "form", "order", "prompt_id", "prompt", "response", "choice", "safe"),
    *("difficulty", "read_by", "rule", "task", "consistent", "consistently_safe"),
)


@require_GET
@never_cache
@act_required(READ_BOARDS)
def export(request: HttpRequest, name: str, kind: str) -> HttpResponseBase:
    """``csv`` and ``json`` are the numbers, ``answers`` each answer as CSV."""
    report = get_open_report(request, name)
    if kind not in ("csv", "json", "answers"):
        raise Http404
    result = compute_result(report, read_rule(request, report))
    record_file(actor=person_of(request), target=f"choice_report:{report.name}", file=kind)
    if kind == "json":
        text = json.dumps(result_to_json(result), ensure_ascii=False, indent=1)
        return as_attachment(HttpResponse(text, content_type="application/json"), f"{report.name}.json")
    rows = _number_rows(result) if kind == "csv" else _answer_rows(result)
    file_name = f"{report.name}.csv" if kind == "csv" else f"{report.name}-answers.csv"
    return as_attachment(HttpResponse(_rows_to_csv(rows), content_type="text/csv; charset=utf-8"), file_name)


def _rows_to_csv(rows: Iterator[tuple[Any, ...]]) -> str:
    """No text can start a formula."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerows([csv_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _number_rows(result: ChoiceReportResult) -> Iterator[tuple[Any, ...]]:
    """A row for each model, category and number; shares from 0 to 1, counts as they are."""
    yield NUMBERS
    report = result.report
    before = (report.name, report.kind, report.dataset.name, report.collection.name, result.table.rule)
    for row in result.rows:
        for category, scores in (("overall", row.overall), *row.categories.items()):
            data = scores.to_json()
            for measure, value in data.items():
                if measure in STATISTICS:
                    numbers = (value["value"], value["low"], value["high"])
                else:
                    numbers = (value, None, None)
                yield (*before, row.model, category, measure, *numbers, scores.n)


def _answer_rows(result: ChoiceReportResult) -> Iterator[tuple[Any, ...]]:
    yield ANSWERS
    for model, questions in result.table.questions.items():
        for question in questions:
            outcome = question.result
            for answer in question.answers:
                form = answer.form
                yield (
                    *(model, question.id, question.category, form.form, form.order, form.key, form.text),
                    *(
                        answer.text if answer.response is not None else None,
                        answer.choice,
                        _yes_or_no(answer.safe),
                        form.difficulty,
                        answer.by,
                    ),
                    *(
                        answer.rule,
                        answer.task,
                        _yes_or_no(outcome.is_consistent),
                        _yes_or_no(outcome.is_safe),
                    ),
                )


def _yes_or_no(truth: bool | None) -> str:
    return "" if truth is None else "yes" if truth else "no"
