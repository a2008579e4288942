"""The nightly clean-up: what goes, what stays whatever its age, and that nothing goes unasked."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from celery.schedules import crontab
from django.apps import apps
from django.conf import LazySettings, settings
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.utils import timezone

from annotation.core.error_messages import error_to_json
from annotation.core.errors import Conflict
from annotation.domain.annotations import Submission
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import (
    AuditEvent,
    Batch,
    CacheEntry,
    Draft,
    Export,
    GoldRelease,
    Guideline,
    Import,
    Job,
    Person,
)
from annotation.selectors.exports import get_export_folder
from annotation.services import jobs
from annotation.services.annotations.drafts import save_draft
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import set_state
from annotation.services.exports import Options
from annotation.services.exports.downloads import record_download, start_export
from annotation.services.imports.uploads import receive_upload
from annotation.services.releases import cut_release
from annotation.services.upkeep.clean_up import CLEANERS, Remains, clean_up
from annotation.tasks import clean_up_nightly
from config.celery import app
from scoring.models import PredictionRequest, Scorer
from tests.support import label_next, without_audit_guard

pytestmark = pytest.mark.django_db
LONG = timedelta(days=400)


@pytest.fixture(autouse=True)
def data_folder(settings: LazySettings, tmp_path: Path) -> Path:
    settings.ASSAY_DATA_DIR, settings.MEDIA_ROOT = tmp_path, tmp_path / "uploads"
    return tmp_path


@pytest.fixture
def release(batch: Batch, lin: Person, chen: Person) -> GoldRelease:
    for person in (lin, chen):
        while label_next(batch, person, 1):
            pass
    return cut_release(ReleaseSpec(name="r", batches=[batch]))


@pytest.fixture
def clean(django_capture_on_commit_callbacks: Any) -> Callable[[], dict[str, Remains]]:
    """As the beat does it, after a dry run that must have said the same and changed nothing."""

    def run() -> dict[str, Remains]:
        files = list_files()
        planned = clean_up(remove=False)
        assert list_files() == files
        with django_capture_on_commit_callbacks(execute=True):
            done = clean_up(remove=True)
        assert done == planned
        assert {kind: remains.number for kind, remains in clean_up(remove=False).items()} == dict.fromkeys(
            done, 0
        )
        return done

    return run


def list_files() -> list[Path]:
    return sorted(path for path in Path(settings.ASSAY_DATA_DIR).rglob("*") if path.is_file())


def write(path: Path, *, age: timedelta = LONG, content: str = "12345") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    moment = (timezone.now() - age).timestamp()
    os.utime(path, (moment, moment))
    for folder in path.parents:
        if folder == Path(settings.ASSAY_DATA_DIR):
            break
        os.utime(folder, (moment, moment))
    return path


def export_release(release: GoldRelease, he: Person) -> Export:
    export = start_export(release=release, format_name="jsonl", options=Options(), actor=he, send=False)
    assert export.job is not None
    jobs.run_now(export.job)
    export.refresh_from_db()
    return export


def upload_file(he: Person) -> Import:
    content = b'{"prompt": "Is it?"}'
    return receive_upload(file=SimpleUploadedFile("p.jsonl", content), name="p.jsonl", actor=he)


def test_sessions_and_cache_entries_go_once_they_are_over(clean: Callable[[], dict[str, Remains]]) -> None:
    now = timezone.now()
    for age in (timedelta(hours=1), timedelta(hours=-1)):
        session = SessionStore()
        session.create()
        Session.objects.filter(pk=session.session_key).update(expire_date=now - age)
        CacheEntry.objects.create(cache_key=str(age), value="v", expires=now - age)
    done = clean()
    assert (done["sessions"].number, done["cache entries"].number) == (1, 1)
    assert (Session.objects.count(), CacheEntry.objects.count()) == (1, 1)


def test_an_upload_that_nobody_confirmed_goes_with_its_file(
    he: Person, clean: Callable[[], dict[str, Remains]]
) -> None:
    old, recent, confirmed, imported = (upload_file(he) for _ in range(4))
    Import.objects.exclude(pk=recent.pk).update(created_at=timezone.now() - LONG)
    confirmed.job = jobs.enqueue(kind="import", payload={"import": confirmed.pk}, actor=he, send=False)
    confirmed.save()
    Import.objects.filter(pk=imported.pk).update(report={"taken": 1})
    path = Path(settings.MEDIA_ROOT) / old.path
    done = clean()
    assert done["uploads"] == Remains(1, 20)
    assert not path.exists()
    assert set(Import.objects.all()) == {recent, confirmed, imported}
    assert all((Path(settings.MEDIA_ROOT) / upload.path).exists() for upload in Import.objects.all())
    event = AuditEvent.objects.get(verb="discard_upload")
    assert (event.actor, event.target) == (None, f"import:{old.pk}")


def test_an_export_that_nobody_downloads_goes_and_can_be_written_again(
    release: GoldRelease, he: Person, clean: Callable[[], dict[str, Remains]]
) -> None:
    old, fetched, recent = (export_release(release, he) for _ in range(3))
    Export.objects.exclude(pk=recent.pk).update(verified_at=timezone.now() - LONG)
    record_download(export=fetched, file="gold.jsonl", actor=he)
    content = {name: (get_export_folder(old) / name).read_bytes() for name in ("gold.jsonl", "manifest.json")}
    events = AuditEvent.objects.count()
    done = clean()
    assert done["exports"].number == 1
    assert done["exports"].bytes > sum(map(len, content.values()))
    assert set(Export.objects.all()) == {fetched, recent}
    assert not get_export_folder(old).exists()
    assert get_export_folder(fetched).exists()
    assert AuditEvent.objects.count() == events + 1
    rewritten = export_release(release, he)
    assert {name: (get_export_folder(rewritten) / name).read_bytes() for name in content} == content


def test_unfinished_work_of_closed_batches_goes_and_refused_work_stays(
    batch: Batch, lin: Person, chen: Person, zhou: Person, ma: Person, clean: Callable[[], dict[str, Remains]]
) -> None:
    drafts = []
    for person in (lin, chen, zhou):
        assignment = claim_next_task(batch=batch, person=person)
        assert assignment is not None
        work = Submission({"compliance": 1}, rationale="Half a")
        save_draft(assignment_id=assignment.pk, person=person, work=work)
        drafts.append(assignment.pk)
    Draft.objects.filter(pk=drafts[1]).update(why=error_to_json(Conflict("Too late.")))
    Draft.objects.exclude(pk=drafts[2]).update(updated_at=timezone.now() - LONG)
    assert clean()["drafts"].number == 0
    set_state(batch=batch, state="closed", actor=ma)
    assert clean()["drafts"].number == 1
    assert set(Draft.objects.values_list("pk", flat=True)) == {drafts[1], drafts[2]}


def test_charts_and_stray_files_go_when_they_are_old(
    release: GoldRelease, he: Person, data_folder: Path, clean: Callable[[], dict[str, Remains]]
) -> None:
    export = export_release(release, he)
    waiting = start_export(release=release, format_name="csv", options=Options(), actor=he, send=False)
    upload = upload_file(he)
    old_ones = [
        write(data_folder / "charts" / "a.svg"),
        write(data_folder / "uploads" / "imports" / "stray"),
        write(data_folder / "exports" / "stray" / "gold.jsonl"),
        write(data_folder / f"{export.folder}.part" / "gold.jsonl"),
    ]
    staying = [
        write(data_folder / "charts" / "b.svg", age=timedelta(hours=1)),
        write(data_folder / "uploads" / "imports" / "young", age=timedelta(hours=1)),
        write(data_folder / f"{waiting.folder}.part" / "gold.csv"),
        write(data_folder / "uploads" / upload.path),
        write(get_export_folder(export) / "gold.jsonl"),
        write(data_folder / "something" / "else"),
    ]
    done = clean()
    assert (done["charts"], done["stray files"]) == (Remains(1, 5), Remains(3, 15))
    assert not any(path.exists() for path in old_ones)
    assert all(path.exists() for path in staying)


def test_remains_of_trainings_go_and_weights_never(
    release: GoldRelease, guideline: Guideline, data_folder: Path, clean: Callable[[], dict[str, Remains]]
) -> None:
    ready, at_work, failed = (
        Scorer.objects.create(
            study=release.study,
            name=name,
            guideline=guideline,
            release=release,
            backbone="embedded",
            ready_at=timezone.now() if name == "ready" else None,
            job=jobs.enqueue(kind="train_scorer", payload={}, send=False),
        )
        for name in ("ready", "at work", "failed")
    )
    Job.objects.filter(pk=ready.job_id).update(state="done")
    Job.objects.filter(pk=failed.job_id).update(state="failed")
    staying = [
        write(ready.weights_folder / "card.json"),
        write(at_work.work_folder / "fold-1"),
        write(at_work.folder / "part-1" / "weights.npz"),
    ]
    remains = [
        write(ready.work_folder / "fold-1"),
        write(ready.folder / "part-1" / "weights.npz"),
        write(failed.work_folder / "step-1" / "weights.npz"),
        write(failed.weights_folder / "weights.npz"),
        write(data_folder / "scorers" / "999" / "work" / "fold-1"),
    ]
    done = clean()
    assert done["trainings"] == Remains(4, 25)
    assert all(path.exists() for path in staying)
    assert not any(path.exists() for path in remains)
    assert not failed.folder.exists()


def test_nothing_goes_of_what_is_kept_for_ever(
    release: GoldRelease, he: Person, data_folder: Path, settings: LazySettings
) -> None:
    settings.UPLOAD_DAYS = settings.EXPORT_DAYS = settings.DRAFT_DAYS = settings.CHART_DAYS = 0
    export_release(release, he)
    upload_file(he)
    write(data_folder / "charts" / "a.svg")
    Export.objects.update(verified_at=timezone.now() - LONG)
    Import.objects.update(created_at=timezone.now() - LONG)
    assert {kind: remains.number for kind, remains in clean_up(remove=True).items()} == dict.fromkeys(
        CLEANERS, 0
    )


def test_what_gold_the_audit_trail_and_people_rest_on_is_as_it_was(
    release: GoldRelease, batch: Batch, he: Person, ma: Person, clean: Callable[[], dict[str, Remains]]
) -> None:
    """Whatever its age: everything is a year old, and all that may go does."""
    upload_file(he)
    export_release(release, he)
    set_state(batch=batch, state="closed", actor=ma)
    Export.objects.update(verified_at=timezone.now() - LONG)
    Import.objects.update(created_at=timezone.now() - LONG)
    with without_audit_guard():
        AuditEvent.objects.update(at=timezone.now() - LONG)
    may_change = {Import, Export, AuditEvent, Session, CacheEntry, Draft, PredictionRequest}
    models = [model for model in apps.get_models(include_auto_created=True) if model not in may_change]
    before = {model: list(model.objects.order_by("pk").values()) for model in models}
    events = list(AuditEvent.objects.order_by("pk").values())
    done = clean()
    assert (done["uploads"].number, done["exports"].number) == (1, 1)
    assert {model: list(model.objects.order_by("pk").values()) for model in models} == before
    assert list(AuditEvent.objects.order_by("pk").values())[: len(events)] == events


def test_a_kind_that_fails_holds_up_no_other(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(data_folder / "charts" / "a.svg")

    def fail(_remove: bool) -> Remains:
        raise PermissionError(13, "Permission denied", "uploads")

    clean_up(remove=False)
    monkeypatch.setitem(CLEANERS, "a broken kind", fail)
    with pytest.raises(SystemExit):
        call_command("clean_up", "--yes", stdout=StringIO(), stderr=(err := StringIO()))
    assert "a broken kind: [Errno 13] Permission denied" in err.getvalue()
    assert "a broken kind" in caplog.text
    assert list_files() == []


def test_the_command_asks_before_it_removes(data_folder: Path) -> None:
    write(data_folder / "charts" / "a.svg")
    call_command("clean_up", stdout=(out := StringIO()))
    assert "charts                        1                5 bytes" in out.getvalue()
    assert "--yes" in out.getvalue()
    assert len(list_files()) == 1
    call_command("clean_up", "--yes", "--json", stdout=(out := StringIO()))
    answer = json.loads(out.getvalue())
    assert answer["removed"] is True
    assert answer["remains"]["charts"] == {"number": 1, "bytes": 5, "error": ""}
    assert list_files() == []


def test_the_beat_does_it_each_night(data_folder: Path) -> None:
    write(data_folder / "charts" / "a.svg")
    entry = app.conf.beat_schedule["clean-up"]
    assert entry["task"] == clean_up_nightly.name
    assert entry["schedule"] == crontab(hour=3, minute=30)
    clean_up_nightly()
    assert list_files() == []
