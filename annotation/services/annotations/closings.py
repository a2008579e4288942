"""Submissions in a batch with gold checks are shown closed in blocks (docs/decisions/closing-in-blocks.md).

A person's submissions in the batch are cut into blocks of ``SIZE``, in the order in which they came, work and checks
alike. A block is closed by a worker once all work in it is; with it close its checks, which nobody else ever does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, Max, OuterRef, QuerySet
from django.utils import timezone

from annotation.models import ADJUDICATION_SLOT, Assignment, Batch, SubmissionBlock, Task
from annotation.selectors.gold_questions import list_open_checks
from annotation.services.gold_questions.answers import close_answered

SIZE = 10
# What was submitted so long ago is in the database, whichever of two requests was quicker.
SETTLING = timedelta(minutes=1)
AT_ONCE = 1000


def close_blocks(batch: Batch) -> int:
    """Cut what is new into blocks and close those whose work is over. The number closed; any worker, any time."""
    if batch.blocks_since is None or batch.state not in (Batch.State.OPEN, Batch.State.PAUSED):
        return 0
    _cut_blocks(batch, timezone.now() - SETTLING)
    over = list(_filter_finished_blocks(batch).order_by("pk").values_list("pk", flat=True))
    return sum(
        _close_finished_blocks(batch, over[start : start + AT_ONCE]) for start in range(0, len(over), AT_ONCE)
    )


@transaction.atomic
def _cut_blocks(batch: Batch, until: datetime) -> None:
    # One worker at a time: two would cut in different places.
    Batch.objects.select_for_update(no_key=True).get(pk=batch.pk)
    last = dict(
        SubmissionBlock.objects.filter(batch=batch)
        .values_list("person")
        .annotate(last=Max("last_at"))
        .order_by()
    )
    people = batch.memberships.order_by().values_list("person", flat=True).distinct()
    SubmissionBlock.objects.bulk_create(
        SubmissionBlock(batch=batch, person_id=person, first_at=first_at, last_at=last_at)
        for person in people
        for first_at, last_at in _list_block_bounds(
            _list_submission_times(batch, person, after=last.get(person), until=until)
        )
    )


def _list_block_bounds(times: list[datetime]) -> Iterable[tuple[datetime, datetime]]:
    """The first and the last time of each whole block. What came at one time, as from a file, is in one block."""
    first = 0
    while first + SIZE <= len(times):
        last_at = times[first + SIZE - 1]
        yield times[first], last_at
        first = bisect_right(times, last_at, lo=first)


def _list_submission_times(
    batch: Batch, person: int, *, after: datetime | None, until: datetime
) -> list[datetime]:
    """When the person submitted what is in no block yet."""
    times = _filter_submissions().filter(
        batch=batch, person=person, submitted_at__gte=batch.blocks_since, submitted_at__lt=until
    )
    times = times.filter(submitted_at__gt=after) if after else times
    return [
        at for at in times.order_by("submitted_at").values_list("submitted_at", flat=True) if at is not None
    ]


def _filter_finished_blocks(batch: Batch) -> QuerySet[SubmissionBlock]:
    """The open blocks with no open work."""
    of_block = _filter_submissions().filter(
        batch=OuterRef("batch"),
        person=OuterRef("person"),
        submitted_at__gte=OuterRef("first_at"),
        submitted_at__lte=OuterRef("last_at"),
    )
    work = of_block.filter(task__kind=Task.Kind.WORK, task__state=Task.State.OPEN)
    return SubmissionBlock.objects.filter(batch=batch, closed_at=None).exclude(Exists(work))


@transaction.atomic
def _close_finished_blocks(batch: Batch, blocks: list[int]) -> int:
    """Before the tasks are locked: who corrects one of them now is waited for, and who comes later finds it closed."""
    closed = SubmissionBlock.objects.filter(pk__in=blocks, closed_at=None).update(closed_at=timezone.now())
    within = SubmissionBlock.objects.filter(
        pk__in=blocks,
        person=OuterRef("person"),
        first_at__lte=OuterRef("submitted_at"),
        last_at__gte=OuterRef("submitted_at"),
    )
    answers = Assignment.objects.filter(Exists(within), batch=batch, task=OuterRef("pk"))
    close_answered(list(list_open_checks(batch).filter(Exists(answers)).values_list("pk", flat=True)))
    return closed


def _filter_submissions() -> QuerySet[Assignment]:
    """What is cut into blocks: annotations of work and checks."""
    return Assignment.objects.filter(
        state=Assignment.State.SUBMITTED,
        slot__lt=ADJUDICATION_SLOT,
        task__kind__in=[Task.Kind.WORK, Task.Kind.CHECK],
    )
