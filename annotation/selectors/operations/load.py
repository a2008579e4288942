"""How much is under way, in numbers for a monitor: of the whole site, whatever the study."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.cache import caches
from django.db.models import Count, ExpressionWrapper, Min, Sum, fields
from django.db.models.functions import Now

from annotation.models import Assignment, Job, MemberCounts

FINISHED_FOR_SECONDS = 60
"""Finished jobs are counted once in this time by each process: there may be hundreds of thousands."""
FINISHED_KEY = "finished-jobs"
FINISHED = (Job.State.DONE, Job.State.FAILED, Job.State.CANCELLED)


@dataclass(frozen=True)
class JobLoad:
    kind: str
    state: str
    number: int
    oldest_seconds: float
    """Of those that wait the age of the oldest, of those that run the time since the oldest heartbeat."""


def list_job_load() -> list[JobLoad]:
    """Of the jobs that wait or run, a line for each kind and state that there is."""
    return [
        *_measure(Job.State.QUEUED, "created_at"),
        *_measure(Job.State.RUNNING, "heartbeat"),
    ]


def _measure(state: str, since: str) -> list[JobLoad]:
    age = ExpressionWrapper(Now() - Min(since), output_field=fields.DurationField())
    rows = Job.objects.filter(state=state).order_by().values("kind").annotate(number=Count("pk"), age=age)
    return [
        JobLoad(row["kind"], state, row["number"], row["age"].total_seconds() if row["age"] else 0.0)
        for row in rows
    ]


def count_finished_jobs() -> dict[str, int]:
    """By how they ended."""
    cache = caches["process"]
    numbers: dict[str, int] | None = cache.get(FINISHED_KEY)
    if numbers is None:
        rows = Job.objects.filter(state__in=FINISHED).order_by().values_list("state").annotate(Count("pk"))
        numbers = dict.fromkeys(map(str, FINISHED), 0) | dict(rows)
        cache.set(FINISHED_KEY, numbers, FINISHED_FOR_SECONDS)
    return numbers


def count_live_claims() -> int:
    return Assignment.objects.filter(state=Assignment.State.CLAIMED).count()


def count_work_done() -> dict[str, int]:
    """Annotations submitted, and disputes adjudicated: sums over the counters, never a walk over the annotations."""
    sums: dict[str, Any] = MemberCounts.objects.aggregate(
        submitted=Sum("submitted"), adjudicated=Sum("adjudicated")
    )
    return {name: number or 0 for name, number in sums.items()}
