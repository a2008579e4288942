"""A batch's people, and what they left for the manager to read: skipped items and requests for correction."""

from __future__ import annotations

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from annotation.forms.batches import JoinForm
from annotation.models import ADJUDICATOR, ANNOTATOR, MANAGER, Batch, Membership
from annotation.selectors.batches import batch_named
from annotation.selectors.gold import refuse_sealed_gold
from annotation.selectors.people import person_named
from annotation.selectors.progress import correction_in, corrections, skips
from annotation.services.corrections import handle_correction_request
from annotation.services.members import join_batch, set_member_active
from annotation.views.access import person_of, role_required
from annotation.views.batches import batch_context

ROLES = (ANNOTATOR, ADJUDICATOR)
PAGE = 50


@require_http_methods(["GET", "POST"])
@role_required(MANAGER)
def batch_members(request: HttpRequest, name: str) -> HttpResponse:
    """Who works in the batch; POST adds people in the role that ``role`` names."""
    found = batch_named(name)
    posted = request.POST.get("role", "")
    forms = {
        role: JoinForm(request.POST if role == posted else None, batch=found, role=role) for role in ROLES
    }
    form = forms.get(posted)
    if form is not None and form.is_valid():
        people = list(form.cleaned_data["people"])
        join_batch(batch=found, role=posted, people=people, actor=person_of(request))
        messages.success(request, _("Added: {names}").format(names=", ".join(map(str, people))))
        return redirect("batch-members", name)
    context = batch_context(found, person_of(request), tab="people") | {
        "members": _members(found),
        "forms": forms,
        "may_change": found.state != Batch.State.CLOSED,
    }
    return render(request, "annotation/batches/members.html", context, status=422 if posted else 200)


@require_POST
@role_required(MANAGER)
def batch_member(request: HttpRequest, name: str, username: str, role: str) -> HttpResponse:
    """Let a member go (``active=0``) or take them in again (``active=1``)."""
    active = request.POST.get("active") == "1"
    person = person_named(username)
    set_member_active(
        batch=batch_named(name), person=person, role=role, active=active, actor=person_of(request)
    )
    words = (
        _("{name} works in this batch again.")
        if active
        else _("{name} gets no more items of this batch; what was at hand went back.")
    )
    messages.success(request, words.format(name=person))
    return redirect("batch-members", name)


@require_GET
@role_required(MANAGER)
def batch_items(request: HttpRequest, name: str) -> HttpResponse:
    """Skipped items and requests for correction: they show responses and labels."""
    found = batch_named(name)
    refuse_sealed_gold(person_of(request), [found])
    page = Paginator(skips(found), PAGE).get_page(request.GET.get("page"))
    context = batch_context(found, person_of(request), tab="items") | {
        "page": page,
        "corrections": corrections(found),
    }
    return render(request, "annotation/batches/items.html", context)


@require_POST
@role_required(MANAGER)
def correction_handled(request: HttpRequest, name: str, request_id: int) -> HttpResponse:
    found = batch_named(name)
    refuse_sealed_gold(person_of(request), [found])
    handle_correction_request(request=correction_in(found, request_id), actor=person_of(request))
    return redirect("batch-items", name)


def _members(batch: Batch) -> list[Membership]:
    memberships = Membership.objects.filter(batch=batch).select_related("person")
    return list(memberships.order_by("-role", "-active", "person__username"))
