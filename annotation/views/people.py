"""People, their groups, passwords and tokens; for managers. An admin's account is an admin's business."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from rest_framework.authtoken.models import Token

from annotation.errors import AssayError
from annotation.forms.people import (
    ROLE_CHOICES,
    LanguagesForm,
    NameForm,
    NewPasswordForm,
    OwnModelsForm,
    PersonForm,
    RolesForm,
)
from annotation.models import MANAGER, EvaluatedModel, Person
from annotation.selectors.blindness import unsealed_models
from annotation.selectors.corpus import languages_of_prompts
from annotation.selectors.people import consequences, everybody, memberships_of, person_named
from annotation.services import people as services
from annotation.views.access import person_of, role_required
from annotation.views.crumbs import trail
from annotation.wording import error_text

PAGE = 100


@require_GET
@role_required(MANAGER)
def people(request: HttpRequest) -> HttpResponse:
    page = Paginator(everybody(), PAGE).get_page(request.GET.get("page"))
    return render(request, "annotation/people/list.html", {"page": page})


@require_http_methods(["GET", "POST"])
@role_required(MANAGER)
def person_new(request: HttpRequest) -> HttpResponse:
    form = PersonForm(request.POST or None)
    if form.is_valid():
        data = form.cleaned_data
        try:
            made = services.add_person(
                name=data["name"],
                roles=data["roles"],
                password=data["password"] or None,
                display_name=data["display_name"],
                actor=person_of(request),
            )
        except AssayError as error:
            form.add_error("name", error_text(error))
        else:
            messages.success(request, _("{name} is there now.").format(name=made))
            return redirect("person", made.username)
    context = {"form": form, "crumbs": trail((_("People"), "people", []), here=_("New person"))}
    return render(request, "annotation/people/new.html", context, status=422 if form.is_bound else 200)


@require_GET
@role_required(MANAGER)
def person(request: HttpRequest, username: str) -> HttpResponse:
    return _show(request, person_named(username))


@require_POST
@role_required(MANAGER)
def person_roles(request: HttpRequest, username: str) -> HttpResponse:
    found, form = person_named(username), RolesForm(request.POST)
    if not form.is_valid():
        return _show(request, found, roles_form=form)
    services.set_roles(person=found, roles=form.cleaned_data["roles"], actor=person_of(request))
    messages.success(request, _("The groups of {name} are changed.").format(name=found))
    return redirect("person", username)


@require_POST
@role_required(MANAGER)
def person_name(request: HttpRequest, username: str) -> HttpResponse:
    found, form = person_named(username), NameForm(request.POST)
    if not form.is_valid():
        return _show(request, found, name_form=form)
    services.set_display_name(actor=person_of(request), person=found, **form.cleaned_data)
    return redirect("person", username)


@require_POST
@role_required(MANAGER)
def person_languages(request: HttpRequest, username: str) -> HttpResponse:
    found = person_named(username)
    form = LanguagesForm(request.POST, given=found.languages, known=languages_of_prompts())
    if not form.is_valid():
        return _show(request, found, languages_form=form)
    services.set_languages(person=found, languages=form.tags(), actor=person_of(request))
    found.refresh_from_db(fields=["languages"])
    words = (
        _("{name} is given items in {languages} from now on.")
        if found.languages
        else _("{name} is given items in every language from now on.")
    )
    messages.success(request, words.format(name=found, languages=", ".join(found.languages)))
    return redirect("person", username)


@require_POST
@role_required(MANAGER)
def person_models(request: HttpRequest, username: str) -> HttpResponse:
    found, shown = person_named(username), list(unsealed_models(person_of(request)))
    form = OwnModelsForm(request.POST, person=found, shown=shown)
    if not form.is_valid():
        return _show(request, found, models_form=form)
    services.set_own_models(
        person=found, models=form.cleaned_data["models"], among=shown, actor=person_of(request)
    )
    messages.success(request, _("The own models of {name} are changed.").format(name=found))
    return redirect("person", username)


@require_POST
@role_required(MANAGER)
def person_password(request: HttpRequest, username: str) -> HttpResponse:
    found = person_named(username)
    form = NewPasswordForm(request.POST, person=found)
    if not form.is_valid():
        return _show(request, found, password_form=form)
    services.set_password(person=found, password=form.cleaned_data["password"], actor=person_of(request))
    messages.success(request, _("{name} has a new password; the old sessions have ended.").format(name=found))
    return redirect("person", username)


@require_POST
@never_cache
@role_required(MANAGER)
def person_token(request: HttpRequest, username: str) -> HttpResponse:
    """Make a new token, which this answer alone shows; or end the one there is (``revoke``)."""
    found = person_named(username)
    if "revoke" in request.POST:
        services.revoke_token(person=found, actor=person_of(request))
        return redirect("person", username)
    return _show(request, found, token=services.renew_token(person=found, actor=person_of(request)))


@require_POST
@role_required(MANAGER)
def person_active(request: HttpRequest, username: str) -> HttpResponse:
    """Deactivate the person (``active=0``) or activate them again (``active=1``)."""
    found, actor = person_named(username), person_of(request)
    if request.POST.get("active") == "1":
        services.activate_person(person=found, actor=actor)
        messages.success(request, _("{name} can sign in again.").format(name=found))
        return redirect("person", username)
    released = services.deactivate_person(person=found, actor=actor)
    words = ngettext(
        "{name} is deactivated; {n} item at hand went back.",
        "{name} is deactivated; {n} items at hand went back.",
        released,
    )
    messages.success(request, words.format(name=found, n=released))
    return redirect("person", username)


def _show(request: HttpRequest, found: Person, **given: Any) -> HttpResponse:
    """The person's page, with a form as it was sent where that had errors, or with a new token."""
    reader = person_of(request)
    shown = list(unsealed_models(reader))
    context = {
        "person": found,
        "crumbs": trail((_("People"), "people", []), here=str(found)),
        "languages_form": LanguagesForm(given=found.languages, known=languages_of_prompts()),
        "models_form": OwnModelsForm(person=found, shown=shown),
        "some_sealed": len(shown) < EvaluatedModel.objects.count(),
        "consequences": consequences(found, reader=reader),
        "memberships": memberships_of(found),
        "has_token": Token.objects.filter(user=found).exists(),
        "roles_form": RolesForm(initial={"roles": _roles(found)}),
        "name_form": NameForm(initial={"display_name": found.display_name}),
        "password_form": NewPasswordForm(person=found),
        "above": found.is_superuser and not reader.is_superuser,
        "self": found == reader,
    }
    failed = any(isinstance(value, forms.Form) for value in given.values())
    return render(request, "annotation/people/person.html", context | given, status=422 if failed else 200)


def _roles(found: Person) -> list[str]:
    have = set(found.groups.values_list("name", flat=True))
    return [role for role, _label in ROLE_CHOICES if role in have]
