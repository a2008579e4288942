"""Set-up links: by which a person sets their own password, because nobody else may set it for them.

As with invitations the secret is told once, to the manager who makes the link and passes it on; only its hash is
stored. The person reads of every link on the pages until they say that they have: who made it, when, and whether it
was used.
"""

from __future__ import annotations

import secrets
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from annotation.core.errors import N_, Conflict, NotFound
from annotation.domain.verbs import AnnotationVerb
from annotation.models import Person, SetupLink
from annotation.selectors.people import LinkState, hash_secret, read_setup_link_state
from annotation.services.audit import record
from annotation.services.people.invitations import SECRET_BYTES, LinkEnded
from annotation.services.people.people import refuse_above, refuse_imported_name

VALID_DAYS = 3
ENDED = {
    LinkState.ACCEPTED: N_("This link was used already: it sets one password."),
    LinkState.EXPIRED: N_("This link has expired."),
    LinkState.REVOKED: N_("This link was withdrawn."),
}


@transaction.atomic
def make_setup_link(*, person: Person, actor: Person) -> tuple[SetupLink, str]:
    """A link for ``person`` and its secret, which nobody can be told again; one that still waits ends with it."""
    refuse_above(person, actor)
    if person == actor:
        raise Conflict(N_("Your own password you change in your account."))
    refuse_imported_name(person)
    locked = _lock_person(person.pk)
    if not locked.is_active:
        raise Conflict(N_("{name} is deactivated: activate the account first."), name=str(person))
    now = timezone.now()
    SetupLink.objects.filter(person=person, accepted_at=None, revoked_at=None).update(revoked_at=now)
    secret = secrets.token_urlsafe(SECRET_BYTES)
    link = SetupLink.objects.create(
        person=person,
        secret_sha256=hash_secret(secret),
        expires_at=now + timedelta(days=VALID_DAYS),
        created_by=actor,
    )
    _record(link, actor, AnnotationVerb.MAKE_SETUP_LINK, had_password=locked.has_usable_password())
    return link, secret


@transaction.atomic
def use_setup_link(*, secret: str, password: str) -> Person:
    """Set the password of the link's person, which ends their sessions and tokens. Of several at once, one does."""
    link = SetupLink.objects.filter(secret_sha256=hash_secret(secret)).first()
    if link is None:
        raise NotFound(N_("There is no such link."))
    person = _lock_person(link.person_id)
    link = SetupLink.objects.select_related("created_by", "person").get(pk=link.pk)
    state = read_setup_link_state(link)
    if state != LinkState.WAITING:
        raise LinkEnded(ENDED[state])
    link.accepted_at, link.seen_at = timezone.now(), None
    link.save(update_fields=["accepted_at", "seen_at"])
    person.set_password(password)
    person.password_by = person
    person.save(update_fields=["password"])
    made_by = "mail" if link.by_mail else str(link.created_by)
    _record(link, person, AnnotationVerb.USE_SETUP_LINK, made_by=made_by)
    return person


@transaction.atomic
def revoke_setup_link(*, link_id: int, person: Person, actor: Person) -> None:
    """End the link. Twice changes nothing; a password that was set with it stays."""
    refuse_above(person, actor)
    _lock_person(person.pk)
    link = SetupLink.objects.filter(pk=link_id, person=person).first()
    if link is None:
        raise NotFound(N_("There is no such link."))
    if link.accepted_at is not None:
        raise Conflict(ENDED[LinkState.ACCEPTED])
    if link.revoked_at is None:
        link.revoked_at = timezone.now()
        link.save(update_fields=["revoked_at"])
        _record(link, actor, AnnotationVerb.REVOKE_SETUP_LINK)


def confirm_links_seen(*, person: Person) -> None:
    """The person has read of the links that were made for them."""
    SetupLink.objects.filter(person=person, seen_at=None).update(seen_at=timezone.now())


def _lock_person(pk: int) -> Person:
    """Every act on a person's links begins with it."""
    return Person.objects.select_for_update(no_key=True).get(pk=pk)


def _record(link: SetupLink, actor: Person, verb: AnnotationVerb, **data: object) -> None:
    record(actor=actor, verb=verb, target=f"person:{link.person.username}", link=link.pk, **data)
