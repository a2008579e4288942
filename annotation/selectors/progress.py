"""How far a batch is: sums of what is counted along (selectors/counts.py), however many tasks there are.

What needs rows reads few, by an index: what is at hand, what came in last.

Counts of annotations tell nothing of a label; counts of agreed, disputed and adjudicated tasks do, and so
do a person's own counts beside them. Whoever works in an unclosed batch gets the first alone, and with gold checks
among them: a count of the work that stands still when they submit would tell that they submitted a check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from annotation.errors import N_, NotFound
from annotation.models import (
    ADJUDICATION_SLOT,
    Assignment,
    Batch,
    CorrectionRequest,
    Membership,
    Person,
    Stratum,
    Task,
)
from annotation.selectors.blindness import sealed_batches
from annotation.selectors.counts import STATES, by_member, by_stratum
from annotation.selectors.known import has_known, of_work

ANNOTATING = Q(slot__lt=ADJUDICATION_SLOT)
SETTLED = (Task.State.AGREED, Task.State.ADJUDICATED)
ASKING = tuple(state for state in STATES if state != Task.State.WITHDRAWN)
MOST_COUNTED = 20_000


@dataclass(frozen=True)
class Overall:
    """Annotations handed in, of those that the tasks ask for; withdrawn tasks ask for none.

    ``last_day`` and ``latest`` are of everything that was handed in, also for tasks withdrawn since; the first is
    counted row by row, so no further than ``MOST_COUNTED`` and one more. ``has_known``: there are known items beside
    the work, of which nothing is counted here; but for who is ``blind``, to whom the checks look like the work.
    """

    submitted: int
    needed: int
    last_day: int = 0
    latest: datetime | None = None
    has_known: bool = False

    @property
    def last_day_is_more(self) -> bool:
        return self.last_day > MOST_COUNTED

    @property
    def most_counted(self) -> int:
        return MOST_COUNTED


@dataclass(frozen=True)
class Line:
    """A batch in the list. ``settled`` and ``disputed`` are None where they are sealed."""

    batch: Batch
    overall: Overall
    tasks: int
    settled: int | None
    disputed: int | None
    people: int


@dataclass(frozen=True)
class DimensionProgress:
    """``name`` is empty where the prompts have no dimension. Counts of tasks, then of annotations."""

    name: str
    tasks: int
    settled: int
    disputed: int
    needed: int
    submitted: int


@dataclass
class PersonProgress:
    """One person in one batch; counts of annotations, but ``decided``, which counts adjudications."""

    person: Person
    roles: list[str] = field(default_factory=list)
    working: list[str] = field(default_factory=list)
    submitted: int = 0
    decided: int = 0
    live: int = 0
    skipped: int = 0
    latest: datetime | None = None

    @property
    def active(self) -> bool:
        return bool(self.working)


@dataclass(frozen=True)
class Progress:
    """Everything that a batch's page counts, for those who may see it."""

    states: dict[str, int]
    dimensions: tuple[DimensionProgress, ...]
    people: tuple[PersonProgress, ...]
    disputes_held: int
    corrections: int
    skips: int

    @property
    def tasks(self) -> int:
        return sum(self.states.values())

    @property
    def settled(self) -> int:
        return sum(self.states.get(state, 0) for state in SETTLED)

    @property
    def stuck(self) -> bool:
        """Disputes, and nobody there to decide them."""
        adjudicating = any(Membership.Role.ADJUDICATOR in one.working for one in self.people)
        return self.states.get(Task.State.DISPUTED, 0) > 0 and not adjudicating

    @property
    def waiting(self) -> int:
        """Disputes that no adjudicator holds now."""
        return self.states.get(Task.State.DISPUTED, 0) - self.disputes_held


def lines(batches: Sequence[Batch], person: Person) -> list[Line]:
    """The batches of a list with their counts: four queries, whatever their number."""
    ids = [batch.pk for batch in batches]
    sealed = set(sealed_batches(person).filter(pk__in=ids).values_list("pk", flat=True))
    counts: dict[int, Counter[str]] = {pk: Counter() for pk in ids}
    for stratum, of_stratum in by_stratum(ids).items():
        counts[stratum.batch_id].update(of_stratum)
    checks = _checks_handed_in(sealed) if sealed else {}
    people = dict(
        Membership.objects.filter(batch__in=ids, active=True)
        .values_list("batch")
        .annotate(n=Count("person", distinct=True))
    )
    return [
        _line(
            batch,
            counts[batch.pk],
            people.get(batch.pk, 0),
            is_sealed=batch.pk in sealed,
            checks=checks.get(batch.pk),
        )
        for batch in batches
    ]


def overall(batch: Batch, *, blind: bool = False) -> Overall:
    """What everybody may see: it tells nothing of any label. ``blind``: it is for somebody who works in the batch."""
    counts = _whole(by_stratum([batch.pk]).values())
    # In its order the index is read no further than it is counted.
    known = has_known(batch)
    submissions = _submissions(batch).order_by("-submitted_at")
    checks = _checks_handed_in([batch.pk]).get(batch.pk) if blind and known else None
    if checks is None:
        submissions = of_work(submissions, known=known)
    else:
        submissions = submissions.exclude(task__kind=Task.Kind.QUALIFICATION)
    done, needed = _handed_in(batch, counts, checks)
    lately = submissions.filter(submitted_at__gte=timezone.now() - timedelta(days=1))
    latest = submissions.values_list("submitted_at", flat=True).first()
    return Overall(
        submitted=done,
        needed=needed,
        last_day=lately[: MOST_COUNTED + 1].count(),
        latest=latest,
        has_known=known,
    )


def progress(batch: Batch) -> Progress:
    """Seven queries. Refuse whoever the batch is sealed for before this is asked."""
    strata = by_stratum([batch.pk])
    counts = _whole(strata.values())
    people = _people(batch)
    held = Assignment.objects.filter(batch=batch, slot=ADJUDICATION_SLOT, state=Assignment.State.CLAIMED)
    return Progress(
        states={state: counts[state] for state in STATES if counts[state]},
        dimensions=_dimensions(batch, strata),
        people=people,
        disputes_held=held.filter(
            task__kind=Task.Kind.WORK, task__state=Task.State.DISPUTED, lease_expires__gt=timezone.now()
        ).count(),
        corrections=open_corrections(batch).count(),
        skips=sum(one.skipped for one in people),
    )


def open_corrections(batch: Batch) -> QuerySet[CorrectionRequest]:
    return CorrectionRequest.objects.filter(assignment__batch=batch, handled_at=None)


def corrections(batch: Batch) -> QuerySet[CorrectionRequest]:
    """The requests of a batch with all that their page shows, the unhandled first."""
    return (
        CorrectionRequest.objects.filter(assignment__batch=batch)
        .select_related(
            "assignment__person",
            "assignment__task__response__prompt",
            "assignment__adjudication",
            "handled_by",
        )
        .prefetch_related("assignment__annotations", "assignment__task__gold_labels")
        .order_by(F("handled_at").asc(nulls_first=True), "-created_at")
    )


def correction_in(batch: Batch, request_id: int) -> CorrectionRequest:
    found = CorrectionRequest.objects.filter(assignment__batch=batch, pk=request_id).first()
    if found is None:
        raise NotFound(N_("There is no such request in the batch {name}."), name=batch.name)
    return found


def skips(batch: Batch) -> QuerySet[Assignment]:
    """What was skipped, and by whom; the latest first. Nothing skipped was submitted: the index has those apart."""
    return (
        Assignment.objects.filter(batch=batch, submitted_at=None, task__kind=Task.Kind.WORK)
        .exclude(skip_reason="")
        .select_related("person", "task__response__prompt")
        .order_by("-claimed_at")
    )


def _submissions(batch: Batch) -> QuerySet[Assignment]:
    """The annotations handed in, by the index of the batch's latest submissions."""
    return Assignment.objects.filter(ANNOTATING, batch=batch, submitted_at__isnull=False)


def _whole(counts: Iterable[Counter[str]]) -> Counter[str]:
    whole: Counter[str] = Counter()
    for of_stratum in counts:
        whole.update(of_stratum)
    return whole


def _asking(counts: Counter[str]) -> int:
    return sum(counts[state] for state in ASKING)


def _settled(counts: Counter[str]) -> int:
    return sum(counts[state] for state in SETTLED)


def _checks_handed_in(batches: Iterable[int]) -> dict[int, int]:
    """By batch, of those that have items for gold checks."""
    found: Counter[int] = Counter()
    for stratum, counts in by_stratum(batches, Task.Kind.CHECK).items():
        found[stratum.batch_id] += counts["submitted"]
    return dict(found)


def _handed_in(batch: Batch, counts: Counter[str], checks: int | None) -> tuple[int, int]:
    """Handed in, and asked for. With the ``checks`` handed in, for who is blind: as many are asked for as the share
    makes, so that this stays the same whatever comes next.
    """
    done, needed = counts["submitted"], _asking(counts) * batch.overlap
    if checks is None:
        return done, needed
    return done + checks, max(round(needed / (1 - batch.check_share)), done + checks)


def _line(batch: Batch, counts: Counter[str], people: int, *, is_sealed: bool, checks: int | None) -> Line:
    tasks = _asking(counts)
    done, needed = _handed_in(batch, counts, checks)
    return Line(
        batch=batch,
        overall=Overall(submitted=done, needed=needed),
        tasks=tasks,
        settled=None if is_sealed else _settled(counts),
        disputed=None if is_sealed else counts[Task.State.DISPUTED],
        people=people,
    )


def _dimensions(batch: Batch, strata: dict[Stratum, Counter[str]]) -> tuple[DimensionProgress, ...]:
    counts: dict[str, Counter[str]] = {name: Counter() for name in batch.guideline.document.dimension_names}
    for stratum, of_stratum in strata.items():
        counts.setdefault(stratum.dimension, Counter()).update(of_stratum)
    return tuple(
        DimensionProgress(
            name=name,
            tasks=_asking(one),
            settled=_settled(one),
            disputed=one[Task.State.DISPUTED],
            needed=_asking(one) * batch.overlap,
            submitted=one["submitted"],
        )
        for name, one in counts.items()
        if _asking(one)
    )


def _people(batch: Batch) -> tuple[PersonProgress, ...]:
    found: dict[int, PersonProgress] = {}
    counts, live = by_member(batch), _live(batch)
    members = Membership.objects.filter(batch=batch).select_related("person").annotate(latest=_latest(batch))
    for member in members.order_by("-active", "person__username", "role"):
        one = found.setdefault(member.person_id, PersonProgress(member.person))
        one.roles.append(member.role)
        if member.active and member.person.is_active:
            one.working.append(member.role)
        did = counts.get(member.pk, Counter[str]())
        one.submitted += did["submitted"]
        one.decided += did["adjudicated"]
        one.skipped += did["skipped"]
        one.live, one.latest = live.get(member.person_id, 0), member.latest
    return tuple(found.values())


def _live(batch: Batch) -> dict[int, int]:
    """What each person holds now."""
    held = Assignment.objects.filter(
        batch=batch,
        state=Assignment.State.CLAIMED,
        lease_expires__gt=timezone.now(),
        task__kind=Task.Kind.WORK,
    )
    return dict(held.order_by().values_list("person").annotate(n=Count("pk")))


def _latest(batch: Batch) -> Subquery:
    """When the member's person last handed anything in: one look into the index of their history."""
    mine = Assignment.objects.filter(person=OuterRef("person"), batch=batch, submitted_at__isnull=False)
    mine = mine.exclude(task__kind=Task.Kind.REPEAT)
    return Subquery(mine.order_by("-submitted_at").values("submitted_at")[:1])
