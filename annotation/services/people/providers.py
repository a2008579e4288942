"""Signing in by an identity provider: whom it vouches for, which account that is, and which roles its groups give.

An account at a provider is known by the provider and a subject that never changes; never by a name or an address of
mail, which somebody else may have tomorrow. It is linked to a person by making one, by the person's own act, or by an
admin's.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from allauth.account.signals import user_logged_in
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialLogin
from allauth.socialaccount.providers.base.constants import AuthError, AuthProcess
from django.conf import settings
from django.db import transaction
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import get_language

from annotation.core.error_messages import error_text
from annotation.core.errors import N_, AssayError, Conflict, Forbidden, NotFound
from annotation.core.sealing import seal, unseal
from annotation.domain.sign_in.mapping import combine_roles, map_groups, read_groups
from annotation.domain.sign_in.providers import AnyProvider, OidcProvider, SamlProvider
from annotation.domain.verbs import AnnotationVerb
from annotation.models import Person, SignInSession, Study, StudyMembership
from annotation.services.audit import record
from annotation.services.people import oidc
from annotation.services.people.people import add_person, set_mapped_roles
from annotation.services.people.sessions import delete_sessions, get_row_id, read_state, write_state
from annotation.services.people.sign_ins import is_refusal_worth_an_event

logger = logging.getLogger(__name__)
LINK = "provider_link"
"""In the session: which account a person is about to link, until the provider has answered."""
LINK_SECONDS = 600
MAX_SUBJECT = 191
WAIT_SECONDS = 6.0
"""How long a request waits for another one of the same session that asks the provider."""


def list_providers() -> tuple[AnyProvider, ...]:
    return settings.SIGN_IN_PROVIDERS


def find_provider(name: str) -> AnyProvider | None:
    return next((provider for provider in list_providers() if provider.name == name), None)


def get_provider(name: str) -> AnyProvider:
    provider = find_provider(name)
    if provider is None:
        raise NotFound(N_("There is no provider named {name}."), name=name)
    return provider


def build_subject(provider: AnyProvider, subject: str) -> str:
    """The stable name of an account at a provider: with the issuer, so that another one under the same name in the
    document never opens the accounts of this.
    """
    issuer = provider.issuer if isinstance(provider, OidcProvider) else provider.entity_id
    text = f"{issuer} {subject}"
    return text if len(text) <= MAX_SUBJECT else f"sha256 {hashlib.sha256(text.encode()).hexdigest()}"


class ProviderAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Providers come from the document alone, and accounts are made and linked here alone."""

    def list_apps(self, request: Any, provider: Any = None, client_id: Any = None) -> list[SocialApp]:
        apps = []
        for entry in list_providers():
            app = build_app(entry)
            names = {app.provider, app.provider_id, app.client_id}
            if (provider is None or provider in names) and (client_id is None or client_id == app.client_id):
                apps.append(app)
        return apps

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return False

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """The provider has vouched for somebody: whose account is it, and which roles have they now?"""
        provider = get_provider(sociallogin.account.provider)
        try:
            if sociallogin.state.get("process") == AuthProcess.CONNECT:
                if not request.user.is_authenticated:
                    raise Conflict(N_("Linking timed out, or was started in another browser: start again."))
                link_own_account(request, request.user, provider, sociallogin)
                raise ImmediateHttpResponse(redirect("account"))
            person = find_or_make_person(provider, sociallogin)
        except AssayError as error:
            raise ImmediateHttpResponse(refuse_sign_in(request, provider, error)) from error
        if person.is_active:
            apply_groups(person, provider, sociallogin.account.extra_data["groups"])
        sociallogin.user = Person.objects.get(pk=person.pk)
        sociallogin.account = SocialAccount.objects.get(
            provider=sociallogin.account.provider, uid=sociallogin.account.uid
        )
        request._provider_asks_factor = provider.second_factor == "provider"  # type: ignore[attr-defined]

    def on_authentication_error(
        self, request: Any, provider: Any, error: Any = None, exception: Any = None, extra_context: Any = None
    ) -> None:
        """A page of ours, which says no more than helps who signs in."""
        entry = get_provider(provider.app.provider_id)
        reason = getattr(exception, "error", None)
        if error == AuthError.CANCELLED:
            raise ImmediateHttpResponse(redirect(settings.LOGIN_URL))
        if not isinstance(reason, AssayError):
            logger.warning(
                "a sign-in by %s failed: %s", entry.name, describe_failure(exception, extra_context)
            )
            reason = build_refusal(entry)
        raise ImmediateHttpResponse(refuse_sign_in(request, entry, reason))

    def get_secret(self, provider: OidcProvider) -> str:
        """Read when it is needed: it is in no setting that an error report could show."""
        if provider.client_secret_file:
            return Path(provider.client_secret_file).read_text(encoding="utf-8").strip()
        return os.environ.get(provider.client_secret_env, "").strip() if provider.client_secret_env else ""


def refuse_sign_in(request: HttpRequest, provider: AnyProvider, error: AssayError) -> HttpResponse:
    """The page that says why, and a few lines of the audit trail from each address."""
    logger.warning("a sign-in by %s was refused: %s", provider.name, error)
    if is_refusal_worth_an_event(request):
        target = f"provider:{provider.name}"
        record(actor=None, verb=AnnotationVerb.PROVIDER_REFUSED, target=target, why=str(error)[:200])
    context = {"message": error_text(error), "title": provider.get_title(get_language() or "")}
    return render(request, "registration/provider_refused.html", context, status=error.status)


def build_refusal(provider: AnyProvider) -> AssayError:
    """Where there is nothing more to say to who signs in."""
    return oidc.ProviderRefusal(
        N_("Signing in with {provider} failed. Start again from the sign-in page."),
        provider=provider.title,
    )


def describe_failure(exception: Any, context: Any) -> str:
    """For the log: the kind of the error, never a token or a code, which stand in what libraries say."""
    reason = (context or {}).get("saml_last_error_reason")
    return str(reason or (type(exception).__name__ if exception else "no such sign-in was begun"))[:200]


def build_app(provider: AnyProvider) -> SocialApp:
    """As allauth wants to have it; no row is stored."""
    if isinstance(provider, SamlProvider):
        idp = {"entity_id": provider.entity_id, "sso_url": provider.sso_url, "x509cert": provider.certificate}
        mapping = {
            "uid": [],
            "username": provider.username_attribute,
            "name": provider.name_attribute,
        }
        advanced = {
            "want_assertion_signed": True,
            "reject_idp_initiated_sso": True,
            "want_name_id": True,
            "allow_single_label_domains": True,  # as hosts of an intranet are
        }
        return SocialApp(
            provider="saml",
            provider_id=provider.name,
            name=provider.title,
            client_id=provider.name,
            settings={"idp": idp, "attribute_mapping": mapping, "advanced": advanced},
        )
    return SocialApp(
        provider="openid_connect",
        provider_id=provider.name,
        name=provider.title,
        client_id=provider.client_id,
        secret=ProviderAdapter().get_secret(provider),
        settings={
            "server_url": provider.issuer,
            "oauth_pkce_enabled": True,
            "scope": list(provider.scopes),
        },
    )


def keep_claims(provider: AnyProvider, claims: Mapping[str, Any]) -> dict[str, Any]:
    """What is stored of what a provider says: the names, the groups and its session. No address, no picture."""
    if isinstance(provider, OidcProvider):
        names = (provider.username_claim, provider.name_claim, provider.groups_claim)
    else:
        names = (provider.username_attribute, provider.name_attribute, provider.groups_attribute)
    username, name, groups = (claims.get(part) for part in names)
    return {
        "username": _first_text(username),
        "name": _first_text(name),
        "groups": read_groups(groups),
        "sid": _first_text(claims.get("sid")),
        "sub": _first_text(claims.get("sub")),
    }


def _first_text(value: Any) -> str:
    """An attribute of SAML is a list, a claim of OpenID is not."""
    if isinstance(value, list | tuple):
        value = value[0] if value else ""
    return value.strip()[:150] if isinstance(value, str) else ""


# Whose account it is.


@transaction.atomic
def find_or_make_person(provider: AnyProvider, login: SocialLogin) -> Person:
    """The person of an account at the provider; a new one where the provider may make people. Who has the same name
    here is not taken for them.
    """
    account = login.account
    linked = SocialAccount.objects.filter(provider=account.provider, uid=account.uid).select_related("user")
    existing = linked.first()
    if existing is not None:
        return cast("Person", existing.user)
    claims = account.extra_data
    if not provider.makes_people:
        raise Forbidden(
            N_(
                "No account here is linked to yours at {provider}. If you have one, sign in to it and link it under"
                " “My account”; else ask an admin."
            ),
            provider=provider.title,
        )
    name = Person.normalize_username(claims["username"])
    if not name:
        raise AssayError(
            N_("{provider} gives no user name for you: ask an admin."),
            provider=provider.title,
        )
    if Person.objects.filter(username=name).exists():
        raise Conflict(
            N_(
                "There is an account named {name} already, and it is linked to nobody at {provider}. If it is yours,"
                " sign in to it and link it under “My account”; else ask an admin."
            ),
            name=name,
            provider=provider.title,
        )
    person = add_person(name=name, display_name=claims["name"], actor=None)
    _link(person, provider, account.uid, claims, actor=None)
    return person


def begin_link(request: HttpRequest, person: Person, provider: AnyProvider) -> None:
    """The person has said that they want to link their account; what the provider answers next is linked to it."""
    request.session[LINK] = {"provider": provider.name, "person": person.pk, "at": int(time.time())}


def is_linking(request: HttpRequest, provider: AnyProvider) -> bool:
    wish = request.session.get(LINK) or {}
    is_recent = time.time() - wish.get("at", 0) < LINK_SECONDS
    return is_recent and wish.get("provider") == provider.name and wish.get("person") == request.user.pk


@transaction.atomic
def link_own_account(request: HttpRequest, person: Person, provider: AnyProvider, login: SocialLogin) -> None:
    """What ``begin_link`` began."""
    if not is_linking(request, provider):
        raise Conflict(N_("Linking timed out, or was started in another browser: start again."))
    del request.session[LINK]
    _link(person, provider, login.account.uid, login.account.extra_data, actor=person)
    apply_groups(person, provider, login.account.extra_data["groups"])


@transaction.atomic
def link_account(*, person: Person, provider: AnyProvider, subject: str, actor: Person) -> None:
    """An admin says which account at a provider is this person's, by its subject (``sub``, or SAML's NameID)."""
    if not actor.is_superuser:
        raise Forbidden(N_("Only an admin may link the account of somebody else."))
    subject = subject.strip()
    if not subject:
        raise AssayError(N_("Enter the subject: the provider’s directory shows it."))
    _link(person, provider, build_subject(provider, subject), {"sub": subject}, actor=actor)


def _link(
    person: Person, provider: AnyProvider, uid: str, claims: Mapping[str, Any], *, actor: Person | None
) -> None:
    Person.objects.select_for_update(no_key=True).get(pk=person.pk)
    if SocialAccount.objects.filter(provider=provider.name, uid=uid).exclude(user=person).exists():
        raise Conflict(N_("This account at {provider} is linked to somebody else."), provider=provider.title)
    if SocialAccount.objects.filter(provider=provider.name, user=person).exists():
        raise Conflict(
            N_("{name} is already linked to an account at {provider}: unlink them first."),
            name=str(person),
            provider=provider.title,
        )
    SocialAccount.objects.create(user=person, provider=provider.name, uid=uid, extra_data=dict(claims))
    record(
        actor=actor,
        verb=AnnotationVerb.LINK_PROVIDER,
        target=f"person:{person.username}",
        provider=provider.name,
        subject=uid,
    )


@dataclass(frozen=True)
class ProviderAccount:
    """A provider of the document with the person's account there; or a link to one that the document names no more."""

    name: str
    title: str
    account: SocialAccount | None
    is_known: bool


def list_provider_accounts(person: Person) -> list[ProviderAccount]:
    """No query where there are no providers."""
    if not list_providers():
        return []
    language = get_language() or ""
    accounts = {account.provider: account for account in SocialAccount.objects.filter(user=person)}
    rows = [
        ProviderAccount(entry.name, entry.get_title(language), accounts.pop(entry.name, None), True)
        for entry in list_providers()
    ]
    return rows + [ProviderAccount(name, name, account, False) for name, account in accounts.items()]


@transaction.atomic
def unlink_account(*, person: Person, account_id: int, actor: Person) -> None:
    """Separate them, and take away what the provider's groups gave."""
    if actor != person and not actor.is_superuser:
        raise Forbidden(N_("Only an admin may link the account of somebody else."))
    account = SocialAccount.objects.filter(pk=account_id, user=person).first()
    if account is None:
        raise NotFound(N_("There is no such link; it may already have been removed."))
    has_password = person.has_usable_password() and settings.LOCAL_PASSWORDS
    if actor == person and not has_password:
        raise Conflict(N_("This account is your only way to sign in: an admin can unlink it."))
    provider = find_provider(account.provider)
    record(
        actor=actor,
        verb=AnnotationVerb.UNLINK_PROVIDER,
        target=f"person:{person.username}",
        provider=account.provider,
        subject=account.uid,
    )
    account.delete()
    if provider is not None:
        apply_groups(person, provider, [])
    delete_sessions(SignInSession.objects.filter(person=person, provider=account.provider))


# Roles.


@transaction.atomic
def apply_groups(person: Person, provider: AnyProvider, groups: Iterable[str]) -> bool:
    """Give and take away the roles that the document maps these groups to; whether anything changed."""
    mapped, is_changed = map_groups(provider, groups), False
    Person.objects.select_for_update(no_key=True).get(pk=person.pk)
    named = Study.objects.filter(name__in=mapped.by_study)
    granted = Study.objects.filter(memberships__person=person, memberships__given_by=provider.name)
    for study in sorted({*named, *granted}, key=lambda study: study.pk):
        memberships = StudyMembership.objects.filter(person=person, study=study)
        held = dict(memberships.values_list("role", "given_by"))
        roles, of_provider = combine_roles(
            held=held,
            mapped=mapped.by_study.get(study.name, frozenset()),
            provider=provider.name,
            owns=provider.owns_roles and study.name in provider.studies,
        )
        marked = frozenset(role for role, giver in held.items() if giver == provider.name)
        if roles != frozenset(held) or of_provider != marked:
            set_mapped_roles(
                person=person, study=study, roles=roles, of_provider=of_provider, provider=provider.name
            )
            is_changed = is_changed or roles != frozenset(held)
    return _apply_admin(person, provider, is_admin=mapped.is_admin) or is_changed


def _apply_admin(person: Person, provider: AnyProvider, *, is_admin: bool) -> bool:
    """An admin whom somebody made by hand stays one, whatever the groups say."""
    fresh = Person.objects.get(pk=person.pk)
    if is_admin and not fresh.is_superuser:
        giver = provider.name
    elif not is_admin and fresh.is_superuser and fresh.admin_given_by == provider.name:
        giver = ""
    else:
        return False
    fresh.is_superuser = fresh.is_staff = bool(giver)
    fresh.admin_given_by = giver
    fresh.save(update_fields=["is_superuser", "is_staff", "admin_given_by"])
    person.is_superuser, person.is_staff = fresh.is_superuser, fresh.is_staff
    record(
        actor=None,
        verb=AnnotationVerb.MAP_ROLES,
        target=f"person:{person.username}",
        provider=provider.name,
        admin=bool(giver),
    )
    return True


# Sessions.


@receiver(user_logged_in)
def attach_provider(request: HttpRequest, sociallogin: SocialLogin | None = None, **_signal: Any) -> None:
    """The session that has just begun by a provider is checked there, and ends there."""
    if sociallogin is None:
        return
    login = sociallogin
    provider = get_provider(login.account.provider)
    now, claims = timezone.now(), login.account.extra_data
    ends_at, check_at, sealed = None, 0, ""
    if isinstance(provider, OidcProvider):
        token = login.token
        tokens = {"access": token.token, "refresh": token.token_secret} if token else {}
        sealed = seal(oidc.pack_tokens(tokens))
        check_at = int(time.time()) + provider.check_seconds
    else:
        ends_at = now + timedelta(minutes=provider.session_minutes)
    SignInSession.objects.filter(pk=get_row_id(request)).update(
        method=SignInSession.Method.PROVIDER,
        provider=provider.name,
        subject=login.account.uid,
        provider_session=claims.get("sid", "")[:255],
        sealed_token=sealed,
        checked_at=now,
        ends_at=ends_at,
    )
    SocialAccount.objects.filter(provider=provider.name, uid=login.account.uid).update(last_login=now)
    write_state(
        request,
        method=SignInSession.Method.PROVIDER.value,
        provider=provider.name,
        factor=read_state(request).get("factor") or provider.second_factor == "provider",
        check_at=check_at,
        ends_at=int(ends_at.timestamp()) if ends_at else 0,
    )


def check_session(request: HttpRequest, person: Person) -> bool:
    """Ask the provider again, where that is due: False where the session has ended.

    The groups of now give the roles of now. A provider that does not answer is waited for ``outage_minutes``, in which
    the session goes on as it was; one that refuses ends it.
    """
    row = SignInSession.objects.filter(pk=get_row_id(request), person=person).first()
    provider = find_provider(row.provider) if row else None
    if row is None or not isinstance(provider, OidcProvider):
        return False  # the row was revoked, or the provider is in the document no more
    if not claim_check(row):
        return _await_check(request, row, provider)
    try:
        ask_provider(row, person, provider)
    except REFUSALS:
        end_by_provider(person, [row], reason="refused")
        return False
    except oidc.ProviderUnavailable:
        return _bear_outage(request, row, provider)
    write_state(request, check_at=int(time.time()) + provider.check_seconds)
    return True


REFUSALS = (oidc.ProviderRefusal, SocialAccount.DoesNotExist, KeyError)
"""What ``ask_provider`` raises where the provider does not vouch for the person any more."""


def ask_provider(row: SignInSession, person: Person, provider: OidcProvider) -> None:
    """Have the roles follow the groups of now. Call it for a session whose check was claimed. Raises one of REFUSALS,
    or ProviderUnavailable.
    """
    account = SocialAccount.objects.get(user=person, provider=provider.name, uid=row.subject)
    held = oidc.unpack_tokens(unseal(row.sealed_token))
    subject = account.extra_data.get("sub") or row.subject.rsplit(" ", 1)[-1]
    claims, fresh = oidc.refresh(provider, held, subject=subject)
    account.extra_data = account.extra_data | keep_claims(provider, claims)
    account.save(update_fields=["extra_data", "last_login"])  # which is set by itself
    apply_groups(person, provider, account.extra_data["groups"])
    SignInSession.objects.filter(pk=row.pk).update(
        sealed_token=seal(oidc.pack_tokens(fresh)), checked_at=timezone.now(), check_begun_at=None
    )


def claim_check(row: SignInSession) -> bool:
    """One request asks at a time: many providers take a refresh token that is used twice for a stolen one."""
    now = timezone.now()
    unclaimed = SignInSession.objects.filter(pk=row.pk, checked_at=row.checked_at)
    stale = unclaimed.exclude(check_begun_at__gt=now - timedelta(seconds=2 * WAIT_SECONDS))
    return bool(stale.update(check_begun_at=now))


def _await_check(request: HttpRequest, row: SignInSession, provider: OidcProvider) -> bool:
    """Another request asks: this one goes on when it has, with what it has found."""
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until:
        now = SignInSession.objects.filter(pk=row.pk).values_list("checked_at", "check_begun_at").first()
        if now is None:
            return False
        if now[0] != row.checked_at or now[1] is None:
            write_state(request, check_at=int(time.time()) + min(provider.check_seconds, 5))
            return True
        time.sleep(0.05)
    return _bear_outage(request, row, provider)


def _bear_outage(request: HttpRequest, row: SignInSession, provider: OidcProvider) -> bool:
    SignInSession.objects.filter(pk=row.pk).update(check_begun_at=None)
    checked_at = row.checked_at or row.began_at
    if timezone.now() - checked_at > timedelta(minutes=provider.outage_minutes):
        end_by_provider(row.person, [row], reason="unavailable")
        return False
    logger.warning("the provider %s did not answer when a session was to be checked", provider.name)
    write_state(request, check_at=int(time.time()) + min(provider.check_seconds, 30))
    return True


@transaction.atomic
def end_sessions_of_logout(provider: OidcProvider, claims: Mapping[str, Any]) -> int:
    """Back-channel logout: the sessions that the provider names; how many."""
    rows = SignInSession.objects.filter(provider=provider.name).select_related("person")
    if claims.get("sid"):
        rows = rows.filter(provider_session=str(claims["sid"]))
    if claims.get("sub"):
        rows = rows.filter(subject=build_subject(provider, str(claims["sub"])))
    by_person: dict[Person, list[SignInSession]] = {}
    for row in rows:
        by_person.setdefault(row.person, []).append(row)
    for person, ended in by_person.items():
        end_by_provider(person, ended, reason="logout")
    return sum(map(len, by_person.values()))


def end_by_provider(person: Person, rows: list[SignInSession], *, reason: str) -> None:
    with transaction.atomic():
        record(
            actor=None,
            verb=AnnotationVerb.PROVIDER_ENDED,
            target=f"person:{person.username}",
            provider=rows[0].provider,
            sessions=[row.pk for row in rows],
            why=reason,
        )
        delete_sessions(SignInSession.objects.filter(pk__in=[row.pk for row in rows]))
