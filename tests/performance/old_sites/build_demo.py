"""Fill the database of this process with the demo. Runs on the code of 0.1.0 and of every later version.

    python build_demo.py FACTS.json

What could be done again on the migrated site goes to FACTS.json: nothing, but that it is there.
"""

from __future__ import annotations

import sys
from pathlib import Path

import django

django.setup()

import benchmark.tasks  # noqa: F401, E402 (the handlers, as a worker has them)
import scoring.tasks  # noqa: F401, E402
from annotation.models import Job  # noqa: E402
from annotation.services import jobs  # noqa: E402
from annotation.services.demo import load_demo  # noqa: E402

MAX_ROUNDS = 10


def run_queued_jobs() -> None:
    """One after the other, those that wait for another one after it."""
    for _round in range(MAX_ROUNDS):
        queued = Job.objects.filter(state=Job.State.QUEUED).order_by("pk")
        ready = [job for job in queued if job.depends_on is None or job.depends_on.state == Job.State.DONE]
        if not ready:
            return
        for job in ready:
            jobs.run_now(job)


if __name__ == "__main__":
    load_demo(announce=lambda _stage: None)
    run_queued_jobs()
    Path(sys.argv[1]).write_text("{}", encoding="utf-8")
