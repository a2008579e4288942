"""Mail as pages and processes read it: a person's profile, what waits and what failed, the mails of invitations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, Min, QuerySet
from django.utils import timezone
from django.utils.translation import get_language

from annotation.domain.mail.mail import build_address_key
from annotation.models import Invitation, MailProfile, OutgoingMail, Person

State = OutgoingMail.State
RECENT = timedelta(days=7)
MAX_FAILURES = 10
MAX_ACCOUNTS = 5
"""So many accounts of one address are named in a mail."""


@dataclass(frozen=True)
class MailLoad:
    """``waiting`` with what is being sent, and the age of the oldest of them; ``failed`` and ``sent`` of a week."""

    waiting: int
    oldest_seconds: float
    failed: int
    sent: int


def is_mail_on() -> bool:
    """Whether this site sends mail at all."""
    return settings.MAIL_SERVER is not None


def find_profile(person: Person) -> MailProfile:
    """The person's, or a new one that is not saved, in the language of now."""
    profile = MailProfile.objects.filter(person=person).first()
    return profile or MailProfile(person=person, language=get_mail_language())


def get_mail_language() -> str:
    """The language of now, of those that there are."""
    language = get_language() or ""
    return language if language in dict(settings.LANGUAGES) else settings.LANGUAGE_CODE


def list_accounts(address: str) -> list[MailProfile]:
    """The profiles of active people who have confirmed this address, in whatever case it is written."""
    profiles = MailProfile.objects.filter(address_key=build_address_key(address), person__is_active=True)
    return list(profiles.exclude(address="").select_related("person").order_by("pk")[:MAX_ACCOUNTS])


def measure_mail_load() -> MailLoad:
    waiting = OutgoingMail.objects.filter(state__in=(State.WAITING, State.SENDING))
    open_mail = waiting.aggregate(number=Count("pk"), oldest=Min("created_at"))
    oldest: datetime | None = open_mail["oldest"]
    since = timezone.now() - RECENT
    ended = OutgoingMail.objects.filter(state__in=(State.FAILED, State.SENT), ended_at__gte=since)
    numbers = dict(ended.order_by().values_list("state").annotate(number=Count("pk")))
    return MailLoad(
        waiting=open_mail["number"],
        oldest_seconds=(timezone.now() - oldest).total_seconds() if oldest else 0.0,
        failed=numbers.get(State.FAILED, 0),
        sent=numbers.get(State.SENT, 0),
    )


def list_failures() -> QuerySet[OutgoingMail]:
    """The latest of a week that were given up, and those that wait after an error."""
    since = timezone.now() - RECENT
    failed = OutgoingMail.objects.filter(state=State.FAILED, ended_at__gte=since)
    deferred = OutgoingMail.objects.filter(state=State.WAITING).exclude(error="")
    return (failed | deferred).select_related("person").order_by("-pk")[:MAX_FAILURES]


def list_invitation_mails(invitations: Iterable[Invitation]) -> dict[int, OutgoingMail]:
    """The latest mail of each of the invitations that was sent one, by the invitation's id."""
    ids = [invitation.pk for invitation in invitations]
    mails = OutgoingMail.objects.filter(invitation__in=ids).order_by("pk")
    return {mail.invitation_id: mail for mail in mails if mail.invitation_id is not None}
