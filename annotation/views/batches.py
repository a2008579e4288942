"""A manager's batches: the list, one batch's progress, opening, pausing and closing it."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from annotation.durations import about
from annotation.errors import N_, AssayError
from annotation.models import MANAGER, RESEARCHER, Batch, Guideline, Person, Response
from annotation.selectors.batches import batch_named
from annotation.selectors.blindness import sealed_batches
from annotation.selectors.plans import pace, plan_of_batch
from annotation.selectors.progress import lines, overall, progress
from annotation.services.batches import set_state
from annotation.views.access import has_role, person_of, role_required
from annotation.views.crumbs import trail
from annotation.views.levels import dimension_label

PAGE = 50
PEOPLE = 50  # on the page that is asked for again and again; the tab of the people has all of them


@require_GET
@role_required(MANAGER)
def batches(request: HttpRequest) -> HttpResponse:
    """The batches that run or are to run; with ``?closed=1`` those that are over."""
    closed = "closed" in request.GET
    every = Batch.objects.select_related("guideline")
    shown = every.filter(state=Batch.State.CLOSED) if closed else every.exclude(state=Batch.State.CLOSED)
    page = Paginator(shown, PAGE).get_page(request.GET.get("page"))
    shown_lines = lines(list(page.object_list), person_of(request))
    context = {
        "page": page,
        "lines": shown_lines,
        "closed": closed,
        "query": "closed=1" if closed else "",
        "some_sealed": any(line.settled is None for line in shown_lines),
        "any": every.exists(),
        "has_responses": Response.objects.exists(),
        "has_guideline": Guideline.objects.exclude(published_at=None).exists(),
    }
    return render(request, "annotation/batches/list.html", context)


@require_GET
@never_cache
@role_required(MANAGER)
def batch(request: HttpRequest, name: str) -> HttpResponse:
    found = batch_named(name)
    context = batch_context(found, person_of(request), tab="progress") | _counts(found, person_of(request))
    if found.state == Batch.State.DRAFT:
        context |= plan_context(found)
    return render(request, "annotation/batches/batch.html", context)


@require_GET
@never_cache
@role_required(MANAGER)
def batch_progress(request: HttpRequest, name: str) -> HttpResponse:
    """The counts alone; an open batch's page asks for them again and again."""
    found = batch_named(name)
    answer = render(request, "annotation/batches/_progress.html", _counts(found, person_of(request)))
    if found.state != Batch.State.OPEN:
        answer["HX-Refresh"] = "true"  # paused or closed meanwhile: other buttons, and no more asking
    return answer


@require_POST
@role_required(MANAGER)
def batch_state(request: HttpRequest, name: str) -> HttpResponse:
    found = set_state(batch=batch_named(name), state=_wanted(request), actor=person_of(request))
    words = {
        Batch.State.OPEN: _("The batch is open: its people can work."),
        Batch.State.PAUSED: _(
            "The batch is paused: nobody gets new items, and what is at hand can be handed in."
        ),
        Batch.State.CLOSED: _("The batch is closed."),
    }
    messages.success(request, words[Batch.State(found.state)])
    return redirect("batch", name)


@require_GET
@role_required(MANAGER)
def batch_close(request: HttpRequest, name: str) -> HttpResponse:
    """Asks before closing, because it cannot be undone."""
    found = batch_named(name)
    context = batch_context(found, person_of(request), here=_("Close")) | _counts(found, person_of(request))
    return render(request, "annotation/batches/close.html", context)


def batch_context(batch: Batch, person: Person, *, tab: str = "", here: str = "") -> dict[str, Any]:
    """What every page of a batch shows: its head, tabs and buttons."""
    way = [(_("Batches"), "batches", list[str]())]
    if here:
        way.append((batch.name, "batch", [batch.name]))
    return {
        "batch": batch,
        "tab": tab,
        "sealed": sealed_batches(person).filter(pk=batch.pk).exists(),
        "crumbs": trail(*way, here=here or batch.name),
        "lease": about(batch.lease_seconds),
        "researches": has_role(person, RESEARCHER),
    }


def plan_context(batch: Batch) -> dict[str, Any]:
    plan = plan_of_batch(batch)
    return {
        "plan": plan,
        "measured": pace(batch.guideline.name),
        "total_time": about(plan.total_seconds),
        "each_time": about(plan.each_seconds),
    }


def _counts(batch: Batch, person: Person) -> dict[str, Any]:
    """Overall progress for everybody; the rest only for those whom it tells nothing of a label."""
    sealed = sealed_batches(person).filter(pk=batch.pk).exists()
    counts = None if sealed else progress(batch)
    document = batch.guideline.document
    return {
        "batch": batch,
        "sealed": sealed,
        "overall": overall(batch),
        "progress": counts,
        "dimensions": [(dimension_label(document, one.name), one) for one in counts.dimensions]
        if counts
        else [],
        "people": counts.people[:PEOPLE] if counts else (),
        "people_left_out": max(0, len(counts.people) - PEOPLE) if counts else 0,
        "waiting_note": _("{n} waiting for an adjudicator").format(n=counts.waiting) if counts else "",
    }


def _wanted(request: HttpRequest) -> str:
    state = request.POST.get("state", "")
    if state not in (Batch.State.OPEN, Batch.State.PAUSED, Batch.State.CLOSED):
        raise AssayError(N_("A batch can be open, paused or closed."))
    return state
