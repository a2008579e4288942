"""How long the agreement page takes: each of its tabs, of a batch with 200,000 annotations by 12 people in four weeks.

    python -m tests.performance.agreement_page --database postgres://HOST/NAME
    python -m tests.performance.agreement_page --database postgres://HOST/NAME --use   # made by --keep before

For each tab: the first time in a process that has read nothing, the median and the longest of the times after it, and
the first time after one more task was completed through the product's own services. The HTML is ready by then; charts
are images, which a browser fetches later.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

from tests.performance.annotate_loop import world

PEOPLE = 12
DAYS = 28
TASKS = 100_000
LEFT = 60  # tasks that nobody has labelled yet: each "one more" takes one
WARM = 0.3  # seconds: "It must show" of issue 5
TABS = {
    "overview": {},
    "by dimension": {"by": "dimension"},
    "by subcomponent": {"by": "subcomponent"},
    "by criterion": {"by": "criterion"},
    "by guideline version": {"by": "guideline_version"},
    "by model": {"by": "model"},
    "by pair": {"by": "pair"},
    "by week": {"by": "week"},
    "by language": {"by": "language"},
    "pair x subcomponent": {"by": "pair", "across": "subcomponent"},
    "levels": {"view": "levels"},
    "prompts": {"view": "prompts"},
    "guideline": {"view": "guideline"},
    "over time": {"view": "time"},
    "one dimension": {"dimension": "Fairness"},
}
AFTER_ONE_MORE = ("overview", "by pair", "levels", "prompts", "guideline", "over time", "disputed tasks")
LISTS = {"disputed tasks": {"disputed": "1"}, "tasks of 1-3": {"levels": "1-3", "dimension": "Safety"}}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--database", required=True, metavar="URL", help="postgres://HOST/NAME, or sqlite")
    parser.add_argument("--replace", action="store_true", help="drop a database of that name first")
    parser.add_argument("--keep", action="store_true", help="keep the database")
    parser.add_argument("--use", action="store_true", help="measure a database that --keep left")
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--times", type=int, default=15, help="how often each tab is asked for")
    return parser.parse_args()


@contextmanager
def database(options: argparse.Namespace) -> Iterator[None]:
    if options.use:
        os.environ |= {"DATABASE_URL": options.database, "DJANGO_SETTINGS_MODULE": "config.settings"}
        import django

        django.setup()
        yield
        return
    with world.database(options.database, replace=options.replace, keep=options.keep):
        make(options.tasks)
        yield


def make(tasks: int) -> None:
    """A batch of Flames: what ``million.py`` makes, by fewer people and over four weeks, with reasons of disputes."""
    from tests.performance import million

    million.PEOPLE = PEOPLE
    maker = million.Maker(
        labels=tasks + LEFT, guideline=str(world.ROOT / "fixtures/guidelines/flames.yaml"), seed=0, say=report
    )
    maker.make()
    spread_submissions(tasks)
    reopen_tasks()
    world.make_manager()


def spread_submissions(tasks: int) -> None:
    """The items were handed in a second apart: now over as many weeks as it takes, by the hours of the day."""
    from django.db import connection
    from django.db.models import F
    from django.db.models.functions import Mod

    from annotation.models import Adjudication, Assignment, DisputeReason

    step = DAYS * 86_400 / tasks - 1
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE annotation_assignment SET submitted_at = submitted_at + task_id * %s * interval '1 second'",
                [step],
            )
    else:
        for assignment in Assignment.objects.exclude(submitted_at=None).iterator():
            assert assignment.submitted_at is not None
            assignment.submitted_at += timedelta(seconds=assignment.task_id * step)
            assignment.save(update_fields=["submitted_at"])
    reasons = list(DisputeReason.objects.values_list("pk", flat=True))
    numbered = Adjudication.objects.annotate(kind=Mod(F("task_id"), len(reasons)))
    for kind, reason in enumerate(reasons):
        numbered.filter(kind=kind).update(reason_id=reason)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")


def reopen_tasks() -> None:
    """The last tasks are given back as if nobody had ever had them, and the batch is open."""
    from django.db.models import F

    from annotation.models import Adjudication, Annotation, Assignment, Batch, GoldLabel, Stratum, Task

    for task in Task.objects.order_by("-position")[:LEFT]:
        was = task.state
        GoldLabel.objects.filter(task=task).delete()
        Adjudication.objects.filter(task=task).delete()
        Annotation.objects.filter(assignment__task=task).delete()
        Assignment.objects.filter(task=task).delete()
        Task.objects.filter(pk=task.pk).update(state=Task.State.OPEN, slots_taken=0, settled_at=None)
        Stratum.objects.filter(pk=task.stratum_id).update(
            **{was: F(was) - 1, "open": F("open") + 1, "submitted": F("submitted") - 2}
        )
    Batch.objects.update(state=Batch.State.OPEN)


def complete_task() -> None:
    """Two people label the next item, through the services that the pages use."""
    from annotation.domain.annotations import Submission
    from annotation.models import Batch, Membership
    from annotation.services.annotations.submission import submit
    from annotation.services.assignments import claim_next_task

    batch = Batch.objects.get()
    people = [
        membership.person
        for membership in batch.memberships.filter(role=Membership.Role.ANNOTATOR).order_by("pk")
    ]
    for person in people[:2]:
        item = claim_next_task(batch=batch, person=person)
        assert item is not None, "no task is left: make the database anew"
        criterion = batch.guideline.document.criteria_for(item.task.prompt.dimension)[0]
        work = Submission(labels={criterion.name: criterion.values[0]})
        submit(assignment_id=item.pk, person=person, key=str(uuid4()), work=work)


class Reader:
    def __init__(self) -> None:
        from django.test import Client

        from annotation.models import Person

        self._client = Client(SERVER_NAME="localhost")
        self._client.force_login(Person.objects.get(username="manager"))

    def seconds(self, path: str, query: dict[str, str]) -> float:
        began = time.perf_counter()
        answer = self._client.get(path, query)
        took = time.perf_counter() - began
        assert answer.status_code == 200, (path, query, answer.status_code)
        return took


@dataclass
class Times:
    """Of one page, in seconds."""

    cold: float
    warm: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    """What this process worked for the warm ones: others on the machine do not lengthen it much."""
    after_one_more: float | None = None


def measure(times: int) -> dict[str, Times]:
    from django.urls import reverse

    from annotation.selectors.agreement import label_table

    reader = Reader()
    pages = {name: (reverse("agreement"), query) for name, query in TABS.items()}
    pages |= {name: (reverse("agreement-tasks"), query) for name, query in LISTS.items()}
    times_by_page = {}
    for name, (path, query) in pages.items():
        label_table.clear_units()
        times_by_page[name] = Times(reader.seconds(path, {"batch": "million", **query}))
    for name, (path, query) in pages.items():
        for _time in range(times):
            began = time.process_time()
            times_by_page[name].warm.append(reader.seconds(path, {"batch": "million", **query}))
            times_by_page[name].processor.append(time.process_time() - began)
    for name in AFTER_ONE_MORE:
        path, query = pages[name]
        complete_task()
        times_by_page[name].after_one_more = reader.seconds(path, {"batch": "million", **query})
    return times_by_page


def measure_watch() -> tuple[float, float]:
    """What a worker needs for the batch: the first time, and after one more task."""
    from annotation.models import Batch
    from annotation.selectors.agreement import label_table
    from annotation.selectors.batches.monitoring import measure_agreement

    def seconds() -> float:
        began = time.perf_counter()
        measure_agreement(Batch.objects.get())
        return time.perf_counter() - began

    label_table.clear_units()
    first = seconds()
    complete_task()
    return first, seconds()


def report(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main() -> None:
    options = arguments()
    with database(options):
        times_by_page, watch = measure(options.times), measure_watch()
        show(times_by_page, watch)
    slowest = max(statistics.median(page_times.warm) for page_times in times_by_page.values())
    if slowest > WARM:
        raise SystemExit(f"The slowest tab takes {1000 * slowest:.0f} ms; {1000 * WARM:.0f} are allowed.")


def show(times_by_page: dict[str, Times], watch: tuple[float, float]) -> None:
    from annotation.models import Annotation

    n = Annotation.objects.filter(current=True).count()
    where = f"Python {platform.python_version()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}"
    print(f"{where}, {n:,} annotations; milliseconds")
    print(f"{'':24}{'nothing read':>14}{'median':>10}{'longest':>10}{'processor':>11}{'one more task':>15}")
    for name, page_times in times_by_page.items():
        median, processor = statistics.median(page_times.warm), statistics.median(page_times.processor)
        columns = (page_times.cold, median, max(page_times.warm), processor, page_times.after_one_more)
        words = ["-" if s is None else f"{1000 * s:,.0f}" for s in columns]
        print("{:24}{:>14}{:>10}{:>10}{:>11}{:>15}".format(name, *words))
    print(f"{'watching (worker)':24}{1000 * watch[0]:>14,.0f}{'':>31}{1000 * watch[1]:>15,.0f}")


if __name__ == "__main__":
    main()
