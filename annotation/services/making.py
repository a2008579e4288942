"""Making a batch that a page asks for: at once, or by a job where there are many responses.

The job makes it in one transaction, so that a failed, cancelled or killed one leaves nothing behind.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction

from annotation.domain.batch_spec import BatchSpec
from annotation.errors import N_, AssayError
from annotation.models import Batch, Job, Person
from annotation.services import jobs
from annotation.services.batches import check_batch, create_batch, list_responses
from annotation.services.telling import Teller

JOB_KIND = "batch"
# So many responses are made into a batch while the page waits: a few seconds.
AT_ONCE = 20_000
UNDER_WAY = (Job.State.QUEUED, Job.State.RUNNING)


def make(spec: BatchSpec, *, actor: Person) -> Batch | Job:
    """The batch, or the job that makes it. What cannot be made is refused at once (AssayError)."""
    if list_responses(spec).count() <= AT_ONCE:
        return create_batch(spec, actor=actor)
    check_batch(spec, actor=actor)
    if Job.objects.filter(kind=JOB_KIND, state__in=UNDER_WAY, payload__name=spec.name).exists():
        raise AssayError(N_("A batch named {name} is being made now."), name=spec.name)
    return jobs.enqueue(kind=JOB_KIND, payload=spec.model_dump(mode="json"), title=spec.name, actor=actor)


def run_making(context: jobs.JobContext) -> dict[str, Any]:
    """The body of the job. Done again after a worker died, it finds the batch made, or nothing of it."""
    if "batch" in context.job.result:
        return dict(context.job.result)
    context.report(0, N_("making the items"))
    spec = BatchSpec.model_validate(context.payload)
    with Teller(context) as teller, transaction.atomic():
        batch = create_batch(spec, actor=context.job.created_by, report=teller.tell)
        result = {"batch": batch.name, "tasks": batch.tasks.count()}
        context.keep(result)
    return result
