"""What people go on with on a migrated site: the same receipt for a retry, the claim that they had, their old token.

python acts.py FACTS.json     prints what is wrong, a line each
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django

django.setup()

from django.contrib.auth import authenticate, get_user_model  # noqa: E402
from django.test import Client  # noqa: E402


def client_of(name: str) -> Client:
    client = Client(SERVER_NAME="localhost", raise_request_exception=False)
    person = get_user_model().objects.get(username=name)
    client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    return client


def post(client: Client, path: str, body: dict[str, Any], **headers: str) -> tuple[int, dict[str, Any]]:
    answer = client.post(f"/api/v1/{path}", body, content_type="application/json", headers=headers)
    return answer.status_code, answer.json() if answer.content else {}


def faults(facts: dict[str, Any]) -> Iterator[str]:
    yield from retry_fault(facts["submitted"])
    for claim in facts["claims"]:
        client = client_of(claim["person"])
        status, item = post(client, f"batches/{facts['batch']}/next/", {})
        if (status, item.get("assignment")) != (200, claim["assignment"]):
            yield f"{claim['person']}: the live claim {claim['assignment']} is not the next item: {status} {item}"
        status, answer = post(
            client,
            f"assignments/{claim['assignment']}/submit/",
            {"labels": {"compliance": 3}},
            **{"Idempotency-Key": "after"},
        )
        if status != 201:
            yield f"{claim['person']}: the live claim cannot be submitted: {status} {answer}"
    for name, token in facts["tokens"].items():
        client = Client(SERVER_NAME="localhost", raise_request_exception=False)
        status, _item = post(client, f"batches/{facts['batch']}/next/", {}, Authorization=f"Token {token}")
        if status not in {200, 204}:
            yield f"{name}: the token of before is answered with {status}"
    for name in facts["people"]:
        if authenticate(username=name, password=facts["password"]) is None:
            yield f"{name}: the password of before does not sign in"
    status, _dispute = post(client_of("wu"), "batches/elsewhere/next-dispute/", {})
    if status != 200:
        yield f"wu: the repeat adjudication that was claimed is answered with {status}"


def retry_fault(work: dict[str, Any]) -> Iterator[str]:
    body = {"labels": work["labels"], "rationale": work["rationale"]}
    status, answer = post(
        client_of(work["person"]),
        f"assignments/{work['assignment']}/submit/",
        body,
        **{"Idempotency-Key": work["key"]},
    )
    if (status, answer.get("receipt")) != (200, work["receipt"]):
        yield f"{work['person']}: a retry of {work['key']} is answered with {status} {answer}"


if __name__ == "__main__":
    wrong = list(faults(json.loads(Path(sys.argv[1]).read_text())))
    for fault in wrong:
        print(fault)
    sys.exit(bool(wrong))
