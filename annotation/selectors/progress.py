"""How far a batch is. A handful of aggregate queries, however many tasks and people there are.

Counts of annotations tell nothing of a label; counts of agreed, disputed and adjudicated tasks do, and so
do a person's own counts beside them. Whoever works in an unclosed batch gets the first alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, F, Max, Q, QuerySet, Sum
from django.utils import timezone

from annotation.errors import N_, NotFound
from annotation.models import (
    ADJUDICATION_SLOT,
    Assignment,
    Batch,
    CorrectionRequest,
    Membership,
    Person,
    Task,
)
from annotation.selectors.blindness import sealed_batches

ANNOTATING = Q(slot__lt=ADJUDICATION_SLOT)
SETTLED = (Task.State.AGREED, Task.State.ADJUDICATED)


@dataclass(frozen=True)
class Overall:
    """Annotations handed in, of those that the tasks ask for; withdrawn tasks ask for none."""

    submitted: int
    needed: int
    last_day: int = 0
    latest: datetime | None = None


@dataclass(frozen=True)
class Line:
    """A batch in the list. ``settled`` and ``disputed`` are None where they are sealed."""

    batch: Batch
    overall: Overall
    tasks: int
    settled: int | None
    disputed: int | None
    people: int


@dataclass
class DimensionProgress:
    """``name`` is empty where the prompts have no dimension. Counts of tasks, then of annotations."""

    name: str
    tasks: int = 0
    settled: int = 0
    disputed: int = 0
    needed: int = 0
    submitted: int = 0


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
    tasks: dict[int, dict[str, tuple[int, int]]] = {pk: {} for pk in ids}
    for row in _work(ids).values("batch", "state").annotate(n=Count("pk"), needed=Sum("overlap")):
        tasks[row["batch"]][row["state"]] = (row["n"], row["needed"])
    submitted = _by_batch(_submitted(ids))
    people = dict(
        Membership.objects.filter(batch__in=ids, active=True)
        .values_list("batch")
        .annotate(n=Count("person", distinct=True))
    )
    return [
        _line(batch, tasks[batch.pk], submitted.get(batch.pk, 0), people.get(batch.pk, 0), batch.pk in sealed)
        for batch in batches
    ]


def overall(batch: Batch) -> Overall:
    """What everybody may see: it tells nothing of any label."""
    needed = _asked_for(_work([batch.pk])).aggregate(n=Sum("overlap"))["n"] or 0
    yesterday = timezone.now() - timedelta(days=1)
    given = _submitted([batch.pk]).aggregate(
        n=Count("pk"), last_day=Count("pk", filter=Q(submitted_at__gte=yesterday)), latest=Max("submitted_at")
    )
    return Overall(submitted=given["n"], needed=needed, last_day=given["last_day"], latest=given["latest"])


def progress(batch: Batch) -> Progress:
    """Six queries. Refuse whoever the batch is sealed for before this is asked."""
    dimensions, states = _dimensions(batch)
    people = _people(batch)
    held = Assignment.objects.filter(batch=batch, slot=ADJUDICATION_SLOT, state=Assignment.State.CLAIMED)
    return Progress(
        states=states,
        dimensions=dimensions,
        people=people,
        disputes_held=held.filter(task__state=Task.State.DISPUTED, lease_expires__gt=timezone.now()).count(),
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
    """What was skipped, and by whom; the latest first."""
    return (
        Assignment.objects.filter(batch=batch)
        .exclude(skip_reason="")
        .select_related("person", "task__response__prompt")
        .order_by("-claimed_at")
    )


def _work(batches: Iterable[int]) -> QuerySet[Task]:
    return Task.objects.filter(batch__in=batches, kind=Task.Kind.WORK).order_by()


def _asked_for(tasks: QuerySet[Task]) -> QuerySet[Task]:
    return tasks.exclude(state=Task.State.WITHDRAWN)


def _submitted(batches: Iterable[int]) -> QuerySet[Assignment]:
    return Assignment.objects.filter(
        ANNOTATING, batch__in=batches, state=Assignment.State.SUBMITTED, task__kind=Task.Kind.WORK
    ).exclude(task__state=Task.State.WITHDRAWN)


def _by_batch(assignments: QuerySet[Assignment]) -> dict[int, int]:
    return dict(assignments.order_by().values_list("batch").annotate(n=Count("pk")))


def _line(
    batch: Batch, tasks: dict[str, tuple[int, int]], submitted: int, people: int, is_sealed: bool
) -> Line:
    asked = {state: counts for state, counts in tasks.items() if state != Task.State.WITHDRAWN}
    settled = sum(asked[state][0] for state in SETTLED if state in asked)
    return Line(
        batch=batch,
        overall=Overall(submitted=submitted, needed=sum(needed for _n, needed in asked.values())),
        tasks=sum(n for n, _needed in asked.values()),
        settled=None if is_sealed else settled,
        disputed=None if is_sealed else asked.get(Task.State.DISPUTED, (0, 0))[0],
        people=people,
    )


def _dimensions(batch: Batch) -> tuple[tuple[DimensionProgress, ...], dict[str, int]]:
    found: dict[str, DimensionProgress] = {
        name: DimensionProgress(name) for name in batch.guideline.document.dimension_names
    }
    states: dict[str, int] = {}
    by_dimension = _work([batch.pk]).values("response__prompt__dimension", "state")
    for row in by_dimension.annotate(n=Count("pk"), needed=Sum("overlap")):
        states[row["state"]] = states.get(row["state"], 0) + row["n"]
        if row["state"] == Task.State.WITHDRAWN:
            continue
        name = row["response__prompt__dimension"]
        one = found.setdefault(name, DimensionProgress(name))
        one.tasks += row["n"]
        one.needed += row["needed"]
        one.settled += row["n"] if row["state"] in SETTLED else 0
        one.disputed += row["n"] if row["state"] == Task.State.DISPUTED else 0
    given = _submitted([batch.pk]).values_list("task__response__prompt__dimension").annotate(n=Count("pk"))
    for name, n in given:
        found[name].submitted = n
    return tuple(one for one in found.values() if one.tasks), states


def _people(batch: Batch) -> tuple[PersonProgress, ...]:
    members: dict[int, PersonProgress] = {}
    memberships = Membership.objects.filter(batch=batch).select_related("person")
    for membership in memberships.order_by("-active", "person__username", "role"):
        one = members.setdefault(membership.person_id, PersonProgress(membership.person))
        one.roles.append(membership.role)
        if membership.active and membership.person.is_active:
            one.working.append(membership.role)
    for row in _counts_by_person(batch):
        one = members[row["person"]]  # whoever claims is a member, and members never go
        one.submitted, one.decided = row["submitted"], row["decided"]
        one.live, one.skipped, one.latest = row["live"], row["skipped"], row["latest"]
    return tuple(members.values())


def _counts_by_person(batch: Batch) -> Iterable[Mapping[str, Any]]:
    submitted = Q(state=Assignment.State.SUBMITTED)
    live = Q(state=Assignment.State.CLAIMED, lease_expires__gt=timezone.now())
    return (
        Assignment.objects.filter(batch=batch)
        .order_by()
        .values("person")
        .annotate(
            submitted=Count("pk", filter=submitted & ANNOTATING),
            decided=Count("pk", filter=submitted & ~ANNOTATING),
            live=Count("pk", filter=live),
            skipped=Count("pk", filter=~Q(skip_reason="")),
            latest=Max("submitted_at"),
        )
    )
