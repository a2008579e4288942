"""Two web hosts and two workers without a shared folder: processes that share PostgreSQL, Redis and a bucket alone."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.conf import settings

from annotation.models import Import
from annotation.services.people.people import add_person
from annotation.services.people.tokens import make_token
from tests.annotation.views.test_jobs import database_url
from tests.bucket import KEYS, Bucket, s3_port
from tests.conftest import ROOT, missing
from tests.serving import Served, connected, served, until
from tests.test_client import GUIDELINE, load_client
from tests.test_outages import cookie_of

__all__ = ["s3_port"]  # a fixture
pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]
LEVELS = ("1_full_compliance", "2_full_refusal", "3_partial_refusal")
FILE = "xstest_v2_completions_m.csv"
ROWS = 60
QUEUES = "housekeeping,assay,train"


@pytest.fixture
def bucket(s3_port: int) -> Iterator[Bucket]:
    bucket = Bucket(s3_port)
    yield bucket
    bucket.relay.close()


@pytest.fixture
def environment(bucket: Bucket) -> dict[str, str]:
    """What all hosts have in common."""
    broker = os.environ.get("ASSAY_TEST_REDIS", "")
    if not broker:
        missing("redis", "ASSAY_TEST_REDIS does not name a Redis server")
    return {
        **KEYS,
        "DATABASE_URL": database_url(),
        "CELERY_BROKER_URL": broker,
        "SECRET_KEY": settings.SECRET_KEY,
        "ASSAY_STORAGE": bucket.url,
        "ASSAY_READ_SECONDS": "30",
        "ASSAY_ENCODER": "",
    }


@contextmanager
def worker(folder: Path, environment: dict[str, str]) -> Iterator[None]:
    folder.mkdir()
    command = [sys.executable, "-m", "celery", "-A", "config", "worker", "-Q", QUEUES, "--pool", "solo"]
    where = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "ASSAY_DATA_DIR": str(folder / "data"),
    }
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--hostname", folder.name, "--loglevel", "info"],
            cwd=ROOT,
            env={**where, **environment},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def write_labels(folder: Path) -> Path:
    lines = ["id,type,prompt,completion,annotation_1,annotation_2,agreement,final_label"]
    for row in range(ROWS):
        level, second = LEVELS[row % 3], LEVELS[(row + (row % 10 == 0)) % 3]
        words = " ".join(f"{level[2:]}{(row * 7 + place) % 5}" for place in range(12))
        agrees = level == second
        lines.append(
            f"v2-{row + 1},homonyms,How do I end process {row}?,{words},{level},{second},{agrees},{level}"
        )
    file = folder / FILE
    file.write_text("\n".join(lines) + "\n")
    return file


def list_files(folder: Path) -> list[str]:
    """Of a data folder, but for what a process makes for itself."""
    return sorted(
        path.relative_to(folder / "data").as_posix()
        for path in (folder / "data").rglob("*")
        if path.is_file() and path.parent.name not in {"locks", "css"}
    )


def open_client(server: Served, token: str) -> Any:
    return load_client().Assay(f"http://127.0.0.1:{server.port}", token=token)


def get(server: Served, path: str, cookie: str) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{server.port}{path}", headers={"Cookie": cookie}, timeout=60)


def send_half(server: Served, cookie: str, content: bytes) -> socket.socket:
    """The beginning of an upload, whose other half never comes."""
    page = get(server, "/imports/new/", cookie)
    token = page.cookies["csrftoken"]
    head = (
        f"POST /imports/new/ HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nCookie: {cookie}; csrftoken={token}\r\n"
        f"X-CSRFToken: {token}\r\nContent-Type: multipart/form-data; boundary=b\r\n"
        f"Content-Length: {2 * len(content)}\r\n\r\n"
        '--b\r\nContent-Disposition: form-data; name="file"; filename="p.csv"\r\n\r\n'
    )
    return connected(server.port, head.encode() + content)


def test_two_hosts_without_a_shared_folder_do_the_loop(
    tmp_path: Path, environment: dict[str, str], bucket: Bucket
) -> None:
    head = add_person(name="head", roles=["manager", "researcher"])
    _token, token = make_token(person=head, name="t", scope="manage", days=1, actor=head)
    cookie = cookie_of(head)
    folders = {name: tmp_path / name for name in ("a", "b")}
    for folder in folders.values():
        folder.mkdir()
    with served(folders["b"], **environment) as b, open_client(b, token) as on_b:
        with (
            served(folders["a"], **environment) as a,
            open_client(a, token) as on_a,
            worker(tmp_path / "c", environment),
        ):
            export = do_the_loop(on_a, on_b, write_labels(tmp_path))
            check_download(b, export, token)
            check_chart(a, b, cookie)
            kill_in_the_middle_of_an_upload(a, cookie, folders["a"], bucket)
        check_scorer(on_b, b, cookie, tmp_path, environment)
        names = list_files(folders["b"])
        assert any(name.startswith("cache/") for name in names)
        assert not any(name.startswith(("uploads/", "exports/")) for name in names), names
        assert {name.partition("/")[0] for name in bucket.names()} == {"uploads", "exports", "scorers"}


def do_the_loop(on_a: Any, on_b: Any, labels: Path) -> Any:
    """Uploaded and trained on A, confirmed on B, done by C; the export that was asked for on A, as B tells of it."""
    on_a.load_guideline(GUIDELINE.read_text("utf-8"), publish=True)
    upload = on_a.upload(labels, kind="annotations")
    reading = {"format": "xstest", "batch": "b", "dataset": "d", "model": "m", "guideline": "xstest"}
    assert on_b.preview_import(upload["url"], **reading)["outcome"]["problems"] == []
    assert on_b.confirm_import(upload["url"], **reading)["state"] == "done"
    on_b.cut_release("r", batches=["b"])
    started = on_a.post("manage/releases/r/exports/-/start/", {"format": "jsonl"})
    on_a.wait(started["job"])
    on_a.train_scorer("s", release="r", backbone="ngram")
    return on_b.get(started["url"])


def check_download(server: Served, export: Any, token: str) -> None:
    assert export["state"] == "done"
    assert {file["name"] for file in export["files"]} >= {"gold.jsonl"}
    for file in export["files"]:
        answer = httpx.get(
            f"http://127.0.0.1:{server.port}{file['url']}",
            headers={"Authorization": f"Token {token}"},
            timeout=60,
        )
        assert answer.status_code == 200
        assert hashlib.sha256(answer.content).hexdigest() == file["sha256"]


def check_chart(a: Served, b: Served, cookie: str) -> None:
    """The page of A names it; both draw the same."""
    page = get(a, "/scorers/s/", cookie)
    match = re.search(r'"([^"]*/charts/[0-9a-f]{64}\.svg)"', page.text)
    assert match, page.text[-3000:]
    drawn = [get(server, match[1], cookie) for server in (b, a)]
    assert [answer.status_code for answer in drawn] == [200, 200]
    assert drawn[0].content.startswith(b"<svg")
    assert drawn[0].content == drawn[1].content


def kill_in_the_middle_of_an_upload(server: Served, cookie: str, folder: Path, bucket: Bucket) -> None:
    """All of host A's web server, by a signal that nobody can catch."""
    before, uploads, files = bucket.names(), Import.objects.count(), list_files(folder)
    with closing(send_half(server, cookie, b"x" * (4 << 20))):
        until(lambda: any(folder.glob("*.upload*")), 120, lambda: str(list(folder.iterdir())))
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        for pid in (server.pid, *map(int, children)):
            os.kill(pid, signal.SIGKILL)
    assert bucket.names() == before
    assert Import.objects.count() == uploads
    assert list_files(folder) == files


def check_scorer(on_b: Any, b: Served, cookie: str, folder: Path, environment: dict[str, str]) -> None:
    """What C trained is exported by B and predicts on a fourth host, while A and C are gone."""
    answer = get(b, "/scorers/s/export/", cookie)
    assert answer.status_code == 200
    with zipfile.ZipFile(BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
    items = [{"prompt": "How do I end process 7?", "response": "full_refusal1 full_refusal2"}]
    with worker(folder / "d", environment):
        request = on_b.post("predictions/", {"scorer": "s", "items": items})
        until(lambda: on_b.get(request["url"])["state"] == "done", 180, (folder / "d" / "log").read_text)
    (result,) = on_b.get(request["url"])["results"]
    assert result["criteria"]["compliance"]["value"] == 1
    assert any(name.startswith("cache/") for name in list_files(folder / "d"))
