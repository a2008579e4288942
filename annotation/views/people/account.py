"""One's own account: name, how items are shown, topics, password, API tokens. For everybody who signs in."""

from __future__ import annotations

from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.forms.people import NameForm, OwnPasswordForm, TokenForm
from annotation.forms.wellbeing import ReadingForm, TopicsForm
from annotation.models import ADJUDICATOR, ANNOTATOR
from annotation.selectors.access import has_role
from annotation.selectors.people import lately, list_sign_ins, list_tokens
from annotation.selectors.wellbeing import budget_of, points_today
from annotation.services.people import people as services
from annotation.services.people.setup_links import confirm_links_seen
from annotation.services.people.sign_ins import check_present_password
from annotation.services.people.tokens import make_token, revoke_token
from annotation.services.wellbeing import set_reading
from annotation.views.access import form_of, person_of


@require_GET
def account(request: HttpRequest) -> HttpResponse:
    return _show(request)


@form_of("account")
def account_name(request: HttpRequest) -> HttpResponse:
    me, form = person_of(request), NameForm(request.POST)
    if not form.is_valid():
        return _show(request, name_form=form)
    services.set_display_name(person=me, actor=me, **form.cleaned_data)
    messages.success(request, _("Your name is changed."))
    return redirect("account")


@form_of("account")
def account_care(request: HttpRequest) -> HttpResponse:
    """How items are shown to me."""
    me = person_of(request)
    form = ReadingForm(request.POST, person=me)
    if not form.is_valid():
        return _show(request, reading_form=form)
    set_reading(person=me, **form.cleaned_data)
    messages.success(request, _("Items are shown to you like that from now on."))
    return redirect("account")


@form_of("account")
def account_topics(request: HttpRequest) -> HttpResponse:
    """The topics that I do not read. Nobody asks why."""
    me = person_of(request)
    form = TopicsForm(request.POST, person=me)
    if not form.is_valid():
        return _show(request, topics_form=form)
    released = services.set_opted_out(person=me, dimensions=form.cleaned_data["topics"])
    words = [_("Your topics are set; others take over what is not for you.")]
    if released:
        back = ngettext("{n} item at hand went back.", "{n} items at hand went back.", released)
        words.append(back.format(n=released))
    messages.success(request, " ".join(words))
    return redirect("account")


@form_of("account")
def account_password(request: HttpRequest) -> HttpResponse:
    me = person_of(request)
    check = partial(check_present_password, request, me)
    form = OwnPasswordForm(request.POST, person=me, check=check)
    if not form.is_valid():
        return _show(request, password_form=form)
    services.set_password(person=me, password=form.cleaned_data["password"])
    update_session_auth_hash(request, me)  # this session goes on; the others have ended
    messages.success(request, _("Your password is changed. Your other sessions and your tokens have ended."))
    return redirect("account")


@never_cache
@form_of("account")
def account_token(request: HttpRequest) -> HttpResponse:
    """Make a token, which this answer alone shows."""
    me, form = person_of(request), TokenForm(request.POST)
    if not form.is_valid():
        return _show(request, token_form=form)
    try:
        token, text = make_token(person=me, actor=me, **form.cleaned_data)
    except AssayError as error:
        form.add_error("name", error_text(error))
        return _show(request, token_form=form)
    return _show(request, made=token, token=text)


@require_POST
def account_token_revoke(request: HttpRequest, token_id: int) -> HttpResponse:
    me = person_of(request)
    token = revoke_token(token_id=token_id, person=me, actor=me)
    messages.success(request, _("The token {name} has ended.").format(name=token.name))
    return redirect("account")


@require_POST
def account_links_seen(request: HttpRequest) -> HttpResponse:
    """I have read of the set-up links that were made for me."""
    confirm_links_seen(person=person_of(request))
    return redirect("account")


def _show(request: HttpRequest, **given: Any) -> HttpResponse:
    me = person_of(request)
    context = {
        "tokens": list_tokens(me),
        "token_form": TokenForm(),
        "setup_links": lately(me),
        "name_form": NameForm(initial={"display_name": me.display_name}),
        "sign_ins": list_sign_ins(me),
        "reading_form": ReadingForm(person=me),
        "topics_form": TopicsForm(person=me),
        "reads": has_role(me, ANNOTATOR, ADJUDICATOR),
        "points": points_today(me),
        "budget": budget_of(me),
        "password_form": OwnPasswordForm(person=me),
        "can_change_password": me.has_usable_password(),
    }
    failed = any(isinstance(value, forms.Form) for value in given.values())
    return render(request, "annotation/people/account.html", context | given, status=422 if failed else 200)
