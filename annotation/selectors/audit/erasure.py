"""What the erasure of a person would take away and what would stay (docs/decisions/erasure.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.models import Session
from django.db.models import Q, QuerySet
from django.utils import timezone

from annotation.core.errors import N_
from annotation.domain.audit import CONTENT, EventContent
from annotation.domain.erasure import NAME_KEYS, ErasedPerson
from annotation.domain.verbs import AnnotationVerb
from annotation.models import (
    Adjudication,
    Annotation,
    ApiToken,
    Assignment,
    AuditEvent,
    CorrectionRequest,
    Draft,
    Export,
    Exposure,
    GuidelineNote,
    HeaderMapping,
    IdempotencyKey,
    Import,
    Invitation,
    ItemMessage,
    MailProfile,
    OutgoingMail,
    Person,
    SetupLink,
    SignInSession,
    StudyMembership,
)

MIN_SOUGHT = 3
"""Shorter names are not looked for in texts: they are parts of too many words."""


@dataclass(frozen=True)
class ErasurePart:
    """``label`` says what it is, in English, to be translated; ``number`` is how many there are."""

    code: str
    label: str
    number: int


@dataclass(frozen=True)
class ErasurePreview:
    """``exports`` are the files with people's names that somebody must discard, as ``release/format``."""

    goes: tuple[ErasurePart, ...]
    stays: tuple[ErasurePart, ...]
    exports: tuple[str, ...]


def preview_erasure(person: Person) -> ErasurePreview:
    identity = build_identity(person, "")
    goes = [
        ErasurePart(
            "account",
            N_("names, address, password, languages, own models, topics and settings of the account"),
            1,
        ),
        *(ErasurePart(code, label, select(person).count()) for code, label, select in ERASED_ROWS),
        ErasurePart("sessions", N_("sessions"), len(list_sessions(person))),
        ErasurePart(
            "audit",
            N_("events of the audit trail that lose their names, addresses and browsers"),
            sum(1 for _event in iterate_rewrites(identity)),
        ),
    ]
    annotations = Annotation.objects.filter(assignment__person=person)
    decisions = Adjudication.objects.filter(assignment__person=person)
    stays = [
        ErasurePart(
            "labels", N_("labels, under the pseudonym: gold and agreement rest on them"), annotations.count()
        ),
        ErasurePart("decisions", N_("decisions of disputes, likewise"), decisions.count()),
        ErasurePart(
            "rationales",
            N_("rationales and reasons beside them, which are part of what was labelled"),
            annotations.exclude(rationale="", reason="").count() + decisions.exclude(rationale="").count(),
        ),
        ErasurePart(
            "mentions",
            N_("texts by anyone that contain one of the names: review them, they are not changed"),
            count_mentions(identity.names),
        ),
        ErasurePart(
            "imports",
            N_("imported files with their labels, which stay as imported"),
            Import.objects.filter(labels__assignment__person=person).distinct().count(),
        ),
        ErasurePart(
            "events",
            N_("events of what they did, without name, address and browser"),
            AuditEvent.objects.filter(actor=person).count(),
        ),
    ]
    exports = Export.objects.filter(options__real_names=True).select_related("release").order_by("pk")
    return ErasurePreview(tuple(goes), tuple(stays), tuple(map(_name_export, exports)))


def _name_export(export: Export) -> str:
    return f"{export.release.name}/{export.format}"


def build_identity(person: Person, pseudonym: str) -> ErasedPerson:
    """With every name that the person was shown by, as the audit trail has them."""
    displayed = AuditEvent.objects.filter(
        verb=AnnotationVerb.SET_DISPLAY_NAME.value, target=f"person:{person.username}"
    ).values_list("data__display_name", flat=True)
    names = {person.username, person.display_name, person.email, person.get_full_name(), *displayed}
    return ErasedPerson(
        id=person.pk,
        username=person.username,
        names=frozenset(name for name in names if isinstance(name, str) and name),
        pseudonym=pseudonym,
    )


def iterate_rewrites(identity: ErasedPerson) -> Iterator[EventContent]:
    """The events that change, as they will be. It reads those of the person and those that name anybody."""
    concerned = (
        Q(actor=identity.id)
        | Q(target=f"person:{identity.username}")
        | Q(target__startswith="admin:person ")
        | Q(data__has_any_keys=[*sorted(NAME_KEYS), "filters"])
    )
    for row in AuditEvent.objects.filter(concerned).order_by("pk").values_list(*CONTENT).iterator():
        event = EventContent(*row)
        rewritten = identity.rewrite(event)
        if rewritten != event:
            yield rewritten


def list_sessions(person: Person) -> list[str]:
    """The keys of their sessions, among those that have not ended."""
    live = Session.objects.filter(expire_date__gte=timezone.now())
    return [row.session_key for row in live if row.get_decoded().get("_auth_user_id") == str(person.pk)]


def count_mentions(names: Iterable[str]) -> int:
    sought = [name for name in names if len(name) >= MIN_SOUGHT]
    number = 0
    for rows, field in (
        (Annotation.objects.all(), "rationale"),
        (Adjudication.objects.all(), "rationale"),
        (GuidelineNote.objects.all(), "text"),
        (ItemMessage.objects.all(), "text"),
        (Invitation.objects.all(), "note"),
    ):
        condition = Q()
        for name in sought:
            condition |= Q(**{f"{field}__icontains": name})
        number += rows.filter(condition).count() if sought else 0
    return number


def select_tokens(person: Person) -> QuerySet[ApiToken]:
    return ApiToken.objects.filter(person=person)


def select_setup_links(person: Person) -> QuerySet[SetupLink]:
    return SetupLink.objects.filter(person=person)


def select_addresses(person: Person) -> QuerySet[EmailAddress]:
    addresses: QuerySet[EmailAddress] = EmailAddress.objects.filter(user=person)
    return addresses


def select_mail_profile(person: Person) -> QuerySet[MailProfile]:
    return MailProfile.objects.filter(person=person)


def select_mails(person: Person) -> QuerySet[OutgoingMail]:
    """Those to them, those to an address of theirs, and the invitation that they accepted."""
    addresses = MailProfile.objects.filter(person=person).exclude(address="").values("address")
    to_person = Q(person=person) | Q(invitation__accepted_by=person) | Q(address__in=addresses)
    return OutgoingMail.objects.filter(to_person)


def select_sign_ins(person: Person) -> QuerySet[SignInSession]:
    return SignInSession.objects.filter(person=person)


def select_factors(person: Person) -> QuerySet[Authenticator]:
    factors: QuerySet[Authenticator] = Authenticator.objects.filter(user=person)
    return factors


def select_provider_accounts(person: Person) -> QuerySet[SocialAccount]:
    accounts: QuerySet[SocialAccount] = SocialAccount.objects.filter(user=person)
    return accounts


def select_calls(person: Person) -> QuerySet[IdempotencyKey]:
    return IdempotencyKey.objects.filter(person=person)


def select_roles(person: Person) -> QuerySet[StudyMembership]:
    return StudyMembership.objects.filter(person=person)


def select_drafts(person: Person) -> QuerySet[Draft]:
    return Draft.objects.filter(assignment__person=person)


def select_mappings(person: Person) -> QuerySet[HeaderMapping]:
    return HeaderMapping.objects.filter(person=person)


def select_exposures(person: Person) -> QuerySet[Exposure]:
    return Exposure.objects.filter(person=person)


def select_waiting_invitations(person: Person) -> QuerySet[Invitation]:
    return Invitation.objects.filter(created_by=person, accepted_at=None, revoked_at=None)


def select_invitation_notes(person: Person) -> QuerySet[Invitation]:
    return Invitation.objects.filter(accepted_by=person).exclude(note="")


def select_skip_reasons(person: Person) -> QuerySet[Assignment]:
    return Assignment.objects.filter(person=person).exclude(skip_reason="")


def select_correction_reasons(person: Person) -> QuerySet[CorrectionRequest]:
    return CorrectionRequest.objects.filter(assignment__person=person).exclude(reason="")


def select_messages(person: Person) -> QuerySet[ItemMessage]:
    return ItemMessage.objects.filter(created_by=person)


def select_admin_log(person: Person) -> QuerySet[LogEntry]:
    kind = ContentType.objects.get_for_model(Person)
    return LogEntry.objects.filter(content_type=kind, object_id=str(person.pk))


ERASED_ROWS: tuple[tuple[str, str, Callable[[Person], QuerySet]], ...] = (  # type: ignore[type-arg]
    ("tokens", N_("API tokens"), select_tokens),
    ("setup_links", N_("set-up links"), select_setup_links),
    ("addresses", N_("e-mail addresses"), select_addresses),
    ("mail_profile", N_("confirmed addresses, and what is sent there"), select_mail_profile),
    ("mails", N_("mails that wait or were sent"), select_mails),
    ("sign_ins", N_("browsers in which they are signed in"), select_sign_ins),
    ("factors", N_("second factors"), select_factors),
    ("provider_accounts", N_("links to accounts at identity providers"), select_provider_accounts),
    ("calls", N_("answers kept for programs that ask again"), select_calls),
    ("roles", N_("roles in studies"), select_roles),
    ("drafts", N_("drafts that were not submitted"), select_drafts),
    ("mappings", N_("columns of files that they named"), select_mappings),
    ("exposures", N_("days of the count of points"), select_exposures),
    ("waiting", N_("their pending invitations, which are cancelled"), select_waiting_invitations),
    ("notes", N_("notes on their invitations"), select_invitation_notes),
    ("skips", N_("reasons for skipping an item"), select_skip_reasons),
    ("corrections", N_("reasons for correction requests"), select_correction_reasons),
    ("messages", N_("messages about items"), select_messages),
    ("admin_log", N_("lines in the admin's own log"), select_admin_log),
)
"""The declared list: what is deleted or emptied, beside the account, the sessions and the audit trail."""
