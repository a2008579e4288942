"""The items of a batch for its manager: finding them, listing those that need a person, and changing the chosen ones.

The pages tell who labelled what, so they are closed to whoever works in the batch until the batch closes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.http import parse_int, parse_signed
from annotation.domain.assignments.eligibility import (
    NOT_THIS_DIMENSION,
    NOT_THIS_LANGUAGE,
    NOT_THIS_TOPIC,
    OWN_MODEL,
)
from annotation.domain.permissions import MANAGE_BATCHES
from annotation.forms.batches.tasks import ASSIGN, EVERYBODY, PRIORITY, WITHDRAW, ChangeForm, FindTasksForm
from annotation.models import Assignment, Batch, Person
from annotation.selectors.access import refuse_sealed_gold
from annotation.selectors.batches import get_batch
from annotation.selectors.batches.needs import (
    ANNOTATED,
    FAILED,
    LABELLED,
    MAX_TOLD,
    NOT_PLANNED,
    QUOTA,
    SKIPPED,
    Need,
    NeedReason,
    list_needs,
)
from annotation.selectors.batches.tasks import BatchItem, find_tasks
from annotation.selectors.guidelines import dimension_label
from annotation.services.batches import tasks
from annotation.views.access import act_required, person_of
from annotation.views.batches.batches import batch_context
from annotation.views.notices import render_notice

MAX_NAMES = 5


def describe_obstacle(obstacle: NeedReason, dimension: str, language: str) -> str:
    """For example ``lin and chen skipped it``; ``dimension`` and ``language`` are the item's."""
    names = [str(person.person) for person in obstacle.people]
    words = obstacle_template(obstacle.reason, len(names))
    return words.format(names=join_names(names), dimension=dimension, language=language)


def obstacle_template(reason: str, n: int) -> str:
    known = {
        SKIPPED: ngettext("{names} skipped it", "{names} skipped it", n),
        QUOTA: ngettext("{names} has reached the quota", "{names} have reached the quota", n),
        FAILED: ngettext(
            "{names} did not pass the qualification", "{names} did not pass the qualification", n
        ),
        LABELLED: ngettext(
            "{names} labelled it or has it in progress", "{names} labelled it or have it in progress", n
        ),
        ANNOTATED: ngettext("{names} was given it to annotate", "{names} were given it to annotate", n),
        NOT_PLANNED: ngettext(
            "{names} is not among those it is planned for",
            "{names} are not among those it is planned for",
            n,
        ),
        NOT_THIS_DIMENSION: ngettext(
            "{names} is given nothing of {dimension}", "{names} are given nothing of {dimension}", n
        ),
        NOT_THIS_TOPIC: ngettext("{names} does not read this topic", "{names} do not read this topic", n),
        OWN_MODEL: ngettext("{names} helped to build the model", "{names} helped to build the model", n),
        NOT_THIS_LANGUAGE: ngettext("{names} does not read {language}", "{names} do not read {language}", n),
    }
    return known[reason]


def join_names(names: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    listed = _(", ").join(names[:MAX_NAMES])
    more = len(names) - MAX_NAMES
    if more <= 0:
        return listed
    return ngettext("{names} and {n} more", "{names} and {n} more", more).format(names=listed, n=more)


PAGE = 50
MAX_PAGES = 20


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(MANAGE_BATCHES)
def batch_tasks(request: HttpRequest, name: str) -> HttpResponse:
    """The items that fit the filters; POST changes the chosen ones."""
    open_batch = get_unsealed_batch(request, name)
    form, done = handle_change(request, open_batch)
    if done:
        return done
    filters = FindTasksForm(request.GET, batch=open_batch)
    page = find_tasks(
        open_batch, filters.build_filter(), limit=PAGE, after=parse_signed(request.GET.get("after", ""))
    )
    parameters = {key: value for key, value in request.GET.items() if value and key != "after"}
    return show_tasks(
        request,
        "annotation/batches/tasks.html",
        form,
        batch_context(open_batch, person_of(request), tab="tasks")
        | {
            "filters": filters,
            "filtered": bool(parameters),
            "rows": [item_row(item, open_batch) for item in page.items],
            "page": page,
            "first": request.GET.get("after") is None,
            "query": urlencode(parameters),
            "next": urlencode({**parameters, "after": page.after}) if page.after is not None else "",
        },
    )


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(MANAGE_BATCHES)
def batch_needs(request: HttpRequest, name: str) -> HttpResponse:
    """The items that nobody left may take, and why; POST changes the chosen ones."""
    open_batch = get_unsealed_batch(request, name)
    form, done = handle_change(request, open_batch)
    if done:
        return done
    number = min(max(1, parse_signed(request.GET.get("page", "")) or 1), MAX_PAGES)
    first_needs = list_needs(open_batch, limit=number * PAGE + 1)
    page_needs = first_needs[(number - 1) * PAGE : number * PAGE]
    return show_tasks(
        request,
        "annotation/batches/needs.html",
        form,
        batch_context(open_batch, person_of(request), tab="tasks", page_title=_("Need a person"))
        | {
            "rows": [need_row(need, open_batch) for need in page_needs],
            "previous": number - 1,
            "next": number + 1 if len(first_needs) > number * PAGE and number < MAX_PAGES else 0,
            "more": len(first_needs) > number * PAGE and number == MAX_PAGES,
        },
    )


@require_GET
@never_cache
@act_required(MANAGE_BATCHES)
def batch_needs_notice(request: HttpRequest, name: str) -> HttpResponse:
    """How many need a person; the batch's page asks for it apart, so that the page itself waits for nothing."""
    open_batch = get_unsealed_batch(request, name)
    working = open_batch.state in (Batch.State.OPEN, Batch.State.PAUSED)
    n = len(list_needs(open_batch, limit=MAX_TOLD + 1)) if working else 0
    context = {"batch": open_batch, "n": min(n, MAX_TOLD), "more": n > MAX_TOLD}
    return render(request, "annotation/batches/_needs.html", context)


def get_unsealed_batch(request: HttpRequest, name: str) -> Batch:
    open_batch = get_batch(name)
    refuse_sealed_gold(person_of(request), [open_batch])
    return open_batch


def handle_change(request: HttpRequest, batch: Batch) -> tuple[ChangeForm, HttpResponse | None]:
    """The form, and the answer where there is nothing more to show: done, and back to the same page."""
    if request.method != "POST":
        return ChangeForm(batch=batch), None
    form = ChangeForm(request.POST, batch=batch)
    if form.is_valid():
        try:
            words = apply_change(batch, form.cleaned_data, person_of(request))
        except AssayError as error:
            form.add_error(None, error_text(error))
        else:
            messages.success(request, words)
            return form, redirect(request.get_full_path())
    return form, None


def apply_change(batch: Batch, data: dict[str, Any], actor: Person) -> str:
    """Do it, and say how many items it changed."""
    action, people = data["action"], list(data["people"])
    change: Any = {"batch": batch, "tasks": data["tasks"], "actor": actor}
    if action == ASSIGN:
        notice, n = "tasks_assigned", tasks.assign_tasks(**change, people=people)
    elif action == EVERYBODY:
        notice, n = "tasks_for_everybody", tasks.assign_tasks(**change, people=[])
    elif action == PRIORITY:
        notice, n = "tasks_prioritised", tasks.set_priority(**change, priority=data["priority"])
    elif action == WITHDRAW:
        notice, n = "tasks_withdrawn", tasks.withdraw_tasks(**change, reason=data["reason"])
    else:
        notice, n = "tasks_restored", tasks.restore_tasks(**change)
    return render_notice(notice, n=n, names=", ".join(map(str, people)), priority=data["priority"])


def show_tasks(
    request: HttpRequest, template: str, form: ChangeForm, context: dict[str, Any]
) -> HttpResponse:
    """The page with the form, on which what was chosen stays chosen where it was refused."""
    chosen_tasks = {parse_int(task_id) for task_id in request.POST.getlist("tasks")}
    context |= {"form": form, "chosen_tasks": chosen_tasks}
    return render(request, template, context, status=422 if form.is_bound else 200)


def item_row(item: BatchItem, batch: Batch) -> dict[str, Any]:
    return {
        "task": item.task,
        "prompt": item.task.response.prompt,
        "dimension": dimension_label(batch.guideline.document, item.task.stratum.dimension),
        "on": [(assignment.person, describe_assignment(assignment)) for assignment in item.assignments],
        "planned": [membership.person for membership in item.planned],
    }


def need_row(need: Need, batch: Batch) -> dict[str, Any]:
    dimension = dimension_label(batch.guideline.document, need.task.stratum.dimension)
    return {
        "task": need.task,
        "prompt": need.task.response.prompt,
        "dimension": dimension,
        "role": need.role,
        "obstacles": [
            describe_obstacle(obstacle, dimension, need.task.stratum.language) for obstacle in need.whys
        ],
    }


def describe_assignment(assignment: Assignment) -> str:
    """What a person did on an item; never what they said of it."""
    if assignment.skip_reason:
        return _("skipped it")
    if assignment.state == Assignment.State.CLAIMED:
        return _("decides it now") if assignment.is_adjudication else _("holds it")
    if assignment.state == Assignment.State.SUBMITTED:
        if hasattr(assignment, "imported"):
            return _("decided it, imported") if assignment.is_adjudication else _("labelled it, imported")
        return _("decided it") if assignment.is_adjudication else _("labelled it")
    return _("gave it back")
