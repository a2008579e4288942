"""Several options, texts and levels of turns that leave in every format: answers of people, and gold over turns."""

from __future__ import annotations

import csv
import json
import zipfile
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import parse

import openpyxl
import pytest
from pyarrow import parquet

from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Annotation, Batch, GoldLabel, GoldRelease, Guideline, Person
from annotation.services.batches.batches import set_state
from annotation.services.exports import Options, export_release
from annotation.services.releases import cut_release
from tests.annotation.kinds import kinds_batch
from tests.annotation.services.test_bundle import arrives, elsewhere, packed
from tests.annotation.services.test_kinds_in_imports import GOLD, as_they_are, list_rows, put
from tests.support import as_made_by_import

pytestmark = pytest.mark.django_db
# Of what is asked of each turn, by prompt: not of the response where it is not applicable.
OVER_TURNS = {"p0": (2.5, 2), "p1": (2, 2), "p2": (1, 1), "p3": (None, None)}
TEXTS = {("p0", "lin"): "=1+1, “so”\nand\tso", ("p0", "chen"): "007", ("p3", "chen"): "N/A"}


@pytest.fixture
def release(lin: Person, chen: Person, wu: Person, tmp_path: Path) -> GoldRelease:
    batch = as_made_by_import(kinds_batch([lin, chen], [wu]))
    path = tmp_path / "said.jsonl"
    lines = [
        json.dumps({**row, "labels": row.pop("answers")}, ensure_ascii=False)
        for row in list_rows(as_they_are)
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    put(path, "jsonl")
    set_state(batch=batch, state=Batch.State.CLOSED)
    return cut_release(ReleaseSpec(name="kinds-gold", batches=[batch]))


def export(release: GoldRelease, format_name: str, folder: Path, **options: Any) -> Path:
    export_release(
        release=release, format_name=format_name, folder=folder / format_name, options=Options(**options)
    )
    return folder / format_name


def describe_gold() -> dict[str, dict[str, Any]]:
    gold: dict[str, dict[str, Any]] = {}
    for label in GoldLabel.objects.select_related("task__prompt"):
        gold.setdefault(label.task.prompt.key, {})[label.criterion] = label.label
    return gold


def test_gold_of_each_turn_has_its_mean_and_its_minimum(release: GoldRelease, tmp_path: Path):
    lines = (export(release, "jsonl", tmp_path) / "gold.jsonl").read_text(encoding="utf-8").splitlines()
    for row in map(json.loads, lines):
        assert row["labels"] == GOLD[row["prompt_id"]]
        mean, minimum = OVER_TURNS[row["prompt_id"]]
        over_turns = {} if mean is None else {"empathy": {"mean": mean, "minimum": minimum}}
        assert row["over_turns"] == over_turns
    text = (export(release, "csv", tmp_path) / "gold.csv").read_text(encoding="utf-8-sig")
    for cells in csv.DictReader(text.splitlines()):
        mean, minimum = OVER_TURNS[cells["prompt_id"]]
        assert [float(cells[f"{name}.empathy"] or "nan") for name in ("mean", "minimum")] == pytest.approx(
            [float("nan") if mean is None else mean, float("nan") if minimum is None else minimum],
            nan_ok=True,
        )
        assert cells["label.topics"] == str(GOLD[cells["prompt_id"]]["topics"])
    sheet = openpyxl.load_workbook(export(release, "xlsx", tmp_path) / "gold.xlsx").active
    assert sheet is not None
    header, *rows = sheet.iter_rows(values_only=True)
    table = parquet.read_table(export(release, "parquet", tmp_path) / "gold.parquet").to_pylist()
    for row in [*table, *(dict(zip(header, cells, strict=True)) for cells in rows)]:
        assert (row["mean.empathy"], row["minimum.empathy"]) == OVER_TURNS[row["prompt_id"]]
    assert (export(release, "hf", tmp_path) / "README.md").is_file()


def test_what_everybody_wrote_stands_with_their_labels(release: GoldRelease, tmp_path: Path):
    folder = export(release, "labels", tmp_path, real_names=True)
    with (folder / "labels.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == "text"]
    assert {row["label"] for row in rows} == {""}
    assert {(row["prompt_id"], row["worker"]): row["text"].removeprefix("'") for row in rows} == TEXTS
    assert {row["criterion"] for row in rows} == {"why"}


def test_a_bundle_takes_everything_to_another_site(release: GoldRelease, tmp_path: Path):
    source = packed(release, tmp_path, times=True)
    with zipfile.ZipFile(source.path) as packed_files:
        annotations = packed_files.read("annotations.jsonl").decode().splitlines()
    texts = [row["texts"]["why"] for row in map(json.loads, annotations) if "texts" in row]
    assert sorted(texts) == sorted(TEXTS.values())

    def arrive() -> Any:
        arrived, _report = arrives(source)
        written = Annotation.objects.exclude(texts={}).values_list("texts__why", flat=True)
        return arrived.sha256, describe_gold(), sorted(written)

    assert elsewhere(arrive) == (release.sha256, GOLD, sorted(TEXTS.values()))


def test_label_studio_asks_the_same_and_brings_it_back(
    release: GoldRelease, lin: Person, chen: Person, wu: Person, tmp_path: Path
):
    folder = export(release, "label_studio", tmp_path, real_names=True)
    controls = {
        node.get("name"): (node.tag, node.get("choice"))
        for node in parse(folder / "labeling_config.xml").iter()  # noqa: S314 (written just now)
    }
    assert controls["topics"] == ("Choices", "multiple")
    assert controls["why"] == ("TextArea", None)
    assert {"empathy@0", "empathy@1", "empathy@3"} <= controls.keys()
    assert Guideline.objects.count() == 1
    dataset = release.batches.get().tasks.first().response.prompt.dataset
    second = as_made_by_import(kinds_batch([lin, chen], [wu], name="again", dataset=dataset))
    put(folder / "label_studio.json", "label_studio", "again")
    assert second.tasks.filter(state="open").count() == 0
    before, after = (
        sorted(
            Annotation.objects.filter(assignment__batch__name=name).values_list(
                "assignment__task__prompt__key",
                "assignment__person__username",
                "labels__harm",
                "labels__topics",
                "texts__why",
            ),
            key=str,
        )
        for name in ("first", "again")
    )
    assert before == after
