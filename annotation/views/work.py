"""The annotator's pages: one item at a time, out of one batch."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from annotation.errors import AssayError, Forbidden, Unprocessable
from annotation.forms.work import SkipForm, WorkForm
from annotation.models import ADJUDICATOR, ANNOTATOR, Assignment, Batch, Membership, Person
from annotation.selectors.batches import batch_named
from annotation.selectors.mine import given, my_item, progress_in
from annotation.selectors.work import handout, my_batches, my_last
from annotation.services import annotations as answers
from annotation.services import distribution
from annotation.views import history
from annotation.views.access import person_of, role_required
from annotation.views.workspace import go, item_context
from annotation.wording import error_text

annotator_only = role_required(ANNOTATOR)


@require_GET
@never_cache
@annotator_only
def work(request: HttpRequest) -> HttpResponse:
    """My batches; straight in where there is just one (``?list`` stays)."""
    mine = [one for one in my_batches(person_of(request)) if one.role == Membership.Role.ANNOTATOR]
    if len(mine) == 1 and "list" not in request.GET:
        return redirect("work-batch", mine[0].batch.name)
    return render(request, "annotation/work/list.html", {"mine": mine})


@require_GET
@never_cache
@annotator_only
def batch(request: HttpRequest, name: str) -> HttpResponse:
    return show_next(request, batch_named(name))


@require_GET
@never_cache
@annotator_only
def undo(request: HttpRequest, name: str) -> HttpResponse:
    """Back to the last submitted item of the batch, to revise it."""
    last = my_last(batch_named(name), person_of(request))
    if last is None:
        return go(request, "work-batch", name, say=_("You have submitted nothing here yet."))
    return redirect(f"{reverse('history-item', args=[last.pk])}?back=work")


@require_POST
@never_cache
@annotator_only
def submit(request: HttpRequest, assignment_id: UUID) -> HttpResponse:
    person = person_of(request)
    assignment = my_item(assignment_id, person)
    form = WorkForm(request.POST)
    if not form.is_valid():
        return show_item(request, assignment, form=form, error=form.first_error(), status=422)
    try:
        answers.submit(
            assignment_id=assignment.pk, person=person, key=form.cleaned_data["key"], work=form.work()
        )
    except AssayError as error:
        return _not_taken(request, assignment, form, error)
    return _after(request, assignment.batch)


@require_POST
@never_cache
@annotator_only
def skip(request: HttpRequest, assignment_id: UUID) -> HttpResponse:
    person = person_of(request)
    assignment = my_item(assignment_id, person)
    form = SkipForm(request.POST)
    if not form.is_valid():
        return show_item(request, assignment, skip_error=form.first_error(), status=422)
    reason = form.cleaned_data["why"]
    distribution.release(assignment_id=assignment.pk, person=person, skip_reason=reason)
    messages.info(request, _("Skipped: it goes to someone else."))
    return _after(request, assignment.batch)


@require_POST
@role_required(ANNOTATOR, ADJUDICATOR)
def extend(request: HttpRequest, assignment_id: UUID) -> HttpResponse:
    """Called by the page while somebody works on it."""
    distribution.extend_lease(assignment_id=assignment_id, person=person_of(request))
    return HttpResponse(status=204)


def show_next(request: HttpRequest, batch: Batch) -> HttpResponse:
    """The next item of the batch, or why there is none."""
    person = person_of(request)
    try:
        assignment = distribution.next_assignment(batch=batch, person=person)
    except Forbidden as error:  # paused or closed while the person was at work
        return go(request, "work", level=messages.WARNING, say=error_text(error))
    if assignment is None:
        return render(request, "annotation/work/nothing.html", _nothing(batch, person))
    return show_item(request, assignment)


def show_item(
    request: HttpRequest,
    assignment: Assignment,
    *,
    form: WorkForm | None = None,
    error: str = "",
    skip_error: str = "",
    status: int = 200,
) -> HttpResponse:
    """An item to decide; with a ``form`` that was refused, as it was filled in, under its own key."""
    item = handout(assignment)
    context = {
        **item_context(assignment, item, form=form, error=error, skip_error=skip_error),
        "progress": progress_in(assignment.batch, person_of(request), ANNOTATOR),
    }
    return render(request, "annotation/work/item.html", context, status=status)


def _nothing(batch: Batch, person: Person) -> dict[str, Any]:
    mine = my_batches(person)
    others = [one for one in mine if one.batch.pk != batch.pk and one.left and one.role == ANNOTATOR]
    return {"batch": batch, "progress": progress_in(batch, person, ANNOTATOR), "others": others}


def _not_taken(
    request: HttpRequest, assignment: Assignment, form: WorkForm, error: AssayError
) -> HttpResponse:
    """Where an earlier answer arrived after all, what is on the page becomes its correction; nothing typed is lost."""
    assignment.refresh_from_db()
    done = given(assignment)
    if done is not None:
        say = _("This item was submitted already. Submit again to put this in its place.")
        return history.show_item(request, assignment, done, form=form, error=say, back="work", status=409)
    if isinstance(error, Unprocessable):
        return show_item(request, assignment, form=form, error=error_text(error), status=error.status)
    messages.warning(request, error_text(error))
    return _after(request, assignment.batch)


def _after(request: HttpRequest, batch: Batch) -> HttpResponse:
    """The next item: at once in the same answer for htmx, by way of its address otherwise."""
    if getattr(request, "htmx", False):
        return show_next(request, batch)
    return redirect("work-batch", batch.name)
