"""A person's own submissions, and the page that corrects one of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID, uuid4

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.functional import cached_property
from django.utils.http import urlencode
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import N_, AssayError, Conflict, NotFound
from annotation.domain.guidelines import NA
from annotation.domain.permissions import READ_OWN_LABELS
from annotation.forms.annotations import HistoryForm, WorkForm
from annotation.models import Assignment
from annotation.selectors.annotations.history import (
    HistoryRow,
    find_outcome,
    get_decision_details,
    list_history,
    list_history_rows,
)
from annotation.selectors.annotations.own_work import (
    DraftRow,
    SubmittedWork,
    find_submitted_work,
    get_draft,
    list_drafts,
)
from annotation.selectors.assignments.items import WorkItem, build_item, get_own_assignment
from annotation.selectors.gold_questions import find_feedback
from annotation.selectors.guidelines import criterion_label, label_text
from annotation.selectors.origins import list_imported
from annotation.selectors.wellbeing import build_item_wellbeing
from annotation.services.annotations import submission as answers
from annotation.services.annotations.drafts import build_submission, discard_draft
from annotation.views.access import act_required, person_of
from annotation.views.annotations.highlights import OWN_GROUP, mark_turns
from annotation.views.annotations.outcomes import (
    DescribedOutcome,
    LabelWords,
    describe_labels,
    describe_outcome,
    localize_reason,
)
from annotation.views.annotations.workspace import (
    WorkRefusal,
    describe_clarifications,
    describe_refusal,
    describe_topic,
    item_choices,
    leave_page,
    list_bare_guides,
    list_questions,
    list_typed_values,
    render_page,
    turns_context,
)
from annotation.views.gold_questions.feedback import describe_feedback
from annotation.views.guidelines.introduction import localize_introduction

if TYPE_CHECKING:
    from django.db.models import QuerySet

PAGE = 50
MAX_COUNTED = 10_000
"""So many submissions are counted and paged through; dates and the other filters lead to those before."""


class LatestPaginator(Paginator):  # type: ignore[type-arg]  # no generic at run time
    """``is_cut``: there are more than are counted, which would take most of the page's time."""

    is_cut = False

    @cached_property
    def count(self) -> int:
        submissions = cast("QuerySet[Assignment, Any]", self.object_list)
        number = submissions[: MAX_COUNTED + 1].count()
        self.is_cut = number > MAX_COUNTED
        return min(number, MAX_COUNTED)


@require_GET
@never_cache
@act_required(READ_OWN_LABELS)
def history(request: HttpRequest) -> HttpResponse:
    person = person_of(request)
    form = HistoryForm(request.GET, person=person)
    no_submissions = Assignment.objects.none().values_list("pk", "submitted_at")
    submissions = list_history(person, form.build_filter()) if form.is_valid() else no_submissions
    page = LatestPaginator(submissions, PAGE).get_page(request.GET.get("page"))
    parameters = {name: str(value) for name, value in request.GET.items() if value and name != "page"}
    drafts = list_drafts(person)
    context = {
        "tab": "history",
        "form": form,
        "filtered": bool(parameters),
        "has_submissions": bool(parameters) or page.paginator.count > 0,
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "rows": [
            build_history_line(history_line)
            for history_line in list_history_rows([pk for pk, _at in page.object_list])
        ],
        "query": urlencode(parameters),
        "drafts": drafts,
        "unfinished": [(draft, describe_draft_labels(draft)) for draft in drafts if not draft.why],
        "late": [(draft, describe_draft_labels(draft)) for draft in drafts if draft.why],
    }
    return render(request, "annotation/annotations/history.html", context)


@dataclass(frozen=True)
class HistoryLine:
    """A submission as the list shows it; ``first`` is an adjudicator's first thought, where it was another."""

    history_row: HistoryRow
    labels: tuple[LabelWords, ...]
    first: tuple[LabelWords, ...]
    outcome: DescribedOutcome | None


def describe_draft_labels(draft: DraftRow) -> list[tuple[str, str]]:
    """Criterion and level in the reader's language; what was refused can hold anything, and is shown as it stands."""
    labels = draft.document.show_labels_in(draft.order, draft.labels)
    return [
        (
            criterion_label(draft.document, name),
            label_text(draft.document, name, value)
            if isinstance(value, int | float) or value == NA
            else str(value),
        )
        for name, value in labels.items()
    ]


def build_history_line(history_row: HistoryRow) -> HistoryLine:
    first_labels = {
        name: value
        for name, value in (history_row.verdict or {}).items()
        if history_row.labels.get(name, value) != value
    }
    return HistoryLine(
        history_row=history_row,
        labels=describe_labels(history_row.document, history_row.labels, history_row.order),
        first=describe_labels(history_row.document, first_labels, history_row.order),
        outcome=describe_outcome(
            history_row.document, history_row.labels, history_row.outcome, history_row.order
        ),
    )


@require_GET
@never_cache
@act_required(READ_OWN_LABELS)
def item(request: HttpRequest, assignment_id: UUID) -> HttpResponse:
    assignment = get_own_assignment(assignment_id, person_of(request))
    return show_item(request, assignment, load_submitted_work(assignment), back=request.GET.get("back", ""))


@require_POST
@never_cache
@act_required(READ_OWN_LABELS)
def revise(request: HttpRequest, assignment_id: UUID) -> HttpResponse:
    person, back = person_of(request), request.POST.get("back", "")
    assignment = get_own_assignment(assignment_id, person)
    done, form = load_submitted_work(assignment), WorkForm(request.POST)
    if done.adjudication:
        raise Conflict(N_("A decision stands as it is; tell the manager if it is wrong."))
    if not form.is_valid():
        refusal = WorkRefusal(form.first_error())
        return show_item(request, assignment, done, form=form, error=refusal, back=back, status=422)
    try:
        receipt = answers.revise(
            assignment_id=assignment.pk,
            person=person,
            key=form.cleaned_data["key"],
            work=form.work(done.evidence),
        )
    except AssayError as error:
        refusal = describe_refusal(error)
        return show_item(request, assignment, done, form=form, error=refusal, back=back, status=error.status)
    return leave_item(request, assignment, back, corrected=receipt is not None)


@require_POST
@never_cache
@act_required(READ_OWN_LABELS)
def draft_retry(request: HttpRequest, assignment_id: UUID) -> HttpResponse:
    """Submit a kept draft once more: taken where its place is free again, else kept with the newer reason."""
    person = person_of(request)
    draft = get_draft(assignment_id, person)
    try:
        answers.submit(
            assignment_id=assignment_id, person=person, key=str(uuid4()), work=build_submission(draft)
        )
    except AssayError as error:
        return leave_page(request, "history", level=messages.WARNING, say=error_text(error))
    return leave_page(request, "history", level=messages.SUCCESS, say=_("Submitted."))


@require_POST
@never_cache
@act_required(READ_OWN_LABELS)
def draft_discard(request: HttpRequest, assignment_id: UUID) -> HttpResponse:
    discard_draft(assignment_id=assignment_id, person=person_of(request))
    return leave_page(request, "history", say=_("The draft is discarded."))


def show_item(
    request: HttpRequest,
    assignment: Assignment,
    done: SubmittedWork,
    *,
    form: WorkForm | None = None,
    error: WorkRefusal | None = None,
    back: str = "",
    status: int = 200,
) -> HttpResponse:
    """What was submitted, to be corrected; a decision of an adjudicator is only shown."""
    item = build_item(assignment)
    criteria = [
        criterion for criterion in item.criteria if not done.adjudication or criterion.name in done.labels
    ]
    questions = list_questions(item, criteria, form.answers() if form else done.labels)
    context: dict[str, Any] = {
        "item": item,
        **turns_context(item, mark_turns(item, {OWN_GROUP: done.evidence})),
        "topic": describe_topic(item, get_language() or "en"),
        "clarifications": describe_clarifications(item, assignment.batch),
        "questions": questions,
        "rules_of": list_bare_guides(questions),
        "values": list_typed_values(form) if form else submitted_values(done),
        "submitted": done,
        "imported": assignment.pk in list_imported([assignment.pk]),
        "introduction": localize_introduction(item.document),
        "key": uuid4(),
        "draft": f"{item.assignment}:{done.revision}",
        "error": error,
        "back": "work" if back == "work" else "",
        "batch": assignment.batch,
        "care": build_item_wellbeing(person_of(request), item.severity),
        **item_choices(assignment.batch),
        **(
            decision_context(assignment, item)
            if done.adjudication
            else outcome_context(assignment, item, done)
        ),
        **feedback_context(assignment),
    }
    return render_page(request, "annotation/annotations/submitted.html", context, status=status)


def outcome_context(assignment: Assignment, item: WorkItem, done: SubmittedWork) -> dict[str, Any]:
    """What became of it, once that may be told; until then nothing that differs."""
    outcome = find_outcome(assignment)
    if outcome is None:
        return {}
    return {"outcome": describe_outcome(item.document, done.labels, outcome, item.order)}


def feedback_context(assignment: Assignment) -> dict[str, Any]:
    """What the person was told of a gold question."""
    feedback = find_feedback(assignment)
    return (
        {}
        if feedback is None
        else {"feedback": describe_feedback(feedback, assignment.batch.guideline.document)}
    )


def decision_context(assignment: Assignment, item: WorkItem) -> dict[str, Any]:
    decision = get_decision_details(assignment)
    first = describe_labels(item.document, decision.verdict, item.order) if decision.verdict else ()
    return {"reason": localize_reason(decision.reason), "first": first, "first_rationale": decision.rationale}


def submitted_values(done: SubmittedWork) -> dict[str, Any]:
    """What was submitted, as ``typed`` has it."""
    evidence = json.dumps(list(done.evidence), ensure_ascii=False) if done.evidence else ""
    return {"rationale": done.rationale, "flags": done.flags, "evidence": evidence}


def load_submitted_work(assignment: Assignment) -> SubmittedWork:
    done = find_submitted_work(assignment)
    if done is None:
        raise NotFound(N_("There is no such item among yours."))
    return done


def leave_item(request: HttpRequest, assignment: Assignment, back: str, *, corrected: bool) -> HttpResponse:
    if not corrected:
        say = _("This item is closed; your correction was sent to the manager.")
    elif assignment.batch.blocks_since:
        say = _("Corrected. If the item was settled before, the manager reads your correction.")
    else:
        say = _("Corrected.")
    to = ("work-batch", assignment.batch.name) if back == "work" else ("history",)
    return leave_page(request, *to, level=messages.SUCCESS, say=say)
