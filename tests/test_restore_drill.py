"""The drill: a site at work is backed up, and comes up elsewhere with all that was there at that moment.

Into the same database system in this process, and by the commands from SQLite to PostgreSQL and back.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg2
import pytest
from django.conf import LazySettings, settings
from django.contrib.sessions.models import Session
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.db import connection
from django.db.models import Sum
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from annotation.domain.release_spec import ReleaseSpec
from annotation.models import (
    Annotation,
    Assignment,
    AuditEvent,
    Batch,
    CacheEntry,
    Export,
    GoldRelease,
    Guideline,
    Import,
    Job,
    MemberCounts,
    Person,
)
from annotation.selectors.exports import get_export_folder
from annotation.services import jobs
from annotation.services.exports import Options, export_release
from annotation.services.exports.downloads import start_export
from annotation.services.imports.uploads import discard_upload, receive_upload
from annotation.services.releases import cut_release
from annotation.services.upkeep.backups import make_backup
from annotation.services.upkeep.manifests import Manifest, read_manifest
from annotation.services.upkeep.restores import restore_backup
from scoring.backbones.folder import fingerprint
from scoring.models import Scorer
from tests.conftest import ROOT, missing
from tests.databases import MigratedDatabase
from tests.former_databases import another_database
from tests.scoring.support import make_release, trained
from tests.support import decide_next, label_next, make_batch, make_corpus

FORMATS = ("jsonl", "csv")
HARD_TO_CARRY = {
    "z": -0.0,
    "a": [1e16, 10000000000000000, 0.1, 1e-7],
    "text": "\t\\N\n\u2028\r'\"\\",
    "中": None,
}
BOARD, SCORER, RELEASE = "board", "s", "gold"


def command(name: str, *arguments: str) -> Any:
    out = StringIO()
    call_command(name, *arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


@pytest.fixture
def data_folder(settings: LazySettings, tmp_path: Path) -> Path:
    return use_folder(settings, tmp_path / "data")


def use_folder(values: LazySettings, folder: Path) -> Path:
    folder.mkdir()
    values.ASSAY_DATA_DIR, values.MEDIA_ROOT = folder, folder / "uploads"
    return folder


@pytest.fixture
def busy(
    transactional_db: None, data_folder: Path, batch: Batch, guideline: Guideline, lin: Person, he: Person
) -> Batch:
    """A site with something of each kind: a settled batch with disputes, gold, an export, a scorer with its board, an
    upload, work that waits; and a batch in which people are at work.
    """
    people = list(Person.objects.filter(username__in=["lin", "chen", "zhou"]))
    for place, person in enumerate(people * 3):
        while label_next(batch, person, 1 + place % 3):
            pass
    wu = Person.objects.get(username="wu")
    while decide_next(batch, wu, 2):
        pass
    cut_release(ReleaseSpec(name="settled", batches=[batch]))
    trained(make_release(guideline, lin, name=RELEASE), name=SCORER)
    command("run_benchmark", BOARD, "--scorer", SCORER, "--dataset", f"{RELEASE}-data")
    for form, is_run in (("jsonl", True), ("csv", False)):
        export = start_export(
            release=GoldRelease.objects.get(name=RELEASE),
            format_name=form,
            options=Options(),
            actor=he,
            send=False,
        )
        if is_run:
            jobs.run_now(export.job)
    for name in ("kept.jsonl", "discarded.jsonl"):
        content = json.dumps({"prompt": "Is it?", "dimension": "safe"}).encode()
        upload = receive_upload(file=SimpleUploadedFile(name, content), name=name, actor=he)
    discard_upload(upload=upload, actor=he)
    command(
        *("collect_responses", "--model", "Hidden-13B", "--endpoint", "http://127.0.0.1:9/v1"),
        *("--dataset", "small", "--collection", "paid", "--detach"),
    )
    AuditEvent.objects.create(actor=he, verb="upload", target="import:0", data=HARD_TO_CARRY)
    Client().force_login(he)
    CacheEntry.objects.create(cache_key="k", value="v", expires=timezone.now() + timedelta(days=1))
    corpus = make_corpus(prompts=30, models=["Secretive-7B", "Hidden-13B"], name="busy-data")
    return make_batch(guideline, corpus, annotators=people, name="busy")


def describe_site(folder: Path) -> dict[str, Any]:
    """What must be the same elsewhere: gold and its hashes, exports byte by byte, agreement, the board, the weights."""
    exports = {}
    for release in GoldRelease.objects.order_by("name"):
        for form in FORMATS:
            place = folder / release.name / form
            export_release(release=release, format_name=form, folder=place)
            exports[release.name, form] = {
                file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(place.iterdir())
            }
    scorer = Scorer.objects.get(name=SCORER)
    assert fingerprint(scorer.weights_folder) == scorer.weights_sha256
    export = Export.objects.get(verified_at__isnull=False)
    for file in export.files:
        content = (get_export_folder(export) / file["name"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == file["sha256"]
    [upload] = Import.objects.exclude(path="")
    return {
        "releases": dict(GoldRelease.objects.order_by("name").values_list("name", "sha256")),
        "exports": exports,
        "agreement": command("agreement", "--batch", "first", "--by", "model"),
        "board": command("leaderboard", BOARD),
        "upload": (Path(settings.MEDIA_ROOT) / upload.path).read_bytes(),
        "carried": AuditEvent.objects.get(target="import:0").data,
    }


def check_snapshot(batch: Batch) -> int:
    """Of one moment: what the counts say is what the rows are. How many items had been submitted."""
    submitted = Assignment.objects.filter(batch__name=batch.name, state="submitted").count()
    counts = MemberCounts.objects.filter(stratum__batch__name=batch.name)
    counted = counts.aggregate(number=Sum("submitted"))["number"]
    assert counted == submitted
    assert Annotation.objects.filter(assignment__batch__name=batch.name, current=True).count() == submitted
    return submitted


@contextmanager
def people_at_work(batch: Batch) -> Iterator[threading.Event]:
    """They submit until there is nothing left; the event says that they have begun."""
    has_begun = threading.Event()

    def work(person: Person) -> None:
        with closing(connection):
            number = 0
            while label_next(batch, person, 1 + number % 3):
                number += 1
                if number == 3:
                    has_begun.set()

    people = Person.objects.filter(username__in=["lin", "chen", "zhou"])
    threads = [threading.Thread(target=work, args=[person]) for person in people]
    for thread in threads:
        thread.start()
    try:
        yield has_begun
    finally:
        for thread in threads:
            thread.join()


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_a_site_at_work_comes_up_elsewhere_as_it_was(
    busy: Batch,
    settings: LazySettings,
    tmp_path: Path,
    migrated_database: MigratedDatabase | None,
) -> None:
    before = describe_site(tmp_path / "exports-before")
    last_upload = Import.objects.order_by("-pk").values_list("pk", flat=True)[0]
    with people_at_work(busy) as has_begun:
        assert has_begun.wait(60)
        manifest = make_backup(tmp_path / "backup")
    final_count = check_snapshot(busy)
    assert manifest.missing == []
    assert not {"secret_key", "demo_password"} & {file.path for file in manifest.files}
    if migrated_database is not None:
        shutil.copyfile(migrated_database.template, tmp_path / "copy.sqlite3")
    with another_database(tmp_path / "copy.sqlite3"):
        use_folder(settings, tmp_path / "copy")
        site = restore_backup(tmp_path / "backup", hold_jobs=True)
        assert describe_site(tmp_path / "exports-after") == before
        assert 3 <= check_snapshot(busy) < final_count
        assert site.same_secret_key
        assert not Session.objects.exists()
        assert not CacheEntry.objects.exists()
        check_held_jobs(site.held_jobs)
        # A number that a row had is given to no other, whose audit trail would be taken for its own.
        upload = receive_upload(
            file=SimpleUploadedFile("n.jsonl", b'{"prompt": "Is it?"}'),
            name="n.jsonl",
            actor=Person.objects.get(username="he"),
        )
        assert upload.pk > last_upload + 1
        # And the work goes on.
        assert label_next(Batch.objects.get(name="busy"), Person.objects.get(username="zhou"), 1)


def check_held_jobs(held: int) -> None:
    """The export and the paid collection that waited: no worker takes them, and their pages say why."""
    assert held == 2
    assert jobs.sweep() == 0
    for kind in ("export", "collect_responses"):
        job = Job.objects.get(kind=kind, state="cancelled")
        assert jobs.run(job.pk).state == "cancelled"
        client = Client()
        client.force_login(Person.objects.get(username="he"))
        page = client.get(reverse("job-progress", args=[job.pk])).content.decode()
        assert "held when a backup was restored" in page


COMMANDS = """
import django, io, json, sys
django.setup()
from django.core.management import call_command

def run(arguments):
    output = io.StringIO()
    call_command(*arguments, "--json", stdout=output)
    return json.loads(output.getvalue())

print(json.dumps([run(arguments) for arguments in json.loads(sys.argv[1])]))
"""


@dataclass
class Site:
    """A database and a data folder of their own, which the commands are outcome of."""

    database: str
    folder: Path

    def command(self, *arguments: str) -> Any:
        return self._run("manage.py", *arguments, "--json")

    def describe(self, folder: Path) -> dict[str, Any]:
        """As far as commands tell, all of them in one process, whose start takes most of their time."""
        places = {
            (release, form): folder / release / form for release in ("gold", "settled") for form in FORMATS
        }
        commands = [
            ["export_gold", release, "--format", form, "--out", str(place)]
            for (release, form), place in places.items()
        ]
        commands += [["agreement", "--batch", "first", "--by", "model"], ["leaderboard", BOARD]]
        *_exports, agreement, board = self._run("-c", COMMANDS, json.dumps(commands))
        exports = {
            key: {
                file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(place.iterdir())
            }
            for key, place in places.items()
        }
        return {"exports": exports, "agreement": agreement, "board": board}

    def _run(self, *arguments: str) -> Any:
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "DATABASE_URL": self.database,
            "ASSAY_DATA_DIR": str(self.folder),
            "SECRET_KEY": settings.SECRET_KEY,
        }
        process = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
        )
        assert process.returncode == 0, process.stderr
        return json.loads(process.stdout)


@pytest.fixture
def postgres_site(tmp_path: Path) -> Iterator[Site]:
    address = os.environ.get("ASSAY_TEST_POSTGRES")
    if not address:
        missing("postgres", "ASSAY_TEST_POSTGRES names no server")
    assert address
    parts = urlsplit(address)
    name = f"{parts.path.strip('/')}_restored_{os.getpid()}"
    with closing(psycopg2.connect(address)) as server:
        server.autocommit = True
        server.cursor().execute(f"CREATE DATABASE {name}")
        try:
            yield Site(urlunsplit(parts._replace(path=f"/{name}")), tmp_path / "postgres")
        finally:
            server.cursor().execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.skipif(connection.vendor != "sqlite", reason="begins with SQLite")
@pytest.mark.django_db(transaction=True)
def test_from_sqlite_to_postgresql_and_back(
    busy: Batch, tmp_path: Path, postgres_site: Site, migrated_database: MigratedDatabase
) -> None:
    for person in ("lin", "chen"):
        for value in (1, 2, 3):
            label_next(busy, Person.objects.get(username=person), value)
    before = describe_site(tmp_path / "exports")
    first = make_backup(tmp_path / "first")
    outcome = postgres_site.command("restore", str(tmp_path / "first"), "--hold-jobs")
    assert (outcome["rows"], outcome["held_jobs"], outcome["same_secret_key"]) == (first.rows, 2, True)
    after = postgres_site.describe(tmp_path / "exports-postgres")
    assert after == {name: before[name] for name in after}
    postgres_site.command("backup", str(tmp_path / "second"))
    back = Site(f"sqlite:///{tmp_path / 'back.sqlite3'}", tmp_path / "back")
    shutil.copyfile(migrated_database.template, tmp_path / "back.sqlite3")
    assert back.command("restore", str(tmp_path / "second"), "--check")["restored"] is False
    back.command("restore", str(tmp_path / "second"))
    assert back.describe(tmp_path / "exports-back") == after
    back.command("backup", str(tmp_path / "third"))
    second, third = read_manifest(tmp_path / "second"), read_manifest(tmp_path / "third")
    assert [file.sha256 for file in third.files] == [file.sha256 for file in first.files]
    assert list_changed_tables(first, second) == {"annotation_auditevent", "annotation_job"}
    assert list_changed_tables(second, third) == {"annotation_auditevent"}


def list_changed_tables(before: Manifest, after: Manifest) -> set[str]:
    hashes = {table.name: table.content_sha256 for table in before.tables}
    assert hashes.keys() == {table.name for table in after.tables}
    return {table.name for table in after.tables if hashes[table.name] != table.content_sha256}
