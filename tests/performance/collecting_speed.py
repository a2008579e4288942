"""Collecting from an endpoint that fails, stalls, limits and goes away, through a worker that is killed and cancelled.

    .venv/bin/python -m tests.performance.collecting_speed [--prompts 1000] [--at-once 64] [--rate 25]

A real worker on a database of its own (SQLite, or what DATABASE_URL names, which must be empty), and a real HTTP
endpoint with a token bucket of so many requests a second: 5% of the calls fail, 1% stall. The worker is killed with -9
at a quarter, the endpoint is down for five seconds at a half, the job is cancelled at three quarters. Prints what the
endpoint let through while it was up and a worker was at it, and fails where a response is missing, doubled, or was
asked for again.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 3
DOWN_SECONDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--prompts", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--rate", type=float, default=25)
    options = parser.parse_args()
    with prepare_site() as folder:
        measure(folder, options.prompts, options.at_once, options.rate)


@contextmanager
def prepare_site() -> Iterator[Path]:
    """A folder for the data of a migrated site whose workers are soon taken for dead."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("DATABASE_URL", f"sqlite:///{folder}/site.sqlite3")
        os.environ.update(
            ASSAY_DATA_DIR=folder,
            DJANGO_SETTINGS_MODULE="config.settings",
            ASSAY_JOB_HEARTBEAT_SECONDS="1",
            ASSAY_JOB_STALE_SECONDS="3",
            LOG_LEVEL="WARNING",
        )
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        yield Path(folder)


def measure(folder: Path, number: int, at_once: int, rate: float) -> None:
    from annotation.models import Dataset, Job, Prompt, Response
    from annotation.services import jobs
    from annotation.services.studies import find_or_make_study
    from benchmark.models import CollectedResponse, CollectionRun, FailedRequest, PendingRequest
    from benchmark.services.collection import resume_collection, start_collection
    from tests.benchmark.endpoint import Bucket, local_endpoint, troubled

    dataset = Dataset.objects.create(study=find_or_make_study(), name="asked")
    Prompt.objects.bulk_create(
        Prompt(dataset=dataset, key=f"p{n}", text=f"Question {n}?") for n in range(number)
    )
    policy = troubled(lambda messages, _request: f"To {messages[-1]['content']}", bucket=Bucket(rate, rate))
    stretches: list[tuple[float, float]] = []
    began: float | None = None
    worker = start_worker(folder)
    lost_most = 0
    with local_endpoint(policy, latency=0.3) as url:

        def count_responses() -> int:
            return Response.objects.count()

        def start_clock(count: int) -> None:
            """The clock runs from the next request on."""
            nonlocal began
            wait_until(lambda: len(url.requests) > count)
            began = url.requests[count].at

        def stop_clock() -> None:
            nonlocal began
            assert began is not None
            stretches.append((began, time.monotonic()))
            began = None

        run = start_collection(
            model="M", dataset=dataset, endpoint=url, concurrency=at_once, timeout=TIMEOUT, send=True
        )
        start_clock(0)
        wait_until(lambda: count_responses() >= number // 4)
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        stop_clock()
        under_way, sent = PendingRequest.objects.count(), len(url.requests)
        lost_most += under_way
        print(f"killed at {count_responses()} responses with {under_way} under way")
        worker = start_worker(folder)
        start_clock(sent)
        wait_until(lambda: count_responses() >= number // 2)
        stop_clock()
        url.down()
        time.sleep(DOWN_SECONDS)
        sent = len(url.requests)
        url.up()
        start_clock(sent)
        wait_until(lambda: count_responses() >= number * 3 // 4)
        job = CollectionRun.objects.get().job
        assert job is not None
        jobs.cancel(job=job)
        wait_until(lambda: Job.objects.get(pk=job.pk).is_over)
        stop_clock()
        run.refresh_from_db()
        print(
            f"cancelled at {count_responses()} responses; {run.lost} answers lost so far,"
            f" {under_way} of them to the kill"
        )
        assert under_way <= run.lost <= under_way + at_once
        stored, sent = set(Response.objects.values_list("prompt__text", flat=True)), len(url.requests)
        resume_collection(run=run)
        start_clock(sent)
        wait_until(lambda: count_responses() >= number - at_once)
        stop_clock()  # fewer are left than are asked at once: the limit is met no more
        tail = time.monotonic()
        wait_until(lambda: CollectionRun.objects.get().finished_at is not None)
        tail = time.monotonic() - tail
        asked_twice = [request.prompt for request in url.requests[sent:] if request.prompt in stored]
    os.killpg(worker.pid, signal.SIGTERM)
    worker.wait()
    run.refresh_from_db()
    assert asked_twice == [], "a stored response was asked for again"
    assert count_responses() == CollectedResponse.objects.count() == number
    assert not FailedRequest.objects.exists()
    assert not PendingRequest.objects.exists()
    doubled = sum(times - 1 for times in Counter(url.delivered).values())
    seconds = sum(end - start_ for start_, end in stretches)
    within = [
        request for request in url.requests if any(start_ <= request.at <= end for start_, end in stretches)
    ]
    through = sum(request.status != 429 for request in within)
    print(
        f"{count_responses()} responses to {number} prompts, each exactly one; none that was stored was asked for again"
    )
    print(f"{run.lost} answers lost to two stops, counted; {doubled} answers were sent twice")
    print(
        f"requests {run.requests}: "
        f"{dict(sorted(Counter(request.status for request in url.requests).items()))} (0: stalled)"
    )
    print(
        f"the endpoint lets {rate:g} requests a second through; {through} in {seconds:.1f} s of being up and asked"
    )
    answers = sum(request.status == 200 for request in within)
    share, gathered = through / seconds / rate, rate * (seconds + len(stretches))
    print(
        f"rate: {through / seconds:.1f}/s, {share:.0%} of its own, of which {answers / seconds:.1f}/s are answers;"
    )
    print(
        f"{through / gathered:.0%} also of what had gathered in its bucket by the beginning of each stretch"
    )
    print(f"the last {at_once}, fewer than can be asked at once, took {tail:.1f} s")
    if through / seconds < 0.9 * rate:
        sys.exit("less than 90% of the endpoint's own rate")


def start_worker(folder: Path) -> subprocess.Popen[Any]:
    with (folder / "worker.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "config", "worker", "--beat", "--loglevel", "warning"],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def wait_until(condition: Callable[[], bool], seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            sys.exit("waited in vain")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
