"""The operator's pages: what is missing is said, and what failed is read and tried again."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from annotation.core.databases import seconds_ago
from annotation.core.errors import N_, AssayError
from annotation.core.signs import BEAT, FORGOTTEN_AFTER, KEY, WORKER, leave_sign
from annotation.health import check_queues
from annotation.models import CacheEntry, Job, Person
from annotation.selectors.jobs import diagnose
from annotation.selectors.operations.queues import list_queues
from annotation.services import jobs
from annotation.services.studies import create_study

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(client: Client, db: None) -> Client:
    client.force_login(Person.objects.create_superuser("root"))
    return client


@pytest.fixture
def failed(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> Job:
    def refuse(context: jobs.JobContext) -> dict[str, Any]:
        logging.getLogger("a.library").warning("asked with Authorization: Bearer %s", "sesame-0123456789")
        raise ZeroDivisionError("no labels")

    monkeypatch.setitem(jobs.HANDLERS, "refused", refuse)
    return jobs.run(jobs.enqueue(kind="refused", payload={}, title="The first", send=False).pk)


def leave_old_sign(kind: str, name: str, *, seconds: int) -> None:
    leave_sign(kind, name, ["assay"])
    entry = CacheEntry.objects.filter(cache_key=KEY.format(kind=kind, name=name))
    entry.update(expires=seconds_ago(seconds - FORGOTTEN_AFTER.total_seconds()))


def test_the_page_says_what_is_missing_and_what_lives(admin: Client) -> None:
    page = admin.get(reverse("operations")).content.decode()
    assert "No sign of beat within a day" in page
    assert page.count("no worker") == 3
    leave_sign(BEAT, "host-1")
    leave_sign(WORKER, "celery@host-1/7", ["assay", "housekeeping"])
    leave_old_sign(WORKER, "celery@host-2/8", seconds=600)
    live = admin.get(reverse("operations-live")).content.decode()
    assert "Beat on host-1" in live
    assert "assay, housekeeping" in live
    assert live.count("no worker") == 1
    assert "10 min ago" in live
    assert [(queue.name, queue.workers) for queue in list_queues()] == [
        ("assay", 1),
        ("housekeeping", 1),
        ("train", 0),
    ]


def test_a_job_that_waits_for_a_queue_without_a_worker_says_so(admin: Client) -> None:
    leave_sign(WORKER, "celery@host-1/7", ["assay", "housekeeping"])
    job = jobs.enqueue(kind="train_scorer", payload={}, title="A training", send=False)
    assert not diagnose(job).waits_long
    assert check_queues().message_text == "No worker takes from train; jobs that wait there: 1."
    Job.objects.filter(pk=job.pk).update(created_at=seconds_ago(3600))
    assert diagnose(job).lacks_worker
    waiting = next(queue for queue in list_queues() if queue.name == "train")
    assert (waiting.waiting, waiting.oldest_seconds // 60, waiting.workers) == (1, 60, 0)
    assert check_queues().remedy_text == "Start one that does: celery -A config worker -Q train"
    page = admin.get(reverse("operations-job", args=[job.pk])).content.decode()
    assert "celery -A config worker -Q train" in page
    leave_sign(WORKER, "celery@host-1/9", ["train"])
    assert not diagnose(job).lacks_worker


def test_a_silent_worker_is_said_with_its_time(admin: Client) -> None:
    job = jobs.enqueue(kind="train_scorer", payload={}, title="A training", send=False)
    Job.objects.filter(pk=job.pk).update(state="running", heartbeat=seconds_ago(180), worker="gone:1")
    page = admin.get(reverse("operations-job", args=[job.pk])).content.decode()
    assert "No sign of its worker for 3 min." in page


def test_a_failed_job_is_read_with_its_log_and_tried_again(admin: Client, failed: Job) -> None:
    page = admin.get(reverse("operations"), {"state": "failed"}).content.decode()
    address = reverse("operations-job", args=[failed.pk])
    assert address in page
    page = admin.get(address).content.decode()
    assert "ZeroDivisionError: no labels" in page
    assert "Traceback" in page
    assert "asked with Authorization" in page
    assert "sesame" not in page
    answer = admin.post(reverse("operations-job-retry", args=[failed.pk]))
    assert (answer.status_code, answer.headers["Location"]) == (302, address)
    failed.refresh_from_db()
    assert (failed.state, failed.log) == ("queued", "")
    admin.post(reverse("operations-job-cancel", args=[failed.pk]))
    failed.refresh_from_db()
    assert failed.state == "cancelled"
    assert admin.post(reverse("operations-job-retry", args=[failed.pk])).status_code == 409
    assert admin.get(reverse("operations-job", args=[0])).status_code == 404


def test_what_succeeds_keeps_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(jobs.HANDLERS, "easy", lambda _context: {})
    assert jobs.run(jobs.enqueue(kind="easy", payload={}, send=False).pk).log == ""


def test_jobs_of_all_studies_are_listed_and_filtered(admin: Client, ma: Person, failed: Job) -> None:
    for name in ("one", "two"):
        study = create_study(name=name, title=f"Study {name}", managers=[ma], actor=ma)
        Job.objects.create(study=study, kind="export", title=f"r-{name}", state="done")
    page = admin.get(reverse("operations")).content.decode()
    assert "Study one" in page
    assert "Study two" in page
    page = admin.get(reverse("operations"), {"kind": "export", "state": "done"}).content.decode()
    assert "r-two" in page
    assert "The first" not in page
    assert "No job matches." in admin.get(reverse("operations"), {"kind": "train_scorer"}).content.decode()


def test_the_menu_leads_admins_there_and_nobody_else(admin: Client, ma: Person) -> None:
    assert reverse("operations") in admin.get(reverse("account")).content.decode()
    admin.force_login(ma)
    assert reverse("operations") not in admin.get(reverse("account")).content.decode()
    assert admin.get(reverse("operations")).status_code == 403


def test_an_error_of_our_own_has_its_log_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_context: jobs.JobContext) -> dict[str, Any]:
        raise AssayError(N_("No batch is named {name}."), name="x")

    monkeypatch.setitem(jobs.HANDLERS, "refused", refuse)
    job = jobs.run(jobs.enqueue(kind="refused", payload={}, title="T", send=False).pk)
    assert "begins, attempt 1" in job.log
