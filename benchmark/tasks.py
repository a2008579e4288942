"""The kinds of jobs that this app does."""

from __future__ import annotations

from typing import Any

from annotation.services import jobs
from benchmark.selectors.runs import runs_with_all
from benchmark.services import choice_readings, collecting, collecting_job, judging
from benchmark.services.running import perform
from benchmark.services.runs import KIND


@jobs.handles(KIND)
def run_benchmark(context: jobs.JobContext) -> dict[str, Any]:
    run = runs_with_all().get(pk=context.payload["run"])
    return perform(run, context.report)


jobs.handles(collecting.KIND)(collecting_job.perform)
jobs.handles(judging.KIND)(judging.perform)
jobs.handles(choice_readings.KIND)(choice_readings.perform)
