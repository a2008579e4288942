"""A session ends when nobody has used it for so long, and asks the database for next to nothing while it is used."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from annotation.models import Batch, Person
from config.middleware import POLLED
from tests.annotation.services.test_settings import Start, start  # noqa: F401  (a fixture)
from tests.conftest import ROOT

pytestmark = pytest.mark.django_db

HOUR = 3600


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``later(seconds)``: from now on it is so much later than at the beginning."""
    now, moment = time.time(), timezone.now()

    def go(seconds: float) -> None:
        monkeypatch.setattr("time.time", lambda: now + seconds)
        monkeypatch.setattr("django.utils.timezone.now", lambda: moment + timezone.timedelta(seconds=seconds))

    return go


def is_signed_in(client: Client) -> bool:
    return client.get(reverse("account")).status_code == 200


def test_after_twelve_idle_hours_a_session_has_ended(client: Client, lin: Person, later: Any):
    client.post(reverse("login"), {"username": "lin", "password": "lin-password"})
    later(12 * HOUR - 60)
    assert is_signed_in(client)
    later(24 * HOUR + 60)
    assert not is_signed_in(client)


def test_who_goes_on_stays_signed_in(client: Client, lin: Person, later: Any):
    client.post(reverse("login"), {"username": "lin", "password": "lin-password"})
    for hours in range(11, 100, 11):
        later(hours * HOUR)
        assert is_signed_in(client)


def test_the_cookie_lives_as_long_as_the_session(client: Client, lin: Person, later: Any):
    client.post(reverse("login"), {"username": "lin", "password": "lin-password"})
    assert client.cookies["sessionid"]["max-age"] == 12 * HOUR
    later(600)
    answer = client.get(reverse("account"))
    assert answer.cookies["sessionid"]["max-age"] == 12 * HOUR


def test_a_page_that_asks_by_itself_keeps_nobody_signed_in(
    client: Client, batch: Batch, ma: Person, later: Any
):
    client.post(reverse("login"), {"username": "ma", "password": "ma-password"})
    poll = reverse("batch-progress", args=[batch.name])
    for hours in range(1, 12):
        later(hours * HOUR)
        assert client.get(poll, headers={"HX-Request": "true"}).status_code == 200
    later(12 * HOUR + 60)
    assert client.get(poll, headers={"HX-Request": "true"}).status_code == 302


def test_whatever_a_template_asks_for_again_and_again_is_known():
    polls = r"""hx-get="{% url '([\w-]+)'[^>]*hx-trigger="[^"]*every"""
    live_parts = r"""{% url '([\w-]+)'[^%]* as url %}\s*{% include "benchmark/_live\.html\""""
    names = set()
    for template in Path(ROOT / "templates").rglob("*.html"):
        text = template.read_text()
        names.update(re.findall(polls, text) + re.findall(live_parts, text))
    assert names == POLLED


def session_writes(client: Client, request: Any) -> int:
    with CaptureQueriesContext(connection) as queries:
        request(client)
    writes = [query["sql"] for query in queries if "django_session" in query["sql"]]
    return sum(not sql.startswith("SELECT") for sql in writes)


def test_the_loop_writes_no_session(client: Client, batch: Batch, lin: Person, later: Any):
    client.force_login(lin)

    def work(client: Client) -> None:
        assert client.get(reverse("work-batch", args=[batch.name])).status_code == 200

    assert [session_writes(client, work) for _ in range(3)] == [0, 0, 0]
    later(4 * 60)
    assert session_writes(client, work) == 0
    later(6 * 60)
    assert [session_writes(client, work) for _ in range(3)] == [1, 0, 0]


def test_who_only_looks_at_the_sign_in_page_gets_no_session(client: Client, db: None):
    client.get(reverse("login"))
    assert not Session.objects.exists()


@pytest.mark.parametrize(("hours", "seconds"), [("", "43200"), ("1", "3600")])
def test_the_hours_are_a_setting(start: Start, tmp_path: Path, hours: str, seconds: str):  # noqa: F811
    output = start(tmp_path, "SESSION_COOKIE_AGE", ASSAY_SESSION_IDLE_HOURS=hours)
    assert output.stdout.strip() == seconds
