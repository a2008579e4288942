"""The second factor: codes of an app (TOTP), passkeys (WebAuthn) and recovery codes.

The tables and the checks are allauth's; here stand the rules: a code works once, every change is in the audit trail,
and a person's last factor goes only where none is demanded of them. Pages ask again who it is before they change one.
"""

from __future__ import annotations

import base64
import time
from typing import Any

from allauth.core.internal.cryptokit import compare_user_code
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.stages import AuthenticateStage
from allauth.mfa.totp.internal import auth as totp
from allauth.mfa.utils import encrypt
from allauth.mfa.webauthn.internal import auth as webauthn
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest

from annotation.core.errors import N_, AssayError, Conflict, Forbidden, NotFound
from annotation.core.sealing import seal, unseal
from annotation.domain.verbs import AnnotationVerb
from annotation.models import Person
from annotation.selectors.people import list_factors
from annotation.services.audit import record
from annotation.services.people.sign_ins import consume_factor_attempt

APP, PASSKEY, CODES = Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN, Authenticator.Type.RECOVERY_CODES
PERIOD_SECONDS = 30
MAX_PASSKEYS = 10
MAX_NAME = 60
SEALED_OTHERWISE = N_(
    "The second factor of this account was stored under another SECRET_KEY and cannot be read: an admin resets it."
)


class FactorAdapter(DefaultMFAAdapter):  # type: ignore[misc]
    """How allauth stores seeds, and what an app and a browser show of this site."""

    def encrypt(self, text: str) -> str:
        return seal(text)

    def decrypt(self, encrypted_text: str) -> str:
        """Never an empty seed, of which anybody could compute the codes."""
        text = unseal(encrypted_text)
        if not text:
            raise Conflict(SEALED_OTHERWISE)
        return text

    def get_totp_issuer(self) -> str:
        return f"Assay ({self._get_site_name()})"


class SecondFactorStage(AuthenticateStage):  # type: ignore[misc]
    """Whoever has a factor is asked for it after the password, and after a provider that does not ask itself."""

    def _should_handle(self, request: HttpRequest) -> bool:
        if getattr(request, "_provider_asks_factor", False):
            return False
        return bool(super()._should_handle(request))


class TooManyCodes(AssayError):
    code = "too_many"
    status = 429


def draw_secret() -> str:
    return str(totp.generate_totp_secret())


def build_app_url(person: Person, secret: str) -> str:
    """What an app reads from the picture: ``otpauth://..``."""
    return str(FactorAdapter().build_totp_url(person, secret))


def draw_picture(url: str) -> str:
    """The QR code of an address, as the address of an image in SVG."""
    svg = FactorAdapter().build_totp_svg(url)
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


@transaction.atomic
def add_app(*, request: HttpRequest, person: Person, secret: str, code: str) -> list[str]:
    """The app whose code proves that it has the secret; recovery codes where these are the first."""
    _lock(person)
    if Authenticator.objects.filter(user=person, type=APP).exists():
        raise Conflict(N_("This account has an app already: remove it first."))
    usage = consume_factor_attempt(request, person)
    if usage is None:
        raise TooManyCodes(N_("Too many attempts. Wait five minutes, then try again."))
    counter = _find_counter(secret, code, after=0)
    if counter is None:
        raise AssayError(N_("The code is wrong. Codes change every 30 seconds: enter the current one."))
    usage.rollback()
    data = {"secret": encrypt(secret), "last_counter": counter}
    factor = Authenticator.objects.create(user=person, type=APP, data=data)
    _record(AnnotationVerb.ADD_FACTOR, person, person, kind=factor.type)
    return _make_first_codes(person)


@transaction.atomic
def add_passkey(*, person: Person, name: str, credential: Any) -> list[str]:
    """A passkey that the browser has just made for the options of ``begin_passkey``."""
    _lock(person)
    if Authenticator.objects.filter(user=person, type=PASSKEY).count() >= MAX_PASSKEYS:
        raise Conflict(N_("There are {most} passkeys already: remove one first."), most=MAX_PASSKEYS)
    try:
        webauthn.parse_registration_response(credential)
        made = webauthn.complete_registration(credential)
    except (ValidationError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise AssayError(N_("The passkey could not be checked. Try again.")) from error
    if not made.is_user_verified():
        raise AssayError(N_("The device did not ask who you are: set a PIN or a fingerprint on it first."))
    webauthn.WebAuthn.add(person, name.strip()[:MAX_NAME] or "passkey", credential)
    _record(AnnotationVerb.ADD_FACTOR, person, person, kind=PASSKEY.value, name=name[:MAX_NAME])
    return _make_first_codes(person)


def begin_passkey(person: Person) -> dict[str, Any]:
    """Options for the browser; what it answers is good for this session alone."""
    return dict(webauthn.begin_registration(person, True))


@transaction.atomic
def remove_factor(*, person: Person, factor_id: int) -> None:
    """An app or a passkey of one's own. With the last of them the recovery codes go."""
    _lock(person)
    factors = list(list_factors(person))
    factor = next((row for row in factors if row.pk == factor_id and row.type != CODES), None)
    if factor is None:
        raise NotFound(N_("There is no such second factor; it may have been removed already."))
    remaining = [row for row in factors if row.type != CODES and row.pk != factor_id]
    if not remaining and is_demanded(person):
        raise Forbidden(N_("Your roles require a second factor: add another one before you remove this."))
    _record(AnnotationVerb.REMOVE_FACTOR, person, person, kind=factor.type)
    factor.delete()
    if not remaining:
        Authenticator.objects.filter(user=person, type=CODES).delete()


@transaction.atomic
def make_recovery_codes(*, person: Person) -> list[str]:
    """Ten codes, each for one sign-in, in place of those of before."""
    _lock(person)
    if not Authenticator.objects.filter(user=person, type__in=(APP, PASSKEY)).exists():
        raise Conflict(N_("Recovery codes stand in for a second factor, and this account has none."))
    Authenticator.objects.filter(user=person, type=CODES).delete()
    codes = RecoveryCodes.activate(person).get_unused_codes()
    _record(AnnotationVerb.MAKE_RECOVERY_CODES, person, person)
    return list(codes)


@transaction.atomic
def reset_factors(*, person: Person, actor: Person) -> int:
    """An admin removes all of them, of somebody who has lost them; how many those were."""
    if not actor.is_superuser:
        raise Forbidden(N_("Only an admin may remove the second factors of somebody."))
    _lock(person)
    removed, _rows = Authenticator.objects.filter(user=person).delete()
    if removed:
        _record(AnnotationVerb.RESET_FACTORS, person, actor)
    return int(removed)


def check_code(request: HttpRequest, person: Person, code: str) -> bool:
    """Whether it is a code of the app that was not used yet, or an unused recovery code. TooManyCodes after five that
    were neither.
    """
    usage = consume_factor_attempt(request, person)
    if usage is None:
        raise TooManyCodes(N_("Too many attempts. Wait five minutes, then try again."))
    kind = _use_code(person, code)
    if kind is None:
        _record(AnnotationVerb.FACTOR_FAILED, person, None)
        return False
    usage.rollback()
    if kind == CODES:
        _record(AnnotationVerb.USE_RECOVERY_CODE, person, person)
    return True


@transaction.atomic
def _use_code(person: Person, code: str) -> str | None:
    """The kind of factor whose code this is. Two requests with the same code wait for each other here."""
    factors = Authenticator.objects.select_for_update().filter(user=person, type__in=(APP, CODES))
    for factor in factors.order_by("-type"):
        if factor.type == CODES:
            if RecoveryCodes(factor).validate_code(code):
                factor.refresh_from_db()
                factor.record_usage()
                return str(CODES)
            continue
        secret = FactorAdapter().decrypt(factor.data["secret"])
        counter = _find_counter(secret, code, after=factor.data.get("last_counter", 0))
        if counter is not None:
            factor.data["last_counter"] = counter
            factor.save(update_fields=["data"])
            factor.record_usage()
            return str(APP)
    return None


def _find_counter(secret: str, code: str, *, after: int) -> int | None:
    """The half minute of which it is the code: this one, the last or the next, and none that was used or is older."""
    now = int(time.time()) // PERIOD_SECONDS
    for counter in (now, now - 1, now + 1):
        expected = totp.format_hotp_value(totp.hotp_value(secret, counter))
        if counter > after and compare_user_code(actual=code, expected=expected):
            return counter
    return None


def has_factor(person: Person) -> bool:
    return bool(Authenticator.objects.filter(user=person, type__in=(APP, PASSKEY)).exists())


def is_demanded(person: Person) -> bool:
    """Whether one of the person's roles, in any study, demands a second factor (ASSAY_SECOND_FACTOR)."""
    roles = set(settings.SECOND_FACTOR_ROLES)
    if not roles:
        return False
    if person.is_superuser:
        return "admin" in roles
    return person.study_memberships.filter(role__in=roles).exists()


def record_demand(person: Person) -> None:
    _record(AnnotationVerb.DEMAND_FACTOR, person, None)


def _make_first_codes(person: Person) -> list[str]:
    """Empty where the person has some."""
    if Authenticator.objects.filter(user=person, type=CODES).exists():
        return []
    return make_recovery_codes(person=person)


def _lock(person: Person) -> None:
    """Two changes of one account's factors wait for each other."""
    Person.objects.select_for_update(no_key=True).get(pk=person.pk)


def _record(verb: AnnotationVerb, person: Person, actor: Person | None, **data: Any) -> None:
    record(actor=actor, verb=verb, target=f"person:{person.username}", **data)
