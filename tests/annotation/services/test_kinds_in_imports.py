"""Several options, texts and levels of turns that come in from files: stored as those that are given here."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from annotation.core.errors import InputError
from annotation.domain.formats import Source
from annotation.models import Annotation, Batch, GoldLabel, Person
from annotation.services.imports import ImportReport, ImportRequest, import_annotations
from tests.annotation.kinds import ANSWERS, MODEL, kinds_batch
from tests.support import as_made_by_import

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
TEXTS = {"why"}
PEOPLE = ("lin", "chen")
GOLD = {
    "p0": {"harm": 1, "topics": 5, "empathy@1": 2, "empathy@3": 3},
    "p1": {"harm": 2, "topics": 2, "empathy@0": 2},
    "p2": {"harm": 3, "topics": 3, "empathy@0": 1},
    "p3": {"harm": 1, "topics": "na", "empathy@0": "na"},
}
DECISIONS = ({"empathy@3": 3}, {}, {"topics": 3}, {})
Answers = Mapping[str, Any]


@pytest.fixture
def batch(lin: Person, chen: Person, wu: Person) -> Batch:
    return as_made_by_import(kinds_batch([lin, chen], [wu]))


def put(path: Path, format_name: str, batch: str = "first") -> ImportReport:
    request = ImportRequest(batch=batch)
    return import_annotations(source=Source(path, path.name), format=format_name, request=request)


def list_rows(convert: Callable[[Answers], Answers]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for place, (pair, decision) in enumerate(zip(ANSWERS, DECISIONS, strict=True)):
        about = {"prompt_id": f"p{place}", "model": MODEL}
        rows += [
            about | {"annotator": name, "answers": convert(answers)}
            for name, answers in zip(PEOPLE, pair, strict=True)
        ]
        if decision:
            rows.append(about | {"adjudicator": "wu", "answers": convert(decision)})
    return rows


def as_they_are(answers: Answers) -> Answers:
    return answers


def as_lists(answers: Answers) -> Answers:
    """The options as a list, the labels of both judged turns as one; of one turn as an object."""
    topics = answers.get("topics")
    turns = {name: value for name, value in answers.items() if name.startswith("empathy")}
    listed = {} if not turns else {"empathy": list(turns.values())}
    if len(turns) == 1:
        ((name, value),) = turns.items()
        listed = {"empathy": {name.partition("@")[2]: value}}
    plain = {name: value for name, value in answers.items() if name not in {*turns, "topics"}}
    options = {"topics": [bit for bit in (1, 2, 4) if topics & bit]} if isinstance(topics, int) else {}
    return plain | options | listed | ({"topics": topics} if isinstance(topics, str) else {})


def as_words(answers: Answers) -> Answers:
    """As a cell holds them: the options by name, the labels of the turns with a sign between."""
    names = {1: "Violence", 2: "Privacy", 4: "Neither"}
    cells = dict(as_lists(answers))
    for name, value in cells.items():
        if name == "topics" and isinstance(value, list):
            cells[name] = "; ".join(names[option] for option in value)
        elif isinstance(value, list):
            cells[name] = "|".join(map(str, value))
        elif isinstance(value, dict):
            cells[name] = json.dumps(value)
    return cells


def write_jsonl(rows: Sequence[Mapping[str, Any]], folder: Path) -> Path:
    path = folder / "labels.jsonl"
    lines = []
    for row in rows:
        answers = dict(row["answers"])
        fields = {name: value for name, value in row.items() if name != "answers"}
        texts = {name: answers.pop(name) for name in TEXTS & answers.keys()}
        lines.append(json.dumps(fields | {"labels": answers} | ({"texts": texts} if texts else {})))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def list_cells(rows: Sequence[Mapping[str, Any]], prefix: str) -> list[list[Any]]:
    names = list(dict.fromkeys(name for row in rows for name in row["answers"]))
    fields = ["prompt_id", "model", "annotator", "adjudicator"]
    body = [
        [*(row.get(name) for name in fields), *(build_cell(row["answers"].get(name)) for name in names)]
        for row in rows
    ]
    return [[*fields, *(f"{prefix}{name}" for name in names)], *body]


def build_cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value


def write_csv(rows: Sequence[Mapping[str, Any]], folder: Path) -> Path:
    path = folder / "labels.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(list_cells(rows, "label."))
    return path


def write_xlsx(rows: Sequence[Mapping[str, Any]], folder: Path) -> Path:
    path = folder / "labels.xlsx"
    book = openpyxl.Workbook()
    for cells in list_cells(rows, ""):
        book.active.append(
            ["'" + cell if isinstance(cell, str) and cell.startswith("=") else cell for cell in cells]
        )
    book.save(path)
    return path


def check_stored(texts: Callable[[str], str] = str) -> None:
    """Labels apart from texts, as the file has them of each person."""
    rows = Annotation.objects.values_list(
        "assignment__task__prompt__key", "assignment__person__username", "labels", "texts"
    )
    stored = {(prompt, name): (labels, written) for prompt, name, labels, written in rows}
    assert len(stored) == 2 * len(ANSWERS)
    for place, pair in enumerate(ANSWERS):
        for name, answers in zip(PEOPLE, pair, strict=True):
            labels, written = stored[f"p{place}", name]
            assert labels == {key: value for key, value in answers.items() if key not in TEXTS}
            assert written == {key: texts(value) for key, value in answers.items() if key in TEXTS}
    gold: dict[str, dict[str, Any]] = {}
    for label in GoldLabel.objects.select_related("task__prompt"):
        gold.setdefault(label.task.prompt.key, {})[label.criterion] = label.label
    assert gold == GOLD


@pytest.mark.parametrize("convert", [as_they_are, as_lists, as_words])
@pytest.mark.parametrize(
    ("write", "format_name"),
    [
        (write_jsonl, "jsonl"),
        (write_jsonl, "table"),
        (write_csv, "csv"),
        (write_csv, "table"),
        (write_xlsx, "table"),
    ],
)
def test_every_way_of_writing_gives_the_same_annotations(
    batch: Batch,
    tmp_path: Path,
    convert: Callable[[Answers], Answers],
    write: Callable[[Sequence[Mapping[str, Any]], Path], Path],
    format_name: str,
) -> None:
    """Once more it changes nothing."""
    path = write(list_rows(convert), tmp_path)
    report = put(path, format_name)
    assert (report.imported, report.already_there) == (10, 0)
    check_stored(lambda text: f"'{text}" if write is write_xlsx and text.startswith("=") else text)
    second_report = put(path, format_name)
    assert (second_report.imported, second_report.already_there) == (0, 10)


def test_a_column_for_each_option(batch: Batch, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(
        "prompt_id,model,annotator,harm,Topics: Violence,Topics: Privacy,Topics: Neither,empathy@0\n"
        f"p1,{MODEL},lin,2,1,0,yes,2\np1,{MODEL},chen,2,x,no,TRUE,2\n",
        encoding="utf-8",
    )
    assert put(path, "table").imported == 2
    assert set(Annotation.objects.values_list("labels__topics", flat=True)) == {5}


def test_other_words_of_the_same_person_contradict(batch: Batch, tmp_path: Path) -> None:
    rows = list_rows(as_they_are)[:1]
    put(write_jsonl(rows, tmp_path), "jsonl")
    other = [rows[0] | {"answers": {**rows[0]["answers"], "why": "no"}}]
    with pytest.raises(InputError, match="lin labelled this response otherwise before"):
        put(write_jsonl(other, tmp_path), "jsonl")


def test_spans_name_a_text_without_level_an_option_and_a_turn(batch: Batch, tmp_path: Path) -> None:
    row = list_rows(as_they_are)[0]
    answers = {name: value for name, value in row["answers"].items() if name != "why"}
    span = {"turn": 3, "start": 0, "end": 3}
    marks = [
        span | mark
        for mark in ({"criterion": "why"}, {"criterion": "topics", "level": 4}, {"criterion": "empathy"})
    ]
    path = tmp_path / "labels.jsonl"
    record = {
        "prompt_id": "p0",
        "model": MODEL,
        "annotator": "lin",
        "labels": answers,
        "texts": {"why": "so"},
    }
    path.write_text(json.dumps(record | {"evidence": marks}) + "\n", encoding="utf-8")
    put(path, "jsonl")
    evidence = Annotation.objects.get().evidence
    assert [(mark["criterion"], mark["level"]) for mark in evidence] == [
        ("empathy@3", 1),
        ("topics", 4),
        ("why", None),
    ]


@pytest.mark.parametrize(
    ("labels", "field", "message"),
    [
        ({"topics": "Violence; War"}, "labels.topics", "\"topics\" has no level 'War'"),
        ({"topics": 9}, "labels.topics", '"topics" cannot be 9; use one of 1, 2, 4, na.'),
        (
            {"empathy@1": 1},
            "labels",
            '"empathy@1" is not asked here, so 1 cannot be taken; asked: harm, topics, empathy@0.',
        ),
        (
            {"empathy": [1, 2]},
            "labels.empathy",
            '"empathy" has 2 labels, and 1 turns of this response are judged',
        ),
        ({"why": "x" * 2001}, "labels", 'The text of "why" has 2001 characters; write at most 2000.'),
        ({"why": ["a", "b"]}, "labels", '"why" is answered by a text'),
        ({"harm": "bad"}, "labels.harm", "'bad' is no number; write a level's value."),
        ({"harm": {"1": 3}}, "labels.harm", "how many gave each level has no place"),
        ({"feeling": 1}, "labels", '"feeling" is not asked here'),
    ],
)
def test_what_the_document_has_no_word_for_is_refused_in_its_place(
    batch: Batch, tmp_path: Path, labels: Answers, field: str, message: str
) -> None:
    answers = {"harm": 1, "topics": 1} | ({} if "empathy" in str(labels) else {"empathy": 2}) | labels
    row = {"prompt_id": "p1", "model": MODEL, "annotator": "lin", "answers": answers}
    path = tmp_path / "labels.jsonl"
    path.write_text("\n" + json.dumps({**row, "labels": row.pop("answers")}) + "\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        put(path, "jsonl")
    assert (caught.value.line, caught.value.field) == (2, field)
    assert message in str(caught.value)
    assert not Annotation.objects.exists()


def test_a_cell_that_is_no_number_is_refused_with_its_column(batch: Batch, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(
        f"prompt_id,model,annotator,label.harm,label.topics,label.empathy\np1,{MODEL},lin,high,1,2\n",
        encoding="utf-8",
    )
    with pytest.raises(InputError) as caught:
        put(path, "csv")
    assert (caught.value.line, caught.value.field) == (2, "label.harm")
