"""What the web processes take, and for how long they let the database work."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError, connection
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import include, path, reverse
from rest_framework.response import Response
from rest_framework.views import APIView

from annotation.forms.guidelines import MAX_BYTES
from annotation.models import Batch, Import, Person
from tests.conftest import ROOT
from tests.support import XSTEST_GUIDELINE, person

MIB = 1024 * 1024


def post(client: Client, address: str, length: int | str, **more: Any) -> HttpResponse:
    """A form that says how long it is; its body must not be read, so there is none."""
    content_type = "application/json" if address.startswith("/api/") else "multipart/form-data; boundary=b"
    return client.generic("POST", address, b"", content_type=content_type, CONTENT_LENGTH=str(length), **more)


def signed_in(person: Person) -> Client:
    client = Client()
    client.force_login(person)
    return client


@pytest.mark.parametrize("length", ["9" * 18, "9" * 5000, "0" * 30 + "99999999999"])
def test_no_spelling_of_a_length_gets_by(db: None, length: str):
    assert post(Client(), "/sign-in/", length).status_code == 413


@pytest.mark.parametrize("address", ["/sign-in/", "/imports/new/", "/", "/admin/login/", "/join/x/"])
def test_a_large_body_from_nobody_is_refused_on_every_page(db: None, address: str):
    answer = post(Client(), address, 10 * MIB + 1)
    assert answer.status_code == 413
    assert "at most 10.0\xa0MB are taken here" in answer.content.decode()


def test_the_api_refuses_it_in_its_own_shape(lin: Person):
    answer = post(signed_in(lin), "/api/v1/batches/first/next/", 10 * MIB + 1)
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "too_large"
    assert post(Client(), "/api/v1/batches/first/next/", 10 * MIB + 1).status_code == 413


def test_only_who_may_upload_has_the_limit_of_uploads(ma: Person, lin: Person, he: Person):
    assert post(signed_in(lin), "/imports/new/", 100 * MIB).status_code == 413
    assert post(signed_in(he), "/imports/new/", 100 * MIB).status_code == 413
    assert post(signed_in(ma), "/imports/new/", 100 * MIB).status_code == 200  # the form
    assert "At most 1.0\xa0GB." in signed_in(ma).get("/imports/new/").content.decode()
    refused = post(signed_in(ma), "/imports/new/", 1025 * MIB + 1)
    assert refused.status_code == 413
    assert "at most 1.0\xa0GB" in refused.content.decode()


def test_a_page_with_a_smaller_file_has_a_limit_of_its_own(ma: Person, batch: Batch):
    address = reverse("batch-known", args=[batch.name])
    assert post(signed_in(ma), address, 20 * MIB).status_code == 200
    assert post(signed_in(ma), address, 22 * MIB).status_code == 413


@pytest.mark.parametrize("address", ["/sign-in/", "/api/v1/batches/"])
def test_a_body_in_chunks_is_asked_for_its_length(db: None, address: str):
    answer = post(Client(), address, 0, HTTP_TRANSFER_ENCODING="chunked")
    assert answer.status_code == 411
    assert "Content-Length" in answer.content.decode()


def test_a_guideline_is_as_large_when_pasted_as_in_a_file(ma: Person):
    text = XSTEST_GUIDELINE.path.read_text() + "#" * MAX_BYTES
    client = signed_in(ma)
    pasted = client.post(reverse("guideline-new"), {"text": text})
    assert pasted.status_code == 422
    assert "This text is too large for a guideline." in pasted.content.decode()
    uploaded = client.post(reverse("guideline-new"), {"file": SimpleUploadedFile("g.yaml", text.encode())})
    assert uploaded.status_code == 422
    assert "This file is too large for a guideline." in uploaded.content.decode()


def test_a_guideline_of_aliases_is_refused(ma: Person):
    text = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(f"b{n}: &b{n} [*a, *a, *a]\n" for n in range(9))
    answer = signed_in(ma).post(reverse("guideline-new"), {"text": text})
    assert answer.status_code == 422
    assert "Aliases" in answer.content.decode()


def modes(path: Path) -> tuple[int, int]:
    return stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)


def test_only_the_server_reads_what_was_uploaded(ma: Person):
    usual = os.umask(0o022)
    try:
        small = SimpleUploadedFile("p.jsonl", b'{"prompt": "Is it?"}\n')
        large = SimpleUploadedFile(
            "p.jsonl", b'{"prompt": "Is it?"}\n' * 200_000
        )  # through a file of its own
        for file in (small, large):
            assert signed_in(ma).post("/imports/new/", {"file": file}).status_code == 302
            stored = Path(default_storage.path(Import.objects.latest("pk").path))
            assert modes(stored) == (0o600, 0o700)
        deep = default_storage.save("a/b/c", ContentFile(b""))
        assert modes(Path(default_storage.path(deep)).parent) == (0o700, 0o700)
    finally:
        os.umask(usual)


# The database.


def sleeping(_request: HttpRequest) -> HttpResponse:
    with connection.cursor() as cursor:
        cursor.execute("select pg_sleep(20)")
    return HttpResponse("slept")


def broken(_request: HttpRequest) -> HttpResponse:
    raise OperationalError("something else")


class Sleeping(APIView):
    def get(self, request: HttpRequest) -> Response:
        return Response(sleeping(request).content)


urlpatterns = [
    path("sleep/", sleeping),
    path("broken/", broken),
    path("api/v1/sleep/", Sleeping.as_view()),
    path("", include("config.urls")),
]


@pytest.mark.postgres
@pytest.mark.urls(__name__)
def test_a_statement_that_takes_too_long_is_told_in_plain_words(transactional_db: None):
    client = signed_in(person("lin"))
    with connection.cursor() as cursor:
        cursor.execute("set statement_timeout = 500")
    try:
        page, answer = client.get("/sleep/"), client.get("/api/v1/sleep/")
        with pytest.raises(OperationalError):  # another error is none of this
            client.get("/broken/")
    finally:
        connection.close()
    assert (page.status_code, answer.status_code) == (503, 503)
    assert "The database took too long for this." in page.content.decode()
    assert answer.json()["error"]["code"] == "too_long"


def read_timeouts(code: str, **environment: str) -> list[str]:
    process = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.split()


SHOW = """
from django.db import OperationalError, connection
cursor = connection.cursor()
for name in ("statement_timeout", "lock_timeout"):
    cursor.execute(f"show {name}")
    print(cursor.fetchone()[0])
"""
WEB = f"import config.wsgi\n{SHOW}"
COMMAND = f"import django\ndjango.setup()\n{SHOW}"


@pytest.mark.postgres
def test_only_processes_that_serve_have_a_time_for_statements(tmp_path: Path):
    where = {"ASSAY_DATA_DIR": str(tmp_path), "DATABASE_URL": os.environ.get("DATABASE_URL", "")}
    assert read_timeouts(WEB, **where) == ["30s", "0"]
    assert read_timeouts(WEB, **where, ASSAY_STATEMENT_SECONDS="7") == ["7s", "0"]
    assert read_timeouts(COMMAND, **where) == ["0", "0"]
    assert read_timeouts(WEB, **where, DISABLE_SERVER_SIDE_CURSORS="true") == ["0", "0"]
    options = where["DATABASE_URL"] + "?options=-c%20lock_timeout%3D5000"
    assert read_timeouts(WEB, **{**where, "DATABASE_URL": options}) == ["30s", "5s"]
