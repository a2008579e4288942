"""How imported labels were made is said in the importer's own words, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

import annotation.tasks  # noqa: F401 (the handlers, as a worker has them)
from annotation.core.errors import AssayError
from annotation.domain.formats import Source
from annotation.domain.release_spec import ReleaseSpec
from annotation.domain.releases.origins import (
    MAX_PROTOCOL_CHARACTERS,
    check_protocol,
    find_batch_origins,
    list_import_protocols,
    read_carried_protocols,
)
from annotation.models import Batch, Dataset, GoldRelease, Guideline, Import, Person
from annotation.selectors.reports import build_batches_report, build_release_report
from annotation.services import jobs
from annotation.services.exports import export_release
from annotation.services.exports.datasheet import render_markdown
from annotation.services.imports import BundleNames, ImportRequest, import_annotations, import_bundle
from annotation.services.releases import cut_release
from annotation.views.reports import render_latex
from tests.support import as_made_by_import, label_next

WORDS = "Two students in a spreadsheet.\nNot blind: <b>they saw the model</b>."
QUOTED = "> Two students in a spreadsheet.\n> Not blind: \\<b\\>they saw the model\\</b\\>."
Put = Callable[..., Import]


@pytest.fixture
def put(dataset: Dataset, guideline: Guideline, tmp_path: Path) -> Put:
    def take(
        *rows: tuple[str, str, int], batch: str = "theirs", name: str = "x.jsonl", protocol: Any = None
    ) -> Import:
        path = tmp_path / name
        lines = (
            {"prompt_id": prompt, "model": "Hidden-13B", "annotator": person, "labels": {"compliance": value}}
            for person, prompt, value in rows
        )
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        import_annotations(
            source=Source(path, name),
            format="jsonl",
            request=ImportRequest(batch=batch, guideline="xstest", dataset="small"),
            new_people=True,
            protocol=protocol,
        )
        return Import.objects.latest("pk")

    return take


def release_of(*names: str) -> GoldRelease:
    return cut_release(ReleaseSpec(name="r", batches=list(Batch.objects.filter(name__in=names))))


def latex_of(report: Any) -> str:
    return " ".join(render_latex(report, "en").split())


BOTH = (("ann", "p0", 3), ("ben", "p0", 3))


@pytest.mark.django_db
def test_the_importers_words_are_stored_frozen_and_quoted(put: Put):
    upload = put(*BOTH, protocol=f"  {WORDS}\r\n")
    assert upload.protocol == WORDS
    release = release_of("theirs")
    assert release.manifest["imported"]["files"][0]["protocol"] == WORDS
    english, chinese = (render_markdown(release.manifest, language) for language in ("en", "zh"))
    assert QUOTED in english
    assert QUOTED in chinese
    assert "Of the labels of x.jsonl (batch theirs) whoever imported them wrote:" in english
    assert "is not recorded: who judged" not in english
    for report in (build_release_report(release), build_batches_report([Batch.objects.get(name="theirs")])):
        text = latex_of(report)
        assert "in the words of whoever imported it: “Two students in a spreadsheet. Not blind:" in text
    # The words of a release are those at its cut.
    Import.objects.update(protocol="otherwise")
    release.refresh_from_db()
    assert QUOTED in render_markdown(release.manifest, "en")


@pytest.mark.django_db
def test_without_words_it_is_not_recorded(put: Put):
    assert put(*BOTH).protocol is None
    release = release_of("theirs")
    sheet = render_markdown(release.manifest, "en")
    assert "How the labels of x.jsonl (batch theirs) were made is not recorded" in sheet
    assert "named neither the model" not in sheet
    assert "who judged, whether they knew the model" in latex_of(build_release_report(release))


@pytest.mark.django_db
def test_files_with_the_same_words_share_a_paragraph_and_others_have_their_own(put: Put):
    put(*BOTH, protocol="By hand.")
    put(("ann", "p1", 1), ("ben", "p1", 1), name="y.jsonl", protocol="By hand.")
    put(("ann", "p2", 1), ("ben", "p2", 1), name="z.jsonl")
    sheet = render_markdown(release_of("theirs").manifest, "en")
    assert "Of the labels of x.jsonl, y.jsonl (batch theirs) whoever imported them wrote:" in sheet
    assert "How the labels of z.jsonl (batch theirs) were made is not recorded" in sheet


@pytest.mark.django_db
def test_a_mixed_batch_says_both_with_the_numbers_of_each(put: Put, batch: Batch, lin: Person, chen: Person):
    as_made_by_import(batch)
    label_next(batch, lin, 3)
    label_next(batch, chen, 3)
    put(("ann", "p3", 1), ("ben", "p3", 1), batch=batch.name, protocol="By hand.")
    release = release_of(batch.name)
    own_work = release.manifest["protocol"][0]["here"]
    assert {name: own_work[name] for name in ("annotations", "annotators", "adjudications")} == {
        "annotations": 2,
        "annotators": 2,
        "adjudications": 0,
    }
    assert own_work["channels"] == {"page": 0, "token": 0, "unknown": 2}  # the service was told no channel
    assert release.manifest["people"]["here"] == {"annotators": 2, "adjudicators": 0}
    sheet = render_markdown(release.manifest, "en")
    assert "Annotations given here, on the page or with a token: 2; people who gave them: 2." in sheet
    assert "Imported from files: 2 of the annotations, 0 of the decisions" in sheet
    assert "> By hand." in sheet
    assert "page or token 2, import 2" in sheet


@pytest.mark.django_db
def test_a_bundle_carries_the_words_and_what_was_given_there(
    put: Put, batch: Batch, lin: Person, chen: Person, tmp_path: Path
):
    as_made_by_import(batch)
    label_next(batch, lin, 3)
    label_next(batch, chen, 3)
    put(("ann", "p3", 1), ("ben", "p3", 1), batch=batch.name, protocol=WORDS)
    export_release(release=release_of(batch.name), format_name="bundle", folder=tmp_path / "b")
    source = Source(tmp_path / "b" / "bundle.zip", "bundle.zip")
    import_bundle(source=source, called=BundleNames({batch.name: "again"}, protocol="From our friends."))
    upload = Import.objects.get(format="bundle")
    assert upload.protocol == "From our friends."
    assert upload.carried_protocols["again"]["given"] == 2
    manifest = cut_release(ReleaseSpec(name="second", batches=[Batch.objects.get(name="again")])).manifest
    sheet = render_markdown(manifest, "en")
    assert "> From our friends." in sheet
    assert "By its manifest 2 annotations of the batch again were submitted there" in sheet
    assert (
        "Of the labels of x.jsonl (batch again), which came in bundle.zip, whoever first imported them wrote:"
        in sheet
    )
    assert QUOTED in sheet
    assert "named neither the model" not in sheet  # that site's word is quoted, not made ours
    # A bundle of a bundle still has them.
    export_release(
        release=GoldRelease.objects.get(name="second"), format_name="bundle", folder=tmp_path / "c"
    )
    source = Source(tmp_path / "c" / "bundle.zip", "later.zip")
    import_bundle(source=source, called=BundleNames({"again": "third"}))
    manifest = cut_release(ReleaseSpec(name="3", batches=[Batch.objects.get(name="third")])).manifest
    sheet = render_markdown(manifest, "en")
    assert "(batch third), which came in later.zip, bundle.zip, whoever first imported them wrote:" in sheet
    assert "Of the labels of bundle.zip (batch third), which came in later.zip, whoever first" in sheet


def test_an_old_bundle_says_nothing_and_a_hostile_one_no_more_than_it_may():
    assert read_carried_protocols({}) == {}
    assert read_carried_protocols({"protocol": [{"name": "b", "annotations": 3}]}) == {}
    assert read_carried_protocols({"protocol": 3, "imported": {"files": []}}) == {}
    nested: dict[str, Any] = {"file": "deep", "annotations": 1}
    for _level in range(50):
        nested = {
            "file": "f" * 9999,
            "annotations": 1,
            "protocol": "x\x00\ud800y" * 9999,
            "carried": {"files": [nested]},
        }
    files = [
        nested | {"batch": "b"},
        {"batch": "b", "file": 3},
        {"batch": "b", "file": "g", "annotations": -1},
        "no",
    ]
    release = {
        "protocol": [{"name": "b", "annotations": True}, {"name": ["b"]}, 7],
        "imported": {"files": files * 500},
    }
    protocol = read_carried_protocols(release)["b"]
    assert protocol.given is None
    stored = json.dumps(protocol.to_json())
    depth, inner = 0, protocol.files[0]
    while inner.carried is not None and inner.carried.files:
        depth, inner = depth + 1, inner.carried.files[0]
    assert depth < 5
    assert len(protocol.files) <= 200
    assert "\\u0000" not in stored
    assert "\\ud800" not in stored
    assert all(len(file.protocol or "") <= MAX_PROTOCOL_CHARACTERS for file in protocol.files)


def test_a_protocol_is_as_long_as_it_may_be():
    assert check_protocol(" \n") is None
    assert check_protocol("甲" * MAX_PROTOCOL_CHARACTERS) == "甲" * MAX_PROTOCOL_CHARACTERS
    with pytest.raises(AssayError, match="4001 characters"):
        check_protocol("x" * (MAX_PROTOCOL_CHARACTERS + 1))


def test_a_manifest_of_before_knows_of_work_here_what_follows():
    entry = {"name": "b", "annotations": 9, "annotators": 3, "adjudicators": 1}
    entry |= {"first_submitted": "2026-04-01", "last_submitted": "2026-04-02"}
    none: dict[str, Any] = {"annotations": 0, "adjudications": 0, "files": []}
    unknown = find_batch_origins(entry, None)
    assert (unknown.is_known, unknown.given_here) == (False, None)
    own = find_batch_origins(entry, none)
    assert (own.given_here, own.annotators_here, own.first_day) == (9, 3, "2026-04-01")
    file = {"file": "f", "format": "csv", "sha256": "0", "batch": "b", "annotations": 4, "adjudications": 0}
    mixed = find_batch_origins(entry, none | {"files": [file]})
    assert (mixed.imported, mixed.given_here, mixed.annotators_here, mixed.first_day) == (4, 5, None, None)
    imported = find_batch_origins(entry, none | {"files": [file | {"annotations": 9}]})
    assert (imported.given_here, imported.decided_here) == (0, None)
    paragraphs = list_import_protocols({"imported": none | {"files": [file]}})
    assert [(paragraph.files, paragraph.words) for paragraph in paragraphs] == [(("f",), None)]


@pytest.mark.django_db
def test_the_command_and_the_page_take_the_words(
    dataset: Dataset, guideline: Guideline, client: Client, ma: Person, tmp_path: Path
):
    path = tmp_path / "c.jsonl"
    rows = (
        {"prompt_id": "p0", "model": "Hidden-13B", "annotator": person, "labels": {"compliance": 3}}
        for person in ("ann", "ben")
    )
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")
    call_command(
        "import_annotations",
        str(path),
        *("--batch", "b", "--format", "jsonl", "--guideline", "xstest", "--dataset", "small"),
        *("--protocol", WORDS),
        stdout=StringIO(),
    )
    assert Import.objects.get().protocol == WORDS
    client.force_login(ma)
    client.post(reverse("import-new"), {"file": SimpleUploadedFile("p.jsonl", text.encode())})
    upload = Import.objects.latest("pk")
    fields = {"kind": "annotations", "format": "jsonl", "batch": "c", "protocol": "x" * 4001}
    fields |= {"guideline": str(guideline.pk), "dataset": "small"}
    place = reverse("import-confirm", args=[upload.pk])
    refused = client.post(place, fields)
    assert refused.status_code == 422
    client.post(place, fields | {"protocol": WORDS})
    upload.refresh_from_db()
    assert upload.job is not None
    assert jobs.run(upload.job.pk).state == "done"
    upload.refresh_from_db()
    assert (upload.protocol, "protocol" in upload.options) == (WORDS, False)
    page = client.get(reverse("import-report", args=[upload.pk])).content.decode()
    assert "Not blind: &lt;b&gt;they saw the model&lt;/b&gt;" in page
