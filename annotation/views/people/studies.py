"""The studies that a person may see: where they choose one, and where an admin makes one."""

from __future__ import annotations

from collections import Counter

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.http import build_study_url
from annotation.core.study_scope import limit_to_studies
from annotation.domain.permissions import DELETE_STUDY, MAKE_STUDY, NAME_STUDY, ROLES
from annotation.forms.people.people import StudyForm, TitleForm
from annotation.models import Person, Study
from annotation.selectors.access import list_archived_studies, list_visible_studies, roles_of
from annotation.selectors.people import get_account
from annotation.selectors.studies import find_study
from annotation.selectors.studies.deletion import list_deletions
from annotation.services.studies import create_study, set_title
from annotation.views.access import act_required, may, person_of, post_form
from annotation.views.people.waiting import build_label, describe_waiting, list_waiting


@require_GET
@never_cache
def studies(request: HttpRequest) -> HttpResponse:
    """Within a study it leads out of it: this page is about all of them."""
    if getattr(request, "study_name", None) is not None:
        return redirect("/studies/")
    return show_studies(request)


@act_required(MAKE_STUDY)
@post_form("studies")
def study_new(request: HttpRequest) -> HttpResponse:
    form = StudyForm(request.POST)
    if form.is_valid():
        data = form.cleaned_data
        try:
            managers = [get_account(name) for name in data["managers"]]
        except AssayError as error:
            form.add_error("managers", error_text(error))
            return show_studies(request, form)
        try:
            study = create_study(
                name=data["name"], title=data["title"], managers=managers, actor=person_of(request)
            )
        except AssayError as error:
            form.add_error("name", error_text(error))
        else:
            return redirect(build_study_url(study.name))
    return show_studies(request, form)


@act_required(NAME_STUDY)
@post_form("people")
def study_title(request: HttpRequest) -> HttpResponse:
    """Set the title of the study that the request is about."""
    study, form = find_study(), TitleForm(request.POST)
    if study is not None and form.is_valid():
        set_title(study=study, title=form.cleaned_data["title"], actor=person_of(request))
    return redirect("people")


def show_studies(request: HttpRequest, form: StudyForm | None = None) -> HttpResponse:
    """With what waits for the person in all of the studies."""
    person = person_of(request)
    visible, archived = list_visible_studies(person), list_archived_studies(person)
    shows_archived = "archived" in request.GET
    studies = {pk: name for pk, name in visible.items() if (pk in archived) == shows_archived}
    titles = dict(Study.objects.filter(pk__in=studies).values_list("pk", "title"))
    labels = {study: build_label(name, titles[study]) for study, name in studies.items()}
    with limit_to_studies(studies):
        lines = list_waiting(person)
        context = describe_waiting(lines, person, labels)
    counts = Counter(line.study for line in lines)
    context |= {
        "rows": [(label, list_roles_in(person, study), counts[study]) for study, label in labels.items()],
        "form": form or StudyForm(),
        "shows_archived": shows_archived,
        "has_archived": bool(archived),
        "has_certificates": may(person, DELETE_STUDY) and list_deletions().exists(),
    }
    return render(request, "annotation/studies/list.html", context, status=200 if form is None else 422)


def list_roles_in(person: Person, study: int) -> list[str]:
    with limit_to_studies([study]):
        roles = roles_of(person)
    return [role for role in ROLES if role in roles]
