"""The adjudicator's pages: the queue, and one dispute at a time: a blind verdict first, then the labels as A and B."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError, Forbidden, Unprocessable
from annotation.domain.permissions import ADJUDICATE
from annotation.forms.adjudication import (
    AdjudicationForm,
    QueueForm,
    VerdictForm,
    build_query,
    parse_dispute_filter,
)
from annotation.forms.annotations import SkipForm, WorkForm
from annotation.models import ADJUDICATOR, Assignment, Batch, Membership
from annotation.selectors.adjudication import (
    Dispute,
    DisputeFilter,
    OwnVerdict,
    WaitingDisputes,
    build_dispute,
    count_waiting_disputes,
    get_open_dispute,
    has_dispute_in_progress,
    list_dimensions,
    list_reasons,
)
from annotation.selectors.batches.own_progress import MemberProgress, find_own_progress, measure_own_progress
from annotation.selectors.guidelines import dimension_label, get_batch_to_enter
from annotation.selectors.wellbeing import is_budget_used_up
from annotation.services import assignments
from annotation.services.adjudication import disputes as answers
from annotation.services.guidelines import record_introduction
from annotation.views.access import act_required, person_of
from annotation.views.annotations.highlights import mark_turns
from annotation.views.annotations.workspace import (
    WorkRefusal,
    describe_refusal,
    item_context,
    leave_page,
    list_questions,
    list_side_cards,
    turns_context,
)
from annotation.views.guidelines.introduction import show_introduction


@dataclass(frozen=True)
class QueueRow:
    """``start`` is the address that takes the next of this dimension."""

    label: str
    waiting: WaitingDisputes
    start: str


@dataclass(frozen=True)
class BatchQueue:
    progress: MemberProgress
    rows: tuple[QueueRow, ...]
    start: str
    is_in_progress: bool


@require_GET
@never_cache
@act_required(ADJUDICATE)
def disputes(request: HttpRequest) -> HttpResponse:
    """What waits, by batch, dimension and age; it tells of no model, annotator or label."""
    dispute_filter = parse_dispute_filter(request.GET)
    members = list(
        Membership.objects.filter(
            person=person_of(request), role=ADJUDICATOR, active=True, batch__state=Batch.State.OPEN
        )
        .select_related("batch__guideline", "person")
        .order_by("batch__due_date", "batch__created_at")
    )
    labels = list_dimension_labels(members)
    context = {
        "queues": [build_queue(member, dispute_filter, labels) for member in members],
        "form": QueueForm(
            {"dimension": dispute_filter.dimension, "order": dispute_filter.order},
            dimensions=sorted(labels.items()),
        ),
        "dispute_filter": dispute_filter,
    }
    return render(request, "annotation/adjudication/queue.html", context)


@require_GET
@never_cache
@act_required(ADJUDICATE)
def batch(request: HttpRequest, name: str) -> HttpResponse:
    """The next dispute; before the first of a guideline version its introduction, while nothing is claimed yet."""
    batch, unread = get_batch_to_enter(name, person_of(request), ADJUDICATOR)
    if unread:
        go_on = reverse("dispute-introduction", args=[name]) + query_string(request)
        return show_introduction(request, batch, go_on)
    return show_next(request, batch)


@require_POST
@act_required(ADJUDICATE)
def introduction(request: HttpRequest, name: str) -> HttpResponse:
    record_introduction(batch=name, person=person_of(request), role=ADJUDICATOR)
    return redirect(reverse("dispute-batch", args=[name]) + query_string(request))


@require_POST
@never_cache
@act_required(ADJUDICATE)
def verdict(request: HttpRequest, assignment_id: UUID) -> HttpResponse:
    """The adjudicator's own judgement; the answer is the first that tells what others said."""
    person = person_of(request)
    assignment, form = get_open_dispute(assignment_id, person), VerdictForm(request.POST)
    if not form.is_valid():
        return show_dispute(request, assignment, form=form, error=WorkRefusal(form.first_error()), status=422)
    try:
        answers.record_verdict(assignment_id=assignment.pk, person=person, work=form.work())
    except AssayError as error:
        return show_refusal(request, assignment, form, error)
    if getattr(request, "htmx", False):
        return show_dispute(request, get_open_dispute(assignment_id, person))
    return redirect_to_batch(request, assignment.batch)


@require_POST
@never_cache
@act_required(ADJUDICATE)
def submit(request: HttpRequest, assignment_id: UUID) -> HttpResponse:
    person = person_of(request)
    assignment, form = get_open_dispute(assignment_id, person), AdjudicationForm(request.POST)
    if not form.is_valid():
        return show_dispute(request, assignment, form=form, error=WorkRefusal(form.first_error()), status=422)
    try:
        answers.adjudicate(
            assignment_id=assignment.pk, person=person, key=form.cleaned_data["key"], work=form.work()
        )
    except AssayError as error:
        return show_refusal(request, assignment, form, error)
    return show_following(request, assignment.batch)


@require_POST
@never_cache
@act_required(ADJUDICATE)
def skip(request: HttpRequest, assignment_id: UUID) -> HttpResponse:
    person = person_of(request)
    assignment = get_open_dispute(assignment_id, person)
    form = SkipForm(request.POST)
    if not form.is_valid():
        return show_dispute(request, assignment, skip_error=form.first_error(), status=422)
    reason = form.cleaned_data["why"]
    assignments.release_assignment(assignment_id=assignment.pk, person=person, skip_reason=reason)
    messages.info(request, _("Skipped: it goes to someone else."))
    return show_following(request, assignment.batch)


@require_POST
@never_cache
@act_required(ADJUDICATE)
def release(request: HttpRequest, assignment_id: UUID) -> HttpResponse:
    """Give the dispute back undecided; it may come again."""
    person = person_of(request)
    assignments.release_assignment(assignment_id=get_open_dispute(assignment_id, person).pk, person=person)
    messages.info(request, _("Given back: it waits for an adjudicator."))
    return redirect(reverse("disputes") + query_string(request))


def show_next(request: HttpRequest, batch: Batch) -> HttpResponse:
    person, dispute_filter = person_of(request), parse_dispute_filter(request.GET)
    try:
        assignment = assignments.claim_next_dispute(batch=batch, person=person, dispute_filter=dispute_filter)
    except Forbidden as error:  # paused or closed while the person was at work
        return leave_page(request, "disputes", level=messages.WARNING, say=error_text(error))
    if assignment is None:
        context = {
            "batch": batch,
            "progress": find_own_progress(batch, person, ADJUDICATOR),
            "dispute_filter": dispute_filter,
            "query": build_query(dispute_filter),
            "resting": is_budget_used_up(person),
        }
        return render(request, "annotation/adjudication/no_dispute.html", context)
    return show_dispute(request, assignment)


def show_dispute(
    request: HttpRequest,
    assignment: Assignment,
    *,
    form: WorkForm | None = None,
    error: WorkRefusal | None = None,
    skip_error: str = "",
    status: int = 200,
) -> HttpResponse:
    """A dispute to decide; with a ``form`` that was refused, as it was filled in, under its own key.

    Until the adjudicator has given a verdict the page holds nothing of the labels of others.
    """
    shown_dispute, person = build_dispute(assignment), person_of(request)
    context = {
        **item_context(
            assignment, shown_dispute.item, reader=person, form=form, error=error, skip_error=skip_error
        ),
        "progress": find_own_progress(assignment.batch, person, ADJUDICATOR),
        "query": query_string(request),
    }
    if shown_dispute.verdict is None:
        context["draft"] = f"{assignment.pk}:verdict"
        return render(request, "annotation/adjudication/verdict.html", context, status=status)
    context |= verdict_context(shown_dispute, shown_dispute.verdict, form)
    return render(request, "annotation/adjudication/item.html", context, status=status)


def verdict_context(dispute: Dispute, verdict: OwnVerdict, form: WorkForm | None) -> dict[str, Any]:
    """What the page shows after the verdict, which the decision begins with."""
    item = dispute.item
    questions = list_questions(item, item.criteria, verdict.labels)
    context: dict[str, Any] = {
        **turns_context(item, mark_turns(item, {side.letter: side.evidence for side in dispute.sides})),
        "sides": list_side_cards(dispute),
        "marked": any(side.evidence for side in dispute.sides),
        "verdict": verdict,
        "judged": [question for question in questions if question.name in verdict.labels],
        "reasons": list_reasons(),
    }
    if form is None:
        context |= {"questions": questions, "values": {"rationale": verdict.rationale}}
    return context


def build_queue(member: Membership, dispute_filter: DisputeFilter, labels: Mapping[str, str]) -> BatchQueue:
    start = reverse("dispute-batch", args=[member.batch.name])
    rows = [
        QueueRow(
            label=labels.get(waiting.dimension, waiting.dimension),
            waiting=waiting,
            start=start + build_query(DisputeFilter(dimension=waiting.dimension, order=dispute_filter.order)),
        )
        for waiting in count_waiting_disputes(member)
        if dispute_filter.dimension in ("", waiting.dimension)
    ]
    return BatchQueue(
        progress=measure_own_progress(member),
        rows=tuple(rows),
        start=start + build_query(dispute_filter),
        is_in_progress=has_dispute_in_progress(member),
    )


def list_dimension_labels(members: list[Membership]) -> dict[str, str]:
    """The dimensions of these batches, each as its guideline calls it in the reader's language."""
    return {
        dimension: dimension_label(member.batch.guideline.document, dimension)
        for member in members
        for dimension in list_dimensions(member)
    }


def show_refusal(
    request: HttpRequest, assignment: Assignment, form: WorkForm, error: AssayError
) -> HttpResponse:
    """What can be mended stays on the page; what is over is said, and the next dispute follows."""
    now = get_open_dispute(assignment.pk, person_of(request))
    if isinstance(error, Unprocessable) and now.state != Assignment.State.SUBMITTED:
        return show_dispute(request, now, form=form, error=describe_refusal(error), status=error.status)
    messages.warning(request, error_text(error))
    return show_following(request, assignment.batch)


def show_following(request: HttpRequest, batch: Batch) -> HttpResponse:
    return show_next(request, batch) if getattr(request, "htmx", False) else redirect_to_batch(request, batch)


def redirect_to_batch(request: HttpRequest, batch: Batch) -> HttpResponse:
    return redirect(reverse("dispute-batch", args=[batch.name]) + query_string(request))


def query_string(request: HttpRequest) -> str:
    return build_query(parse_dispute_filter(request.GET))
