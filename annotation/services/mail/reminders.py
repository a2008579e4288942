"""What causes mail without anybody's asking for it: alarms, failed jobs, due dates, digests.

Who gets it is found twice: here, so that nobody without an address has a row, and again when it is sent. Each has a
key, so that it is written once however often a worker comes by.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from annotation.domain.mail.mail import MailKind
from annotation.models import MANAGER, Alarm, Batch, Job, MailProfile, Membership, Person, StudyMembership
from annotation.selectors.mail.mail import is_mail_on
from annotation.services.jobs import job_failed
from annotation.services.mail.outbox import post_mail

logger = logging.getLogger(__name__)
OVERDUE_DAYS = 7
"""For so long after its due date a batch that is open may still be announced, where no worker ran before."""
MONDAY, TUESDAY = 0, 1
TOLD_TO_MANAGERS: set[str] = set()
"""Kinds of jobs whose failing the managers of the study are told of, beside who started them."""


def tell_managers_of(kind: str) -> None:
    """Register a kind of job on which a study waits, such as a collection of responses."""
    TOLD_TO_MANAGERS.add(kind)


def post_alarm(alarm: Alarm) -> None:
    """To the managers of the batch's study."""
    for person in _list_managers(alarm.batch, "alarms"):
        key = f"alarm:{alarm.pk}:{person.pk}"
        study = alarm.batch.study_id
        post_mail(kind=MailKind.ALARM, person=person, study_id=study, key=key, alarm=alarm.pk)


def post_reminders(now: datetime | None = None) -> None:
    """Due dates, dates that have passed, and digests, from the hour of the settings on; twice posts nothing twice."""
    local = timezone.localtime(now)
    if not is_mail_on() or local.time() < settings.REMIND_AT:
        return
    for post in (_post_due_dates, _post_overdue, _post_digests):
        try:
            post(local)
        except Exception:  # the other kinds are worth sending
            logger.exception("reminders could not be written")


def connect_signals() -> None:
    """Listen to jobs that fail; called once, at the start."""
    job_failed.connect(_post_failed_job, dispatch_uid="mail")


@transaction.atomic
def _post_failed_job(job: Job, **_signal: Any) -> None:
    """To who started it; of a collection to the managers as well."""
    if not is_mail_on():
        return
    readers = Q(person=job.created_by_id)
    if job.kind in TOLD_TO_MANAGERS and job.study_id is not None:
        readers |= Q(person__in=_select_managers(job.study_id))
    for person in _list_people(_select_profiles("failed_jobs").filter(readers)):
        key = f"job:{job.pk}:{job.attempt}:{person.pk}"
        post_mail(kind=MailKind.FAILED_JOB, person=person, study_id=job.study_id, key=key, job=job.pk)


def _post_due_dates(now: datetime) -> None:
    """To who works in a batch that is due soon; what is left for them is found when it is sent."""
    if not settings.DUE_DAYS:
        return
    today = now.date()
    soon = Batch.objects.filter(
        state=Batch.State.OPEN, due_date__gte=today, due_date__lte=today + timedelta(days=settings.DUE_DAYS)
    )
    for batch in soon:
        members = Membership.objects.filter(batch=batch, active=True).values("person")
        for person in _list_people(_select_profiles("due_dates").filter(person__in=members)):
            _post_due(MailKind.DUE, batch, person)


def _post_overdue(now: datetime) -> None:
    today = now.date()
    late = Batch.objects.filter(
        state=Batch.State.OPEN, due_date__lt=today, due_date__gte=today - timedelta(days=OVERDUE_DAYS)
    )
    for batch in late:
        for person in _list_managers(batch, "due_dates"):
            _post_due(MailKind.OVERDUE, batch, person)


def _post_due(kind: MailKind, batch: Batch, person: Person) -> None:
    assert batch.due_date is not None
    due = batch.due_date.isoformat()
    key = f"{kind.value}:{batch.pk}:{due}:{person.pk}"
    post_mail(kind=kind, person=person, study_id=batch.study_id, key=key, batch=batch.pk, due=due)


def _post_digests(now: datetime) -> None:
    """One a day, or one a week: on Monday, or on Tuesday where no worker ran on Monday."""
    year, week, _day = now.isocalendar()
    profiles = _select_profiles("digest")
    daily = profiles.filter(digest=MailProfile.Digest.DAILY)
    for person in _list_people(daily):
        post_mail(kind=MailKind.DIGEST, person=person, key=f"digest:{now.date().isoformat()}:{person.pk}")
    if now.weekday() in {MONDAY, TUESDAY}:
        for person in _list_people(profiles.filter(digest=MailProfile.Digest.WEEKLY)):
            post_mail(kind=MailKind.DIGEST, person=person, key=f"digest:{year}-W{week:02d}:{person.pk}")


def _list_managers(batch: Batch, switch: str) -> list[Person]:
    managers = _select_managers(batch.study_id)
    return _list_people(_select_profiles(switch).filter(person__in=managers))


def _select_managers(study_id: int) -> Any:
    return StudyMembership.objects.filter(study=study_id, role=MANAGER).values("person")


def _select_profiles(switch: str) -> Any:
    """Of active people who have an address and want what the switch is about."""
    is_off = Q(digest=MailProfile.Digest.OFF) if switch == "digest" else Q(**{switch: False})
    return MailProfile.objects.filter(~is_off, person__is_active=True).exclude(address="")


def _list_people(profiles: Any) -> list[Person]:
    return [profile.person for profile in profiles.select_related("person").order_by("pk")]
