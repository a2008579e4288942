"""Signing in: how often anybody may try, from which address they come, and what the audit trail keeps of it.

The limits are allauth's, counted in the cache that all processes share (config/settings.py). What is counted are
failures: who signs in rightly uses nothing up. docs/decisions/sign-in-limits.md says why they are as they are.
"""

from __future__ import annotations

import logging
import unicodedata
from functools import cache
from ipaddress import ip_address
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.internal import ratelimit
from allauth.core.internal.httpkit import clean_client_ip
from django.conf import settings
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from annotation.domain.verbs import AnnotationVerb
from annotation.models import Person, SignInSession
from annotation.selectors.people import has_signed_in_from
from annotation.services.audit import record
from annotation.services.people.sessions import note_method

logger = logging.getLogger(__name__)

WAIT_SECONDS = 300  # as in the limits of config/settings.py
SHOWN_OF_UNKNOWN_NAME = 3  # it may be a password, typed into the wrong field


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    """Assay's words and limits in allauth's sign-in. Accounts come from managers alone, and mail is our own."""

    error_messages = DefaultAccountAdapter.error_messages | {
        "username_password_mismatch": _(
            "The name or the password is wrong. If you have forgotten them, ask a manager."
        ),
        "too_many_login_attempts": _("Too many attempts. Wait five minutes, then try again."),
        "local_passwords_off": _("Passwords are off on this site: sign in with one of the buttons."),
    }

    def get_client_ip(self, request: HttpRequest) -> str:
        return client_address(request)

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def is_ajax(self, request: HttpRequest) -> bool:
        return False

    def add_message(self, *args: Any, **kwargs: Any) -> None:
        """The page after the sign-in says enough."""

    def respond_user_inactive(self, request: HttpRequest, user: Any) -> HttpResponse:
        return redirect(settings.LOGIN_URL)

    def get_login_stages(self) -> list[str]:
        """Between the password and the session stands the second factor alone."""
        return ["annotation.services.people.second_factor.SecondFactorStage"]

    def login(self, request: HttpRequest, user: Any) -> None:
        """What no other way in has said is a password."""
        if not hasattr(request, "_sign_in_method"):
            note_method(request, SignInSession.Method.PASSWORD)
        super().login(request, user)

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Counts the attempt, which ``authenticate`` takes back if it is right; refuses one too many, and every one
        where local passwords are switched off, whatever the password.
        """
        name = credentials["username"]
        if not settings.LOCAL_PASSWORDS and not may_use_password(name):
            raise self.validation_error("local_passwords_off")
        usage = _count_attempt(request, name)
        if usage is None:
            _record_throttled(request, name)
            raise self.validation_error("too_many_login_attempts")
        self._login_failed_rl_usage = usage


def may_use_password(name: str) -> bool:
    """Of an admin whom the command ``allow_password`` lets in for a while."""
    admins = Person.objects.filter(username=name, is_superuser=True)
    return admins.filter(password_until__gt=timezone.now()).exists()


def _count_attempt(request: HttpRequest, name: str) -> ratelimit.RateLimitUsage | None:
    """First by address and account, so that a stranger's guesses do not shut the owner out; then by account alone,
    but for an address from which the account has signed in lately.
    """
    account = _build_account_key(name)
    usage = _consume(request, "login_failed", key=f"{account}\n{ratelimit.get_ip(request)}")
    if usage is None:
        return None
    of_account = _consume(request, "login_failed_account", key=account)
    if of_account is None:
        return usage if has_signed_in_from(name, client_address(request)) else None
    return ratelimit.RateLimitUsage([*usage.usage, *of_account.usage])


def check_present_password(request: HttpRequest, person: Person, password: str) -> bool | None:
    """Whether it is; None after too many that were not, because a screen that was left open is no place to guess."""
    usage = _consume(request, "present_password", key=str(person.pk))
    if usage is None:
        return None
    if not person.check_password(password):
        return False
    usage.rollback()
    return True


def consume_factor_attempt(request: HttpRequest, person: Person) -> ratelimit.RateLimitUsage | None:
    """Counts a code of a second factor, to be taken back if it is right; None after five wrong ones."""
    return _consume(request, "second_factor", key=str(person.pk))


def is_refusal_worth_an_event(request: HttpRequest) -> bool:
    """Of sign-ins by a provider that were refused the trail keeps a few from each address."""
    return _consume(request, "provider_refused_event") is not None


def is_token_guess_too_many(request: HttpRequest) -> bool:
    """Counts a token that was refused; the trail keeps one event in five minutes and address of them."""
    if _consume(request, "token_refused_event") is not None:
        record(actor=None, verb=AnnotationVerb.TOKEN_REFUSED, target="token")
    return _consume(request, "token_refused") is None


def is_mail_too_often(request: HttpRequest, limit: str, *, key: str | None = None) -> bool:
    """Counts a mail that somebody asks for, by the limit of this name in the settings."""
    return _consume(request, limit, key=key) is None


def client_address(request: HttpRequest | None) -> str:
    """What the outermost trusted proxy saw; without one, who is connected. Anything further left can be invented."""
    if request is None:
        return ""
    peer, forwarded = request.META.get("REMOTE_ADDR", ""), request.headers.get("X-Forwarded-For", "")
    if forwarded and not settings.TRUSTED_PROXIES:
        warn_of_unnamed_proxy()
    hops = [*(hop.strip() for hop in forwarded.split(",")), peer] if forwarded else [peer]
    hop = hops[max(0, len(hops) - 1 - settings.TRUSTED_PROXIES)]
    return _unmap_address(str(clean_client_ip(hop) or peer))


def _unmap_address(address: str) -> str:
    """``::ffff:198.51.100.7`` is an IPv4 address on a socket for both kinds: all of them share their first 64 bits."""
    try:
        mapped = getattr(ip_address(address), "ipv4_mapped", None)
    except ValueError:
        return address
    return str(mapped or address)


@cache
def warn_of_unnamed_proxy() -> None:
    """Once in each process: the header can be sent by anybody, as often as they like."""
    logger.warning(
        "X-Forwarded-For was ignored. If a proxy of yours set it, say so with ASSAY_TRUSTED_PROXIES: else everybody"
        " behind it counts as one address when sign-ins are limited."
    )


def _build_account_key(name: str) -> str:
    return unicodedata.normalize("NFKC", name).strip().casefold()


def _consume(request: HttpRequest, action: str, *, key: str | None = None) -> ratelimit.RateLimitUsage | None:
    """None when there is no more. A GET counts, too: a program guesses tokens by it."""
    return ratelimit.consume(request, app="allauth.account", action=action, key=key, limit_get=True)


def _record_attempt(verb: AnnotationVerb, name: str) -> None:
    """At the person of this name; of a name that is nobody's little is kept."""
    if Person.objects.filter(username=name).exists():
        record(actor=None, verb=verb, target=f"person:{name}")
    else:
        record(actor=None, verb=verb, target="sign_in", name=f"{name[:SHOWN_OF_UNKNOWN_NAME]}…")


def _record_throttled(request: HttpRequest, name: str) -> None:
    """Once in five minutes and address: attempts without end must not fill the trail."""
    if _consume(request, "login_throttled_event") is not None:
        _record_attempt(AnnotationVerb.SIGN_IN_THROTTLED, name)


@receiver(user_logged_in)
def record_sign_in(user: Person, **_signal: Any) -> None:
    record(actor=user, verb=AnnotationVerb.SIGN_IN, target=f"person:{user.username}")


@receiver(user_logged_out)
def record_sign_out(user: Person | None, **_signal: Any) -> None:
    if user is not None:
        record(actor=user, verb=AnnotationVerb.SIGN_OUT, target=f"person:{user.username}")


@receiver(user_login_failed)
def record_failure(credentials: dict[str, Any], **_signal: Any) -> None:
    _record_attempt(AnnotationVerb.SIGN_IN_FAILED, str(credentials.get("username", "")))
