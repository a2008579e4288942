"""The shipped server on PostgreSQL, which goes away and comes back; and what its processes measure together."""

from __future__ import annotations

import http.client
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.test import Client
from playwright.sync_api import expect
from prometheus_client.parser import text_string_to_metric_families

from annotation.core.databases import is_connection_lost, is_database_full
from annotation.models import Annotation, Batch, Person
from annotation.services.people.tokens import make_token
from tests.annotation.views.test_jobs import database_url
from tests.chromium import Chromium
from tests.conftest import ROOT, missing
from tests.serving import Relay, Served, served, until

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]
TOKEN = "a-token-of-sixteen-characters"


@pytest.fixture
def relay() -> Iterator[Relay]:
    between = Relay(int(connection.settings_dict["PORT"] or 5432))
    yield between
    between.close()


@contextmanager
def serve(folder: Path, relay: Relay, **environment: str) -> Iterator[Served]:
    url = urlsplit(database_url())
    account = url.netloc.rpartition("@")[0]
    through = f"postgres://{account}@127.0.0.1:{relay.port}{url.path}"
    common = {"DATABASE_URL": through, "SECRET_KEY": settings.SECRET_KEY, "LOG_FORMAT": "json"}
    with served(folder, **common, **environment) as server:
        yield server


@pytest.fixture
def server(tmp_path: Path, relay: Relay) -> Iterator[Served]:
    with serve(tmp_path, relay) as server:
        yield server


def ask(
    port: int, path: str, method: str = "GET", body: str | None = None, **headers: str
) -> tuple[int, dict[str, str], str]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as client:
        client.request(method, path, body=body, headers=headers)
        answer = client.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()


def cookie_of(person: Person) -> str:
    client = Client()
    client.force_login(person)
    return f"sessionid={client.cookies['sessionid'].value}"


def read_log(folder: Path) -> list[dict[str, object]]:
    lines = (folder / "gunicorn.log").read_text().splitlines()
    assert all(line.startswith("{") for line in lines), lines
    return [json.loads(line) for line in lines]


def test_while_the_database_is_away_the_answer_is_503_and_the_log_has_one_line(
    server: Served, relay: Relay, tmp_path: Path, batch: Batch, lin: Person
):
    cookie = cookie_of(lin)
    _token, token = make_token(person=lin, name="t", scope="work", days=1, actor=lin)
    assert ask(server.port, "/work/first/", Cookie=cookie)[0] == 200
    relay.close()
    for _ in range(15):
        status, headers, page = ask(server.port, "/work/first/", Cookie=cookie)
        assert (status, headers["Retry-After"]) == (503, "5")
    assert "Assay cannot reach its database" in page
    assert headers["X-Request-ID"] in page
    _status, _headers, chinese = ask(server.port, "/work/first/", Cookie=f"{cookie}; django_language=zh-hans")
    assert "Assay 连不上数据库" in chinese
    for _ in range(5):
        status, headers, text = ask(
            server.port,
            "/api/v1/batches/first/next/",
            "POST",
            "{}",
            **{"Authorization": f"Token {token}", "Content-Type": "application/json"},
        )
        assert (status, headers["Retry-After"]) == (503, "5")
        assert json.loads(text)["error"]["code"] == "unavailable"
    assert ask(server.port, "/healthz")[0] == 200
    status, _headers, text = ask(server.port, "/readyz", Host="10.0.0.7")
    assert (status, json.loads(text)["checks"]["database"]) == (503, "failed")

    relay.open()
    assert ask(server.port, "/work/first/", Cookie=cookie)[0] == 200
    assert ask(server.port, "/readyz")[0] == 200
    levels = Counter(line["level"] for line in read_log(tmp_path) if line["logger"] != "gunicorn.error")
    away, back = [line for line in read_log(tmp_path) if line["logger"] == "config.operations.outages"]
    assert "the database is away" in str(away["message"])
    assert (away["route"], away.get("person")) == ("work-batch", None)
    assert "the database is back" in str(back["message"])
    assert levels["ERROR"] == 1
    assert "Traceback" not in (tmp_path / "gunicorn.log").read_text()


def test_a_server_that_begins_while_the_database_is_away_answers(tmp_path: Path, relay: Relay):
    relay.close()
    with serve(tmp_path, relay) as server:
        assert ask(server.port, "/healthz")[0] == 200
        assert ask(server.port, "/readyz")[0] == 503
        relay.open()
        assert ask(server.port, "/readyz")[0] == 200


def test_what_is_submitted_during_an_outage_waits_and_arrives_once(
    server: Served, relay: Relay, batch: Batch, lin: Person, chromium: Chromium
):
    context = chromium.start().new_context()
    name, _is, value = cookie_of(lin).partition("=")
    address = f"http://127.0.0.1:{server.port}"
    context.add_cookies([{"name": name, "value": value, "url": address}])
    page = context.new_page()
    page.goto(f"{address}/work/first/")
    expect(page.locator("form[data-item]")).to_be_visible()
    relay.close()
    page.keyboard.press("3")
    page.keyboard.press("Enter")
    expect(page.locator("[data-outbox].outbox--waiting")).to_be_visible()
    expect(page.locator("[data-notice=notice-failed]")).to_have_count(0)
    assert not Annotation.objects.exists()
    relay.open()
    until(lambda: Annotation.objects.count() == 1, 60)
    expect(page.locator("[data-outbox].outbox--waiting")).to_have_count(0)
    context.close()


NO_ROOM = """
CREATE FUNCTION refuse_for_want_of_room() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file "base/1/2": No space left on device' USING ERRCODE = 'disk_full'; END $$;
CREATE TRIGGER no_room BEFORE INSERT ON annotation_annotation
FOR EACH ROW EXECUTE FUNCTION refuse_for_want_of_room();
"""
ROOM = "DROP FUNCTION IF EXISTS refuse_for_want_of_room() CASCADE"


@pytest.fixture
def full_disk() -> Iterator[None]:
    """PostgreSQL answers as it does where it cannot make the table of annotations longer."""
    with connection.cursor() as cursor:
        cursor.execute(NO_ROOM)
    yield
    with connection.cursor() as cursor:
        cursor.execute(ROOM)


def test_while_the_disk_of_the_database_is_full_the_answer_is_503_and_nothing_is_lost(
    server: Served, tmp_path: Path, batch: Batch, lin: Person, full_disk: None
):
    _token, token = make_token(person=lin, name="t", scope="work", days=1, actor=lin)
    headers = {"Authorization": f"Token {token}", "Content-Type": "application/json"}
    _status, _headers, text = ask(server.port, "/api/v1/batches/first/next/", "POST", "{}", **headers)
    item = json.loads(text)
    labels = {criterion["name"]: criterion["values"][0] for criterion in item["criteria"]}
    address = f"/api/v1/assignments/{item['assignment']}/submit/"
    body, key = json.dumps({"labels": labels, "seconds": 1}), {"Idempotency-Key": "k" * 16}
    for _ in range(3):
        status, answer_headers, text = ask(server.port, address, "POST", body, **headers, **key)
        assert (status, answer_headers["Retry-After"]) == (503, "5")
        error = json.loads(text)["error"]
        assert (error["code"], "no room on its disk" in error["message"]) == ("unavailable", True)
    assert not Annotation.objects.exists()
    page_headers = {"Cookie": cookie_of(lin), "Accept": "text/html"}
    status, _headers, _page = ask(server.port, "/work/first/", **page_headers)
    assert status == 200  # what needs no room works

    with connection.cursor() as cursor:
        cursor.execute(ROOM)
    assert ask(server.port, address, "POST", body, **headers, **key)[0] == 201
    assert Annotation.objects.count() == 1
    (line,) = [line for line in read_log(tmp_path) if line["level"] == "ERROR"]
    assert "the database has no room" in str(line["message"])
    assert "Traceback" not in (tmp_path / "gunicorn.log").read_text()


def test_sqlite_says_too_that_its_disk_is_full():
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("PRAGMA max_page_count = 2")
        database.execute("CREATE TABLE t (text)")
        with pytest.raises(sqlite3.OperationalError) as refusal:
            database.execute("INSERT INTO t VALUES (?)", ["x" * 100_000])
    error = OperationalError()
    error.__cause__ = refusal.value
    assert is_database_full(error)
    assert not is_connection_lost(error)


def test_two_processes_are_measured_as_one_by_the_names_of_routes(
    tmp_path: Path, relay: Relay, batch: Batch, lin: Person
):
    cookie = cookie_of(lin)
    with serve(tmp_path, relay, ASSAY_WEB_WORKERS="2", ASSAY_METRICS_TOKEN=TOKEN) as server:
        begun = count_requests(server.port, "work-batch")
        requests, pids = 0, set()
        end = time.monotonic() + 60
        while (requests < 40 or len(pids) < 2) and time.monotonic() < end:
            assert ask(server.port, "/work/first/", Cookie=cookie)[0] == 200
            requests += 1
            pids = {
                file.name
                for folder in tmp_path.glob("assay-metrics-*")
                for file in folder.glob("histogram_*")
            }
        assert len(pids) == 2, pids
        assert ask(server.port, "/no/such/page")[0] == 404
        for _ in range(4):  # whichever process answers
            assert count_requests(server.port, "work-batch") - begun == requests
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        time.sleep(2)
        assert count_requests(server.port, "work-batch") - begun == requests  # a dead process's as well
        text = ask(server.port, "/metrics", Authorization=f"Bearer {TOKEN}")[2]
        assert "first" not in text.replace("first level", "")  # no address, no name
        relay.close()
        status, _headers, text = ask(server.port, "/metrics", Authorization=f"Bearer {TOKEN}")
        assert (status, "assay_database_up 0.0" in text) == (200, True)
    assert not list(tmp_path.glob("assay-metrics-*"))


def count_requests(port: int, route: str) -> float:
    status, _headers, text = ask(port, "/metrics", Authorization=f"Bearer {TOKEN}")
    assert status == 200
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "assay_request_seconds_count" and sample.labels["route"] == route
    )


def test_doctor_sees_a_real_beat_and_a_real_worker_come_and_go(tmp_path: Path):
    broker = os.environ.get("ASSAY_TEST_REDIS", "")
    if not broker:
        missing("redis", "ASSAY_TEST_REDIS does not name a Redis server")
    where = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "ASSAY_DATA_DIR": str(tmp_path),
        "DATABASE_URL": database_url(),
        "CELERY_BROKER_URL": broker,
        "LOG_FORMAT": "json",
    }

    def diagnose() -> dict[str, str]:
        command = [sys.executable, "manage.py", "doctor", "--json", "--only", "broker", "beat", "workers"]
        text = subprocess.run(
            command, cwd=ROOT, env=where, capture_output=True, text=True, check=False
        ).stdout
        return {check["check"]: check["state"] for check in json.loads(text)["checks"]}

    assert diagnose() == {"broker": "ok", "beat": "fault", "workers": "fault"}
    celery = [sys.executable, "-m", "celery", "-A"]
    with (tmp_path / "worker.log").open("w") as log:
        processes = [
            subprocess.Popen([*celery, *part], cwd=ROOT, env=where, stdout=log, stderr=log)
            for part in (["config", "worker", "--concurrency", "1"], ["config.beat", "beat"])
        ]
        try:
            until(lambda: set(diagnose().values()) == {"ok"}, 90, (tmp_path / "worker.log").read_text)
        finally:
            for process in processes:
                with suppress(ProcessLookupError):
                    process.terminate()
                process.wait(30)
    assert diagnose()["workers"] == "fault"  # it said that it ends
