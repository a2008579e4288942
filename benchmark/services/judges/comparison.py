"""The comparison on a large release: a job builds it, and it is kept until somebody asks for it anew."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone

from annotation.models import GoldRelease, Job, Person
from annotation.services import jobs
from benchmark.models import JudgeComparison
from benchmark.selectors.judges.comparison import COMPARISON_JOB, ComparisonRequest, find_comparison_job


@transaction.atomic
def start_comparison(request: ComparisonRequest, *, actor: Person | None = None) -> Job:
    """The job that builds it; where one is at work for the release already, that one."""
    # Of two who press at once the second finds the job of the first.
    GoldRelease.objects.select_for_update(no_key=True).only("pk").get(pk=request.release.pk)
    running = find_comparison_job(request.release)
    if running is not None:
        return running
    comparison, _created = JudgeComparison.objects.get_or_create(
        release=request.release, request_sha256=request.sha256, defaults={"request": request.to_json()}
    )
    comparison.job = jobs.enqueue(
        kind=COMPARISON_JOB,
        payload={"comparison": comparison.pk, "release": request.release.pk},
        title=request.release.name,
        actor=actor,
    )
    comparison.save(update_fields=["job"])
    return comparison.job


def execute_comparison(context: jobs.JobContext) -> dict[str, Any]:
    """The body of the job. Done again after a worker died, it builds all of it again."""
    comparison = JudgeComparison.objects.select_related("release").get(pk=context.payload["comparison"])
    request = ComparisonRequest.from_json(comparison.release, comparison.request)
    key = request.read_key()  # first: labels that come meanwhile make what is kept stale, never wrong
    document = request.build(context.report)
    with transaction.atomic():
        JudgeComparison.objects.filter(pk=comparison.pk).update(
            document=document, key=key, built_at=timezone.now()
        )
        result = {"comparison": comparison.pk, "candidates": len(document["candidates"])}
        context.save_result(result)
    return result
