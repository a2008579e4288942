"""Cutting a release that a page or a command asks for: at once, or by a job where there are many labels.

The job cuts it in one transaction, so that a failed, cancelled or killed one leaves nothing behind.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction

from annotation.domain.release_spec import ReleaseSpec
from annotation.errors import N_, Conflict
from annotation.models import GoldRelease, Job, Person
from annotation.selectors.freezing import settled_labels
from annotation.selectors.gold import RELEASE_JOB
from annotation.services import jobs
from annotation.services.gold import check_release, cut_release, list_batches
from annotation.services.telling import Teller

# So many labels are frozen while the page waits: a few seconds.
AT_ONCE = 20_000
UNDER_WAY = (Job.State.QUEUED, Job.State.RUNNING)


def make(spec: ReleaseSpec, *, actor: Person) -> GoldRelease | Job:
    """The release, or the job that cuts it. What cannot be cut is refused at once (AssayError)."""
    if settled_labels(list_batches(spec))[: AT_ONCE + 1].count() <= AT_ONCE:
        return cut_release(spec, actor=actor)
    return enqueue(spec, actor=actor)


def enqueue(spec: ReleaseSpec, *, actor: Person | None = None, send: bool = True) -> Job:
    """The job that cuts the release. With ``send`` False the caller runs it in its own process."""
    check_release(spec, actor=actor)
    if Job.objects.filter(kind=RELEASE_JOB, state__in=UNDER_WAY, payload__name=spec.name).exists():
        raise Conflict(N_("A release named {name} is being cut now."), name=spec.name)
    payload = spec.model_dump(mode="json")
    return jobs.enqueue(kind=RELEASE_JOB, payload=payload, title=spec.name, actor=actor, send=send)


def run_releasing(context: jobs.JobContext) -> dict[str, Any]:
    """The body of the job. Done again after a worker died, it finds the release cut, or nothing of it."""
    if "release" in context.job.result:
        return dict(context.job.result)
    spec = ReleaseSpec.model_validate(context.payload)
    context.report(0, N_("freezing the labels"))
    with Teller(context) as teller, transaction.atomic():
        release = cut_release(spec, actor=context.job.created_by, report=teller.tell)
        result = {"release": release.name, "labels": release.labels, "sha256": release.sha256}
        context.keep(result)
    return result
