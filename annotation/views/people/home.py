"""Where a person lands: at what needs them now."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.core.study_scope import get_study_scope, limit_to_studies
from annotation.domain.permissions import MANAGE_BATCHES, READ_AGREEMENT
from annotation.models import ADJUDICATOR, ANNOTATOR, MANAGER, VIEWER, Person
from annotation.selectors.access import roles_of
from annotation.selectors.batches.own_progress import list_own_batches
from annotation.selectors.batches.progress import list_batch_rows
from annotation.selectors.datasets import has_responses
from annotation.selectors.overview import list_current_batches
from annotation.selectors.people import list_people_in_role
from annotation.selectors.studies import list_studies
from annotation.views.access import may, person_of
from annotation.views.people.studies import show_studies
from annotation.views.people.waiting import describe_waiting, list_waiting

LANDING_PAGES = {ANNOTATOR: "work", ADJUDICATOR: "disputes", VIEWER: "runs"}
MAX_BATCHES = 10


@require_GET
@never_cache
def home(request: HttpRequest) -> HttpResponse:
    """Managers and researchers see what needs them; annotators and adjudicators land at their work. Among several
    studies everybody sees what needs them in all of these, and chooses one.
    """
    person = person_of(request)
    if len(get_study_scope() or ()) > 1:
        return show_studies(request)
    if may(person, READ_AGREEMENT):
        return render(request, "annotation/people/overview.html", overview_context(person))
    place = find_landing_page(person)
    if place is not None:
        return redirect(place)
    with limit_to_studies(None):  # who has no role yet is of the only study, if there is one
        managers = list_people_in_role(MANAGER) if list_studies().count() == 1 else []
    return render(request, "annotation/people/home.html", {"managers": managers})


def find_landing_page(person: Person) -> str | None:
    """The first role with something to do, else the first role; None for who has none."""
    waiting = {progress.role for progress in list_own_batches(person) if progress.left}
    order = [role for role in LANDING_PAGES if role in roles_of(person)]
    return next((LANDING_PAGES[role] for role in [*filter(waiting.__contains__, order), *order]), None)


def overview_context(person: Person) -> dict[str, Any]:
    manages = may(person, MANAGE_BATCHES)
    batches = list_current_batches(limit=MAX_BATCHES) if manages else []
    return describe_waiting(list_waiting(person), person) | {
        "batches": list_batch_rows(batches, person),
        "has_responses": bool(batches) or (manages and has_responses()),
    }
