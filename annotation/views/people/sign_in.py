"""The sign-in page: allauth's flow, our look. Single sign-on and a second factor are stages of the same flow."""

from __future__ import annotations

import unicodedata
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from allauth.account.forms import LoginForm
from allauth.account.views import LoginView
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _
from django.views.generic.edit import FormView

from annotation.selectors.mail.mail import is_mail_on
from annotation.selectors.people import exists_passkey
from annotation.services.demo import CAST
from annotation.services.people.providers import list_providers
from annotation.services.people.sign_ins import WAIT_SECONDS
from annotation.views.demo import is_demo

KINDS = {"oidc": "openid_connect_login", "saml": "saml_login"}
"""The addresses at which a sign-in by a provider begins."""


class SignInForm(LoginForm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        name, password = self.fields["login"], self.fields["password"]
        name.label, password.label = _("User name"), _("Password")
        name.widget.attrs = {"autocomplete": "username", "autocapitalize": "none", "autofocus": True}
        password.widget.attrs = {"autocomplete": "current-password"}
        password.help_text = ""

    def add_prefix(self, field_name: str) -> str:
        """Password managers and scripts know the field by this name."""
        return str(super().add_prefix("username" if field_name == "login" else field_name))

    def clean_login(self) -> str:
        """In the form in which names are stored, whichever keyboard it was typed on."""
        return unicodedata.normalize("NFKC", super().clean_login())


def list_ways(next_page: str) -> list[dict[str, str]]:
    """The providers, with where their buttons lead."""
    query = f"?{urlencode({'next': next_page})}" if next_page else ""
    language = get_language() or ""
    return [
        {
            "url": reverse(KINDS[provider.kind], args=[provider.name]) + query,
            "title": provider.get_title(language),
        }
        for provider in list_providers()
    ]


def offers_passkeys() -> bool:
    """Whether anybody has one. The page opens while the database is away, too, as it did without the question."""
    with suppress(DatabaseError):
        return exists_passkey()
    return False


@method_decorator(login_not_required, name="dispatch")
class SignIn(LoginView):  # type: ignore[misc]
    """In the demo the page offers the cast, too."""

    form_class = SignInForm
    template_name = "registration/login.html"

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        if response.status_code == HTTPStatus.TOO_MANY_REQUESTS:
            response.setdefault("Retry-After", "60")  # the form was sent too often, whatever it held
        return response

    def form_invalid(self, form: SignInForm) -> HttpResponse:
        response: HttpResponse = super().form_invalid(form)
        if form.has_error("__all__", "too_many_login_attempts"):
            response.status_code = HTTPStatus.TOO_MANY_REQUESTS
            response["Retry-After"] = str(WAIT_SECONDS)
        return response

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Without what allauth adds: links to pages for signing up that are not there."""
        ways = [
            {
                "url": reverse("demo-sign-in", args=[member.name]),
                "label": f"{member.display_name}: {member.tries}",
            }
            for member in CAST
            if is_demo(self.request)
        ]
        return FormView.get_context_data(self, **kwargs) | {
            "demo_sign_in": ways,
            "sends_mail": is_mail_on(),
            "next": self.get_next_url() or "",
            "providers": list_ways(self.get_next_url() or ""),
            "shows_password": settings.LOCAL_PASSWORDS
            or "password" in self.request.GET
            or kwargs.get("form"),
            "has_passkeys": offers_passkeys(),
        }
