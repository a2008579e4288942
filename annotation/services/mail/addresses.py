"""A person's address and what is sent there: their own affair, and nobody else's.

A new address counts once its person, signed in, has opened a link that was sent to it: with an address somebody can set
the password, so neither a manager nor a typing error may give one. The former address is told.
"""

from __future__ import annotations

from uuid import uuid4

from django.core import signing
from django.db import transaction
from django.utils import timezone

from annotation.core.errors import N_, AssayError, Conflict, NotFound
from annotation.domain.mail.mail import (
    CONFIRM_VALID,
    SWITCHES,
    MailKind,
    build_address_key,
    check_address,
)
from annotation.domain.verbs import AnnotationVerb
from annotation.models import MailProfile, OutgoingMail, Person
from annotation.selectors.mail.mail import find_profile, get_mail_language, is_mail_on
from annotation.selectors.people import hash_secret
from annotation.services.audit import record
from annotation.services.mail.contents import STOP_SALT
from annotation.services.mail.outbox import derive_secret, post_mail


@transaction.atomic
def request_address(*, person: Person, address: str) -> str:
    """Send a link to the address, by which the person confirms it; the address as it is written to. An earlier link
    ends.
    """
    if not is_mail_on():
        raise Conflict(N_("This site sends no mail."))
    address = check_address(address)
    profile = _lock_profile(person)
    if profile.address == address:
        raise AssayError(N_("{address} is your address already."), address=address)
    uuid = uuid4()
    profile.pending_address = address
    profile.pending_sha256 = hash_secret(derive_secret(uuid))
    profile.pending_until = timezone.now() + CONFIRM_VALID
    if not profile.address:
        profile.language = get_mail_language()
    profile.save()
    post_mail(kind=MailKind.CONFIRM_ADDRESS, person=person, uuid=uuid, expires_at=profile.pending_until)
    _record(person, AnnotationVerb.ASK_MAIL_ADDRESS)
    return address


def find_pending_profile(*, person: Person, secret: str) -> MailProfile:
    """Whose new address waits for this secret. NotFound for another's, and for one that was used or has ended."""
    profile = MailProfile.objects.filter(person=person, pending_sha256=hash_secret(secret)).first()
    if profile is None or profile.pending_until is None or profile.pending_until <= timezone.now():
        raise NotFound(
            N_("This link confirms no address of yours, or no longer: it works once, within a day.")
        )
    return profile


@transaction.atomic
def confirm_address(*, person: Person, secret: str) -> str:
    """The new address counts from now on; of several at once one confirms it."""
    _lock_profile(person)
    profile = find_pending_profile(person=person, secret=secret)
    former = profile.address
    profile.address = profile.pending_address
    profile.address_key = build_address_key(profile.address)
    profile.confirmed_at = timezone.now()
    _clear_pending(profile)
    profile.save()
    _tell_former(person, former, profile.language)
    _record(person, AnnotationVerb.SET_MAIL_ADDRESS)
    return profile.address


@transaction.atomic
def remove_address(*, person: Person) -> None:
    """No mail from now on, and no link in progress. Twice changes nothing."""
    profile = _lock_profile(person)
    if not profile.address and not profile.pending_address:
        return
    former = profile.address
    profile.address = profile.address_key = ""
    profile.confirmed_at = None
    _clear_pending(profile)
    profile.save()
    _tell_former(person, former, profile.language)
    _record(person, AnnotationVerb.REMOVE_MAIL_ADDRESS)


@transaction.atomic
def set_mail_settings(
    *, person: Person, language: str, alarms: bool, failed_jobs: bool, due_dates: bool, digest: str
) -> None:
    profile = _lock_profile(person)
    profile.language, profile.digest = language, digest
    profile.alarms, profile.failed_jobs, profile.due_dates = alarms, failed_jobs, due_dates
    profile.save(update_fields=["language", "digest", "alarms", "failed_jobs", "due_dates"])


def read_stop_token(token: str) -> tuple[Person, str]:
    """Whose mail, and which switch, the address in a mail is about. NotFound for a forged one."""
    try:
        pk, switch = signing.loads(token, salt=STOP_SALT)
    except (signing.BadSignature, ValueError, TypeError):
        pk, switch = 0, ""
    person = Person.objects.filter(pk=pk).first()
    if person is None or switch not in SWITCHES.values():
        raise NotFound(N_("There is no such link."))
    return person, switch


@transaction.atomic
def stop_mail(*, token: str) -> str:
    """Switch off what the token is about; twice changes nothing. The switch."""
    person, switch = read_stop_token(token)
    profile = _lock_profile(person)
    off: object = MailProfile.Digest.OFF if switch == "digest" else False
    if getattr(profile, switch) != off:
        setattr(profile, switch, off)
        profile.save(update_fields=[switch])
        record(actor=None, verb=AnnotationVerb.STOP_MAIL, target=f"person:{person.username}", switch=switch)
    return switch


@transaction.atomic
def request_password_reset(*, address: str) -> None:
    """Written whether the address is somebody's or not, which a worker finds out: so nobody learns it from the answer
    or from the time that it takes.
    """
    mail = post_mail(kind=MailKind.PASSWORD_RESET, address=check_address(address))
    if mail is not None:
        record(actor=None, verb=AnnotationVerb.ASK_PASSWORD_RESET, target=f"mail:{mail.pk}")


def _lock_profile(person: Person) -> MailProfile:
    """The person's, made where there was none: every act on it begins with the person's row."""
    Person.objects.select_for_update(no_key=True).get(pk=person.pk)
    profile = find_profile(person)
    if profile._state.adding:
        profile.save()
    return profile


def _clear_pending(profile: MailProfile) -> None:
    profile.pending_address = profile.pending_sha256 = ""
    profile.pending_until = None


def _tell_former(person: Person, former: str, language: str) -> OutgoingMail | None:
    if not former:
        return None
    return post_mail(kind=MailKind.ADDRESS_CHANGED, person=person, address=former, language=language)


def _record(person: Person, verb: AnnotationVerb) -> None:
    record(actor=person, verb=verb, target=f"person:{person.username}")
