"""What waits for an adjudicator, by dimension and by age, and one dispute as its adjudicator sees it.

The counts tell nothing of labels, annotators or models. A dispute is as old as the last of its annotations; a repeat
adjudication waits since it was due. The adjudicator sees the text alone first, and the annotators' labels after the
blind verdict.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.translation import get_language

from annotation.core.errors import N_, NotFound
from annotation.domain.adjudication import DECIDED
from annotation.domain.guidelines import Criterion, localize
from annotation.models import (
    ADJUDICATION_SLOT,
    Annotation,
    Assignment,
    DisputeReason,
    GoldLabel,
    Membership,
    Person,
    Stratum,
    Task,
    Verdict,
)
from annotation.models.sql.counts import count_by_age
from annotation.selectors.annotations import own_work
from annotation.selectors.assignments.availability import list_ruled_out_strata
from annotation.selectors.assignments.items import WorkItem, build_item

LIVE = (Assignment.State.CLAIMED, Assignment.State.SUBMITTED)
# The younger ages end here, in days; what is older is in the last.
AGES = (1, 3, 7)
BY_PROMPT, OLDEST_FIRST = "prompt", "oldest"
BY_AGE = ("-priority", "since", "position")
FIRST_DISPUTES = 100
LAST_SUBMITTED = Max("assignments__submitted_at", filter=Q(assignments__slot__lt=ADJUDICATION_SLOT))


@dataclass(frozen=True)
class DisputeFilter:
    """Which disputes an adjudicator takes next: of one dimension, or of any; prompt by prompt, or the oldest first."""

    dimension: str = ""
    order: str = BY_PROMPT

    def apply(self, tasks: QuerySet[Task]) -> QuerySet[Task]:
        """Those of the tasks that fit, in order. What the manager put first is first. Prompt by prompt is not the
        order of the batch: labels imported file by file stand there model by model.
        """
        tasks = self.filter_dimension(tasks)
        if self.order == OLDEST_FIRST:
            return tasks.annotate(since=select_disputed_at()).order_by(*BY_AGE)
        return tasks.order_by("-priority", "prompt", "-response__sha256", "position")

    def list_queries(self, tasks: QuerySet[Task]) -> Iterator[QuerySet[Task]]:
        """The filtered tasks, and before it the first ``FEW`` of them: where nothing is to be locked the database finds
        these sooner, without sorting all, and with the ages of all worked out together.
        """
        soonest = self.apply(tasks)
        if self.order == OLDEST_FIRST:
            ages = replace(self, order=BY_PROMPT).apply(tasks).order_by().annotate(since=LAST_SUBMITTED)
            soonest = ages.order_by(*BY_AGE)
        yield self.apply(tasks.filter(pk__in=soonest.values("pk")[:FIRST_DISPUTES]))
        yield self.apply(tasks)

    def filter_dimension(self, tasks: QuerySet[Task]) -> QuerySet[Task]:
        return tasks.filter(stratum__dimension=self.dimension) if self.dimension else tasks


ANY_DISPUTE = DisputeFilter()


@dataclass(frozen=True)
class WaitingDisputes:
    """``ages`` counts those younger than 1, 3 and 7 days and the older ones; ``oldest`` is since when one waits."""

    dimension: str
    n: int
    oldest: datetime
    ages: tuple[int, ...]


def count_waiting_disputes(member: Membership) -> list[WaitingDisputes]:
    """What the member may take now, a row for each dimension in order of names."""
    now = timezone.now()
    waiting_by_dimension = {disputes.dimension: disputes for disputes in _count_disputes_by_age(member, now)}
    for repeats in _count_repeats_by_age(member, now):
        disputes = waiting_by_dimension.get(repeats.dimension)
        waiting_by_dimension[repeats.dimension] = (
            repeats if disputes is None else _add_repeats(disputes, repeats)
        )
    return [waiting_by_dimension[dimension] for dimension in sorted(waiting_by_dimension)]


def list_waiting_disputes(member: Membership, *, resting: Sequence[int] = ()) -> QuerySet[Task]:
    """The disputes that the member may claim now, in no order; ``resting`` are strata that wait until tomorrow."""
    held = Assignment.objects.filter(task=OuterRef("pk"), slot=ADJUDICATION_SLOT, state__in=LIVE)
    tasks = Task.objects.filter(batch=member.batch_id, kind=Task.Kind.WORK, state=Task.State.DISPUTED)
    strata_out = [*list_ruled_out_strata(member), *resting]
    if strata_out:
        tasks = tasks.exclude(stratum__in=strata_out)
    return tasks.filter(~Exists(_list_barring_claims(member)), ~Exists(held))


def select_disputed_at() -> Subquery:
    annotations = Assignment.objects.filter(task=OuterRef("pk"), slot__lt=ADJUDICATION_SLOT)
    last = annotations.order_by().values("task").annotate(last=Max("submitted_at"))
    return Subquery(last.values("last"))


def list_due_repeats(member: Membership, *, resting: Sequence[int] = ()) -> QuerySet[Task]:
    """The repeat and second adjudications that may come now, the next one first: those that are due, and all of them
    once the disputes have run out. The one in progress is none of them.
    """
    repeats = _list_open_repeats(member, resting=resting)
    if not repeats.exists() or has_no_disputes_left(member, resting=resting):
        return repeats
    return repeats.filter(due_at__lte=timezone.now())


def _list_open_repeats(member: Membership, *, resting: Sequence[int]) -> QuerySet[Task]:
    """The repeats of the member's own decisions, which come to nobody else, and the second adjudications of disputes
    that others decided and in which the member had no part. Read by the index of both alone.

    Who had a part in a dispute stays the same once it is decided, so that no lock is needed to read it.
    """
    claimed = Assignment.objects.filter(task=OuterRef("pk"), state=Assignment.State.CLAIMED)
    own = Q(kind=Task.Kind.REPEAT, repeats__adjudication__assignment__person=member.person_id)
    by_someone_else = (
        Q(kind=Task.Kind.SECOND)
        & ~Exists(_list_barring_claims(member))
        & ~Exists(_list_barring_claims(member, task="repeats"))
    )
    repeats = Task.objects.filter(
        own | by_someone_else,
        ~Exists(claimed),
        batch=member.batch_id,
        state=Task.State.DISPUTED,
        repeats__isnull=False,
    )
    strata_out = [*list_ruled_out_strata(member), *resting]
    if strata_out:
        repeats = repeats.exclude(stratum__in=strata_out)
    return repeats.order_by("due_at", "pk")


def has_no_disputes_left(member: Membership, *, resting: Sequence[int] = ()) -> bool:
    """Whether no dispute waits for the member and none can arise any more."""
    open_tasks = Task.objects.filter(batch=member.batch_id, state=Task.State.OPEN, kind=Task.Kind.WORK)
    return not open_tasks.exists() and not list_waiting_disputes(member, resting=resting).exists()


def has_dispute_in_progress(member: Membership) -> bool:
    """Whether the member is deciding a dispute."""
    return list_dispute_claims(member).exists()


def list_dispute_claims(member: Membership) -> QuerySet[Assignment]:
    """The disputes that the member is deciding, a repeat adjudication among them."""
    assignments = Assignment.objects.filter(batch=member.batch_id, person=member.person_id)
    return assignments.filter(slot=ADJUDICATION_SLOT, state=Assignment.State.CLAIMED)


def list_dimensions(member: Membership) -> list[str]:
    """The dimensions of what the member's batch holds, in order."""
    strata = Stratum.objects.filter(batch=member.batch_id, kind=Task.Kind.WORK).exclude(dimension="")
    return sorted(set(strata.values_list("dimension", flat=True)))


def _count_disputes_by_age(member: Membership, now: datetime) -> Iterator[WaitingDisputes]:
    """Counted by the database: there may be very many."""
    tasks = (
        list_waiting_disputes(member)
        .order_by()
        .values("pk", topic=F("stratum__dimension"))
        .annotate(since=LAST_SUBMITTED)
    )
    bounds = [now - timedelta(days=days) for days in AGES]
    for dimension, oldest, *counts in count_by_age(tasks, bounds):
        yield _build_waiting_disputes(dimension, oldest, counts)


def _count_repeats_by_age(member: Membership, now: datetime) -> Iterator[WaitingDisputes]:
    """Counted in memory, since these are few. None is younger than this moment."""
    since: dict[str, list[datetime]] = defaultdict(list)
    for dimension, due_at in list_due_repeats(member).order_by().values_list("stratum__dimension", "due_at"):
        assert due_at is not None
        since[dimension].append(min(due_at, now))
    for dimension, times in since.items():
        younger = [sum(at > now - timedelta(days=days) for at in times) for days in AGES]
        yield _build_waiting_disputes(dimension, min(times), [*younger, len(times)])


def _build_waiting_disputes(dimension: str, oldest: datetime, counts: Sequence[int]) -> WaitingDisputes:
    """``counts``: those younger than each of ``AGES``, and all."""
    ages = [count - lower_count for count, lower_count in zip(counts, [0, *counts[:-1]], strict=True)]
    return WaitingDisputes(dimension=dimension, n=counts[-1], oldest=oldest, ages=tuple(ages))


def _add_repeats(disputes: WaitingDisputes, repeats: WaitingDisputes) -> WaitingDisputes:
    ages = tuple(map(sum, zip(disputes.ages, repeats.ages, strict=True)))
    return WaitingDisputes(
        disputes.dimension, disputes.n + repeats.n, min(disputes.oldest, repeats.oldest), ages
    )


def _list_barring_claims(member: Membership, task: str = "pk") -> QuerySet[Assignment]:
    """``may_claim_again``, as the database says it: the past claims that keep a dispute from a person."""
    barred = Q(state__in=LIVE) | ~Q(skip_reason="") | Q(slot__lt=ADJUDICATION_SLOT)
    return Assignment.objects.filter(barred, task=OuterRef(task), person=member.person_id)


# One for each reason in its order: a row of the keyboard where no other key of the page is.
SHORTCUTS = "zxcvnm"
T = TypeVar("T")


@dataclass(frozen=True)
class Side:
    """One annotator's work as the adjudicator sees it: A or B, never a name."""

    letter: str
    labels: Mapping[str, Any]
    texts: Mapping[str, str]
    rationale: str
    evidence: Sequence[Mapping[str, Any]]
    flags: Sequence[str]


@dataclass(frozen=True)
class OwnVerdict:
    labels: Mapping[str, Any]
    rationale: str


@dataclass(frozen=True)
class Dispute:
    """``sides`` is empty while the adjudicator has given no ``verdict``. The ``item`` has the criteria to decide;
    ``texts`` are those that annotators answered in words, which nobody decides.
    """

    item: WorkItem
    texts: tuple[Criterion, ...]
    verdict: OwnVerdict | None
    sides: tuple[Side, ...]


@dataclass(frozen=True)
class Reason:
    """Why annotators differ, in the reader's language. ``shortcut`` is its key; empty for a late one."""

    key: str
    words: str
    shortcut: str


def get_open_dispute(assignment_id: UUID, person: Person) -> Assignment:
    """The person's claim on a dispute, in a batch that they have not left."""
    claim = own_work.get_own_dispute(assignment_id, person)
    memberships = Membership.objects.filter(
        batch=claim.batch_id, person=person, role=Membership.Role.ADJUDICATOR
    )
    if not memberships.filter(active=True).exists():
        raise NotFound(N_("There is no such item among yours."))
    return claim


def build_dispute(assignment: Assignment) -> Dispute:
    """The disputed item, with its labels as A and B in an order that only the assignment's id decides.

    Only the criteria that the annotators disagree on are handed out: the adjudicator decides those.
    """
    settled = GoldLabel.objects.filter(task__in=_select_judged_task(assignment))
    settled = settled.exclude(source__in=DECIDED)
    agreed = dict(settled.values_list("criterion", "value"))
    work_item = build_item(assignment)
    labelled = [criterion for criterion in work_item.criteria if criterion.kind != "text"]
    texts = tuple(criterion for criterion in work_item.criteria if criterion.kind == "text")
    criteria = _list_disputed(assignment, labelled, agreed)
    verdict = _find_verdict(assignment)
    sides = _list_sides(assignment) if verdict else ()
    return Dispute(item=replace(work_item, criteria=criteria), texts=texts, verdict=verdict, sides=sides)


def _list_disputed(
    assignment: Assignment, criteria: Sequence[Criterion], agreed: Mapping[str, float | None]
) -> tuple[Criterion, ...]:
    """Those that are not ``agreed``: of what may stay unanswered, what somebody answered; of what hangs on another
    criterion, what an agreed value has asked, or the decision may.
    """
    answered: set[str] | None = None
    disputed: dict[str, Criterion] = {}
    for criterion in criteria:
        if criterion.name in agreed:
            continue
        condition = criterion.asked_if
        if condition is not None and condition.criterion in disputed:
            disputed[criterion.name] = criterion
            continue
        if condition is not None and not condition.holds(agreed.get(condition.criterion)):
            continue
        if criterion.optional:
            if answered is None:
                answered = _find_answered(assignment)
            if criterion.name not in answered:
                continue
        disputed[criterion.name] = criterion
    return tuple(disputed.values())


def _find_answered(assignment: Assignment) -> set[str]:
    """The criteria that any annotator answered."""
    annotations = Annotation.objects.filter(
        assignment__task__in=_select_judged_task(assignment),
        current=True,
        assignment__slot__lt=ADJUDICATION_SLOT,
    )
    return {name for labels in annotations.values_list("labels", flat=True) for name in labels}


def list_reasons() -> list[Reason]:
    """The reasons that can be chosen now, in the managers' order."""
    language = get_language() or "en"
    active = DisputeReason.objects.filter(active=True)
    return [
        Reason(key=reason.key, words=localize(reason.words, language), shortcut=SHORTCUTS[place : place + 1])
        for place, reason in enumerate(active)
    ]


def list_reasons_with_use() -> QuerySet[DisputeReason]:
    """All of them in order, each with how many decisions named it, as ``used``."""
    first_decisions = Q(adjudications__task__kind=Task.Kind.WORK)
    counted = DisputeReason.objects.annotate(used=Count("adjudications", filter=first_decisions))
    return counted.order_by("position", "id")


def _select_judged_task(assignment: Assignment) -> QuerySet[Task, int]:
    """The task on whose annotations the adjudicator decides: of a repeat adjudication the one that it repeats."""
    return Task.objects.filter(pk=assignment.task_id).values_list(Coalesce("repeats", "pk"), flat=True)


def _find_verdict(assignment: Assignment) -> OwnVerdict | None:
    verdict = Verdict.objects.filter(assignment=assignment.pk).first()
    return OwnVerdict(labels=verdict.labels, rationale=verdict.rationale) if verdict else None


def _list_sides(assignment: Assignment) -> tuple[Side, ...]:
    annotations = list(
        Annotation.objects.filter(
            assignment__task__in=_select_judged_task(assignment),
            current=True,
            assignment__slot__lt=ADJUDICATION_SLOT,
        ).order_by("assignment__slot")
    )
    return tuple(
        Side(
            letter=chr(ord("A") + place),
            labels=annotation.labels,
            texts=annotation.texts,
            rationale=annotation.rationale,
            evidence=annotation.evidence,
            flags=annotation.flags,
        )
        for place, annotation in enumerate(shuffle_sides(assignment.pk, annotations))
    )


def shuffle_sides(claim: UUID, in_slots: Sequence[T]) -> list[T]:
    """The sides, which come in slot order, in the order in which this claim on the dispute shows them: A, then B."""
    in_order = list(in_slots)
    random.Random(claim.int).shuffle(in_order)  # noqa: S311  # an order that can be repeated
    return in_order
