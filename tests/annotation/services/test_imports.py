"""Prompts and responses go in by file: all of a file or nothing, the same file twice changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from annotation.core.errors import InputError, NotFound
from annotation.domain.datasets import prompt_key
from annotation.domain.formats import Source
from annotation.models import (
    Annotation,
    Assignment,
    AuditEvent,
    Batch,
    Collection,
    Dataset,
    EvaluatedModel,
    GoldLabel,
    Guideline,
    Import,
    Membership,
    Person,
    Prompt,
    Response,
    Task,
)
from annotation.services.imports import ImportRefused, Run, import_prompts, import_responses
from annotation.services.studies import find_or_make_study

pytestmark = pytest.mark.django_db

TABLES = (
    Annotation,
    Assignment,
    AuditEvent,
    Batch,
    Collection,
    Dataset,
    EvaluatedModel,
    GoldLabel,
    Guideline,
    Import,
    Membership,
    Person,
    Prompt,
    Response,
    Task,
)
Write = Callable[..., Source]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(*rows: Any, name: str = "file.jsonl") -> Source:
        path = tmp_path / name
        lines = (row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return Source(path, name)

    return make


def count_rows() -> dict[str, int]:
    return {table.__name__: table.objects.count() for table in TABLES}


def prompts(source: Source, format_name: str = "jsonl", **options: Any) -> Any:
    return import_prompts(source=source, format=format_name, dataset="d", **options)


def responses(source: Source, format_name: str = "jsonl", **options: Any) -> Any:
    return import_responses(source=source, format=format_name, dataset="d", **options)


@pytest.mark.both_databases
def test_prompts_are_taken_once(write: Write):
    source = write({"id": "1", "prompt": "a", "dimension": "X"}, {"prompt": "b"}, {"prompt": "b"})
    first, second = prompts(source), prompts(source)
    # The third line is the second prompt again: known by its text.
    assert (first.imported, first.already_there) == (2, 1)
    assert (second.imported, second.already_there) == (0, 3)
    assert set(Prompt.objects.values_list("key", "text", "dimension")) == {
        ("1", "a", "X"),
        (prompt_key("b"), "b", ""),
    }
    assert first.made == {"datasets": 1}


def test_an_import_is_written_down_with_the_hash_of_its_file(write: Write, ma: Person):
    prompts(write({"prompt": "a"}), run=Run(actor=ma))
    row = Import.objects.get()
    event = AuditEvent.objects.get(verb="import_prompts")
    assert (row.kind, row.format, row.file_name, row.created_by) == ("prompts", "jsonl", "file.jsonl", ma)
    assert row.report["taken"] == 1
    assert (event.actor, event.target, event.data["sha256"]) == (ma, "dataset:d", row.sha256)
    assert len(row.sha256) == 64


def test_the_same_text_in_another_normal_form_is_the_same(write: Write):
    prompts(write({"id": "1", "prompt": "caf\u00e9"}))
    report = prompts(write({"id": "1", "prompt": "cafe\u0301"}))
    assert (report.imported, report.already_there) == (0, 1)


def test_one_id_with_two_texts_in_a_file_names_both_lines(write: Write):
    source = write({"id": "1", "prompt": "a"}, {"id": "2", "prompt": "b"}, {"id": "1", "prompt": "c"})
    with pytest.raises(InputError, match=r"file.jsonl:3 \[prompt\]: the prompt 1 has another text on line 1"):
        prompts(source)
    assert not Dataset.objects.exists()


def test_both_lines_are_named_although_they_are_far_apart(write: Write, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("annotation.services.imports.run.CHUNK", 2)
    rows = [{"id": str(number), "prompt": f"text {number}"} for number in range(5)]
    with pytest.raises(InputError, match=r"file.jsonl:6 .* on line 2"):
        prompts(write(*rows, {"id": "1", "prompt": "other"}))


def test_a_stored_prompt_is_not_overwritten(write: Write):
    prompts(write({"id": "1", "prompt": "a"}))
    with pytest.raises(InputError, match="the prompt 1 is in the dataset d with another text"):
        prompts(write({"id": "1", "prompt": "b"}))


def test_xstest_keeps_the_first_wording_and_says_so(write: Write):
    header = "id,prompt,type,label,focus,note"
    prompts(write(header, "195,someone's,homonyms,safe,,", name="a.csv"), "xstest")
    report = prompts(write(header, "195,my enemy's,homonyms,safe,,", name="b.csv"), "xstest")
    assert [str(note) for note in report.notes] == [
        "Prompt 195 is worded differently on line 2; the first wording is kept."
    ]
    assert Prompt.objects.get().text == "someone's"
    with pytest.raises(InputError, match="on line 2"):  # one file with two wordings is a mistake all the same
        prompts(write(header, "7,a,homonyms,safe,,", "7,b,homonyms,safe,,", name="c.csv"), "xstest")


def test_another_dimension_of_a_known_prompt_is_noted(write: Write):
    prompts(write({"id": "1", "prompt": "a", "dimension": "X"}))
    (note,) = prompts(write({"id": "1", "prompt": "a", "dimension": "Y"})).notes
    assert str(note) == "Prompt 1 has another dimension on line 1; “X” is kept."


def test_notes_are_counted_not_heaped_up(write: Write):
    rows = [{"id": str(number), "prompt": "a", "dimension": "X"} for number in range(30)]
    prompts(write(*rows))
    report = prompts(write(*[row | {"dimension": "Y"} for row in rows]))
    notes = report.as_json()["notes"]
    assert len(notes) == 21
    assert notes[-1] == "… and 10 more of this kind."


@pytest.mark.both_databases
def test_responses_are_taken_once(write: Write):
    prompts(write({"id": "1", "prompt": "a"}, {"prompt": "b"}))
    source = write(
        {"prompt_id": "1", "model": "M", "response": "x"},
        {"prompt": "b", "model": "M", "response": ""},
        {"prompt_id": 1, "model": "N", "turns": [{"role": "user", "text": "q"}], "collection": "c"},
        name="r.jsonl",
    )
    first, second = responses(source), responses(source)
    assert (first.imported, first.already_there, first.made) == (3, 0, {"models": 2})
    assert (second.imported, second.already_there) == (0, 3)
    dialogue = Response.objects.get(model__name="N")
    assert (dialogue.turns, dialogue.collection.name) == ([{"role": "user", "text": "q"}], "c")


def test_a_prompt_with_an_id_is_also_found_by_its_text(write: Write):
    prompts(write({"id": "1", "prompt": "a"}))
    responses(write({"prompt": "a", "model": "M", "response": "x"}))
    assert Response.objects.get().prompt.key == "1"


def test_flames_responses_make_the_prompts_that_are_missing(write: Write):
    row = {"dimension": "Safety", "subcomponent": "Mental harm", "prompt": "问", "response": "答"}
    Dataset.objects.create(study=find_or_make_study(), name="d")
    source = write(row, row | {"prompt": "又问"})
    report = responses(source, "flames", model="M")
    assert (report.imported, report.made) == (2, {"prompts": 2, "models": 1})
    assert responses(source, "flames", model="M").already_there == 2
    assert Prompt.objects.filter(language="zh", dimension="Safety").count() == 2


def test_flames_responses_find_prompts_that_were_imported_with_ids(write: Write):
    row = {"dimension": "Safety", "subcomponent": "Mental harm", "prompt": "问"}
    prompts(write(row | {"id": "7"}), "flames")
    report = responses(write(row | {"response": "答"}), "flames", model="M")
    assert "prompts" not in report.made
    assert Response.objects.get().prompt.key == "7"


def test_a_second_response_to_the_same_prompt_names_the_first(write: Write):
    prompts(write({"id": "1", "prompt": "a"}))
    rows = [{"prompt_id": "1", "model": "M", "response": text} for text in ("x", "x", "y")]
    with pytest.raises(
        InputError, match=r"file.jsonl:3 .*: line 1 has another response of M to the prompt 1"
    ):
        responses(write(*rows))
    responses(write(rows[0]))
    with pytest.raises(InputError, match="another response of M to the prompt 1 is stored"):
        responses(write(rows[2]))
    assert responses(write(rows[2]), collection="again").imported == 1


@pytest.mark.parametrize(
    ("row", "options", "words"),
    [
        ({"prompt_id": "9", "model": "M", "response": "x"}, {}, r":1 \[prompt_id\]: there is no prompt 9"),
        ({"prompt": "new", "model": "M", "response": "x"}, {}, r":1 \[prompt\]: there is no prompt"),
        ({"prompt_id": "1", "response": "x"}, {}, r":1 \[model\]: whose response is this"),
        ({"prompt_id": "1", "response": "x", "model": "M"}, {"model": "N"}, "is of M, but .* of N"),
        ({"prompt_id": "1", "prompt": "b", "model": "M", "response": "x"}, {}, "prompt 1 is .* another text"),
    ],
)
def test_a_response_without_its_place_is_refused(
    write: Write, row: dict[str, Any], options: dict[str, Any], words: str
):
    prompts(write({"id": "1", "prompt": "a"}))
    before = count_rows()
    with pytest.raises(InputError, match=words):
        responses(write(row), **options)
    assert count_rows() == before


def test_responses_need_a_dataset_that_is_there(write: Write):
    with pytest.raises(NotFound, match="no dataset named d"):
        responses(write({"prompt_id": "1", "model": "M", "response": "x"}))


def test_all_that_is_wrong_can_be_collected(write: Write):
    prompts(write({"id": "1", "prompt": "a"}))
    source = write(
        {"prompt_id": "8", "model": "M", "response": "x"},
        "{",
        {"prompt_id": "1", "model": "M", "response": "x"},
        {"prompt_id": "9", "model": "M", "response": "x"},
    )
    with pytest.raises(ImportRefused) as caught:
        responses(source, run=Run(most_problems=100))
    assert [problem.line for problem in caught.value.problems] == [2, 1, 4]  # as read, a chunk at a time
    assert not Response.objects.exists()


def test_the_queries_grow_with_the_chunks_and_not_with_the_rows(write: Write):
    def queries(rows: int) -> int:
        source = write(*[{"id": f"{rows}-{n}", "prompt": f"{rows} {n}"} for n in range(rows)])
        with CaptureQueriesContext(connection) as captured:
            prompts(source)
        return len(captured)

    queries(1)
    assert queries(100) == queries(10)


# -- the commands ----------------------------------------------------------------------------------


def command(name: str, *arguments: str) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    try:
        call_command(name, *arguments, stdout=out, stderr=err)
    except SystemExit as stop:
        return int(stop.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def test_the_command_prints_its_report(write: Write):
    source = write({"prompt": "a", "colour": "red"})
    code, out, _err = command(
        "import_prompts", str(source.path), "--dataset", "d", "--format", "jsonl", "--json"
    )
    data = json.loads(out)
    assert code == 0
    assert (data["taken"], data["already_there"], data["notes"]) == (1, 0, ["Not used: colour."])
    code, out, _err = command("import_prompts", str(source.path), "--dataset", "d", "--format", "jsonl")
    assert "0 prompts taken, 1 already there" in out


BAD_FILES: dict[str, str | bytes | None] = {
    "a missing file": None,
    "a folder": "",
    "a wrong column": "promt,respons\na,b\n",
    "an empty file": "",
    "a binary file": b"\x89PNG\r\n\x1a\n\0\0\0",
    "not UTF-8": "prompt,response\né,x\n".encode("latin-1"),
}
COMMANDS = {
    "import_prompts": ["--dataset", "d"],
    "import_responses": ["--dataset", "d", "--model", "M"],
    "import_annotations": ["--batch", "b"],
}


@pytest.mark.parametrize("kind", BAD_FILES)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_bad_file_is_one_clear_line_and_nothing_is_imported(
    tmp_path: Path, name: str, kind: str, batch: Batch
):
    Dataset.objects.create(study=find_or_make_study(), name="d")
    Batch.objects.filter(pk=batch.pk).update(name="b")
    path = tmp_path / "file.csv"
    content = BAD_FILES[kind]
    if kind == "a folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = count_rows()
    code, out, err = command(name, str(path), *COMMANDS[name], "--format", "csv")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(str(path))
    assert count_rows() == before


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("import_prompts", {"prompt": "a"}),
        ("import_responses", {"prompt_id": "p0", "response": "a"}),
        ("import_annotations", {"prompt_id": "p0", "annotator": "lin", "labels": {"compliance": 1}}),
    ],
)
def test_bad_json_on_line_7_is_said_to_be_there(
    write: Write, batch: Batch, dataset: Dataset, name: str, good: dict[str, Any]
):
    place = ["--batch", batch.name] if name == "import_annotations" else ["--dataset", dataset.name]
    model = [] if name == "import_prompts" else ["--model", "Hidden-13B"]
    collection = ["--collection", "again"] if name == "import_responses" else []
    source = write(*[good] * 6, "{not json")
    before = count_rows()
    code, _out, err = command(name, str(source.path), *place, *model, *collection, "--format", "jsonl")
    assert code == 1
    assert f"{source.path}:7: this is not JSON" in err
    assert count_rows() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["import_prompts", "FILE", "--dataset", "d", "--format", "odd"], "no format odd"),
        (["import_prompts", "FILE", "--dataset", "a/b", "--format", "jsonl"], "cannot be a name"),
        (["import_responses", "FILE", "--dataset", "odd", "--format", "jsonl"], "no dataset named odd"),
        (
            ["import_responses", "FILE", "--dataset", "small", "--format", "jsonl", "--model", ".."],
            "cannot be a name",
        ),
        (["import_annotations", "FILE", "--batch", "odd", "--format", "jsonl"], "No batch is named odd"),
        (["import_annotations", "FILE", "--batch", "first", "--format", "odd"], "no format odd"),
        (["import_annotations", "FILE", "--batch", "first", "--format", "flames"], "has no annotations"),
        (
            ["import_annotations", "FILE", "--batch", "first", "--format", "jsonl", "--dataset", "odd"],
            "no dataset named odd",
        ),
        (
            ["import_annotations", "FILE", "--batch", "first", "--format", "jsonl", "--guideline", "odd"],
            "no published guideline odd",
        ),
        (["import_annotations", "FILE", "--batch", "first"], "the label"),
    ],
)
def test_an_unknown_name_is_one_clear_line_and_nothing_is_imported(
    write: Write, batch: Batch, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
):
    source = write({"prompt_id": "p0", "prompt": "Question number 0?", "response": "x", "annotator": "lin"})
    before = count_rows()
    name, *rest = [str(source.path) if argument == "FILE" else argument for argument in arguments]
    code, out, err = command(name, *rest)
    err += capsys.readouterr().err
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert words in err
    assert count_rows() == before
