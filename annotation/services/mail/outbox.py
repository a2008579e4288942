"""The outbox: a mail is a row, written in the transaction of what causes it, and a job sends the rows.

Nothing is written where the site sends no mail. A secret in a mail's link is derived from the row and SECRET_KEY each
time that the mail is sent: the database has the hash of it alone, and a second attempt sends the same link.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.apps.registry import Apps
from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet
from django.utils import timezone
from django.utils.crypto import salted_hmac

from annotation.core.study_scope import limit_to_studies
from annotation.domain.mail.mail import LIFETIMES, MailKind
from annotation.models import Invitation, Job, OutgoingMail, Person
from annotation.selectors.jobs import AT_WORK
from annotation.selectors.mail.mail import is_mail_on
from annotation.services import jobs

JOB_KIND = "send_mail"
State = OutgoingMail.State


def derive_secret(uuid: UUID, purpose: str = "") -> str:
    """The 256 bits in the link of the mail with this number; ``purpose`` tells several of one mail apart."""
    digest = salted_hmac("annotation.mail_links", f"{uuid}:{purpose}", algorithm="sha256").digest()
    return urlsafe_b64encode(digest).decode().rstrip("=")


def post_mail(
    *,
    kind: MailKind,
    person: Person | None = None,
    address: str = "",
    language: str = "",
    study_id: int | None = None,
    invitation: Invitation | None = None,
    key: str | None = None,
    uuid: UUID | None = None,
    expires_at: datetime | None = None,
    **payload: Any,
) -> OutgoingMail | None:
    """Write the mail, which a worker sends once the transaction is over; None where the site sends none, or there is
    one of this ``key``. It is given up at ``expires_at`` or when its kind is not worth sending any more.
    """
    if not is_mail_on():
        return None
    now = timezone.now()
    lifetime_end = now + LIFETIMES[kind]
    mail = OutgoingMail(
        uuid=uuid or uuid4(),
        kind=kind.value,
        person=person,
        address=address,
        language=language,
        study_id=study_id,
        invitation=invitation,
        payload=payload,
        key=key,
        created_at=now,
        due_at=now,
        expires_at=lifetime_end if expires_at is None else min(expires_at, lifetime_end),
    )
    if key is None:
        mail.save()
    else:
        OutgoingMail.objects.bulk_create([mail], ignore_conflicts=True)
        if not OutgoingMail.objects.filter(uuid=mail.uuid).exists():
            return None
    transaction.on_commit(wake_sender, robust=True)
    return mail


def requeue_mail(mail: OutgoingMail, *, expires_at: datetime) -> bool:
    """Have a mail that was given up sent after all, as if it were new; False where it was not, or no mail is sent."""
    if not is_mail_on():
        return False
    now = timezone.now()
    changed = OutgoingMail.objects.filter(pk=mail.pk, state=State.FAILED).update(
        state=State.WAITING,
        due_at=now,
        expires_at=min(expires_at, now + LIFETIMES[MailKind(mail.kind)]),
        attempts=0,
        ended_at=None,
        error="",
        job=None,
        job_attempt=None,
    )
    transaction.on_commit(wake_sender, robust=True)
    return bool(changed)


def wake_sender() -> None:
    """Make the job that sends what is due, unless it is there. Called after each mail, and by beat."""
    now = timezone.now()
    if not is_mail_on() or not OutgoingMail.objects.filter(state=State.WAITING, due_at__lte=now).exists():
        return
    if Job.objects.filter(kind=JOB_KIND, state__in=AT_WORK).exists():
        return
    with limit_to_studies(None), transaction.atomic():
        job = jobs.enqueue(kind=JOB_KIND, payload={})
        Job.objects.filter(pk=job.pk).update(study=None)  # of the site, though it may have one study


def hold_mails(registry: Apps) -> int:
    """Drop all that waits, as a copy of a site must not send it once more; how many. The models may be those of an
    earlier version, which had no mail.
    """
    try:
        mails: Any = registry.get_model("annotation", "OutgoingMail")
    except LookupError:
        return 0
    waiting = mails.objects.filter(state__in=(State.WAITING, State.SENDING))
    number: int = waiting.update(state=State.DROPPED, ended_at=timezone.now(), job=None, job_attempt=None)
    return number


def release_dead_claims() -> int:
    """Free the mails whose sender runs no more; how many."""
    alive = Job.objects.filter(pk=OuterRef("job"), state=Job.State.RUNNING, attempt=OuterRef("job_attempt"))
    dead = OutgoingMail.objects.filter(~Exists(alive), state=State.SENDING)
    return dead.update(state=State.WAITING, job=None, job_attempt=None)


def claim_mail(job: Job) -> OutgoingMail | None:
    """The mail that is due first, which is this job's from now on; of several claimers one gets it."""
    while True:
        now = timezone.now()
        due = OutgoingMail.objects.filter(state=State.WAITING, due_at__lte=now).order_by("due_at", "pk")
        pk = due.values_list("pk", flat=True).first()
        if pk is None:
            return None
        claimed = OutgoingMail.objects.filter(pk=pk, state=State.WAITING).update(
            state=State.SENDING, job=job, job_attempt=job.attempt, attempts=F("attempts") + 1
        )
        if claimed:
            return OutgoingMail.objects.select_related("person", "study", "invitation").get(pk=pk)


def filter_claim(mail: OutgoingMail) -> QuerySet[OutgoingMail]:
    """The row, while it is still claimed as it was when ``mail`` was read."""
    return OutgoingMail.objects.filter(
        pk=mail.pk, state=State.SENDING, job=mail.job_id, job_attempt=mail.job_attempt
    )
