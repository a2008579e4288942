"""What Prometheus reads: how long requests take, by the name of their route, and gauges that are read when it asks.

Each web process writes its histogram into files of a folder that gunicorn's configuration makes
(``PROMETHEUS_MULTIPROC_DIR``); whichever process is asked adds up those of all. Nothing is measured without a token.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from annotation.core.signs import BEAT, WORKER
from annotation.core.version import code_version
from annotation.models import Job
from annotation.selectors.mail.mail import is_mail_on, measure_mail_load
from annotation.selectors.operations.load import (
    count_finished_jobs,
    count_live_claims,
    count_work_done,
    list_job_load,
)
from annotation.selectors.operations.queues import get_queue, list_takers
from annotation.selectors.operations.signs import list_signs
from annotation.selectors.webhooks.endpoints import measure_load

BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SECONDS = Histogram(
    "assay_request_seconds",
    "Seconds until an answer begins, by the name of the route.",
    ["route", "method"],
    buckets=BUCKETS,
)
ANSWERS = Counter("assay_answers", "Answers by the name of the route and their status.", ["route", "status"])
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"
"""The route of what no view answered, such as a static file, and the method of what is none."""


def observe_request(request: HttpRequest, response: HttpResponseBase, seconds: float) -> None:
    route = find_route(request) or OTHER
    method = request.method if request.method in METHODS else OTHER
    SECONDS.labels(route, method).observe(seconds)
    ANSWERS.labels(route, response.status_code).inc()


def find_route(request: HttpRequest) -> str:
    """The name of the address, which has nobody's name in it; empty before it is known."""
    match = getattr(request, "resolver_match", None)
    return "" if match is None else str(match.view_name or "")


def render_metrics() -> tuple[bytes, str]:
    """The text and its type."""
    registry = CollectorRegistry()
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    else:
        for collector in (SECONDS, ANSWERS):
            registry.register(collector)
    registry.register(_Gauges())
    return generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4


class _Gauges(Collector):
    """Read anew each time; where the database is away, what does not need it is told all the same."""

    def collect(self) -> Iterator[Metric]:
        yield _gauge("assay_info", "The version that runs.", {(code_version(),): 1}, "version")
        yield from self._list_disks()
        try:
            numbers = list(self._read_database())
        except (DatabaseError, InterfaceError):
            connection.close()
            numbers = []
        yield _gauge("assay_database_up", "1 where the database answers.", {(): int(bool(numbers))})
        yield from numbers

    def _list_disks(self) -> Iterator[Metric]:
        folders = {"data": settings.ASSAY_DATA_DIR, "temporary": Path(tempfile.gettempdir())}
        free = {(name,): shutil.disk_usage(folder).free for name, folder in folders.items()}
        yield _gauge("assay_disk_free_bytes", "Bytes free where the folder is.", free, "folder")

    def _read_database(self) -> Iterator[Metric]:
        load = list_job_load()
        jobs = {(line.kind, get_queue(line.kind), line.state): line.number for line in load}
        yield _gauge("assay_jobs", "Jobs that wait or run.", jobs, "kind", "queue", "state")
        ages_by_state: dict[str, dict[tuple[str, str], float]] = {Job.State.QUEUED: {}, Job.State.RUNNING: {}}
        for line in load:
            ages_by_state[line.state][line.kind, get_queue(line.kind)] = line.oldest_seconds
        yield _gauge(
            "assay_oldest_queued_job_seconds",
            "Age of the oldest job that waits.",
            ages_by_state[Job.State.QUEUED],
            "kind",
            "queue",
        )
        yield _gauge(
            "assay_oldest_heartbeat_seconds",
            "Since the oldest heartbeat of a running job.",
            ages_by_state[Job.State.RUNNING],
            "kind",
            "queue",
        )
        finished = CounterMetricFamily(
            "assay_jobs_finished", "Jobs that are over, by how they ended.", labels=["state"]
        )
        for state, number in count_finished_jobs().items():
            finished.add_metric([state], number)
        yield finished
        yield _gauge("assay_live_claims", "Items that people hold.", {(): count_live_claims()})
        webhooks = measure_load()
        yield _gauge("assay_webhooks_waiting", "Messages of webhooks that wait.", {(): webhooks.waiting})
        yield _gauge(
            "assay_webhooks_overdue_seconds",
            "Since the oldest message of a webhook should have been sent.",
            {(): webhooks.overdue_seconds},
        )
        endpoints = {("failing",): webhooks.failing, ("given_up",): webhooks.given_up}
        yield _gauge(
            "assay_webhook_endpoints", "Webhooks that fail, or were turned off for it.", endpoints, "state"
        )
        for name, number in count_work_done().items():
            yield CounterMetricFamily(f"assay_{name}", f"Work {name}, in all batches.", value=number)
        if is_mail_on():
            yield from self._read_mail()
        workers = list_signs(WORKER)
        signs = [*list_signs(BEAT), *workers]
        ages = {
            kind: min((s.seconds for s in signs if s.kind == kind), default=None) for kind in (BEAT, WORKER)
        }
        ages_by_kind = {(kind,): age for kind, age in ages.items() if age is not None}
        yield _gauge(
            "assay_last_sign_seconds",
            "Since beat, and any worker, was last heard of.",
            ages_by_kind,
            "process",
        )
        alive = sum(not sign.is_stale for sign in workers)
        yield _gauge("assay_workers", "Workers that were heard of within a minute.", {(): alive})
        takers = {
            (queue.name,): len(list_takers(queue.name, workers)) for queue in settings.CELERY_TASK_QUEUES
        }
        yield _gauge("assay_queue_workers", "Those of them that take from the queue.", takers, "queue")

    def _read_mail(self) -> Iterator[Metric]:
        load = measure_mail_load()
        states = {("waiting",): load.waiting, ("sent",): load.sent, ("failed",): load.failed}
        yield _gauge("assay_mail", "Mails that wait now; sent and failed in 7 days.", states, "state")
        oldest = {(): load.oldest_seconds}
        yield _gauge("assay_oldest_waiting_mail_seconds", "Age of the oldest mail that waits.", oldest)


def _gauge(name: str, words: str, values: Mapping[Any, float], *labels: str) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, words, labels=labels)
    for label_values, value in values.items():
        gauge.add_metric(label_values, value)
    return gauge
