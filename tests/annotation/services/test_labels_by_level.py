"""What people said beside the gold: in every format of an export, of annotators alone."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy
from annotation.domain.guidelines.values import level_key, order_level_key
from annotation.domain.release_spec import ReleaseSpec
from annotation.domain.releases.gold_file import GoldRow, csv_rows, jsonl_rows
from annotation.models import Annotation, Batch, Collection, GoldRelease, Person, Response
from annotation.selectors.releases.rows import ReleaseContent
from annotation.services.annotations.submission import revise
from annotation.services.exports import export_release
from annotation.services.releases import cut_release
from tests.annotation.exchange import AGREED, DISPUTED, NEAR, settled_care
from tests.support import FLAMES_GUIDELINE, label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db
CARE = {
    "fluency": {"2": 1, "3": 1},
    "warmth": {"4": 1, "5": 1},
    "depth": {"50": 1, "51": 1},
    "tone": {"1": 2},
}


@pytest.fixture
def care(lin: Person, chen: Person, wu: Person) -> GoldRelease:
    """A task within the tolerance, one decided, and one whose disputes are open."""
    labels = (NEAR, DISPUTED, DISPUTED, AGREED)
    return cut_release(
        ReleaseSpec(name="r", batches=[settled_care([lin, chen], wu, labels_by_task=labels, decide=1)])
    )


def read_rows(release: GoldRelease) -> list[GoldRow]:
    return [row.gold for chunk in ReleaseContent(release).chunks() for row in chunk]


def test_annotators_are_counted_and_who_decided_is_not(care: GoldRelease):
    near, *decided_and_open, agreed = sorted(read_rows(care), key=lambda row: row.prompt_id)
    assert near.labels_by_level == CARE
    assert agreed.labels_by_level == {
        "fluency": {"3": 2},
        "warmth": {"4": 2},
        "depth": {"50": 2},
        "tone": {"0": 2},
    }
    disputed = {"fluency": {"0": 1, "4": 1}, "depth": {"10": 1, "90": 1}, "tone": {"0": 1, "1": 1}}
    by_sources = {frozenset(row.sources.values()): row for row in decided_and_open}
    decided = by_sources[frozenset({"unanimous", "adjudicated"})]
    assert decided.labels_by_level == {"warmth": {"4": 2}} | disputed
    still_open = by_sources[frozenset({"unanimous"})]
    assert still_open.labels_by_level == {"warmth": {"4": 2}}  # what has no gold is not in the row


def read_file(kind: str, folder: Path) -> Iterator[GoldRow]:
    if kind == "jsonl":
        return jsonl_rows((folder / "gold.jsonl").read_text(encoding="utf-8").splitlines())
    if kind == "csv":
        lines = (folder / "gold.csv").read_text(encoding="utf-8").splitlines(keepends=True)
        return csv_rows(lines, is_text=lambda _text: False)
    if kind == "bundle":
        with zipfile.ZipFile(folder / "bundle.zip") as zipped:
            return jsonl_rows(zipped.read("gold.jsonl").decode().splitlines())
    if kind == "xlsx":
        from annotation.domain.releases.gold_file import cell_rows
        from annotation.services.exports.formats.spreadsheet import _read_cells

        cells = _read_cells(folder / "gold.xlsx")
        return cell_rows(next(cells), cells, is_text=lambda _text: False)
    if kind == "label_studio":
        from annotation.services.exports.formats.label_studio import _read_gold_row, _read_tasks

        return map(_read_gold_row, _read_tasks(folder / "label_studio.json"))
    from annotation.services.exports.formats.parquet import read_parquet

    return read_parquet(sorted(folder.rglob("*.parquet")))


@pytest.mark.parametrize("kind", ["jsonl", "csv", "xlsx", "parquet", "hf", "label_studio", "bundle"])
def test_every_format_has_the_same_counts(care: GoldRelease, tmp_path: Path, kind: str):
    export_release(release=care, format_name=kind, folder=tmp_path)
    key = [(row.prompt_id, row.labels_by_level) for row in read_rows(care)]
    rows = [(row.prompt_id, dict(row.labels_by_level)) for row in read_file(kind, tmp_path)]
    assert sorted(rows, key=str) == sorted(key, key=str)


def test_a_correction_counts_in_place_of_what_it_corrects(batch: Batch, lin: Person, chen: Person):
    receipt = label_next(batch, lin, 1)
    assert receipt is not None
    assignment = Annotation.objects.get(receipt=receipt.receipt).assignment_id
    work = Submission({"compliance": 3}, reason="slipped")
    revise(assignment_id=assignment, person=lin, key="c", work=work)
    label_next(batch, chen, 3)
    (row,) = read_rows(cut_release(ReleaseSpec(name="r", batches=[batch])))
    assert row.labels_by_level == {"compliance": {"3": 2}}


def test_of_a_response_in_two_batches_the_batch_counts_whose_label_is_gold(lin: Person, chen: Person):
    corpus = make_corpus(prompts=1, models=["M"], dimensions=("Fairness",))
    batches: list[Batch] = []
    for name, people in (("a", [lin, chen]), ("b", [lin])):
        batch = make_batch(
            FLAMES_GUIDELINE.load(), corpus, annotators=people, name=name, policy=Policy(overlap=len(people))
        )
        for person in people:
            label_next(batch, person, 2, "fairness")
        batches.append(batch)
    (row,) = read_rows(cut_release(ReleaseSpec(name="r", batches=batches)))
    assert (row.sources, row.labels_by_level) == ({"fairness": "single"}, {"fairness": {"2": 1}})


def test_a_row_of_two_tasks_counts_each_criterion_in_its_own(lin: Person):
    corpus = make_corpus(prompts=1, models=["M"], dimensions=("Fairness",))
    response = Response.objects.get()
    Response.objects.create(
        prompt=response.prompt,
        model=response.model,
        collection=Collection.objects.create(name="second"),
        text=response.text,
        sha256=response.sha256,
    )
    batch = make_batch(FLAMES_GUIDELINE.load(), corpus, annotators=[lin], policy=Policy(overlap=1))
    for _response in range(2):
        label_next(batch, lin, 3, "fairness")
    (row,) = read_rows(cut_release(ReleaseSpec(name="r", batches=[batch])))
    assert row.labels_by_level == {"fairness": {"3": 1}}


@pytest.mark.parametrize(
    ("values", "keys"),
    [
        ([10, 9.0, 2.5, "na", -1], ["-1", "2.5", "9", "10", "na"]),
        ([["b", "a"], "nan", 0], ["0", '["b", "a"]', "nan"]),
    ],
)
def test_a_value_of_any_kind_is_a_key_and_numbers_come_first(values: Sequence[Any], keys: Sequence[str]):
    assert sorted(map(level_key, values), key=order_level_key) == keys


def test_a_file_of_before_has_no_counts_and_is_read_all_the_same():
    record = GoldRow("d", "p", "", "", "M", "text", {"c": 1}, {"c": "single"}, "g", "1")._asdict()
    record.pop("labels_by_level")
    (row,) = jsonl_rows([json.dumps(record | {"split": "train"})])
    assert row.labels_by_level == {}
