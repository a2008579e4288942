"""Erasing a person: what goes and what stays, and the act itself; for admins."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.http import breadcrumbs
from annotation.domain.permissions import ERASE_PEOPLE
from annotation.forms.people.people import ErasureForm
from annotation.models import Person
from annotation.selectors.audit.erasure import ErasurePart, preview_erasure
from annotation.selectors.people import get_person
from annotation.services.people.erasure import check_erasure, erase_person
from annotation.views.access import act_required, person_of
from annotation.views.notices import add_notice


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(ERASE_PEOPLE)
def person_erasure(request: HttpRequest, username: str) -> HttpResponse:
    """Ask before somebody is erased, with the name typed once more; a POST erases them and shows the pseudonym."""
    person, actor = get_person(username), person_of(request)
    refusal = find_refusal(person, actor)
    form = ErasureForm(request.POST if request.method == "POST" else None, person=person)
    if not refusal and form.is_valid():
        pseudonym = erase_person(person=person, actor=actor)
        add_notice(request, "person_erased", name=pseudonym)
        return redirect("person", pseudonym)
    preview = preview_erasure(person)
    context = {
        "person": person,
        "form": form,
        "refusal": refusal,
        "goes": describe_parts(preview.goes),
        "stays": describe_parts(preview.stays),
        "exports": preview.exports,
        "crumbs": breadcrumbs(
            (_("Members"), "people", []), (str(person), "person", [username]), title=_("Erasure")
        ),
    }
    status = 409 if refusal and form.is_bound else 422 if form.is_bound else 200
    return render(request, "annotation/people/erasure.html", context, status=status)


def find_refusal(person: Person, actor: Person) -> str:
    """Why ``actor`` cannot erase the person; empty where they can."""
    try:
        check_erasure(person=person, actor=actor)
    except AssayError as error:
        return error_text(error)
    return ""


def describe_parts(parts: tuple[ErasurePart, ...]) -> list[tuple[str, int]]:
    """In the reader's language, without what there is none of."""
    return [(_(part.label), part.number) for part in parts if part.number]
