"""The pages of a batch's gold questions and of its qualification, for its manager.

They show labels, so they are closed to whoever works in the batch until the batch closes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from tempfile import NamedTemporaryFile
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.formatting import format_compact, format_decimal, format_percent
from annotation.domain.gold_questions import MIN_ITEMS, MIN_SHARE, Confusion
from annotation.domain.guidelines import GuidelineDocument
from annotation.domain.permissions import MANAGE_GOLD_QUESTIONS
from annotation.forms.gold_questions import (
    AGAIN,
    FROM_FILE,
    FROM_GOLD,
    MAX_FILE_BYTES,
    GoldFileForm,
    GoldForm,
    QualificationForm,
)
from annotation.models import Batch, GoldQuestion, Person, Qualification
from annotation.selectors.access import refuse_sealed_gold
from annotation.selectors.batches import get_batch
from annotation.selectors.gold_questions import (
    CheckResult,
    GoldQuestionRow,
    QualificationRow,
    count_supplies,
    list_batch_check_results,
    list_gold_question_rows,
    list_gold_questions,
    list_qualification_rows,
)
from annotation.selectors.guidelines import criterion_label, dimension_label, label_text
from annotation.selectors.people import get_person
from annotation.services.batches.members import start_attempt, waive_qualification
from annotation.services.gold_questions.gold_questions import set_question_active
from annotation.services.gold_questions.sources import add_from_batches, add_from_file, add_from_release
from annotation.views.access import accepts_body, act_required, person_of
from annotation.views.batches.batches import batch_context
from annotation.views.gold_questions.feedback import explain_too_few, format_reached, format_threshold
from annotation.views.notices import add_notice

PAGE = 50


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(MANAGE_GOLD_QUESTIONS)
@accepts_body(MAX_FILE_BYTES)
def batch_known(request: HttpRequest, name: str) -> HttpResponse:
    """The gold questions of a batch, and who had them right; POST adds some, from gold or from a file."""
    open_batch = get_unsealed_batch(request, name)
    posted = request.POST.get("from", "") if request.method == "POST" else ""
    gold = GoldForm(
        request.POST if posted == FROM_GOLD else None, batch=open_batch, reader=person_of(request)
    )
    file = GoldFileForm(*((request.POST, request.FILES) if posted == FROM_FILE else ()))
    forms: dict[str, GoldForm | GoldFileForm] = {FROM_GOLD: gold, FROM_FILE: file}
    form = forms.get(posted)
    if form is not None and form.is_valid():
        try:
            made = add_questions(form, open_batch, person_of(request))
            get_unsealed_batch(
                request, name
            )  # whoever adds the first of them knows the answers, without looking again
        except AssayError as error:
            form.add_error(None, error_text(error))
        else:
            add_notice(request, "gold_questions_added", n=made)
            return redirect("batch-known", name)
    page = Paginator(list_gold_questions(open_batch), PAGE).get_page(request.GET.get("page"))
    document = open_batch.guideline.document
    context = batch_context(open_batch, person_of(request), tab="known") | {
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "rows": [
            question_row(item_line, document) for item_line in list_gold_question_rows(list(page.object_list))
        ],
        "results": [
            result_row(check_result, document) for check_result in list_batch_check_results(open_batch)
        ],
        "supplies": count_supplies(open_batch),
        "percent": format_compact(open_batch.check_share * 100),
        "least_share": format_percent(MIN_SHARE, 0),
        "least_items": MIN_ITEMS,
        "gold": gold,
        "file": file,
        "may_change": open_batch.state != Batch.State.CLOSED,
    }
    return render(request, "annotation/gold_questions/items.html", context, status=422 if posted else 200)


@require_POST
@act_required(MANAGE_GOLD_QUESTIONS)
def batch_known_item(request: HttpRequest, name: str, item_id: int) -> HttpResponse:
    """Take an item out (``active=0``) or put it in again (``active=1``)."""
    open_batch, active = get_unsealed_batch(request, name), request.POST.get("active") == "1"
    set_question_active(batch=open_batch, item=item_id, active=active, actor=person_of(request))
    messages.success(
        request,
        _("The item is active again.")
        if active
        else _("The item is inactive: nobody is given it any more, and its answers are not counted."),
    )
    return redirect("batch-known", name)


@require_GET
@never_cache
@act_required(MANAGE_GOLD_QUESTIONS)
def batch_rounds(request: HttpRequest, name: str) -> HttpResponse:
    """Everybody's qualification: the value with its interval, what was confused, and what to do about it."""
    open_batch = get_unsealed_batch(request, name)
    context = batch_context(open_batch, person_of(request), tab="known", page_title=_("Qualification")) | {
        "rows": [
            attempt_row(attempt_line, open_batch) for attempt_line in list_qualification_rows(open_batch)
        ],
        "kappa": open_batch.qualifying == Batch.Qualifying.KAPPA,
        "threshold": format_threshold(
            open_batch.qualifying_threshold, kappa=open_batch.qualifying == Batch.Qualifying.KAPPA
        ),
        "supply": count_supplies(open_batch)[GoldQuestion.Kind.QUALIFICATION],
        "least_items": MIN_ITEMS,
        "may_change": open_batch.state != Batch.State.CLOSED,
    }
    return render(request, "annotation/gold_questions/qualification.html", context)


@require_POST
@act_required(MANAGE_GOLD_QUESTIONS)
def batch_round(request: HttpRequest, name: str, username: str) -> HttpResponse:
    """Let somebody in whatever came out, or give them another round; with a reason."""
    open_batch, person = get_unsealed_batch(request, name), get_person(username)
    form = QualificationForm(request.POST)
    if not form.is_valid():
        messages.error(request, _("Give a reason for the audit trail."))
        return redirect("batch-rounds", name)
    decide = start_attempt if form.cleaned_data["action"] == AGAIN else waive_qualification
    decide(batch=open_batch, person=person, reason=form.cleaned_data["reason"], actor=person_of(request))
    add_notice(
        request, "qualification_attempt" if decide is start_attempt else "qualification_waived", name=person
    )
    return redirect("batch-rounds", name)


def get_unsealed_batch(request: HttpRequest, name: str) -> Batch:
    open_batch = get_batch(name)
    refuse_sealed_gold(person_of(request), [open_batch])
    return open_batch


def add_questions(form: GoldForm | GoldFileForm, batch: Batch, actor: Person) -> int:
    data = form.cleaned_data
    if isinstance(form, GoldFileForm):
        return len(add_questions_from_file(data["file"], batch, data["kind"], actor))
    request: Any = {"batch": batch, "kind": data["kind"], "number": data["number"], "actor": actor}
    request["sources"] = data["sources"]
    if data["release"]:
        return len(add_from_release(release=data["release"], **request))
    return len(add_from_batches(batches=list(data["batches"]), **request))


def add_questions_from_file(file: Any, batch: Batch, kind: str, actor: Person) -> list[GoldQuestion]:
    """It is read twice as a file by name is, and gone afterwards."""
    with NamedTemporaryFile() as temporary_file:
        for chunk in file.chunks():
            temporary_file.write(chunk)
        temporary_file.flush()
        return add_from_file(
            batch=batch, kind=kind, path=temporary_file.name, name=file.name or "file", actor=actor
        )


@dataclass(frozen=True)
class GoldLabelWords:
    criterion: str
    label: str


def list_labels(document: GuidelineDocument, labels: Mapping[str, float]) -> list[GoldLabelWords]:
    many = len(labels) > 1
    return [
        GoldLabelWords(criterion_label(document, name) if many else "", label_text(document, name, value))
        for name, value in labels.items()
    ]


def question_row(line: GoldQuestionRow, document: GuidelineDocument) -> dict[str, Any]:
    response = line.item.response
    return {
        "line": line,
        "item": line.item,
        "prompt": response.prompt,
        "response": response.text or "\n".join(turn["text"] for turn in response.turns),
        "dimension": dimension_label(document, response.prompt.dimension),
        "labels": list_labels(document, line.item.labels),
        "percent": format_percent(line.right / line.answered, 0) if line.answered else "",
    }


def result_row(check_result: CheckResult, document: GuidelineDocument) -> dict[str, Any]:
    return {
        "check_result": check_result,
        "share": format_percent(check_result.share, 0),
        "interval": f"{format_percent(check_result.low, 0)} - {format_percent(check_result.high, 0)}",
        "whisker": {
            "low": 100 * check_result.low,
            "value": 100 * check_result.share,
            "high": 100 * check_result.high,
        },
        "within": format_percent(check_result.within / check_result.n, 0),
        "confused": list_confusions(check_result.confusion, document),
    }


@dataclass(frozen=True)
class ConfusionLine:
    """So often the right label was another than the given one."""

    criterion: str
    known: str
    label: str
    n: int


def list_confusions(counts: Confusion, document: GuidelineDocument) -> list[ConfusionLine]:
    """What was wrong, the most frequent first."""
    many = len(counts) > 1
    confusions = [
        ConfusionLine(
            criterion_label(document, name) if many else "",
            label_text(document, name, known),
            label_text(document, name, label),
            n,
        )
        for name, pairs in counts.items()
        for (known, label), n in pairs.items()
        if known != label
    ]
    return sorted(
        confusions,
        key=lambda confusion: (-confusion.n, confusion.criterion, confusion.known, confusion.label),
    )


def attempt_row(line: QualificationRow, batch: Batch) -> dict[str, Any]:
    attempt = line.round
    value = attempt.value if attempt else None
    whisker: dict[str, float | None] = {"low": None, "value": None, "high": None}
    if attempt is not None and value is not None and batch.qualifying == Batch.Qualifying.ACCURACY:
        whisker = {
            "low": to_percent(attempt.low),
            "value": to_percent(value),
            "high": to_percent(attempt.high),
        }
    elif attempt is not None and value is not None:
        whisker = {
            "low": kappa_place(attempt.low),
            "value": kappa_place(value),
            "high": kappa_place(attempt.high),
        }
    return {
        "line": line,
        "round": attempt,
        "person": line.member.person,
        "value": format_reached(value, kappa=batch.qualifying == Batch.Qualifying.KAPPA),
        "interval": format_value_interval(attempt, batch),
        "whisker": whisker,
        "reason": explain_failure(attempt),
        "confused": list_confusions(line.confusion, batch.guideline.document),
        "waits": line.state in (Qualification.State.RUNNING, Qualification.State.FAILED),
        "failed": line.state == Qualification.State.FAILED,
    }


def to_percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def kappa_place(value: float | None) -> float | None:
    """From -1 .. 1 to 0 .. 100."""
    return None if value is None else 50 * (value + 1)


def format_value(value: float | None, batch: Batch) -> str:
    if value is None:
        return ""
    is_share = batch.qualifying == Batch.Qualifying.ACCURACY
    return format_percent(value, 0) if is_share else format_decimal(value, 2)


def format_value_interval(attempt: Qualification | None, batch: Batch) -> str:
    if attempt is None or attempt.low is None or attempt.high is None:
        return ""
    return f"{format_value(attempt.low, batch)} - {format_value(attempt.high, batch)}"


def explain_failure(attempt: Qualification | None) -> str:
    """Why a round that ended is no pass where the value alone does not say it."""
    if attempt is None or attempt.state != Qualification.State.FAILED:
        return ""
    if attempt.value is None:
        return _("It is undefined: all labels are the same, or there is none.")
    return explain_too_few(attempt)
