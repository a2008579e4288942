"""What every answer says to the browser about keeping it, and about the device."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from annotation.core.charts import chart_url, draw_rules, make_picture, make_quantity
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Batch, Person
from annotation.services.exports import Options
from annotation.services.exports.downloads import start_export
from annotation.services.jobs import run_now
from annotation.services.releases import cut_release
from tests.support import api_token, label_next

pytestmark = pytest.mark.django_db

PAGES = ("home", "account", "history", "my-work", "work", "guidelines", "api-docs", "api-schema")


def is_kept_nowhere(answer: Any) -> bool:
    return "no-store" in answer.headers.get("Cache-Control", "")


@pytest.mark.parametrize("page", PAGES)
def test_no_page_of_who_is_signed_in_is_kept(client: Client, lin: Person, page: str):
    client.force_login(lin)
    answer = client.get(reverse(page))
    assert answer.status_code in {200, 302}
    assert is_kept_nowhere(answer)


def test_no_refusal_and_no_redirect_is_kept(client: Client, lin: Person):
    client.force_login(lin)
    answers = [client.get(reverse("people")), client.get("/nowhere/"), client.post("/language/")]
    assert [answer.status_code for answer in answers] == [403, 404, 302]
    assert all(map(is_kept_nowhere, answers))


def test_a_picture_is_not_kept(client: Client, he: Person):
    client.force_login(he)
    chart = make_picture(draw_rules([1], x=make_quantity("at", None)), [])
    answer = client.get(chart_url(chart))
    assert answer.status_code == 200
    assert is_kept_nowhere(answer)


def test_what_a_program_reads_is_not_kept(batch: Batch, lin: Person):
    client = Client(headers={"Authorization": f"Token {api_token(person=lin)}"})
    answer = client.post(reverse("api-next", args=[batch.name]), "{}", content_type="application/json")
    assert answer.status_code == 200
    assert is_kept_nowhere(answer)
    assert is_kept_nowhere(client.get(reverse("api-batches")))


def test_a_file_is_not_kept_and_a_broken_download_goes_on(
    client: Client, batch: Batch, lin: Person, chen: Person, he: Person
):
    for person in (lin, chen):
        label_next(batch, person, 1)
    release = cut_release(ReleaseSpec(name="r1", batches=[batch]))
    export = start_export(release=release, format_name="jsonl", options=Options(), actor=he, send=False)
    assert export.job is not None
    run_now(export.job)
    client.force_login(he)
    url = reverse("export-file", args=["r1", export.pk, "gold.jsonl"])
    full_answer = client.get(url)
    content = b"".join(full_answer)  # type: ignore[call-overload]
    rest = client.get(url, headers={"Range": "bytes=10-", "If-Range": full_answer["ETag"]})
    assert (rest.status_code, b"".join(rest)) == (206, content[10:])  # type: ignore[call-overload]
    assert is_kept_nowhere(full_answer)
    assert is_kept_nowhere(rest)


def test_styles_are_still_kept(client: Client):
    answer = client.get("/static/css/assay.css")
    assert b"".join(answer)  # type: ignore[call-overload]
    assert answer.status_code == 200
    assert not is_kept_nowhere(answer)


@pytest.mark.parametrize("path", ["/sign-in/", "/account/", "/static/css/assay.css"])
def test_no_answer_may_use_camera_microphone_or_place(client: Client, lin: Person, path: str):
    answer = client.get(path)
    answer.close()
    policy = answer.headers.get("Permissions-Policy", "")
    denied = {part.partition("=")[0].strip() for part in policy.split(",") if part.endswith("=()")}
    assert {"camera", "microphone", "geolocation", "payment", "usb"} <= denied
    assert "clipboard-write" not in policy, "links are copied with a button"
