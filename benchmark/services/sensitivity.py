"""The sensitivity of a run: worked out when somebody first asks for it, then kept until labels behind it change.

Of a large board a job does it (docs/decisions/jobs-are-rows.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.utils import timezone

from annotation.models import Job, Person
from annotation.selectors.jobs import StoredResult
from annotation.services import jobs
from benchmark.models import BenchmarkRun
from benchmark.selectors.estimates.sensitivity import (
    BUILT_AT,
    KEY,
    SENSITIVITY,
    SENSITIVITY_JOB,
    compute_run_sensitivity,
    find_stored_sensitivity,
    is_large,
    read_key,
)
from benchmark.selectors.leaderboards.runs import get_finished_board, list_runs
from benchmark.services.leaderboards.execution import store_parts


def load_sensitivity(run: BenchmarkRun, *, actor: Person | None = None) -> StoredResult:
    """What is kept. Where it is not of today's labels it is made anew: here, or of a large board by a job.

    A job that failed over these labels is not repeated unasked. Raises AssayError of a run that is not finished.
    """
    get_finished_board(run)
    stored = find_stored_sensitivity(run)
    is_current = stored.content is not None and not stored.is_stale
    if is_current or stored.job is not None or stored.failed is not None:
        return stored
    if is_large(run):
        start_sensitivity(run, actor=actor)
    else:
        _store_sensitivity(run)
    return find_stored_sensitivity(run)


@transaction.atomic
def start_sensitivity(run: BenchmarkRun, *, actor: Person | None = None) -> Job:
    """The job that computes it; where one is at work for the run already, that one."""
    # Of two who open the tab at once the second finds the job of the first.
    BenchmarkRun.objects.select_for_update(no_key=True).only("pk").get(pk=run.pk)
    running = find_stored_sensitivity(run).job
    if running is not None:
        return running
    payload = {"run": run.pk, "key": read_key(run)}
    return jobs.enqueue(kind=SENSITIVITY_JOB, payload=payload, title=run.name, actor=actor)


def execute_sensitivity(context: jobs.JobContext) -> dict[str, Any]:
    """The body of the job. Done again after a worker died, it computes all of it again."""
    run = list_runs().get(pk=context.payload["run"])
    content = _store_sensitivity(run, context.report)
    return {"run": run.name, "people": len(content["without"])}


def _store_sensitivity(
    run: BenchmarkRun, report: Callable[[float], object] = lambda _done: None
) -> dict[str, Any]:
    key = read_key(run)  # first: labels that are corrected meanwhile make what is kept stale, never wrong
    content = compute_run_sensitivity(run, report)
    store_parts(run, {SENSITIVITY: content | {KEY: key, BUILT_AT: timezone.now().isoformat()}})
    return content
