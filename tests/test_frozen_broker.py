"""A broker that is there and does not answer: nobody who queues a job waits for it, and no job is lost."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.annotation.views.test_jobs import database_url
from tests.conftest import ROOT, missing

pytestmark = pytest.mark.django_db(transaction=True)
LONGEST_WAIT = 2.0
GIVEN_UP = 60.0
QUEUE = """
import sys, time, django
django.setup()
from django.db import transaction
from annotation.services import jobs

def queue(number):
    began = time.monotonic()
    with transaction.atomic():
        for _ in range(number):
            jobs.enqueue(kind="nobody", payload={})
    print(time.monotonic() - began, flush=True)

queue(1)
for line in sys.stdin:
    queue(int(line))
"""
"""Queues as many jobs as it reads, as the pages of one process do, and tells how long that took."""


@dataclass
class Redis:
    process: subprocess.Popen[bytes]
    port: int

    @property
    def address(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def messages(self) -> int:
        """How many wait in the workers' queue."""
        command = ["redis-cli", "-p", str(self.port), "llen", "assay"]
        return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    if shutil.which("redis-server") is None:
        missing("redis", "there is no redis-server to freeze")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        "redis-server",
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--dir",
        str(tmp_path),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    server = Redis(process, port)
    end = time.monotonic() + 30
    while not _answers(port):
        assert time.monotonic() < end
        time.sleep(0.05)
    yield server
    process.kill()
    process.wait()


def _answers(port: int) -> bool:
    command = ["redis-cli", "-p", str(port), "ping"]
    return b"PONG" in subprocess.run(command, capture_output=True, check=False).stdout


@dataclass
class Web:
    process: subprocess.Popen[str]

    def queue(self, number: int) -> float:
        """Queue so many jobs in one transaction. Seconds until the page could answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()
        return self.seconds()

    def seconds(self) -> float:
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], GIVEN_UP)[0]:
            pytest.fail(f"no answer within {GIVEN_UP} s")
        return float(self.process.stdout.readline())


@pytest.fixture
def web(redis: Redis, tmp_path: Path) -> Iterator[Web]:
    process = subprocess.Popen(
        [sys.executable, "-c", QUEUE],
        cwd=ROOT,
        env=environment(redis, tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    page = Web(process)
    page.seconds()
    yield page
    process.kill()
    process.communicate()


def environment(redis: Redis, folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DATABASE_URL": database_url(),
        "ASSAY_DATA_DIR": str(folder),
        "CELERY_BROKER_URL": redis.address,
    }


def test_a_frozen_broker_holds_no_page_and_what_it_missed_is_sent_later(
    redis: Redis, web: Web, tmp_path: Path
):
    assert redis.messages() == 1
    redis.process.send_signal(signal.SIGSTOP)
    waited = [web.queue(number) for number in (1, 1, 20)]
    redis.process.send_signal(signal.SIGCONT)
    assert max(waited) < LONGEST_WAIT
    time.sleep(10)  # until then a message may still be on its way
    sweep = "import django; django.setup(); from annotation.services import jobs; print(jobs.sweep())"
    swept = subprocess.run(
        [sys.executable, "-c", sweep],
        cwd=ROOT,
        env=environment(redis, tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert swept.stdout == "23\n", swept.stderr
    assert redis.messages() >= 23
    assert web.queue(1) < LONGEST_WAIT  # and the page's own messages come through again
    assert redis.messages() >= 24


def test_a_broker_that_is_gone_holds_no_page(redis: Redis, web: Web):
    redis.process.kill()
    redis.process.wait()
    assert max(web.queue(number) for number in (1, 1, 20)) < LONGEST_WAIT


def test_a_worker_outlives_a_frozen_broker(redis: Redis, tmp_path: Path):
    """It waits longer than a page, and works on once the broker answers."""
    log = tmp_path / "log"
    with log.open("wb") as lines:
        worker = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "config", "worker", "--beat", "--loglevel", "info"],
            cwd=ROOT,
            env=environment(redis, tmp_path),
            stdout=lines,
            stderr=lines,
            start_new_session=True,
        )
    try:
        _wait_for(lambda: log.read_text().count("sweep_jobs[") > 1, log)
        redis.process.send_signal(signal.SIGSTOP)
        time.sleep(13)
        redis.process.send_signal(signal.SIGCONT)
        before = log.read_text().count("annotation.sweep_jobs[")
        _wait_for(lambda: log.read_text().count("annotation.sweep_jobs[") > before + 2, log)
        assert worker.poll() is None
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


def _wait_for(condition: object, log: Path, seconds: float = 90) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, log.read_text()[-3000:]
        time.sleep(0.2)
