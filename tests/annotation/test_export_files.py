"""The gold file in every format: what is in it, whole or not at all."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from annotation.content import response_sha256, text_sha256
from annotation.errors import AssayError, Conflict, InputError
from annotation.goldfile import GoldRow, csv_lines, safe_cell
from annotation.models import Batch, GoldRelease, Person, Response
from annotation.selectors.released import Released, ReleasedRow
from annotation.services.batches import Policy
from annotation.services.exports import export_release
from annotation.services.gold import cut_release
from annotation.splits import split_of
from tests.support import FLAMES_GUIDELINE, decide_next, label_next, make_batch, make_corpus


@pytest.fixture
def settled(batch: Batch, lin: Person, chen: Person, wu: Person) -> Batch:
    """Four of the eight tasks: agreed on 1 and 3, decided as 2, and one dispute left open."""
    for one, other in ((1, 1), (3, 3), (1, 3), (1, 2)):
        label_next(batch, lin, one)
        label_next(batch, chen, other)
    decide_next(batch, wu, 2)
    return batch


@pytest.fixture
def release(settled: Batch) -> GoldRelease:
    return cut_release(name="r", batches=[settled])


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.django_db
def test_the_gold_file_has_a_row_per_task_with_numbers_for_labels(settled: Batch, tmp_path: Path):
    release = cut_release(name="r", batches=[settled])
    export = export_release(release=release, format_name="jsonl", folder=tmp_path / "new" / "folder")
    assert (export.rows, export.labels) == (3, 3)
    rows = read_jsonl(export.path)
    assert rows[0] == {
        "dataset": "small",
        "prompt_id": "p0",
        "dimension": "safe",
        "subcomponent": "",
        "model": "Hidden-13B",
        "response": "Answer 1 to question 0.",
        "labels": {"compliance": 2},
        "sources": {"compliance": "adjudicated"},
        "guideline": "xstest",
        "guideline_version": settled.guideline.version,
        "split": split_of("small", "p0"),
    }
    assert isinstance(rows[0]["labels"]["compliance"], int)
    assert [(row["prompt_id"], row["model"]) for row in rows[1:]] == [
        ("p0", "Secretive-7B"),
        ("p1", "Secretive-7B"),
    ]
    assert json.loads(export.manifest.read_text(encoding="utf-8")) == release.manifest
    assert {path.name for path in export.path.parent.iterdir()} == {file.name for file in export.files}


@pytest.mark.django_db
def test_several_criteria_and_a_dialogue_in_both_formats(lin: Person, tmp_path: Path):
    corpus = make_corpus(prompts=2, models=["M"], dimensions=("Fairness", "Legality"), name="two")
    turns = [{"role": "user", "text": "再说一次"}, {"role": "assistant", "text": "不。"}]
    Response.objects.filter(prompt__key="p1").update(text="", turns=turns, sha256=response_sha256("", turns))
    batch = make_batch(FLAMES_GUIDELINE.load(), corpus, annotators=[lin], policy=Policy(overlap=1))
    label_next(batch, lin, 2, "fairness")
    label_next(batch, lin, 1, "legality")
    release = cut_release(name="r", batches=[batch])
    first, second = read_jsonl(export_release(release=release, format_name="jsonl", folder=tmp_path).path)
    assert (first["labels"], second["labels"]) == ({"fairness": 2}, {"legality": 1})
    assert second["response"] == turns
    with export_release(release=release, format_name="csv", folder=tmp_path).path.open(
        encoding="utf-8", newline=""
    ) as file:
        one, two = csv.DictReader(file)
    assert (one["label.fairness"], one["label.legality"], one["source.fairness"]) == ("2", "", "single")
    assert (two["label.fairness"], two["label.legality"]) == ("", "1")
    assert json.loads(two["response"]) == turns


HOSTILE = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\tx",
    "\rx",
    "\n=1+1",
    "＝1+1",
    "＠SUM(A1)",
    "'quoted",
    'a "b", c',
    "line\nline",
    "lone\rreturn",
    "好",
]


def test_no_cell_starts_a_formula_and_every_text_comes_back():
    rows = [GoldRow("d", "p", "", "", "M", text, {"c": -1}, {"c": "single"}, "g", "1") for text in HOSTILE]
    text = "".join(csv_lines(rows, ["c"]))
    read = list(csv.DictReader(StringIO(text, newline="")))
    cells = [row["response"] for row in read]
    assert not any(cell.startswith(("=", "+", "-", "@", "＝", "＠", "\t", "\r", "\n")) for cell in cells)
    assert [cell.removeprefix("'") for cell in cells] == HOSTILE
    assert {row["label.c"] for row in read} == {"-1"}  # a number stays a number
    assert safe_cell("plain") == "plain"


@pytest.mark.django_db
def test_a_file_of_other_content_is_never_overwritten_and_the_same_content_stays(
    settled: Batch, wu: Person, tmp_path: Path
):
    first = cut_release(name="one", batches=[settled])
    path = export_release(release=first, format_name="jsonl", folder=tmp_path).path
    before = path.read_bytes()
    export_release(release=first, format_name="jsonl", folder=tmp_path)
    decide_next(settled, wu, 1)
    second = cut_release(name="two", batches=[settled])
    with pytest.raises(InputError, match="other content"):
        export_release(release=second, format_name="jsonl", folder=tmp_path)
    assert path.read_bytes() == before
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.django_db
def test_an_export_that_breaks_off_or_does_not_fit_its_manifest_leaves_nothing(
    settled: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    release = cut_release(name="r", batches=[settled])
    release.items.first().delete()
    with pytest.raises(Conflict, match="2 rows and 2 labels, the release has 3 and 3"):
        export_release(release=release, format_name="csv", folder=tmp_path)

    def break_off(_self: Released, _start: int = 0) -> Iterator[list[ReleasedRow]]:
        yield []
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Released, "chunks", break_off)
    with pytest.raises(InputError, match="No space left on device"):
        export_release(release=release, format_name="csv", folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.django_db
def test_an_unknown_format_and_a_file_for_a_folder_are_refused(settled: Batch, tmp_path: Path):
    release = cut_release(name="r", batches=[settled])
    with pytest.raises(AssayError, match="choose one of: jsonl, csv"):
        export_release(release=release, format_name="xml", folder=tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="name a folder"):
        export_release(release=release, format_name="csv", folder=tmp_path / "file")
    with pytest.raises(InputError, match="cannot be written"):
        export_release(release=release, format_name="csv", folder=tmp_path / ("a" * 300))


@pytest.mark.django_db
def test_a_response_of_any_length_is_exported(settled: Batch, tmp_path: Path):
    long = "long " * 100_000
    Response.objects.update(text=long, sha256=text_sha256(long))
    release = cut_release(name="r", batches=[settled])
    for name in ("csv", "jsonl"):
        export = export_release(release=release, format_name=name, folder=tmp_path)
        assert export.rows == release.labels
        assert long in export.path.read_text(encoding="utf-8")
