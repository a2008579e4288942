"""The manager's page of invitations, and the pages that an invitation's link and a set-up link open.

Whoever opens an invitation has no account yet; a set-up link is for a person who sets a password.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import redirect_to_login
from django.core.paginator import Paginator
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import pgettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import N_, AssayError, Conflict, Forbidden
from annotation.core.http import breadcrumbs, build_site_url, build_study_url
from annotation.domain.permissions import MANAGE_PEOPLE
from annotation.forms.people.people import ROLE_CHOICES, AccountForm, InvitationForm, SetupForm
from annotation.models import Invitation, Person, SetupLink, SignInSession
from annotation.selectors.access import list_visible_studies
from annotation.selectors.batches import list_unfinished_batches
from annotation.selectors.datasets import list_prompt_languages
from annotation.selectors.mail.mail import is_mail_on, list_invitation_mails
from annotation.selectors.people import (
    LinkState,
    find_invitation,
    find_setup_link,
    list_left_out,
    read_link_state,
    read_setup_link_state,
)
from annotation.selectors.people import list_invitations as all_invitations
from annotation.services.people.invitations import (
    ENDED,
    LinkEnded,
    accept_invitation,
    invite,
    join_study,
    resend_invitation,
    revoke_invitation,
)
from annotation.services.people.second_factor import has_factor
from annotation.services.people.sessions import note_method
from annotation.services.people.setup_links import ENDED as SETUP_ENDED
from annotation.services.people.setup_links import use_setup_link
from annotation.services.people.sign_ins import is_mail_too_often
from annotation.views.access import act_required, person_of
from annotation.views.demo import BACKEND
from annotation.views.notices import add_notice

PAGE = 50
# Less than the page's address: it would tell the secret. More than nothing: the form's origin is checked by it.
REFERRER_POLICY = "strict-origin"
# Waiting ones can still be withdrawn; the others are told apart by more than a colour.
BADGES = {
    LinkState.WAITING: "open",
    LinkState.ACCEPTED: "success",
    LinkState.EXPIRED: "expired",
    LinkState.REVOKED: "withdrawn",
}


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(MANAGE_PEOPLE)
def invitations(request: HttpRequest) -> HttpResponse:
    """The invitations; POST makes them, and its answer alone shows the links. ``?batch=NAME`` chooses the batch."""
    options: dict[str, Any] = {"known": list_prompt_languages(), "batches": list_unfinished_batches()}
    form = InvitationForm(request.POST or None, batch=request.GET.get("batch", ""), **options)
    context: dict[str, Any] = {}
    if form.is_valid() and form.cleaned_data.get("send") and exceeds_mails(request, form):
        form.add_error(
            "send", _("Too many mails in a day: pass these links on yourself, or send them tomorrow.")
        )
    if form.is_valid():
        try:
            made = invite_people(form, person_of(request))
        except AssayError as error:
            form.add_error(None, error_text(error))
        else:
            context = {
                "links": [
                    (invitation, build_site_url(request, "join", secret)) for invitation, secret in made
                ],
                "batch": form.cleaned_data["batch"],
                "is_sent": bool(form.cleaned_data.get("send")),
            }
            form = InvitationForm(**options)
    page = Paginator(all_invitations(), PAGE).get_page(request.GET.get("page"))
    left_out, mails = list_left_out(page.object_list), list_invitation_mails(page.object_list)
    context |= {
        "form": form,
        "page": page,
        "rows": [
            invitation_row(invitation)
            | {"left_out": invitation.pk in left_out, "mail": mails.get(invitation.pk)}
            for invitation in page.object_list
        ],
        "is_mail_on": is_mail_on(),
        "crumbs": breadcrumbs((_("Members"), "people", []), title=_("Invitations")),
    }
    return render(
        request, "annotation/people/invitations.html", context, status=422 if form.is_bound else 200
    )


@transaction.atomic
def invite_people(form: InvitationForm, actor: Person) -> list[tuple[Invitation, str]]:
    """An invitation for each line of the form, with the secrets of their links; all or none."""
    data = form.cleaned_data
    options: dict[str, Any] = {"languages": form.tags(), "days": data["days"], "batch": data["batch"]}
    return [
        invite(roles=data["roles"], note=note, address=address, actor=actor, **options)
        for note, address in zip(data["notes"], data["addresses"], strict=True)
    ]


def exceeds_mails(request: HttpRequest, form: InvitationForm) -> bool:
    """Counts a mail for each line of the form: nobody's address is to be flooded from here."""
    key = str(person_of(request).pk)
    return any(is_mail_too_often(request, "mail_invitation", key=key) for _note in form.cleaned_data["notes"])


@require_POST
@act_required(MANAGE_PEOPLE)
def invitation_revoke(request: HttpRequest, invitation_id: int) -> HttpResponse:
    revoke_invitation(invitation_id=invitation_id, actor=person_of(request))
    messages.success(request, _("The invitation is withdrawn: its link opens nothing any more."))
    return redirect("invitations")


@require_POST
@act_required(MANAGE_PEOPLE)
def invitation_resend(request: HttpRequest, invitation_id: int) -> HttpResponse:
    if is_mail_too_often(request, "mail_invitation", key=str(person_of(request).pk)):
        raise Conflict(N_("Too many mails within a day: send it tomorrow."))
    resend_invitation(invitation_id=invitation_id, actor=person_of(request))
    messages.success(request, _("The invitation is sent again; the list says when it has been."))
    return redirect("invitations")


@require_http_methods(["GET", "POST"])
@never_cache
@login_not_required
def join(request: HttpRequest, secret: str) -> HttpResponse:
    """Whoever was invited makes their account, and is signed in with it; whoever is signed in joins the study."""
    invitation = find_invitation(secret)
    if invitation is None:
        return show_join(request, status=404)
    state = read_link_state(invitation)
    if state != LinkState.WAITING:
        return show_join(
            request, ended=error_text(LinkEnded(ENDED[state])), invitation=invitation, status=410
        )
    roles = [label for role, label in ROLE_CHOICES if role in invitation.roles]
    if request.user.is_authenticated or not settings.LOCAL_PASSWORDS:
        return join_signed_in(request, secret, invitation, roles)
    languages, known_languages = invitation.languages, list_prompt_languages()
    form = AccountForm(
        request.POST if request.method == "POST" else None, selected=languages, known=known_languages
    )
    if form.is_valid():
        try:
            person = create_account(secret, form)
        except LinkEnded as error:
            return show_join(request, ended=error_text(error), invitation=invitation, status=error.status)
        except AssayError as error:
            form.add_error("name", error_text(error))
        else:
            note_method(request, SignInSession.Method.LINK)
            login(request, person, backend=BACKEND)
            add_notice(request, "welcome", name=person)
            return redirect("home")
    return show_join(
        request, form=form, invitation=invitation, roles=roles, status=422 if form.is_bound else 200
    )


@require_http_methods(["GET", "POST"])
@never_cache
@login_not_required
def set_up(request: HttpRequest, secret: str) -> HttpResponse:
    """Whoever a set-up link is for sets their password, and is signed in with it."""
    link = find_setup_link(secret)
    if link is None:
        return show_set_up(request, status=404)
    state = read_setup_link_state(link)
    if state != LinkState.WAITING:
        return show_set_up(request, link=link, ended=error_text(LinkEnded(SETUP_ENDED[state])), status=410)
    if request.user.is_authenticated and request.user != link.person:
        return show_set_up(
            request, link=link, somebody_else=True, status=409 if request.method == "POST" else 200
        )
    form = build_setup_form(request, link)
    if not form.is_valid():
        return show_set_up(request, link=link, form=form, status=422 if form.is_bound else 200)
    try:
        person = use_setup_link(secret=secret, password=form.cleaned_data["password"])
    except LinkEnded as error:
        return show_set_up(request, link=link, ended=error_text(error), status=error.status)
    return enter_after_setup(request, person)


def build_setup_form(request: HttpRequest, link: SetupLink) -> SetupForm:
    if not settings.LOCAL_PASSWORDS:
        raise Forbidden(N_("Passwords are off on this site: sign in with one of the buttons."))
    return SetupForm(request.POST if request.method == "POST" else None, person=link.person)


def enter_after_setup(request: HttpRequest, person: Person) -> HttpResponse:
    """Who has a second factor is asked for it: the link has not shown it."""
    if has_factor(person):
        messages.success(request, _("Your password is set: sign in with it."))
        return redirect("login")
    note_method(request, SignInSession.Method.LINK)
    login(request, person, backend=BACKEND)
    messages.success(request, _("Your password is set."))
    return redirect("home")


def join_signed_in(
    request: HttpRequest, secret: str, invitation: Invitation, roles: Sequence[Any]
) -> HttpResponse:
    """They say that they join; then they are on the first page of the study. Without local passwords whoever is not
    signed in does that first, by a provider, and comes back here.
    """
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    person = person_of(request)
    if request.method != "POST":
        return show_join(request, invitation=invitation, roles=roles, signed_in=True, status=200)
    try:
        joined = join_study(secret=secret, person=person)
    except AssayError as error:
        return show_join(request, ended=error_text(error), invitation=invitation, status=error.status)
    messages.success(request, _("You have joined."))
    person = Person.objects.get(pk=person.pk)  # with the roles of now
    is_among_several = joined.study is not None and len(list_visible_studies(person)) > 1
    return redirect(build_study_url(joined.study.name) if is_among_several and joined.study else "home")


def show_set_up(request: HttpRequest, *, status: int, **context: Any) -> HttpResponse:
    answer = render(request, "annotation/people/set_up.html", context, status=status)
    answer["Referrer-Policy"] = REFERRER_POLICY
    return answer


def create_account(secret: str, form: AccountForm) -> Person:
    data = form.cleaned_data
    return accept_invitation(
        secret=secret,
        name=data["name"],
        password=data["password"],
        display_name=data["display_name"],
        languages=form.tags(),
    )


def show_join(request: HttpRequest, *, status: int, **context: Any) -> HttpResponse:
    answer = render(request, "annotation/people/join.html", context, status=status)
    answer["Referrer-Policy"] = REFERRER_POLICY
    return answer


def invitation_row(invitation: Invitation) -> dict[str, Any]:
    state = read_link_state(invitation)
    words = {
        LinkState.WAITING: _("waiting"),
        LinkState.ACCEPTED: _("accepted"),
        LinkState.EXPIRED: _("expired"),
        LinkState.REVOKED: pgettext("invitation", "withdrawn"),
    }
    return {
        "invitation": invitation,
        "waiting": state == LinkState.WAITING,
        "badge": BADGES[state],
        "words": words[state],
    }
