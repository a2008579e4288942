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
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.formatting import format_duration, format_interval_percent, format_percent
from annotation.core.http import breadcrumbs, build_site_url
from annotation.core.study_scope import get_study_scope
from annotation.domain.permissions import ERASE_PEOPLE, MANAGE_PEOPLE
from annotation.domain.verbs import AnnotationVerb
from annotation.forms.people.people import (
    ROLE_CHOICES,
    FindPeopleForm,
    LanguagesForm,
    MemberForm,
    NameForm,
    OwnModelsForm,
    PersonForm,
    RolesForm,
    TitleForm,
)
from annotation.forms.wellbeing import ExposureForm
from annotation.models import Batch, Person
from annotation.selectors.access import (
    is_of_others,
    record_openings,
    sealed_batches,
    select_models,
    unsealed_models,
)
from annotation.selectors.batches import list_readable_batches
from annotation.selectors.batches.members import LeavingEffect, list_parts, list_workloads, preview_leaving
from annotation.selectors.datasets import list_prompt_languages
from annotation.selectors.guidelines import topic_labels
from annotation.selectors.people import (
    get_person,
    list_factors,
    list_people,
    list_recent_setup_links,
    list_restrictions,
    list_sessions,
    list_sign_ins,
    list_tokens,
)
from annotation.selectors.quality import (
    MAX_READ,
    AdjudicatorSummary,
    AnnotatorSummary,
    EqualShare,
    summarize_adjudicator,
    summarize_annotator,
)
from annotation.selectors.studies import find_study
from annotation.services.audit import record_view
from annotation.services.people import people as services
from annotation.services.people.providers import list_provider_accounts
from annotation.services.people.setup_links import make_setup_link, revoke_setup_link
from annotation.services.people.tokens import revoke_token
from annotation.views.access import act_required, may, person_of, post_form
from annotation.views.notices import add_notice, render_notice
from annotation.views.people.providers import ProviderLinkForm

PAGE = 100


@require_GET
@act_required(MANAGE_PEOPLE)
def people(request: HttpRequest) -> HttpResponse:
    """Everybody with what they have to do; a search by name, a filter by group."""
    reader, filters, study = person_of(request), FindPeopleForm(request.GET), find_study()
    words, role = filters.parse_search()
    page = Paginator(list_people(words, role), PAGE).get_page(request.GET.get("page"))
    page_people = list(page.object_list)
    loads = list_workloads(page_people, reader=reader)
    context = {
        "page": page,
        "rows": [(person, list_role_names(person), loads[person.pk]) for person in page_people],
        "filters": filters,
        "filtered": bool(words or role),
        "query": urlencode({name: value for name, value in (("words", words), ("role", role)) if value}),
        "some_sealed": sealed_batches(reader).exists(),
        "title_form": TitleForm(initial={"title": study.title if study else ""}),
        "study": study,
    }
    return render(request, "annotation/people/list.html", context)


def list_role_names(person: Person) -> list[str]:
    """The person's roles in the studies of the request, and that they are an admin."""
    return ["admin"] * person.is_superuser + list_roles(person)


@act_required(MANAGE_PEOPLE)
@post_form("person-new")
def person_add(request: HttpRequest) -> HttpResponse:
    """Take somebody into the study who has an account on the site."""
    form = MemberForm(request.POST, auto_id="member_%s")
    if form.is_valid():
        try:
            member = services.add_member(**form.cleaned_data, actor=person_of(request))
        except AssayError as error:
            form.add_error("username", error_text(error))
        else:
            add_notice(request, "roles_changed", name=member)
            return redirect("person", member.username)
    return show_new_person(request, member_form=form, status=422)


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(MANAGE_PEOPLE)
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
            add_notice(request, "person_added", name=made)
            return show_setup_link(request, made)
    return show_new_person(request, form=form, status=422 if form.is_bound else 200)


def show_new_person(request: HttpRequest, *, status: int, **forms: Any) -> HttpResponse:
    context = {
        "form": PersonForm(),
        "member_form": MemberForm(auto_id="member_%s"),
        "crumbs": breadcrumbs((_("Members"), "people", []), title=_("New person")),
    }
    return render(request, "annotation/people/new.html", context | forms, status=status)


@require_GET
@act_required(MANAGE_PEOPLE)
def person(request: HttpRequest, username: str) -> HttpResponse:
    member, reader = get_person(username), person_of(request)
    if member != reader:
        record_view(actor=reader, verb=AnnotationVerb.VIEW_WORK, target=f"person:{username}")
    return show_person(request, member)


@act_required(MANAGE_PEOPLE)
@post_form("person")
def person_roles(request: HttpRequest, username: str) -> HttpResponse:
    member, form = get_person(username), RolesForm(request.POST)
    if not form.is_valid():
        return show_person(request, member, roles_form=form)
    services.set_roles(person=member, roles=form.cleaned_data["roles"], actor=person_of(request))
    add_notice(request, "roles_changed", name=member)
    return redirect("person", username)


@act_required(MANAGE_PEOPLE)
@post_form("person")
def person_name(request: HttpRequest, username: str) -> HttpResponse:
    member, form = get_person(username), NameForm(request.POST)
    if not form.is_valid():
        return show_person(request, member, name_form=form)
    services.set_display_name(actor=person_of(request), person=member, **form.cleaned_data)
    return redirect("person", username)


@act_required(MANAGE_PEOPLE)
@post_form("person")
def person_languages(request: HttpRequest, username: str) -> HttpResponse:
    member = get_person(username)
    form = LanguagesForm(request.POST, selected=member.languages, known=list_prompt_languages())
    if not form.is_valid():
        return show_person(request, member, languages_form=form)
    services.set_languages(person=member, languages=form.tags(), actor=person_of(request))
    member.refresh_from_db(fields=["languages"])
    notice = "languages_set" if member.languages else "languages_open"
    add_notice(request, notice, name=member, languages=", ".join(member.languages))
    return redirect("person", username)


@act_required(MANAGE_PEOPLE)
@post_form("person")
def person_models(request: HttpRequest, username: str) -> HttpResponse:
    member, open_models = get_person(username), list(unsealed_models(person_of(request)))
    form = OwnModelsForm(request.POST, person=member, open_models=open_models)
    if not form.is_valid():
        return show_person(request, member, models_form=form)
    services.set_own_models(
        person=member, models=form.cleaned_data["models"], visible=open_models, actor=person_of(request)
    )
    add_notice(request, "own_models_changed", name=member)
    return redirect("person", username)


@never_cache
@act_required(MANAGE_PEOPLE)
@post_form("person")
def person_link(request: HttpRequest, username: str) -> HttpResponse:
    """Make a link by which the person sets their own password; this answer alone shows it."""
    return show_setup_link(request, get_person(username))


@require_POST
@act_required(MANAGE_PEOPLE)
def person_link_revoke(request: HttpRequest, username: str, link_id: int) -> HttpResponse:
    revoke_setup_link(link_id=link_id, person=get_person(username), actor=person_of(request))
    messages.success(request, _("The link is withdrawn: it opens nothing any more."))
    return redirect("person", username)


@require_POST
@act_required(MANAGE_PEOPLE)
def person_token_revoke(request: HttpRequest, username: str, token_id: int) -> HttpResponse:
    """End a token of somebody's; nobody but them makes one or reads it."""
    token = revoke_token(token_id=token_id, person=get_person(username), actor=person_of(request))
    add_notice(request, "token_ended", name=token.name)
    return redirect("person", username)


@act_required(MANAGE_PEOPLE)
@post_form("person")
def person_exposure(request: HttpRequest, username: str) -> HttpResponse:
    member = get_person(username)
    form = ExposureForm(request.POST, person=member)
    if not form.is_valid():
        return show_person(request, member, exposure_form=form)
    services.set_daily_exposure(person=member, actor=person_of(request), **form.cleaned_data)
    add_notice(request, "daily_exposure_set", name=member)
    return redirect("person", username)


@require_GET
@act_required(MANAGE_PEOPLE)
def person_leaving(request: HttpRequest, username: str) -> HttpResponse:
    """Asks before somebody is deactivated, and says what becomes of their work."""
    member, reader = get_person(username), person_of(request)
    parts = preview_leaving(member, reader=reader)
    context = {
        "person": member,
        "parts": parts,
        "live": sum(part.live or 0 for part in parts),
        "planned": sum(part.planned or 0 for part in parts),
        "may": member.is_active and member != reader and not is_above(member, reader),
        "crumbs": breadcrumbs(
            (_("Members"), "people", []), (str(member), "person", [username]), title=_("Deactivate")
        ),
    }
    return render(request, "annotation/people/leaving.html", context)


@require_POST
@act_required(MANAGE_PEOPLE)
def person_active(request: HttpRequest, username: str) -> HttpResponse:
    """Deactivate the person (``active=0``) or activate them again (``active=1``)."""
    member, actor = get_person(username), person_of(request)
    if request.POST.get("active") == "1":
        services.activate_person(person=member, actor=actor)
        add_notice(request, "person_activated", name=member)
        return redirect("person", username)
    before = preview_leaving(member, reader=actor)
    released = services.deactivate_person(person=member, actor=actor)
    notice = render_notice("person_deactivated", name=member, n=released)
    planned = describe_planned(before, preview_leaving(member, reader=actor))
    messages.success(request, " ".join([notice, *planned]))
    return redirect("person", username)


def describe_planned(before: Sequence[LeavingEffect], after: Sequence[LeavingEffect]) -> list[str]:
    """What became of the plan. Items that were at hand were planned for the person, too, where anything was."""
    planned_before = sum(part.planned + (part.live or 0) for part in before if part.planned is not None)
    unassigned = sum(part.planned or 0 for part in after)
    notices = []
    if planned_before > unassigned:
        notices.append(render_notice("planned_for_others", n=planned_before - unassigned))
    if unassigned:
        notices.append(render_notice("nobody_else", n=unassigned))
    return notices


def is_above(person: Person, reader: Person) -> bool:
    """Whether the account of the person is beyond the reader's power."""
    if reader.is_superuser or person == reader:
        return False
    return person.is_superuser or is_of_others(person, reader)


def show_setup_link(request: HttpRequest, person: Person) -> HttpResponse:
    link, secret = make_setup_link(person=person, actor=person_of(request))
    address = build_site_url(request, "set-up", secret)
    return show_person(request, person, link=link, address=address)


def show_person(request: HttpRequest, person: Person, **changes: Any) -> HttpResponse:
    """The person's page, with a form as it was sent where that had errors, or with a new link."""
    reader = person_of(request)
    open_models = list(unsealed_models(reader))
    context = {
        "person": person,
        "crumbs": breadcrumbs((_("Members"), "people", []), title=str(person)),
        "languages_form": LanguagesForm(selected=person.languages, known=list_prompt_languages()),
        "models_form": OwnModelsForm(person=person, open_models=open_models),
        "some_sealed": len(open_models) < select_models().count(),
        "consequences": list_restrictions(person, reader=reader),
        **work_context(person, reader),
        "tokens": list_tokens(person),
        "setup_links": list_recent_setup_links(person),
        "roles_form": RolesForm(initial={"roles": list_roles(person)}),
        "name_form": NameForm(initial={"display_name": person.display_name}),
        "sign_ins": list_sign_ins(person),
        "exposure_form": ExposureForm(person=person),
        "topics": [label for name, label in topic_labels(person).items() if name in person.opted_out],
        "above": is_above(person, reader) or person.erased_at is not None,
        "may_erase": person.erased_at is None and person != reader and may(reader, ERASE_PEOPLE),
        "is_admin_to_reader": person.is_superuser and is_above(person, reader),
        "self": person == reader,
        **sign_in_context(person, reader),
    }
    failed = any(isinstance(value, forms.Form) for value in changes.values())
    return render(request, "annotation/people/person.html", context | changes, status=422 if failed else 200)


def sign_in_context(person: Person, reader: Person) -> dict[str, Any]:
    """What only an admin sees and changes: sessions, second factors, accounts at providers."""
    if not reader.is_superuser:
        return {}
    accounts = list_provider_accounts(person)
    return {
        "manages_sign_ins": True,
        "sessions": list_sessions(person),
        "factors": list_factors(person),
        "provider_accounts": accounts,
        "provider_form": ProviderLinkForm(auto_id="provider_%s") if accounts else None,
    }


def list_roles(person: Person) -> list[str]:
    studies = get_study_scope()
    roles = {
        membership.role
        for membership in person.study_memberships.all()
        if studies is None or membership.study_id in studies
    }
    return [role for role, _label in ROLE_CHOICES if role in roles]


def work_context(person: Person, reader: Person) -> dict[str, Any]:
    """What the person does in each batch, and how well where the reader may read that."""
    parts = list_parts(person, reader=reader)
    batches = {batch_part.batch_id: batch_part.batch for batch_part, _counts in parts}
    readable = set(list_readable_batches(reader).filter(pk__in=batches).values_list("pk", flat=True))
    record_openings(reader, readable)
    quality, decisions = summarize_annotator(person, readable), summarize_adjudicator(person, readable)
    return {
        "parts": parts,
        "some_unread": len(readable) < len(batches),
        "quality": [quality_row(batch, quality[pk]) for pk, batch in batches.items() if pk in quality],
        "decisions": [
            decisions_row(batch, decisions[pk]) for pk, batch in batches.items() if pk in decisions
        ],
        "most_read": MAX_READ,
    }


def quality_row(batch: Batch, quality: AnnotatorSummary) -> dict[str, Any]:
    return {
        "batch": batch,
        "items": quality.items,
        "final": share_words(quality.final),
        "partners": share_words(quality.partners),
        "time": format_duration(quality.median_seconds),
    }


def decisions_row(batch: Batch, decisions: AdjudicatorSummary) -> dict[str, Any]:
    return {
        "batch": batch,
        "n": decisions.n,
        "judged": decisions.confirmed.n,
        "changed": decisions.changed,
        "share": format_percent(decisions.changed / decisions.confirmed.n) if decisions.confirmed.n else "",
        "time": format_duration(decisions.median_seconds),
    }


def share_words(share: EqualShare) -> dict[str, Any] | None:
    """None where nothing can be compared."""
    if share.value is None or share.interval is None:
        return None
    low, high = share.interval
    return {
        "value": format_percent(share.value),
        "interval": format_interval_percent(low, high),
        "n": share.n,
    }
