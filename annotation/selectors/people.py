"""People and how they sign in: invitations and set-up links, which work once, sign-ins, and API tokens.

A set-up link and an invitation are stored by the hash of their secret. Sign-ins come from the audit trail, so that a
person sees whether somebody else tried, and from where. Of API tokens everything is listed but the tokens themselves.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from allauth.mfa.models import Authenticator
from django.contrib.sessions.models import Session
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from annotation.core.errors import N_, NotFound
from annotation.core.study_scope import build_study_filter, get_study_scope
from annotation.domain.verbs import AnnotationVerb
from annotation.models import (
    ANNOTATOR,
    MANAGER,
    ApiToken,
    AuditEvent,
    Batch,
    Invitation,
    Membership,
    OneTimeLink,
    Person,
    SetupLink,
    SignInSession,
    Study,
    StudyMembership,
)
from annotation.selectors.access import sealed_batches
from annotation.selectors.assignments.availability import list_ruled_out_strata
from annotation.selectors.counts import count_by_stratum


def get_people(names: list[str]) -> list[Person]:
    """The people of these names, in this order; an unknown name is an error."""
    people = {person.username: person for person in select_people().filter(username__in=names)}
    unknown = [name for name in names if name not in people]
    if unknown:
        raise NotFound(N_("There is no person named {names}."), names=", ".join(unknown))
    return [people[name] for name in dict.fromkeys(names)]


def get_account(username: str) -> Person:
    """The active person who signs in by this whole name, in whatever study they are; NotFound for anybody else, such as
    somebody whose name came with labels that were made elsewhere.
    """
    person = Person.objects.filter(username=username.strip(), is_active=True).first()
    if person is None or not (person.has_usable_password() or person.study_memberships.exists()):
        raise NotFound(N_("Nobody signs in as {name}."), name=username)
    return person


def list_people_in_role(role: str) -> QuerySet[Person]:
    """Those who are active, of the studies that the work under way is about."""
    return Person.objects.filter(Exists(_build_roles(role)), is_active=True).order_by("username")


def _build_roles(role: str = "") -> QuerySet[StudyMembership]:
    """The roles of a person of an outer query within the scope: all, or this one."""
    memberships, studies = StudyMembership.objects.filter(person=OuterRef("pk")), get_study_scope()
    if studies is not None:
        memberships = memberships.filter(study__in=studies)
    return memberships.filter(role=role) if role else memberships


def select_people() -> QuerySet[Person]:
    """Everybody whom the work under way may know of: who has a role in its studies, or a part in a batch of theirs. On
    a site with one study these are all.
    """
    studies = get_study_scope()
    if studies is None or Study.objects.exclude(pk__in=studies).first() is None:
        return Person.objects.all()
    parts = Membership.objects.filter(person=OuterRef("pk"), batch__study__in=studies)
    return Person.objects.filter(Exists(_build_roles()) | Exists(parts))


def get_person(name: str) -> Person:
    return get_people([name])[0]


def list_people(words: str = "", role: str = "") -> QuerySet[Person]:
    """People with their roles: all, or those with ``words`` in a name of theirs, and those of a role."""
    people = select_people().prefetch_related("study_memberships").order_by("-is_active", "username")
    if words:
        people = people.filter(Q(username__icontains=words) | Q(display_name__icontains=words))
    return people.filter(Exists(_build_roles(role))) if role else people


@dataclass(frozen=True)
class BatchRestriction:
    """Of the ``items`` of a batch that are not settled, ``ruled_out`` are not for a person who annotates there."""

    batch: Batch
    items: int
    ruled_out: int


def list_restrictions(person: Person, *, reader: Person) -> list[BatchRestriction]:
    """What a person's languages, own models and exclusions mean in the batches where they annotate now; nothing of
    the batches in which ``reader`` judges blind.
    """
    memberships = (
        Membership.objects.filter(
            person=person, role=Membership.Role.ANNOTATOR, active=True, **build_study_filter("batch__study")
        )
        .exclude(batch__state=Batch.State.CLOSED)
        .exclude(batch__in=sealed_batches(reader))
        .select_related("batch", "person")
        .order_by("-batch__created_at")
    )
    consequences = []
    for membership in memberships:
        ruled_out = set(list_ruled_out_strata(membership))
        if ruled_out:
            items = {
                stratum.pk: counts["open"]
                for stratum, counts in count_by_stratum([membership.batch_id]).items()
            }
            ruled_out_items = sum(number for stratum, number in items.items() if stratum in ruled_out)
            consequences.append(BatchRestriction(membership.batch, sum(items.values()), ruled_out_items))
    return [consequence for consequence in consequences if consequence.ruled_out]


class LinkState(StrEnum):
    WAITING = "waiting"
    ACCEPTED = "accepted"
    EXPIRED = "expired"
    REVOKED = "revoked"


def hash_secret(secret: str) -> str:
    """What is stored of a link's secret. It is long and random, so that a plain hash tells nothing of it."""
    return hashlib.sha256(secret.encode()).hexdigest()


def list_invitations() -> QuerySet[Invitation]:
    """Those of the studies that the work under way is about, the latest first, with what ``read_link_state`` reads."""
    invitations = Invitation.objects.select_related("created_by", "accepted_by", "batch", "study")
    studies = get_study_scope()
    if studies is not None:
        invitations = invitations.filter(study__in=studies)
    return invitations.prefetch_related("created_by__study_memberships").order_by("-id")


def list_left_out(invitations: Iterable[Invitation]) -> frozenset[int]:
    """The ids of those whose person has accepted and is no member of their batch."""
    accepted = [
        invitation.pk for invitation in invitations if invitation.batch_id and invitation.accepted_by_id
    ]
    members = Membership.objects.filter(batch=OuterRef("batch"), person=OuterRef("accepted_by"))
    left_out = Invitation.objects.filter(~Exists(members), pk__in=accepted)
    return frozenset(left_out.values_list("pk", flat=True))


def find_invitation(secret: str) -> Invitation | None:
    return list_invitations().filter(secret_sha256=hash_secret(secret)).first()


def read_link_state(link: OneTimeLink) -> LinkState:
    """A link ends with the power of whoever sent it: none outlives its manager's leaving."""
    if link.accepted_at is not None:
        return LinkState.ACCEPTED
    study = link.study_id if isinstance(link, Invitation) else None
    needs_maker = not (isinstance(link, SetupLink) and link.by_mail)
    if link.revoked_at is not None or (needs_maker and not _may_invite(link.created_by, study)):
        return LinkState.REVOKED
    return LinkState.EXPIRED if link.expires_at <= timezone.now() else LinkState.WAITING


def count_invited_annotators(batch: Batch) -> int:
    """How many people may still join the batch as annotators by an invitation."""
    invitations = Invitation.objects.filter(batch=batch, accepted_at=None, revoked_at=None)
    return sum(
        ANNOTATOR in invitation.roles and read_link_state(invitation) == LinkState.WAITING
        for invitation in invitations.select_related("created_by")
    )


def _may_invite(person: Person | None, study: int | None) -> bool:
    """Whether they manage the study, or any where none is meant."""
    if person is None or not person.is_active:
        return False
    return person.is_superuser or any(
        membership.role == MANAGER and study in (None, membership.study_id)
        for membership in person.study_memberships.all()
    )


RECENT_LINK_DAYS = 90


def list_setup_links(person: Person) -> QuerySet[SetupLink]:
    """With what ``state_of`` asks for, the latest first."""
    links = SetupLink.objects.filter(person=person).select_related("created_by", "person")
    return links.prefetch_related("created_by__study_memberships").order_by("-id")


def find_setup_link(secret: str) -> SetupLink | None:
    links = SetupLink.objects.filter(secret_sha256=hash_secret(secret)).select_related("created_by", "person")
    return links.first()


def read_setup_link_state(link: SetupLink) -> LinkState:
    """It ends, too, when its person becomes an admin and whoever made it is none."""
    state, maker = read_link_state(link), link.created_by
    if link.by_mail:
        return state
    above = link.person.is_superuser and not (maker is not None and maker.is_superuser)
    return LinkState.REVOKED if state == LinkState.WAITING and above else state


def list_recent_setup_links(person: Person) -> list[tuple[SetupLink, LinkState]]:
    """Those of the last three months, those that were used at any time, and those that the person has not read of."""
    since = timezone.now() - timedelta(days=RECENT_LINK_DAYS)
    return [
        (link, read_setup_link_state(link))
        for link in list_setup_links(person).filter(
            Q(created_at__gt=since) | Q(accepted_at__isnull=False) | Q(seen_at=None)
        )
    ]


def list_setup_link_notices(person: Person) -> list[tuple[SetupLink, LinkState]]:
    """What every page tells the person. With one that they have not read of come the others: who used a link in their
    place may have said that it was read.
    """
    return (
        list_recent_setup_links(person)
        if SetupLink.objects.filter(person=person, seen_at=None).exists()
        else []
    )


SIGN_IN_VERBS = (
    AnnotationVerb.SIGN_IN.value,
    AnnotationVerb.SIGN_OUT.value,
    AnnotationVerb.SIGN_IN_FAILED.value,
    AnnotationVerb.SIGN_IN_THROTTLED.value,
)
MAX_SIGN_INS = 10
KNOWN_ADDRESS_DAYS = 90
# The first that fits: most browsers name others, too, and a phone's system names a computer's.
_BROWSERS = {
    "Edge": r"\bEdgA?/",
    "Opera": r"\bOPR/",
    "WeChat": r"\bMicroMessenger/",
    "Firefox": r"\b(Firefox|FxiOS)/",
    "Chrome": r"(Chrome|Chromium|CriOS)/",
    "Safari": r"\bSafari/",
}
_SYSTEMS = {
    "Android": r"Android",
    "iOS": r"iPhone|iPad",
    "HarmonyOS": r"HarmonyOS|OpenHarmony",
    "Windows": r"Windows",
    "macOS": r"Mac OS X|Macintosh",
    "Linux": r"Linux|X11",
}
MAX_OTHER_LENGTH = 40


@dataclass(frozen=True)
class SignInRow:
    at: datetime
    verb: str
    address: str
    device: str
    agent: str


def list_sign_ins(person: Person) -> list[SignInRow]:
    """The last ten events, the newest first."""
    events = AuditEvent.objects.filter(target=f"person:{person.username}", verb__in=SIGN_IN_VERBS)
    return [
        SignInRow(
            at=event.at,
            verb=event.verb,
            address=event.address,
            device=describe_agent(event.agent),
            agent=event.agent,
        )
        for event in events.order_by("-id")[:MAX_SIGN_INS]
    ]


def has_signed_in_from(name: str, address: str) -> bool:
    """Whether the person of this name has, in the last 90 days."""
    lately = timezone.now() - timedelta(days=KNOWN_ADDRESS_DAYS)
    sign_ins = AuditEvent.objects.filter(
        target=f"person:{name}", verb=AnnotationVerb.SIGN_IN.value, at__gte=lately
    )
    return sign_ins.filter(address=address).exists()


def describe_agent(agent: str) -> str:
    """Browser and system, such as "Firefox, Linux"; of what is neither the beginning as it was sent."""
    names = [_first_match(_BROWSERS, agent), _first_match(_SYSTEMS, agent)]
    return ", ".join(filter(None, names)) or agent[:MAX_OTHER_LENGTH]


def _first_match(patterns: dict[str, str], agent: str) -> str:
    return next((name for name, pattern in patterns.items() if re.search(pattern, agent)), "")


@dataclass(frozen=True)
class SessionRow:
    session: SignInSession
    device: str
    is_own: bool
    """Whether it is the session in which the page is read."""


def list_sessions(person: Person, *, own_key: str = "") -> list[SessionRow]:
    """The browsers in which the person is signed in, the last used first. A row whose session Django has let go is left
    out.
    """
    live = Session.objects.filter(session_key=OuterRef("session_key"), expire_date__gt=timezone.now())
    sessions = SignInSession.objects.filter(Exists(live), person=person).order_by("-seen_at", "-pk")
    return [
        SessionRow(session, describe_agent(session.agent), session.session_key == own_key)
        for session in sessions
    ]


def list_factors(person: Person) -> QuerySet[Authenticator]:
    """The second factors of the person, recovery codes among them, the oldest first."""
    factors: QuerySet[Authenticator] = Authenticator.objects.filter(user=person).order_by("pk")
    return factors


def exists_passkey() -> bool:
    """Whether anybody on the site has a passkey."""
    return bool(Authenticator.objects.filter(type=Authenticator.Type.WEBAUTHN).exists())


ENDED_DAYS = 90  # an ended token is listed so long, with why it ended


@dataclass(frozen=True)
class ApiTokenRow:
    token: ApiToken
    live: bool
    expired: bool


def list_live_tokens(person: Person) -> QuerySet[ApiToken]:
    unexpired = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    return ApiToken.objects.filter(unexpired, person=person, ended_at=None)


def list_tokens(person: Person) -> list[ApiTokenRow]:
    """The person's tokens that work and those that ended lately, the newest first."""
    now = timezone.now()
    lately = now - timedelta(days=ENDED_DAYS)
    tokens = ApiToken.objects.filter(person=person).exclude(Q(ended_at__lt=lately) | Q(expires_at__lt=lately))
    listed = []
    for token in tokens:
        expired = token.ended_at is None and token.expires_at is not None and token.expires_at <= now
        listed.append(ApiTokenRow(token, live=token.ended_at is None and not expired, expired=expired))
    return listed
