"""The document that names the identity providers of a site, and which of their groups give which roles.

The file of ASSAY_SIGN_IN; docs/sign-in.md explains each field. A document that is wrong stops the start with the place
and the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from annotation.domain.permissions import ROLES

NAME = r"^[a-z][a-z0-9-]{0,39}$"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
RESERVED = frozenset({"oidc", "saml", "openid-connect"})


class ProviderError(ValueError):
    """What is wrong with the document, with the place in it."""


class RoleRule(BaseModel):
    """Whoever is in ``group`` has ``roles`` in ``study``, or is an ``admin``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    group: str = Field(min_length=1)
    study: str = ""
    roles: tuple[str, ...] = ()
    admin: bool = False

    @model_validator(mode="after")
    def _check(self) -> RoleRule:
        unknown = sorted(set(self.roles) - set(ROLES))
        if unknown:
            raise ValueError(f"there is no role {', '.join(unknown)}; the roles are {', '.join(ROLES)}")
        if bool(self.study) != bool(self.roles):
            raise ValueError("name a study and its roles together")
        if not self.roles and not self.admin:
            raise ValueError("say a study with roles, or admin: true")
        return self


class Provider(BaseModel):
    """What every provider has, of whichever kind."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=NAME)
    title: str = Field(min_length=1, max_length=60)
    title_zh: str = Field(default="", max_length=60)
    makes_people: bool = True
    second_factor: Literal["assay", "provider"] = "assay"
    owns_roles: bool = False
    roles_last_days: int = Field(default=0, ge=0, le=366)
    roles: tuple[RoleRule, ...] = ()

    def get_title(self, language: str) -> str:
        return (self.title_zh if language.startswith("zh") else "") or self.title

    @property
    def studies(self) -> frozenset[str]:
        return frozenset(rule.study for rule in self.roles if rule.study)


class OidcProvider(Provider):
    """By OpenID Connect, with the code flow, PKCE and a nonce."""

    kind: Literal["oidc"]
    issuer: str
    client_id: str = Field(min_length=1)
    client_secret_env: str = ""
    client_secret_file: str = ""
    scopes: tuple[str, ...] = ("openid", "profile")
    username_claim: str = "preferred_username"
    name_claim: str = "name"
    groups_claim: str = "groups"
    userinfo: bool = False
    check_seconds: int = Field(default=60, ge=5, le=86_400)
    outage_minutes: int = Field(default=15, ge=0, le=1440)
    idle_check_minutes: int = Field(default=60, ge=0, le=1440)

    @field_validator("issuer")
    @classmethod
    def _check_issuer(cls, issuer: str) -> str:
        return _check_address(issuer)

    @model_validator(mode="after")
    def _check(self) -> OidcProvider:
        if "openid" not in self.scopes:
            raise ValueError("scopes: openid is needed")
        if self.client_secret_env and self.client_secret_file:
            raise ValueError("say client_secret_env or client_secret_file, not both")
        return self


class SamlProvider(Provider):
    """By SAML 2.0: the browser brings a signed assertion. Nothing can be asked later, so a session is short."""

    kind: Literal["saml"]
    entity_id: str = Field(min_length=1)
    sso_url: str
    certificate: str = Field(min_length=1)
    username_attribute: str = "username"
    name_attribute: str = "name"
    groups_attribute: str = "groups"
    session_minutes: int = Field(default=60, ge=1, le=1440)

    @field_validator("sso_url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        return _check_address(url)


AnyProvider = OidcProvider | SamlProvider


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    providers: tuple[Annotated[AnyProvider, Field(discriminator="kind")], ...]

    @model_validator(mode="after")
    def _check(self) -> _Document:
        names = [provider.name for provider in self.providers]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"there are two providers named {', '.join(twice)}")
        reserved = sorted(RESERVED & set(names))
        if reserved:
            raise ValueError(f"a provider cannot be named {', '.join(reserved)}")
        issuers = [p.issuer for p in self.providers if isinstance(p, OidcProvider)]
        if len(set(issuers)) < len(issuers):
            raise ValueError("two providers have the same issuer: one person would be two")
        return self


def _check_address(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("write an address with https://")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise ValueError("it must begin with https://: who listens on the way could sign in as anybody")
    if parts.username or parts.query or parts.fragment:
        raise ValueError("an address has no user, query or fragment in it")
    return address


def parse_providers(text: str) -> tuple[AnyProvider, ...]:
    """The providers of a document. ProviderError names what is wrong and where."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ProviderError(f"it is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(data, Mapping):
        raise ProviderError("it has no list “providers”")
    try:
        return _Document.model_validate(data).providers
    except ValidationError as error:
        raise ProviderError(_describe(error.errors()[0])) from error


def _describe(error: Any) -> str:
    """``providers 1, issuer: it must begin with https://``; pydantic counts from 0 and names the union's branch."""
    place = [part for part in error["loc"] if part not in {"oidc", "saml"}]
    words = [str(part + 1) if isinstance(part, int) else str(part) for part in place]
    message = error["msg"].removeprefix("Value error, ")
    return f"{', '.join(words)}: {message}" if words else str(message)
