"""A study is archived and deleted: nothing of it is left but what others share, and no other study changes."""

from __future__ import annotations

import hashlib
import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.test import Client

from annotation.core.errors import Conflict
from annotation.core.study_scope import limit_to_studies
from annotation.domain.erasure import digest_certificate
from annotation.models import (
    AuditEvent,
    Batch,
    Dataset,
    EvaluatedModel,
    Export,
    GoldRelease,
    Guideline,
    Import,
    Invitation,
    Job,
    Person,
    Study,
    StudyDeletion,
    StudyMembership,
)
from annotation.selectors.audit.chain import verify_trail
from annotation.selectors.studies.deletion import (
    OWNERS,
    STAYING,
    DeletedRows,
    KeptRows,
    find_kept,
    get_table,
    list_keys,
    preview_deletion,
)
from annotation.services import jobs
from annotation.services.audit.chain import seal_events
from annotation.services.exports.base import Options
from annotation.services.exports.downloads import start_export
from annotation.services.people.invitations import invite
from annotation.services.people.people import set_roles
from annotation.services.sharing import share
from annotation.services.studies import create_study, deletion, find_or_make_default
from annotation.services.studies.archive import set_study_archived
from annotation.services.studies.deletion import begin_deletion
from benchmark.models import BenchmarkRun
from benchmark.services.leaderboards.runs import create_run
from benchmark.services.sharing import share_run
from scoring.models import Scorer
from tests.benchmark.sharing_support import finish
from tests.benchmark.studies import Part, make_part
from tests.support import make_corpus
from tests.test_everyone_everywhere import make_world

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
GROWING = {
    "annotation.AuditEvent",
    "annotation.AuditSeal",
    "annotation.Job",
    "annotation.Study",
    "annotation.StudyDeletion",
    "annotation.EvaluatedModel",
    "annotation.Collection",
    "admin.LogEntry",
    "sessions.Session",
    "annotation.SignInSession",
    "annotation.CacheEntry",
}
PAGES = (
    "/",
    "/data/",
    "/batches/",
    "/releases/",
    "/scorers/",
    "/runs/",
    "/people/",
    "/guidelines/",
    "/agreement/",
)


@pytest.fixture(autouse=True)
def data_folder(settings: Any, tmp_path: Path) -> None:
    settings.ASSAY_DATA_DIR = tmp_path
    settings.MEDIA_ROOT = tmp_path / "uploads"


@pytest.fixture
def parts(
    guideline: Guideline, lin: Person, chen: Person, wu: Person, he: Person, ma: Person
) -> tuple[Part, Part]:
    """alpha and beta have everything alike; a third study is there so that several remain."""
    StudyMembership.objects.all().delete()
    first, second = (make_part(name, guideline, [lin, chen, wu, he]) for name in ("alpha", "beta"))
    create_study(name="gamma", managers=[ma])
    for part in (first, second):
        with limit_to_studies([part.study.pk]):
            set_roles(person=ma, roles=["manager"])
    return first, second


@pytest.fixture
def admin(db: None) -> Person:
    return Person.objects.create_superuser("root", password="glacier-lantern-42")


def archive(part: Part) -> Study:
    Batch._base_manager.filter(study=part.study).update(state=Batch.State.CLOSED)
    Job._base_manager.filter(study=part.study).exclude(state=Job.State.DONE).update(state=Job.State.CANCELLED)
    set_study_archived(study=part.study, archived=True)
    return Study.objects.get(pk=part.study.pk)


def delete(study: Study, actor: Person | None = None) -> StudyDeletion:
    begun = begin_deletion(study=study, actor=actor, send=False)
    assert begun.job is not None
    jobs.run_now(begun.job)
    return StudyDeletion.objects.get(pk=begun.pk)


def dump_others(study: Study) -> dict[str, list[Any]]:
    """Every row of every table that is not to go."""
    rows = DeletedRows(study.pk, find_kept(study))
    tables = {get_table(table): table for table in OWNERS}
    dump = {}
    for model in apps.get_models(include_auto_created=True):
        label = model._meta.label
        if label in GROWING or model in {Study, StudyDeletion}:
            continue
        all_rows = model._base_manager.order_by("pk")
        if model in tables:
            all_rows = all_rows.exclude(pk__in=list(rows.select(tables[model]).values_list("pk", flat=True)))
        dump[label] = [str(row) for row in all_rows.values_list()]
    return dump


def read_pages(person: Person, study: str) -> dict[str, str]:
    client = Client()
    client.force_login(person)
    answers = {page: client.get(f"/s/{study}{page}") for page in PAGES}
    assert {answer.status_code for answer in answers.values()} == {200}
    return {page: _strip_tokens(answer.content.decode()) for page, answer in answers.items()}


def _strip_tokens(page: str) -> str:
    """Without the token of forms, and the time of day at which somebody was seen last."""
    lines = (line for line in page.splitlines() if "csrf" not in line.lower())
    return re.sub(r"\d\d:\d\d", "", "\n".join(lines))


def test_every_table_that_leads_to_a_study_is_declared():
    declared = {get_table(table) for table in OWNERS}
    leading = {Study}
    grown = True
    while grown:
        more = {
            model
            for model in apps.get_models(include_auto_created=True)
            if any(target in leading for _key, target in list_keys(model))
        }
        grown = not more <= leading
        leading |= more
    assert {model._meta.label for model in leading - declared} <= STAYING


def test_deleting_one_study_changes_no_row_and_no_page_of_another(
    parts: tuple[Part, Part], ma: Person, lin: Person, admin: Person
):
    first, second = parts
    for row in (second.scorer, second.release, second.run.dataset):  # a study has one of each name
        type(row)._base_manager.filter(pk=row.pk).update(name=f"{row}-of-beta")
    with limit_to_studies([first.study.pk]):
        share(row=first.scorer, study=second.study, actor=ma)  # with its release and its dataset
    with limit_to_studies([second.study.pk]):
        other = make_corpus(prompts=2, models=["Model-of-beta"], name="own")
    study = archive(first)
    kept_parts = preview_deletion(study).stays
    assert {(part.kind, part.name) for part in kept_parts} >= {("scorer", "scorer-1"), ("release", "gold-1")}
    pages = read_pages(ma, "beta")
    rows = dump_others(study)
    dataset_id, release_hash = first.run.dataset_id, first.release.sha256

    done = delete(study, admin)

    after = dump_others(study)
    assert {name: (rows[name], after[name]) for name in rows if after[name] != rows[name]} == {}
    assert read_pages(ma, "beta") == pages
    assert not BenchmarkRun._base_manager.filter(study=study).exists()
    assert Scorer._base_manager.get(pk=first.scorer.pk).weights_sha256
    assert GoldRelease._base_manager.get(pk=first.release.pk).sha256 == release_hash
    assert Dataset._base_manager.filter(pk=dataset_id).exists()
    assert EvaluatedModel.objects.filter(responses__prompt__dataset=other).exists()
    assert done.certificate["stays"]
    assert not Study.objects.filter(name="alpha").exists()
    with limit_to_studies([second.study.pk]):  # and beta works on from what it shares
        board = create_run(
            name="later",
            scorer=Scorer.objects.get(pk=first.scorer.pk),
            dataset=Dataset.objects.get(pk=dataset_id),
            collection=first.run.collection,
            send=False,
        )
        finish(board)


def test_nothing_is_left_of_a_study_that_shares_nothing(parts: tuple[Part, Part], he: Person, admin: Person):
    first, _second = parts
    with limit_to_studies([first.study.pk]):
        export = start_export(
            release=first.release, format_name="jsonl", options=Options(), actor=he, send=False
        )
        assert export.job is not None
        jobs.run_now(export.job)
        _link, token = share_run(run=first.run, actor=he)
        invite(roles=["annotator"], days=7, actor=he)
    files = list(Path(Export.objects.get(pk=export.pk).list_files()[0]).parent.iterdir())
    hashes = {hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    assert Client().get(f"/shared/{token}/").status_code == 200
    study = archive(first)
    only_here = EvaluatedModel.objects.create(name="Only-in-alpha")
    response = first.batch.tasks.first().response  # type: ignore[union-attr]
    type(response)._base_manager.create(
        prompt=response.prompt, model=only_here, collection=response.collection, text="x", sha256="0" * 64
    )
    events = AuditEvent.objects.filter(study=study).count()

    done = delete(study, admin)

    remaining = DeletedRows(study.pk, KeptRows())
    assert [table for table in OWNERS if remaining.select(table).exists()] == []
    assert not any(path.exists() for path in files)
    assert not EvaluatedModel.objects.filter(name="Only-in-alpha").exists()
    assert EvaluatedModel.objects.filter(name="Hidden-13B").exists()
    assert Client().get(f"/shared/{token}/").status_code == 404
    assert not Invitation._base_manager.filter(study=study).exists()
    assert AuditEvent.objects.filter(study=study).count() == events
    certificate = done.certificate
    assert {"name": "gold-1", "sha256": first.release.sha256} in certificate["releases"]
    exported = [file for file in certificate["files"] if file["name"].startswith(export.folder)]
    assert {file["name"].rpartition("/")[2] for file in exported} == {path.name for path in files}
    assert hashes >= {file["sha256"] for file in exported}
    assert certificate["rows"]["annotation.Task"] == 8
    assert certificate["stays"] == []


def test_a_study_with_rows_of_every_kind_goes_whole(tmp_path: Path):
    world = make_world()
    study = world.batch.study
    Batch._base_manager.filter(study=study).update(state=Batch.State.CLOSED)
    campaigns = apps.get_model("benchmark", "Campaign")._base_manager
    campaigns.filter(study=study).update(state="closed")
    Job._base_manager.filter(study=study, state__in=["queued", "running"]).update(state="cancelled")
    Import._base_manager.filter(study=None).update(study=study)
    set_study_archived(study=study, archived=True)
    delete(Study.objects.get(pk=study.pk))
    remaining = DeletedRows(study.pk, KeptRows())
    assert [table for table in OWNERS if remaining.select(table).exists()] == []
    for label in ("annotation.Task", "annotation.Response", "scoring.Prediction", "benchmark.Review"):
        assert not get_table(label)._base_manager.exists()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and "scorers" in path.parts]
    assert find_or_make_default().name != study.name


def test_a_worker_that_dies_is_followed_by_one_that_goes_on(
    parts: tuple[Part, Part], monkeypatch: pytest.MonkeyPatch
):
    first, _second = parts
    monkeypatch.setattr(deletion, "BLOCK", 5)
    study = archive(first)
    expected = {part.table: part.number for part in preview_deletion(study).goes if part.number}
    begun = begin_deletion(study=study, send=False)
    assert begun.job is not None

    def stop_at(share: float) -> jobs.Watcher:
        def watch(progress: float, _stage: str) -> None:
            if progress > share:
                raise KeyboardInterrupt

        return watch

    for stop in (0.2, 0.5, 0.8):
        with pytest.raises(KeyboardInterrupt):
            jobs.run(begun.job.pk, watcher=stop_at(stop))
        job = Job.objects.get(pk=begun.job.pk)
        assert job.state == Job.State.QUEUED
        assert sum(StudyDeletion.objects.get(pk=begun.pk).removed.values()) > 0
    assert jobs.run(begun.job.pk).state == Job.State.DONE
    done = StudyDeletion.objects.get(pk=begun.pk)
    assert {table: done.certificate["rows"].get(table) for table in expected} == expected
    assert jobs.run(begun.job.pk).state == Job.State.DONE
    assert AuditEvent.objects.filter(verb="delete_study").count() == 1


def test_what_refuses(parts: tuple[Part, Part]):
    first, _second = parts
    with pytest.raises(Conflict, match="Archive the study alpha"):
        begin_deletion(study=first.study)
    with pytest.raises(Conflict, match="first"):  # its batch is open
        set_study_archived(study=first.study, archived=True)
    study = archive(first)
    Job.objects.create(study=study, kind="x", title="long", state=Job.State.RUNNING)
    with pytest.raises(Conflict, match="is running"):
        begin_deletion(study=study)
    Job.objects.filter(kind="x").update(state=Job.State.QUEUED)
    begun = begin_deletion(study=study, send=False)
    assert begun.job is not None
    assert begun.job.study_id is None
    with pytest.raises(Conflict, match="was deleted"):
        begin_deletion(study=study)
    with pytest.raises(Conflict, match="was deleted"):
        set_study_archived(study=study, archived=False)
    with pytest.raises(Conflict, match="already a study named alpha"):
        create_study(name="alpha")


def test_what_rests_on_more_than_is_shared_refuses_the_deletion(parts: tuple[Part, Part]):
    """No act of the product leads there; were it so, nothing would go."""
    first, second = parts
    second.run.dataset = first.run.dataset
    second.run.save(update_fields=["dataset"])
    study = archive(first)
    with pytest.raises(Conflict, match="rest on datasets of it"):
        begin_deletion(study=study)
    assert Study.objects.filter(name="alpha").exists()


def test_the_certificate_is_verified_with_the_trail(parts: tuple[Part, Part], admin: Person):
    done = delete(archive(parts[0]), admin)
    seal_events(is_full=True)
    assert verify_trail().problems == ()
    assert digest_certificate(done.certificate) == done.sha256
    assert "root" not in json.dumps(done.certificate)
    StudyDeletion.objects.filter(pk=done.pk).update(certificate=done.certificate | {"rows": {}})
    assert [problem.code for problem in verify_trail().problems] == ["certificate_changed"]
    StudyDeletion.objects.all().delete()
    assert [problem.code for problem in verify_trail().problems] == ["certificate_removed"]


def test_an_archived_study_is_read_and_not_changed(parts: tuple[Part, Part], ma: Person, admin: Person):
    archive(parts[0])
    client = Client()
    client.force_login(ma)
    page = client.get("/s/alpha/batches/first/")
    assert page.status_code == 200
    assert "This study is archived" in page.content.decode()
    for person in (ma, admin):
        client.force_login(person)
        answer = client.post("/s/alpha/people/-/study/", {"title": "Another"})
        assert answer.status_code == 409
        assert "This study is archived" in answer.content.decode()
    assert client.post("/s/beta/people/-/study/", {"title": "Another"}).status_code == 302
    client.force_login(ma)
    listed = client.get("/studies/").content.decode()
    assert "/s/beta/" in listed
    assert "/s/alpha/" not in listed
    assert "/s/alpha/" in client.get("/studies/?archived=1").content.decode()
    set_study_archived(study=parts[0].study, archived=False)
    assert client.post("/s/alpha/people/-/study/", {"title": "Another"}).status_code == 302


def test_the_pages_are_for_admins_and_the_name_is_typed(
    parts: tuple[Part, Part], admin: Person, ma: Person, lin: Person, stranger: Person
):
    study = archive(parts[0])
    client = Client()
    for person in (ma, lin, stranger):
        client.force_login(person)
        assert client.get("/studies/alpha/deletion/").status_code == 403
        assert client.post("/studies/alpha/archive/", {"act": "restore"}).status_code == 403
        assert client.get("/studies/-/certificates/").status_code == 403
    client.force_login(admin)
    page = client.get("/studies/alpha/deletion/").content.decode()
    assert "gold releases" in page
    assert client.post("/studies/alpha/deletion/", {"name": "beta"}).status_code == 422
    assert client.get("/studies/beta/deletion/").status_code == 200
    assert client.post("/studies/beta/deletion/", {"name": "beta"}).status_code == 409
    answer = client.post("/studies/alpha/deletion/", {"name": "alpha"})
    begun = StudyDeletion.objects.get(study=study)
    assert answer["Location"] == f"/studies/-/certificates/{begun.pk}/"
    assert "is being deleted" in client.get(answer["Location"]).content.decode()
    assert begun.job is not None
    jobs.run_now(begun.job)
    page = client.get(answer["Location"]).content.decode()
    done = StudyDeletion.objects.get(pk=begun.pk)
    assert done.sha256 in page
    file = client.get(f"{answer['Location']}certificate.json")
    content = json.loads(b"".join(file) if file.streaming else file.content)
    assert digest_certificate(content["certificate"]) == content["sha256"] == done.sha256
    assert content["event"]["by"] == "root"
    client.force_login(ma)
    assert client.get(f"{answer['Location']}certificate.json").status_code == 403
    assert client.get("/s/alpha/").status_code == 404


def test_the_command_says_first_and_does_then(parts: tuple[Part, Part]):
    def run(*arguments: str) -> Any:
        out = StringIO()
        call_command(*arguments, "--json", stdout=out)
        return json.loads(out.getvalue())

    archive(parts[0])
    preview = run("delete_study", "alpha")
    assert (preview["deleted"], preview["goes"]["annotation.Task"]) == (False, 8)
    assert Study.objects.filter(name="alpha").exists()
    done = run("delete_study", "alpha", "--yes")
    assert done["deleted"]
    assert done["certificate"]["rows"]["annotation.Task"] == 8
    out = StringIO()
    call_command("archive_study", "gamma", stdout=out)
    call_command("delete_study", "gamma", "--yes", stdout=out)
    assert "certificate" in out.getvalue()


def test_a_deletion_that_has_begun_is_not_cancelled(parts: tuple[Part, Part], admin: Person) -> None:
    deletion = begin_deletion(study=archive(parts[0]), actor=admin, send=False)
    assert deletion.job is not None
    with pytest.raises(Conflict, match="cannot be cancelled"):
        jobs.cancel(job=deletion.job, actor=admin)
    deletion.job.refresh_from_db()
    assert (deletion.job.state, deletion.job.cancel_requested) == ("queued", False)
