"""Where a person lands: at what they do next."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET

from annotation.models import ADJUDICATOR, ANNOTATOR, MANAGER, RESEARCHER, Person
from annotation.selectors.access import roles_of
from annotation.selectors.batches.own_progress import list_own_batches
from annotation.selectors.people import list_people_in_role
from annotation.views.access import person_of

LANDING_PAGES = {ANNOTATOR: "work", ADJUDICATOR: "disputes", MANAGER: "batches", RESEARCHER: "releases"}


@require_GET
def home(request: HttpRequest) -> HttpResponse:
    place = find_landing_page(person_of(request))
    if place is not None:
        return redirect(place)
    return render(request, "annotation/people/home.html", {"managers": list_people_in_role(MANAGER)})


def find_landing_page(person: Person) -> str | None:
    """The first role with something to do, else the first role; None for who has none."""
    roles = set(LANDING_PAGES) if person.is_superuser else roles_of(person)
    waiting = {progress.role for progress in list_own_batches(person) if progress.left}
    # Labelling waits for a person only where something is left; managing and researching always can.
    busy = waiting | {MANAGER, RESEARCHER}
    order = [role for role in LANDING_PAGES if role in roles]
    return next((LANDING_PAGES[role] for role in [*filter(busy.__contains__, order), *order]), None)
