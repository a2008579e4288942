"""Does the next item cost the same in a batch of a million as in one of a thousand, for whoever asks?

One request at a time, the cases by turns, so that what else the machine does meets all of them alike.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any
from uuid import uuid4

from tqdm import tqdm

from tests.performance.annotate_loop import world
from tests.performance.annotate_loop.checks import Batches, Check, check_batches
from tests.performance.annotate_loop.client import Client
from tests.performance.annotate_loop.ledger import Ledger, percentile
from tests.performance.annotate_loop.people import Program
from tests.performance.annotate_loop.server import Server
from tests.performance.annotate_loop.stages import Outcome
from tests.performance.annotate_loop.world import ROOT, Account

CHUNK = 5000
PAGES = 11
# "It must show" of issue 3, where the large batch has a million tasks.
SLOWER, CREATED_WITHIN, MEMORY, PAGE_WITHIN = 1.5, 180.0, 500.0, 200.0
POOL, BALANCED = 32, 20
MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""


@dataclass
class Case:
    """One kind of asker in one batch. ``cold`` is the first next, when no cursor helps; the others are ``times``."""

    name: str
    size: int
    workers: Sequence[Program]
    cold: float = 0.0

    def __post_init__(self) -> None:
        self.turns = cycle(self.workers)
        self.times: list[float] = []

    def step(self) -> None:
        worker = next(self.turns)
        item = worker.next()
        if item is None:
            raise SystemExit(
                f"Nothing is left for {worker.person.name} in {worker.batch}: take fewer --samples."
            )
        self.times.append(worker.ledger.timings[-1].seconds * 1000)
        worker.submit(item)

    def figures(self) -> dict[str, Any]:
        shares = {f"p{share}": percentile(self.times, share / 100) for share in (50, 95)}
        return {"case": self.name, "tasks": self.size, "cold": self.cold, **shares}


class Probe:
    def __init__(
        self, *, server: Server, guideline: str, sizes: tuple[int, int], samples: int, seed: int
    ) -> None:
        self.server, self.guideline, self.samples = server, guideline, samples
        self.sizes = sizes
        self.small, self.large = sizes
        self.people = world.make_people(POOL)
        self.manager = world.make_manager()
        self.created: list[dict[str, Any]] = []
        self.ledgers: list[Ledger] = []
        for size in sizes:
            world.make_corpus(f"corpus-{size}", tasks=size, guideline=guideline, seed=seed)

    def run(self) -> Outcome:
        rows = self._measured(self._pairs("pool", self.people, "pool"))
        rows += self._measured(self._pairs("balanced", self.people[:BALANCED], "balanced"))
        rows += self._lone()
        pages = [self._page(f"{kind}-{self.large}") for kind in ("pool", "balanced", "lone")]
        names = tuple(creation["batch"] for creation in self.created)
        checks = [*self._limits(rows, pages), *self._counted(names)]
        return Outcome({"next": rows, "created": self.created, "progress_page": pages}, checks)

    def _pairs(self, kind: str, people: Sequence[Account], pairing: str) -> list[Case]:
        """The same case in the small and in the large batch."""
        cases = []
        for size in self.sizes:
            batch = f"{kind}-{size}"
            self._create(batch, size, people, pairing)
            cases.append(self._case(kind, size, batch, people))
        return cases

    def _case(self, name: str, size: int, batch: str, people: Sequence[Account]) -> Case:
        workers = [Program(person, batch, self.server.port) for person in people]
        self.ledgers += [worker.ledger for worker in workers]
        return Case(name, size, workers)

    def _lone(self) -> list[dict[str, Any]]:
        """One person works alone and has done nearly nothing, a quarter, and all but one of a half."""
        people = self.people[:2]  # an overlap of two needs two; the other one never comes
        for size in self.sizes:
            self._create(f"lone-{size}", size, people, "pool")
        rows: list[dict[str, Any]] = []
        for done in (1, self.large // 4, self.large // 2 - 1):
            _do(f"lone-{self.large}", people[0].name, done)
            cases = [
                self._case(
                    f"lone, {done if size == self.large else 'few'} done", size, f"lone-{size}", people[:1]
                )
                for size in self.sizes
            ]
            rows += self._measured(cases)
        return rows

    def _create(self, batch: str, size: int, people: Sequence[Account], pairing: str) -> None:
        """By the product's command in a process of its own: the seconds, and its largest memory in MB."""
        arguments = world.batch_arguments(
            batch, dataset=f"corpus-{size}", guideline=self.guideline, annotators=list(people), adjudicators=[],
            overlap=2, pairing=pairing, lease=24 * 60 * 60,
        )  # fmt: skip
        seconds, megabytes = measured([sys.executable, "manage.py", "create_batch", *arguments])
        self.created.append({"batch": batch, "tasks": size, "seconds": seconds, "megabytes": megabytes})
        _tidy()

    def _measured(self, cases: Sequence[Case]) -> list[dict[str, Any]]:
        for case in cases:
            case.step()
            case.cold = case.times.pop()
            for _ in case.workers:
                case.step()
            case.times.clear()
        for _ in tqdm(range(self.samples), desc=cases[-1].name, disable=None, leave=False):
            for case in cases:
                case.step()
        for case in cases:
            for worker in case.workers:
                worker.client.close()
        rows = [case.figures() for case in cases]
        for row in rows:
            row["times_the_small"] = row["p95"] / rows[0]["p95"]
        return rows

    def _page(self, batch: str) -> dict[str, Any]:
        client = Client(self.server.port, {"Accept": "text/html"})
        client.cookies["sessionid"] = self.manager.session
        times = []
        for _ in range(PAGES):
            began = time.monotonic()
            answer = client.send("GET", f"/batches/{batch}/")
            times.append((time.monotonic() - began) * 1000)
            if answer.status != 200:
                raise SystemExit(f"The progress page of {batch} answers {answer.status}.")
        client.close()
        return {
            "batch": batch,
            "p50": percentile(times[1:], 0.5),
            "longest": max(times[1:]),
            "first": times[0],
        }

    def _limits(self, rows: Sequence[dict[str, Any]], pages: Sequence[dict[str, Any]]) -> list[Check]:
        slow = [
            f"{row['case']}: {row['times_the_small']:.2f}" for row in rows if row["times_the_small"] > SLOWER
        ]
        late = [creation["batch"] for creation in self.created if creation["seconds"] >= CREATED_WITHIN]
        large = [
            f"{creation['batch']}: {creation['megabytes']:.0f}"
            for creation in self.created
            if creation["megabytes"] >= MEMORY
        ]
        heavy = [f"{page['batch']}: {page['p50']:.0f} ms" for page in pages if page["p50"] >= PAGE_WITHIN]
        return [
            Check.of(f"p95 of next is at most {SLOWER} times that at {self.small} tasks", slow),
            Check.of(f"a batch is created in under {CREATED_WITHIN:.0f} s", late),
            Check.of(f"and in under {MEMORY:.0f} MB", large),
            Check.of(f"the progress page takes under {PAGE_WITHIN:.0f} ms", heavy),
        ]

    def _counted(self, names: tuple[str, ...]) -> list[Check]:
        """The small batches alone: of the large ones the rows would not fit into the memory."""
        surprises = [surprise for ledger in self.ledgers for surprise in ledger.surprises]
        small = tuple(name for name in names if name.endswith(f"-{self.small}"))
        held = [ledger for ledger in self.ledgers if ledger.person]
        batches = Batches(small, 2, drained=False)
        checks = [
            check_batch
            for check_batch in check_batches(batches, held)
            if not check_batch.rule.startswith("every receipt")
        ]
        return [Check.of("every answer is what such a call may get", surprises), *checks]


def measured(command: Sequence[str]) -> tuple[float, float]:
    """Run ``command``: its seconds, and its largest memory in MB.

    By way of a small process: what a process is said to have used at most includes what the one that started it
    held at that moment, and the generator holds more than many a command.
    """
    began = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-c", MEASURE, *command], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    if process.returncode:
        raise SystemExit(f"{' '.join(command[1:4])} failed.")
    unit = 1 if sys.platform == "darwin" else 1024
    return time.monotonic() - began, int(process.stdout) * unit / 1e6


def _do(batch_name: str, username: str, done: int) -> None:
    """Leave ``batch_name`` as if the person had by now labelled its first ``done`` tasks, and nobody else any.

    The cursor stays where it was, which is always right: the first next afterwards finds the place by itself.
    """
    from annotation.models import Assignment, Batch, Membership, Task

    batch = Batch.objects.get(name=batch_name)
    member = Membership.objects.select_related("person").get(
        batch=batch, person__username=username, role=Membership.Role.ANNOTATOR
    )
    missing = done - Assignment.objects.filter(batch=batch, person=member.person, state="submitted").count()
    tasks = Task.objects.filter(batch=batch, slots_taken=0).order_by("rank")
    while missing > 0:
        rows = list(tasks.values_list("pk", "stratum_id", "prompt__dimension")[: min(missing, CHUNK)])
        if not rows:
            raise SystemExit(f"{batch_name} has too few tasks.")
        _label(batch, member, rows)
        missing -= len(rows)
    _tidy()


def _label(batch: Any, member: Any, rows: Sequence[tuple[int, int, str]]) -> None:
    """What submitting leaves of each: assignment, annotation, audit row, the slot taken, and the count."""
    from django.db import transaction
    from django.utils import timezone

    from annotation.models import Annotation, Assignment, AuditEvent, Task
    from annotation.services.counts import add_member_counts

    now = timezone.now()
    document = batch.guideline.document
    labels = {
        dimension: {criterion.name: criterion.values[0] for criterion in document.criteria_for(dimension)}
        for dimension in {dimension for _pk, _stratum, dimension in rows}
    }
    assignments = [
        Assignment(
            id=uuid4(), batch=batch, task_id=pk, person=member.person, slot=0, state="submitted",
            claimed_at=now, lease_expires=now, submitted_at=now,
        )
        for pk, _stratum, _dimension in rows
    ]  # fmt: skip
    annotations = [
        Annotation(
            assignment=assignment, labels=labels[dimension], receipt=uuid4(), idempotency_key=str(assignment.pk),
            body_sha256="0" * 64, seconds=1.5, created_at=now,
        )
        for assignment, (_pk, _stratum, dimension) in zip(assignments, rows, strict=True)
    ]  # fmt: skip
    audited = [
        AuditEvent(
            actor=member.person, verb="submit", target=f"assignment:{annotation.assignment_id}",
            data={"receipt": str(annotation.receipt)},
        )
        for annotation in annotations
    ]  # fmt: skip
    with transaction.atomic():
        for rows_of in (assignments, annotations, audited):
            type(rows_of[0]).objects.bulk_create(rows_of, batch_size=1000)
        Task.objects.filter(pk__in=[pk for pk, _stratum, _dimension in rows]).update(slots_taken=1)
        by_stratum = Counter(stratum for _pk, stratum, _dimension in rows)
        add_member_counts({(member.pk, stratum): {"submitted": n} for stratum, n in by_stratum.items()})


def _tidy() -> None:
    """What autovacuum does within a minute."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")
