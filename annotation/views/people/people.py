"""People, their groups, set-up links and tokens; for managers. An admin's account is an admin's business."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.formatting import format_duration, format_interval_percent, format_percent
from annotation.core.http import trail
from annotation.forms.people import (
    ROLE_CHOICES,
    FindPeopleForm,
    LanguagesForm,
    NameForm,
    OwnModelsForm,
    PersonForm,
    RolesForm,
)
from annotation.forms.wellbeing import ExposureForm
from annotation.models import MANAGER, Batch, EvaluatedModel, Person
from annotation.selectors.access import record_openings, sealed_batches, unsealed_models
from annotation.selectors.batches import readable_batches
from annotation.selectors.batches.members import Leaving, leaving, parts_of, workloads
from annotation.selectors.datasets import languages_of_prompts
from annotation.selectors.guidelines import topic_labels
from annotation.selectors.people import (
    consequences,
    everybody,
    lately,
    list_sign_ins,
    list_tokens,
    person_named,
)
from annotation.selectors.quality import MOST_READ, Decisions, Quality, Share, decisions_of, quality_of
from annotation.services.people import people as services
from annotation.services.people.setup_links import make_setup_link, revoke_setup_link
from annotation.services.people.tokens import revoke_token
from annotation.views.access import form_of, person_of, role_required

PAGE = 100


@require_GET
@role_required(MANAGER)
def people(request: HttpRequest) -> HttpResponse:
    """Everybody with what they have to do; a search by name, a filter by group."""
    reader, filters = person_of(request), FindPeopleForm(request.GET)
    words, role = filters.wanted()
    page = Paginator(everybody(words, role), PAGE).get_page(request.GET.get("page"))
    shown = list(page.object_list)
    loads = workloads(shown, reader=reader)
    context = {
        "page": page,
        "lines": [(person, _role_names(person), loads[person.pk]) for person in shown],
        "filters": filters,
        "filtered": bool(words or role),
        "query": urlencode({name: value for name, value in (("words", words), ("role", role)) if value}),
        "some_sealed": sealed_batches(reader).exists(),
    }
    return render(request, "annotation/people/list.html", context)


def _role_names(person: Person) -> list[str]:
    """The person's groups; an admin is none of them."""
    return ["admin"] * person.is_superuser + [group.name for group in person.groups.all()]


@require_http_methods(["GET", "POST"])
@never_cache
@role_required(MANAGER)
def person_new(request: HttpRequest) -> HttpResponse:
    form = PersonForm(request.POST or None)
    if form.is_valid():
        data = form.cleaned_data
        try:
            made = services.add_person(
                name=data["name"],
                roles=data["roles"],
                display_name=data["display_name"],
                actor=person_of(request),
            )
        except AssayError as error:
            form.add_error("name", error_text(error))
        else:
            messages.success(request, _("{name} is there now.").format(name=made))
            return _show_link(request, made)
    context = {"form": form, "crumbs": trail((_("People"), "people", []), here=_("New person"))}
    return render(request, "annotation/people/new.html", context, status=422 if form.is_bound else 200)


@require_GET
@role_required(MANAGER)
def person(request: HttpRequest, username: str) -> HttpResponse:
    return _show(request, person_named(username))


@role_required(MANAGER)
@form_of("person")
def person_roles(request: HttpRequest, username: str) -> HttpResponse:
    found, form = person_named(username), RolesForm(request.POST)
    if not form.is_valid():
        return _show(request, found, roles_form=form)
    services.set_roles(person=found, roles=form.cleaned_data["roles"], actor=person_of(request))
    messages.success(request, _("The groups of {name} are changed.").format(name=found))
    return redirect("person", username)


@role_required(MANAGER)
@form_of("person")
def person_name(request: HttpRequest, username: str) -> HttpResponse:
    found, form = person_named(username), NameForm(request.POST)
    if not form.is_valid():
        return _show(request, found, name_form=form)
    services.set_display_name(actor=person_of(request), person=found, **form.cleaned_data)
    return redirect("person", username)


@role_required(MANAGER)
@form_of("person")
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


@role_required(MANAGER)
@form_of("person")
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


@never_cache
@role_required(MANAGER)
@form_of("person")
def person_link(request: HttpRequest, username: str) -> HttpResponse:
    """Make a link by which the person sets their own password; this answer alone shows it."""
    return _show_link(request, person_named(username))


@require_POST
@role_required(MANAGER)
def person_link_revoke(request: HttpRequest, username: str, link_id: int) -> HttpResponse:
    revoke_setup_link(link_id=link_id, person=person_named(username), actor=person_of(request))
    messages.success(request, _("The link is withdrawn: it opens nothing any more."))
    return redirect("person", username)


@require_POST
@role_required(MANAGER)
def person_token_revoke(request: HttpRequest, username: str, token_id: int) -> HttpResponse:
    """End a token of somebody's; nobody but them makes one or reads it."""
    token = revoke_token(token_id=token_id, person=person_named(username), actor=person_of(request))
    messages.success(request, _("The token {name} has ended.").format(name=token.name))
    return redirect("person", username)


@role_required(MANAGER)
@form_of("person")
def person_exposure(request: HttpRequest, username: str) -> HttpResponse:
    found = person_named(username)
    form = ExposureForm(request.POST, person=found)
    if not form.is_valid():
        return _show(request, found, exposure_form=form)
    services.set_daily_exposure(person=found, actor=person_of(request), **form.cleaned_data)
    messages.success(request, _("The reading budget of {name} is set.").format(name=found))
    return redirect("person", username)


@require_GET
@role_required(MANAGER)
def person_leaving(request: HttpRequest, username: str) -> HttpResponse:
    """Asks before somebody is deactivated, and says what becomes of their work."""
    found, reader = person_named(username), person_of(request)
    parts = leaving(found, reader=reader)
    context = {
        "person": found,
        "parts": parts,
        "live": sum(part.live or 0 for part in parts),
        "planned": sum(part.planned or 0 for part in parts),
        "may": found.is_active and found != reader and not _is_above(found, reader),
        "crumbs": trail(
            (_("People"), "people", []), (str(found), "person", [username]), here=_("Deactivate")
        ),
    }
    return render(request, "annotation/people/leaving.html", context)


@require_POST
@role_required(MANAGER)
def person_active(request: HttpRequest, username: str) -> HttpResponse:
    """Deactivate the person (``active=0``) or activate them again (``active=1``)."""
    found, actor = person_named(username), person_of(request)
    if request.POST.get("active") == "1":
        services.activate_person(person=found, actor=actor)
        messages.success(request, _("{name} can sign in again.").format(name=found))
        return redirect("person", username)
    before = leaving(found, reader=actor)
    released = services.deactivate_person(person=found, actor=actor)
    words = ngettext(
        "{name} is deactivated; {n} item at hand went back.",
        "{name} is deactivated; {n} items at hand went back.",
        released,
    ).format(name=found, n=released)
    planned = _planned_words(before, leaving(found, reader=actor))
    messages.success(request, " ".join([words, *planned]))
    return redirect("person", username)


def _planned_words(before: Sequence[Leaving], after: Sequence[Leaving]) -> list[str]:
    """What became of the plan. Items that were at hand were planned for the person, too, where anything was."""
    theirs = sum(one.planned + (one.live or 0) for one in before if one.planned is not None)
    stay = sum(one.planned or 0 for one in after)
    words = []
    if theirs > stay:
        given = theirs - stay
        words.append(
            ngettext(
                "{n} item is planned for others now.", "{n} items are planned for others now.", given
            ).format(n=given)
        )
    if stay:
        words.append(
            ngettext(
                "For {n} item there is nobody else.", "For {n} items there is nobody else.", stay
            ).format(n=stay)
        )
    return words


def _is_above(found: Person, reader: Person) -> bool:
    return found.is_superuser and not reader.is_superuser


def _show_link(request: HttpRequest, found: Person) -> HttpResponse:
    link, secret = make_setup_link(person=found, actor=person_of(request))
    address = request.build_absolute_uri(reverse("set-up", args=[secret]))
    return _show(request, found, link=link, address=address)


def _show(request: HttpRequest, found: Person, **given: Any) -> HttpResponse:
    """The person's page, with a form as it was sent where that had errors, or with a new link."""
    reader = person_of(request)
    shown = list(unsealed_models(reader))
    context = {
        "person": found,
        "crumbs": trail((_("People"), "people", []), here=str(found)),
        "languages_form": LanguagesForm(given=found.languages, known=languages_of_prompts()),
        "models_form": OwnModelsForm(person=found, shown=shown),
        "some_sealed": len(shown) < EvaluatedModel.objects.count(),
        "consequences": consequences(found, reader=reader),
        **_work(found, reader),
        "tokens": list_tokens(found),
        "setup_links": lately(found),
        "roles_form": RolesForm(initial={"roles": _roles(found)}),
        "name_form": NameForm(initial={"display_name": found.display_name}),
        "sign_ins": list_sign_ins(found),
        "exposure_form": ExposureForm(person=found),
        "topics": [label for name, label in topic_labels(found).items() if name in found.opted_out],
        "above": _is_above(found, reader),
        "self": found == reader,
    }
    failed = any(isinstance(value, forms.Form) for value in given.values())
    return render(request, "annotation/people/person.html", context | given, status=422 if failed else 200)


def _roles(found: Person) -> list[str]:
    have = set(found.groups.values_list("name", flat=True))
    return [role for role, _label in ROLE_CHOICES if role in have]


def _work(found: Person, reader: Person) -> dict[str, Any]:
    """What the person does in each batch, and how well where the reader may read that."""
    parts = parts_of(found, reader=reader)
    batches = {one.batch_id: one.batch for one, _counts in parts}
    readable = set(readable_batches(reader).filter(pk__in=batches).values_list("pk", flat=True))
    record_openings(reader, readable)
    quality, decisions = quality_of(found, readable), decisions_of(found, readable)
    return {
        "parts": parts,
        "some_unread": len(readable) < len(batches),
        "quality": [_quality(batch, quality[pk]) for pk, batch in batches.items() if pk in quality],
        "decisions": [_decided(batch, decisions[pk]) for pk, batch in batches.items() if pk in decisions],
        "most_read": MOST_READ,
    }


def _quality(batch: Batch, one: Quality) -> dict[str, Any]:
    return {
        "batch": batch,
        "items": one.items,
        "final": _share(one.final),
        "partners": _share(one.partners),
        "time": format_duration(one.median_seconds),
    }


def _decided(batch: Batch, one: Decisions) -> dict[str, Any]:
    return {
        "batch": batch,
        "n": one.n,
        "judged": one.kept.n,
        "changed": one.changed,
        "share": format_percent(one.changed / one.kept.n) if one.kept.n else "",
        "time": format_duration(one.median_seconds),
    }


def _share(share: Share) -> dict[str, Any] | None:
    """None where nothing can be compared."""
    if share.value is None or share.interval is None:
        return None
    low, high = share.interval
    return {
        "value": format_percent(share.value),
        "interval": format_interval_percent(low, high),
        "n": share.n,
    }
