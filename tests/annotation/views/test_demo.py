from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client
from django.urls import reverse

import annotation.tasks  # noqa: F401 (the handlers, as a worker has them)
import benchmark.tasks  # noqa: F401
import scoring.tasks  # noqa: F401
from annotation.core.errors import AssayError
from annotation.management.processes import Child, stop
from annotation.models import Annotation, Batch, GoldRelease, Job, Person, Task
from annotation.services import demo, jobs
from annotation.services.people.people import add_person
from annotation.services.studies import create_study
from benchmark.models import JudgeLabel, PublishedTable
from tests.conftest import ROOT
from tests.support import label_next

LOOPBACK = {"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "127.0.0.1:8000"}


# One-click sign-in: here and nowhere else.


@pytest.fixture
def demo_process(settings: LazySettings) -> None:
    settings.ASSAY_DEMO_PROCESS = True
    settings.ALLOWED_HOSTS = ["*"]  # so that it is the view and not Django that refuses a host


def both(client: Client, **environment: str) -> list[int]:
    """The status of the page and of the click."""
    click = reverse("demo-sign-in", args=["lin"])
    return [
        client.get("/demo/", **environment).status_code,  # type: ignore[arg-type]
        client.post(click, **environment).status_code,  # type: ignore[arg-type]
    ]


def signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


@pytest.mark.parametrize(
    ("address", "host"),
    [("127.0.0.1", "localhost:8000"), ("127.0.0.1", "127.0.0.1"), ("::1", "[::1]:8000")],
)
def test_in_the_demo_one_click_signs_in(
    demo_process: None, client: Client, lin: Person, address: str, host: str
):
    environment = {"REMOTE_ADDR": address, "HTTP_HOST": host}
    assert both(client, **environment) == [200, 302]
    assert client.session["_auth_user_id"] == str(lin.pk)


def test_outside_the_demo_process_it_does_not_exist(client: Client, lin: Person):
    assert both(client, **LOOPBACK) == [404, 404]
    assert not signed_in(client)


@pytest.mark.parametrize("address", ["192.168.1.7", "10.0.0.1", "8.8.8.8", "", "unix:", "127.0.0.1.evil"])
def test_for_another_machine_it_does_not_exist(demo_process: None, client: Client, lin: Person, address: str):
    assert both(client, **{**LOOPBACK, "REMOTE_ADDR": address}) == [404, 404]
    assert not signed_in(client)


@pytest.mark.parametrize(
    "host", ["assay.example.org", "127.0.0.1.example.org", "192.168.1.7:8000", "localhost.evil"]
)
def test_under_another_host_name_it_does_not_exist(
    demo_process: None, client: Client, lin: Person, host: str
):
    assert both(client, **{**LOOPBACK, "HTTP_HOST": host}) == [404, 404]
    assert not signed_in(client)


@pytest.mark.parametrize(
    "header",
    [
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "X-Forwarded-Proto",
        "X-Forwarded-Anything",
        "Forwarded",
        "X-Real-IP",
        "Via",
    ],
)
@pytest.mark.parametrize("value", ["127.0.0.1", ""])
def test_behind_a_proxy_it_does_not_exist(
    demo_process: None, client: Client, lin: Person, header: str, value: str
):
    name = "HTTP_" + header.upper().replace("-", "_")
    assert both(client, **LOOPBACK, **{name: value}) == [404, 404]
    assert not signed_in(client)


def test_only_the_cast_signs_in_so(demo_process: None, client: Client, ma: Person, stranger: Person):
    for name in ("ma", "stranger", "nobody", "lin"):  # lin is of the cast, but is not there
        assert client.post(reverse("demo-sign-in", args=[name]), **LOOPBACK).status_code == 404  # type: ignore[arg-type]
    assert not signed_in(client)


def test_signing_in_needs_a_click_with_the_forms_token(demo_process: None, lin: Person):
    client = Client(enforce_csrf_checks=True)
    click = reverse("demo-sign-in", args=["lin"])
    assert client.get(click, **LOOPBACK).status_code == 405  # type: ignore[arg-type]
    assert client.post(click, **LOOPBACK).status_code == 403  # type: ignore[arg-type]
    assert not signed_in(client)


def test_the_sign_in_page_offers_the_cast_in_the_demo_alone(
    db: None, client: Client, settings: LazySettings, demo_process: None
):
    assert client.get("/sign-in/", **LOOPBACK).content.count(b"/demo/sign-in/") == len(demo.CAST)  # type: ignore[arg-type]
    settings.ASSAY_DEMO_PROCESS = False
    assert b"/demo/" not in client.get("/sign-in/", **LOOPBACK).content  # type: ignore[arg-type]


# The data.


@pytest.fixture
def own_folder(settings: LazySettings, tmp_path: Path) -> Path:
    settings.ASSAY_DATA_DIR = tmp_path
    return tmp_path


@pytest.mark.both_databases
def test_the_demo_stands_as_its_read_me_says_and_a_second_start_keeps_what_was_done(
    db: None, own_folder: Path
):
    demo.load_demo(announce=str)
    batch = Batch.objects.get(name="demo")
    # fixtures/demo/README.md: 157 agreed, 25 settled by wu, 8 disputed, 6 with one label and 20 with none.
    states = [task.state for task in batch.tasks.all()]
    assert {state: states.count(state) for state in set(states)} == {
        "agreed": 157,
        "adjudicated": 25,
        "disputed": 8,
        "open": 26,
    }
    assert batch.tasks.filter(state=Task.State.OPEN, slots_taken=0).count() == 20
    assert GoldRelease.objects.get().labels == 182
    judged = list(JudgeLabel.objects.values_list("judge__name", "value"))
    assert (len(judged), {name for name, _value in judged}) == (216, {demo.JUDGE})
    assert sum(value is None for _name, value in judged) == 3  # words that are no level
    (table,) = PublishedTable.objects.all()
    assert (table.name, len(table.rows)) == (demo.TABLE, 3)
    password = demo.ensure_demo_password()
    assert Person.objects.get(username="he").check_password(password)
    label_next(batch, Person.objects.get(username="lin"), 3, criterion=_open_criterion(batch))
    counts = _counts()
    create_study(name="another")  # it starts again beside whatever was made since
    demo.load_demo(announce=str)
    assert _counts() == counts
    assert demo.ensure_demo_password() == password
    assert (own_folder / "demo_password").stat().st_mode & 0o077 == 0


def test_people_of_the_same_name_keep_their_password(db: None, own_folder: Path):
    add_person(name="lin", roles=["annotator"], password="kept-as-it-is")
    demo.load_demo(announce=str)
    assert Person.objects.get(username="lin").check_password("kept-as-it-is")


@pytest.mark.django_db(transaction=True)
def test_the_worker_makes_the_board_once_the_scorer_is_trained(own_folder: Path):
    demo.load_demo(announce=str)
    training, board = Job.objects.order_by("pk")
    assert (board.kind, board.depends_on) == (demo.BOARD_KIND, training)
    jobs.run_now(training)
    run = Job.objects.order_by("pk").last()
    assert run is not None
    assert run.kind == "run_benchmark"
    assert jobs.run(run.pk).state == "done"


def _open_criterion(batch: Batch) -> str:
    """Of the task that the next claim takes: the first one with a free place that lin has not had."""
    free = batch.tasks.filter(state=Task.State.OPEN, slots_taken__lt=2)
    task = free.exclude(assignments__person__username="lin").order_by("position")[0]
    return batch.guideline.document.criteria_for(task.response.prompt.dimension)[0].name


def _counts() -> list[int]:
    return [model.objects.count() for model in (Annotation, Person, Batch, Task, Job, GoldRelease)]


# The processes.


IN_THE_BACKGROUND = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
"""A shell starts ``COMMAND &`` with SIGINT ignored, and many a test runner starts everything so."""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[dict[str, Any]]:
    port = free_port()
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "ASSAY_DATA_DIR": str(tmp_path),
        "DATABASE_URL": "",
        "CELERY_BROKER_URL": "",
    }
    log = tmp_path / "log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [*IN_THE_BACKGROUND, sys.executable, "manage.py", "demo", "--port", str(port), "--json"],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None
    output = ""
    while not output.rstrip().endswith("\n}"):
        line = process.stdout.readline()
        assert line, log.read_text()
        output += line
    yield {"process": process, "log": log, "environment": environment, "port": port, **json.loads(output)}
    process.terminate()
    process.wait(timeout=90)
    process.stdout.close()


def test_the_command_serves_at_once_signs_in_revives_the_dead_and_leaves_no_orphan(started: dict[str, Any]):
    process, address = started["process"], started["address"]
    assert [person["name"] for person in started["people"]] == ["lin", "chen", "zhou", "sun", "wu", "he"]
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    page = browser.open(f"{address}demo/").read().decode()
    token = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page)[0]
    home = browser.open(f"{address}demo/sign-in/lin/", data=f"csrfmiddlewaretoken={token}".encode())
    assert home.url.startswith(f"{address}work/")

    second = subprocess.run(
        [sys.executable, "manage.py", "demo", "--port", str(started["port"])],
        cwd=ROOT,
        env=started["environment"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert second.returncode == 1
    assert re.fullmatch(r"Port \d+ on 127\.0\.0\.1 cannot be used .*\n", second.stderr)

    children = children_of(process.pid)
    assert len(children) == 2
    os.kill(children[0], signal.SIGKILL)
    eventually(lambda: "runs again" in started["log"].read_text())
    eventually(lambda: len(children_of(process.pid)) == 2)
    eventually(lambda: answers(f"{address}demo/"))

    family = descendants_of(process.pid)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):  # who is impatient presses Ctrl-C again
        process.send_signal(number)
        time.sleep(0.2)
    assert process.wait(timeout=90) == 0
    eventually(lambda: not [pid for pid in family if runs(pid)])
    assert not answers(f"{address}demo/")


def test_a_child_that_cannot_live_is_an_error_and_a_stubborn_one_is_ended():
    broken = Child("broken", [sys.executable, "-c", "raise SystemExit(3)"], os.environ)
    broken.start()
    with pytest.raises(AssayError, match="dies as soon as it starts"):
        revive_for_ever(broken)
    ignores = "import signal, subprocess, sys, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
    stubborn = Child("stubborn", [sys.executable, "-c", ignores], os.environ)
    stubborn.start()
    time.sleep(0.3)
    stop([stubborn], patience=0.5)
    assert not stubborn.is_alive


def revive_for_ever(child: Child) -> None:
    while True:
        time.sleep(0.05)
        child.revive()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except OSError:
        return False


def runs(pid: int) -> bool:
    """Whether the process is there and no mere entry that its parent has not read yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


def children_of(parent: int) -> list[int]:
    """From /proc, the youngest first."""
    children = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            _command, _, rest = stat.read_text().rpartition(")")
        except OSError:  # it ended meanwhile
            continue
        if int(rest.split()[1]) == parent and rest.split()[0] != "Z":
            children.append(int(stat.parent.name))
    return sorted(children, reverse=True)


def descendants_of(parent: int) -> list[int]:
    children = children_of(parent)
    return children + [pid for child in children for pid in descendants_of(child)]


def eventually(condition: Any, *, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)
