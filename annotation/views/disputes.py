"""The adjudicator's pages: one dispute at a time, the labels as A and B."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from annotation.errors import AssayError, Forbidden, Unprocessable
from annotation.forms.work import SkipForm, WorkForm
from annotation.models import ADJUDICATOR, Assignment, Batch, Membership, Person
from annotation.selectors.batches import batch_named
from annotation.selectors.mine import given, my_dispute, progress_in
from annotation.selectors.work import dispute, my_batches
from annotation.services import adjudications as answers
from annotation.services import distribution
from annotation.views.access import person_of, role_required
from annotation.views.workspace import go, item_context, side_cards
from annotation.wording import error_text

adjudicator_only = role_required(ADJUDICATOR)


@require_GET
@never_cache
@adjudicator_only
def disputes(request: HttpRequest) -> HttpResponse:
    """The queue by batch; straight in where there is just one (``?list`` stays)."""
    mine = [one for one in my_batches(person_of(request)) if one.role == Membership.Role.ADJUDICATOR]
    if len(mine) == 1 and "list" not in request.GET:
        return redirect("dispute-batch", mine[0].batch.name)
    return render(request, "annotation/disputes/list.html", {"mine": mine})


@require_GET
@never_cache
@adjudicator_only
def batch(request: HttpRequest, name: str) -> HttpResponse:
    return show_next(request, batch_named(name))


@require_POST
@never_cache
@adjudicator_only
def submit(request: HttpRequest, assignment_id: UUID) -> HttpResponse:
    person = person_of(request)
    assignment = my_dispute(assignment_id, person)
    form = WorkForm(request.POST)
    if not form.is_valid():
        return show_dispute(request, assignment, form=form, error=form.first_error(), status=422)
    try:
        answers.adjudicate(
            assignment_id=assignment.pk, person=person, key=form.cleaned_data["key"], work=form.work()
        )
    except AssayError as error:
        return _not_taken(request, assignment, form, error)
    return _after(request, assignment.batch)


@require_POST
@never_cache
@adjudicator_only
def skip(request: HttpRequest, assignment_id: UUID) -> HttpResponse:
    person = person_of(request)
    assignment = my_dispute(assignment_id, person)
    form = SkipForm(request.POST)
    if not form.is_valid():
        return show_dispute(request, assignment, skip_error=form.first_error(), status=422)
    reason = form.cleaned_data["why"]
    distribution.release(assignment_id=assignment.pk, person=person, skip_reason=reason)
    messages.info(request, _("Skipped: it goes to someone else."))
    return _after(request, assignment.batch)


@require_POST
@never_cache
@adjudicator_only
def release(request: HttpRequest, assignment_id: UUID) -> HttpResponse:
    """Give the dispute back undecided; it may come again."""
    person = person_of(request)
    distribution.release(assignment_id=my_dispute(assignment_id, person).pk, person=person)
    messages.info(request, _("Given back: it waits for an adjudicator."))
    answer = redirect("disputes")
    answer["Location"] += "?list"
    return answer


def show_next(request: HttpRequest, batch: Batch) -> HttpResponse:
    person = person_of(request)
    try:
        assignment = distribution.next_dispute(batch=batch, person=person)
    except Forbidden as error:  # paused or closed while the person was at work
        return go(request, "disputes", level=messages.WARNING, say=error_text(error))
    if assignment is None:
        return render(request, "annotation/disputes/nothing.html", _nothing(batch, person))
    return show_dispute(request, assignment)


def show_dispute(
    request: HttpRequest,
    assignment: Assignment,
    *,
    form: WorkForm | None = None,
    error: str = "",
    skip_error: str = "",
    status: int = 200,
) -> HttpResponse:
    """A dispute to decide; with a ``form`` that was refused, as it was filled in, under its own key."""
    found = dispute(assignment)
    item = found.handout
    context = {
        **item_context(
            assignment, item, reader=person_of(request), form=form, error=error, skip_error=skip_error
        ),
        "sides": side_cards(found.sides, item.criteria),
        "progress": progress_in(assignment.batch, person_of(request), ADJUDICATOR),
    }
    return render(request, "annotation/disputes/item.html", context, status=status)


def _nothing(batch: Batch, person: Person) -> dict[str, Any]:
    mine = my_batches(person)
    others = [one for one in mine if one.batch.pk != batch.pk and one.left and one.role == ADJUDICATOR]
    return {"batch": batch, "progress": progress_in(batch, person, ADJUDICATOR), "others": others}


def _not_taken(
    request: HttpRequest, assignment: Assignment, form: WorkForm, error: AssayError
) -> HttpResponse:
    """What can be mended stays on the page; what is over is said, and the next dispute follows."""
    assignment.refresh_from_db()
    if isinstance(error, Unprocessable) and given(assignment) is None:
        return show_dispute(request, assignment, form=form, error=error_text(error), status=error.status)
    messages.warning(request, error_text(error))
    return _after(request, assignment.batch)


def _after(request: HttpRequest, batch: Batch) -> HttpResponse:
    if getattr(request, "htmx", False):
        return show_next(request, batch)
    return redirect("dispute-batch", batch.name)
