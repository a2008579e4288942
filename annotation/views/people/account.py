"""One's own account: name, how items are shown, topics, password, API tokens. For everybody who signs in."""

from __future__ import annotations

from functools import partial
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.domain.permissions import READ_OWN_LABELS
from annotation.forms.people.people import NameForm, OwnPasswordForm, TokenForm
from annotation.forms.wellbeing import ReadingForm, TopicsForm
from annotation.selectors.people import (
    list_factors,
    list_recent_setup_links,
    list_sessions,
    list_sign_ins,
    list_tokens,
)
from annotation.selectors.wellbeing import exposure_today, find_exposure_budget
from annotation.services.people import people as services
from annotation.services.people.providers import list_provider_accounts
from annotation.services.people.second_factor import is_demanded
from annotation.services.people.sessions import keep_session
from annotation.services.people.setup_links import confirm_links_seen
from annotation.services.people.sign_ins import check_present_password
from annotation.services.people.tokens import make_token, revoke_token
from annotation.services.wellbeing import set_item_display
from annotation.views.access import may, person_of, post_form
from annotation.views.notices import add_notice, render_notice


@require_GET
def account(request: HttpRequest) -> HttpResponse:
    return show_account(request)


@post_form("account")
def account_name(request: HttpRequest) -> HttpResponse:
    person, form = person_of(request), NameForm(request.POST)
    if not form.is_valid():
        return show_account(request, name_form=form)
    services.set_display_name(person=person, actor=person, **form.cleaned_data)
    messages.success(request, _("Your name is changed."))
    return redirect("account")


@post_form("account")
def account_wellbeing(request: HttpRequest) -> HttpResponse:
    """How items are shown to me."""
    person = person_of(request)
    form = ReadingForm(request.POST, person=person)
    if not form.is_valid():
        return show_account(request, reading_form=form)
    set_item_display(person=person, **form.cleaned_data)
    messages.success(request, _("Items are shown to you like that from now on."))
    return redirect("account")


@post_form("account")
def account_topics(request: HttpRequest) -> HttpResponse:
    """The topics that I do not read. Nobody asks why."""
    person = person_of(request)
    form = TopicsForm(request.POST, person=person)
    if not form.is_valid():
        return show_account(request, topics_form=form)
    released = services.set_opted_out(person=person, dimensions=form.cleaned_data["topics"])
    words = [_("Your topics are set; others take over what is not for you.")]
    if released:
        words.append(render_notice("items_went_back", n=released))
    messages.success(request, " ".join(words))
    return redirect("account")


@post_form("account")
def account_password(request: HttpRequest) -> HttpResponse:
    person = person_of(request)
    check = partial(check_present_password, request, person)
    form = OwnPasswordForm(request.POST, person=person, check=check)
    if not form.is_valid():
        return show_account(request, password_form=form)
    services.set_password(person=person, password=form.cleaned_data["password"])
    keep_session(request, person)
    messages.success(request, _("Your password is changed. Your other sessions and your tokens have ended."))
    return redirect("account")


@never_cache
@post_form("account")
def account_token(request: HttpRequest) -> HttpResponse:
    """Make a token, which this answer alone shows."""
    person, form = person_of(request), TokenForm(request.POST)
    if not form.is_valid():
        return show_account(request, token_form=form)
    try:
        token, text = make_token(person=person, actor=person, **form.cleaned_data)
    except AssayError as error:
        form.add_error("name", error_text(error))
        return show_account(request, token_form=form)
    return show_account(request, made=token, token=text)


@require_POST
def account_token_revoke(request: HttpRequest, token_id: int) -> HttpResponse:
    person = person_of(request)
    token = revoke_token(token_id=token_id, person=person, actor=person)
    add_notice(request, "token_ended", name=token.name)
    return redirect("account")


@require_POST
def account_links_seen(request: HttpRequest) -> HttpResponse:
    """I have read of the set-up links that were made for me."""
    confirm_links_seen(person=person_of(request))
    return redirect("account")


def show_account(request: HttpRequest, **changes: Any) -> HttpResponse:
    person = person_of(request)
    context = {
        "tokens": list_tokens(person),
        "token_form": TokenForm(),
        "setup_links": list_recent_setup_links(person),
        "name_form": NameForm(initial={"display_name": person.display_name}),
        "sign_ins": list_sign_ins(person),
        "reading_form": ReadingForm(person=person),
        "topics_form": TopicsForm(person=person),
        "reads": may(person, READ_OWN_LABELS),
        "points": exposure_today(person),
        "budget": find_exposure_budget(person),
        "password_form": OwnPasswordForm(person=person),
        "can_change_password": person.has_usable_password() and settings.LOCAL_PASSWORDS,
        "sessions": list_sessions(person, own_key=request.session.session_key or ""),
        "factors": list_factors(person),
        "is_factor_demanded": is_demanded(person),
        "provider_accounts": list_provider_accounts(person),
    }
    failed = any(isinstance(value, forms.Form) for value in changes.values())
    return render(request, "annotation/people/account.html", context | changes, status=422 if failed else 200)
