"""Wherever imported labels are read it says so; and blindness is said of those alone that were given here."""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from annotation.domain.annotations import Submission
from annotation.domain.formats import Source
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Batch, Dataset, GoldRelease, Guideline, Import, Person, Task
from annotation.selectors.origins import add_origins, count_imported_work, find_origin
from annotation.selectors.releases.lineage import list_label_sources
from annotation.selectors.reports import build_batches_report, build_release_report
from annotation.services.annotations.submission import revise
from annotation.services.batches.batches import set_state
from annotation.services.exports import export_release
from annotation.services.exports.datasheet import render_markdown
from annotation.services.imports import BundleNames, ImportRequest, import_annotations, import_bundle
from annotation.services.people.people import add_person
from annotation.services.releases import cut_release
from annotation.views.reports import render_latex
from tests.support import as_made_by_import, label_next

pytestmark = pytest.mark.django_db

MODEL = "Hidden-13B"
BLIND = "named neither the model nor the other annotators"
BLIND_ZH = "既不写明模型"
Put = Callable[..., Import]


def build_row(annotator: str, value: float, prompt: str = "p0") -> dict[str, Any]:
    return {"prompt_id": prompt, "model": MODEL, "annotator": annotator, "labels": {"compliance": value}}


def decided(value: float, prompt: str = "p0") -> dict[str, Any]:
    return {"prompt_id": prompt, "model": MODEL, "adjudicator": "cleo", "labels": {"compliance": value}}


@pytest.fixture
def put(dataset: Dataset, guideline: Guideline, tmp_path: Path) -> Put:
    def take(*rows: dict[str, Any], batch: str = "elsewhere", name: str = "theirs.jsonl") -> Import:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        target = ImportRequest(batch=batch, guideline="xstest", dataset="small")
        import_annotations(source=Source(path, name), format="jsonl", request=target, new_people=True)
        return Import.objects.latest("pk")

    return take


@pytest.fixture
def imported(put: Put) -> Batch:
    """Two annotations that differ and their decision, and two that agree."""
    put(
        build_row("ann", 3),
        build_row("ben", 1),
        decided(1),
        build_row("ann", 2, "p1"),
        build_row("ben", 2, "p1"),
    )
    return Batch.objects.get(name="elsewhere")


@pytest.fixture
def mixed(imported: Batch, lin: Person, chen: Person, batch: Batch) -> list[Batch]:
    """A batch that was imported, and one in which lin and chen agreed on a response."""
    label_next(batch, lin, 3)
    label_next(batch, chen, 3)
    return [imported, batch]


def page(client: Client, viewer: Person, name: str, *arguments: Any, **query: Any) -> str:
    client.force_login(viewer)
    answer = client.get(reverse(name, args=arguments), query)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


# -- pages -------------------------------------------------------------------------------------------


def test_the_task_names_the_file_and_the_line_of_each_label(client: Client, imported: Batch, ma: Person):
    task = Task.objects.get(batch=imported, state="adjudicated")
    html = page(client, ma, "task", task.pk)
    source = Import.objects.get()
    link = f'<a href="{reverse("import-report", args=[source.pk])}">theirs.jsonl</a>'
    assert html.count(link) == 3
    for line in (1, 2, 3):
        assert f"line {line}" in html
    assert source.sha256 in html
    assert "<code>import_annotations</code>" in html


def test_a_researcher_reads_the_file_without_a_link_that_is_closed_to_them(
    client: Client, imported: Batch, he: Person
):
    html = page(client, he, "task", Task.objects.get(batch=imported, state="adjudicated").pk)
    assert "theirs.jsonl" in html
    assert "/imports/" not in html


def test_what_was_given_here_is_not_called_imported(client: Client, mixed: list[Batch], ma: Person):
    task = Task.objects.get(batch=mixed[1], state="agreed")
    html = page(client, ma, "task", task.pk)
    assert "imported" not in html
    assert "import_annotations" not in html


def test_the_imports_own_page_leads_to_its_labels(client: Client, imported: Batch, ma: Person):
    html = page(client, ma, "import-report", Import.objects.get().pk)
    settled = Task.objects.filter(batch=imported).exclude(state="open").order_by("state")
    links = [html.count(f'href="{reverse("task", args=[task.pk])}"') for task in settled]
    assert links == [3, 2]
    assert "Labels of this file" in html


def test_the_release_and_its_labels_say_it(client: Client, mixed: list[Batch], he: Person):
    release = cut_release(ReleaseSpec(name="r", batches=mixed))
    html = page(client, he, "release", release.name)
    assert "Imported from files, and made elsewhere: 4 of the annotations, 1 of the decisions." in html
    assert "theirs.jsonl" in html
    lines = page(client, he, "release-labels", release.name)
    assert lines.count(">imported<") == 5
    assert 'title="theirs.jsonl:3"' in lines


def test_a_release_without_imports_says_nothing_of_any(client: Client, mixed: list[Batch], he: Person):
    release = cut_release(ReleaseSpec(name="r", batches=[mixed[1]]))
    assert release.manifest["imported"] == {"annotations": 0, "adjudications": 0, "files": []}
    assert "Imported" not in page(client, he, "release", release.name)


def test_my_work_marks_what_came_from_a_file(client: Client, put: Put, lin: Person):
    put(build_row("lin", 3), build_row("ann", 1, "p1"))
    html = page(client, lin, "history")
    assert html.count("imported") == 1
    assert "theirs" not in html  # the name of a file may tell of the model


def test_lists_of_tasks_say_it(client: Client, mixed: list[Batch], ma: Person):
    listed = page(client, ma, "agreement-tasks", batch="elsewhere")
    assert listed.count(">imported<") == 2
    assert ">imported<" not in page(client, ma, "agreement-tasks", batch="first")
    tasks = page(client, ma, "batch-tasks", "elsewhere")
    assert (tasks.count("labelled it, imported"), tasks.count("decided it, imported")) == (4, 1)
    assert "imported" not in page(client, ma, "batch-tasks", "first")


# -- a correction ------------------------------------------------------------------------------------


def test_a_correction_made_here_is_not_imported(put: Put, lin: Person):
    put(build_row("lin", 3), build_row("ann", 1, "p1"))
    batch = Batch.objects.get(name="elsewhere")
    assignment = batch.assignments.get(person=lin)
    assert count_imported_work([batch])["annotations"] == 2
    revise(person=lin, assignment_id=assignment.pk, work=Submission(labels={"compliance": 1}), key="k")
    assert count_imported_work([batch])["annotations"] == 1
    first, second = assignment.annotations.select_related("assignment__imported__source").order_by("revision")
    origin = find_origin(first)
    assert (origin and origin.line, find_origin(second)) == (1, None)


# -- datasheet and report ----------------------------------------------------------------------------


def test_a_datasheet_says_of_work_done_here_that_it_was_blind(mixed: list[Batch]):
    manifest = cut_release(ReleaseSpec(name="r", batches=[mixed[1]])).manifest
    assert BLIND in render_markdown(manifest, "en")
    assert BLIND_ZH in render_markdown(manifest, "zh")
    assert "mported" not in render_markdown(manifest, "en")


def test_a_datasheet_says_nothing_of_how_imported_labels_were_made(imported: Batch):
    manifest = cut_release(ReleaseSpec(name="r", batches=[imported])).manifest
    english, chinese = render_markdown(manifest, "en"), render_markdown(manifest, "zh")
    assert BLIND not in english
    assert BLIND_ZH not in chinese
    assert "Imported from files: 4 of the annotations, 1 of the decisions" in english
    assert "从文件导入：标注 4 份，争议裁决 1 份" in chinese
    assert "How the labels of theirs.jsonl (batch elsewhere) were made is not recorded" in english
    assert "theirs.jsonl（批次 elsewhere）的标签如何产生，未记录" in chinese
    for sheet in (english, chinese):
        assert "theirs.jsonl" in sheet
        assert Import.objects.get().sha256[:16] in sheet


def test_a_datasheet_of_both_says_how_many_of_each(mixed: list[Batch]):
    manifest = cut_release(ReleaseSpec(name="r", batches=mixed)).manifest
    english = render_markdown(manifest, "en")
    assert "Imported from files: 4 of the annotations, 1 of the decisions of disputes." in english
    assert "Annotations given here, on the page or with a token: 2; people who gave them: 2." in english
    assert english.index(BLIND) < english.index("Imported from files")


def test_a_manifest_of_before_is_told_what_is_stored(imported: Batch, client: Client, he: Person):
    release = cut_release(ReleaseSpec(name="r", batches=[imported]))
    manifest = {name: value for name, value in release.manifest.items() if name != "imported"}
    GoldRelease.objects.update(manifest=manifest)
    release.refresh_from_db()
    assert "Whether annotations were imported, and how people worked, is not recorded" in render_markdown(
        release.manifest, "en"
    )
    assert add_origins(release)["imported"]["annotations"] == 4
    assert build_release_report(release)["imported"]["annotations"] == 4
    assert BLIND not in page(client, he, "release-datasheet", release.name)


def test_a_manifest_of_before_is_told_nothing_of_what_came_later(imported: Batch, put: Put):
    release = cut_release(ReleaseSpec(name="r", batches=[imported]))
    at_the_cut = release.manifest.pop("imported")
    release.save()
    put(build_row("ann", 3, "p3"), build_row("ben", 3, "p3"), name="later.jsonl")
    assert count_imported_work([imported])["annotations"] == at_the_cut["annotations"] + 2
    assert add_origins(release)["imported"] == at_the_cut
    assert release.manifest["people"]["annotations"] >= at_the_cut["annotations"]


def render_report(report: Any) -> str:
    return " ".join(render_latex(report, "en").split())


NOT_KNOWING = BLIND


def test_the_report_says_the_same(mixed: list[Batch]):
    assert NOT_KNOWING in render_report(build_batches_report([mixed[1]]))
    elsewhere = render_report(build_batches_report([mixed[0]]))
    assert NOT_KNOWING not in elsewhere
    assert "imported, and made elsewhere: annotations 4, decisions 1" in elsewhere
    assert "theirs.jsonl" in elsewhere
    both = build_batches_report(mixed)
    assert both["imported"]["annotations"] == 4
    assert NOT_KNOWING in render_report(both)
    release = cut_release(ReleaseSpec(name="r", batches=[mixed[0]]))
    assert NOT_KNOWING not in render_report(build_release_report(release))


def test_the_report_of_a_batch_with_both_says_how_many_of_each(batch: Batch, put: Put, lin: Person):
    label_next(as_made_by_import(batch), lin, 3)
    for name in ("ann", "ben"):
        add_person(name=name)
    free = Task.objects.filter(batch=batch, slots_taken=0, response__model__name=MODEL).first()
    assert free is not None
    put(
        build_row("ann", 3, free.response.prompt.key),
        build_row("ben", 3, free.response.prompt.key),
        batch="first",
    )
    text = render_report(build_batches_report([batch]))
    assert "imported, and made elsewhere: annotations 2, decisions 0" in text
    assert "annotations given here: 1; the items that Assay showed" in text


# -- exports -----------------------------------------------------------------------------------------


def files_of(release: GoldRelease, form: str, out: Path) -> Path:
    export_release(release=release, format_name=form, folder=out)
    return out


def test_raw_labels_name_file_hash_and_line(mixed: list[Batch], tmp_path: Path):
    folder = files_of(cut_release(ReleaseSpec(name="r", batches=mixed)), "labels", tmp_path / "out")
    with (folder / "labels.csv").open(encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    source = Import.objects.get()
    imported_rows = [row for row in rows if row["batch"] == "elsewhere"]
    assert sorted(int(row["imported_line"]) for row in imported_rows) == [1, 2, 3, 4, 5]
    assert {(row["imported_file"], row["imported_sha256"]) for row in imported_rows} == {
        ("theirs.jsonl", source.sha256)
    }
    assert {row["imported_file"] for row in rows if row["batch"] == "first"} == {""}


def test_a_bundle_and_label_studio_carry_it_and_the_gold_file_does_not(mixed: list[Batch], tmp_path: Path):
    release = cut_release(ReleaseSpec(name="r", batches=mixed))
    bundle = files_of(release, "bundle", tmp_path / "b") / "bundle.zip"
    with zipfile.ZipFile(bundle) as packed:
        annotations = [json.loads(line) for line in packed.read("annotations.jsonl").splitlines()]
        decisions = [json.loads(line) for line in packed.read("adjudications.jsonl").splitlines()]
        assert BLIND in packed.read("datasheet.md").decode()
    assert sorted(row["imported"]["line"] for row in annotations if "imported" in row) == [1, 2, 4, 5]
    assert [row["imported"]["file"] for row in decisions] == ["theirs.jsonl"]
    assert sum("imported" not in row for row in annotations) == 2
    tasks = json.loads((files_of(release, "label_studio", tmp_path / "l") / "label_studio.json").read_text())
    assert sorted(origin["line"] for task in tasks for origin in task["meta"]["imported"]) == [1, 2, 3, 4, 5]
    gold = files_of(release, "jsonl", tmp_path / "g")
    assert "imported" not in (gold / "gold.jsonl").read_text()
    assert json.loads((gold / "manifest.json").read_text())["imported"]["annotations"] == 4


def test_what_a_bundle_brought_was_imported_from_its_tables(mixed: list[Batch], tmp_path: Path):
    release = cut_release(ReleaseSpec(name="r", batches=mixed))
    bundle = files_of(release, "bundle", tmp_path / "b") / "bundle.zip"
    called = BundleNames({"elsewhere": "e2", "first": "f2"})
    import_bundle(source=Source(bundle, "bundle.zip"), called=called)
    work = count_imported_work(list(Batch.objects.filter(name__in=["e2", "f2"])))
    assert (work["annotations"], work["adjudications"]) == (6, 1)
    second_release = cut_release(
        ReleaseSpec(name="again", batches=list(Batch.objects.filter(name__in=["e2", "f2"])))
    )
    assert second_release.sha256 == release.sha256
    places = {
        str(find_origin(record))
        for label in list_label_sources(list(second_release.items.order_by("pk")))
        for record in (*label.annotations, *([label.decision] if label.decision else []))
    }
    assert "bundle.zip/adjudications.jsonl:1" in places
    assert sum("bundle.zip/annotations.jsonl:" in place for place in places) == 6


def test_a_card_for_hugging_face_says_it(imported: Batch, tmp_path: Path):
    set_state(batch=imported, state=Batch.State.CLOSED)
    folder = files_of(cut_release(ReleaseSpec(name="r", batches=[imported])), "hf", tmp_path / "hf")
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "Imported from files: 4 of the annotations" in card
    assert BLIND not in card
