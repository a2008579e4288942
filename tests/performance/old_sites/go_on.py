"""What people do first on a migrated site: open its pages, submit an item, cut the same release once more.

python go_on.py FACTS.json     prints what is wrong, a line each
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import django

django.setup()

from django.core.management import call_command  # noqa: E402
from django.test import Client  # noqa: E402

from annotation.models import GoldRelease, Person  # noqa: E402
from tests.performance.old_sites.acts import client_of, post  # noqa: E402

AGAIN = "million-2"


def list_faults(facts: dict[str, Any]) -> Iterator[str]:
    manager = client_of(facts["manager"])
    for address in (
        "/",
        f"/batches/{facts['batch']}/",
        f"/batches/{facts['open']}/",
        "/releases/",
        "/audit/",
    ):
        status = manager.get(address, follow=True).status_code
        if status != 200:
            yield f"{address} is answered with {status}"
    yield from list_submission_faults(client_of(facts["annotator"]), facts["open"])
    # What this prints are faults, a line each.
    call_command("release_gold", AGAIN, "--batches", facts["batch"], stdout=StringIO())
    for release in GoldRelease.objects.filter(name__in=[facts["release"], AGAIN]):
        if (release.sha256, release.labels) != (facts["sha256"], facts["labels"]):
            yield f"{release.name} has another hash: {release.sha256} of {release.labels} labels"


def list_submission_faults(client: Client, batch: str) -> Iterator[str]:
    status, item = post(client, f"batches/{batch}/next/", {})
    if status != 200:
        yield f"the next item is answered with {status}"
        return
    labels = {criterion["name"]: criterion["values"][-1] for criterion in item["criteria"]}
    key = {"Idempotency-Key": "after the upgrade"}
    status, answer = post(client, f"assignments/{item['assignment']}/submit/", {"labels": labels}, **key)
    if status != 201:
        yield f"an item that is submitted is answered with {status}: {answer}"


if __name__ == "__main__":
    content = json.loads(Path(sys.argv[1]).read_text())
    assert Person.objects.filter(username=content["annotator"]).exists()
    wrong = list(list_faults(content))
    for fault in wrong:
        print(fault)
    sys.exit(bool(wrong))
