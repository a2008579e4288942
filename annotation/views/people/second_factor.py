"""The second factor: one's own, on a page of the account; asked for at the sign-in; and signing in by a passkey."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import wraps
from typing import Any

from allauth.account.models import Login
from allauth.core import ratelimit
from allauth.mfa.base.views import AuthenticateView
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.forms import LoginWebAuthnForm
from allauth.mfa.webauthn.internal import auth as webauthn
from allauth.mfa.webauthn.internal.flows import perform_passwordless_login
from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.http import breadcrumbs
from annotation.domain.permissions import MANAGE_SIGN_INS
from annotation.models import Person, SignInSession
from annotation.selectors.people import get_person, list_factors
from annotation.services.people import second_factor as services
from annotation.services.people.sessions import confirm, is_fresh, note_method, write_state
from annotation.services.people.sign_ins import check_present_password
from annotation.views.access import View, act_required, person_of, post_form
from annotation.views.notices import add_notice

SECRET_KEY_OF_APP = "second_factor_secret"  # noqa: S105 (where the session has it until a code proves it)
CODE_ATTRIBUTES = {
    "autocomplete": "one-time-code",
    "inputmode": "numeric",
    "autocapitalize": "none",
    "spellcheck": "false",
}


class CodeForm(forms.Form):
    code = forms.CharField(
        label=_("Code"), max_length=20, widget=forms.TextInput(attrs=CODE_ATTRIBUTES | {"autofocus": True})
    )


class PasskeyForm(forms.Form):
    name = forms.CharField(
        label=_("Name of the passkey"), max_length=services.MAX_NAME, required=False, empty_value=""
    )
    credential = forms.JSONField(widget=forms.HiddenInput)


class ConfirmForm(forms.Form):
    """By one of the two, whichever the account has."""

    password = forms.CharField(
        label=_("Password"),
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )
    code = forms.CharField(
        label=_("Code from the app, or a recovery code"),
        required=False,
        max_length=20,
        widget=forms.TextInput(attrs=CODE_ATTRIBUTES),
    )

    def __init__(self, *args: Any, request: HttpRequest, has_codes: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request, self.person = request, person_of(request)
        # Who has an app says its code: a screen that was left open is no place to guess passwords, and a password that
        # somebody has seen does not remove the factor that stands against just that.
        unused = "password" if has_codes or not self.person.has_usable_password() else "code"
        del self.fields[unused]
        field = next(iter(self.fields.values()))
        field.required = True
        field.widget.attrs["autofocus"] = True

    def clean_password(self) -> str:
        password = str(self.cleaned_data["password"])
        is_right = check_present_password(self.request, self.person, password)
        if is_right is None:
            raise ValidationError(_("Too many attempts. Wait five minutes, then try again."))
        if not is_right:
            raise ValidationError(_("The password is wrong."))
        return password

    def clean_code(self) -> str:
        code = str(self.cleaned_data["code"])
        try:
            is_right = services.check_code(self.request, self.person, code)
        except AssayError as error:
            raise ValidationError(error_text(error)) from error
        if not is_right:
            raise ValidationError(_("The code is wrong, or was already used."))
        return code


def fresh_required(view: View) -> View:
    """Whoever changes how they sign in has proved within the last five minutes that it is they."""

    @wraps(view)
    def guarded_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if is_fresh(request):
            return view(request, *args, **kwargs)
        page = request.get_full_path() if request.method == "GET" else ""
        request.session["confirm_next"] = page
        return redirect("account-confirm")

    return guarded_view


@never_cache
@require_http_methods(["GET", "POST"])
def account_confirm(request: HttpRequest) -> HttpResponse:
    """Asks once more who it is, then leads back."""
    person = person_of(request)
    has_codes = any(factor.type == services.APP for factor in list_factors(person))
    if not has_codes and not person.has_usable_password():
        return render(request, "annotation/people/confirm.html", {"crumbs": account_crumbs(_now("Confirm"))})
    form = ConfirmForm(request.POST or None, request=request, has_codes=has_codes)
    if form.is_valid():
        confirm(request)
        return redirect(safe_page(request, request.session.pop("confirm_next", "")) or "second-factor")
    context = {"form": form, "crumbs": account_crumbs(_now("Confirm"))}
    return render(request, "annotation/people/confirm.html", context, status=422 if form.is_bound else 200)


def safe_page(request: HttpRequest, page: str) -> str:
    """Empty for what leads elsewhere."""
    is_safe = url_has_allowed_host_and_scheme(page, {request.get_host()}, require_https=request.is_secure())
    return page if is_safe else ""


@never_cache
@require_GET
def second_factor(request: HttpRequest) -> HttpResponse:
    return show_factors(request)


def show_factors(request: HttpRequest, *, codes: Sequence[str] = (), status: int = 200) -> HttpResponse:
    """``codes`` are new recovery codes, which this answer alone shows."""
    person = person_of(request)
    factors = list(list_factors(person))
    recovery = next((factor for factor in factors if factor.type == services.CODES), None)
    context = {
        "app": next((factor for factor in factors if factor.type == services.APP), None),
        "passkeys": [factor for factor in factors if factor.type == services.PASSKEY],
        "codes_left": len(recovery.wrap().get_unused_codes()) if recovery else 0,
        "codes": codes,
        "is_demanded": services.is_demanded(person),
        "has_factor": any(factor.type != services.CODES for factor in factors),
        "crumbs": account_crumbs(_now("Second factor")),
    }
    return render(request, "annotation/people/second_factor.html", context, status=status)


def account_crumbs(title: str) -> Any:
    return breadcrumbs((_now("My account"), "account", []), title=title)


@never_cache
@require_http_methods(["GET", "POST"])
@fresh_required
def second_factor_app(request: HttpRequest) -> HttpResponse:
    """The picture that an app reads; its first code proves that it did."""
    person = person_of(request)
    form = CodeForm(request.POST or None)
    secret = request.session.get(SECRET_KEY_OF_APP) if form.is_bound else None
    if not secret:
        secret = request.session[SECRET_KEY_OF_APP] = services.draw_secret()
    if form.is_valid():
        try:
            codes = services.add_app(
                request=request, person=person, secret=secret, code=form.cleaned_data["code"]
            )
        except AssayError as error:
            form.add_error("code", error_text(error))
        else:
            del request.session[SECRET_KEY_OF_APP]
            write_state(request, factor=True)
            return show_factors(request, codes=codes) if codes else redirect("second-factor")
    url = services.build_app_url(person, secret)
    context = {
        "form": form,
        "picture": services.draw_picture(url),
        "secret": " ".join(secret[place : place + 4] for place in range(0, len(secret), 4)),
        "url": url,
        "crumbs": breadcrumbs(
            (_now("My account"), "account", []),
            (_now("Second factor"), "second-factor", []),
            title=_now("Authenticator app"),
        ),
    }
    return render(
        request, "annotation/people/second_factor_app.html", context, status=422 if form.is_bound else 200
    )


@never_cache
@require_http_methods(["GET", "POST"])
@fresh_required
def second_factor_passkey(request: HttpRequest) -> HttpResponse:
    """The browser makes a passkey; the form brings what it made."""
    person = person_of(request)
    form = PasskeyForm(request.POST or None)
    if form.is_valid():
        try:
            codes = services.add_passkey(person=person, **form.cleaned_data)
        except AssayError as error:
            form.add_error(None, error_text(error))
        else:
            write_state(request, factor=True)
            return show_factors(request, codes=codes) if codes else redirect("second-factor")
    context = {
        "form": form,
        "options": json.dumps(services.begin_passkey(person)),
        "crumbs": breadcrumbs(
            (_now("My account"), "account", []),
            (_now("Second factor"), "second-factor", []),
            title=_now("Passkey"),
        ),
    }
    return render(
        request, "annotation/people/second_factor_passkey.html", context, status=422 if form.is_bound else 200
    )


@require_POST
@fresh_required
def second_factor_remove(request: HttpRequest, factor_id: int) -> HttpResponse:
    services.remove_factor(person=person_of(request), factor_id=factor_id)
    messages.success(request, _now("The second factor is removed."))
    return redirect("second-factor")


@never_cache
@post_form("second-factor")
@fresh_required
def second_factor_codes(request: HttpRequest) -> HttpResponse:
    """New recovery codes, which this answer alone shows."""
    return show_factors(request, codes=services.make_recovery_codes(person=person_of(request)))


@require_POST
@act_required(MANAGE_SIGN_INS)
def person_factors_reset(request: HttpRequest, username: str) -> HttpResponse:
    """For somebody who has lost their telephone."""
    person = get_person(username)
    services.reset_factors(person=person, actor=person_of(request))
    add_notice(request, "factors_reset", name=person)
    return redirect("person", username)


# Signing in.


class FactorForm(forms.Form):
    """The code at the sign-in; with allauth's interface."""

    code = forms.CharField(
        label=_("Code from the app, or a recovery code"),
        max_length=20,
        widget=forms.TextInput(attrs=CODE_ATTRIBUTES | {"autofocus": True}),
    )

    def __init__(self, *args: Any, user: Person, request: HttpRequest | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.person, self.request = user, request

    def clean_code(self) -> str:
        code, request = str(self.cleaned_data["code"]), self.request
        assert request is not None
        try:
            is_right = services.check_code(request, self.person, code)
        except AssayError as error:
            raise ValidationError(error_text(error), code=error.code) from error
        if not is_right:
            raise ValidationError(_("The code is wrong, or was already used."))
        return code

    def save(self) -> None:
        """The stage of the sign-in goes on; the code was used when it was checked."""


class SecondFactor(AuthenticateView):  # type: ignore[misc]
    """Between the password and the session."""

    template_name = "registration/second_factor.html"

    def _build_forms(self) -> Any:
        posted = super()._build_forms()
        if self.auth_form is not None:
            self.auth_form.request = self.request
        return posted

    def get_form_class(self) -> Any:
        return FactorForm

    def form_valid(self, form: Any) -> HttpResponse:
        person = self.stage.login.user
        form.save()
        write_state(self.request, factor_of=person.pk)
        answer: HttpResponse = self.stage.exit()
        return answer

    def form_invalid(self, form: Any) -> HttpResponse:
        answer: HttpResponse = self.render_to_response(self.get_context_data())
        is_too_many = form.has_error("code", "too_many")
        answer.status_code = 429 if is_too_many else 422
        return answer

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        kinds = {factor.type for factor in list_factors(self.stage.login.user)}
        context["has_codes"] = bool(kinds & {services.APP, services.CODES})
        context["has_passkey"] = services.PASSKEY in kinds
        data = context.pop("js_data", None)
        context["options"] = json.dumps(data["request_options"]) if data else ""
        return context


@never_cache
@login_not_required
@require_http_methods(["GET", "POST"])
def sign_in_passkey(request: HttpRequest) -> HttpResponseBase:
    """By a passkey alone: it is something that the person has, which asks who they are."""
    if request.user.is_authenticated:
        return redirect("home")
    form = LoginWebAuthnForm(request.POST) if request.method == "POST" else LoginWebAuthnForm()
    next_page = safe_page(request, request.POST.get("next", request.GET.get("next", "")))
    if form.is_bound:
        refused = ratelimit.consume_or_429(request, action="login")
        if refused is not None:
            answer: HttpResponseBase = refused
            return answer
        factor = find_passkey(form)
        if factor is not None:
            note_method(request, SignInSession.Method.PASSKEY)
            login = Login(user=factor.user, redirect_url=next_page or None)
            passed: HttpResponseBase = perform_passwordless_login(request, factor, login)
            return passed
    options = json.dumps(dict(webauthn.begin_authentication(None)))
    context = {"options": options, "next": next_page, "is_refused": form.is_bound}
    return render(request, "registration/passkey.html", context, status=422 if form.is_bound else 200)


def find_passkey(form: Any) -> Authenticator | None:
    """None for what is no answer of a passkey of ours to what this session asked."""
    try:
        return form.cleaned_data["credential"] if form.is_valid() else None
    except (ValueError, TypeError, KeyError, AttributeError):  # what the libraries make of nonsense
        return None
