"""The annotator's pages: one item at a time, out of one batch.

While one item is read the page claims the next (``ahead``), and what is submitted goes in the background
(static/js/outbox.js): its answer says in a header what came of it and brings what the page asks for in ``next``.
Without scripts each answer is a page.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError, Forbidden
from annotation.domain.permissions import HANDLE_CLAIMS, LABEL
from annotation.forms.annotations import SkipForm, WorkForm
from annotation.models import ANNOTATOR, Assignment, Batch, Membership, Person
from annotation.selectors.annotations.own_work import (
    SubmittedWork,
    find_other_claim,
    find_saved_draft,
    find_submitted_work,
    get_own_item,
    to_milliseconds,
)
from annotation.selectors.assignments.items import build_item, find_last_submission
from annotation.selectors.batches import get_batch
from annotation.selectors.batches.own_progress import find_own_progress, list_own_batches
from annotation.selectors.gold_questions import Feedback, find_latest_feedback
from annotation.selectors.guidelines import get_batch_to_enter
from annotation.selectors.wellbeing import is_budget_used_up
from annotation.services import assignments
from annotation.services.annotations import submission as answers
from annotation.services.annotations.drafts import save_draft
from annotation.services.annotations.submission import AlreadySubmitted
from annotation.services.assignments import TooLate
from annotation.services.guidelines import record_introduction
from annotation.views.access import act_required, person_of
from annotation.views.annotations import history
from annotation.views.annotations.workspace import (
    WorkRefusal,
    describe_refusal,
    item_context,
    leave_page,
    render_page,
)
from annotation.views.gold_questions.feedback import describe_feedback, find_failed_attempt
from annotation.views.guidelines.introduction import show_introduction

# What came of a submit: "taken" with the receipt, "kept" as a draft, or "refused" with the item to mend.
OUTCOME, RECEIPT = "Assay-Outcome", "Assay-Receipt"
SAVED = "Assay-Saved"  # when a draft was saved, as the page of its item tells it


@require_GET
@never_cache
@act_required(LABEL)
def work(request: HttpRequest) -> HttpResponse:
    """My batches; straight in where there is just one (``?list`` stays)."""
    batches = [
        batch for batch in list_own_batches(person_of(request)) if batch.role == Membership.Role.ANNOTATOR
    ]
    if len(batches) == 1 and "list" not in request.GET:
        return redirect("work-batch", batches[0].batch.name)
    return render(request, "annotation/annotations/list.html", {"batches": batches})


@require_GET
@never_cache
@act_required(LABEL)
def batch(request: HttpRequest, name: str) -> HttpResponse:
    """The next item; before the first of a guideline version its introduction, while nothing is claimed yet."""
    batch, unread = get_batch_to_enter(name, person_of(request), ANNOTATOR)
    if unread:
        return show_introduction(request, batch, reverse("work-introduction", args=[name]))
    return show_next(request, batch)


@require_POST
@act_required(LABEL)
def introduction(request: HttpRequest, name: str) -> HttpResponse:
    record_introduction(batch=name, person=person_of(request), role=ANNOTATOR)
    return redirect("work-batch", name)


@require_GET
@never_cache
@act_required(LABEL)
def undo(request: HttpRequest, name: str) -> HttpResponse:
    """Back to the last submitted item of the batch, to revise it."""
    last = find_last_submission(get_batch(name), person_of(request))
    if last is None:
        return leave_page(request, "work-batch", name, say=_("You have submitted nothing here yet."))
    return redirect(f"{reverse('history-item', args=[last.pk])}?back=work")


@require_POST
@never_cache
@act_required(LABEL)
def claim_next(request: HttpRequest, name: str) -> HttpResponse:
    """One item more than those that the page ``had``, claimed for it; 204 where there is none to be had."""
    batch = get_batch(name)
    claim = claim_ahead(request, batch)
    return HttpResponse(status=204) if claim is None else _show_ahead(request, batch, claim)


@require_POST
@never_cache
@act_required(LABEL)
def submit(request: HttpRequest, assignment_id: UUID) -> HttpResponse:
    """What is no item of the person's to annotate does not exist for them, whatever the service says of it."""
    person = person_of(request)
    form = WorkForm(request.POST)
    if not form.is_valid():
        assignment = get_own_item(assignment_id, person)
        answer = show_item(request, assignment, form=form, error=WorkRefusal(form.first_error()), status=422)
        return set_outcome(answer, "refused")
    try:
        receipt = answers.submit(
            assignment_id=assignment_id, person=person, key=form.cleaned_data["key"], work=form.work()
        )
    except TooLate as error:
        batch = get_own_item(assignment_id, person).batch
        announce_draft(request, error)
        return set_outcome(show_following(request, batch), "kept")
    except AssayError as error:
        return show_refusal(request, get_own_item(assignment_id, person), form, error)
    return show_receipt(request, get_own_item(assignment_id, person), receipt)


@require_POST
@act_required(LABEL)
def draft(request: HttpRequest, assignment_id: UUID) -> HttpResponse:
    """Save what is on the page, finished or not; ``extend`` asks for a fresh lease too.

    Called by the page; nothing of it is shown, but for when it was saved.
    """
    form = WorkForm(request.POST)
    if not form.is_valid():
        return HttpResponse(form.first_error(), status=422, content_type="text/plain")
    at = save_draft(
        assignment_id=assignment_id,
        person=person_of(request),
        work=form.work(),
        extend="extend" in request.POST,
    )
    return HttpResponse(status=204, headers={SAVED: to_milliseconds(at)})


@require_POST
@never_cache
@act_required(LABEL)
def skip(request: HttpRequest, assignment_id: UUID) -> HttpResponse:
    person = person_of(request)
    assignment = get_own_item(assignment_id, person)
    form = SkipForm(request.POST)
    if not form.is_valid():
        return show_item(request, assignment, skip_error=form.first_error(), status=422)
    reason = form.cleaned_data["why"]
    assignments.release_assignment(assignment_id=assignment.pk, person=person, skip_reason=reason)
    messages.info(request, _("Skipped: it goes to someone else."))
    return show_following(request, assignment.batch)


@require_POST
@act_required(HANDLE_CLAIMS)
def extend(request: HttpRequest, assignment_id: UUID) -> HttpResponse:
    """Called by the page while somebody works on it."""
    assignments.extend_lease(assignment_id=assignment_id, person=person_of(request))
    return HttpResponse(status=204)


@require_POST
@act_required(LABEL)
def release(request: HttpRequest, assignment_id: UUID) -> HttpResponse:
    """Called by the page that is left, for the item that nobody has looked at."""
    person = person_of(request)
    assignments.release_assignment(assignment_id=get_own_item(assignment_id, person).pk, person=person)
    return HttpResponse(status=204)


def show_next(request: HttpRequest, batch: Batch) -> HttpResponse:
    """The next item of the batch, or why there is none."""
    person = person_of(request)
    try:
        assignment = assignments.claim_next_task(batch=batch, person=person)
    except Forbidden as error:  # paused or closed while the person was at work
        return leave_page(request, "work", level=messages.WARNING, say=error_text(error))
    if assignment is None:
        context = nothing_context(batch, person) | feedback_context(
            find_latest_feedback(batch, person), batch
        )
        return render_page(request, "annotation/annotations/no_item.html", context)
    assignment.batch = batch
    return show_item(request, assignment)


def show_item(
    request: HttpRequest,
    assignment: Assignment,
    *,
    form: WorkForm | None = None,
    error: WorkRefusal | None = None,
    skip_error: str = "",
    status: int = 200,
) -> HttpResponse:
    """An item to decide; with a ``form`` that was refused, as it was filled in, under its own key."""
    item = build_item(assignment)
    saved = None if form else find_saved_draft(assignment.pk)
    context = {
        **item_context(
            assignment,
            item,
            reader=person_of(request),
            form=form,
            error=error,
            skip_error=skip_error,
            saved=saved,
        ),
        "progress": find_own_progress(assignment.batch, person_of(request), ANNOTATOR),
        **feedback_context(find_latest_feedback(assignment.batch, person_of(request)), assignment.batch),
    }
    return render_page(request, "annotation/annotations/item.html", context, status=status)


def feedback_context(feedback: Feedback | None, batch: Batch) -> dict[str, Any]:
    """What the page says of the gold question before; nothing of any other."""
    return {} if feedback is None else {"feedback": describe_feedback(feedback, batch.guideline.document)}


def _show_ahead(request: HttpRequest, batch: Batch, claim: Assignment | None, **more: object) -> HttpResponse:
    """The parts of the page that change from item to item, as ``show_item`` has them."""
    context: dict[str, Any] = dict(more)
    if claim is not None:
        claim.batch = batch
        item = build_item(claim)
        saved = find_saved_draft(claim.pk)  # it was this person's before
        context |= item_context(
            claim, item, reader=person_of(request), form=None, error=None, skip_error="", saved=saved
        )
    return render_page(request, "annotation/annotations/ahead.html", context)


def claim_ahead(request: HttpRequest, batch: Batch) -> Assignment | None:
    """A claim of the person's that is none of those the page ``had``: made now, or at hand in another tab."""
    person, had = person_of(request), parse_page_claims(request)
    try:
        claim = assignments.claim_next_task(batch=batch, person=person, ahead=True)
    except Forbidden:  # paused or closed: the page learns it when it has nothing more at hand
        return None
    return find_other_claim(batch, person, had) if claim is None or claim.pk in had else claim


def parse_page_claims(request: HttpRequest) -> set[UUID]:
    claims = set()
    for text in request.POST.getlist("had"):
        try:
            claims.add(UUID(text))
        except ValueError:
            continue  # names no claim of anybody's
    return claims


def nothing_context(batch: Batch, person: Person) -> dict[str, Any]:
    batches = list_own_batches(person)
    other_batches = [
        progress
        for progress in batches
        if progress.batch.pk != batch.pk and progress.left and progress.role == ANNOTATOR
    ]
    return {
        "batch": batch,
        "progress": find_own_progress(batch, person, ANNOTATOR),
        "other_batches": other_batches,
        "resting": is_budget_used_up(person),
        **({"failed": find_failed_attempt(batch, person)} if batch.qualifying else {}),
    }


def show_receipt(request: HttpRequest, assignment: Assignment, receipt: answers.Receipt) -> HttpResponse:
    answer = set_outcome(show_following(request, assignment.batch, receipt.feedback), "taken")
    answer[RECEIPT] = str(receipt.receipt)
    return answer


def show_refusal(
    request: HttpRequest, assignment: Assignment, form: WorkForm, error: AssayError
) -> HttpResponse:
    """Where an earlier answer arrived after all, what is on the page becomes its correction, if it is another one;
    nothing typed is lost.
    """
    done = find_submitted_work(assignment)
    if done is None:
        answer = show_item(request, assignment, form=form, error=describe_refusal(error), status=error.status)
        return set_outcome(answer, "refused")
    if isinstance(error, AlreadySubmitted) and has_same_work(done, form):
        return show_receipt(request, assignment, error.receipt)
    say = _("This item was submitted already. Submit again to put this in its place.")
    answer = history.show_item(
        request, assignment, done, form=form, error=WorkRefusal(say), back="work", status=409
    )
    return set_outcome(answer, "refused")


def has_same_work(done: SubmittedWork, form: WorkForm) -> bool:
    """Sent from a second tab, say."""
    work = form.work(done.evidence)
    return (done.labels, done.rationale, [*done.flags], span_set(done.evidence)) == (
        work.labels,
        work.rationale,
        [*work.flags],
        span_set(work.evidence),
    )


def span_set(evidence: Iterable[Mapping[str, Any]]) -> set[str]:
    return {json.dumps(span, sort_keys=True) for span in evidence}


def announce_draft(request: HttpRequest, error: TooLate) -> None:
    link = format_html('<a href="{}#drafts">{}</a>', reverse("history"), _("Your work is saved as a draft."))
    messages.warning(request, format_html("{} {}", error_text(error), link))


def set_outcome(answer: HttpResponse, outcome: str) -> HttpResponse:
    answer[OUTCOME] = outcome
    return answer


def show_following(request: HttpRequest, batch: Batch, feedback: Feedback | None = None) -> HttpResponse:
    """What comes next: in the same answer for a page that goes on, by way of its address otherwise."""
    if not getattr(request, "htmx", False):
        return redirect("work-batch", batch.name)
    requested = request.POST.get("next", "page")
    try:
        if requested == "page":
            return show_next(request, batch)
        claim = claim_ahead(request, batch) if requested == "ahead" else None
    except AssayError as error:  # out of the batch by now; what was sent is not touched by that
        return leave_page(request, "work", level=messages.WARNING, say=error_text(error))
    counted = "progress" in request.POST  # the page counts along, and asks now and then
    progress = find_own_progress(batch, person_of(request), ANNOTATOR) if counted else None
    return _show_ahead(request, batch, claim, progress=progress, **feedback_context(feedback, batch))
