"""Exports that a page asks for: ordered, written by a job, resumed, taken, discarded."""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from annotation.core.errors import Conflict, Forbidden
from annotation.domain.batch_spec import Policy
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import AuditEvent, Batch, Export, GoldRelease, Guideline, Job, Person
from annotation.selectors.exports import get_export_folder
from annotation.selectors.releases.rows import ReleaseContent, ReleasedRow
from annotation.services import jobs
from annotation.services.batches.batches import set_state
from annotation.services.exports import Options, export_release, files
from annotation.services.exports.downloads import discard_export, start_export
from annotation.services.people.people import set_roles
from annotation.services.releases import cut_release
from tests.support import label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db


@pytest.fixture
def small(guideline: Guideline, lin: Person) -> Batch:
    """Lin alone has labelled its four items."""
    corpus = make_corpus(prompts=4, models=["Secretive-7B"])
    batch = make_batch(guideline, corpus, annotators=[lin], policy=Policy(overlap=1))
    while label_next(batch, lin, 1):
        pass
    return batch


@pytest.fixture
def release(small: Batch) -> GoldRelease:
    return cut_release(ReleaseSpec(name="r", batches=[small]))


def ordered(release: GoldRelease, he: Person, kind: str = "jsonl", **options: bool | str) -> Export:
    return start_export(release=release, format_name=kind, options=Options(**options), actor=he, send=False)


def written(release: GoldRelease, he: Person, kind: str = "jsonl", **options: bool | str) -> Export:
    export = ordered(release, he, kind, **options)
    assert export.job is not None
    jobs.run_now(export.job)
    export.refresh_from_db()
    return export


def signed_in(person: Person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def body(answer: object) -> bytes:
    return b"".join(answer.streaming_content)


def test_a_job_writes_checks_and_keeps_the_files(release: GoldRelease, he: Person, tmp_path: Path):
    export = written(release, he)
    assert export.rows == 4
    assert export.verified_at is not None
    assert [file["name"] for file in export.files] == [
        "gold.jsonl",
        "manifest.json",
        "datasheet.md",
        "datasheet.zh.md",
    ]
    same = export_release(release=release, format_name="jsonl", folder=tmp_path)
    assert (get_export_folder(export) / "gold.jsonl").read_bytes() == same.path.read_bytes()
    assert [file["sha256"] for file in export.files] == [file.sha256 for file in same.files]


class Killed(BaseException):
    """What ends a worker in the middle."""


@pytest.mark.parametrize(("kind", "goes_on"), [("jsonl", 2), ("csv", 2), ("labels", 2), ("parquet", 0)])
def test_a_killed_workers_export_goes_on_where_it_was(
    release: GoldRelease, he: Person, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, goes_on: int
):
    finished = export_release(release=release, format_name=kind, folder=tmp_path)
    monkeypatch.setattr(files, "SAVE_SECONDS", 0)
    export = ordered(release, he, kind)
    starts = []
    chunks = ReleaseContent.chunks

    def dying(self: ReleaseContent, start: int = 0, **_options: object) -> Iterator[list[ReleasedRow]]:
        for place, rows in enumerate(chunks(self, start, size=1)):
            if place == 2:
                raise Killed
            yield rows

    def going_on(self: ReleaseContent, start: int = 0, **_options: object) -> Iterator[list[ReleasedRow]]:
        starts.append(start)
        return chunks(self, start, size=1)

    monkeypatch.setattr(ReleaseContent, "chunks", dying)
    with pytest.raises(Killed):
        jobs.run(export.job.pk)
    # Half a row came after what was surely written; it is cut off.
    part = get_export_folder(export).with_name(get_export_folder(export).name + ".part") / finished.path.name
    with part.open("ab") as file:
        file.write(b"half a ro")
    Job.objects.filter(pk=export.job.pk).update(state=Job.State.QUEUED)  # as the sweep does
    monkeypatch.setattr(ReleaseContent, "chunks", going_on)
    jobs.run_now(export.job)
    assert starts == [goes_on]
    export.refresh_from_db()
    if goes_on:  # smaller row groups are other bytes of Parquet; that it was read back is enough
        assert (get_export_folder(export) / finished.path.name).read_bytes() == finished.path.read_bytes()
    assert export.verified_at is not None


def test_a_worker_that_died_after_the_files_had_their_name_loses_nothing(release: GoldRelease, he: Person):
    export = written(release, he)
    files = export.files
    Export.objects.update(verified_at=None, files=[])
    Job.objects.filter(pk=export.job.pk).update(state=Job.State.QUEUED, result={})
    jobs.run_now(export.job)
    export.refresh_from_db()
    assert export.files == files


def test_an_export_that_fails_or_is_cancelled_leaves_no_files(release: GoldRelease, he: Person):
    export = ordered(release, he)
    release.items.first().delete()
    assert jobs.run(export.job.pk).state == Job.State.FAILED
    cancelled = ordered(release, he)
    Job.objects.filter(pk=cancelled.job.pk).update(cancel_requested=True)
    assert jobs.run(cancelled.job.pk).state == Job.State.CANCELLED
    for each_export in (export, cancelled):
        assert not list(get_export_folder(each_export).parent.glob(f"{get_export_folder(each_export).name}*"))


def test_one_export_is_written_once_at_a_time(release: GoldRelease, he: Person):
    ordered(release, he, "csv")
    ordered(release, he, "jsonl")
    with pytest.raises(Conflict, match="being written now"):
        ordered(release, he, "csv", license="mit")  # which CSV does not heed


def test_only_a_manager_exports_names_and_the_trail_tells_of_it(release: GoldRelease, he: Person, ma: Person):
    with pytest.raises(Forbidden, match="Only a manager"):
        ordered(release, he, "labels", real_names=True)
    export = written(release, ma, "labels", real_names=True)
    assert "lin" in (get_export_folder(export) / "labels.csv").read_text()
    client = signed_in(he)
    page = client.get(reverse("release-exports", args=["r"])).content.decode()
    assert "real_names" not in page
    files = [reverse("export-zip", args=["r", export.pk])]
    files += [reverse("export-file", args=["r", export.pk, "labels.csv"])]
    url = reverse("release-export", args=["r", export.pk])
    for path in files:
        assert client.get(path).status_code == 403
        assert path not in page + client.get(url).content.decode()
        assert path in signed_in(ma).get(url).content.decode()
    body(signed_in(ma).get(files[0]))
    events = AuditEvent.objects.filter(target="release:r").exclude(verb="release_gold").order_by("pk")
    assert [(event.verb, event.actor, event.data["real_names"]) for event in events] == [
        ("export_gold", ma, True),
        ("download_export", ma, True),
    ]


def test_discarding_removes_the_files_and_not_what_is_being_written(release: GoldRelease, he: Person):
    export = ordered(release, he)
    with pytest.raises(Conflict, match="cancel it first"):
        discard_export(export=export, actor=he)
    jobs.run_now(export.job)
    folder = get_export_folder(export)
    assert folder.is_dir()
    answer = signed_in(he).post(reverse("export-discard", args=["r", export.pk]))
    assert answer.status_code == 302
    assert not Export.objects.exists()
    # Files go when the row is surely gone: this test's transaction never ends.
    assert AuditEvent.objects.filter(verb="discard_export").exists()


def test_the_pages_order_show_and_hand_out(release: GoldRelease, he: Person, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jobs, "_send_message", lambda _job, _kind: None)
    client = signed_in(he)
    answer = client.post(reverse("release-exports", args=["r"]), {"format": "hf", "license": "cc-by-4.0"})
    export = Export.objects.get()
    assert answer.headers["Location"] == reverse("release-export", args=["r", export.pk])
    assert (
        reverse("job-progress", args=[export.job.pk])
        in client.get(answer.headers["Location"]).content.decode()
    )
    assert client.get(reverse("export-zip", args=["r", export.pk])).status_code == 409
    jobs.run_now(export.job)
    page = client.get(answer.headers["Location"]).content.decode()
    assert "verified" in page
    for file in Export.objects.get().files:
        assert reverse("export-file", args=["r", export.pk, file["name"]]) in page
    with zipfile.ZipFile(BytesIO(body(client.get(reverse("export-zip", args=["r", export.pk]))))) as read:
        assert read.testzip() is None
        assert b"license: cc-by-4.0" in read.read("README.md")
    listed = client.get(reverse("release-exports", args=["r"])).content.decode()
    assert "cc-by-4.0" in listed


@pytest.mark.parametrize(
    ("sent", "status"), [({"format": "hf", "license": "no licence!"}, 422), ({"format": "xml"}, 400)]
)
def test_what_is_wrong_with_an_order_is_said(
    release: GoldRelease, he: Person, sent: dict[str, str], status: int
):
    assert signed_in(he).post(reverse("release-exports", args=["r"]), sent).status_code == status
    assert not Export.objects.exists()


def test_a_download_that_broke_off_goes_on(release: GoldRelease, he: Person):
    export = written(release, he)
    client = signed_in(he)
    for path in (
        reverse("export-file", args=["r", export.pk, "gold.jsonl"]),
        reverse("export-zip", args=["r", export.pk]),
    ):
        first = client.get(path)
        content, tag = body(first), first.headers["ETag"]
        assert first.headers["Content-Length"] == str(len(content))
        rest = client.get(path, headers={"Range": "bytes=100-", "If-Range": tag})
        assert (rest.status_code, content[:100] + body(rest)) == (206, content)
        assert rest.headers["Content-Range"] == f"bytes 100-{len(content) - 1}/{len(content)}"
        assert body(client.get(path, headers={"Range": "bytes=5-9"})) == content[5:10]
        assert body(client.get(path, headers={"Range": "bytes=-7"})) == content[-7:]
        assert body(client.get(path, headers={"Range": "bytes=100-", "If-Range": '"other"'})) == content
        assert body(client.get(path, headers={"Range": "bytes=0-1,3-4"})) == content
        beyond = client.get(path, headers={"Range": f"bytes={len(content)}-"})
        assert (beyond.status_code, beyond.headers["Content-Range"]) == (416, f"bytes */{len(content)}")
    # Going on is no second download.
    assert AuditEvent.objects.filter(verb="download_export").count() == 2 * 3


def test_a_download_that_leaves_the_beginning_out_is_told_as_well(
    release: GoldRelease, he: Person, ma: Person
):
    export = written(release, he)
    path = reverse("export-file", args=["r", export.pk, "gold.jsonl"])
    for _twice in range(2):
        assert signed_in(ma).get(path, headers={"Range": "bytes=1-"}).status_code == 206
    assert signed_in(he).get(path, headers={"Range": "bytes=1-"}).status_code == 206
    assert signed_in(he).head(path).status_code == 200
    events = AuditEvent.objects.filter(verb="download_export").order_by("pk")
    assert [event.actor for event in events] == [ma, he]


def test_a_range_of_too_many_digits_is_none(release: GoldRelease, he: Person):
    export = written(release, he)
    path = reverse("export-file", args=["r", export.pk, "gold.jsonl"])
    assert signed_in(he).get(path, headers={"Range": f"bytes={'9' * 5000}-"}).status_code == 200


def test_a_file_outside_of_the_export_and_lost_files_are_not_found(release: GoldRelease, he: Person):
    export = written(release, he)
    client = signed_in(he)
    for name in ("nope", "../../secret_key", "%2e%2e/%2e%2e/secret_key"):
        assert client.get(f"/releases/r/exports/{export.pk}/files/{name}").status_code == 404
    (get_export_folder(export) / "gold.jsonl").unlink()
    assert client.get(reverse("export-zip", args=["r", export.pk])).status_code == 404


def test_whoever_works_in_the_batch_sees_nothing_of_its_exports(
    release: GoldRelease, small: Batch, he: Person, lin: Person
):
    export = written(release, he)
    set_roles(person=lin, roles=["annotator", "researcher"])
    client = signed_in(lin)
    addresses = [
        reverse("release-exports", args=["r"]),
        reverse("release-export", args=["r", export.pk]),
        reverse("export-file", args=["r", export.pk, "gold.jsonl"]),
        reverse("export-zip", args=["r", export.pk]),
        reverse("job-progress", args=[export.job.pk]),
    ]
    assert {client.get(path).status_code for path in addresses} == {403}
    with pytest.raises(Forbidden):
        ordered(release, lin)
    set_state(batch=small, state=Batch.State.CLOSED)
    assert {client.get(path).status_code for path in addresses} == {200}


@pytest.mark.django_db(transaction=True)
def test_another_thread_reads_ahead_and_leaves_no_connection(release: GoldRelease, tmp_path: Path):
    threads = threading.active_count()
    export = export_release(release=release, format_name="jsonl", folder=tmp_path)
    assert export.rows == 4
    chunks = ReleaseContent(release).chunks(size=1)
    next(chunks)
    chunks.close()  # broken off, with a chunk under way
    assert threading.active_count() == threads
