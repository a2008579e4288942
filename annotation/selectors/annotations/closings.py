"""Which of their own submissions a person is shown as closed. No other module decides it.

Their history and its filters, their numbers and the corrections ask here. In a batch with gold checks the real state
would tell checks from work: work closes when a partner submits, and a check has no partner. There submissions are shown
as closed in blocks, all of a block at once (docs/decisions/closing-in-blocks.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from annotation.models import ADJUDICATION_SLOT, Assignment, Batch, SubmissionBlock, Task

# A decision closes its dispute; a round of gold questions closes with the round, and everybody knows it for one.
CLOSES_AT_ONCE = (
    Q(batch__blocks_since__isnull=True)
    | Q(submitted_at__lt=F("batch__blocks_since"))
    | Q(slot=ADJUDICATION_SLOT)
    | Q(task__kind=Task.Kind.QUALIFICATION)
)


def filter_closed(submissions: QuerySet[Assignment]) -> QuerySet[Assignment]:
    """Those of these submissions that are over for who submitted them."""
    is_over = CLOSES_AT_ONCE & ~Q(task__state=Task.State.OPEN)
    return submissions.filter(Q(batch__state=Batch.State.CLOSED) | is_over | Exists(_select_closed_block()))


def filter_open(submissions: QuerySet[Assignment]) -> QuerySet[Assignment]:
    """The others: what was submitted may still be corrected."""
    in_no_closed_block = ~CLOSES_AT_ONCE & ~Exists(_select_closed_block())
    still_open = submissions.filter(in_no_closed_block | Q(CLOSES_AT_ONCE, task__state=Task.State.OPEN))
    return still_open.exclude(batch__state=Batch.State.CLOSED)


def is_closed(assignment: Assignment) -> bool:
    """Whether what was submitted can no longer be corrected by the person, only by way of the manager."""
    return bool(list_closed([assignment]))


def list_closed(assignments: Iterable[Assignment]) -> set[UUID]:
    """The ids of those that are shown closed; one query."""
    ids = [assignment.pk for assignment in assignments]
    return set(filter_closed(Assignment.objects.filter(pk__in=ids)).values_list("pk", flat=True))


def _select_closed_block() -> QuerySet[SubmissionBlock]:
    return SubmissionBlock.objects.filter(
        batch=OuterRef("batch"),
        person=OuterRef("person"),
        first_at__lte=OuterRef("submitted_at"),
        last_at__gte=OuterRef("submitted_at"),
        closed_at__isnull=False,
    )
