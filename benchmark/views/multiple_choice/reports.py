"""Multiple-choice reports: FINE's scores and CValues' accuracies, and the answers behind each number."""

from __future__ import annotations

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.http import Crumb, breadcrumbs
from annotation.core.text_templates import render_text
from annotation.domain.permissions import MANAGE_BATCHES, READ_BOARDS, REPORT_CHOICES
from annotation.models import EvaluatedModel, Person
from annotation.views.access import act_required, may, person_of
from annotation.views.lists import build_archive_view, build_title_view, narrow_by_request
from benchmark.domain.multiple_choice import VERSION
from benchmark.domain.multiple_choice.scores import PUBLISHED, STRICT
from benchmark.forms.multiple_choice import ChoiceReportForm
from benchmark.models import ChoiceReport
from benchmark.selectors.leaderboards.runs import list_open_datasets
from benchmark.selectors.multiple_choice.answers import AnsweredQuestion
from benchmark.selectors.multiple_choice.reports import (
    compute_scores,
    get_report,
    list_question_datasets,
    list_report_rows,
    list_reports,
    refuse_sealed_report,
)
from benchmark.services.multiple_choice import (
    compute_result,
    create_report,
    load_answer_table,
    make_batch,
    queue_parsing,
)
from benchmark.views.multiple_choice.wording import (
    NO_CATEGORY,
    category_label,
    difficulty_views,
    is_in_filter,
    list_columns,
    list_difficulty_columns,
    list_filters,
    list_form_measures,
    list_measures,
    list_outcome_counts,
    make_number,
    question_view,
    report_chart,
    row_views,
    source_words,
)

PER_PAGE = 20


@require_GET
@never_cache
@act_required(READ_BOARDS)
def reports(request: HttpRequest) -> HttpResponse:
    person = person_of(request)
    narrowed = narrow_by_request(request, list_reports())
    context = {
        **narrowed.context,
        "reports": list_report_rows(person, narrowed.rows),
        "any": list_reports().exists(),
        "any_questions": list_question_datasets(list_open_datasets(person)).exists(),
    }
    return render(request, "benchmark/multiple_choice/reports.html", context)


archive_report = build_archive_view("benchmark.ChoiceReport", REPORT_CHOICES, "choice-reports")
title_report = build_title_view("benchmark.ChoiceReport", REPORT_CHOICES, "choice-reports")


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(REPORT_CHOICES)
def new_report(request: HttpRequest) -> HttpResponse:
    form = ChoiceReportForm(request.POST or None, person=person_of(request))
    made = _create_report(request, form) if request.method == "POST" and form.is_valid() else None
    if made is not None:
        return redirect("choice-report", made.name)
    context = {"form": form, "crumbs": _crumbs(_("New report"))}
    return render(
        request, "benchmark/multiple_choice/new.html", context, status=422 if form.is_bound else 200
    )


def _create_report(request: HttpRequest, form: ChoiceReportForm) -> ChoiceReport | None:
    """The new report; None, with the reason on the form, where it is refused."""
    try:
        made = create_report(actor=person_of(request), **form.cleaned_data)
    except AssayError as error:
        form.add_error(None, error_text(error))
        return None
    queue_parsing(made, actor=person_of(request))
    return made


def get_open_report(request: HttpRequest, name: str) -> ChoiceReport:
    """The report, if the person may open it."""
    choice_report = get_report(name)
    refuse_sealed_report(person_of(request), choice_report)
    return choice_report


def read_rule(request: HttpRequest, choice_report: ChoiceReport) -> str:
    """``?rule=..``; the report's own where it is none that its kind knows."""
    is_published = request.GET.get("rule") == PUBLISHED and choice_report.kind == ChoiceReport.Kind.FINE
    return PUBLISHED if is_published else STRICT


@require_GET
@never_cache
@act_required(READ_BOARDS)
def report(request: HttpRequest, name: str) -> HttpResponse:
    choice_report = get_open_report(request, name)
    rule = read_rule(request, choice_report)
    result = compute_result(choice_report, rule)
    context = {
        "report": choice_report,
        "result": result,
        "todo": result.todo,
        "columns": list_columns(result),
        "rows": row_views(result, list_measures(choice_report.kind)),
        "form_measures": list_form_measures(choice_report.kind),
        "form_rows": row_views(result, list_form_measures(choice_report.kind)),
        "difficulty_columns": list_difficulty_columns(result),
        "difficulty_rows": difficulty_views(result, list_measures(choice_report.kind)),
        "counts": list_outcome_counts(result),
        "chart": report_chart(result),
        "source": source_words(choice_report),
        "version": VERSION,
        "is_published": rule == PUBLISHED,
        "crumbs": _crumbs(choice_report.name),
    }
    return render(request, "benchmark/multiple_choice/report.html", context)


@require_GET
@never_cache
@act_required(READ_BOARDS)
def model_page(request: HttpRequest, name: str) -> HttpResponse:
    """``?model=..``, and as wished ``&show=inconsistent&category=..``: each question with its answers and readings."""
    choice_report = get_open_report(request, name)
    model = _get_model(choice_report, request.GET.get("model", ""))
    rule = read_rule(request, choice_report)
    sheet = load_answer_table(choice_report, [model], rule)
    questions = sheet.questions[model.name]
    labels = list_filters(choice_report.kind)
    show, category = _read_filter(request, labels, sheet.categories)
    category_questions = [
        question for question in questions if category is None or question.category == category
    ]
    figures = compute_scores(choice_report, category_questions).to_json()
    page = Paginator(
        [question for question in category_questions if is_in_filter(choice_report.kind, question, show)],
        PER_PAGE,
    ).get_page(request.GET.get("page"))
    query = request.GET.copy()
    query.pop("page", None)
    context = {
        "report": choice_report,
        "model": model.name,
        "numbers": [
            (measure, make_number(measure, figures[measure.key]))
            for measure in (*list_measures(choice_report.kind), *list_form_measures(choice_report.kind))
        ],
        "n": figures["n"],
        "missing": figures["missing"],
        "shows": [
            (value, label, _count_questions(choice_report, category_questions, value))
            for value, label in labels.items()
        ],
        "show": show,
        "categories": [(category or NO_CATEGORY, category_label(category)) for category in sheet.categories],
        "category": None if category is None else category or NO_CATEGORY,
        "questions": [question_view(choice_report, question) for question in page],
        "source": source_words(choice_report),
        "is_published": rule == PUBLISHED,
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "query": query.urlencode(),
        "crumbs": _crumbs(model.name, choice_report),
    }
    return render(request, "benchmark/multiple_choice/model.html", context)


def _get_model(choice_report: ChoiceReport, name: str) -> EvaluatedModel:
    if "\0" in name:
        raise Http404
    model = choice_report.evaluated_models.filter(name=name).first()
    if model is None:
        raise Http404
    return model


def _read_filter(
    request: HttpRequest, labels: dict[str, str], categories: tuple[str, ...]
) -> tuple[str, str | None]:
    """What nobody could have chosen is left out of account."""
    show, category = request.GET.get("show", "all"), request.GET.get("category", "")
    category_name = "" if category == NO_CATEGORY else category
    known = category_name in categories and category != ""
    return show if show in labels else "all", category_name if known else None


def _count_questions(choice_report: ChoiceReport, questions: list[AnsweredQuestion], show: str) -> int:
    return sum(is_in_filter(choice_report.kind, question, show) for question in questions)


@require_POST
@act_required(REPORT_CHOICES)
def batch(request: HttpRequest, name: str) -> HttpResponse:
    """One click: what people must say, as a batch."""
    person = person_of(request)
    made = make_batch(report=get_open_report(request, name), kind=request.POST.get("what", ""), actor=person)
    messages.success(
        request,
        render_text(
            "benchmark/wording/message.txt", code="choice_batch", name=made.name, n=made.tasks.count()
        ),
    )
    return redirect("batch", made.name) if _is_manager(person) else redirect("choice-report", name)


def _is_manager(person: Person) -> bool:
    return may(person, MANAGE_BATCHES)


def _crumbs(label: str, choice_report: ChoiceReport | None = None) -> list[Crumb]:
    steps: list[tuple[str, str, list[str]]] = [
        (_("Boards"), "runs", []),
        (_("Multiple choice"), "choice-reports", []),
    ]
    if choice_report is not None:
        steps.append((choice_report.name, "choice-report", [choice_report.name]))
    return breadcrumbs(*steps, title=label)
