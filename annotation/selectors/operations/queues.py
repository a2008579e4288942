"""The queues in which jobs wait, and the workers that take from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.conf import settings

from annotation.core.signs import WORKER
from annotation.models import Job
from annotation.selectors.operations.load import list_job_load
from annotation.selectors.operations.signs import Sign, list_signs


@dataclass(frozen=True)
class QueueState:
    name: str
    waiting: int
    oldest_seconds: float
    """The age of the job that waits longest; 0 where none waits."""
    running: int
    workers: int
    """That live and take from it."""


def get_queue(kind: str) -> str:
    """The queue from which workers take jobs of this kind."""
    return settings.JOB_QUEUES.get(kind, settings.CELERY_TASK_DEFAULT_QUEUE)


def list_queues() -> list[QueueState]:
    """Each queue of the settings, whether anything waits there or not."""
    workers = list_signs(WORKER)
    loads = list_job_load()
    states = []
    for name in (queue.name for queue in settings.CELERY_TASK_QUEUES):
        waiting = [load for load in loads if load.state == Job.State.QUEUED and get_queue(load.kind) == name]
        running = [load for load in loads if load.state == Job.State.RUNNING and get_queue(load.kind) == name]
        states.append(
            QueueState(
                name=name,
                waiting=sum(load.number for load in waiting),
                oldest_seconds=max((load.oldest_seconds for load in waiting), default=0.0),
                running=sum(load.number for load in running),
                workers=len(list_takers(name, workers)),
            )
        )
    return states


def list_takers(queue: str, workers: Iterable[Sign]) -> list[Sign]:
    """The live ones of ``workers`` that take from the queue."""
    return [worker for worker in workers if not worker.is_stale and queue in worker.queues]
