"""What the workers run. The bodies are one line: the row decides (annotation/services/jobs.py)."""

from __future__ import annotations

from celery import shared_task

from annotation.services import jobs


@shared_task(name="annotation.run_job")
def run_job(job_id: int) -> None:
    jobs.run(job_id)


@shared_task(name="annotation.sweep_jobs")
def sweep_jobs() -> None:
    jobs.sweep()
