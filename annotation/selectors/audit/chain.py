"""Whether the audit trail is as it was sealed (docs/decisions/audit-chain.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from annotation.core.errors import N_
from annotation.domain.audit import CONTENT, GENESIS, EventContent, chain_events, split_target
from annotation.domain.erasure import digest_certificate, digest_content, digest_rewrites
from annotation.domain.verbs import AnnotationVerb
from annotation.models import AuditEvent, AuditRewrite, AuditSeal, StudyDeletion
from annotation.models.sql.audit import list_unguarded_tables

BLOCK = 5000
SEALED_WITHIN = timedelta(minutes=15)
"""After so long an event that is not sealed is a problem: no beat, or no worker, runs."""
MAX_PROBLEMS = 20


@dataclass(frozen=True)
class ChainProblem:
    """``template.format(**params)`` is the sentence in English; ``event`` is the id of the event that it is about."""

    code: str
    template: str
    params: dict[str, Any] = field(default_factory=dict)
    event: int | None = None

    def __str__(self) -> str:
        return self.template.format(**self.params)


@dataclass(frozen=True)
class ChainHead:
    """The last seal. Kept elsewhere, it shows later that nothing up to it was taken away or written anew."""

    position: int
    digest: str
    event: int
    sealed_at: datetime


@dataclass(frozen=True)
class DeclaredErasure:
    """An erasure of a person: its event, the pseudonym, when, and how many events were rewritten by it."""

    event: int
    pseudonym: str
    at: datetime
    events: int


@dataclass(frozen=True)
class ChainReport:
    """``head`` is None where nothing is sealed yet; ``unsealed`` is the number of events that wait for their seal.

    ``erasures`` were declared: the events that they rewrote are as they were left by them, else they are problems.
    """

    events: int
    sealed: int
    unsealed: int
    head: ChainHead | None
    erasures: tuple[DeclaredErasure, ...]
    problems: tuple[ChainProblem, ...]


def find_last_seal(seals: QuerySet[AuditSeal]) -> AuditSeal | None:
    return seals.order_by("-position").first()


def find_head() -> ChainHead | None:
    seal = find_last_seal(AuditSeal.objects.all())
    if seal is None:
        return None
    return ChainHead(seal.position, bytes(seal.digest).hex(), seal.event_id, seal.sealed_at)


def verify_trail(
    *, head: tuple[int, str] | None = None, progress: Callable[[int], object] = lambda _number: None
) -> ChainReport:
    """Compute the whole chain again. ``head``: the position and hash of a head that was kept elsewhere.

    It reads block by block what is there when it begins; ``progress`` is called with the number of events of each.
    """
    newest = find_head()
    problems = [_build_guard_problem(table) for table in list_unguarded_tables()]
    if newest is not None:
        problems += _verify_seals(newest.position, progress)
    problems += _verify_head(head)
    erasures = list_erasures()
    problems += _verify_erasures()
    problems += _verify_certificates()
    sealed = Exists(AuditSeal.objects.filter(event=OuterRef("pk")))
    unsealed = AuditEvent.objects.filter(~sealed)
    late = unsealed.filter(at__lt=timezone.now() - SEALED_WITHIN).count()
    if late:
        problems.append(
            ChainProblem(
                "unsealed",
                N_(
                    "{number} events of the audit trail have waited for their seal for longer than {minutes} minutes:"
                    " start beat and a worker, or run manage.py audit_trail --seal."
                ),
                {"number": late, "minutes": SEALED_WITHIN.seconds // 60},
            )
        )
    return ChainReport(
        events=AuditEvent.objects.count(),
        sealed=AuditSeal.objects.count(),
        unsealed=unsealed.count(),
        head=newest,
        erasures=tuple(erasures),
        problems=tuple(problems[:MAX_PROBLEMS]),
    )


def list_trail_problems() -> list[ChainProblem]:
    """What is wrong with the audit trail: nothing, where nobody changed it and it is sealed."""
    return list(verify_trail().problems)


def _verify_seals(last: int, progress: Callable[[int], object]) -> Iterator[ChainProblem]:
    """After each fault it goes on from the hash that is stored, so that each changed event is named alone."""
    previous, expected = GENESIS, 1
    for start in range(0, last, BLOCK):
        seals = list(
            AuditSeal.objects.filter(position__gt=start, position__lte=min(start + BLOCK, last)).order_by(
                "position"
            )
        )
        rows = AuditEvent.objects.filter(pk__in=[seal.event_id for seal in seals]).values_list(*CONTENT)
        events = {row[0]: EventContent(*row) for row in rows}
        rewritten = _list_last_digests(events)
        for seal in seals:
            stored = bytes(seal.digest)
            event = events.get(seal.event_id)
            if seal.position != expected:
                yield _build_gap_problem(expected, seal.position - 1)
            elif event is None:
                yield ChainProblem(
                    "event_removed",
                    N_("Event {event} of the audit trail was removed: it has left its seal {position}."),
                    {"event": seal.event_id, "position": seal.position},
                    seal.event_id,
                )
            elif not _is_as_sealed(event, previous, stored, rewritten):
                yield ChainProblem(
                    "event_changed",
                    N_(
                        "Event {event} of the audit trail ({verb}, {target}) is not as it was when it was sealed on"
                        " {day}: it, its seal {position} or the seal before was changed."
                    ),
                    {
                        "event": seal.event_id,
                        "verb": event.verb,
                        "target": event.target,
                        "day": f"{seal.sealed_at:%Y-%m-%d}",
                        "position": seal.position,
                    },
                    seal.event_id,
                )
            previous, expected = stored, seal.position + 1
        progress(len(seals))
    if expected <= last:
        yield _build_gap_problem(expected, last)


def _is_as_sealed(
    event: EventContent, previous: bytes, stored: bytes, rewritten: Mapping[int, bytes]
) -> bool:
    """Whether it has the hash of its seal or, where an erasure rewrote it, the hash of the last of these."""
    if next(iter(chain_events(previous, [event]))) == stored:
        return True
    return event.id in rewritten and digest_content(event) == rewritten[event.id]


def _list_last_digests(events: Iterable[int]) -> dict[int, bytes]:
    """By event, of those that were rewritten: the hash that the last erasure left."""
    rewrites = AuditRewrite.objects.filter(event__in=list(events)).order_by("erasure_id")
    return {event: bytes(digest) for event, digest in rewrites.values_list("event", "digest")}


def list_erasures() -> list[DeclaredErasure]:
    """All of the site, the first one first."""
    events = AuditEvent.objects.filter(verb=AnnotationVerb.ERASE_PERSON.value).order_by("pk")
    return [
        DeclaredErasure(event.pk, split_target(event.target)[1], event.at, event.data.get("events", 0))
        for event in events
    ]


def _verify_erasures() -> Iterator[ChainProblem]:
    """The rewrites of each erasure are those that its own event, which is sealed, has the hash of."""
    declared = AuditEvent.objects.filter(verb=AnnotationVerb.ERASE_PERSON.value)
    digests = {event.pk: event.data.get("sha256") for event in declared}
    with_rewrites = (
        AuditRewrite.objects.order_by("erasure_id").values_list("erasure_id", flat=True).distinct()
    )
    for erasure in sorted({*digests, *with_rewrites}):
        rewrites = AuditRewrite.objects.filter(erasure=erasure).values_list("event", "digest")
        if digest_rewrites((event, bytes(digest)) for event, digest in rewrites) != digests.get(erasure):
            yield ChainProblem(
                "erasure_changed",
                N_(
                    "The events that erasure {event} of the audit trail rewrote are not those that it declared:"
                    " rewrites were added, changed or removed."
                ),
                {"event": erasure},
                erasure,
            )


def _verify_certificates() -> Iterator[ChainProblem]:
    """Each certificate of a deleted study is the one whose hash its own event has, which is sealed."""
    declared = {
        event.pk: event.data.get("sha256")
        for event in AuditEvent.objects.filter(verb=AnnotationVerb.DELETE_STUDY.value)
    }
    certified = {}
    for deletion in StudyDeletion.objects.exclude(finished_at=None).select_related("study").order_by("pk"):
        digest = digest_certificate(deletion.certificate)
        certified[deletion.event_id] = digest
        if digest != deletion.sha256 or declared.get(deletion.event_id or 0) != digest:
            yield ChainProblem(
                "certificate_changed",
                N_(
                    "The certificate of the deleted study {study} is not the one that event {event} of the audit trail"
                    " has the hash of: it was changed."
                ),
                {"study": deletion.study.name, "event": deletion.event_id},
                deletion.event_id,
            )
    for event in sorted(set(declared) - set(certified)):
        yield ChainProblem(
            "certificate_removed",
            N_(
                "Event {event} of the audit trail says that a study was deleted; its certificate is not there, or was"
                " changed."
            ),
            {"event": event},
            event,
        )


def _verify_head(head: tuple[int, str] | None) -> list[ChainProblem]:
    if head is None:
        return []
    position, digest = head
    seal = AuditSeal.objects.filter(position=position).first()
    if seal is not None and bytes(seal.digest).hex() == digest.lower():
        return []
    return [
        ChainProblem(
            "head",
            N_(
                "The audit trail does not have the hash {digest} at position {position}: it was cut off or written anew"
                " since that head was kept, or the head is of another site."
            ),
            {"digest": digest, "position": position},
        )
    ]


def _build_gap_problem(first: int, last: int) -> ChainProblem:
    return ChainProblem(
        "seals_removed",
        N_("The seals {first} to {last} of the audit trail were removed."),
        {"first": first, "last": last},
    )


def _build_guard_problem(table: str) -> ChainProblem:
    return ChainProblem(
        "unguarded",
        N_(
            "The triggers that refuse changes of {table} are not there, or are turned off. Find out who did that; the"
            " migration annotation 0055_audit_guard has their text."
        ),
        {"table": table},
    )
