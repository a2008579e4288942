"""Invitations: a link by which one person makes their own account, or joins with theirs, in the roles that a manager
chose.

The secret in the link is told once, to whoever invites; only its hash is stored. With its 256 bits nobody guesses
one, however often they try. It stands in no log and in no audit event: config/operations/logs.py, and ids here.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from datetime import timedelta
from uuid import uuid4

from django.db import IntegrityError, transaction
from django.utils import timezone

from annotation.core.errors import N_, AssayError, Conflict, NotFound
from annotation.core.study_scope import build_study_filter, limit_to_studies
from annotation.domain.mail.mail import MailKind, check_address
from annotation.domain.verbs import AnnotationVerb
from annotation.models import Batch, Invitation, Membership, Person
from annotation.selectors.mail.mail import get_mail_language, is_mail_on, list_invitation_mails
from annotation.selectors.people import LinkState, hash_secret, read_link_state
from annotation.services.audit import record
from annotation.services.batches.members import join_batch
from annotation.services.mail.outbox import derive_secret, post_mail, requeue_mail
from annotation.services.people.people import add_member, add_person, language_tags, refuse_unknown_roles
from annotation.services.studies import find_or_make_study

SECRET_BYTES = 32
MAX_DAYS = 90
ENDED = {
    LinkState.ACCEPTED: N_("This invitation was used already: it is for one person."),
    LinkState.EXPIRED: N_("This invitation has expired."),
    LinkState.REVOKED: N_("This invitation was withdrawn."),
}


class LinkEnded(AssayError):
    """An invitation or a set-up link that was used, has expired or was withdrawn."""

    code = "gone"
    status = 410


@transaction.atomic
def invite(
    *,
    roles: Iterable[str],
    languages: Sequence[str] = (),
    note: str = "",
    days: int,
    batch: Batch | None = None,
    address: str = "",
    actor: Person,
) -> tuple[Invitation, str]:
    """Make an invitation that ends after ``days``, and the secret of its link, which nobody can be told again. Whoever
    accepts it becomes a member of ``batch``, in those of the roles that one has in a batch. With an ``address`` the
    link is sent there, in the language of now.
    """
    if address and not is_mail_on():
        raise Conflict(N_("This site sends no mail."))
    address = check_address(address) if address else ""
    roles = list(roles)
    refuse_unknown_roles(roles)
    if not roles:
        raise AssayError(N_("An invitation needs a role: say what the person is to do."))
    if not 1 <= days <= MAX_DAYS:
        raise AssayError(N_("An invitation is valid for 1 to {most} days."), most=MAX_DAYS)
    if batch is not None and not set(roles) & set(Membership.Role.values):
        raise AssayError(
            N_("Nobody in these roles works in a batch: choose no batch, or annotator or adjudicator.")
        )
    uuid = uuid4()
    secret = derive_secret(uuid) if address else secrets.token_urlsafe(SECRET_BYTES)
    invitation = Invitation.objects.create(
        study=find_or_make_study(actor=actor),
        secret_sha256=hash_secret(secret),
        roles=roles,
        languages=language_tags(languages),
        note=note,
        batch=batch,
        expires_at=timezone.now() + timedelta(days=days),
        created_by=actor,
    )
    record(
        actor=actor,
        verb=AnnotationVerb.INVITE,
        target=_target(invitation),
        roles=roles,
        languages=invitation.languages,
        expires_at=invitation.expires_at.isoformat(),
    )
    if address:
        post_mail(
            kind=MailKind.INVITATION,
            address=address,
            language=get_mail_language(),
            study_id=invitation.study_id,
            invitation=invitation,
            uuid=uuid,
            expires_at=invitation.expires_at,
        )
        record(actor=actor, verb=AnnotationVerb.SEND_INVITATION, target=_target(invitation))
    return invitation, secret


@transaction.atomic
def accept_invitation(
    *, secret: str, name: str, password: str, display_name: str = "", languages: Sequence[str] = ()
) -> Person:
    """Make the person that the invitation is for. Of several who come with one link at once, one is let in."""
    invitation = _lock_waiting(secret)
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
    _close(invitation, person)
    return person


@transaction.atomic
def join_study(*, secret: str, person: Person) -> Invitation:
    """Give somebody who has an account the roles of the invitation, beside those that they have in its study."""
    invitation = _lock_waiting(secret)
    with limit_to_studies([invitation.study_id] if invitation.study_id else None):
        add_member(username=person.username, roles=invitation.roles, actor=invitation.created_by)
    _close(invitation, person)
    return invitation


def _close(invitation: Invitation, person: Person) -> None:
    invitation.accepted_at, invitation.accepted_by = timezone.now(), person
    invitation.save(update_fields=["accepted_at", "accepted_by"])
    record(
        actor=person,
        verb=AnnotationVerb.ACCEPT_INVITATION,
        target=_target(invitation),
        person=person.username,
    )
    if invitation.batch is not None:
        _join_batch(invitation, invitation.batch, person)


def _join_batch(invitation: Invitation, batch: Batch, person: Person) -> None:
    """A batch that has closed since, or whose results the person can read, does not keep them out of the study: the
    managers' list of invitations says that they are not in the batch.
    """
    for role in Membership.Role.values:
        if role not in invitation.roles:
            continue
        try:
            with transaction.atomic():
                join_batch(batch=batch, role=role, people=[person], actor=invitation.created_by)
        except AssayError as error:
            record(
                actor=person,
                verb=AnnotationVerb.JOIN_BATCH_REFUSED,
                target=f"batch:{batch.name}",
                person=person.username,
                role=role,
                error=str(error),
            )


@transaction.atomic
def revoke_invitation(*, invitation_id: int, actor: Person) -> None:
    """End the link. Twice changes nothing; an account that was made with it stays."""
    invitation = _lock_invitation(pk=invitation_id, **build_study_filter("study"))
    if invitation.accepted_at is not None:
        raise Conflict(
            N_("This invitation was used already; to shut the person out, deactivate the account.")
        )
    if invitation.revoked_at is not None:
        return
    invitation.revoked_at = timezone.now()
    invitation.save(update_fields=["revoked_at"])
    record(actor=actor, verb=AnnotationVerb.REVOKE_INVITATION, target=_target(invitation))


@transaction.atomic
def resend_invitation(*, invitation_id: int, actor: Person) -> None:
    """Send the mail once more that could not be sent, to the same address and with the same link. Conflict where there
    is none, or the link has ended.
    """
    invitation = _lock_invitation(pk=invitation_id, **build_study_filter("study"))
    state = read_link_state(invitation)
    if state != LinkState.WAITING:
        raise Conflict(ENDED[state])
    mail = list_invitation_mails([invitation]).get(invitation.pk)
    if mail is None or not requeue_mail(mail, expires_at=invitation.expires_at):
        raise Conflict(N_("There is no mail of this invitation that could not be sent."))
    record(actor=actor, verb=AnnotationVerb.SEND_INVITATION, target=_target(invitation))


def _lock_waiting(secret: str) -> Invitation:
    invitation = _lock_invitation(secret_sha256=hash_secret(secret))
    state = read_link_state(invitation)
    if state != LinkState.WAITING:
        raise LinkEnded(ENDED[state])
    return invitation


def _lock_invitation(**lookup: object) -> Invitation:
    invitation = Invitation.objects.select_for_update(no_key=True).filter(**lookup).first()
    if invitation is None:
        raise NotFound(N_("There is no such invitation."))
    return invitation


def _target(invitation: Invitation) -> str:
    return f"invitation:{invitation.pk}"
