"""A job as its page shows it: who may open it, its live curves, and whether a worker is at it.

And what jobs compute for pages and keep: as it is stored, and the job that is making it anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import DurationField, ExpressionWrapper, F, Q, QuerySet
from django.db.models.functions import Now

from annotation.core.databases import seconds_ago
from annotation.core.errors import N_, NotFound
from annotation.core.signs import WORKER
from annotation.core.study_scope import get_study_scope
from annotation.models import Batch, Job, Person
from annotation.selectors.access import refuse_sealed_gold, sealed_batches
from annotation.selectors.exports import check_export_release
from annotation.selectors.imports import get_visible_import
from annotation.selectors.operations.queues import get_queue, list_takers
from annotation.selectors.operations.signs import list_signs
from annotation.selectors.releases.releases import RELEASE_JOB

DEAD = (Job.State.FAILED, Job.State.CANCELLED)
AT_WORK = (Job.State.QUEUED, Job.State.RUNNING)


@dataclass(frozen=True)
class StoredResult:
    """What a job has made and kept, None where nothing is yet; ``is_stale``: it rests on other rows than there are.

    ``job`` is at it now, ``failed`` the one for just this that did not come to its end.
    """

    content: dict[str, Any] | None = None
    built_at: datetime | None = None
    is_stale: bool = False
    job: Job | None = None
    failed: Job | None = None


@dataclass(frozen=True)
class Curve:
    """One live curve in a box of 100 x 40: ``points`` as an SVG polyline wants them, the last value beside it."""

    name: str
    points: str
    last: float

    @property
    def last_text(self) -> str:
        """The last value: a loss to its third decimal, a count or a rate of hundreds whole."""
        is_whole = abs(self.last) >= 100 or self.last == round(self.last)
        return f"{self.last:,.0f}" if is_whole else f"{self.last:.3f}"


def list_visible_jobs(person: Person) -> QuerySet[Job]:
    """Those of the studies in question, and the person's own that are of no study: of the site, or of before."""
    studies = get_study_scope()
    if studies is None:
        return Job.objects.all()
    return Job.objects.filter(Q(study__in=studies) | Q(study=None, created_by=person))


def list_jobs_of_site(person: Person) -> QuerySet[Job]:
    """Of all studies, the latest first. Titles, errors and logs of imports and releases name models and people: they
    are not for an admin who judges blind.
    """
    jobs = Job.objects.order_by("-pk")
    if not sealed_batches(person).exists():
        return jobs
    return jobs.exclude(Q(payload__has_key="import") | Q(kind=RELEASE_JOB))


def get_job_for(person: Person, job_id: int, *, any_job: bool) -> Job:
    """A job that the person made, or any job of the studies in question for those who may see all."""
    own = Job.objects.filter(created_by=person)
    job = (list_visible_jobs(person) | own if any_job else own).filter(pk=job_id).first()
    if job is None:
        raise NotFound(N_("There is no such job."))
    if "import" in job.payload:  # its errors and its file's name can tell what this person judges blind
        get_visible_import(person, job.payload["import"])
    if job.kind == RELEASE_JOB:  # nor may they read here how a batch of theirs was settled
        refuse_sealed_gold(person, Batch.objects.filter(pk__in=job.payload["batches"]))
    if "export" in job.payload:  # nor see what was exported of a release that they may not open
        check_export_release(person, job.payload["export"])
    return job


def list_latest_jobs(
    *, states: Sequence[str] | None = None, kind: str | None = None, limit: int
) -> list[Job]:
    """Of all studies, the latest first; only those in ``states`` and of ``kind`` where these are said."""
    jobs = Job.objects.order_by("-pk")
    if states:
        jobs = jobs.filter(state__in=states)
    if kind:
        jobs = jobs.filter(kind=kind)
    return list(jobs[:limit])


def get_jobs(numbers: Sequence[int]) -> list[Job]:
    """In this order. Raises NotFound, which names those that are not there."""
    jobs = Job.objects.in_bulk(numbers)
    missing = [str(number) for number in numbers if number not in jobs]
    if missing:
        raise NotFound(N_("There is no job {numbers}."), numbers=", ".join(missing))
    return [jobs[number] for number in dict.fromkeys(numbers)]


def describe_job(job: Job) -> dict[str, Any]:
    """As an operator reads it: the times are in UTC, ``progress`` is from 0 to 1."""
    times = {"created_at": job.created_at, "started_at": job.started_at, "finished_at": job.finished_at}
    return {
        "job": job.pk,
        "kind": job.kind,
        "title": job.title,
        "queue": get_queue(job.kind),
        "state": job.state,
        "attempt": job.attempt,
        "progress": round(job.progress, 3),
        "worker": job.worker,
        "error": job.error,
        **{name: time and time.isoformat() for name, time in times.items()},
    }


def hash_basis(content: Any) -> str:
    """Of what a stored result rests on: another one says that it is out of date."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def find_job_at_work(kind: str, **payload: Any) -> Job | None:
    """The first that waits or runs of those with this in their payload."""
    jobs = Job.objects.filter(kind=kind, state__in=AT_WORK)
    return (
        jobs.filter(**{f"payload__{name}": value for name, value in payload.items()}).order_by("pk").first()
    )


def list_curves(job: Job) -> list[Curve]:
    """The values that the job reported while it ran, one curve for each name, scaled to its own range."""
    named: dict[str, list[float]] = {}
    for point in job.history:
        named.setdefault(point["name"], []).append(point["value"])
    return [Curve(name=name, points=_polyline(values), last=values[-1]) for name, values in named.items()]


@dataclass(frozen=True)
class Trouble:
    """What a reader of a job that is not over should know of its worker."""

    silent_seconds: float | None = None
    """Since the last sign of the worker that runs it, where it is silent for long enough to be taken for dead."""
    waits_long: bool = False
    """Queued so long that probably no worker runs."""
    lacks_worker: bool = False
    """No live worker takes from its queue."""


def diagnose(job: Job) -> Trouble:
    if job.state == Job.State.RUNNING:
        return Trouble(silent_seconds=_measure_silence(job))
    if not is_waiting_long(job):
        return Trouble()
    takers = list_takers(get_queue(job.kind), list_signs(WORKER))
    return Trouble(waits_long=True, lacks_worker=not takers)


def is_silent(job: Job) -> bool:
    """Running, and its worker has not been heard of for long enough to be taken for dead."""
    return _measure_silence(job) is not None


def _measure_silence(job: Job) -> float | None:
    """Seconds by the database's clock; None where the worker was heard of lately."""
    silent = Job.objects.filter(
        pk=job.pk, state=Job.State.RUNNING, heartbeat__lt=seconds_ago(settings.JOB_STALE_SECONDS)
    )
    age = ExpressionWrapper(Now() - F("heartbeat"), output_field=DurationField())
    silence = silent.values_list(age, flat=True).first()
    return None if silence is None else silence.total_seconds()


def is_waiting_long(job: Job) -> bool:
    """Queued so long that probably no worker runs."""
    queued = Job.objects.filter(pk=job.pk, state=Job.State.QUEUED, depends_on=None)
    return queued.filter(created_at__lt=seconds_ago(2 * settings.JOB_STALE_SECONDS)).exists()


def _polyline(values: list[float]) -> str:
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    step = 100 / max(1, len(values) - 1)
    return " ".join(f"{place * step:.2f},{38 - 36 * (v - low) / span:.2f}" for place, v in enumerate(values))
