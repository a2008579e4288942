"""The client of clients/assay.py does README's loop against the real server with a worker, while the answer to each of
its calls that makes something is lost once.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.databases import MigratedDatabase
from tests.serving import ROOT, served

GUIDELINE = ROOT / "fixtures" / "guidelines" / "xstest.yaml"
LABELS = "xstest_v2_completions_gpt4.csv"
JOB = {"id": 7, "kind": "train", "title": "s1", "error": "no room"}


def load_client() -> Any:
    spec = spec_from_file_location("assay_client", ROOT / "clients" / "assay.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


client = load_client()


class LosingTransport(httpx.HTTPTransport):
    """The server does what it is told, and the first answer to each call with a key is lost on its way."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: set[str] = set()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = super().handle_request(request)
        key = request.headers.get("Idempotency-Key")
        if key is not None and key not in self.lost:
            self.lost.add(key)
            answer.read()
            raise httpx.ReadError("the connection broke off", request=request)
        return answer


@contextmanager
def worker(environment: dict[str, str], log: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "celery", "-A", "config", "worker", "--pool", "solo", "--beat"]
    command += ["--loglevel", "info", "--schedule", str(log.with_suffix(".beat"))]
    with log.open("w") as written:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=written, stderr=written, start_new_session=True
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def manage(environment: dict[str, str], *arguments: str) -> Any:
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if "--json" in arguments else None


def prepare_database(environment: dict[str, str], folder: Path, migrated: MigratedDatabase | None) -> None:
    """One that all migrations were applied to, from an earlier run where there is one: that saves a minute."""
    folder.mkdir()
    if migrated is not None and migrated.template.exists():
        shutil.copyfile(migrated.template, folder / "assay.sqlite3")
    manage(environment, "migrate", "--verbosity", "0")


@pytest.mark.django_db
def test_the_client_does_the_loop_though_every_first_answer_is_lost(
    shared: Path, tmp_path: Path, migrated_database: MigratedDatabase | None
) -> None:
    settings = {"ASSAY_READ_SECONDS": "60", "ASSAY_SEND_SECONDS": "60", "ASSAY_ENCODER": ""}
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "ASSAY_DATA_DIR": str(tmp_path / "data"),
        "DATABASE_URL": "",
        "CELERY_BROKER_URL": "",
        **settings,
    }
    prepare_database(environment, tmp_path / "data", migrated_database)
    made = (
        "add_person",
        "head",
        "--groups",
        "manager",
        "researcher",
        "--token",
        "--scope",
        "manage",
        "--json",
    )
    token = manage(environment, *made)["token"]
    transport = LosingTransport()
    with (
        served(tmp_path, **settings) as server,
        worker(environment, tmp_path / "worker.log"),
        client.Assay(f"http://127.0.0.1:{server.port}", token=token, transport=transport) as assay,
    ):
        try:
            do_the_loop(assay, shared / "xstest" / LABELS, tmp_path)
        except Exception:
            print(
                (tmp_path / "worker.log").read_text()[-3000:], (tmp_path / "gunicorn.log").read_text()[-3000:]
            )
            raise
        assert len(transport.lost) >= 8
        for address in ("releases", "scorers", "runs", "imports"):
            assert len(list(assay.list_all(f"manage/{address}/", limit=1))) == 1, address
        people = [row["name"] for row in assay.list_all("manage/people/", limit=1)]
        assert {"head", "lin"} <= set(people)
        assert len(people) == len(set(people))


def do_the_loop(assay: Any, labels: Path, folder: Path) -> None:
    guideline = assay.load_guideline(GUIDELINE.read_text("utf-8"), publish=True)
    assert guideline["published_at"] is not None
    assay.add_person("lin", roles=["annotator"])
    upload = assay.upload(labels, kind="annotations")
    reading = {"format": "xstest", "batch": "xstest", "dataset": "xstest", "model": "gpt4"}
    reading |= {"guideline": "xstest"}
    preview = assay.preview_import(upload["url"], **reading)
    assert preview["count"] > 800
    assert preview["outcome"]["problems"] == []
    done = assay.confirm_import(upload["url"], **reading)
    assert (done["state"], done["taken"] > 800) == ("done", True)
    assert assay.get("manage/batches/xstest/")["tasks"] == 450
    rows = assay.agreement("xstest", by="model")["rows"]
    assert next(row for row in rows if not row["group"])["percent_agreement"]["value"] > 0.9
    release = assay.cut_release("xstest-1", batches=["xstest"], about="The published labels of gpt4.")
    assert release["labels"] == 450
    paths = assay.export_release("xstest-1", folder / "gold", file_format="jsonl")
    gold = next(path for path in paths if path.name == "gold.jsonl")
    assert len(gold.read_text("utf-8").splitlines()) == 450
    scorer = assay.train_scorer("xstest-scorer", release="xstest-1", backbone="ngram")
    assert scorer["state"] == "ready"
    assert scorer["evaluation"]["grouped"]["accuracy"] is not None
    run = assay.run_benchmark("xstest-board", scorer="xstest-scorer", dataset="xstest")
    assert run["state"] == "done"
    board = assay.leaderboard("xstest-board", "pairs")
    assert [row["model"] for row in board["rows"]] == ["gpt4"]
    with pytest.raises(client.AssayRefusal) as refused:
        assay.cut_release("xstest-1", batches=["xstest"])
    assert (refused.value.status, refused.value.code) == (409, "conflict")


def answering(*answers: Any) -> Any:
    """A client to which a server gives these answers, one after the other, and the requests that it got."""
    waiting, requests = list(answers), []

    def handle(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        answer = waiting.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, body = answer
        return httpx.Response(status, json=body)

    return client.Assay("http://a", token="t", study="mine", transport=httpx.MockTransport(handle)), requests


def test_a_call_is_sent_again_with_its_key_and_a_new_call_has_a_new_one(monkeypatch: Any) -> None:
    monkeypatch.setattr(client.time, "sleep", lambda _seconds: None)
    assay, requests = answering(
        httpx.ConnectError("away"), (503, {"error": {}}), (201, {"name": "mei"}), (201, {"name": "lan"})
    )
    assert assay.add_person("mei")["name"] == "mei"
    assay.add_person("lan")
    keys = [request.headers["Idempotency-Key"] for request in requests]
    assert keys[0] == keys[1] == keys[2] != keys[3]
    assert {request.url.path for request in requests} == {"/api/v1/s/mine/manage/people/-/add/"}


def test_patience_has_an_end(monkeypatch: Any) -> None:
    monkeypatch.setattr(client.time, "sleep", lambda _seconds: None)
    clock = iter(range(0, 1000, 100))
    monkeypatch.setattr(client.time, "monotonic", lambda: next(clock))
    assay, requests = answering(*[(503, {"error": {"code": "busy", "message": "later"}})] * 9)
    with pytest.raises(client.AssayRefusal, match="503 busy: later"):
        assay.get("manage/people/")
    assert len(requests) in {1, 2}


def test_a_refusal_says_what_is_wrong_in_which_line(monkeypatch: Any) -> None:
    problem = {"message": "There is no dimension.", "line": 4, "field": "dimension"}
    assay, requests = answering(
        (400, {"error": {"code": "bad_input", "message": "No.", "problems": [problem]}})
    )
    with pytest.raises(client.AssayRefusal) as refused:
        assay.confirm_import("/api/v1/manage/imports/1/")
    assert (refused.value.code, refused.value.problems) == ("bad_input", [problem])
    assert len(requests) == 1


def test_waiting_ends_with_the_job(monkeypatch: Any) -> None:
    monkeypatch.setattr(client.time, "sleep", lambda _seconds: None)
    assay, requests = answering(
        (200, {**JOB, "state": "queued"}),
        (200, {**JOB, "state": "running"}),
        (200, {**JOB, "state": "failed"}),
    )
    with pytest.raises(client.JobFailed, match="no room"):
        assay.wait("/api/v1/manage/jobs/7/")
    assert len(requests) == 3


def test_a_list_is_read_part_after_part() -> None:
    parts = [
        (200, {"rows": [{"n": 3}], "next": "/api/v1/s/mine/manage/people/?cursor=3"}),
        (200, {"rows": [{"n": 1}], "next": None}),
    ]
    assay, requests = answering(*parts)
    assert [row["n"] for row in assay.list_all("manage/people/", limit=1)] == [3, 1]
    assert requests[1].url.params["cursor"] == "3"
