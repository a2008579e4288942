"""Files in a bucket: hosts without a shared folder see the same, and what goes wrong there loses nothing."""

from __future__ import annotations

import os
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from annotation.core.charts import chart_svg, chart_url
from annotation.core.errors import Conflict, NotFound, StorageAway, StorageRefused
from annotation.core.storage import backend, bucket, file_cache
from annotation.domain.batch_spec import Policy
from annotation.domain.release_spec import ReleaseSpec
from annotation.health import check_exports, check_storage
from annotation.models import (
    AuditEvent,
    Batch,
    ChartEntry,
    Export,
    GoldRelease,
    Guideline,
    Import,
    Job,
    Person,
    Prompt,
)
from annotation.selectors.imports.uploads import find_upload_file
from annotation.services import jobs
from annotation.services.exports.base import Options
from annotation.services.exports.downloads import discard_export, start_export
from annotation.services.imports.uploads import confirm_upload, discard_upload, receive_upload
from annotation.services.releases import cut_release
from annotation.services.upkeep import remains
from annotation.services.upkeep.clean_up import clean_up
from scoring.health import check_scorers
from scoring.models import Scorer
from scoring.selectors.training import find_weights
from scoring.services import export_scorer
from scoring.services.predictions.predictions import load_scorer
from tests.bucket import Bucket, Hosts, build_storage, hosts, s3_port, silent_port, store
from tests.scoring.support import make_release, trained
from tests.support import label_next, make_batch, make_corpus

__all__ = ["hosts", "s3_port", "silent_port", "store"]  # fixtures
pytestmark = pytest.mark.django_db
PROMPTS = b'{"prompt": "Is it?"}\n{"prompt": "Was it?"}\n'
SPEC = {"mark": "point", "data": {"values": [{"x": 1, "y": 2}]}, "encoding": {}}


def upload(he: Person, content: bytes = PROMPTS) -> Import:
    return receive_upload(file=SimpleUploadedFile("p.jsonl", content), name="p.jsonl", actor=he)


@pytest.fixture
def release(guideline: Guideline, lin: Person) -> GoldRelease:
    corpus = make_corpus(prompts=4, models=["Secretive-7B"])
    batch = make_batch(guideline, corpus, annotators=[lin], policy=Policy(overlap=1))
    while label_next(batch, lin, 1):
        pass
    return cut_release(ReleaseSpec(name="r", batches=[batch]))


def ordered(release: GoldRelease, he: Person, kind: str = "jsonl") -> Export:
    return start_export(release=release, format_name=kind, options=Options(), actor=he, send=False)


def written(release: GoldRelease, he: Person) -> Export:
    export = ordered(release, he)
    assert export.job is not None
    jobs.run_now(export.job)
    export.refresh_from_db()
    return export


def signed_in(person: Person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def files_of(folder: Path) -> list[str]:
    """But for locks, and for the style sheet, which the first page of a process puts together."""
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.parent.name not in {"locks", "css"}
    )


def test_an_upload_on_one_host_is_confirmed_on_another(store: Bucket, hosts: Hosts, he: Person) -> None:
    received = upload(he)
    (name,) = store.names()
    assert name == f"uploads/{received.path}"
    assert store.read(name) == PROMPTS
    second = hosts.be("second")
    assert files_of(second) == []
    received = Import.objects.get(pk=received.pk)
    job = confirm_upload(
        upload=received, kind="prompts", format_name=received.format, options={"dataset": "d"}, actor=he
    )
    third = hosts.be("worker")
    assert jobs.run_now(job).state == Job.State.DONE
    assert Prompt.objects.filter(dataset__name="d").count() == 2
    assert files_of(third) == files_of(second) == [f"cache/{bucket.hash_file(find_upload_file(received))}"]


def test_a_discarded_upload_leaves_the_bucket(
    store: Bucket, hosts: Hosts, he: Person, django_capture_on_commit_callbacks: Callable[..., object]
) -> None:
    received = upload(he)
    hosts.be("second")
    with django_capture_on_commit_callbacks(execute=True):
        discard_upload(upload=received, actor=he)
    assert store.names() == set()


def test_an_upload_that_cannot_be_kept_leaves_nothing(
    store: Bucket, hosts: Hosts, batch: Batch, ma: Person
) -> None:
    upload(ma, PROMPTS + PROMPTS)
    before, names = files_of(hosts.root), store.names()
    store.relay.close()
    answer = signed_in(ma).post(
        reverse("import-new"), {"file": SimpleUploadedFile("p.jsonl", PROMPTS), "kind": "prompts"}
    )
    assert answer.status_code == 503
    assert answer["Retry-After"] == "5"
    assert "does not answer" in answer.content.decode()
    assert Import.objects.count() == 1
    assert files_of(hosts.root) == before
    store.relay.open()
    assert store.names() == names


def test_an_upload_that_was_changed_in_the_bucket_is_refused(store: Bucket, hosts: Hosts, he: Person) -> None:
    received = upload(he)
    store.change(f"uploads/{received.path}", PROMPTS.replace(b"Is", b"As"))
    second = hosts.be("second")
    with pytest.raises(Conflict, match="not the one that was written"):
        find_upload_file(received)
    assert files_of(second) == []


def test_an_export_of_the_worker_is_downloaded_from_every_host(
    store: Bucket, hosts: Hosts, release: GoldRelease, he: Person
) -> None:
    worker = hosts.be("worker")
    export = written(release, he)
    assert store.names() == {f"{export.folder}/{file['name']}" for file in export.files}
    assert not (worker / "exports").exists() or files_of(worker / "exports") == []
    bodies = []
    for host in ("first", "second"):
        hosts.be(host)
        answer = signed_in(he).get(reverse("export-file", args=["r", export.pk, "gold.jsonl"]))
        assert answer.status_code == 200
        assert answer["Content-Disposition"].startswith("attachment")
        bodies.append(b"".join(answer.streaming_content))
        part = signed_in(he).get(
            reverse("export-file", args=["r", export.pk, "gold.jsonl"]),
            headers={"Range": "bytes=10-"},
        )
        assert b"".join(part.streaming_content) == bodies[-1][10:]
        zipped = signed_in(he).get(reverse("export-zip", args=["r", export.pk]))
        with zipfile.ZipFile(BytesIO(b"".join(zipped.streaming_content))) as archive:
            assert archive.testzip() is None
            assert archive.read("gold.jsonl") == bodies[-1]
    assert bodies[0] == bodies[1] == store.read(f"{export.folder}/gold.jsonl")


def test_who_may_not_open_the_release_gets_nothing_from_the_bucket(
    store: Bucket, hosts: Hosts, release: GoldRelease, he: Person, zhou: Person
) -> None:
    export = written(release, he)
    second = hosts.be("second")
    answer = signed_in(zhou).get(reverse("export-file", args=["r", export.pk, "gold.jsonl"]))
    assert answer.status_code in {403, 404}
    assert files_of(second) == []


def test_a_changed_or_missing_export_is_refused_and_named_by_the_doctor(
    store: Bucket, hosts: Hosts, release: GoldRelease, he: Person
) -> None:
    export = written(release, he)
    hosts.be("second")
    address = reverse("export-file", args=["r", export.pk, "gold.jsonl"])
    content = store.read(f"{export.folder}/gold.jsonl")
    assert check_exports().state.value == "ok"
    store.change(f"{export.folder}/gold.jsonl", content[:-1] + b" ")
    assert signed_in(he).get(address).status_code == 409
    assert "gold.jsonl (sha256" in check_exports().message_text
    store.client.delete_object(Bucket=store.name, Key=f"site/{export.folder}/gold.jsonl")
    assert signed_in(he).get(address).status_code == 404
    assert "No such file" in check_exports().message_text


def test_while_the_bucket_is_away_a_download_is_503_and_an_export_waits(
    store: Bucket, hosts: Hosts, release: GoldRelease, he: Person
) -> None:
    export = written(release, he)
    hosts.be("second")
    store.relay.close()
    answer = signed_in(he).get(reverse("export-file", args=["r", export.pk, "gold.jsonl"]))
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    other = ordered(release, he, "csv")
    assert other.job is not None
    job = jobs.run(other.job.pk)
    assert (job.state, job.deaths) == (Job.State.QUEUED, 0)
    store.relay.open()
    assert jobs.run(other.job.pk).state == Job.State.DONE
    other.refresh_from_db()
    assert f"{other.folder}/gold.csv" in store.names()


def test_a_bucket_that_goes_away_before_the_files_are_there_costs_no_work(
    store: Bucket, hosts: Hosts, release: GoldRelease, he: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    export, put = ordered(release, he), bucket.put_file

    def put_and_lose(path: Path, name: str, sha256: str = "") -> None:
        if name.endswith("datasheet.md"):
            store.relay.close()
        put(path, name, sha256)

    monkeypatch.setattr(bucket, "put_file", put_and_lose)
    assert export.job is not None
    assert jobs.run(export.job.pk).state == Job.State.QUEUED
    export.refresh_from_db()
    assert (export.files, export.verified_at) == ([], None)
    store.relay.open()
    monkeypatch.setattr(bucket, "put_file", put)
    hosts.be("another-worker")
    assert jobs.run(export.job.pk).state == Job.State.DONE
    export.refresh_from_db()
    assert store.names() == {f"{export.folder}/{file['name']}" for file in export.files}


def test_wrong_keys_are_said_before_the_work_and_by_the_doctor(
    store: Bucket, hosts: Hosts, release: GoldRelease, he: Person
) -> None:
    export = ordered(release, he)
    assert export.job is not None
    with store.checking_keys():
        job = jobs.run(export.job.pk)
        assert job.state == Job.State.FAILED
        assert "refuses this server (InvalidAccessKeyId)" in job.error
        assert check_storage().state.value == "fault"
        with pytest.raises(StorageRefused):
            upload(he)
    assert not Import.objects.exists()
    jobs.retry(job=Job.objects.get(pk=job.pk), actor=he)
    assert jobs.run(job.pk).state == Job.State.DONE
    assert check_storage().state.value == "ok"


def test_a_bucket_that_is_not_there_is_a_fault(store: Bucket, settings: LazySettings) -> None:
    url = store.url.replace(store.name, "nobody-made-it")
    settings.STORAGES = {**settings.STORAGES, "bucket": build_storage(url)}
    result = check_storage()
    assert result.state.value == "fault"
    assert "NoSuchBucket" in result.message_text


def test_a_bucket_that_never_answers_counts_as_away(
    store: Bucket, silent_port: int, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "READ_SECONDS", 1)
    monkeypatch.setattr(backend, "MAX_ATTEMPTS", 1)
    url = store.url.replace(str(store.relay.port), str(silent_port))
    settings.STORAGES = {**settings.STORAGES, "bucket": build_storage(url)}
    began = time.monotonic()
    with pytest.raises(StorageAway):
        bucket.find_sha256("x")
    assert time.monotonic() - began < 5


@pytest.fixture
def scorer(store: Bucket, hosts: Hosts, guideline: Guideline, lin: Person) -> Scorer:
    """Of the worker."""
    hosts.be("worker")
    return trained(make_release(guideline, lin), "s")


def test_a_scorer_of_the_worker_predicts_and_is_exported_elsewhere(
    scorer: Scorer, store: Bucket, hosts: Hosts, he: Person, tmp_path: Path
) -> None:
    first_weights = find_weights(scorer)
    assert all(name.startswith(f"scorers/{scorer.pk}/{scorer.weights_sha256}/") for name in store.names())
    second = hosts.be("second")
    assert load_scorer(scorer).fitted.heads
    second_weights = find_weights(scorer)
    assert second_weights == second / "cache" / scorer.weights_sha256
    assert files_of(second_weights) == files_of(first_weights)
    made = export_scorer(scorer=scorer, folder=tmp_path / "out", actor=he)
    assert "weights/scorer.json" in made.files
    answer = signed_in(he).get(reverse("scorer-export", args=[scorer.name]))
    with zipfile.ZipFile(BytesIO(b"".join(answer.streaming_content))) as archive:
        assert archive.testzip() is None
    assert check_scorers().state.value == "ok"


def test_changed_weights_are_refused(scorer: Scorer, store: Bucket, hosts: Hosts) -> None:
    name = f"{scorer.stored_name}/scorer.json"
    store.change(name, store.read(name) + b" ")
    second = hosts.be("second")
    with pytest.raises(Conflict, match="not the one that was written"):
        find_weights(scorer)
    assert files_of(second) == []
    assert check_scorers().state.value == "fault"


def test_two_who_want_the_same_fetch_it_once(
    store: Bucket, hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(3 << 20))
    bucket.put_file(path, "uploads/x")
    sha256, read, fetched = bucket.hash_file(path), bucket.read_blocks, []

    def count(name: str) -> Iterator[bytes]:
        fetched.append(name)
        time.sleep(0.3)
        return read(name)

    monkeypatch.setattr(bucket, "read_blocks", count)
    with ThreadPoolExecutor(4) as pool:
        places = set(pool.map(lambda _number: file_cache.fetch_file("uploads/x", sha256), range(4)))
    (place,) = places
    assert place.read_bytes() == path.read_bytes()
    assert len(fetched) == 1


def test_what_a_killed_process_left_of_fetching_is_thrown_away(
    store: Bucket, hosts: Hosts, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"whole")
    bucket.put_file(path, "uploads/x")
    sha256 = bucket.hash_file(path)
    part = tmp_path / "first" / "cache" / f"{sha256}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"who")
    assert file_cache.fetch_file("uploads/x", sha256).read_bytes() == b"whole"
    assert not part.exists()


def test_a_host_keeps_as_much_as_it_may_and_what_was_just_used(
    store: Bucket, hosts: Hosts, tmp_path: Path, settings: LazySettings
) -> None:
    settings.STORAGE_CACHE_BYTES = 2500
    places = []
    for number in range(4):
        path = tmp_path / f"file-{number}"
        path.write_bytes(bytes([number]) * 1000)
        places.append(file_cache.keep(path, bucket.hash_file(path)))
        if number < 3:
            used_at = time.time() - file_cache.RECENT_SECONDS - 100 + number
            os.utime(places[-1], (used_at, used_at))
    assert [place.exists() for place in places] == [False, False, True, True]
    settings.STORAGE_CACHE_BYTES = 1
    path = tmp_path / "file-4"
    path.write_bytes(b"new")
    assert file_cache.keep(path, bucket.hash_file(path)).exists()
    assert [place.exists() for place in places] == [False, False, False, True]


def test_a_chart_is_drawn_by_another_host(store: Bucket, hosts: Hosts, he: Person) -> None:
    address = chart_url(SPEC)
    second = hosts.be("second")
    answer = signed_in(he).get(address)
    assert answer.status_code == 200
    assert answer.content.startswith(b"<svg")
    assert chart_svg(Path(address).stem) == answer.content.decode()
    assert ChartEntry.objects.count() == 2
    assert not (second / "charts").exists()
    with pytest.raises(NotFound):
        chart_svg("0" * 64)


def test_the_clean_up_takes_charts_that_are_over(store: Bucket, hosts: Hosts, settings: LazySettings) -> None:
    settings.CHART_DAYS = -1
    assert chart_url(SPEC).startswith("data:")  # it is over at once, so the page carries it
    assert clean_up(remove=True)["charts"].number == 1
    assert not ChartEntry.objects.exists()


def test_the_clean_up_removes_what_no_row_names_and_nothing_else(
    store: Bucket,
    hosts: Hosts,
    release: GoldRelease,
    he: Person,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    received, export = upload(he), written(release, he)
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10)
    for name in ("uploads/imports/stray", "exports/stray/gold.jsonl", "scorers/99/abc/scorer.json"):
        bucket.put_file(path, name)
    before = store.names()
    assert clean_up(remove=True)["stray files"].number == 0
    store.client.create_multipart_upload(Bucket=store.name, Key="site/exports/half")
    assert store.names() == before
    monkeypatch.setattr(remains, "STRAY_DAYS", -1)
    seen = clean_up(remove=False)
    assert (seen["stray files"].number, seen["stray files"].bytes) == (3, 20)
    assert store.names() == before
    went = clean_up(remove=True)
    assert not any(kind.error for kind in went.values())
    names = {f"uploads/{received.path}"} | {f"{export.folder}/{file['name']}" for file in export.files}
    assert store.names() == names
    assert "Uploads" not in store.client.list_multipart_uploads(Bucket=store.name)


def test_the_clean_up_goes_on_while_the_bucket_is_away(store: Bucket, hosts: Hosts) -> None:
    store.relay.close()
    outcome = clean_up(remove=True)
    assert "does not answer" in outcome["stray files"].error
    assert not outcome["drafts"].error


def test_a_discarded_export_leaves_the_bucket(
    store: Bucket,
    hosts: Hosts,
    release: GoldRelease,
    he: Person,
    django_capture_on_commit_callbacks: Callable[..., object],
) -> None:
    export = written(release, he)
    hosts.be("second")
    with django_capture_on_commit_callbacks(execute=True):
        discard_export(export=export, actor=he)
    assert store.names() == set()
    assert AuditEvent.objects.filter(verb="discard_export").count() == 1
