"""Set-up links of a person, and what they are to be told of them."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Q, QuerySet
from django.utils import timezone

from annotation.models import Person, SetupLink
from annotation.selectors.invitations import State, hashed, state_of

TOLD_DAYS = 90


def setup_links(person: Person) -> QuerySet[SetupLink]:
    """With what ``state_of`` asks for, the latest first."""
    links = SetupLink.objects.filter(person=person).select_related("created_by", "person")
    return links.prefetch_related("created_by__groups").order_by("-id")


def find_setup_link(secret: str) -> SetupLink | None:
    links = SetupLink.objects.filter(secret_sha256=hashed(secret)).select_related("created_by", "person")
    return links.first()


def state_of_setup_link(link: SetupLink) -> State:
    """It ends, too, when its person becomes an admin and whoever made it is none."""
    state, maker = state_of(link), link.created_by
    above = link.person.is_superuser and not (maker is not None and maker.is_superuser)
    return State.REVOKED if state == State.WAITING and above else state


def lately(person: Person) -> list[tuple[SetupLink, State]]:
    """Those of the last three months, those that were used at any time, and those that the person has not read of."""
    since = timezone.now() - timedelta(days=TOLD_DAYS)
    return [
        (link, state_of_setup_link(link))
        for link in setup_links(person).filter(
            Q(created_at__gt=since) | Q(accepted_at__isnull=False) | Q(seen_at=None)
        )
    ]


def notices(person: Person) -> list[tuple[SetupLink, State]]:
    """What every page tells the person. With one that they have not read of come the others: who used a link in their
    place may have said that it was read.
    """
    return lately(person) if SetupLink.objects.filter(person=person, seen_at=None).exists() else []
