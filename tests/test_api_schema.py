"""The description of the API and the API itself: every call, with content that fits its description and content that
does not, as an admin, a manager and an annotator. No answer is a fault of the server, none is missing in the
description, and each has the shape that is described.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import requests
import schemathesis
from django.db import transaction
from django.test import Client
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from annotation.models import Person
from tests.support import api_token, examples
from tests.test_everyone_everywhere import World, make_world

pytestmark = [
    pytest.mark.django_db,
    # The library's own, about what a strategy cannot make.
    pytest.mark.filterwarnings("ignore"),
]
SCHEMA = "/api/v1/schema/?format=json"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = 3
PEOPLE = ("admin", "manager", "annotator")
# By the beginning of an address, longest first: what it is called in the world that the calls find.
NAMES = {
    "/api/v1/manage/datasets/": "small",
    "/api/v1/manage/guidelines/": "xstest",
    "/api/v1/manage/releases/": "r1",
    "/api/v1/manage/scorers/": "s1",
    "/api/v1/manage/runs/": "b1",
}


@pytest.fixture(scope="module")
def world(module_db: None) -> World:
    return make_world()


@pytest.fixture(scope="module")
def tokens(world: World) -> dict[str, str]:
    people = {**world.people, "admin": Person.objects.create_superuser("root")}
    return {name: api_token(person=people[name]) for name in PEOPLE}


@pytest.fixture(scope="module")
def description(tokens: dict[str, str]) -> dict[str, Any]:
    """As the admin reads it: with every call."""
    answer = Client().get(SCHEMA, headers={"Authorization": f"Token {tokens['admin']}"})
    return dict(json.loads(answer.content))


def list_operations(description: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_every_call_is_described_whole(description: dict[str, Any]) -> None:
    operations = list(list_operations(description))
    assert len(operations) > 50
    for path, method, operation in operations:
        place = f"{method} {path}"
        assert operation["summary"], place
        answers = set(operation["responses"])
        assert answers & {"200", "201", "202", "204"}, place
        assert "401" in answers, place
        for parameter in operation.get("parameters", ()):
            assert parameter["schema"], place
        if path.startswith("/api/v1/manage/"):
            assert {"400", "403"} <= answers, place
    ids = [operation["operationId"] for _path, _method, operation in operations]
    assert len(ids) == len(set(ids))


def test_no_answer_of_any_call_breaks_its_description(
    world: World, tokens: dict[str, str], description: dict[str, Any]
) -> None:
    schema = schemathesis.openapi.from_dict(description)
    faults = []
    for result in schema.get_all_operations():
        operation = result.ok()
        fault = find_fault(operation, world, tokens)
        if fault:
            faults.append(f"{operation.label}: {fault}")
    assert not faults, "\n\n".join(faults)


def find_fault(operation: Any, world: World, tokens: dict[str, str]) -> str | None:
    """What the calls of this operation bring to light, if anything. Drawing one takes longer than it takes to send it:
    everybody sends the same.
    """
    seen: list[str] = []
    positive = operation.as_strategy()
    negative = operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)

    @hypothesis.settings(
        max_examples=examples(EXAMPLES),
        deadline=None,
        database=None,
        derandomize=True,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=st.one_of(positive, positive, negative), is_there=st.booleans())
    def call(case: Any, is_there: bool) -> None:
        if is_there:
            case.path_parameters = name_what_is_there(case, world)
        for name, token in tokens.items():
            with transaction.atomic():
                answer = send(case, token)
                transaction.set_rollback(True)
            try:
                case.validate_response(answer, checks=CHECKS)
            except FailureGroup as error:
                seen.append(f"{name}: " + "; ".join(str(fault) for fault in error.exceptions))

    try:
        call()
    except hypothesis.errors.Unsatisfiable:
        return None  # nothing can be sent that is wrong
    return seen[0] if seen else None


def send(case: Any, token: str) -> schemathesis.Response:
    """The case through the product's own middleware, in the transaction of the test."""
    request = requests.Request(**_list_parts(case)).prepare()
    headers = {name: str(value) for name, value in request.headers.items() if name != "Content-Length"}
    body = request.body or b""
    reply = Client(raise_request_exception=False).generic(
        str(request.method),
        str(request.path_url),
        body if isinstance(body, bytes) else body.encode(),
        content_type=headers.pop("Content-Type", "application/octet-stream"),
        headers=headers | {"Authorization": f"Token {token}"},
    )
    return schemathesis.Response(
        status_code=reply.status_code,
        headers={name.lower(): [value] for name, value in reply.headers.items()},
        content=b"".join(reply) if reply.streaming else reply.content,
        request=request,
        elapsed=0,
        verify=True,
    )


def _list_parts(case: Any) -> dict[str, Any]:
    known = ("method", "url", "headers", "params", "data", "json", "files", "cookies")
    parts = case.as_transport_kwargs(base_url="http://testserver")
    return {name: value for name, value in parts.items() if name in known}


def name_what_is_there(case: Any, world: World) -> dict[str, Any]:
    """Parameters of the address that lead to rows of the world."""
    name = next((name for root, name in NAMES.items() if case.path.startswith(root)), "first")
    values = {**world.values, "name": name}
    return {parameter: str(values.get(parameter, value)) for parameter, value in case.path_parameters.items()}
