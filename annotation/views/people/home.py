"""Where a person lands: at what needs them now."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import get_language
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.models import ADJUDICATOR, ANNOTATOR, MANAGER, RESEARCHER, Person
from annotation.selectors.access import roles_of
from annotation.selectors.batches.own_progress import list_own_batches
from annotation.selectors.batches.progress import list_batch_rows
from annotation.selectors.overview import list_current_batches, list_own_jobs, list_pending_work
from annotation.selectors.people import list_people_in_role
from annotation.views.access import has_role, person_of
from annotation.views.releases.verdicts import list_unreliable

LANDING_PAGES = {ANNOTATOR: "work", ADJUDICATOR: "disputes"}
MAX_BATCHES = 10


@require_GET
@never_cache
def home(request: HttpRequest) -> HttpResponse:
    """Managers and researchers see what needs them; annotators and adjudicators land at their work."""
    person = person_of(request)
    if has_role(person, MANAGER, RESEARCHER):
        return render(request, "annotation/people/overview.html", overview_context(person))
    place = find_landing_page(person)
    if place is not None:
        return redirect(place)
    return render(request, "annotation/people/home.html", {"managers": list_people_in_role(MANAGER)})


def find_landing_page(person: Person) -> str | None:
    """The first role with something to do, else the first role; None for who has none."""
    waiting = {progress.role for progress in list_own_batches(person) if progress.left}
    order = [role for role in LANDING_PAGES if role in roles_of(person)]
    return next((LANDING_PAGES[role] for role in [*filter(waiting.__contains__, order), *order]), None)


def overview_context(person: Person) -> dict[str, Any]:
    manages = has_role(person, MANAGER)
    batches = list_current_batches(limit=MAX_BATCHES) if manages else []
    return {
        "pending": list_pending_work(person),
        "unreliable": list_unreliable(person, get_language() or "en") if has_role(person, RESEARCHER) else [],
        "jobs": list_own_jobs(person),
        "batches": list_batch_rows(batches, person),
        "manages": manages,
    }
