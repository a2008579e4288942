"""A manager's batches: the list, one batch's progress, opening, pausing and closing it."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import N_, AssayError
from annotation.core.http import breadcrumbs
from annotation.domain.permissions import MANAGE_BATCHES
from annotation.forms.batches.policy import PolicyForm
from annotation.forms.lists import ListColumns
from annotation.models import Batch, Person
from annotation.selectors.access import is_awaiting_confirmation, sealed_batches
from annotation.selectors.annotations.messages import count_waiting_threads
from annotation.selectors.batches import get_batch
from annotation.selectors.batches.monitoring import list_alarmed, list_batch_stats
from annotation.selectors.batches.outlook import build_outlook
from annotation.selectors.batches.plan import measure_pace, plan_batch
from annotation.selectors.batches.progress import BatchRow, find_end_job, list_batch_rows
from annotation.selectors.datasets import has_responses
from annotation.selectors.guidelines import list_published
from annotation.selectors.people import count_invited_annotators
from annotation.selectors.quality.adjudicators import (
    measure_adjudicator_agreement,
    measure_intra_rater_agreement,
)
from annotation.services.batches.batches import confirm_closing, set_state
from annotation.services.batches.collection import enqueue_end
from annotation.services.batches.monitoring import mark_alarm_seen
from annotation.services.batches.policy import may_set_threshold, set_terms
from annotation.views.access import act_required, person_of
from annotation.views.batches.creation import describe_plan
from annotation.views.batches.progress import board_context, facts_context, format_chance, progress_context
from annotation.views.lists import narrow_by_request

PAGE = 50
COLUMNS = ListColumns(guideline="guideline__name")
AT_RISK = 0.5  # from this probability on the list warns that a batch will be late


@require_GET
@act_required(MANAGE_BATCHES)
def batches(request: HttpRequest) -> HttpResponse:
    """The batches that run or are to run; with ``?closed=1`` those that are over."""
    closed = "closed" in request.GET
    all_batches = Batch.objects.select_related("guideline")
    batch_query = (
        all_batches.filter(state=Batch.State.CLOSED)
        if closed
        else all_batches.exclude(state=Batch.State.CLOSED)
    )
    fixed = {"closed": "1"} if closed else {}
    narrowed = narrow_by_request(request, batch_query.select_related("created_by"), COLUMNS, **fixed)
    shown_lines = list_batch_rows(list(narrowed.rows), person_of(request))
    context = {
        **narrowed.context,
        "archive_url": "?closed=1&archived=1",  # only closed ones are archived
        "rows": list_rows(shown_lines),
        "closed": closed,
        "some_sealed": any(line.settled is None for line in shown_lines),
        "any": all_batches.exists(),
        "has_responses": has_responses(),
        "has_guideline": list_published().exists(),
    }
    return render(request, "annotation/batches/list.html", context)


@require_GET
@never_cache
@act_required(MANAGE_BATCHES)
def batch(request: HttpRequest, name: str) -> HttpResponse:
    open_batch = get_batch(name)
    context = batch_context(open_batch, person_of(request), tab="progress") | board_context(
        open_batch, person_of(request)
    )
    if not open_batch.is_even or open_batch.settling == Batch.Settling.AGGREGATE:
        context["ending"] = find_end_job(open_batch)
    if open_batch.state == Batch.State.DRAFT:
        context |= draft_plan_context(open_batch)
    elif not context["sealed"]:
        context["intra_rater_agreement"] = measure_intra_rater_agreement(open_batch)
        context["second_adjudications"] = measure_adjudicator_agreement([open_batch])
    return render(request, "annotation/batches/batch.html", context)


@require_GET
@never_cache
@act_required(MANAGE_BATCHES)
def batch_progress(request: HttpRequest, name: str) -> HttpResponse:
    """The counts alone; an open batch's page asks for them again and again."""
    live_batch = get_batch(name)
    answer = render(
        request, "annotation/batches/_progress.html", board_context(live_batch, person_of(request))
    )
    if live_batch.state != Batch.State.OPEN:
        answer["HX-Refresh"] = "true"  # paused or closed meanwhile: other buttons, and no more asking
    return answer


@require_POST
@act_required(MANAGE_BATCHES)
def batch_state(request: HttpRequest, name: str) -> HttpResponse:
    changed_batch = set_state(batch=get_batch(name), state=parse_state(request), actor=person_of(request))
    words = {
        Batch.State.OPEN: _("The batch is open: its people can work."),
        Batch.State.PAUSED: _(
            "The batch is paused: nobody gets new items, and what is in progress can be submitted."
        ),
        Batch.State.CLOSED: _("The batch is closed."),
    }
    messages.success(request, words[Batch.State(changed_batch.state)])
    return redirect("batch", name)


@require_POST
@act_required(MANAGE_BATCHES)
def batch_end_collection(request: HttpRequest, name: str) -> HttpResponse:
    enqueue_end(batch=get_batch(name), actor=person_of(request))
    messages.success(
        request,
        _(
            "The collection is being ended: a job settles the items, and what it cannot settle goes to a third person."
        ),
    )
    return redirect("batch", name)


@require_POST
@act_required(MANAGE_BATCHES)
def batch_confirm_closing(request: HttpRequest, name: str) -> HttpResponse:
    confirm_closing(batch=get_batch(name), actor=person_of(request))
    messages.success(
        request, _("The closing is confirmed: the results are open to who closed the batch, too.")
    )
    return redirect("batch", name)


@require_GET
@act_required(MANAGE_BATCHES)
def batch_close(request: HttpRequest, name: str) -> HttpResponse:
    """Asks before closing, because it cannot be undone."""
    open_batch = get_batch(name)
    person = person_of(request)
    context = batch_context(open_batch, person, page_title=_("Close")) | progress_context(open_batch, person)
    return render(request, "annotation/batches/close.html", context)


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(MANAGE_BATCHES)
def batch_policy(request: HttpRequest, name: str) -> HttpResponse:
    """What of the policy may change while people work: the due date, the lease, the alarm, repeat adjudications."""
    open_batch = get_batch(name)
    threshold_open = may_set_threshold(open_batch, person_of(request))
    form = PolicyForm(request.POST or None, batch=open_batch, threshold_open=threshold_open)
    if request.method == "POST" and form.is_valid():
        try:
            set_terms(batch=open_batch, terms=form.terms(), actor=person_of(request))
        except AssayError as error:
            form.add_error(None, error_text(error))
        else:
            messages.success(request, _("The policy is changed."))
            return redirect("batch", name)
    context = batch_context(open_batch, person_of(request), page_title=_("Policy")) | {"form": form}
    return render(request, "annotation/batches/policy.html", context, status=422 if form.is_bound else 200)


@require_POST
@act_required(MANAGE_BATCHES)
def batch_alarm_seen(request: HttpRequest, name: str) -> HttpResponse:
    if mark_alarm_seen(batch=get_batch(name), actor=person_of(request)):
        messages.success(
            request, _("The alarm is marked as seen. The next one waits for at least 30 more units.")
        )
    return redirect("batch", name)


def batch_context(batch: Batch, person: Person, *, tab: str = "", page_title: str = "") -> dict[str, Any]:
    """What every page of a batch shows: its head, tabs and buttons."""
    ancestors = [(_("Batches"), "batches", list[str]())]
    if page_title:
        ancestors.append((batch.name, "batch", [batch.name]))
    return {
        "batch": batch,
        "tab": tab,
        "sealed": sealed_batches(person).filter(pk=batch.pk).exists(),
        "unconfirmed": is_awaiting_confirmation(batch),
        "waiting_questions": lambda: count_waiting_threads([batch.pk]).total(),
        "crumbs": breadcrumbs(*ancestors, title=page_title or batch.name),
    }


def draft_plan_context(batch: Batch) -> dict[str, Any]:
    plan = plan_batch(batch)
    measured = measure_pace(batch.guideline.name)
    invited = count_invited_annotators(batch) if batch.pairing == Batch.Pairing.POOL else 0
    return {
        "plan": plan,
        "measured": measured,
        "invited": invited,
        "is_filled_by_invited": plan.annotators + invited >= batch.overlap,
        **describe_plan(plan, batch.guideline, batch.due_date),
        **facts_context(batch),
    }


def list_rows(batch_rows: list[BatchRow]) -> list[dict[str, Any]]:
    """The lines of the list, each with its forecast and whether an alarm stands."""
    listed_batches = [line.batch for line in batch_rows]
    watches, standing = list_batch_stats(listed_batches), list_alarmed(listed_batches)
    rows = []
    for batch_row in batch_rows:
        forecast = build_outlook(
            batch_row.batch,
            watches.get(batch_row.batch.pk),
            batch_row.overall,
            people=batch_row.annotators,
            disputes=batch_row.disputes_left,
        )
        late = forecast.late if forecast else None
        rows.append(
            {
                "line": batch_row,
                "outlook": forecast,
                "late": format_chance(late),
                "at_risk": late is not None and late >= AT_RISK,
                "alarm": batch_row.batch.pk in standing,
            }
        )
    return rows


def parse_state(request: HttpRequest) -> str:
    state = request.POST.get("state", "")
    if state not in (Batch.State.OPEN, Batch.State.PAUSED, Batch.State.CLOSED):
        raise AssayError(N_("A batch can be open, paused or closed."))
    return state
