"""Invitations: a link by which one person makes their own account, with the roles that a manager chose.

The secret in the link is told once, to whoever invites; only its hash is stored. With its 256 bits nobody guesses
one, however often they try. It stands in no log and in no audit event: config/logs.py, and ids here.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone

from annotation.core.errors import N_, AssayError, Conflict, NotFound
from annotation.core.study_scope import limit_to_studies
from annotation.models import Invitation, Person
from annotation.selectors.people import LinkState, hash_secret, read_link_state
from annotation.services.audit import record
from annotation.services.people.people import add_person, language_tags, refuse_unknown_roles
from annotation.services.studies import find_or_make_study

SECRET_BYTES = 32
MAX_DAYS = 90
ENDED = {
    LinkState.ACCEPTED: N_("This invitation was used already: it makes one account."),
    LinkState.EXPIRED: N_("This invitation has expired."),
    LinkState.REVOKED: N_("This invitation was withdrawn."),
}


class LinkEnded(AssayError):
    """An invitation or a set-up link that was used, has expired or was withdrawn."""

    code = "gone"
    status = 410


@transaction.atomic
def invite(
    *, roles: Iterable[str], languages: Sequence[str] = (), note: str = "", days: int, actor: Person
) -> tuple[Invitation, str]:
    """Make an invitation that ends after ``days``, and the secret of its link, which nobody can be told again."""
    roles = list(roles)
    refuse_unknown_roles(roles)
    if not roles:
        raise AssayError(N_("An invitation needs a role: say what the person is to do."))
    if not 1 <= days <= MAX_DAYS:
        raise AssayError(N_("An invitation is valid for 1 to {most} days."), most=MAX_DAYS)
    secret = secrets.token_urlsafe(SECRET_BYTES)
    invitation = Invitation.objects.create(
        study=find_or_make_study(actor=actor),
        secret_sha256=hash_secret(secret),
        roles=roles,
        languages=language_tags(languages),
        note=note,
        expires_at=timezone.now() + timedelta(days=days),
        created_by=actor,
    )
    record(
        actor=actor,
        verb="invite",
        target=_target(invitation),
        roles=roles,
        languages=invitation.languages,
        expires_at=invitation.expires_at.isoformat(),
    )
    return invitation, secret


@transaction.atomic
def accept_invitation(
    *, secret: str, name: str, password: str, display_name: str = "", languages: Sequence[str] = ()
) -> Person:
    """Make the person that the invitation is for. Of several who come with one link at once, one is let in."""
    invitation = _lock_invitation(secret_sha256=hash_secret(secret))
    state = read_link_state(invitation)
    if state != LinkState.WAITING:
        raise LinkEnded(ENDED[state])
    try:
        with transaction.atomic(), limit_to_studies([invitation.study_id] if invitation.study_id else None):
            person = add_person(
                name=name,
                roles=invitation.roles,
                password=password,
                display_name=display_name,
                languages=languages,
                actor=invitation.created_by,
            )
    except IntegrityError as error:  # somebody with another link took the name at the same moment
        raise AssayError(N_("There is already a person named {name}."), name=name) from error
    invitation.accepted_at, invitation.accepted_by = timezone.now(), person
    invitation.save(update_fields=["accepted_at", "accepted_by"])
    record(actor=person, verb="accept_invitation", target=_target(invitation), person=person.username)
    return person


@transaction.atomic
def revoke_invitation(*, invitation_id: int, actor: Person) -> None:
    """End the link. Twice changes nothing; an account that was made with it stays."""
    invitation = _lock_invitation(pk=invitation_id)
    if invitation.accepted_at is not None:
        raise Conflict(
            N_("This invitation was used already; to shut the person out, deactivate the account.")
        )
    if invitation.revoked_at is not None:
        return
    invitation.revoked_at = timezone.now()
    invitation.save(update_fields=["revoked_at"])
    record(actor=actor, verb="revoke_invitation", target=_target(invitation))


def _lock_invitation(**lookup: object) -> Invitation:
    invitation = Invitation.objects.select_for_update(no_key=True).filter(**lookup).first()
    if invitation is None:
        raise NotFound(N_("There is no such invitation."))
    return invitation


def _target(invitation: Invitation) -> str:
    return f"invitation:{invitation.pk}"
