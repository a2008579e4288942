"""Reading the audit trail: which events a person may see, and pages of them.

An admin reads all; a manager what was done in their studies. Whoever judges blind reads, beside their own acts, only
what tells of no label, model or result, until their batches close. And what an event holds of labels and results is
shown to nobody here: who reads it on the page of the task, the batch or the scorer is recorded there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone

from annotation.core.study_scope import get_study_scope
from annotation.domain.audit import KINDS, find_verb, list_verbs, select_verbs
from annotation.domain.permissions import READ_AUDIT
from annotation.models import AuditEvent, Person, Study
from annotation.selectors.access import list_studies_to, sealed_batches

PAGE = 50
BLOCK = 2000
TELLING_NOTHING = frozenset(
    {
        "already_there",
        "attempt",
        "campaign",
        "dataset",
        "expires_at",
        "export",
        "file",
        "format",
        "guideline",
        "job",
        "kind",
        "language",
        "line",
        "link",
        "names",
        "people",
        "person",
        "rationales",
        "real_names",
        "release_sha256",
        "responses",
        "reviewer",
        "role",
        "run",
        "scorer",
        "seed",
        "sha256",
        "slates",
        "study",
        "supersedes",
        "taken",
        "tasks",
        "title",
        "to",
        "weights_sha256",
        "with_published",
    }
)
"""What is shown of the data of an event that may tell of labels and results."""


@dataclass(frozen=True)
class TrailFilter:
    """``kinds`` and ``key`` are of the target; ``before`` and ``after`` ids of events where a page begins."""

    since: date | None = None
    until: date | None = None
    person: str = ""
    category: str = ""
    verb: str = ""
    kinds: tuple[str, ...] = ()
    key: str = ""
    study: int | None = None
    before: int | None = None
    after: int | None = None


@dataclass(frozen=True)
class TrailPage:
    """Newest first. ``newer`` and ``older``: whether there are more in that direction."""

    events: list[AuditEvent]
    newer: bool
    older: bool


def list_audited_studies(reader: Person) -> list[Study]:
    """Those whose events the reader may see."""
    studies = list_studies_to(reader, READ_AUDIT)
    rows = Study.objects.order_by("name")
    return list(rows if studies is None else rows.filter(pk__in=studies))


def is_blinded(reader: Person) -> bool:
    """Whether the trail leaves out what might tell them of labels, because they judge blind."""
    return sealed_batches(reader).exists()


def select_events(reader: Person, choice: TrailFilter) -> QuerySet[AuditEvent]:
    """The events that the reader may see and that the filter leaves, in no order."""
    events = _select_visible(reader).select_related("actor", "study", "seal")
    if choice.since:
        events = events.filter(at__gte=_get_beginning(choice.since))
    if choice.until:
        events = events.filter(at__lt=_get_beginning(choice.until + timedelta(days=1)))
    if choice.person:
        # Asked first, so that the index by actor is used.
        actor = Person.objects.filter(username=choice.person).values_list("pk", flat=True).first()
        events = events.filter(actor=actor) if actor is not None else events.none()
    if choice.category:
        events = events.filter(verb__in=select_verbs(choice.category))
    if choice.verb:
        events = events.filter(verb=choice.verb)
    if choice.key:
        kinds = choice.kinds or tuple(KINDS)
        events = events.filter(target__in=[f"{kind}:{choice.key}" for kind in kinds])
    elif choice.kinds:
        about = [verb.value for verb in list_verbs() if set(verb.meaning.targets) & set(choice.kinds)]
        of_kind = Q()
        for kind in choice.kinds:
            of_kind |= Q(target=kind) | Q(target__startswith=f"{kind}:")
        events = events.filter(of_kind, verb__in=about)
    if choice.study is not None:
        events = events.filter(study=choice.study)
    return events


def list_page(reader: Person, choice: TrailFilter) -> TrailPage:
    """One page, by the place of the event before or after which it begins: as fast at the end as at the beginning."""
    events = select_events(reader, choice)
    if choice.after is not None:
        rows = list(_from_event(events, choice.after, is_newer=True).order_by("at", "id")[: PAGE + 1])
        return TrailPage(rows[:PAGE][::-1], newer=len(rows) > PAGE, older=True)
    if choice.before is not None:
        events = _from_event(events, choice.before, is_newer=False)
    rows = list(events.order_by("-at", "-id")[: PAGE + 1])
    return TrailPage(rows[:PAGE], newer=choice.before is not None, older=len(rows) > PAGE)


def iterate_events(events: QuerySet[AuditEvent]) -> Iterator[AuditEvent]:
    """All of them, oldest first, in blocks: none is held for longer than it takes to write it."""
    last: AuditEvent | None = None
    while True:
        block = events if last is None else _from_place(events, last.at, last.pk, is_newer=True)
        rows = list(block.order_by("at", "id")[:BLOCK])
        yield from rows
        if len(rows) < BLOCK:
            return
        last = rows[-1]


def select_details(event: AuditEvent) -> dict[str, Any]:
    """What is shown of the data of an event."""
    verb = find_verb(event.verb)
    if verb is not None and verb.meaning.is_blind_safe:
        return dict(event.data)
    return {name: value for name, value in event.data.items() if name in TELLING_NOTHING}


def _select_visible(reader: Person) -> QuerySet[AuditEvent]:
    events = AuditEvent.objects.all()
    scope = get_study_scope()
    is_everything = reader.is_superuser and (
        scope is None or not Study.objects.exclude(pk__in=scope).exists()
    )
    if not is_everything:
        # An admin's page of one study has what is of that study.
        events = events.filter(study__in=list_studies_to(reader, READ_AUDIT) or ())
    if is_blinded(reader):
        events = events.filter(Q(verb__in=select_verbs(is_blind_safe=True)) | Q(actor=reader))
    return events


def _from_event(events: QuerySet[AuditEvent], event_id: int, *, is_newer: bool) -> QuerySet[AuditEvent]:
    at = AuditEvent.objects.filter(pk=event_id).values_list("at", flat=True).first()
    return events.none() if at is None else _from_place(events, at, event_id, is_newer=is_newer)


def _from_place(
    events: QuerySet[AuditEvent], at: datetime, event_id: int, *, is_newer: bool
) -> QuerySet[AuditEvent]:
    """The first condition is said once more than is needed: a database seeks by it in the index."""
    if is_newer:
        return events.filter(Q(at__gt=at) | Q(id__gt=event_id), at__gte=at)
    return events.filter(Q(at__lt=at) | Q(id__lt=event_id), at__lte=at)


def _get_beginning(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min))
