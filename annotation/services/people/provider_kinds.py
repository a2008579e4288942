"""The two kinds of providers as allauth knows them, with what Assay asks beyond it: the issuer in every account's
subject, a nonce, signatures that are always verified, and no address of mail.
"""

from __future__ import annotations

import secrets
from typing import Any

from allauth.socialaccount.models import SocialToken
from allauth.socialaccount.providers.base import AuthProcess, ProviderException
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from allauth.socialaccount.providers.saml.provider import SAMLProvider
from django.http import HttpRequest, HttpResponse

from annotation.core.errors import AssayError
from annotation.domain.sign_in.providers import OidcProvider, SamlProvider
from annotation.services.people import oidc
from annotation.services.people.providers import build_subject, get_provider, keep_claims

NONCE_BYTES = 24


class Refused(ProviderException):  # type: ignore[misc]
    """What allauth shows the page of a failed sign-in for, with our error in it."""

    def __init__(self, error: AssayError) -> None:
        super().__init__(str(error))
        self.error = error


class OidcAdapter(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]
    """``nonce`` is that of the sign-in which comes back."""

    nonce = ""

    @property
    def settings(self) -> OidcProvider:
        provider = get_provider(self.provider_id)
        assert isinstance(provider, OidcProvider)
        return provider

    @property
    def openid_config(self) -> dict[str, Any]:
        try:
            return oidc.get_configuration(self.settings)
        except AssayError as error:
            raise Refused(error) from error

    @property
    def basic_auth(self) -> bool:
        return oidc.uses_basic(self.settings)

    def complete_login(self, request: HttpRequest, app: Any, token: SocialToken, **kwargs: Any) -> Any:
        provider, id_token = self.settings, kwargs["response"].get("id_token")
        if not isinstance(id_token, str) or not self.nonce:
            raise ProviderException("no id_token")
        try:
            claims = oidc.verify_id_token(provider, id_token, nonce=self.nonce)
            if provider.userinfo:
                claims |= oidc.fetch_userinfo(provider, token.token, subject=claims["sub"])
        except AssayError as error:
            raise Refused(error) from error
        return self.get_provider().sociallogin_from_response(request, claims)


class OidcCallback(OAuth2CallbackView):  # type: ignore[misc]
    """The browser comes back, with a code and the state of a sign-in that was begun in this session."""

    def _get_state(self, request: HttpRequest, provider: Any) -> Any:
        state, response = super()._get_state(request, provider)
        self.adapter.nonce = (state or {}).get("nonce", "")
        return state, response


class OidcSignIn(OpenIDConnectProvider):  # type: ignore[misc]
    oauth2_adapter_class = OidcAdapter

    def begin(self, request: HttpRequest, *, next_page: str, is_link: bool, is_anew: bool) -> HttpResponse:
        """Send the browser to the provider; ``is_anew``: it is to ask again who they are."""
        nonce = secrets.token_urlsafe(NONCE_BYTES)
        parameters = {"nonce": nonce} | ({"prompt": "login", "max_age": "0"} if is_anew else {})
        answer: HttpResponse = self.redirect(
            request,
            process=AuthProcess.CONNECT if is_link else AuthProcess.LOGIN,
            next_url=next_page or None,
            nonce=nonce,
            auth_params=parameters,
        )
        return answer

    def extract_uid(self, data: dict[str, Any]) -> str:
        return build_subject(get_provider(self.app.provider_id), data["sub"])

    def extract_extra_data(self, data: dict[str, Any]) -> dict[str, Any]:
        return keep_claims(get_provider(self.app.provider_id), data)

    def extract_common_fields(self, data: dict[str, Any]) -> dict[str, Any]:
        return {}

    def extract_email_addresses(self, data: dict[str, Any]) -> list[Any]:
        """None: an address of mail is nobody's name here."""
        return []


class SamlSignIn(SAMLProvider):  # type: ignore[misc]
    def begin(self, request: HttpRequest, *, next_page: str, is_link: bool) -> HttpResponse:
        answer: HttpResponse = self.redirect(
            request, process=AuthProcess.CONNECT if is_link else AuthProcess.LOGIN, next_url=next_page or None
        )
        return answer

    def extract_uid(self, data: Any) -> str:
        return build_subject(get_provider(self.app.provider_id), data.get_nameid() or "")

    def extract_extra_data(self, data: Any) -> dict[str, Any]:
        provider = get_provider(self.app.provider_id)
        assert isinstance(provider, SamlProvider)
        attributes: dict[str, Any] = dict(data.get_attributes())
        claims = keep_claims(provider, attributes)
        return claims | {"sid": str(data.get_session_index() or ""), "sub": data.get_nameid() or ""}

    def extract_common_fields(self, data: Any) -> dict[str, Any]:
        return {}

    def extract_email_addresses(self, data: Any) -> list[Any]:
        return []
