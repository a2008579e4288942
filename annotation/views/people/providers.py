"""Signing in by an identity provider, and linking one's account there to the account here.

The flows are allauth's (annotation/services/people/provider_kinds.py). A sign-in begins with a link and not with a
form: browsers hold a form's answer to ``form-action``, which names no other site.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

import xmlsec
from allauth.socialaccount.providers.saml import views as saml
from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.translation import get_language, pgettext_lazy
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST
from lxml import etree  # type: ignore[import-untyped]
from onelogin.saml2.errors import OneLogin_Saml2_ValidationError  # type: ignore[import-untyped]

from annotation.core.errors import AssayError
from annotation.core.http import breadcrumbs
from annotation.domain.permissions import MANAGE_SIGN_INS
from annotation.domain.sign_in.providers import AnyProvider, OidcProvider, SamlProvider
from annotation.selectors.people import get_person
from annotation.services.people import oidc
from annotation.services.people import providers as services
from annotation.services.people.provider_kinds import (
    OidcAdapter,
    OidcCallback,
    OidcSignIn,
    Refused,
    SamlSignIn,
)
from annotation.services.people.sessions import is_fresh
from annotation.views.access import View, act_required, person_of, post_form
from annotation.views.people.second_factor import fresh_required, safe_page
from annotation.views.people.sign_in import KINDS

UNREADABLE = (
    OneLogin_Saml2_ValidationError,
    etree.LxmlError,
    xmlsec.Error,
    PermissionDenied,
    ValueError,
    TypeError,
    LookupError,
)
"""What the libraries make of an answer that is none, or of one that nobody asked for."""


class ProviderLinkForm(forms.Form):
    provider = forms.ChoiceField(label=_("Provider"))
    subject = forms.CharField(
        label=pgettext_lazy("identity provider", "Subject"),
        max_length=services.MAX_SUBJECT,
        help_text=_(
            "The permanent id of the account at the provider (sub, or SAML’s NameID), not a name or an e-mail address."
        ),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [(entry.name, entry.get_title(get_language() or "")) for entry in services.list_providers()]
        self.fields["provider"].choices = choices  # type: ignore[attr-defined]


def find_oidc(name: str) -> OidcProvider:
    provider = services.find_provider(name)
    if not isinstance(provider, OidcProvider):
        raise Http404
    return provider


def find_saml(name: str) -> SamlProvider:
    provider = services.find_provider(name)
    if not isinstance(provider, SamlProvider):
        raise Http404
    return provider


@login_not_required
@never_cache
@require_GET
def oidc_sign_in(request: HttpRequest, provider_id: str) -> HttpResponse:
    """To the provider, and back by ``oidc_callback``. Who is signed in comes here to link, or to prove who they are."""
    provider, is_link = find_oidc(provider_id), "link" in request.GET
    if is_link and not services.is_linking(request, provider):
        return redirect("account")
    kind = OidcAdapter(request, provider_id).get_provider()
    assert isinstance(kind, OidcSignIn)
    is_anew = request.user.is_authenticated and not is_fresh(request)
    page = safe_page(request, request.GET.get("next", ""))
    try:
        return kind.begin(request, next_page=page, is_link=is_link, is_anew=is_anew)
    except Refused as refused:
        return services.refuse_sign_in(request, provider, refused.error)


@login_not_required
@never_cache
@require_GET
def oidc_callback(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    find_oidc(provider_id)
    answer: HttpResponseBase = OidcCallback.adapter_view(OidcAdapter(request, provider_id))(request)
    return answer


@csrf_exempt
@login_not_required
@never_cache
@require_POST
def oidc_logout(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Back-channel logout: the provider itself says that a session of theirs has ended."""
    provider = find_oidc(provider_id)
    try:
        claims = oidc.verify_logout_token(provider, request.POST.get("logout_token", ""))
    except AssayError:
        return JsonResponse({"error": "invalid_request"}, status=400)
    services.end_sessions_of_logout(provider, claims)
    return HttpResponse(status=200)


def of_saml(view: View) -> View:
    """For a provider that the document names; there is no other."""

    @login_not_required
    @never_cache
    @wraps(view)
    def guarded_view(request: HttpRequest, organization_slug: str) -> HttpResponseBase:
        find_saml(organization_slug)
        request.META.setdefault("HTTP_HOST", request.get_host())  # read as it stands there
        return view(request, organization_slug)

    return guarded_view


@require_GET
@of_saml
def saml_sign_in(request: HttpRequest, organization_slug: str) -> HttpResponseBase:
    provider, is_link = find_saml(organization_slug), "link" in request.GET
    if is_link and not services.is_linking(request, provider):
        return redirect("account")
    kind = services.build_app(provider).get_provider(request)
    assert isinstance(kind, SamlSignIn)
    return kind.begin(request, next_page=safe_page(request, request.GET.get("next", "")), is_link=is_link)


@method_decorator([csrf_exempt, of_saml], name="dispatch")
class SamlAnswer(saml.ACSView):  # type: ignore[misc]
    """The browser brings the assertion from the provider's page: without our cookies, and so it is put aside."""


@method_decorator(of_saml, name="dispatch")
class SamlFinish(saml.FinishACSView):  # type: ignore[misc]
    """The same browser with its cookies: the assertion must answer what this session has asked."""

    def dispatch(self, request: HttpRequest, organization_slug: str) -> HttpResponse:
        try:
            answer: HttpResponse = super().dispatch(request, organization_slug)
        except UNREADABLE:
            provider = find_saml(organization_slug)
            return services.refuse_sign_in(request, provider, services.build_refusal(provider))
        return answer


@method_decorator([csrf_exempt, of_saml], name="dispatch")
class SamlLogout(saml.SLSView):  # type: ignore[misc]
    """Ends the session of the browser that brings a signed wish for it, and no other."""

    def dispatch(self, request: HttpRequest, organization_slug: str) -> HttpResponse:
        if not request.GET.get("Signature"):
            return HttpResponse(
                _now("The sign-out request is not signed."), status=400, content_type="text/plain"
            )
        answer: HttpResponse = super().dispatch(request, organization_slug)
        return answer


@method_decorator(of_saml, name="dispatch")
class SamlMetadata(saml.MetadataView):  # type: ignore[misc]
    """What the provider must know of this site."""


saml_acs, saml_finish = SamlAnswer.as_view(), SamlFinish.as_view()
saml_logout, saml_metadata = SamlLogout.as_view(), SamlMetadata.as_view()


# Linking.


@never_cache
@require_POST
@fresh_required
def account_provider_link(request: HttpRequest, name: str) -> HttpResponse:
    """I want to sign in by this provider from now on. The answer leads there by a link."""
    provider = services.get_provider(name)
    services.begin_link(request, person_of(request), provider)
    context = {
        "title": provider.get_title(get_language() or ""),
        "url": f"{reverse(KINDS[provider.kind], args=[provider.name])}?link=1",
        "crumbs": breadcrumbs((_now("My account"), "account", []), title=_now("Link an account")),
    }
    return render(request, "annotation/people/provider_link.html", context)


@require_POST
@fresh_required
def account_provider_unlink(request: HttpRequest, account_id: int) -> HttpResponse:
    person = person_of(request)
    services.unlink_account(person=person, account_id=account_id, actor=person)
    messages.success(request, _now("The accounts are unlinked."))
    return redirect("account")


@act_required(MANAGE_SIGN_INS)
@post_form("person")
def person_provider_link(request: HttpRequest, username: str) -> HttpResponse:
    """An admin says which account at a provider is this person's."""
    person, form = get_person(username), ProviderLinkForm(request.POST)
    if not form.is_valid():
        for errors in form.errors.values():
            messages.error(request, " ".join(map(str, errors)))
        return redirect("person", username)
    provider: AnyProvider = services.get_provider(form.cleaned_data["provider"])
    services.link_account(
        person=person, provider=provider, subject=form.cleaned_data["subject"], actor=person_of(request)
    )
    messages.success(request, _now("The accounts are linked."))
    return redirect("person", username)


@require_POST
@act_required(MANAGE_SIGN_INS)
def person_provider_unlink(request: HttpRequest, username: str, account_id: int) -> HttpResponse:
    services.unlink_account(person=get_person(username), account_id=account_id, actor=person_of(request))
    messages.success(request, _now("The accounts are unlinked."))
    return redirect("person", username)
