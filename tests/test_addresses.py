"""Addresses that nobody's link leads to: hostile or broken ones are refused, and break nothing."""

from __future__ import annotations

import pytest
from django.test import Client

from annotation.models import Person

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
HOSTILE = (
    "/work/%00/",
    "/work/x%00y/undo/",
    "/disputes/%00/",
    "/history/?batch=%00",
    "/batches/%00/",
    "/batches/-/new/%00/",
    "/people/%00/",
    "/guidelines/%00/1/",
    "/agreement/?batch=%00",
    "/releases/%00/",
    "/charts/%00.svg",
    f"/charts/{'a' * 300}.svg",
    "/charts/..svg",
    "/jobs/99999999999999999999999/",
    "/tasks/99999999999999999999999/",
)


@pytest.fixture
def client(db: None) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(Person.objects.create_superuser("root"))
    return client


@pytest.mark.parametrize("address", HOSTILE, ids=lambda address: address[:30])
def test_what_cannot_be_there_is_not_there(client: Client, address: str):
    assert client.get(address).status_code == 404


def test_a_percent_sign_before_two_noughts_is_no_nul(client: Client):
    assert client.get("/history/?batch=%2500").status_code == 200


def test_a_program_is_refused_in_the_shape_of_the_api(client: Client):
    answer = client.post("/api/v1/batches/%00/next/", "{}", content_type="application/json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
