"""One's own mail: the address, by a link that confirms it, and what is sent there; and the page of a mail's link that
stops it.

Everybody who signs in opens the first from their account, to be reached and to set a forgotten password by themselves.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import translation
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_http_methods

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError, NotFound
from annotation.core.http import breadcrumbs
from annotation.forms.people.mail import AddressForm, MailSettingsForm, OwnAddressForm, RemoveAddressForm
from annotation.selectors.mail.mail import find_profile, is_mail_on
from annotation.services.mail import addresses as services
from annotation.services.people.sign_ins import WAIT_SECONDS, check_present_password, is_mail_too_often
from annotation.views.access import person_of, post_form
from annotation.views.notices import add_notice

# Less than the page's address: it would tell the secret.
REFERRER_POLICY = "strict-origin"


@require_GET
@never_cache
def account_mail(request: HttpRequest) -> HttpResponse:
    return show_mail(request)


@never_cache
@post_form("account-mail")
def account_mail_address(request: HttpRequest) -> HttpResponse:
    """A new address, to which a link is sent."""
    person = person_of(request)
    form = OwnAddressForm(request.POST, check=partial(check_present_password, request, person))
    if form.is_valid() and is_mail_too_often(request, "mail_address", key=str(person.pk)):
        form.add_error("address", _("Too many mails in an hour: try again later."))
    if not form.is_valid():
        return show_mail(request, address_form=form)
    try:
        address = services.request_address(person=person, address=form.cleaned_data["address"])
    except AssayError as error:
        form.add_error("address", error_text(error))
        return show_mail(request, address_form=form)
    add_notice(request, "address_to_confirm", address=address)
    return redirect("account-mail")


@never_cache
@post_form("account-mail")
def account_mail_remove(request: HttpRequest) -> HttpResponse:
    person = person_of(request)
    form = RemoveAddressForm(request.POST, check=partial(check_present_password, request, person))
    if not form.is_valid():
        return show_mail(request, remove_form=form)
    services.remove_address(person=person)
    messages.success(request, _("Your address is removed: no mail is sent to you any more."))
    return redirect("account-mail")


@never_cache
@post_form("account-mail")
def account_mail_settings(request: HttpRequest) -> HttpResponse:
    person = person_of(request)
    form = MailSettingsForm(request.POST, profile=find_profile(person))
    if not form.is_valid():
        return show_mail(request, settings_form=form)
    services.set_mail_settings(person=person, **form.cleaned_data)
    messages.success(request, _("Your mail settings are saved."))
    return redirect("account-mail")


@require_http_methods(["GET", "POST"])
@never_cache
def account_mail_confirm(request: HttpRequest, secret: str) -> HttpResponse:
    """The link that was sent to a new address: its person, signed in, says that it is theirs."""
    person = person_of(request)
    try:
        if request.method == "POST":
            address = services.confirm_address(person=person, secret=secret)
            add_notice(request, "address_confirmed", address=address)
            return redirect("account-mail")
        context: dict[str, Any] = {"profile": services.find_pending_profile(person=person, secret=secret)}
        status = 200
    except NotFound as error:
        context, status = {"ended": error_text(error)}, error.status
    answer = render(request, "annotation/people/mail_confirm.html", context, status=status)
    answer["Referrer-Policy"] = REFERRER_POLICY
    return answer


@csrf_exempt  # a mail program sends it, which has no cookie; the token in the address is what counts (RFC 8058)
@require_http_methods(["GET", "POST"])
@never_cache
@login_not_required
def mail_stop(request: HttpRequest, token: str) -> HttpResponse:
    """Opening the page changes nothing: programs look at what links lead to."""
    try:
        person, switch = services.read_stop_token(token)
        if request.method == "POST":
            services.stop_mail(token=token)
        context: dict[str, Any] = {"switch": switch, "is_done": request.method == "POST"}
        status, language = 200, find_profile(person).language
    except NotFound as error:
        context, status, language = {"ended": error_text(error)}, error.status, translation.get_language()
    with translation.override(language):
        if "ended" in context:
            context["ended"] = _("There is no such link.")
        answer = render(request, "annotation/people/mail_stop.html", context, status=status)
    answer["Referrer-Policy"] = REFERRER_POLICY
    return answer


@require_http_methods(["GET", "POST"])
@never_cache
@login_not_required
def password_forgotten(request: HttpRequest) -> HttpResponse:
    """Who has forgotten their password or name asks for a link, and reads the same answer whoever's the address is."""
    if not is_mail_on() or not settings.LOCAL_PASSWORDS:
        return render(
            request,
            "registration/forgotten.html",
            {"is_off": True, "local_passwords": settings.LOCAL_PASSWORDS},
        )
    form = AddressForm(request.POST if request.method == "POST" else None)
    form.fields["address"].widget.attrs["autofocus"] = True
    if not form.is_valid():
        context = {"form": form}
        return render(request, "registration/forgotten.html", context, status=422 if form.is_bound else 200)
    if is_mail_too_often(request, "password_reset"):
        form.add_error(None, _("Too many attempts. Wait five minutes, then try again."))
        answer = render(request, "registration/forgotten.html", {"form": form}, status=429)
        answer["Retry-After"] = str(WAIT_SECONDS)
        return answer
    address = form.cleaned_data["address"]
    # One that was asked for too often gets no more mail, and whoever asks gets the same answer.
    if not is_mail_too_often(request, "password_reset_address", key=address.casefold()):
        services.request_password_reset(address=address)
    return render(request, "registration/forgotten.html", {"address": address})


def show_mail(request: HttpRequest, **changes: Any) -> HttpResponse:
    person = person_of(request)
    profile = find_profile(person)
    check = partial(check_present_password, request, person)
    context = {
        "is_on": is_mail_on(),
        "profile": profile,
        "can_change": person.has_usable_password(),
        "address_form": OwnAddressForm(check=check),
        "remove_form": RemoveAddressForm(check=check, auto_id="id_remove_%s"),
        "settings_form": MailSettingsForm(profile=profile),
        "crumbs": breadcrumbs((_("My account"), "account", []), title=_("Mail")),
    }
    failed = any(isinstance(value, forms.Form) for value in changes.values())
    status = 422 if failed else 200
    return render(request, "annotation/people/mail.html", context | changes, status=status)
