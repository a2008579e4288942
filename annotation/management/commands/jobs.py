from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.core.errors import N_, AssayError
from annotation.core.terminal import format_table
from annotation.management.base import AssayCommand
from annotation.models import Job
from annotation.selectors.jobs import describe_job, get_jobs, list_latest_jobs
from annotation.services import jobs

LIST, RETRY, CANCEL = "list", "retry", "cancel"


class Command(AssayCommand):
    help = "List the jobs of all studies, try failed ones again, or cancel what waits or runs."
    is_of_study = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=[LIST, RETRY, CANCEL])
        parser.add_argument("job", nargs="*", type=int, help="the numbers of the jobs to retry or cancel")
        parser.add_argument("--state", nargs="+", choices=Job.State.values, help="list those in these states")
        parser.add_argument("--kind", help="list those of this kind, such as train_scorer")
        parser.add_argument("--limit", type=int, default=50, help="list so many of the latest (default: 50)")

    def act(self, **options: Any) -> dict[str, Any]:
        if options["action"] == LIST:
            if options["limit"] < 1:
                raise AssayError(N_("--limit is a number above 0."))
            listed = list_latest_jobs(states=options["state"], kind=options["kind"], limit=options["limit"])
        elif not options["job"]:
            raise AssayError(N_("Say which jobs, by their numbers in the list."))
        else:
            change = jobs.retry if options["action"] == RETRY else jobs.cancel
            listed = [change(job=job) for job in get_jobs(options["job"])]
        return {"jobs": [describe_job(job) for job in listed]}

    def show(self, data: dict[str, Any]) -> None:
        columns = ("job", "kind", "title", "queue", "state", "attempt", "progress", "worker")
        if data["jobs"]:
            rows = [columns, *([str(job[column]) for column in columns] for job in data["jobs"])]
            for line in format_table(rows, texts=len(columns)):
                self.stdout.write(line)
        else:
            self.stdout.write("no jobs")
        for job in data["jobs"]:
            if job["error"]:
                self.stdout.write(f"{job['job']}: {job['error']}")
