"""What is asked of an OpenID provider over the network, and what is believed of its answers.

Signatures are verified whichever way a token came, and only by algorithms with a public key. Everything that a provider
answers is text of a stranger until then.
"""

from __future__ import annotations

import json
import time
from typing import Any, cast

import jwt
import requests
from allauth.socialaccount.adapter import get_adapter
from django.core.cache import cache, caches

from annotation.core.errors import N_, AssayError
from annotation.domain.sign_in.providers import OidcProvider

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
LEEWAY_SECONDS = 30
KEEP_SECONDS = 300
"""So long a process remembers the provider's configuration and keys."""
REFETCH_SECONDS = 15
"""Unknown keys are not looked for more often: anybody can send a token with one."""
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
MAX_TOKEN_AGE = 300


class ProviderUnavailable(AssayError):
    """It did not answer, or not as a provider does: nothing is known of the person."""

    code = "provider_unavailable"
    status = 503


class ProviderRefusal(AssayError):
    """It answered, and does not vouch for the person; or what it said does not hold."""

    code = "provider_refusal"
    status = 403


def get_configuration(provider: OidcProvider) -> dict[str, Any]:
    """The discovery document, whose issuer must be the one that was configured."""
    key = f"oidc:{provider.issuer}"
    known = caches["process"].get(key)
    if known is not None:
        return cast("dict[str, Any]", known)
    address = f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration"
    document = _fetch_json(provider, "GET", address)
    if document.get("issuer") != provider.issuer:
        raise ProviderUnavailable(
            N_("{provider} calls itself {issuer}, and not as it was configured."),
            provider=provider.title,
            issuer=str(document.get("issuer"))[:200],
        )
    missing = {"authorization_endpoint", "token_endpoint", "jwks_uri"} - set(document)
    if missing:
        raise ProviderUnavailable(
            N_("{provider} does not name its {missing}."),
            provider=provider.title,
            missing=", ".join(sorted(missing)),
        )
    caches["process"].set(key, document, KEEP_SECONDS)
    return document


def fetch_keys(provider: OidcProvider, *, is_fresh: bool = False) -> list[Any]:
    """The provider's public keys that a token may be signed with."""
    key = f"oidc-keys:{provider.issuer}"
    document = caches["process"].get(key)
    if document is None or (is_fresh and caches["process"].add(f"{key}:asked", True, REFETCH_SECONDS)):
        document = _fetch_json(provider, "GET", get_configuration(provider)["jwks_uri"])
        caches["process"].set(key, document, KEEP_SECONDS)
    try:
        return [entry for entry in jwt.PyJWKSet.from_dict(document).keys if entry.public_key_use != "enc"]
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError) as error:
        raise ProviderUnavailable(
            N_("The keys of {provider} cannot be read."), provider=provider.title
        ) from error


def verify_id_token(
    provider: OidcProvider, token: str, *, nonce: str | None = None, subject: str = ""
) -> dict[str, Any]:
    """The claims of an ID token: of this provider, for us, not expired, and where they are given with this ``nonce``
    and of this ``subject``.
    """
    claims = _decode(provider, token, required=["iss", "sub", "aud", "exp", "iat"])
    if not isinstance(claims["sub"], str) or not claims["sub"]:
        raise _refuse(provider, "sub")
    audience = claims["aud"]
    if isinstance(audience, list) and len(audience) > 1 and claims.get("azp") != provider.client_id:
        raise _refuse(provider, "azp")
    if nonce is not None and claims.get("nonce") != nonce:
        raise _refuse(provider, "nonce")
    if subject and claims["sub"] != subject:
        raise _refuse(provider, "sub")
    return claims


def verify_logout_token(provider: OidcProvider, token: str) -> dict[str, Any]:
    """The claims of a token of back-channel logout, which is good once."""
    claims = _decode(provider, token, required=["iss", "aud", "iat", "jti", "events"])
    events = claims["events"]
    if not isinstance(events, dict) or LOGOUT_EVENT not in events or "nonce" in claims:
        raise _refuse(provider, "events")
    if not (claims.get("sub") or claims.get("sid")):
        raise _refuse(provider, "sub")
    if time.time() - claims["iat"] > MAX_TOKEN_AGE:
        raise _refuse(provider, "iat")
    if not cache.add(f"oidc-logout:{provider.name}:{claims['jti']}"[:200], True, 2 * MAX_TOKEN_AGE):
        raise _refuse(provider, "jti")
    return claims


def refresh(
    provider: OidcProvider, held: dict[str, str], *, subject: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """The claims of now of a person who signed in before, and what the next check is made with.

    With a refresh token that is the token endpoint's answer; without one the access token opens the provider's
    userinfo, as long as it lives. ProviderRefusal: the provider does not vouch for them any more.
    """
    if not held.get("refresh"):
        return fetch_userinfo(provider, held["access"], subject=subject), held
    form = {"grant_type": "refresh_token", "refresh_token": held["refresh"]}
    address, secret = get_configuration(provider)["token_endpoint"], get_adapter().get_secret(provider)
    if uses_basic(provider):
        answer = _fetch_json(provider, "POST", address, data=form, auth=(provider.client_id, secret))
    else:
        form |= {"client_id": provider.client_id} | ({"client_secret": secret} if secret else {})
        answer = _fetch_json(provider, "POST", address, data=form)
    fresh = {
        "refresh": str(answer.get("refresh_token") or held["refresh"]),
        "access": str(answer["access_token"]) if answer.get("access_token") else held["access"],
    }
    claims: dict[str, Any] = {}
    if answer.get("id_token"):
        claims = verify_id_token(provider, str(answer["id_token"]), subject=subject)
    if provider.userinfo or not claims:
        claims |= fetch_userinfo(provider, fresh["access"], subject=subject)
    return claims, fresh


def fetch_userinfo(provider: OidcProvider, access_token: str, *, subject: str) -> dict[str, Any]:
    address = get_configuration(provider).get("userinfo_endpoint")
    if not address:
        raise _refuse(provider, "userinfo")
    claims = _fetch_json(provider, "GET", address, headers={"Authorization": f"Bearer {access_token}"})
    if claims.get("sub") != subject:
        raise _refuse(provider, "sub")
    return claims


def pack_tokens(tokens: dict[str, str]) -> str:
    return json.dumps(tokens)


def unpack_tokens(text: str | None) -> dict[str, str]:
    return dict(json.loads(text)) if text else {}


def uses_basic(provider: OidcProvider) -> bool:
    """Whether the token endpoint takes the secret in a header: so the standard, where a provider says nothing."""
    is_secret = bool(provider.client_secret_env or provider.client_secret_file)
    methods = get_configuration(provider).get(
        "token_endpoint_auth_methods_supported", ["client_secret_basic"]
    )
    return is_secret and "client_secret_post" not in methods


def _decode(provider: OidcProvider, token: str, *, required: list[str]) -> dict[str, Any]:
    for is_fresh in (False, True):
        try:
            key = _find_key(provider, token, is_fresh=is_fresh)
            if key is None:
                continue
            return jwt.decode(
                token,
                key=key.key,
                algorithms=[name for name in ALGORITHMS if name == jwt.get_unverified_header(token)["alg"]],
                audience=provider.client_id,
                issuer=provider.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": required, "verify_exp": True, "verify_iat": True},
            )
        except (jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise _refuse(provider, type(error).__name__) from error
    raise _refuse(provider, "kid")


def _find_key(provider: OidcProvider, token: str, *, is_fresh: bool) -> Any:
    """The key that the token names; of a provider with a single key that one where it names none."""
    keys, header = fetch_keys(provider, is_fresh=is_fresh), jwt.get_unverified_header(token)
    if header.get("kid") is None:
        return keys[0] if len(keys) == 1 else None
    return next((key for key in keys if key.key_id == header["kid"]), None)


def _refuse(provider: OidcProvider, part: str) -> ProviderRefusal:
    return ProviderRefusal(
        N_("What {provider} says about you is not valid ({part}): sign in again."),
        provider=provider.title,
        part=part,
    )


def _fetch_json(provider: OidcProvider, method: str, address: str, **options: Any) -> dict[str, Any]:
    """What it answers. A provider that refuses (400, 401, 403) is another thing than one that fails."""
    try:
        with get_adapter().get_requests_session() as session:
            response = session.request(method, address, allow_redirects=False, **options)
            document = response.json() if response.status_code == 200 else None
    except (requests.RequestException, ValueError) as error:
        raise ProviderUnavailable(
            N_("{provider} does not answer. Try again in a minute."), provider=provider.title
        ) from error
    if response.status_code in {400, 401, 403}:
        raise ProviderRefusal(N_("{provider} no longer lets you in: sign in again."), provider=provider.title)
    if not isinstance(document, dict):
        raise ProviderUnavailable(
            N_("{provider} does not answer. Try again in a minute."), provider=provider.title
        )
    return document
