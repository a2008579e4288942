"""What a batch will ask of its people, before it is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from django.db.models import Count, QuerySet

from annotation.models import Annotation, Batch, Guideline, Membership, Person, Response, Task

MEASURED = 1000


@dataclass(frozen=True)
class Pace:
    """The median seconds of the latest ``n`` annotations by any version of a guideline."""

    seconds: float
    n: int


@dataclass(frozen=True)
class Plan:
    """``dimensions`` maps a dimension to its number of tasks; ``seconds`` is the time for one annotation."""

    dimensions: dict[str, int]
    overlap: int
    annotators: int
    adjudicators: int
    seconds: float | None
    unanswerable: tuple[str, ...] = ()

    @property
    def tasks(self) -> int:
        return sum(self.dimensions.values())

    @property
    def annotations(self) -> int:
        return self.tasks * self.overlap

    @property
    def each(self) -> int | None:
        """About how many annotations a person gets, rounded up; nobody can get a task twice."""
        return -(-self.annotations // self.annotators) if self.annotators >= self.overlap else None

    @property
    def total_seconds(self) -> float | None:
        return None if self.seconds is None else self.annotations * self.seconds

    @property
    def each_seconds(self) -> float | None:
        return None if self.seconds is None or self.each is None else self.each * self.seconds

    @property
    def short_of_annotators(self) -> bool:
        return self.annotators < self.overlap

    @property
    def nobody_settles(self) -> bool:
        """Disputes are possible, and nobody is there to decide them."""
        return self.overlap > 1 and not self.adjudicators


def plan_of_responses(
    responses: QuerySet[Response],
    *,
    guideline: Guideline | None,
    overlap: int,
    annotators: Sequence[Person],
    adjudicators: Sequence[Person],
    seconds: float | None,
) -> Plan:
    counted = responses.order_by().values_list("prompt__dimension").annotate(n=Count("pk"))
    dimensions = dict(counted.order_by("prompt__dimension"))
    return Plan(
        dimensions=dimensions,
        overlap=overlap,
        annotators=len(set(annotators)),
        adjudicators=len(set(adjudicators)),
        seconds=seconds,
        unanswerable=_unanswerable(guideline, dimensions),
    )


def plan_of_batch(batch: Batch) -> Plan:
    """The plan of a batch that stands already; the seconds are the measured ones."""
    work = batch.tasks.filter(kind=Task.Kind.WORK).order_by()
    counted = work.values_list("response__prompt__dimension").annotate(n=Count("pk"))
    members = dict(
        batch.memberships.filter(active=True).order_by().values_list("role").annotate(n=Count("pk"))
    )
    measured = pace(batch.guideline.name)
    return Plan(
        dimensions=dict(counted.order_by("response__prompt__dimension")),
        overlap=batch.overlap,
        annotators=members.get(Membership.Role.ANNOTATOR, 0),
        adjudicators=members.get(Membership.Role.ADJUDICATOR, 0),
        seconds=measured.seconds if measured else None,
    )


def pace(guideline: str) -> Pace | None:
    """None where nobody's time was measured yet."""
    timed = Annotation.objects.filter(
        current=True, seconds__gt=0, assignment__batch__guideline__name=guideline
    )
    latest = timed.order_by("-pk").values_list("seconds", flat=True)[:MEASURED]
    seconds = [one for one in latest if one is not None]
    return Pace(seconds=median(seconds), n=len(seconds)) if seconds else None


def _unanswerable(guideline: Guideline | None, dimensions: dict[str, int]) -> tuple[str, ...]:
    if guideline is None:
        return ()
    return tuple(name for name in dimensions if not guideline.document.criteria_for(name))
