"""``doctor``, ``/healthz``, ``/readyz`` and ``/metrics``, of an installation that is well and of faults."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from annotation.core.health import CHECKS, CheckState, load_checks, passed, register_check, run_checks
from annotation.core.signs import BEAT, FORGOTTEN_AFTER, KEY, WORKER, SignThread, leave_sign
from annotation.domain.batch_spec import Policy
from annotation.domain.release_spec import ReleaseSpec
from annotation.health import check_clock, check_migrations, check_static_files
from annotation.models import Batch, CacheEntry, Job, Person
from annotation.selectors.exports import get_export_folder
from annotation.selectors.operations.signs import STALE_SECONDS, list_signs
from annotation.services import jobs
from annotation.services.exports import Options
from annotation.services.exports.downloads import start_export
from annotation.services.releases import cut_release
from tests.support import label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db
TOKEN = "a-token-of-sixteen-characters"


def examine(*arguments: str) -> tuple[int, dict[str, Any]]:
    """What the command ends with, and its checks by name."""
    output, code = StringIO(), 0
    with redirect_stdout(output):
        try:
            call_command("doctor", *arguments, "--json", stdout=output)
        except SystemExit as ended:
            code = int(ended.code or 0)
    return code, {result["check"]: result for result in json.loads(output.getvalue())["checks"]}


@pytest.fixture
def own_folder(settings: Any, tmp_path: Path) -> Path:
    settings.ASSAY_DATA_DIR = tmp_path
    return tmp_path


@pytest.fixture
def processes() -> None:
    """Beat and a worker were heard of just now."""
    leave_sign(BEAT, "machine")
    leave_sign(WORKER, "celery@machine/1")


@pytest.mark.usefixtures("processes", "own_folder")
def test_an_installation_that_is_well_has_no_fault():
    code, checks = examine()
    assert (code, {name for name, check in checks.items() if check["state"] == "fault"}) == (0, set())
    assert set(checks) >= {
        *("settings", "secrets", "database", "clock", "pooler", "migrations", "static files", "data folder"),
        *("disk", "broker", "beat", "workers", "exports", "encoders", "scorers"),
    }


@pytest.mark.usefixtures("own_folder")
def test_a_fault_ends_the_command_with_1_and_says_how_to_mend_it():
    code, checks = examine("--only", "beat", "workers")
    assert code == 1
    assert checks["beat"]["state"] == checks["workers"]["state"] == "fault"
    assert "celery -A config.beat beat" in checks["beat"]["remedy"]


@pytest.mark.usefixtures("processes", "own_folder")
def test_the_table_has_a_line_for_each_check_in_either_language():
    for language, word in (("en", "ok"), ("zh-hans", "正常")):
        output = StringIO()
        from django.utils import translation

        with translation.override(language):
            call_command("doctor", "--only", "database", "migrations", stdout=output)
        lines = output.getvalue().splitlines()
        assert [line.split()[:2] for line in lines[:2]] == [[word, "database"], [word, "migrations"]]


def test_what_reads_all_whole_is_left_out_of_a_quick_look():
    _code, checks = examine("--quick")
    assert {"exports", "scorers"} & set(checks) == set()


def test_beat_and_workers_are_told_apart_by_the_age_of_their_signs(processes: None):
    gone = KEY.format(kind=WORKER, name="celery@gone/7")
    late = FORGOTTEN_AFTER.total_seconds() - STALE_SECONDS - 240
    leave_sign(WORKER, "celery@gone/7")
    set_expiry(gone, late)
    _code, checks = examine("--only", "beat", "workers")
    assert (checks["beat"]["state"], checks["workers"]["state"]) == ("ok", "warning")
    assert "celery@gone/7" in checks["workers"]["message"]
    set_expiry(KEY.format(kind=BEAT, name="machine"), late)
    assert examine("--only", "beat")[1]["beat"]["message"].startswith("No sign of beat for 30")


def set_expiry(key: str, seconds: float) -> None:
    from datetime import timedelta

    from django.db.models.functions import Now

    assert CacheEntry.objects.filter(cache_key=key).update(expires=Now() + timedelta(seconds=seconds)) == 1


def test_a_sign_is_left_again_and_again_and_withdrawn_at_the_end(transactional_db: None):
    leave_sign(WORKER, "w")
    thread = SignThread(WORKER, "w")
    thread.start()
    thread.stop()
    assert list_signs(WORKER) == []


def test_a_missing_migration_is_a_fault_and_a_later_one_a_warning():
    MigrationRecorder(connection).record_applied("annotation", "9999_of_tomorrow")
    assert check_migrations().state == CheckState.WARNING
    MigrationRecorder(connection).record_unapplied("annotation", "0001_initial")
    result = check_migrations()
    assert result.state == CheckState.FAULT
    assert "annotation.0001_initial" in result.message_text


def test_without_tables_the_checks_of_the_database_are_not_tried():
    MigrationRecorder(connection).record_unapplied("annotation", "0001_initial")
    code, checks = examine()
    assert code == 1
    assert checks["exports"]["message"] == "Not checked, for want of: migrations."


def test_a_file_that_is_missing_from_the_collected_ones_is_named(settings: Any, tmp_path: Path):
    from django.contrib.staticfiles.storage import staticfiles_storage

    from config.static import CollectedFiles

    settings.STATIC_ROOT, settings.COLLECTED = tmp_path, True
    storage = CollectedFiles(location=str(tmp_path))
    call_with_storage = staticfiles_storage._wrapped
    staticfiles_storage._wrapped = storage
    try:
        assert check_static_files().state == CheckState.FAULT  # nobody ran collectstatic
        call_command("collectstatic", interactive=False, verbosity=0)
        assert check_static_files().state == CheckState.OK
        (tmp_path / storage.hashed_files["js/work.js"]).unlink()
        result = check_static_files()
    finally:
        staticfiles_storage._wrapped = call_with_storage
    assert (result.state, "js/work.js" in result.message_text) == (CheckState.FAULT, True)


def test_a_data_folder_that_is_not_there_is_a_fault(settings: Any, tmp_path: Path):
    settings.ASSAY_DATA_DIR = tmp_path / "gone"
    assert examine("--only", "data folder")[1]["data folder"]["state"] == "fault"


def test_a_secret_that_others_can_read_is_a_fault(own_folder: Path):
    key = own_folder / "secret_key"
    key.write_text("x" * 50)
    key.chmod(0o644)
    assert examine("--only", "secrets")[1]["secrets"]["remedy"] == f"chmod 600 {key}"


def test_the_clock_of_this_machine_is_that_of_the_database():
    assert check_clock().state == CheckState.OK


def test_a_broker_that_is_away_is_a_fault_at_once(celery_broker_nowhere: None):
    assert examine("--only", "broker")[1]["broker"]["state"] == "fault"


@pytest.fixture
def celery_broker_nowhere() -> Any:
    from celery import current_app

    usual = current_app.conf.broker_url
    transport, current_app.conf.broker_transport = current_app.conf.broker_transport, None
    current_app.conf.broker_url = "redis://127.0.0.1:9/0"
    current_app.pool.force_close_all()
    yield
    current_app.conf.broker_url, current_app.conf.broker_transport = usual, transport


def test_a_changed_file_of_an_export_is_named(own_folder: Path, guideline: Any, lin: Person, he: Person):
    batch = make_batch(
        guideline, make_corpus(prompts=2, models=["M"]), annotators=[lin], policy=Policy(overlap=1)
    )
    while label_next(batch, lin, 1):
        pass
    release = cut_release(ReleaseSpec(name="r", batches=[batch]))
    export = start_export(release=release, format_name="jsonl", options=Options(), actor=he, send=False)
    assert export.job is not None
    jobs.run_now(export.job)
    assert examine("--only", "exports")[1]["exports"]["state"] == "ok"
    export.refresh_from_db()
    path = get_export_folder(export) / "gold.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"M"', b'"N"', 1))  # as many bytes
    message = examine("--only", "exports")[1]["exports"]["message"]
    assert "r/jsonl/gold.jsonl (sha256" in message


def test_a_check_of_another_part_enters_the_list_by_one_line():
    try:
        register_check("weather")(lambda: passed("{how}", how="fine"))
        (result,) = [result for check, result in run_checks(load_checks()) if check.name == "weather"]
        assert result.message_text == "fine"

        register_check("weather")(lambda: passed(str(1 // 0)))
        code, checks = examine("--only", "weather")
        assert (code, "ZeroDivisionError" in checks["weather"]["message"]) == (1, True)
    finally:
        CHECKS.pop("weather")


def test_healthz_asks_nothing_and_is_answered_for_any_host(
    client: Client, django_assert_num_queries: Callable[..., Any]
):
    with django_assert_num_queries(0):
        answer = client.get("/healthz", headers={"host": "10.0.0.7"})
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert answer.headers["Cache-Control"] == "no-store"
    assert "Set-Cookie" not in answer.headers
    assert client.post("/healthz").status_code == 405
    assert client.get("/sign-in/", headers={"host": "10.0.0.7"}).status_code == 400


@pytest.mark.usefixtures("own_folder")
def test_readyz_tells_strangers_the_names_of_checks_alone(client: Client):
    answer = client.get("/readyz", headers={"host": "10.0.0.7"})
    assert answer.status_code == 200  # beat is a warning
    assert answer.headers["Content-Length"] == str(len(answer.content))
    assert answer.json() == {
        "status": "ok",
        "checks": {
            **dict.fromkeys(("database", "migrations", "manifest", "data folder", "broker"), "ok"),
            "beat": "failed",
        },
    }


def test_readyz_fails_for_a_missing_migration_and_a_lost_folder(
    client: Client, settings: Any, tmp_path: Path
):
    MigrationRecorder(connection).record_unapplied("annotation", "0001_initial")
    settings.ASSAY_DATA_DIR = tmp_path / "gone"
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (503, "failed")
    failed = {name for name, state in answer.json()["checks"].items() if state == "failed"}
    assert failed == {"migrations", "data folder", "beat"}
    assert str(tmp_path) not in answer.content.decode()


def test_metrics_are_there_for_the_token_alone(client: Client, settings: Any, batch: Batch, lin: Person):
    assert client.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 404
    settings.METRICS_TOKEN = TOKEN
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Token {TOKEN}"}):
        assert client.get("/metrics", headers=headers).status_code == 401
    label_next(batch, lin, 1)
    for kind in ("export", "train_scorer", "send_mail"):
        Job.objects.create(kind=kind, state=Job.State.QUEUED)
    Job.objects.create(kind="train_scorer", state=Job.State.RUNNING, heartbeat=timezone.now())
    leave_sign(WORKER, "celery@machine/1", ["housekeeping", "assay"])
    answer = client.get("/metrics", headers={"authorization": f"Bearer {TOKEN}", "host": "10.0.0.7"})
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
    }
    assert samples["assay_jobs", "export", "assay", "queued"] == 1
    assert samples["assay_jobs", "train_scorer", "train", "queued"] == 1
    assert samples["assay_jobs", "train_scorer", "train", "running"] == 1
    assert 0 <= samples["assay_oldest_queued_job_seconds", "send_mail", "housekeeping"] < 60
    assert 0 <= samples["assay_oldest_heartbeat_seconds", "train_scorer", "train"] < 60
    workers = {queue: samples["assay_queue_workers", queue] for queue in ("housekeeping", "assay", "train")}
    assert workers == {"housekeeping": 1, "assay": 1, "train": 0}
    assert samples["assay_submitted_total",] == 1
    assert samples["assay_database_up",] == 1
    assert samples["assay_disk_free_bytes", "data"] > 0
