"""The gold file in every format: what is in it, whole or not at all."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from annotation.core.errors import AssayError, Conflict, InputError
from annotation.domain.batch_spec import Policy
from annotation.domain.datasets import response_sha256, text_sha256
from annotation.domain.formats.spreadsheets import unescape_spreadsheet
from annotation.domain.release_spec import ReleaseSpec
from annotation.domain.releases.gold_file import (
    GoldColumns,
    GoldRow,
    csv_lines,
    csv_rows,
    jsonl_lines,
    jsonl_rows,
    safe_cell,
)
from annotation.domain.releases.pseudonyms import assign_pseudonyms
from annotation.domain.releases.splits import split_of
from annotation.models import (
    Annotation,
    Batch,
    Collection,
    EvaluatedModel,
    GoldRelease,
    Guideline,
    Person,
    Prompt,
    Response,
)
from annotation.selectors.releases.rows import ReleaseContent, ReleasedRow
from annotation.services.exports import Options, export_release
from annotation.services.releases import cut_release
from tests.support import FLAMES_GUIDELINE, decide_next, label_next, make_batch, make_corpus


@pytest.fixture
def settled(batch: Batch, lin: Person, chen: Person, wu: Person) -> Batch:
    """Four of the eight tasks: agreed on 1 and 3, decided as 2, and one dispute left open."""
    for value, other in ((1, 1), (3, 3), (1, 3), (1, 2)):
        label_next(batch, lin, value)
        label_next(batch, chen, other)
    decide_next(batch, wu, 2)
    return batch


TURNS = [{"role": "user", "text": "再说一次"}, {"role": "assistant", "text": "不。"}]


@pytest.fixture
def several(lin: Person) -> GoldRelease:
    """Two responses, the second a dialogue, each with a label of a criterion of its own."""
    corpus = make_corpus(prompts=2, models=["M"], dimensions=("Fairness", "Legality"), name="two")
    Response.objects.filter(prompt__key="p1").update(text="", turns=TURNS, sha256=response_sha256("", TURNS))
    batch = make_batch(FLAMES_GUIDELINE.load(), corpus, annotators=[lin], policy=Policy(overlap=1))
    label_next(batch, lin, 2, "fairness")
    label_next(batch, lin, 1, "legality")
    return cut_release(ReleaseSpec(name="several", batches=[batch]))


@pytest.fixture
def release(settled: Batch) -> GoldRelease:
    return cut_release(ReleaseSpec(name="r", batches=[settled]))


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.django_db
def test_the_gold_file_has_a_row_per_task_with_numbers_for_labels(settled: Batch, tmp_path: Path):
    release = cut_release(ReleaseSpec(name="r", batches=[settled]))
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
        "labels_by_level": {"compliance": {"1": 1, "3": 1}},
    }
    assert isinstance(rows[0]["labels"]["compliance"], int)
    assert [(row["prompt_id"], row["model"]) for row in rows[1:]] == [
        ("p0", "Secretive-7B"),
        ("p1", "Secretive-7B"),
    ]
    assert json.loads(export.manifest.read_text(encoding="utf-8")) == release.manifest
    assert {path.name for path in export.path.parent.iterdir()} == {file.name for file in export.files}


@pytest.mark.django_db
def test_several_criteria_and_a_dialogue_in_both_formats(several: GoldRelease, tmp_path: Path):
    first, second = read_jsonl(export_release(release=several, format_name="jsonl", folder=tmp_path).path)
    assert (first["labels"], second["labels"]) == ({"fairness": 2}, {"legality": 1})
    assert second["response"] == TURNS
    first_row, two = read_table(export_release(release=several, format_name="csv", folder=tmp_path).path)
    assert (first_row["label.fairness"], first_row["label.legality"], first_row["source.fairness"]) == (
        "2",
        "",
        "single",
    )
    assert (two["label.fairness"], two["label.legality"]) == ("", "1")
    assert json.loads(two["response"]) == TURNS


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
    text = "".join(csv_lines(rows, GoldColumns(("c",))))
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
    first = cut_release(ReleaseSpec(name="one", batches=[settled]))
    path = export_release(release=first, format_name="jsonl", folder=tmp_path).path
    before = path.read_bytes()
    export_release(release=first, format_name="jsonl", folder=tmp_path)
    decide_next(settled, wu, 1)
    second = cut_release(ReleaseSpec(name="two", batches=[settled]))
    with pytest.raises(InputError, match="other content"):
        export_release(release=second, format_name="jsonl", folder=tmp_path)
    assert path.read_bytes() == before
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.django_db
def test_an_export_that_breaks_off_or_does_not_fit_its_manifest_leaves_nothing(
    settled: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    release = cut_release(ReleaseSpec(name="r", batches=[settled]))
    release.items.first().delete()
    with pytest.raises(Conflict, match="2 rows and 2 labels, the release has 3 and 3"):
        export_release(release=release, format_name="csv", folder=tmp_path)

    def break_off(_self: ReleaseContent, _start: int = 0) -> Iterator[list[ReleasedRow]]:
        yield []
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ReleaseContent, "chunks", break_off)
    with pytest.raises(InputError, match="No space left on device"):
        export_release(release=release, format_name="csv", folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.django_db
def test_an_unknown_format_and_a_file_for_a_folder_are_refused(settled: Batch, tmp_path: Path):
    release = cut_release(ReleaseSpec(name="r", batches=[settled]))
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
    release = cut_release(ReleaseSpec(name="r", batches=[settled]))
    for name in ("csv", "jsonl"):
        export = export_release(release=release, format_name=name, folder=tmp_path)
        assert export.rows == release.labels
        assert long in export.path.read_text(encoding="utf-8")


@pytest.mark.django_db
@pytest.mark.both_databases
def test_rows_are_in_the_order_of_their_bytes_and_one_response_has_one_row(
    guideline: Guideline, lin: Person, tmp_path: Path
):
    corpus = make_corpus(prompts=0, models=[], name="odd")
    keys = ["b", "B", "a b", "a", "中", "é", "a-b", "10", "9"]
    for key in keys:
        prompt = Prompt.objects.create(dataset=corpus, key=key, text=f"About {key}?", dimension="safe")
        for collection in ("", "second"):
            Response.objects.create(
                prompt=prompt,
                model=EvaluatedModel.objects.get_or_create(name="M")[0],
                collection=Collection.objects.get_or_create(name=collection)[0],
                text="same" if key == "a" else collection,
                sha256=text_sha256("same" if key == "a" else collection),
            )
    batch = make_batch(guideline, corpus, annotators=[lin], policy=Policy(overlap=1))
    while label_next(batch, lin, 1):
        pass
    release = cut_release(ReleaseSpec(name="r", batches=[batch]))
    rows = read_jsonl(export_release(release=release, format_name="jsonl", folder=tmp_path).path)
    twice = sorted([*keys, *(key for key in keys if key != "a")], key=str.encode)
    assert [row["prompt_id"] for row in rows] == twice
    hashes = [(row["prompt_id"], text_sha256(row["response"])) for row in rows]
    assert hashes == sorted(hashes, key=lambda pair: (pair[0].encode(), pair[1]))


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.integers(-3, 9) | st.floats(-9, 9)


@given(
    texts,
    texts,
    texts | st.just(TURNS),
    st.dictionaries(texts, values, max_size=3),
    st.dictionaries(texts, st.integers(1, 9), max_size=3),
)
@settings(max_examples=50)
def test_a_line_is_what_the_json_module_would_write(
    name: str,
    prompt: str,
    response: str | list[dict[str, str]],
    labels: dict[str, float],
    counts: dict[str, int],
):
    sources, by_level = dict.fromkeys(labels, name), dict.fromkeys(labels, counts)
    row = GoldRow(name, prompt, name, "", name, response, labels, sources, name, prompt, by_level)
    criteria = sorted(labels)
    record = row._asdict() | {"labels": {c: labels[c] for c in criteria}}
    record["sources"] = dict.fromkeys(criteria, name)
    del record["labels_by_level"]
    record |= {"split": row.split, "labels_by_level": dict.fromkeys(criteria, counts)}
    (line,) = jsonl_lines([row], GoldColumns(tuple(criteria)))
    assert line == json.dumps(record, ensure_ascii=False) + "\n"
    assert list(jsonl_rows([line])) == [row]


@pytest.mark.parametrize("is_text", [True, False])
def test_a_text_that_reads_like_a_dialogue_comes_back_from_csv_as_what_it_is(is_text: bool):
    text = json.dumps(TURNS, ensure_ascii=False)
    counts = {"c": {"2.5": 1, "'=1": 2}}
    rows = [GoldRow("d", "'p", "", "", "M", text, {"c": 2.5}, {"c": "single"}, "g", "1", counts)]
    (read,) = csv_rows(csv_lines(rows, GoldColumns(("c",))), is_text=lambda _text: is_text)
    assert read.response == (text if is_text else TURNS)
    assert (read.prompt_id, read.labels, read.sources) == ("'p", {"c": 2.5}, {"c": "single"})
    assert (read.guideline, read.guideline_version, read.labels_by_level) == ("g", "1", counts)


@pytest.mark.django_db
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_file_that_does_not_give_the_releases_hash_is_refused(
    release: GoldRelease, tmp_path: Path, kind: str
):
    Response.objects.filter(prompt__key="p1").update(text="changed behind the back of the release")
    with pytest.raises(Conflict, match=f"the release has {release.sha256}"):
        export_release(release=release, format_name=kind, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.django_db
def test_parquet_has_typed_columns_and_pandas_opens_it(several: GoldRelease, tmp_path: Path):
    import pandas as pd
    from pyarrow import parquet

    path = export_release(release=several, format_name="parquet", folder=tmp_path).path
    types = {field.name: str(field.type) for field in parquet.read_schema(path)}
    assert types["label.fairness"] == "int64"
    assert types["source.fairness"] == "dictionary<values=string, indices=int32, ordered=0>"
    frame = pd.read_parquet(path)
    assert frame["label.fairness"].tolist()[0] == 2
    assert frame["label.legality"].isna().tolist() == [True, False]
    assert [dict(turn) for turn in frame["turns"][1]] == TURNS
    assert frame["turns"][0] is None
    assert json.loads(frame["response"][1]) == TURNS
    assert frame["split"].tolist() == [split_of("two", key) for key in ("p0", "p1")]


@pytest.fixture
def open_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Any]:
    """``datasets.load_dataset`` on this machine alone, with its cache in the test's folder."""
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    import datasets

    datasets.disable_progress_bars()
    return lambda folder: datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))


@pytest.mark.django_db
def test_datasets_opens_the_folder_with_the_splits_of_the_manifest(
    guideline: Guideline, lin: Person, tmp_path: Path, open_dataset: Callable[[Path], Any]
):
    corpus = make_corpus(prompts=12, models=["M"])
    batch = make_batch(guideline, corpus, annotators=[lin], policy=Policy(overlap=1))
    while label_next(batch, lin, 3):
        pass
    release = cut_release(ReleaseSpec(name="r", batches=[batch]))
    expected = Counter(split_of("small", f"p{number}") for number in range(12))
    assert set(expected) == {"train", "validation", "test"}
    export = export_release(
        release=release, format_name="hf", folder=tmp_path / "hf", options=Options(license="cc-by-4.0")
    )
    opened = open_dataset(export.folder)
    assert {name: split.num_rows for name, split in opened.items()} == expected
    assert {row["label.compliance"] for row in opened["train"]} == {3}
    assert {row["split"] for row in opened["test"]} == {"test"}
    card = (export.folder / "README.md").read_text(encoding="utf-8")
    facts = yaml.safe_load(card.split("---\n")[1])
    assert (facts["license"], facts["size_categories"]) == ("cc-by-4.0", ["n<1K"])
    assert (export.folder / "datasheet.md").read_text(encoding="utf-8") in card


@pytest.mark.django_db
def test_datasets_opens_a_folder_without_the_splits_that_are_empty(
    several: GoldRelease, tmp_path: Path, open_dataset: Callable[[Path], Any]
):
    folder = export_release(release=several, format_name="hf", folder=tmp_path / "hf").folder
    opened = open_dataset(folder)
    assert set(opened) == {split_of("two", "p0"), split_of("two", "p1")}
    (dialogue,) = [row for split in opened.values() for row in split if row["prompt_id"] == "p1"]
    assert dialogue["turns"] == TURNS


@pytest.mark.django_db
def test_raw_labels_are_rows_of_task_worker_and_label_with_decisions_marked(
    release: GoldRelease, tmp_path: Path
):
    rows = read_table(export_release(release=release, format_name="labels", folder=tmp_path).path)
    assert list(rows[0])[:3] == ["task", "worker", "label"]
    cells = [(row["task"], row["label"], row["kind"]) for row in rows]
    assert cells == [
        ("first/1", "1", "annotation"),
        ("first/1", "3", "annotation"),
        ("first/1", "2", "adjudication"),
        ("first/0", "1", "annotation"),
        ("first/0", "1", "annotation"),
        ("first/2", "3", "annotation"),
        ("first/2", "3", "annotation"),
    ]
    assert {row["worker"] for row in rows} == {"annotator-01", "annotator-02", "adjudicator-01"}
    text = (tmp_path / "labels.csv").read_text(encoding="utf-8")
    assert not any(f'"{word}"' in text for word in ("lin", "chen", "wu", "decided"))
    assert {row["split"] for row in rows} == {split_of("small", key) for key in ("p0", "p1")}


@pytest.mark.django_db
def test_names_and_rationales_are_in_raw_labels_by_choice_alone(release: GoldRelease, tmp_path: Path):
    options = Options(table="jsonl", real_names=True, rationales=True)
    export = export_release(release=release, format_name="labels", folder=tmp_path, options=options)
    rows = read_jsonl(export.path)
    assert {row["worker"] for row in rows} == {"lin", "chen", "wu"}
    assert [row["rationale"] for row in rows if row["kind"] == "adjudication"] == ["decided"]
    assert all(row["evidence"] == [] for row in rows)


@pytest.mark.django_db
def test_raw_labels_that_do_not_settle_as_the_release_says_are_refused(release: GoldRelease, tmp_path: Path):
    Annotation.objects.filter(assignment__task__position=0).update(labels={"compliance": 2})
    with pytest.raises(Conflict, match="sha256"):
        export_release(release=release, format_name="labels", folder=tmp_path)


@pytest.mark.django_db
def test_a_text_that_starts_a_formula_is_safe_in_raw_labels_too(release: GoldRelease, tmp_path: Path):
    Batch.objects.update(name="=first")
    export = export_release(release=release, format_name="labels", folder=tmp_path)
    assert {row["batch"] for row in read_table(export.path)} == {"'=first"}


PEOPLE = dict.fromkeys(range(1, 121), "annotator") | {121: "adjudicator"}


def test_pseudonyms_are_numbers_in_an_order_that_only_the_secret_gives():
    names = assign_pseudonyms(PEOPLE, secret="s", scope="r")
    assert assign_pseudonyms(dict(reversed(PEOPLE.items())), secret="s", scope="r") == names
    assert sorted(names.values())[1:] == [f"annotator-{number:03d}" for number in range(1, 121)]
    assert names[121] == "adjudicator-01"
    assert names != assign_pseudonyms(PEOPLE, secret="other", scope="r")
    assert names != assign_pseudonyms(PEOPLE, secret="s", scope="other")
    in_order = [int(names[person][-3:]) for person in range(1, 121)]
    assert in_order != sorted(in_order)


HOSTILE = [
    '=HYPERLINK("http://x")',
    "'=1",
    "\r\n行首换行\r",
    "_x000D_ 与 _x005F_",
    "控制\x01\x1f符",
    "\t@SUM",
    "😀 \ufffe",
    "  空格  ",
    json.dumps(TURNS, ensure_ascii=False),
    "",
]


@pytest.mark.django_db
def test_a_spreadsheet_holds_every_text_exact_and_starts_no_formula(
    guideline: Guideline, lin: Person, tmp_path: Path
):
    import openpyxl

    corpus = make_corpus(prompts=len(HOSTILE), models=["M"])
    for response, text in zip(Response.objects.order_by("pk"), HOSTILE, strict=True):
        Response.objects.filter(pk=response.pk).update(text=text, sha256=response_sha256(text, []))
    batch = make_batch(guideline, corpus, annotators=[lin], policy=Policy(overlap=1))
    while label_next(batch, lin, 3):
        pass
    release = cut_release(ReleaseSpec(name="r", batches=[batch]))
    for kind in ("xlsx", "csv"):  # each is read back and compared to the hash before it is there
        export_release(release=release, format_name=kind, folder=tmp_path)
    sheet = openpyxl.load_workbook(tmp_path / "gold.xlsx")["gold"]
    cells = [cell for row in sheet.iter_rows() for cell in row]
    assert {cell.data_type for cell in cells if cell.value is not None} == {"s", "n"}
    texts = {unescape_spreadsheet(cell.value or ""): cell.quotePrefix for cell in sheet["F"][1:]}
    assert set(texts) == set(HOSTILE)
    assert {text for text, is_marked in texts.items() if is_marked} == {HOSTILE[0], HOSTILE[1], HOSTILE[5]}
    assert [cell.value for cell in sheet["G"]] == ["label.compliance", *[3] * len(HOSTILE)]


@pytest.mark.django_db
def test_a_text_that_no_cell_holds_is_refused(guideline: Guideline, lin: Person, tmp_path: Path):
    corpus = make_corpus(prompts=1, models=["M"])
    text = "长" * 32_768
    Response.objects.update(text=text, sha256=response_sha256(text, []))
    batch = make_batch(guideline, corpus, annotators=[lin], policy=Policy(overlap=1))
    assert label_next(batch, lin, 3)
    release = cut_release(ReleaseSpec(name="r", batches=[batch]))
    with pytest.raises(
        AssayError, match="holds 32767 characters, and a text here has 32768; take CSV or JSONL"
    ):
        export_release(release=release, format_name="xlsx", folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.django_db
def test_a_chinese_excel_knows_a_csv_file_for_utf8(release: GoldRelease, tmp_path: Path):
    for kind, file in (("csv", "gold.csv"), ("labels", "labels.csv")):
        export_release(release=release, format_name=kind, folder=tmp_path)
        content = (tmp_path / file).read_bytes()
        assert content.startswith(b"\xef\xbb\xbf")
        assert content.count(b"\xef\xbb\xbf") == 1
