"""Multiple-choice reports: which there are, what their numbers are now, and what is still to be said by people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from annotation.core.errors import N_, NotFound
from annotation.core.study_scope import build_study_filter
from annotation.models import Batch, Dataset, Person, Task
from annotation.selectors.access import (
    blind_batches,
    record_openings,
    refuse_sealed_gold,
    sealed_datasets,
)
from benchmark.domain.multiple_choice import NEED_CHECK, VERSION
from benchmark.domain.multiple_choice.scores import Accuracies, FineScores
from benchmark.models import ChoiceReport, Judge, QuestionVariant
from benchmark.selectors.leaderboards.runs import refuse_sealed_dataset
from benchmark.selectors.multiple_choice.answers import (
    CHOICE_GUIDELINE,
    OPEN_GUIDELINE,
    PEOPLE,
    SETTLED,
    AnsweredQuestion,
    AnswerTable,
    find_open_source,
)

Scores = FineScores | Accuracies


def list_reports() -> QuerySet[ChoiceReport]:
    return ChoiceReport.objects.select_related(
        "dataset", "collection", "scorer__guideline", "scorer__release", "judge__guideline", "created_by"
    )


def get_report(name: str) -> ChoiceReport:
    report = list_reports().filter(name=name).first()
    if report is None:
        known = ", ".join(ChoiceReport.objects.values_list("name", flat=True)[:20]) or "-"
        raise NotFound(
            N_("No multiple-choice report is named {name}; known are: {known}."), name=name, known=known
        )
    return report


def refuse_sealed_report(person: Person, report: ChoiceReport) -> None:
    """Forbidden for who judges responses of its dataset blind now, or of what its scorer learned from."""
    refuse_sealed_dataset(person, report.dataset)
    if report.scorer is not None:
        refuse_sealed_gold(person, report.scorer.release.batches.all())
    # What people decided of its answers is in it, too.
    read = Batch.objects.filter(
        strata__dataset=report.dataset, guideline__name__in=[CHOICE_GUIDELINE, OPEN_GUIDELINE]
    )
    record_openings(person, read.values_list("pk", flat=True))


@dataclass(frozen=True)
class ChoiceReportRow:
    """A report as the list shows it; of a ``sealed`` one no more than its name."""

    report: ChoiceReport
    sealed: bool


def list_report_rows(person: Person, rows: QuerySet[ChoiceReport]) -> list[ChoiceReportRow]:
    sealed = set(sealed_datasets(person).values_list("pk", flat=True))
    blind = set(blind_batches(person).values_list("pk", flat=True))
    reports = rows.prefetch_related("evaluated_models", "scorer__release__batches")
    return [
        ChoiceReportRow(
            report, report.dataset_id in sealed or not blind.isdisjoint(_list_gold_batches(report))
        )
        for report in reports
    ]


def _list_gold_batches(report: ChoiceReport) -> list[int]:
    """Of what its scorer learned from."""
    return [] if report.scorer is None else [batch.pk for batch in report.scorer.release.batches.all()]


def list_question_datasets(datasets: QuerySet[Dataset]) -> QuerySet[Dataset]:
    return datasets.filter(Exists(QuestionVariant.objects.filter(prompt__dataset=OuterRef("pk"))))


def list_answer_judges() -> QuerySet[Judge]:
    """Judges by the guideline of open-ended answers, whatever its version."""
    return Judge.objects.filter(guideline__name=OPEN_GUIDELINE).select_related("guideline")


@dataclass(frozen=True)
class ModelScores:
    """One model's numbers: over everything, by category, and by difficulty where the source says any."""

    model: str
    overall: Scores
    categories: dict[str, Scores]
    difficulties: dict[str, Scores]


@dataclass(frozen=True)
class ReportTodo:
    """What is still to be said. ``silent`` are prompts without a response, over all models.

    ``unread`` are the responses that no rule can read, and ``unsettled`` the open-ended ones that people have not
    settled (None where a scorer or judge settles them); ``.._free`` are those of them that no open batch holds.
    ``untold`` counts open-ended answers of which the scorer or judge has said nothing that is a level.
    """

    silent: int
    unread: tuple[int, ...]
    unread_free: tuple[int, ...]
    unsettled: tuple[int, ...] | None
    unsettled_free: tuple[int, ...]
    untold: int


@dataclass(frozen=True)
class ChoiceReportResult:
    table: AnswerTable
    rows: list[ModelScores]
    todo: ReportTodo

    @property
    def report(self) -> ChoiceReport:
        return self.table.report


def build_result(sheet: AnswerTable) -> ChoiceReportResult:
    rows = [_score_model(model, questions, sheet) for model, questions in sheet.questions.items()]
    return ChoiceReportResult(sheet, rows, build_todo(sheet))


def _score_model(model: str, questions: Iterable[AnsweredQuestion], sheet: AnswerTable) -> ModelScores:
    every = list(questions)
    by_category = {
        category: compute_scores(
            sheet.report, [question for question in every if question.category == category]
        )
        for category in sheet.categories
    }
    by_difficulty = {
        difficulty: compute_scores(
            sheet.report, [question for question in every if question.difficulty == difficulty]
        )
        for difficulty in sheet.difficulties
    }
    return ModelScores(model, compute_scores(sheet.report, every), by_category, by_difficulty)


def compute_scores(report: ChoiceReport, questions: Iterable[AnsweredQuestion]) -> Scores:
    if report.kind == ChoiceReport.Kind.FINE:
        return FineScores.score(question.result for question in questions)
    return Accuracies.score(picked for question in questions for picked in question.outcomes)


def build_todo(sheet: AnswerTable) -> ReportTodo:
    answers = [answer for answer in sheet.answers if answer.response is not None]
    unread = tuple(
        answer.response for answer in answers if answer.choice == NEED_CHECK and answer.response is not None
    )
    unsettled = tuple(
        answer.response
        for answer in answers
        if answer.form.is_open and answer.safe is None and answer.response is not None
    )
    by_people = find_open_source(sheet.report) == PEOPLE
    return ReportTodo(
        silent=len(sheet.answers) - len(answers),
        unread=unread,
        unread_free=_list_free(unread, CHOICE_GUIDELINE),
        unsettled=unsettled if by_people and sheet.report.kind == ChoiceReport.Kind.FINE else None,
        unsettled_free=_list_free(unsettled, OPEN_GUIDELINE) if by_people else (),
        untold=0 if by_people else len(unsettled),
    )


def _list_free(responses: tuple[int, ...], guideline: str) -> tuple[int, ...]:
    """Those that are in no batch of the study and the guideline that can still settle them, nor settled."""
    held = set(
        Task.objects.filter(Q(state__in=SETTLED) | ~Q(batch__state=Batch.State.CLOSED))
        .exclude(state=Task.State.WITHDRAWN)
        .filter(kind=Task.Kind.WORK, batch__guideline__name=guideline, **build_study_filter("batch__study"))
        .values_list("response_id", flat=True)
    )
    return tuple(response for response in responses if response not in held)


def result_to_json(result: ChoiceReportResult) -> dict[str, Any]:
    """What ``choice_report --json`` and the JSON export give."""
    report, todo = result.report, result.todo
    return {
        "report": report.name,
        "kind": report.kind,
        "dataset": report.dataset.name,
        "collection": report.collection.name,
        "open_by": {"source": find_open_source(report), "name": _find_source_name(report)},
        "rules": VERSION,
        "counting": result.table.rule,
        "categories": list(result.table.categories),
        "difficulties": list(result.table.difficulties),
        "rows": [
            {
                "model": row.model,
                "overall": _cell_to_json(row.overall),
                "categories": {name: _cell_to_json(cell) for name, cell in row.categories.items()},
                "difficulties": {name: _cell_to_json(cell) for name, cell in row.difficulties.items()},
            }
            for row in result.rows
        ],
        "read_by": count_readers(result.table),
        "todo": {
            "without_response": todo.silent,
            "need_check": len(todo.unread),
            "need_check_in_no_batch": len(todo.unread_free),
            "open_unsettled": len(todo.unsettled) if todo.unsettled is not None else todo.untold,
            "open_in_no_batch": len(todo.unsettled_free),
        },
    }


def _cell_to_json(held: Scores) -> dict[str, Any]:
    """An undefined number is null."""
    return {
        name: None if isinstance(value, dict) and value["value"] is None else value
        for name, value in held.to_json().items()
    }


def _find_source_name(report: ChoiceReport) -> str | None:
    source = report.scorer or report.judge
    return source.name if source else None


def count_readers(sheet: AnswerTable) -> dict[str, int]:
    """How many multiple-choice answers people read, and how many each rule."""
    counts = Counter(
        answer.rule or answer.by
        for answer in sheet.answers
        if answer.response is not None and not answer.form.is_open
    )
    return dict(sorted(counts.items()))
