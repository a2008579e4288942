"""A batch's people and what each is to get; and what they left for the manager to read: skipped items and requests
for correction.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.domain.permissions import MANAGE_BATCHES
from annotation.forms.batches.batches import JoinForm
from annotation.forms.batches.tasks import LimitsForm
from annotation.models import ADJUDICATOR, ANNOTATOR, Batch, CorrectionRequest
from annotation.selectors.access import list_openings, refuse_sealed_gold
from annotation.selectors.annotations.corrections import get_correction, list_corrections
from annotation.selectors.batches import get_batch
from annotation.selectors.batches.members import MemberRow, count_shared, get_member, list_members
from annotation.selectors.batches.progress import list_skips
from annotation.selectors.guidelines import criterion_label, dimension_label, label_text, list_answer_words
from annotation.selectors.people import get_person
from annotation.services.annotations.submission import handle_correction_request
from annotation.services.batches.members import join_batch, set_limits, set_member_active
from annotation.views.access import act_required, person_of
from annotation.views.batches.batches import batch_context
from annotation.views.notices import render_notice

Words: TypeAlias = list[tuple[str, str]]
"""Criteria with what was answered."""
ROLES = (ANNOTATOR, ADJUDICATOR)
PAGE = 50
MEMBERS_PER_PAGE = 100


@require_http_methods(["GET", "POST"])
@act_required(MANAGE_BATCHES)
def batch_members(request: HttpRequest, name: str) -> HttpResponse:
    """Who works in the batch; POST adds people in the role that ``role`` names."""
    open_batch = get_batch(name)
    posted = request.POST.get("role", "")
    forms = {
        role: JoinForm(request.POST if role == posted else None, batch=open_batch, role=role)
        for role in ROLES
    }
    form = forms.get(posted)
    if form is not None and form.is_valid():
        people = list(form.cleaned_data["people"])
        planned = join_batch(batch=open_batch, role=posted, people=people, actor=person_of(request))
        added = _("Added: {names}").format(names=", ".join(map(str, people)))
        messages.success(request, f"{added}. {describe_planned(planned)}".rstrip())
        return redirect("batch-members", name)
    context = batch_context(open_batch, person_of(request), tab="people")
    page = Paginator(list_members(open_batch), MEMBERS_PER_PAGE).get_page(request.GET.get("page"))
    context |= {
        "page": page,
        "rows": [member_row(member, open_batch, sealed=context["sealed"]) for member in page.object_list],
        "planning": open_batch.pairing != Batch.Pairing.POOL,
        "shared": None if context["sealed"] else count_shared(open_batch),
        "forms": forms,
        "openings": list_openings(open_batch),
        "may_change": open_batch.state != Batch.State.CLOSED,
    }
    return render(request, "annotation/batches/members.html", context, status=422 if posted else 200)


@require_POST
@act_required(MANAGE_BATCHES)
def batch_member(request: HttpRequest, name: str, username: str, role: str) -> HttpResponse:
    """Let a member go (``active=0``) or take them in again (``active=1``)."""
    active = request.POST.get("active") == "1"
    person = get_person(username)
    planned = set_member_active(
        batch=get_batch(name), person=person, role=role, active=active, actor=person_of(request)
    )
    notice = render_notice("member_active" if active else "member_ended", name=person)
    messages.success(request, f"{notice} {describe_planned(planned)}".rstrip())
    return redirect("batch-members", name)


@require_http_methods(["GET", "POST"])
@act_required(MANAGE_BATCHES)
def batch_member_limits(request: HttpRequest, name: str, username: str, role: str) -> HttpResponse:
    """At most how many items a member gets, and none of which dimensions."""
    open_batch = get_batch(name)
    member = get_member(open_batch, username, role)
    form = LimitsForm(request.POST if request.method == "POST" else None, membership=member)
    if form.is_valid():
        try:
            planned = set_limits(
                batch=open_batch,
                person=member.person,
                role=role,
                actor=person_of(request),
                **form.cleaned_data,
            )
        except AssayError as error:
            form.add_error(None, error_text(error))
        else:
            notice = render_notice("member_limited", name=member.person)
            messages.success(request, f"{notice} {describe_planned(planned)}".rstrip())
            return redirect("batch-members", name)
    context = batch_context(open_batch, person_of(request), page_title=str(member.person))
    context |= {"member": member, "form": form, "may_change": open_batch.state != Batch.State.CLOSED}
    answer = "annotation/batches/limits.html"
    return render(request, answer, context, status=422 if form.is_bound else 200)


@require_GET
@act_required(MANAGE_BATCHES)
def batch_items(request: HttpRequest, name: str) -> HttpResponse:
    """Skipped items and requests for correction: they show responses and labels."""
    open_batch = get_batch(name)
    refuse_sealed_gold(person_of(request), [open_batch])
    page = Paginator(list_skips(open_batch), PAGE).get_page(request.GET.get("page"))
    context = batch_context(open_batch, person_of(request), tab="items") | {
        "page": page,
        "corrections": [
            correction_row(correction, open_batch) for correction in list_corrections(open_batch)
        ],
    }
    return render(request, "annotation/batches/items.html", context)


def correction_row(
    correction: CorrectionRequest, batch: Batch
) -> tuple[CorrectionRequest, Words, Words, Any]:
    """The request with what was submitted, what is wanted in its place, and what the item was settled as, in words."""
    document = batch.guideline.document
    current = next((a for a in correction.assignment.annotations.all() if a.current), None)
    return (
        correction,
        list_answer_words(document, current.answers if current else {}),
        list_answer_words(document, correction.labels),
        [
            (
                criterion_label(document, gold.criterion),
                label_text(document, gold.criterion, gold.value),
                gold.source,
            )
            for gold in correction.assignment.task.gold_labels.all()
        ],
    )


@require_POST
@act_required(MANAGE_BATCHES)
def correction_handled(request: HttpRequest, name: str, request_id: int) -> HttpResponse:
    open_batch = get_batch(name)
    refuse_sealed_gold(person_of(request), [open_batch])
    handle_correction_request(request=get_correction(open_batch, request_id), actor=person_of(request))
    return redirect("batch-items", name)


def member_row(member: MemberRow, batch: Batch, *, sealed: bool) -> dict[str, Any]:
    """A member's line. Whoever judges blind here reads nothing of what others did, and no model's name."""
    membership, document = member.membership, batch.guideline.document
    topics = [name for name in membership.person.opted_out if document.knows_dimension(name)]
    limits = {
        "languages": membership.person.languages,
        "models": [] if sealed else [model.name for model in membership.person.own_models.all()],
        "topics": [dimension_label(document, name) for name in topics],
        "excluded": [dimension_label(document, name) for name in membership.excluded_dimensions],
    }
    return {
        "member": membership,
        "counts": None if sealed else member,
        "is_limited": any(limits.values()),
        **limits,
    }


def describe_planned(planned: int) -> str:
    """What it did to the plan; nothing where it did nothing."""
    return render_notice("planned_again", n=planned) if planned else ""
