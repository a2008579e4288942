"""A backup and its restore: what is refused, what is left out, and that nothing half-done stays."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.conf import LazySettings
from django.core.exceptions import FieldError
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from annotation.core.errors import Conflict, InputError
from annotation.models import AuditEvent, Batch, Import, Job, Person, Prompt
from annotation.models.sql import dumps
from annotation.services import jobs
from annotation.services.imports.uploads import receive_upload
from annotation.services.upkeep import manifests
from annotation.services.upkeep.backups import make_backup
from annotation.services.upkeep.data_folder import list_data_files
from annotation.services.upkeep.manifests import MANIFEST, Manifest, read_manifest, write_manifest
from annotation.services.upkeep.restores import check_backup, restore_backup
from annotation.services.upkeep.table_files import ContentHash
from tests.databases import MigratedDatabase
from tests.former_databases import BringTo, another_database, bring_to, elsewhere

__all__ = ["bring_to", "elsewhere"]  # fixtures

pytestmark = pytest.mark.django_db(transaction=True)
Elsewhere = Callable[[], AbstractContextManager[Path]]


@pytest.fixture(autouse=True)
def data_folder(settings: LazySettings, tmp_path: Path) -> Path:
    return use_folder(settings, tmp_path / "data")


def use_folder(settings: LazySettings, folder: Path) -> Path:
    folder.mkdir()
    settings.ASSAY_DATA_DIR, settings.MEDIA_ROOT = folder, folder / "uploads"
    settings.BROKER_FOLDER = folder / "broker"
    settings.CELERY_BEAT_SCHEDULE_FILENAME = str(folder / "celerybeat-schedule")
    return folder


@pytest.fixture
def upload(he: Person, data_folder: Path) -> Import:
    return receive_upload(
        file=SimpleUploadedFile("prompts.jsonl", b'{"prompt": "Is it?"}'), name="prompts.jsonl", actor=he
    )


@pytest.fixture
def folder(batch: Batch, upload: Import, tmp_path: Path) -> Path:
    """A backup of the cast, their batch and an upload."""
    make_backup(tmp_path / "backup")
    return tmp_path / "backup"


@pytest.fixture
def empty_site(
    settings: LazySettings, tmp_path: Path, migrated_database: MigratedDatabase | None
) -> Elsewhere:
    """A database with tables and nobody in it, and an empty data folder."""

    @contextmanager
    def open_site() -> Iterator[Path]:
        if migrated_database is not None:
            shutil.copyfile(migrated_database.template, tmp_path / "copy.sqlite3")
        with another_database(tmp_path / "copy.sqlite3"):
            if migrated_database is None:
                call_command("migrate", verbosity=0, interactive=False)
            yield use_folder(settings, tmp_path / "copy")

    return open_site


def check_untouched(folder: Path) -> None:
    """Nobody is there, and no file."""
    assert not Person.objects.exists()
    assert not AuditEvent.objects.exists()
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def change_manifest(folder: Path, **changes: Any) -> None:
    """As another backup would have it, whole in itself."""
    manifest = read_manifest(folder)
    (folder / MANIFEST).unlink()
    content = {name: getattr(manifest, name) for name in manifest.__dataclass_fields__}
    write_manifest(folder, Manifest(**{**content, **changes}))


def test_every_table_is_taken_but_sessions_and_the_cache() -> None:
    tables = {table.name for table in dumps.list_tables(apps)}
    left_out = set(dumps.list_left_out())
    caches = {"annotation_cacheentry", "annotation_chartentry"}
    assert left_out == caches | {"django_session", "annotation_signinsession"}
    assert not tables & left_out
    ours = set(connection.introspection.django_table_names(only_existing=True))
    assert tables | left_out == ours


def test_tables_come_after_those_that_their_rows_name() -> None:
    tables = dumps.list_tables(apps)
    places = {table.name: place for place, table in enumerate(tables)}
    late = {
        (table.name, parent)
        for table in tables
        for parent in table.parents - {table.name}
        if places[parent] > places[table.name]
    }
    assert late == set()


def test_numbers_and_json_hash_alike_whichever_database_wrote_them() -> None:
    table = next(table for table in dumps.list_tables(apps) if table.name == "annotation_auditevent")
    names = [column.name for column in table.columns]

    def hash_data(text: str) -> str:
        content = ContentHash(table)
        content.add([[text if name == "data" else None for name in names]])
        return content.sha256

    assert hash_data('{"b": 1e16, "a": -0.0}') == hash_data('{"a":0,"b":10000000000000000}')
    assert hash_data('{"a": 1}') != hash_data('{"a": 2}')
    assert hash_data('{"a": "1"}') != hash_data('{"a": 1}')


def test_what_is_made_anew_or_secret_or_unfinished_stays_out(data_folder: Path) -> None:
    copied = ["exports/a/gold.jsonl", "scorers/1/weights/card.json", "something/new"]
    left_out = [
        "broker/messages/1",
        "celerybeat-schedule",
        "charts/a.svg",
        "demo_password",
        "exports/b.part/gold.jsonl",
        "restoring/exports/a",
        "scorers/1/part-a/card.json",
        "scorers/1/work/fold",
        "secret_key",
    ]
    for name in copied + left_out:
        path = data_folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    assert [str(path) for path in list_data_files()] == copied
    secrets = {str(path) for path in list_data_files(with_secrets=True)} - set(copied)
    assert secrets == {"demo_password", "secret_key"}


def test_the_key_goes_along_when_that_is_said(
    batch: Batch, data_folder: Path, tmp_path: Path, empty_site: Elsewhere
) -> None:
    (data_folder / "secret_key").write_text("k" * 50)
    assert make_backup(tmp_path / "without").secrets == []
    assert make_backup(tmp_path / "with", with_secrets=True).secrets == ["secret_key"]
    with empty_site() as place:
        (place / "secret_key").write_text("made when the command started")
        restore_backup(tmp_path / "with")
        assert (place / "secret_key").read_text() == "k" * 50


def test_nobody_else_can_read_a_backup(folder: Path) -> None:
    modes = {path.stat().st_mode & 0o077 for path in [folder, *folder.rglob("*")]}
    assert modes == {0}


def test_a_file_that_is_gone_is_named(upload: Import, data_folder: Path, tmp_path: Path) -> None:
    (data_folder / "uploads" / upload.path).unlink()
    manifest = make_backup(tmp_path / "backup")
    assert manifest.missing == [f"uploads/{upload.path}"]
    assert read_manifest(tmp_path / "backup").missing == manifest.missing


def test_a_backup_goes_into_a_new_folder_outside_of_the_data(
    batch: Batch, data_folder: Path, folder: Path
) -> None:
    with pytest.raises(InputError, match="not empty"):
        make_backup(folder)
    check_backup(folder)
    with pytest.raises(InputError, match="in the data folder"):
        make_backup(data_folder / "backup")
    assert not (data_folder / "backup").exists()


def test_a_backup_that_fails_leaves_nothing(
    upload: Import, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full when the files come."""

    def fail(path: Path, *_: Any) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(manifests.os, "fsync", fail)
    with pytest.raises(InputError, match="No space left on device"):
        make_backup(tmp_path / "backup")
    assert list((tmp_path / "backup").iterdir()) == []


def test_each_damaged_or_missing_file_is_named_before_anything_is_written(
    folder: Path, empty_site: Elsewhere
) -> None:
    parts = [path for path, _size, _sha256 in read_manifest(folder).list_parts()]
    assert any(part.startswith("files/uploads/") for part in parts)
    with empty_site() as place:
        for part in (parts[0], parts[-1], "tables/annotation_person.jsonl.zst"):
            path = folder / part
            content = path.read_bytes()
            path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
            with pytest.raises(InputError, match="damaged") as refusal:
                restore_backup(folder)
            assert refusal.value.path == str(path)
            path.write_bytes(content[:-1])
            with pytest.raises(InputError, match="damaged"):
                check_backup(folder)
            path.unlink()
            with pytest.raises(InputError, match="incomplete") as refusal:
                restore_backup(folder)
            assert refusal.value.path == str(path)
            path.write_bytes(content)
        check_untouched(place)
        restore_backup(folder)
        assert Batch.objects.get().name == "first"


def test_a_folder_without_its_manifest_or_with_another_is_no_backup(folder: Path, tmp_path: Path) -> None:
    path = folder / MANIFEST
    content = json.loads(path.read_text())
    content["tables"][0]["rows"] += 1
    for text in (json.dumps(content), "{}", "[]", "not JSON"):
        path.write_text(text)
        with pytest.raises(InputError, match="damaged"):
            check_backup(folder)
    path.unlink()
    with pytest.raises(InputError, match="is no backup"):
        check_backup(folder)
    with pytest.raises(InputError, match="no such folder"):
        check_backup(tmp_path / "nowhere")


def test_a_backup_of_a_newer_version_names_that_version(folder: Path, empty_site: Elsewhere) -> None:
    migrations = dict(read_manifest(folder).migrations)
    migrations["annotation"] = [*migrations["annotation"], "0999_later"]
    change_manifest(folder, migrations=migrations, version="9.9.9")
    with empty_site() as place:
        with pytest.raises(Conflict, match=r"9\.9\.9.*annotation\.0999_later"):
            restore_backup(folder)
        check_untouched(place)
    with pytest.raises(InputError, match=r"9\.9\.9"):  # when it is read back
        change_manifest(folder, format=2)
    with pytest.raises(InputError, match=r"9\.9\.9"):
        check_backup(folder)


def test_nothing_is_restored_over_anything(folder: Path, data_folder: Path, empty_site: Elsewhere) -> None:
    people = Person.objects.count()
    with pytest.raises(Conflict, match=r"data folder .* is not empty"):
        restore_backup(folder)
    shutil.rmtree(data_folder / "uploads")
    with pytest.raises(Conflict, match="database is not empty"):
        restore_backup(folder)
    assert Person.objects.count() == people
    with empty_site() as place:
        (place / "exports").mkdir()
        (place / "exports" / "theirs").write_text("x")
        with pytest.raises(Conflict, match="exports/theirs"):
            restore_backup(folder)
        assert not Person.objects.exists()
        assert (place / "exports" / "theirs").read_text() == "x"


def test_what_does_not_read_back_as_it_was_is_taken_back(folder: Path, empty_site: Elsewhere) -> None:
    tables = [asdict(table) for table in read_manifest(folder).tables]
    for table in tables:
        if table["name"] == "annotation_task":
            table["content_sha256"] = "0" * 64
    change_manifest(folder, tables=[manifests.TableEntry(**table) for table in tables])
    with empty_site() as place:
        with pytest.raises(Conflict, match="annotation_task"):
            restore_backup(folder)
        check_untouched(place)


def test_what_a_killed_restore_left_is_thrown_away(folder: Path, empty_site: Elsewhere) -> None:
    with empty_site() as place:
        (place / "restoring" / "uploads").mkdir(parents=True)
        (place / "restoring" / "uploads" / "half").write_text("x")
        restore_backup(folder)
        assert not (place / "restoring").exists()
        assert Path(place, "uploads", Import.objects.get().path).read_bytes() == b'{"prompt": "Is it?"}'


def test_jobs_go_on_unless_they_are_held(
    upload: Import, he: Person, tmp_path: Path, empty_site: Elsewhere
) -> None:
    job = jobs.enqueue(kind="import", payload={"import": upload.pk}, actor=he, send=False)
    Job.objects.filter(pk=job.pk).update(state="running", attempt=1, worker="there:1", result={"course": 7})
    done = jobs.enqueue(kind="import", payload={}, actor=he, send=False)
    Job.objects.filter(pk=done.pk).update(state="done", finished_at=timezone.now())
    make_backup(tmp_path / "backup")
    with empty_site():
        assert restore_backup(tmp_path / "backup", hold_jobs=True).held_jobs == 1
        held = Job.objects.get(pk=job.pk)
        assert (held.state, held.worker, held.result["course"]) == ("cancelled", "", 7)
        assert "held when a backup was restored" in held.error_text
        assert held.finished_at is not None
        assert Job.objects.get(pk=done.pk).state == "done"
        event = AuditEvent.objects.latest("pk")
        assert (event.verb, event.data["held_jobs"]) == ("restore_backup", 1)
    shutil.rmtree(tmp_path / "copy")
    with empty_site():
        restore_backup(tmp_path / "backup")
        assert Job.objects.get(pk=job.pk).state == "running"


REFUSE = {
    "sqlite": [
        "CREATE TRIGGER no_events BEFORE INSERT ON annotation_person BEGIN SELECT RAISE(ABORT, 'no'); END"
    ],
    "postgresql": [
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$",
        "CREATE TRIGGER no_events BEFORE INSERT ON annotation_person FOR EACH ROW EXECUTE FUNCTION refuse()",
    ],
}


@pytest.mark.both_databases
def test_triggers_do_nothing_to_restored_rows_and_are_there_afterwards(
    folder: Path, empty_site: Elsewhere
) -> None:
    with empty_site():
        with connection.cursor() as cursor:
            for statement in REFUSE[connection.vendor]:
                cursor.execute(statement)
        restore_backup(folder)
        assert Person.objects.filter(username="lin").exists()
        with pytest.raises(Exception, match="no"):
            Person.objects.create(username="new", name_key="new")


FORMER = {"annotation": "0052_slates", "benchmark": "0019_difficulty_of_questions"}
"""Of an earlier version, whose prompts have no malice and whose studies no campaigns."""


@pytest.mark.skipif(
    connection.vendor != "sqlite", reason="two databases beside the tests' own, which are files"
)
def test_a_backup_of_an_earlier_version_is_migrated_on(
    bring_to: BringTo, tmp_path: Path, settings: LazySettings, empty_site: Elsewhere
) -> None:
    leaves = MigrationLoader(connection).graph.leaf_nodes()
    targets = [(app, FORMER.get(app, name)) for app, name in leaves]
    former = bring_to(targets)
    person = former.get_model("annotation", "Person").objects.create(username="lin")
    study = former.get_model("annotation", "Study").objects.create(name="s", created_by=person)
    dataset = former.get_model("annotation", "Dataset").objects.create(name="d", study=study)
    prompt = former.get_model("annotation", "Prompt").objects.create(dataset=dataset, key="1", text="Is it?")
    with pytest.raises(FieldError):
        type(prompt).objects.filter(malice="")
    make_backup(tmp_path / "backup")
    with empty_site() as place:
        with pytest.raises(Conflict, match="earlier version than the tables"):
            restore_backup(tmp_path / "backup")
        check_untouched(place)
    shutil.rmtree(tmp_path / "copy")
    with another_database(tmp_path / "former.sqlite3"):
        bring_to(targets)
        use_folder(settings, tmp_path / "copy")
        site = restore_backup(tmp_path / "backup")
        assert site.migrated
        assert Prompt.objects.get().text == "Is it?"
        assert Prompt.objects.get().malice == ""
        executor = MigrationExecutor(connection)
        assert executor.migration_plan(executor.loader.graph.leaf_nodes()) == []


def test_the_commands_say_what_they_did(folder: Path, tmp_path: Path, empty_site: Elsewhere) -> None:
    out, err = StringIO(), StringIO()
    call_command("restore", str(folder), "--check", stdout=out)
    assert "nothing was written" in out.getvalue()
    change_manifest(folder, secret_key="another", missing=["uploads/imports/gone"])
    with empty_site():
        call_command("restore", str(folder), "--hold-jobs", stdout=out, stderr=err)
        assert "SECRET_KEY is not that of the backup" in err.getvalue()
        assert "missing: uploads/imports/gone" in err.getvalue()
        call_command("backup", str(tmp_path / "again"), "--json", stdout=(printed := StringIO()), stderr=err)
    answer = json.loads(printed.getvalue())
    assert answer["rows"] == read_manifest(tmp_path / "again").rows
    assert answer["missing"] == []
