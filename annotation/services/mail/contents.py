"""What a mail says, found when it is sent: to whom it goes, the names and numbers in it, and where its links lead.

Whoever has left, judges blind or has switched the kind off since then gets nothing. A mail tells of no label, model,
text or partner, and of no study but the reader's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings
from django.core import signing
from django.db import transaction
from django.utils import timezone

from annotation.core.http import build_row_url
from annotation.core.study_scope import limit_to_studies
from annotation.domain.mail.mail import RESET_VALID, SWITCHES, MailKind, clean_name
from annotation.domain.verbs import AnnotationVerb
from annotation.models import (
    MANAGER,
    Alarm,
    Batch,
    Job,
    MailProfile,
    Membership,
    OutgoingMail,
    Person,
    SetupLink,
    Study,
    StudyMembership,
)
from annotation.selectors.access import blind_batches, has_several_studies, list_visible_studies
from annotation.selectors.batches.own_progress import find_own_progress
from annotation.selectors.mail.mail import get_mail_language, list_accounts
from annotation.selectors.overview import PendingWork, list_pending_work
from annotation.selectors.people import LinkState, hash_secret, read_link_state
from annotation.services.audit import record
from annotation.services.mail.outbox import derive_secret

STOP_SALT = "annotation.mail_stop"
TEST_KIND = "test"
MAX_LINES = 30
PAGES = {
    "label": "work-batch",
    "settle": "dispute-batch",
    "drafts": "history",
    "answers": "own-messages",
    "stuck": "batch-needs",
    "questions": "batch-messages",
}
"""Where each kind of what waits leads; the page of the batch where it is not among them."""


@dataclass(frozen=True)
class MailLine:
    """One of several things that a mail lists: ``work`` or ``name`` says what, ``url`` where."""

    url: str
    work: PendingWork | None = None
    name: str = ""
    study: str = ""


@dataclass(frozen=True)
class MailContent:
    """For the templates in ``templates/annotation/mail/``. ``values`` are names that are clean, and numbers; ``url`` is
    where the one link of the mail leads, empty where ``lines`` have links. ``stop_url`` switches the kind off.
    """

    kind: str
    recipient: str
    language: str
    values: dict[str, Any] = field(default_factory=dict)
    url: str = ""
    lines: tuple[MailLine, ...] = ()
    stop_url: str = ""
    settings_url: str = ""


def find_content(mail: OutgoingMail) -> MailContent | None:
    """None where the mail is not needed any more."""
    with limit_to_studies(None, afresh=True):
        kind = MailKind(mail.kind)
        content = _FINDERS[kind](mail)
        if content is None:
            return None
        switch = SWITCHES.get(kind)
        if switch is None or mail.person is None:
            return content
        return replace(
            content,
            stop_url=build_url("", "mail-stop", build_stop_token(mail.person, switch)),
            settings_url=build_url("", "account-mail"),
        )


def build_test_content(recipient: str) -> MailContent:
    return MailContent(TEST_KIND, recipient, get_mail_language(), url=build_url("", "home"))


def build_url(study: str, name: str, *arguments: Any) -> str:
    """The whole address of a page, within the study of this name where one is said."""
    return f"{settings.SITE_URL}{build_row_url(study, name, *arguments)}"


def build_stop_token(person: Person, switch: str) -> str:
    """What an address holds by which a kind of mail is switched off without signing in. It can do nothing else."""
    return signing.dumps([person.pk, switch], salt=STOP_SALT)


def _find_reader(mail: OutgoingMail) -> MailProfile | None:
    """Whose mail it is, where they have an address and want mail of this kind."""
    profile = MailProfile.objects.filter(person=mail.person_id).select_related("person").first()
    if profile is None or not profile.address or not profile.person.is_active:
        return None
    switch = SWITCHES.get(MailKind(mail.kind))
    is_wanted = switch is None or getattr(profile, switch) not in {False, MailProfile.Digest.OFF}
    return profile if is_wanted else None


def _find_prefix(study: Study | None) -> str:
    """What names the study in an address; nothing on a site with one."""
    return study.name if study is not None and has_several_studies() else ""


def _find_password_reset(mail: OutgoingMail) -> MailContent | None:
    """A link for each account of the address; to an address that is nobody's nothing is sent."""
    profiles = list_accounts(mail.address)
    if not profiles:
        return None
    lines = []
    for profile in profiles:
        secret = derive_secret(mail.uuid, str(profile.person_id))
        _make_reset_link(profile.person, secret)
        lines.append(MailLine(url=build_url("", "set-up", secret), name=clean_name(profile.person.username)))
    # To the address as it was confirmed, however the one that was asked for is written.
    return MailContent(mail.kind, profiles[0].address, profiles[0].language, lines=tuple(lines))


@transaction.atomic
def _make_reset_link(person: Person, secret: str) -> None:
    """A second attempt at the same mail finds the link of the first."""
    digest, now = hash_secret(secret), timezone.now()
    link, is_new = SetupLink.objects.get_or_create(
        secret_sha256=digest,
        # It is told once it was used: a stranger may ask for as many as the limits let them.
        defaults={"person": person, "expires_at": now + RESET_VALID, "by_mail": True, "seen_at": now},
    )
    if is_new:
        target = f"person:{person.username}"
        record(actor=None, verb=AnnotationVerb.SEND_PASSWORD_RESET, target=target, link=link.pk)


def _find_confirmation(mail: OutgoingMail) -> MailContent | None:
    secret = derive_secret(mail.uuid)
    profile = (
        MailProfile.objects.filter(person=mail.person_id, pending_sha256=hash_secret(secret))
        .select_related("person")
        .first()
    )
    if profile is None or not profile.person.is_active:
        return None
    return MailContent(
        mail.kind,
        profile.pending_address,
        profile.language,
        values={"name": clean_name(profile.person.username)},
        url=build_url("", "account-mail-confirm", secret),
    )


def _find_address_change(mail: OutgoingMail) -> MailContent | None:
    """To the address that was the person's until then."""
    assert mail.person is not None
    values = {"name": clean_name(mail.person.username), "at": mail.created_at}
    return MailContent(mail.kind, mail.address, mail.language, values, url=build_url("", "login"))


def _find_invitation(mail: OutgoingMail) -> MailContent | None:
    invitation = mail.invitation
    if invitation is None or read_link_state(invitation) != LinkState.WAITING:
        return None
    assert invitation.created_by is not None
    values = {
        "manager": clean_name(str(invitation.created_by)),
        "study": clean_name(str(invitation.study)) if has_several_studies() and invitation.study else "",
        "until": invitation.expires_at,
    }
    return MailContent(
        mail.kind, mail.address, mail.language, values, url=build_url("", "join", derive_secret(mail.uuid))
    )


def _find_alarm(mail: OutgoingMail) -> MailContent | None:
    profile = _find_reader(mail)
    alarm = (
        Alarm.objects.filter(pk=mail.payload["alarm"], seen_at=None).select_related("batch__study").first()
    )
    if profile is None or alarm is None or not _manages(profile.person, alarm.batch):
        return None
    if blind_batches(profile.person).filter(pk=alarm.batch_id).exists():
        return None
    values = {"batch": clean_name(alarm.batch.name), "is_paused": alarm.paused}
    return _address(mail, profile, values, alarm.batch, "batch")


def _find_failed_job(mail: OutgoingMail) -> MailContent | None:
    """Its kind and number alone: a title names models and files."""
    profile = _find_reader(mail)
    job = Job.objects.filter(pk=mail.payload["job"], state=Job.State.FAILED).select_related("study").first()
    if profile is None or job is None:
        return None
    is_own = job.created_by_id == profile.person_id
    if not is_own and not (job.study is not None and _has_role(profile.person, job.study.pk, MANAGER)):
        return None
    values = {"job": job.pk, "job_kind": job.kind, "at": job.created_at, "is_own": is_own}
    url = build_url(_find_prefix(job.study), "job-progress", job.pk)
    return MailContent(mail.kind, profile.address, profile.language, values, url=url)


def _find_due(mail: OutgoingMail) -> MailContent | None:
    """For who works in the batch and has something left there."""
    profile, batch = _find_reader(mail), _find_open_batch(mail)
    if profile is None or batch is None:
        return None
    # Both roles where somebody has both; what is left is what the work page says.
    left = {
        role: progress.left
        for role in Membership.Role.values
        if (progress := find_own_progress(batch, profile.person, role)) is not None
        and _has_role(profile.person, batch.study_id, role)
    }
    n = sum(left.values())
    if not n:
        return None
    values = {"batch": clean_name(batch.name), "due": batch.due_date, "n": n}
    page = "work-batch" if left.get(Membership.Role.ANNOTATOR.value) else "dispute-batch"
    return _address(mail, profile, values, batch, page)


def _find_overdue(mail: OutgoingMail) -> MailContent | None:
    profile, batch = _find_reader(mail), _find_open_batch(mail)
    if profile is None or batch is None or not _manages(profile.person, batch):
        return None
    values = {"batch": clean_name(batch.name), "due": batch.due_date}
    return _address(mail, profile, values, batch, "batch")


def _find_open_batch(mail: OutgoingMail) -> Batch | None:
    """The batch, while it is open and due on the day that the mail is about."""
    batches = Batch.objects.filter(pk=mail.payload["batch"], state=Batch.State.OPEN).select_related("study")
    batch = batches.first()
    if batch is None or batch.due_date is None or batch.due_date.isoformat() != mail.payload["due"]:
        return None
    return batch


def _address(
    mail: OutgoingMail, profile: MailProfile, values: dict[str, Any], batch: Batch, page: str
) -> MailContent:
    url = build_url(_find_prefix(batch.study), page, batch.name)
    return MailContent(mail.kind, profile.address, profile.language, values, url=url)


def _find_digest(mail: OutgoingMail) -> MailContent | None:
    """What the first page says waits for the person, in each of their studies; without anything there is no digest."""
    profile = _find_reader(mail)
    if profile is None:
        return None
    person = Person.objects.get(pk=profile.person_id)
    studies = Study.objects.in_bulk(list(list_visible_studies(person)))
    with limit_to_studies(studies, afresh=True):
        pending = list_pending_work(person)
    if not pending:
        return None
    is_among_several = len(studies) > 1
    lines = [
        MailLine(
            url=_build_line_url(line, _find_prefix(studies[line.study])),
            work=replace(line, name=clean_name(line.name)),
            study=clean_name(str(studies[line.study])) if is_among_several else "",
        )
        for line in pending[:MAX_LINES]
    ]
    values = {"n": len(pending), "n_more": max(0, len(pending) - MAX_LINES)}
    return MailContent(mail.kind, profile.address, profile.language, values, lines=tuple(lines))


def _build_line_url(line: PendingWork, study: str) -> str:
    page = PAGES.get(line.code, "batch")
    return build_url(study, page, line.name) if line.name else build_url(study, page)


def _manages(person: Person, batch: Batch) -> bool:
    return person.is_superuser or _has_role(person, batch.study_id, MANAGER)


def _has_role(person: Person, study_id: int, role: str) -> bool:
    return StudyMembership.objects.filter(person=person, study=study_id, role=role).exists()


_FINDERS: dict[MailKind, Callable[[OutgoingMail], MailContent | None]] = {
    MailKind.PASSWORD_RESET: _find_password_reset,
    MailKind.CONFIRM_ADDRESS: _find_confirmation,
    MailKind.ADDRESS_CHANGED: _find_address_change,
    MailKind.INVITATION: _find_invitation,
    MailKind.ALARM: _find_alarm,
    MailKind.FAILED_JOB: _find_failed_job,
    MailKind.DUE: _find_due,
    MailKind.OVERDUE: _find_overdue,
    MailKind.DIGEST: _find_digest,
}
