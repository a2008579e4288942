"""The operator's command for jobs."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from annotation.core.errors import N_, AssayError
from annotation.models import Job
from annotation.services import jobs

pytestmark = pytest.mark.django_db


def call(*arguments: str) -> Any:
    out = StringIO()
    call_command("jobs", *arguments, "--json", stdout=out)
    return json.loads(out.getvalue())["jobs"]


@pytest.fixture
def failed(monkeypatch: pytest.MonkeyPatch) -> Job:
    def refuse(_context: jobs.JobContext) -> dict[str, Any]:
        raise AssayError(N_("No batch is named {name}."), name="x")

    monkeypatch.setitem(jobs.HANDLERS, "refused", refuse)
    return jobs.run(jobs.enqueue(kind="refused", payload={}, title="The first", send=False).pk)


def test_jobs_are_listed_by_state_and_kind_the_latest_first(failed: Job) -> None:
    training = jobs.enqueue(kind="train_scorer", payload={}, title="A training", send=False)
    assert [job["job"] for job in call("list")] == [training.pk, failed.pk]
    assert [job["job"] for job in call("list", "--limit", "1")] == [training.pk]
    assert [job["job"] for job in call("list", "--state", "failed", "cancelled")] == [failed.pk]
    (listed,) = call("list", "--kind", "train_scorer")
    assert (listed["queue"], listed["state"], listed["finished_at"]) == ("train", "queued", None)
    out = StringIO()
    call_command("jobs", "list", stdout=out)
    lines = out.getvalue().splitlines()
    assert lines[1].split()[:2] == [str(training.pk), "train_scorer"]
    assert lines[-1] == f"{failed.pk}: No batch is named x."


def test_a_failed_job_is_queued_anew_and_a_queued_one_cancelled(failed: Job) -> None:
    assert [job["state"] for job in call("retry", str(failed.pk))] == ["queued"]
    assert [job["state"] for job in call("cancel", str(failed.pk), str(failed.pk))] == ["cancelled"]
    out = StringIO()
    call_command("jobs", "list", "--state", "running", stdout=out)
    assert out.getvalue() == "no jobs\n"
