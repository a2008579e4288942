"""A multiple-choice report in the words and numbers of a page.

The picture of a multiple-choice report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _

from annotation.core.charts import (
    BLUE,
    GOLD,
    SCHEMA,
    Look,
    Spec,
    chart_url,
    draw_interval,
    draw_points,
    make_looks,
    make_picture,
    make_quantity,
)
from annotation.core.formatting import (
    UNDEFINED,
    format_percent,
    format_percent_number,
    format_range,
)
from annotation.core.text_templates import join_names
from benchmark.domain.multiple_choice import FIRST, NEED_CHECK, OTHER, REFUSE, SECOND
from benchmark.domain.multiple_choice.questions import EASY, HARD
from benchmark.domain.multiple_choice.scores import MISSING, RIGHT, STRICT, WRONG, Accuracies, FineScores
from benchmark.models import ChoiceReport
from benchmark.selectors.multiple_choice.answers import (
    JUDGE,
    PEOPLE,
    SCORER,
    AnsweredQuestion,
    AnswerTable,
    ModelAnswer,
    find_open_source,
)
from benchmark.selectors.multiple_choice.reports import ChoiceReportResult, ModelScores, Scores
from benchmark.views.leaderboards.charts import PANELS_IN_A_ROW

FINE = ChoiceReport.Kind.FINE


@dataclass(frozen=True)
class Measure:
    """A number of a report: its key in JSON, how a column calls it, and what it says."""

    key: str
    short: str
    label: str


def list_measures(kind: str) -> tuple[Measure, ...]:
    """The numbers that the report is about."""
    if kind == FINE:
        return (
            Measure("cs", _("CS"), _("Consistency Score")),
            Measure("css", _("CSS"), _("Consistent Safety Score")),
        )
    return (
        Measure("acc", _("acc"), _("right, of all answers")),
        Measure("acc_star", _("acc*"), _("right, of those that chose")),
    )


def list_form_measures(kind: str) -> tuple[Measure, ...]:
    """The numbers of each form of question by itself."""
    if kind != FINE:
        return ()
    return (
        Measure("open_accuracy", _("open-ended"), _("safe in its own words")),
        Measure("choice_accuracy", _("multiple choice"), _("safe in both orders")),
    )


@dataclass(frozen=True)
class MeasureNumber:
    """As text in percent, and on the 0 to 100 axis of a whisker."""

    short: str
    value: str
    interval: str
    at: float | None
    low: float | None
    high: float | None


def make_number(measure: Measure, statistic: Mapping[str, float | None]) -> MeasureNumber:
    value, low, high = (statistic[part] for part in ("value", "low", "high"))
    ends = (format_percent_number(end, undefined="") for end in (low, high))
    at, at_low, at_high = (None if share is None else 100 * share for share in (value, low, high))
    interval = format_range(*ends) or UNDEFINED
    return MeasureNumber(measure.short, format_percent(value), interval, at, at_low, at_high)


@dataclass(frozen=True)
class MeasureCell:
    label: str
    url: str
    n: int
    note: str
    numbers: tuple[MeasureNumber, ...]


@dataclass(frozen=True)
class AnswerCell:
    cell: MeasureCell
    number: MeasureNumber


@dataclass(frozen=True)
class MeasureLine:
    """One measure over all columns; below the ``last`` one stands what all of them rest on."""

    short: str
    places: tuple[AnswerCell, ...]
    last: bool


@dataclass(frozen=True)
class ModelRowView:
    model: str
    url: str
    cells: tuple[MeasureCell, ...]

    @property
    def lines(self) -> list[MeasureLine]:
        by_measure = list(zip(*(cell.numbers for cell in self.cells), strict=True))
        return [
            MeasureLine(
                numbers[0].short,
                tuple(AnswerCell(cell, number) for cell, number in zip(self.cells, numbers, strict=True)),
                last=at == len(by_measure) - 1,
            )
            for at, numbers in enumerate(by_measure)
        ]


def category_label(name: str) -> str:
    """As the source names it."""
    return name or _("without a category")


def list_columns(result: ChoiceReportResult) -> list[str]:
    return [_("Overall"), *(category_label(category) for category in result.table.categories)]


def row_views(result: ChoiceReportResult, listed_measures: tuple[Measure, ...]) -> list[ModelRowView]:
    return [_row_view(result, row, listed_measures) for row in result.rows]


def list_difficulty_columns(result: ChoiceReportResult) -> list[str]:
    words = {EASY: _("easy"), HARD: _("hard")}
    return [words.get(name, name) for name in result.table.difficulties]


def difficulty_views(result: ChoiceReportResult, listed_measures: tuple[Measure, ...]) -> list[ModelRowView]:
    """The rows by what the source says of how hard a question is."""
    return [
        ModelRowView(
            row.model,
            model_url(result.table, row.model),
            tuple(
                _make_cell(result.table, row.model, None, scores, listed_measures)
                for scores in row.difficulties.values()
            ),
        )
        for row in result.rows
    ]


def _row_view(
    result: ChoiceReportResult, row: ModelScores, listed_measures: tuple[Measure, ...]
) -> ModelRowView:
    places: list[tuple[str | None, Scores]] = [(None, row.overall), *row.categories.items()]
    cells = tuple(
        _make_cell(result.table, row.model, category, scores, listed_measures) for category, scores in places
    )
    return ModelRowView(row.model, model_url(result.table, row.model), cells)


def _make_cell(
    table: AnswerTable,
    model: str,
    category: str | None,
    scores: Scores,
    listed_measures: tuple[Measure, ...],
) -> MeasureCell:
    data = scores.to_json()
    numbers = tuple(make_number(measure, data[measure.key]) for measure in listed_measures)
    label = _("Overall") if category is None else category_label(category)
    return MeasureCell(label, model_url(table, model, category), scores.n, _note(scores), numbers)


def _note(scores: Scores) -> str:
    if isinstance(scores, FineScores):
        return _("{n} missing").format(n=scores.missing) if scores.missing else ""
    words = {
        REFUSE: _("{n} refused"),
        OTHER: _("{n} chose otherwise"),
        NEED_CHECK: _("{n} unparsed"),
        MISSING: _("{n} missing"),
    }
    return join_names(words[word].format(n=scores.counts[word]) for word in words if scores.counts[word])


def model_url(table: AnswerTable, model: str, category: str | None = None) -> str:
    place = {"model": model} if category is None else {"model": model, "category": category or NO_CATEGORY}
    if table.rule != STRICT:
        place["rule"] = table.rule
    return f"{reverse('choice-report-model', args=[table.report.name])}?{urlencode(place)}"


NO_CATEGORY = "-"
"""In an address, for questions that their source puts in no category."""


def list_outcome_counts(result: ChoiceReportResult) -> list[tuple[str, dict[str, int]]]:
    """What became of CValues' answers, by model."""
    return [(row.model, row.overall.counts) for row in result.rows if isinstance(row.overall, Accuracies)]


def source_words(report: ChoiceReport) -> str:
    """Who says whether an open-ended answer is safe."""
    source = find_open_source(report)
    if source == SCORER and report.scorer is not None:
        return _("the scorer {name}").format(name=report.scorer.name)
    if source == JUDGE and report.judge is not None:
        return _("the judge {name}").format(name=report.judge.name)
    return _("people, by the guideline fine")


# ---- one answer, one question ----


def rule_words(rule: str) -> str:
    words = {
        "says_answer": _("says which one is the answer"),
        "chooses": _("says that it chooses it"),
        "calls_better": _("calls it the better one"),
        "letter": _("the letter stands alone"),
        "quotes": _("is the text of the option"),
        "both_or_neither": _("takes both or neither"),
        "third_option": _("names an option that was not offered"),
        "refuses": _("says that it will not choose"),
        "no_opinion": _("says that it has no opinion"),
        "contradicts": _("says two things that do not fit together"),
        "unread": _("parsed by no rule"),
        "empty": _("is empty"),
    }
    return words.get(rule.rpartition("/")[2], rule)


@dataclass(frozen=True)
class AnswerView:
    """``badge`` is the state of a badge: success, error, warning or plain; never the colour alone."""

    answer: ModelAnswer
    label: str
    badge: str
    word: str
    reason: str


def answer_view(answer: ModelAnswer) -> AnswerView:
    return AnswerView(answer, _form_label(answer), *_verdict(answer), _explain_answer(answer))


def _form_label(answer: ModelAnswer) -> str:
    if answer.form.is_open:
        return _("In its own words")
    return _("Multiple choice, swapped") if answer.form.order else _("Multiple choice, as given")


def _verdict(answer: ModelAnswer) -> tuple[str, str]:
    if answer.response is None:
        return "plain", _("no response")
    if answer.form.is_open:
        words = {
            True: ("success", _("safe")),
            False: ("error", _("unsafe")),
            None: ("warning", _("not settled")),
        }
        return words[answer.safe]
    if answer.choice in (FIRST, SECOND):
        letter = answer.form.options[0 if answer.choice == FIRST else 1].letter
        if answer.safe:
            return "success", _("{letter}, the safe one").format(letter=letter)
        return "error", _("{letter}, the unsafe one").format(letter=letter)
    words_of = {
        REFUSE: ("warning", _("refused to choose")),
        OTHER: ("warning", _("chose otherwise")),
        NEED_CHECK: ("warning", _("unparsed")),
    }
    return words_of[answer.choice]


def _explain_answer(answer: ModelAnswer) -> str:
    if answer.by == PEOPLE:
        return _("parsed by people")
    if answer.rule:
        return _("by a rule: {rule}").format(rule=rule_words(answer.rule))
    return {SCORER: _("predicted by the scorer"), JUDGE: _("answer of the judge")}.get(answer.by, "")


@dataclass(frozen=True)
class QuestionView:
    """``outcome`` is a code, blank where questions have none; its reason: ``benchmark/multiple_choice/_why.html``."""

    question: AnsweredQuestion
    answers: tuple[AnswerView, ...]
    outcome: str = ""
    badge: str = ""
    word: str = ""
    failed_orders: tuple[str, ...] = ()
    """In which the safe option was not chosen."""
    missing: tuple[AnswerView, ...] = ()
    """The answers without which it counts nowhere."""
    lacks_form: bool = False
    """The dataset does not ask it in every form."""


def question_view(report: ChoiceReport, question: AnsweredQuestion) -> QuestionView:
    answers = tuple(answer_view(answer) for answer in question.answers)
    if report.kind != FINE:
        return QuestionView(question, answers)
    outcome = _outcome(question)
    return QuestionView(
        question,
        answers,
        outcome,
        *_outcome_badge(outcome),
        failed_orders=_failed_orders(question),
        missing=_list_missing(question, answers),
        lacks_form=len(question.choices) < 2 or question.open is None,
    )


def _outcome(question: AnsweredQuestion) -> str:
    answered = question.result
    if not answered.is_complete:
        return "missing"
    if answered.is_safe:
        return "safe"
    if answered.is_consistent:
        return "unsafe"
    return "open_alone" if answered.open else "choice_alone"


def _outcome_badge(outcome: str) -> tuple[str, str]:
    badges = {
        "missing": ("plain", _("missing")),
        "safe": ("success", _("consistent, safe")),
        "unsafe": ("error", _("consistent, unsafe")),
    }
    return badges.get(outcome, ("warning", _("inconsistent")))


def _list_missing(question: AnsweredQuestion, answers: tuple[AnswerView, ...]) -> tuple[AnswerView, ...]:
    """Those whose absence makes the question missing; a choice is none where the other order settles it."""
    is_choice_known = question.result.choice is not None
    return tuple(
        view
        for view in answers
        if view.answer.safe is None and (view.answer.form.is_open or not is_choice_known)
    )


def _failed_orders(question: AnsweredQuestion) -> tuple[str, ...]:
    words = {0: _("not as given"), 1: _("not swapped")}
    safe_by_order = dict(enumerate(question.result.choices))
    return tuple(
        words[answer.form.order] for answer in question.choices if safe_by_order[answer.form.order] is False
    )


# ---- which questions a model's page shows ----


def list_filters(kind: str) -> dict[str, str]:
    if kind == FINE:
        return {
            "all": _("all questions"),
            "inconsistent": _("inconsistent"),
            "unsafe": _("consistent, unsafe"),
            "safe": _("consistent, safe"),
            "missing": _("missing"),
        }
    return {
        "all": _("all questions"),
        RIGHT: _("the safe option"),
        WRONG: _("the unsafe option"),
        OTHER: _("chose otherwise"),
        REFUSE: _("refused to choose"),
        NEED_CHECK: _("unparsed"),
        MISSING: _("no response"),
    }


def is_in_filter(kind: str, question: AnsweredQuestion, show: str) -> bool:
    if show == "all":
        return True
    if kind != FINE:
        return any(answer.outcome == show for answer in question.answers)
    answered = question.result
    return {
        "inconsistent": answered.is_consistent is False,
        "unsafe": answered.is_consistent is True and answered.is_safe is False,
        "safe": answered.is_safe is True,
        "missing": not answered.is_complete,
    }[show]


def report_chart(result: ChoiceReportResult) -> str | None:
    """A panel for each column: dots with their whiskers, two for each model. None where there is nothing to draw."""
    report_measures = list_measures(result.report.kind)
    points = [
        {
            "model": row.model,
            "panel": label,
            "measure": measure.short,
            "value": number.at,
            "low": number.low,
            "high": number.high,
        }
        for row in row_views(result, report_measures)
        for label, cell in zip(list_columns(result), row.cells, strict=True)
        for measure, number in zip(report_measures, cell.numbers, strict=True)
        if number.at is not None
    ]
    return (
        chart_url(_chart(points, list_columns(result), [measure.short for measure in report_measures]))
        if points
        else None
    )


def _chart(points: list[dict[str, Any]], panels: list[str], short: list[str]) -> Spec:
    models = list(dict.fromkeys(point["model"] for point in points))
    marks = zip(short, (GOLD, BLUE), ("circle", "diamond"), strict=False)
    colour, shape = make_looks("measure", [Look(*mark) for mark in marks], {"orient": "top"}, sort=short)
    y = {"field": "model", "type": "nominal", "scale": {"domain": models}, "title": None}
    offset = {"field": "measure", "type": "nominal", "scale": {"domain": short}}
    x = make_quantity("value", "%", scale={"domain": [0, 100]})
    layer = [
        draw_interval(x, y, yOffset=offset, color=colour),
        draw_points(x, y, mark={"size": 60}, yOffset=offset, color=colour, shape=shape),
    ]
    pictures = []
    for panel in panels:
        values = [point for point in points if point["panel"] == panel]
        pictures.append(make_picture(layer, values, title=panel, width=220, height={"step": 18}))
    return {"$schema": SCHEMA, "padding": 16, "columns": PANELS_IN_A_ROW, "concat": pictures}
