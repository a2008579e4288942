"""A release goes to another site as a bundle, and the same release is cut there."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import annotation.tasks  # noqa: F401 (the handlers, as a worker has them)
from annotation.core.errors import AssayError, Conflict, Forbidden, InputError
from annotation.domain.batch_spec import Policy
from annotation.domain.formats import Source
from annotation.domain.formats import bundle as pure
from annotation.domain.formats.bundle import Bundle
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import (
    Adjudication,
    Annotation,
    Batch,
    Dataset,
    GoldRelease,
    Guideline,
    Import,
    Person,
    Prompt,
    Response,
    Task,
)
from annotation.services import jobs
from annotation.services.batches.tasks import withdraw_tasks
from annotation.services.exports import Options, export_release
from annotation.services.imports import BundleNames, import_bundle
from annotation.services.people.people import add_person
from annotation.services.releases import cut_release
from tests.annotation.exchange import (
    AGREED,
    NEAR,
    settle_dispute,
    settled_care,
)
from tests.support import (
    FLAMES_GUIDELINE,
    label_next,
    make_batch,
    make_corpus,
    put_in_reasons,
    without_audit_guard,
)

pytestmark = pytest.mark.django_db
AS_IT_IS = BundleNames()
OURS = list(apps.get_app_config("annotation").get_models())


def packed(release: GoldRelease, folder: Path, **options: Any) -> Source:
    export_release(release=release, format_name="bundle", folder=folder, options=Options(**options))
    return Source(folder / "bundle.zip", "bundle.zip")


class Elsewhere(Exception):
    """Ends the stay."""


def elsewhere(work: Callable[[], Any]) -> Any:
    """What the work gives in a system that is empty but for what migrations put in; nothing of it stays."""
    result = None
    try:
        with transaction.atomic():
            empty()
            result = work()
            raise Elsewhere
    except Elsewhere:
        return result


def empty() -> None:
    connection.check_constraints()
    tables = {field.m2m_db_table() for model in OURS for field in model._meta.local_many_to_many}
    tables |= {model._meta.db_table for model in OURS}
    with without_audit_guard(), connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA defer_foreign_keys = ON")
        for table in tables:
            cursor.execute(f"DELETE FROM {table}")  # noqa: S608 (a table of ours)
    put_in_reasons()


def arrives(source: Source, called: BundleNames = AS_IT_IS) -> tuple[GoldRelease, dict[str, Any]]:
    report = import_bundle(source=source, called=BundleNames(called.batches, called.release or "there"))
    return GoldRelease.objects.get(name=called.release or "there"), report.as_json()


def both(source: Source, release: GoldRelease) -> dict[str, Any]:
    """Taken in elsewhere: the same hash, and from the same labels the same counts."""
    release_elsewhere, report = elsewhere(lambda: arrives(source))
    assert release_elsewhere.sha256 == release.sha256
    for name in ("labels", "rows", "by_source", "by_level", "by_dimension", "by_model"):
        assert release_elsewhere.manifest["counts"][name] == release.manifest["counts"][name]
    return report


def test_several_criteria_with_a_tolerance_a_dialogue_and_a_dispute_left_open(
    lin: Person, chen: Person, wu: Person, tmp_path: Path
):
    release = cut_release(ReleaseSpec(name="r", batches=[settled_care([lin, chen], wu)]))
    assert set(release.manifest["counts"]["by_source"]) == {"unanimous", "within_tolerance", "adjudicated"}
    report = both(packed(release, tmp_path, rationales=True, times=True), release)
    assert report["taken"] == 9
    assert report["made"] == {
        "guidelines": 1,
        "datasets": 1,
        "prompts": 4,
        "responses": 4,
        "models": 1,
        "batches": 1,
        "tasks": 4,
        "people": 3,
        "releases": 1,
    }
    assert f"sha256 of the bundle's, {release.sha256}" in report["notes"][-1]


def test_what_people_said_arrives_as_they_said_it_under_other_names(
    lin: Person, chen: Person, wu: Person, tmp_path: Path
):
    release = cut_release(ReleaseSpec(name="r", batches=[settled_care([lin, chen], wu)]))
    source = packed(release, tmp_path, rationales=True, times=True)

    def list_labels() -> tuple[Any, ...]:
        rows = Annotation.objects.order_by("assignment__task__response__prompt__key", "rationale")
        fields = ("labels", "rationale", "evidence", "flags", "seconds")
        decisions = Adjudication.objects.values_list("labels", "rationale", "seconds", "reason__key")
        times = [at.replace(microsecond=0) for at in rows.values_list("created_at", flat=True)]
        prompts = list(
            Prompt.objects.order_by("key").values_list("key", "text", "language", "malice", "source")
        )
        return list(rows.values_list(*fields)), list(decisions), times, prompts

    labels_before = list_labels()
    assert labels_before[-1][0][-1] == "Hotline 2019"
    release_elsewhere, people = elsewhere(
        lambda: (arrives(source), (list_labels(), list(Person.objects.values_list("username", "password"))))[
            1
        ]
    )
    assert release_elsewhere == labels_before
    assert {name.split("-", 2)[2] for name, _password in people} == {
        "annotator-01",
        "annotator-02",
        "adjudicator-01",
    }
    assert all(password.startswith("!") for _name, password in people)


def test_nothing_that_was_not_chosen_is_in_it_and_its_bytes_are_the_same_every_time(
    lin: Person, chen: Person, wu: Person, tmp_path: Path
):
    release = cut_release(ReleaseSpec(name="r", batches=[settled_care([lin, chen], wu)]))
    source = packed(release, tmp_path)
    assert source.path.read_bytes() == packed(release, tmp_path / "again").path.read_bytes()
    with zipfile.ZipFile(source.path) as zipped:
        text = "".join(zipped.read(name).decode() for name in zipped.namelist())
    for word in ("因为", "rationale", '"lin"', '"chen"', '"wu"', '"at"', '"evidence"'):
        assert word not in text


def test_names_of_people_never_go_along(lin: Person, chen: Person, wu: Person, tmp_path: Path):
    release = cut_release(ReleaseSpec(name="r", batches=[settled_care([lin, chen], wu)]))
    with zipfile.ZipFile(packed(release, tmp_path, real_names=True).path) as zipped:
        text = "".join(zipped.read(name).decode() for name in zipped.namelist())
    assert '"annotator": "annotator-01"' in text
    assert not any(f'"{name}"' in text for name in ("lin", "chen", "wu"))


def test_a_release_asked_for_too_late_is_not_told_as_kept(
    lin: Person, chen: Person, wu: Person, tmp_path: Path
):
    source = packed(cut_release(ReleaseSpec(name="r", batches=[settled_care([lin, chen], wu)])), tmp_path)
    import_bundle(source=source, called=BundleNames({"care-1": "new"}))
    with pytest.raises(Conflict, match="cut theirs from its batches"):
        import_bundle(source=source, called=BundleNames({"care-1": "new"}, "theirs"))
    cut_release(ReleaseSpec(name="theirs", batches=[Batch.objects.get(name="new")]))
    assert import_bundle(source=source, called=BundleNames({"care-1": "new"}, "theirs")).imported == 0


def test_two_batches_of_the_same_responses_a_later_decision_and_a_withdrawal(
    lin: Person, chen: Person, wu: Person, tmp_path: Path
):
    first_batch = settled_care([lin, chen], wu, decide=0)
    two = settled_care(
        [lin], wu, name="care-2", labels_by_task=[(AGREED[0],), (NEAR[1],), (AGREED[0],)], decide=0
    )
    with pytest.raises(Conflict):
        cut_release(ReleaseSpec(name="no", batches=[first_batch, two]))
    # The second batch says of the second response what the first one settled as.
    Task.objects.filter(batch=two, response__prompt__key="问 1").update(state="withdrawn")
    Task.objects.filter(batch=two, response__prompt__key="问 2").update(state="withdrawn")
    release = cut_release(ReleaseSpec(name="r", batches=[two, first_batch]))
    assert set(release.manifest["counts"]["by_source"]) == {"single", "unanimous", "within_tolerance"}
    settle_dispute(first_batch, wu)
    withdraw_tasks(batch=first_batch, tasks=[first_batch.tasks.get(state="disputed").pk], reason="late")
    source = packed(release, tmp_path)
    assert {batch.name: batch.tasks for batch in Bundle(source).manifest.batches} == {
        "care-1": 3,
        "care-2": 1,
    }
    assert both(source, release)["made"]["batches"] == 2


def test_flames_in_a_system_that_has_the_guideline_and_the_data(
    lin: Person, chen: Person, wu: Person, tmp_path: Path
):
    corpus = make_corpus(prompts=4, models=["M", "N"], dimensions=("Fairness", "Legality"), name="two")
    batch = make_batch(FLAMES_GUIDELINE.load(), corpus, annotators=[lin, chen], adjudicators=[wu])
    for _number in range(8):
        for person, value in ((lin, 1), (chen, 3)):
            criterion = "fairness" if _number % 2 == 0 else "legality"
            for name in (criterion, "legality" if criterion == "fairness" else "fairness"):
                try:
                    label_next(batch, person, value if _number < 3 else 1, name)
                    break
                except AssayError:
                    continue
    release = cut_release(ReleaseSpec(name="r", batches=[batch]))
    source = packed(release, tmp_path)
    with pytest.raises(Conflict, match="already a batch named first"):
        import_bundle(source=source)
    release_elsewhere, report = arrives(source, BundleNames({"first": "again"}))
    assert release_elsewhere.sha256 == release.sha256
    assert not {"guidelines", "datasets", "prompts", "responses", "models"} & report["made"].keys()
    assert Batch.objects.get(name="again").state == Batch.State.CLOSED
    second_report = import_bundle(source=source, called=BundleNames({"first": "again"}))
    assert (second_report.imported, second_report.already_there, Batch.objects.count()) == (
        0,
        report["taken"],
        2,
    )


def test_what_is_here_otherwise_is_refused_and_nothing_is_stored(
    lin: Person, chen: Person, wu: Person, tmp_path: Path
):
    release = cut_release(ReleaseSpec(name="r", batches=[settled_care([lin, chen], wu)]))
    source, called = packed(release, tmp_path), BundleNames({"care-1": "new"})
    for change, words in (
        (lambda: Prompt.objects.filter(key="问 1").update(text="Other?"), "with another text"),
        (
            lambda: Prompt.objects.filter(key="问 1").update(dimension="Other"),
            "with another dimension: “Other”",
        ),
        (lambda: Response.objects.update(sha256="0" * 64), "another response of Model 1"),
        (lambda: Guideline.objects.update(sha256="0" * 64), "is here with another text"),
    ):
        with transaction.atomic():
            change()
            with pytest.raises(AssayError, match=words):
                import_bundle(source=source, called=called)
            transaction.set_rollback(True)
        assert not Batch.objects.filter(name="new").exists()
    assert not Import.objects.exists()


def test_whoever_judges_the_same_responses_blind_cannot_import(
    ma: Person, lin: Person, chen: Person, wu: Person, tmp_path: Path
):
    from annotation.services.imports import Run

    batch = settled_care([lin, chen], wu)
    source = packed(cut_release(ReleaseSpec(name="r", batches=[batch])), tmp_path)
    make_batch(batch.guideline, Dataset.objects.get(name="care"), annotators=[ma, lin], name="mine")
    with pytest.raises(Forbidden):
        import_bundle(source=source, called=BundleNames({"care-1": "new"}), run=Run(actor=ma))


@pytest.fixture
def good(lin: Person, chen: Person, wu: Person, tmp_path: Path) -> Source:
    return packed(cut_release(ReleaseSpec(name="r", batches=[settled_care([lin, chen], wu)])), tmp_path)


def changed(
    good: Source, change: Mapping[str, Callable[[str], str]] = {}, *, honest: bool = True, **more: bytes
) -> Source:
    """The bundle with some of its files changed; an ``honest`` one has a manifest that fits."""
    path = good.path.with_name("changed.zip")
    with zipfile.ZipFile(good.path) as old:
        texts = {name: old.read(name) for name in old.namelist()}
    manifest = json.loads(texts.pop(pure.MANIFEST))
    texts |= {name: work(texts[name].decode()).encode() for name, work in change.items() if name in texts}
    with pure.BundleWriter.open(path) as new:
        for name, text in (texts | more).items():
            if name in pure.TABLES:
                new.add_table(pack(path.with_name(f"{name}.zip"), name, text))
            else:
                new.add(name, text)
        if honest:
            manifest["files"] = [fact.model_dump() for fact in new.facts]
        manifest_text = change.get(pure.MANIFEST, lambda text: text)(json.dumps(manifest))
        new.add(pure.MANIFEST, manifest_text.encode())
    return Source(path, "changed.zip")


def pack(path: Path, name: str, text: bytes) -> pure.TablePacker:
    path.unlink(missing_ok=True)
    with ThreadPoolExecutor(1) as executor, closing(pure.TablePacker(path, name, executor)) as table:
        table.write(text.decode())
    return table


def refused(source: Source) -> str:
    before = (Person.objects.count(), Batch.objects.count(), Import.objects.count())
    with pytest.raises(InputError) as caught:
        import_bundle(source=source, called=BundleNames({"care-1": "new"}))
    assert (Person.objects.count(), Batch.objects.count(), Import.objects.count()) == before
    return str(caught.value)


def swap(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new, 1)


def lines_of(name: str, lines: int) -> Callable[[str], str]:
    """The manifest with another number of lines for one of the files."""

    def change(text: str) -> str:
        manifest = json.loads(text)
        next(file for file in manifest["files"] if file["name"] == name)["lines"] = lines
        return json.dumps(manifest)

    return change


def test_a_time_that_no_clock_can_show_is_refused(lin: Person, chen: Person, wu: Person, tmp_path: Path):
    release = cut_release(ReleaseSpec(name="r", batches=[settled_care([lin, chen], wu)]))
    source = packed(release, tmp_path, times=True)
    for time in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-05-01T10:00:00", "noon"):
        problem = refused(changed(source, {"annotations.jsonl": first_time(time)}))
        assert "annotations.jsonl:1 [at]: this is no time" in problem
        source.path.with_name("changed.zip").unlink()


def first_time(time: str) -> Callable[[str], str]:
    return lambda text: re.sub(r'"at": "[^"]*"', f'"at": "{time}"', text, count=1)


def test_what_was_tampered_with_is_refused(good: Source):
    for change, honest, words in (
        ({"gold.jsonl": swap("Answer 1", "Answer 9")}, False, "gold.jsonl: this is not what"),
        ({"annotations.jsonl": swap('"fluency": 3', '"fluency": 4')}, True, "sha256"),
        ({"annotations.jsonl": lambda text: text.split("\n", 1)[1]}, True, "with all their annotations"),
        ({"adjudications.jsonl": lambda _text: ""}, True, "give a release with the sha256"),
        ({"responses.jsonl": swap("Answer 1", "Answer 9")}, True, "responses.jsonl:2 [sha256]"),
        ({"annotations.jsonl": swap('"fluency": 3', '"fluency": 9')}, True, "annotations.jsonl:1 [labels]"),
        ({"annotations.jsonl": swap('"batch": "care-1"', '"batch": "other"')}, True, "names no batch"),
        ({"prompts.jsonl": swap('"dataset": "care"', '"dataset": "other"')}, True, "names no dataset"),
        ({"guidelines/care@1.0.yaml": swap("Made up", "Made")}, True, "published and never changes"),
        ({"manifest.json": swap('"tasks": 4', '"tasks": 5')}, True, "its manifest says 5"),
        ({"manifest.json": swap('"overlap": 2', '"overlap": 0')}, True, "[batches.0.overlap]"),
        ({"manifest.json": swap("assay-bundle", "other")}, True, "no manifest of a bundle"),
        ({"manifest.json": lambda _text: "{"}, True, "no manifest of a bundle"),
        ({"manifest.json": swap('"datasets": ["care"]', '"datasets": ["\\u0000"]')}, True, "[datasets.0]"),
        ({"manifest.json": lines_of("annotations.jsonl", 0)}, True, "annotations.jsonl: this is not what"),
        ({"annotations.jsonl": lambda text: text + text.splitlines()[0] + "\n"}, True, "twice"),
        ({"annotations.jsonl": lambda text: "{\n" + text}, True, "annotations.jsonl:1: this is not JSON"),
    ):
        try:
            problem = refused(changed(good, change, honest=honest))
        except Conflict as error:
            problem = str(error)
        assert words in problem, words
        good.path.with_name("changed.zip").unlink()


def test_hostile_zips_are_refused_before_anything_of_them_is_read(
    good: Source, monkeypatch: pytest.MonkeyPatch
):
    for name in (
        "../evil.py",
        "/etc/passwd",
        "guidelines/../../x@1.yaml",
        "gold.jsonl/",
        "C:\\x",
        "extra.txt",
    ):
        assert "has no place in a bundle" in refused(changed(good, **{name: b"x"}))
        good.path.with_name("changed.zip").unlink()
    path = good.path.with_name("other.zip")
    for content, words in ((b"PK\x03\x04 no zip", "this is no bundle"), (b"text", "this is no bundle")):
        path.write_bytes(content)
        assert words in refused(Source(path, "other.zip"))
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr("gold.jsonl", "")
    assert "there is no manifest.json" in refused(Source(path, "other.zip"))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("manifest.json", "{}")
        zipped.writestr("gold.jsonl", b"0" * (pure.FREE + 1))
    assert "would unpack to 67 MB" in refused(Source(path, "other.zip"))
    # A size that the zip understates is all that is ever read of the file.
    lying = bytearray(good.path.read_bytes())
    place = lying.rindex(b"PK\x01\x02", 0, lying.rindex(b"gold.jsonl"))
    lying[place + 24 : place + 28] = (10).to_bytes(4, "little")
    path.write_bytes(lying)
    assert "gold.jsonl: this is not what" in refused(Source(path, "other.zip"))
    path.write_bytes(good.path.read_bytes()[:-200])
    assert "this is no bundle, or it is broken" in refused(Source(path, "other.zip"))
    monkeypatch.setattr(pure, "MAX_READ_BYTES", 100)
    assert "a part is too long" in refused(good)


def run(*arguments: str) -> Any:
    out = StringIO()
    call_command(*arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


def test_the_commands(good: Source, tmp_path: Path):
    release = GoldRelease.objects.get()
    export = run("export_gold", "r", "--format", "bundle", "--out", str(tmp_path / "out"), "--rationales")
    path = str(tmp_path / "out" / "bundle.zip")
    assert export["labels"] == release.labels
    report = run("import_bundle", path, "--as-batch", "copy", "--release", "theirs")
    assert (report["sha256"], report["batches"], report["release"]) == (release.sha256, ["copy"], "theirs")
    assert GoldRelease.objects.get(name="theirs").sha256 == release.sha256
    assert run("import_bundle", path, "--as-batch", "care-1=copy")["taken"] == 0
    with pytest.raises(SystemExit):
        call_command("import_bundle", path, "--as-batch", "care-9=copy", stderr=StringIO())


@pytest.fixture
def manager(client: Client, ma: Person) -> Client:
    client.force_login(ma)
    return client


def uploaded(client: Client, content: bytes) -> str:
    file = SimpleUploadedFile("theirs.zip", content, content_type="application/zip")
    answer = client.post(reverse("import-new"), {"file": file})
    assert answer.status_code == 302
    return str(answer.url)


def test_a_manager_uploads_a_bundle_names_its_batch_and_watches_it_go_in(
    good: Source, manager: Client, monkeypatch: pytest.MonkeyPatch
):
    # The thread that tells how far it is sees nothing of what this test did: its transaction never ends.
    monkeypatch.setattr("annotation.services.jobs.REPORT_SECONDS", 600)
    release = GoldRelease.objects.get()
    url = uploaded(manager, good.path.read_bytes())
    page = manager.get(url).content.decode()
    assert release.sha256 in page
    assert "care@1.0" in page
    upload = Import.objects.get()
    place = reverse("import-confirm", args=[upload.pk])
    refusal = manager.post(place, {"batch-0": "care-1", "release": ""})
    assert (refusal.status_code, "already a batch named care-1" in refusal.content.decode()) == (409, True)
    assert manager.post(place, {"batch-0": "", "release": ""}).status_code == 422
    assert manager.post(place, {"batch-0": "care-9", "release": "theirs"}).status_code == 302
    upload.refresh_from_db()
    job = jobs.run(upload.job.pk)
    assert (job.state, job.error) == ("done", "")
    report = manager.get(url).content.decode()
    assert reverse("batch", args=["care-9"]) in report
    assert f"has the sha256 of the bundle&#x27;s, {release.sha256}" in report
    assert GoldRelease.objects.get(name="theirs").created_by.username == "ma"
    assert manager.post(place, {"batch-0": "care-8", "release": ""}).status_code == 409


def test_a_zip_that_is_no_bundle_says_so_on_its_page(manager: Client):
    url = uploaded(manager, b"PK\x03\x04 and no more")
    answer = manager.get(url)
    assert (answer.status_code, "this is no bundle" in answer.content.decode()) == (200, True)
    assert manager.post(url + "confirm/", {"batch-0": "x"}).status_code == 400
    assert not Batch.objects.exists()


VALUES = st.tuples(*(st.sampled_from(values) for values in ((0, 1, 4), (1, 5), (0, 50, 100), (0, 1))))


@settings(
    max_examples=2,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=[Phase.generate],
)
@given(
    people=st.integers(1, 3),
    values_by_task=st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=4),
    decide=st.integers(0, 4),
    twice=st.booleans(),
)
def test_any_small_system_gives_the_same_release_elsewhere(
    tmp_path_factory: pytest.TempPathFactory,
    db: None,
    people: int,
    values_by_task: list[tuple[tuple[int, ...], ...]],
    decide: int,
    twice: bool,
):
    def system() -> None:
        names = ("lin", "chen", "zhou")[:people]
        annotators = [add_person(name=name, roles=["annotator"]) for name in names]
        wu = add_person(name="wu", roles=["adjudicator"])
        own_values = [values[:people] for values in values_by_task]
        batches = [settled_care(annotators, wu, labels_by_task=own_values, decide=0)]
        for _number in range(min(decide, batches[0].tasks.filter(state="disputed").count())):
            settle_dispute(batches[0], wu)
        if twice:
            batches.append(copy_of_agreed(batches[0], annotators[0]))
        try:
            release = cut_release(ReleaseSpec(name="r", batches=batches))
        except Conflict:
            return
        source = packed(release, tmp_path_factory.mktemp("bundle"))
        both(source, release)

    elsewhere(system)


def copy_of_agreed(batch: Batch, person: Person) -> Batch:
    """One person alone, on the same responses, says of the first what was said before."""
    other = make_batch(
        batch.guideline,
        Dataset.objects.get(name="care"),
        annotators=[person],
        name="care-2",
        policy=Policy(overlap=1),
    )
    from annotation.domain.annotations import Submission
    from annotation.services.annotations.submission import submit
    from annotation.services.assignments import claim_next_task

    assignment = claim_next_task(batch=other, person=person)
    assert assignment is not None
    first = Annotation.objects.filter(assignment__task__response=assignment.task.response).first()
    assert first is not None
    submit(assignment_id=assignment.pk, person=person, key="k", work=Submission(labels=first.labels))
    return other
