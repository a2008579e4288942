"""Erasing a person: the account becomes a pseudonym, and what was labelled stays (docs/decisions/erasure.md)."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence

from django.contrib.auth.hashers import make_password
from django.contrib.sessions.models import Session
from django.db import transaction
from django.utils import timezone

from annotation.core.errors import N_, Conflict
from annotation.core.names import ERASED_PREFIX, look_alike_key
from annotation.domain.audit import EventContent
from annotation.domain.erasure import digest_content, digest_rewrites
from annotation.domain.verbs import AnnotationVerb
from annotation.models import AuditEvent, AuditRewrite, Person
from annotation.selectors.audit import erasure as rows
from annotation.services.audit import record
from annotation.services.people.people import deactivate_person, refuse_above

EMPTIED = "-"
"""In the place of a text that may not be empty, such as a message or why somebody skipped an item."""
PSEUDONYM_BYTES = 4
BLOCK = 500


def check_erasure(*, person: Person, actor: Person | None) -> None:
    """Raise Conflict or Forbidden where ``actor`` cannot erase ``person``; the operator's shell has no actor."""
    refuse_above(person, actor)
    if person == actor:
        raise Conflict(N_("You cannot erase yourself; ask another admin."))
    other_admins = Person.objects.filter(is_superuser=True, is_active=True).exclude(pk=person.pk)
    if person.is_superuser and not other_admins.exists():
        raise Conflict(N_("{name} is the only admin: make another one first."), name=person.username)


@transaction.atomic
def erase_person(*, person: Person, actor: Person | None = None) -> str:
    """Erase the person for good, deactivating them first, and return the pseudonym that the account bears since.

    All of it is one transaction: a person is erased or not.
    """
    check_erasure(person=person, actor=actor)
    deactivate_person(person=person, actor=actor)
    locked = Person.objects.select_for_update(no_key=True).get(pk=person.pk)
    check_erasure(person=locked, actor=actor)
    pseudonym = _choose_pseudonym()
    identity = rows.build_identity(locked, pseudonym)
    counts = _erase_rows(locked, pseudonym)
    rewrites = list(rows.iterate_rewrites(identity))
    _erase_account(locked, pseudonym)
    digests = {event.id: digest_content(event) for event in rewrites}
    erasure = record(
        actor=actor,
        verb=AnnotationVerb.ERASE_PERSON,
        target=f"person:{pseudonym}",
        events=len(digests),
        sha256=digest_rewrites(digests.items()),
        erased=counts,
    )
    _rewrite_events(erasure, rewrites, digests)
    person.refresh_from_db()
    return pseudonym


def _choose_pseudonym() -> str:
    while True:
        pseudonym = ERASED_PREFIX + secrets.token_hex(PSEUDONYM_BYTES)
        if not Person.objects.filter(username=pseudonym).exists():
            return pseudonym


def _erase_rows(person: Person, pseudonym: str) -> dict[str, int]:
    """What the declared list has: deleted, or emptied where something else rests on the row. How many, by code."""
    counts = {code: select(person).count() for code, _label, select in rows.ERASED_ROWS}
    for select in (
        rows.select_tokens,
        rows.select_setup_links,
        rows.select_addresses,
        rows.select_mails,  # found by the profile's address
        rows.select_mail_profile,
        rows.select_sign_ins,
        rows.select_factors,
        rows.select_provider_accounts,
        rows.select_calls,
        rows.select_roles,
        rows.select_drafts,
        rows.select_mappings,
        rows.select_exposures,
    ):
        select(person).delete()
    rows.select_waiting_invitations(person).update(revoked_at=timezone.now())
    rows.select_invitation_notes(person).update(note="")
    rows.select_skip_reasons(person).update(skip_reason=EMPTIED)
    rows.select_correction_reasons(person).update(reason="")
    rows.select_messages(person).update(text=EMPTIED)
    rows.select_admin_log(person).update(object_repr=pseudonym, change_message="")
    sessions = rows.list_sessions(person)
    Session.objects.filter(session_key__in=sessions).delete()
    return {code: number for code, number in (counts | {"sessions": len(sessions)}).items() if number}


def _erase_account(person: Person, pseudonym: str) -> None:
    """Past ``save`` and its signals: the tokens have gone already, and no event may name what is erased."""
    person.own_models.clear()
    person.groups.clear()
    person.user_permissions.clear()
    blank = Person()
    Person.objects.filter(pk=person.pk).update(
        username=pseudonym,
        name_key=look_alike_key(pseudonym),
        display_name="",
        first_name="",
        last_name="",
        email="",
        password=make_password(None),
        last_login=None,
        is_active=False,
        is_staff=False,
        is_superuser=False,
        languages=[],
        opted_out=[],
        daily_exposure=None,
        blur=blank.blur,
        text_size=blank.text_size,
        line_height=blank.line_height,
        latin_serif=False,
        single_keys=True,
        erased_at=timezone.now(),
    )


def _rewrite_events(erasure: AuditEvent, rewrites: Sequence[EventContent], digests: dict[int, bytes]) -> None:
    """First the rows that declare it, then the events: the trigger asks for them in this order."""
    AuditRewrite.objects.bulk_create(
        (
            AuditRewrite(event_id=event, erasure_id=erasure.pk, digest=digest)
            for event, digest in digests.items()
        ),
        batch_size=BLOCK,
    )
    for block in _split(rewrites):
        AuditEvent.rewrite(block)


def _split(rewrites: Sequence[EventContent]) -> Iterable[Sequence[EventContent]]:
    return (rewrites[start : start + BLOCK] for start in range(0, len(rewrites), BLOCK))
