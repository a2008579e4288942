"""One fault: people at work, the fault, its mending, and what is in the database afterwards."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.performance.annotate_loop.checks import Batches, Check, check_batches
from tests.performance.annotate_loop.client import Client, ConnectionLost
from tests.performance.faults.crowd import Crowd, Diary, Sighting
from tests.performance.faults.services import TOKEN, Site

OVERLAP = 2
WARM_UP_SECONDS = 2.0
AFTER_SECONDS = 3.0
JOBS_WITHIN = 120.0
"""A job that is not over so long after the fault was mended is said never to end."""
OVER = {"done", "failed", "cancelled"}
ENDS = re.compile(r"job (\d+) \(.*\) ends: (\w+) after")


@dataclass
class Look:
    """What an operator sees: the checks of the doctor that say more than before, ``/readyz``, metrics."""

    doctor: dict[str, str] = field(default_factory=dict)
    ready: Counter[str] = field(default_factory=Counter)
    metrics: dict[str, str] = field(default_factory=dict)


@dataclass
class Outcome:
    """What came of a fault. ``seconds`` is from its mending to the first good page after the last bad one, and
    ``job_seconds`` to the end of the last job that it met.
    """

    happened: list[str]
    checks: list[Check]
    sightings: list[Sighting]
    longest: float
    sent_again: int
    receipts: int
    jobs: int
    look: Look
    seconds: float | None
    job_seconds: float | None
    tracebacks: list[str]


class Scene:
    """``hold`` lets the fault last, and looks at the site meanwhile as an operator does."""

    def __init__(self, site: Site, crowd: Crowd, calm: dict[str, str]) -> None:
        self.site, self.crowd, self._calm = site, crowd, calm
        self.happened: list[str] = []
        self.look = Look()
        self.doctor_environment: dict[str, str] = {}
        self.extra_checks: list[Check] = []
        self.mended: tuple[float, datetime] | None = None
        self._polls = threading.Event()

    # What a fault does.

    def note(self, event: str) -> None:
        self.happened.append(event)

    def hold(self, seconds: float, *, looks: bool = True) -> None:
        end = time.monotonic() + seconds
        looking = [threading.Thread(target=look) for look in (self._read_metrics, self._ask_doctor) if looks]
        for thread in looking:
            thread.start()
        time.sleep(max(0.0, end - time.monotonic()))
        for thread in looking:
            thread.join()

    def mend(self) -> None:
        """From now on it is as it should be; what a supervisor does takes its time."""
        if self.mended is None:
            self.mended = time.monotonic(), datetime.now(UTC)

    def order_training(self) -> int:
        return self.crowd.trainer.train(f"{self.crowd.workers[0].batch}-{len(self.crowd.trainer.orders)}")

    def wait_for_running(self, kind: str, seconds: float = 60.0) -> Any:
        """A job of this kind that a worker has just begun."""
        from annotation.models import Job

        end = time.monotonic() + seconds
        while time.monotonic() < end:
            job = Job.objects.filter(state=Job.State.RUNNING, kind=kind).order_by("-pk").first()
            if job is not None:
                return job
            time.sleep(0.02)
        raise AssertionError(f"no job of the kind {kind} runs")

    # What an operator sees.

    def _ask_doctor(self) -> None:
        from annotation.core.health import DATABASE, load_checks

        done = self.site.manage("doctor", "--quick", "--json", **self.doctor_environment)
        states = read_doctor(done.stdout)
        if states.get(DATABASE) == "fault":  # then nothing that needs it was tried
            tried = [check.name for check in load_checks() if not check.needs_database]
            states = {name: state for name, state in states.items() if name in {DATABASE, *tried}}
        for name, state in states.items():
            is_worse = state != "ok" and state != self._calm.get(name)
            if is_worse and self.look.doctor.get(name) != "fault":
                self.look.doctor[name] = state

    def _read_metrics(self) -> None:
        client = Client(self.site.port, {"Authorization": f"Bearer {TOKEN}"})
        client.patience = 10.0
        try:
            text = client.send("GET", "/metrics").body.decode()
        except ConnectionLost:
            return
        finally:
            client.close()
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
        if values.get("assay_database_up") == "0.0":
            self.look.metrics["assay_database_up"] = "0"
        if values.get("assay_workers") == "0.0":
            self.look.metrics["assay_workers"] = "0"

    def poll_ready(self) -> None:
        """Once a second, as a load balancer asks."""
        client = Client(self.site.port, {})
        client.patience = 5.0
        while not self._polls.wait(1):
            try:
                answer = client.send("GET", "/readyz")
            except ConnectionLost:
                self.look.ready["no answer"] += 1
                continue
            failed = read_failed(answer.body)
            if answer.status != 200 or failed:
                self.look.ready[f"{answer.status} ({', '.join(failed)})"] += 1
        client.close()

    def end_polls(self) -> None:
        self._polls.set()


def read_failed(body: bytes) -> list[str]:
    """The checks of an answer of ``/readyz`` that failed."""
    try:
        return sorted(name for name, state in json.loads(body)["checks"].items() if state != "ok")
    except (ValueError, KeyError):
        return ["no JSON"]


def read_doctor(text: str) -> dict[str, str]:
    try:
        return {check["check"]: check["state"] for check in json.loads(text)["checks"]}
    except (ValueError, KeyError):
        return {"doctor itself": "fault"}


def play(
    site: Site, crowd: Crowd, act: Callable[[Scene], None], *, batch: str, calm: dict[str, str]
) -> Outcome:
    """The fault ``act`` while the crowd works; then all is counted."""
    scene = Scene(site, crowd, calm)
    offsets = {name: len(text) for name, text in site.read_logs().items()}
    restarts_before = {name: service.restarts for name, service in site.services.items()}
    crowd.start()
    time.sleep(WARM_UP_SECONDS)
    poll = threading.Thread(target=scene.poll_ready, daemon=True)
    poll.start()
    began = time.monotonic()
    try:
        act(scene)
    except BaseException:
        scene.end_polls()
        crowd.stop()
        raise
    scene.mend()
    assert scene.mended is not None
    mended, mended_at = scene.mended
    time.sleep(AFTER_SECONDS)
    _wait_for_good_page(crowd.probe.diary, mended)
    scene.end_polls()
    crowd.stop()
    job_seconds = _wait_for_jobs(scene, mended, mended_at)
    for name, service in site.services.items():
        restarts = service.restarts - restarts_before[name]
        if restarts:
            scene.note(f"`assay-{name}` started again" + (f" {restarts} times" if restarts > 1 else ""))
    logs = {name: text[offsets[name] :] for name, text in site.read_logs().items()}
    sightings = [s for diary in crowd.list_diaries() for s in diary.sightings if s.end >= began]
    acts = [a for diary in crowd.list_diaries() for a in diary.acts if a.end >= began]
    checks = [*_check_database(scene, batch), *_check_jobs(scene, logs), *scene.extra_checks]
    checks.append(Check.of("the people could work on", crowd.failures))
    bad = [{**asdict(s), "began": s.began - began, "end": s.end - began} for s in sightings if not s.is_good]
    (site.folder / f"{batch}.json").write_text(json.dumps(bad, indent=1))  # for whoever says --keep
    return Outcome(
        happened=scene.happened,
        checks=checks,
        sightings=sightings,
        longest=max((a.seconds for a in acts), default=0.0),
        sent_again=sum(a.tries > 1 for a in acts if a.kind in {"submit", "submit and ahead"}),
        receipts=crowd.count_receipts(),
        jobs=len([*crowd.manager.orders, *crowd.trainer.orders]),
        look=scene.look,
        seconds=_measure_recovery(crowd.probe.diary, mended),
        job_seconds=job_seconds,
        tracebacks=[name for name, text in logs.items() if name == "web" and '"exception"' in text],
    )


def _wait_for_good_page(diary: Diary, mended: float, seconds: float = 60.0) -> None:
    """Three in a row."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        latest = [s for s in diary.sightings if s.began > mended][-3:]
        if len(latest) == 3 and all(s.is_good for s in latest):
            return
        time.sleep(0.2)


def _measure_recovery(diary: Diary, mended: float) -> float | None:
    """None where no page ever was a good one."""
    after = [s for s in diary.sightings if s.end > mended]
    bad = max((s.end for s in after if not s.is_good), default=None)
    if bad is None:
        return 0.0
    good = [s.end for s in after if s.is_good and s.end > bad]
    return min(good) - mended if good else None


def _wait_for_jobs(scene: Scene, mended: float, mended_at: datetime) -> float | None:
    """Seconds until the last was over of those that were ordered before; None where one never ends."""
    from django.db import connection

    from annotation.models import Job

    connection.close()  # the one from before the fault
    orders = [*scene.crowd.manager.orders, *scene.crowd.trainer.orders]
    end = time.monotonic() + JOBS_WITHIN
    while Job.objects.filter(pk__in=[order.job for order in orders]).exclude(state__in=OVER).exists():
        if time.monotonic() > end:
            return None
        time.sleep(0.25)
    met = Job.objects.filter(pk__in=[order.job for order in orders if order.began < mended])
    ends = [at for at in met.values_list("finished_at", flat=True) if at is not None]
    return max([0.0, *((at - mended_at).total_seconds() for at in ends)])


def _check_database(scene: Scene, batch: str) -> list[Check]:
    ledgers = [worker.ledger for worker in scene.crowd.workers]
    return check_batches(Batches((batch,), OVERLAP, drained=False), ledgers)


def _check_jobs(scene: Scene, logs: dict[str, str]) -> list[Check]:
    """Each job that the server took is there, and ended well and once."""
    from annotation.models import Export, Job

    orders = [*scene.crowd.manager.orders, *scene.crowd.trainer.orders]
    jobs = {job.pk: job for job in Job.objects.filter(pk__in=[order.job for order in orders])}
    ends: Counter[int] = Counter()
    for text in logs.values():
        ends.update(int(number) for number, state in ENDS.findall(text) if state == "done")
    later = [job for job in jobs.values() if job.attempt > 1]
    if later:
        scene.note(f"{len(later)} job{'s' if len(later) > 1 else ''} taken up again")
    bad = [f"job {job.pk} {job.state}: {job.error}" for job in jobs.values() if job.state != Job.State.DONE]
    bare = [
        f"export {export.pk}"
        for export in Export.objects.filter(job__in=jobs, job__state=Job.State.DONE)
        if export.verified_at is None
    ]
    return [
        Check.of("every job that was taken is there", [o.job for o in orders if o.job not in jobs]),
        Check.of("every job ended", [f"job {job.pk}" for job in jobs.values() if job.state not in OVER]),
        Check.of("every job ended well", bad),
        Check.of("no job ended twice", [f"job {job}" for job, count in ends.items() if count > 1]),
        Check.of("what a job made is there", bare),
    ]
