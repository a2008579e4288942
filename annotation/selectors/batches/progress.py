"""How far a batch is: sums of the counters (selectors/counts.py), however many tasks there are.

What needs rows reads few of them, by an index: the claims of now, the latest submissions, the claims that expired, and
the waiting disputes where these are not too many.

Counts of annotations tell nothing of a label; counts of agreed, disputed and adjudicated tasks do, and so do a person's
own counts beside them, and the matrix of people and dimensions: refuse whoever the batch is sealed for first. Whoever
works in an unclosed batch gets the counts of annotations alone, with gold checks among them: a count of the work that
stands still when they submit would tell that they submitted a check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery, Sum
from django.utils import timezone

from annotation.models import (
    ADJUDICATION_SLOT,
    DECIDED_AGAIN,
    Assignment,
    Batch,
    Job,
    MemberCounts,
    Membership,
    Person,
    Stratum,
    Task,
)
from annotation.selectors.access import sealed_batches
from annotation.selectors.agreement import Coverage
from annotation.selectors.agreement.label_table import count_coverage, read_batches
from annotation.selectors.annotations.corrections import list_open_corrections
from annotation.selectors.counts import STATES, count_by_member, count_by_stratum
from annotation.selectors.gold_questions import exclude_gold_questions, has_gold_questions

END_COLLECTION = "end_collection"
ANNOTATING = Q(slot__lt=ADJUDICATION_SLOT)
SETTLED = (Task.State.AGREED, Task.State.ADJUDICATED)
ASKING = tuple(state for state in STATES if state != Task.State.WITHDRAWN)
MAX_COUNTED = 20_000


@dataclass(frozen=True)
class AnnotationProgress:
    """Annotations handed in, of those that the tasks ask for; withdrawn tasks ask for none.

    ``last_day`` and ``latest`` are of everything that was handed in, also for tasks withdrawn since; the first is
    counted row by row, so no further than ``MOST_COUNTED`` and one more. ``has_known``: there are gold questions beside
    the work, of which nothing is counted here; but for who is ``blind``, to whom the checks look like the work.
    """

    submitted: int
    needed: int
    last_day: int = 0
    latest: datetime | None = None
    has_known: bool = False

    @property
    def last_day_is_more(self) -> bool:
        return self.last_day > MAX_COUNTED

    @property
    def most_counted(self) -> int:
        return MAX_COUNTED


@dataclass(frozen=True)
class BatchRow:
    """A batch in the list. ``settled``, ``disputed`` and ``disputes_left`` (those that wait or are expected) are None
    where they are sealed.
    """

    batch: Batch
    overall: AnnotationProgress
    tasks: int
    settled: int | None
    disputed: int | None
    disputes_left: float | None
    people: int
    annotators: int
    latest: datetime | None
    """When somebody last handed something in."""


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
    def disputes_left(self) -> float:
        return count_disputes_left(Counter(self.states))

    @property
    def stuck(self) -> bool:
        """Disputes, and nobody there to decide them."""
        adjudicating = any(Membership.Role.ADJUDICATOR in person.working for person in self.people)
        return self.states.get(Task.State.DISPUTED, 0) > 0 and not adjudicating

    @property
    def waiting(self) -> int:
        """Disputes that no adjudicator holds now."""
        return self.states.get(Task.State.DISPUTED, 0) - self.disputes_held


def list_batch_rows(batches: Sequence[Batch], person: Person) -> list[BatchRow]:
    """The batches of a list with their counts: five queries, whatever their number."""
    ids = [batch.pk for batch in batches]
    sealed = set(sealed_batches(person).filter(pk__in=ids).values_list("pk", flat=True))
    counts: dict[int, Counter[str]] = {pk: Counter() for pk in ids}
    for stratum, of_stratum in count_by_stratum(ids).items():
        counts[stratum.batch_id].update(of_stratum)
    checks = _count_checks_submitted(sealed) if sealed else {}
    members = Membership.objects.filter(batch__in=ids, active=True).order_by().values_list("batch")
    annotating = Q(role=Membership.Role.ANNOTATOR)
    people = {
        batch: (number, annotators)
        for batch, number, annotators in members.annotate(
            n=Count("person", distinct=True), annotators=Count("person", filter=annotating, distinct=True)
        )
    }
    submissions = Assignment.objects.filter(batch=OuterRef("pk"), submitted_at__isnull=False)
    latest = submissions.order_by("-submitted_at").values("submitted_at")[:1]
    handed_in = dict(
        Batch.objects.filter(pk__in=ids).order_by().values_list("pk").annotate(at=Subquery(latest))
    )
    return [
        _build_batch_row(
            batch,
            counts[batch.pk],
            people.get(batch.pk, (0, 0)),
            handed_in.get(batch.pk),
            is_sealed=batch.pk in sealed,
            checks=checks.get(batch.pk),
        )
        for batch in batches
    ]


def measure_annotations(batch: Batch, *, blind: bool = False) -> AnnotationProgress:
    """What everybody may see: it tells nothing of any label. ``blind``: it is for somebody who works in the batch."""
    counts = _sum_counts(count_by_stratum([batch.pk]).values())
    # In its order the index is read no further than it is counted.
    known = has_gold_questions(batch)
    submissions = _list_submissions(batch).order_by("-submitted_at")
    checks = _count_checks_submitted([batch.pk]).get(batch.pk) if blind and known else None
    if checks is None:
        submissions = exclude_gold_questions(submissions, has_checks=known)
    else:
        submissions = submissions.exclude(task__kind=Task.Kind.QUALIFICATION)
    done, needed = _count_annotations(batch, counts, checks)
    lately = submissions.filter(submitted_at__gte=timezone.now() - timedelta(days=1))
    latest = submissions.values_list("submitted_at", flat=True).first()
    return AnnotationProgress(
        submitted=done,
        needed=needed,
        last_day=lately[: MAX_COUNTED + 1].count(),
        latest=latest,
        has_known=known,
    )


def measure_progress(batch: Batch) -> Progress:
    """Seven queries. Refuse whoever the batch is sealed for before this is asked."""
    strata = count_by_stratum([batch.pk])
    counts = _sum_counts(strata.values())
    people = _measure_people(batch)
    held = Assignment.objects.filter(batch=batch, slot=ADJUDICATION_SLOT, state=Assignment.State.CLAIMED)
    return Progress(
        states={state: counts[state] for state in STATES if counts[state]},
        dimensions=_measure_dimensions(batch, strata),
        people=people,
        disputes_held=held.filter(
            task__kind=Task.Kind.WORK, task__state=Task.State.DISPUTED, lease_expires__gt=timezone.now()
        ).count(),
        corrections=list_open_corrections(batch).count(),
        skips=sum(person.skipped for person in people),
    )


def list_skips(batch: Batch) -> QuerySet[Assignment]:
    """What was skipped, and by whom; the latest first. Nothing skipped was submitted: the index has those apart."""
    return (
        Assignment.objects.filter(batch=batch, submitted_at=None, task__kind=Task.Kind.WORK)
        .exclude(skip_reason="")
        .select_related("person", "task__response__prompt")
        .order_by("-claimed_at")
    )


def _list_submissions(batch: Batch) -> QuerySet[Assignment]:
    """The annotations handed in, by the index of the batch's latest submissions."""
    return Assignment.objects.filter(ANNOTATING, batch=batch, submitted_at__isnull=False)


def _sum_counts(counts: Iterable[Counter[str]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for of_stratum in counts:
        total.update(of_stratum)
    return total


def _count_needed_tasks(counts: Counter[str]) -> int:
    return sum(counts[state] for state in ASKING)


def count_needed_labels(batch: Batch, counts: Counter[str]) -> int:
    """What the plan asks for; of an open one that is over as many as came."""
    if batch.plan == Batch.Plan.OPEN:
        return max(counts["labels_needed"], counts["submitted"])
    return counts["labels_needed"]


def expect_disputes(counts: Mapping[str, int]) -> float:
    """Among the tasks without all their labels, at the rate of those that have them; 0 where none has."""
    disputes = counts[Task.State.DISPUTED] + counts[Task.State.ADJUDICATED]
    complete = disputes + counts[Task.State.AGREED]
    return counts[Task.State.OPEN] * disputes / complete if complete else 0.0


def count_disputes_left(counts: Mapping[str, int]) -> float:
    """Those that wait, and those to be expected."""
    return counts[Task.State.DISPUTED] + expect_disputes(counts)


def count_annotators(batch: Batch) -> int:
    """Those who can be given items now."""
    members = Membership.objects.filter(batch=batch, active=True, role=Membership.Role.ANNOTATOR)
    return members.values("person").distinct().count()


def _count_settled(counts: Counter[str]) -> int:
    return sum(counts[state] for state in SETTLED)


def _count_checks_submitted(batches: Iterable[int]) -> dict[int, int]:
    """By batch, of those that have items for gold checks."""
    submitted: Counter[int] = Counter()
    for stratum, counts in count_by_stratum(batches, Task.Kind.CHECK).items():
        submitted[stratum.batch_id] += counts["submitted"]
    return dict(submitted)


def _count_annotations(batch: Batch, counts: Counter[str], checks: int | None) -> tuple[int, int]:
    """Handed in, and asked for. With the ``checks`` handed in, for who is blind: as many are asked for as the share
    makes, so that this stays the same whatever comes next.
    """
    done, needed = counts["submitted"], count_needed_labels(batch, counts)
    if checks is None:
        return done, needed
    return done + checks, max(round(needed / (1 - batch.check_share)), done + checks)


def _build_batch_row(
    batch: Batch,
    counts: Counter[str],
    people: tuple[int, int],
    latest: datetime | None,
    *,
    is_sealed: bool,
    checks: int | None,
) -> BatchRow:
    tasks = _count_needed_tasks(counts)
    done, needed = _count_annotations(batch, counts, checks)
    return BatchRow(
        batch=batch,
        overall=AnnotationProgress(submitted=done, needed=needed),
        tasks=tasks,
        settled=None if is_sealed else _count_settled(counts),
        disputed=None if is_sealed else counts[Task.State.DISPUTED],
        disputes_left=None if is_sealed else count_disputes_left(counts),
        people=people[0],
        annotators=people[1],
        latest=latest,
    )


def _measure_dimensions(batch: Batch, strata: dict[Stratum, Counter[str]]) -> tuple[DimensionProgress, ...]:
    counts: dict[str, Counter[str]] = {name: Counter() for name in batch.guideline.document.dimension_names}
    for stratum, of_stratum in strata.items():
        counts.setdefault(stratum.dimension, Counter()).update(of_stratum)
    return tuple(
        DimensionProgress(
            name=name,
            tasks=_count_needed_tasks(dimension_counts),
            settled=_count_settled(dimension_counts),
            disputed=dimension_counts[Task.State.DISPUTED],
            needed=count_needed_labels(batch, dimension_counts),
            submitted=dimension_counts["submitted"],
        )
        for name, dimension_counts in counts.items()
        if _count_needed_tasks(dimension_counts)
    )


def _measure_people(batch: Batch) -> tuple[PersonProgress, ...]:
    people: dict[int, PersonProgress] = {}
    counts, live = count_by_member(batch), _count_live(batch)
    members = (
        Membership.objects.filter(batch=batch).select_related("person").annotate(latest=_select_latest(batch))
    )
    for member in members.order_by("-active", "person__username", "role"):
        progress = people.setdefault(member.person_id, PersonProgress(member.person))
        progress.roles.append(member.role)
        if member.active and member.person.is_active:
            progress.working.append(member.role)
        tally = counts.get(member.pk, Counter[str]())
        progress.submitted += tally["submitted"]
        progress.decided += tally["adjudicated"]
        progress.skipped += tally["skipped"]
        progress.live, progress.latest = live.get(member.person_id, 0), member.latest
    return tuple(people.values())


def _count_live(batch: Batch) -> dict[int, int]:
    """What each person holds now."""
    held = Assignment.objects.filter(
        batch=batch,
        state=Assignment.State.CLAIMED,
        lease_expires__gt=timezone.now(),
        task__kind=Task.Kind.WORK,
    )
    return dict(held.order_by().values_list("person").annotate(n=Count("pk")))


def _select_latest(batch: Batch) -> Subquery:
    """When the member's person last handed anything in: one look into the index of their history."""
    submitted = Assignment.objects.filter(person=OuterRef("person"), batch=batch, submitted_at__isnull=False)
    submitted = submitted.exclude(task__kind__in=DECIDED_AGAIN)
    return Subquery(submitted.order_by("-submitted_at").values("submitted_at")[:1])


# With more disputes than these nobody's are counted apart: each is looked up with its annotators. So with claims.
MAX_DISPUTES = 500
MAX_EXPIRED = 2_000
GIVEN_BACK = Q(state__in=[Assignment.State.RELEASED, Assignment.State.EXPIRED], skip_reason="")


@dataclass
class ProgressCell:
    """Items of one person in one dimension. ``done``: labelled or decided; ``open``: at hand now; ``disputed``:
    labelled by them and waiting for a decision; ``expired``: their claim ran out, and they have not taken the item
    again. The last two are None where there are too many in the batch to count.
    """

    done: int = 0
    open: int = 0
    disputed: int | None = 0
    expired: int | None = 0

    def add(self, other: ProgressCell) -> None:
        self.done += other.done
        self.open += other.open
        self.disputed = _add_counts(self.disputed, other.disputed)
        self.expired = _add_counts(self.expired, other.expired)

    @property
    def is_empty(self) -> bool:
        return not (self.done or self.open or self.disputed or self.expired)


def _add_counts(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


@dataclass
class ProgressMatrix:
    """``cells`` by person and dimension; who or what is not in it has nothing yet."""

    cells: dict[int, dict[str, ProgressCell]] = field(default_factory=dict)
    disputes_counted: bool = True
    expired_counted: bool = True

    def at(self, person: int, dimension: str) -> ProgressCell:
        """The cell to write to."""
        return self.cells.setdefault(person, {}).setdefault(dimension, self._empty_cell())

    def of(self, person: int, dimension: str) -> ProgressCell:
        cell = self.cells.get(person, {}).get(dimension)
        return cell if cell is not None else self._empty_cell()

    def of_person(self, person: int) -> ProgressCell:
        return self._sum(self.cells.get(person, {}).values())

    def of_dimension(self, dimension: str) -> ProgressCell:
        return self._sum(row[dimension] for row in self.cells.values() if dimension in row)

    def _sum(self, cells: Iterable[ProgressCell]) -> ProgressCell:
        total = self._empty_cell()
        for cell in cells:
            total.add(cell)
        return total

    def _empty_cell(self) -> ProgressCell:
        return ProgressCell(
            disputed=0 if self.disputes_counted else None, expired=0 if self.expired_counted else None
        )


def build_progress_matrix(batch: Batch, *, disputes: int) -> ProgressMatrix:
    """Four queries; ``disputes`` is how many wait in the batch."""
    expired, waiting = (
        _count_expired(batch),
        _count_disputed(batch) if 0 < disputes <= MAX_DISPUTES else Counter(),
    )
    matrix_ = ProgressMatrix(disputes_counted=disputes <= MAX_DISPUTES, expired_counted=expired is not None)
    for (person, dimension), n in _count_done(batch).items():
        matrix_.at(person, dimension).done = n
    for person, dimension, held, overdue in _count_claims(batch):
        cell = matrix_.at(person, dimension)
        cell.open, cell.expired = held, _add_counts(cell.expired, overdue)
    for (person, dimension), n in (expired or {}).items():
        cell = matrix_.at(person, dimension)
        cell.expired = _add_counts(cell.expired, n)
    for (person, dimension), n in waiting.items():
        matrix_.at(person, dimension).disputed = n
    return matrix_


def _count_done(batch: Batch) -> Mapping[tuple[int, str], int]:
    tallies = MemberCounts.objects.filter(membership__batch=batch, stratum__kind=Task.Kind.WORK).order_by()
    rows = tallies.values_list("membership__person", "stratum__dimension").annotate(
        n=Sum(F("submitted") + F("adjudicated"))
    )
    return {(person, dimension): n for person, dimension, n in rows if n}


def _count_claims(batch: Batch) -> list[tuple[int, str, int, int]]:
    """What is claimed: at hand, and overdue already, by the index of leases."""
    now = timezone.now()
    claimed = Assignment.objects.filter(
        batch=batch, state=Assignment.State.CLAIMED, task__stratum__kind=Task.Kind.WORK
    ).order_by()
    return list(
        claimed.values_list("person", "task__stratum__dimension").annotate(
            held=Count("pk", filter=Q(lease_expires__gt=now)),
            overdue=Count("pk", filter=Q(lease_expires__lte=now)),
        )
    )


def _count_expired(batch: Batch) -> Counter[tuple[int, str]] | None:
    """By the index of what was given back, person by person; a claim that is taken again leaves it. None where
    there are too many.
    """
    people = list(Membership.objects.filter(batch=batch).values_list("person", flat=True).distinct())
    expired = Assignment.objects.filter(
        GIVEN_BACK,
        batch=batch,
        person__in=people,
        state=Assignment.State.EXPIRED,
        task__stratum__kind=Task.Kind.WORK,
    )
    rows = list(expired.order_by().values_list("person", "task__stratum__dimension")[: MAX_EXPIRED + 1])
    return Counter(rows) if len(rows) <= MAX_EXPIRED else None


def _count_disputed(batch: Batch) -> Counter[tuple[int, str]]:
    """The disputes by the index that has them, each with its annotators."""
    disputed = Assignment.objects.filter(
        task__batch=batch,
        task__state=Task.State.DISPUTED,
        task__kind=Task.Kind.WORK,
        state=Assignment.State.SUBMITTED,
        slot__lt=ADJUDICATION_SLOT,
    )
    return Counter(disputed.order_by().values_list("person", "task__stratum__dimension"))


def list_planned_labels(batch: Batch) -> list[tuple[int, int]]:
    """How many items are to get how many labels; of an open plan at least so many."""
    work = Task.objects.filter(batch=batch, kind=Task.Kind.WORK).exclude(state=Task.State.WITHDRAWN)
    if batch.plan == Batch.Plan.OPEN:
        return [(batch.overlap, work.count())]
    counted = work.order_by("overlap").values_list("overlap").annotate(n=Count("pk"))
    return [(overlap, n) for overlap, n in counted]


def read_coverage(batch: Batch) -> Coverage:
    """How many items have how many labels, and what still waits."""
    return count_coverage(read_batches([batch]))


def find_end_job(batch: Batch) -> Job | None:
    """The job that ends the batch's collection, until it is done."""
    latest = Job.objects.filter(kind=END_COLLECTION, payload__batch=batch.pk).order_by("-pk").first()
    return None if latest is None or latest.state == Job.State.DONE else latest
