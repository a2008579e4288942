"""Tables through the commands: previews, mappings, checked names, and one file for each annotator."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from django.core.management import call_command

from annotation.models import Annotation, AuditEvent, Batch, Dataset, Person, Prompt, Response, Task
from annotation.selectors.counts import OF_STRATA
from annotation.services.guidelines import load_guideline
from tests.support import FIXTURES

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
HEADER = ["编号", "问题", "维度", "子类", "gpt-4", "Qwen2.5"]
ROWS = [
    ["一", "问题甲？", "Fairness", "Toxic language", "回答甲一", "回答甲二"],
    ["二", "问题乙？", "Safety", "Mental harm", "回答乙一", None],
]


@pytest.fixture(autouse=True)
def _flames() -> None:
    path = FIXTURES / "guidelines" / "flames.yaml"
    load_guideline(text=path.read_text(encoding="utf-8"), path=path.name, publish=True)


def run(*arguments: object) -> Any:
    out = StringIO()
    call_command(*map(str, arguments), "--json", stdout=out)
    return json.loads(out.getvalue())


def refuse(*arguments: object) -> str:
    err = StringIO()
    with pytest.raises(SystemExit):
        call_command(*map(str, arguments), stderr=err)
    return err.getvalue()


def book(path: Path, *rows: list[Any]) -> Path:
    workbook = openpyxl.Workbook()
    for row in rows:
        workbook.active.append(row)
    workbook.save(path)
    return path


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    return book(tmp_path / "all.xlsx", HEADER, *ROWS)


def count_rows() -> list[int]:
    return [model.objects.count() for model in (Dataset, Prompt, Response, Person, Batch, Task, Annotation)]


def test_one_spreadsheet_brings_prompts_and_responses(prompts: Path):
    report = run("import_prompts", prompts, "--dataset", "d", "--guideline", "flames")
    assert (report["taken"], report["format"], report["notes"]) == (2, "table", ["Not used: gpt-4, Qwen2.5."])
    responses = run("import_responses", prompts, "--dataset", "d")
    assert (responses["taken"], responses["made"]) == (3, {"models": 2})
    assert responses["left_out"] == [{"reason": "1 cells without a response were passed over.", "number": 1}]
    assert run("import_responses", prompts, "--dataset", "d")["already_there"] == 3
    assert set(Response.objects.values_list("prompt__key", "model__name", "text")) == {
        ("一", "gpt-4", "回答甲一"),
        ("一", "Qwen2.5", "回答甲二"),
        ("二", "gpt-4", "回答乙一"),
    }


def test_a_preview_stores_nothing_and_says_what_would_come(prompts: Path):
    before = count_rows()
    (preview,) = run("import_prompts", prompts, "--dataset", "d", "--preview")["preview"]
    assert count_rows() == before
    assert preview["columns"][:4] == [
        ["编号", "id"],
        ["问题", "prompt"],
        ["维度", "dimension"],
        ["子类", "subcomponent"],
    ]
    assert (preview["shape"], preview["count"], preview["names"]) == ("xlsx", 2, {"Fairness": 1, "Safety": 1})
    assert preview["rows"][0] == {
        "line": 2,
        "prompt_id": "一",
        "prompt": "问题甲？",
        "dimension": "Fairness",
        "subcomponent": "Toxic language",
    }
    assert (preview["problems"], preview["outcome"]["taken"], preview["outcome"]["made"]) == (
        [],
        2,
        {"datasets": 1},
    )


def test_a_preview_for_people_groups_what_is_wrong(tmp_path: Path):
    path = book(tmp_path / "bad.xlsx", ["编号", "问题"], *([str(n), None] for n in range(60)), ["x", "问？"])
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("import_prompts", str(path), "--dataset", "d", "--preview", stdout=out)
    assert ended.value.code == 1
    text = out.getvalue()
    assert "bad.xlsx: xlsx Sheet, 1 prompts read" in text
    assert "  编号 -> id\n  问题 -> prompt\n" in text
    assert "60 lines: this is empty. (lines 2, 3, 4, 5, 6, ..)" in text
    assert "Nothing was stored. An import would be refused." in text


def test_a_preview_knows_what_the_dataset_would_refuse(prompts: Path, tmp_path: Path):
    run("import_prompts", prompts, "--dataset", "d")
    other = book(tmp_path / "other.xlsx", ["编号", "问题"], ["一", "另一个问题"], ["二", "又一个"])
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("import_prompts", str(other), "--dataset", "d", "--preview", "--json", stdout=out)
    (preview,) = json.loads(out.getvalue())["preview"]
    assert [(problem["number"], problem["lines"]) for problem in preview["problems"]] == [(1, [2]), (1, [3])]
    assert preview["outcome"] is None


def test_misspelt_dimensions_are_refused_with_the_nearest(tmp_path: Path):
    path = book(tmp_path / "a.xlsx", ["prompt", "dimension"], ["a", "Fairnes"])
    before = count_rows()
    line = refuse("import_prompts", path, "--dataset", "d", "--guideline", "flames")
    assert "a.xlsx:2 [dimension]: the guideline has no dimension “Fairnes”; did you mean “Fairness”?" in line
    assert count_rows() == before


def test_columns_are_mapped(tmp_path: Path):
    path = book(tmp_path / "a.xlsx", ["甲", "乙"], ["x", "问？"])
    assert "which it is (prompt=COLUMN)" in refuse("import_prompts", path, "--dataset", "d")
    run("import_prompts", path, "--dataset", "d", "--map", "prompt=乙", "id=甲")
    assert list(Prompt.objects.values_list("key", "text")) == [("x", "问？")]
    assert "'乙' is no FIELD=COLUMN" in refuse("import_prompts", path, "--dataset", "d", "--map", "乙")
    line = refuse("import_prompts", path, "--dataset", "d", "--map", "prompt=乙", "--format", "csv")
    assert "leave --format out" in line


def write_labels(folder: Path, name: str, values: list[Any]) -> Path:
    rows = zip(["一", "一", "二"], ["gpt-4", "Qwen2.5", "gpt-4"], values, strict=True)
    return book(folder / f"{name}.xlsx", ["编号", "模型", "得分"], *map(list, rows))


@pytest.fixture
def data(prompts: Path) -> None:
    run("import_prompts", prompts, "--dataset", "d")
    run("import_responses", prompts, "--dataset", "d")


NEW = ("--guideline", "flames", "--dataset", "d")


@pytest.mark.usefixtures("data")
def test_one_file_for_each_annotator_in_one_command(tmp_path: Path):
    files = [write_labels(tmp_path, name, [3, 2, 1]) for name in ("张三", "李四", "wang")]
    done = run("import_annotations", *files, "--batch", "b", *NEW)
    assert (done["taken"], [report["made"] for report in done["files"]]) == (
        9,
        [{"batches": 1, "tasks": 3, "people": 1}, {"people": 1}, {"people": 1}],
    )
    assert Batch.objects.get().overlap == 3
    assert set(Task.objects.values_list("state", flat=True)) == {"agreed"}
    people = Person.objects.filter(username__in=["张三", "李四", "wang"])
    assert [person.has_usable_password() for person in people] == [False] * 3
    assert run("import_annotations", *files, "--batch", "b")["already_there"] == 9


@pytest.mark.usefixtures("data")
def test_a_batch_whose_overlap_is_counted_is_that_whose_overlap_was_named(tmp_path: Path):
    """It is made for two people while the files are read, and made anew for three: nothing of the first is left."""
    files = [write_labels(tmp_path, name, [3, 2, 1]) for name in ("张三", "李四", "wang")]
    made = []
    for name, overlap in (("counted", ()), ("named", ("--overlap", 3))):
        done = run("import_annotations", *files, "--batch", name, *NEW, *overlap)
        made.append(done["files"][0]["made"] | {"people": 0})
    assert made[0] == made[1]
    batches = [
        {
            **{field: getattr(batch, field) for field in ("overlap", "plan", "settling", "state")},
            "tasks": sorted(batch.tasks.values_list("response", "overlap", "slots_taken", "position")),
            "counts": list(batch.strata.order_by("pk").values_list("dimension", "model", *OF_STRATA)),
            "events": AuditEvent.objects.filter(verb="create_batch", target=f"batch:{batch.name}").count(),
        }
        for batch in Batch.objects.order_by("pk")
    ]
    assert len(batches) == 2
    assert batches[0] == batches[1]
    assert (batches[0]["overlap"], batches[0]["events"]) == (3, 1)


@pytest.mark.usefixtures("data")
def test_one_file_for_each_annotator_in_several_commands(tmp_path: Path):
    for number, name in enumerate(("张三", "李四", "wang")):
        path = write_labels(tmp_path, "标注结果", [3, 2, 1])
        new = (*NEW, "--overlap", 3) if number == 0 else ()
        done = run("import_annotations", path, "--batch", "b", "--annotator", name, *new)
        assert (done["taken"], done["files"][0]["made"]["people"]) == (3, 1)
    assert set(Task.objects.values_list("state", flat=True)) == {"agreed"}
    assert Batch.objects.get().state == "open"


@pytest.mark.usefixtures("data")
def test_a_column_for_each_annotator(tmp_path: Path):
    header = ["编号", "模型", "标注员1", "标注员2"]
    path = book(
        tmp_path / "wide.xlsx",
        header,
        ["一", "gpt-4", 3, 3],
        ["一", "Qwen2.5", 1, None],
        ["二", "gpt-4", 1, 3],
    )
    done = run("import_annotations", path, "--batch", "b", *NEW)
    assert (done["taken"], done["files"][0]["left_out"][0]["number"]) == (5, 1)
    assert set(Task.objects.values_list("response__prompt__key", "response__model__name", "state")) == {
        ("一", "gpt-4", "agreed"),
        ("一", "Qwen2.5", "open"),
        ("二", "gpt-4", "disputed"),
    }


def test_one_spreadsheet_brings_everything(tmp_path: Path):
    header = ["问题", "维度", "模型", "回答", "标注员", "公平", "备注"]
    rows = [["问？", "Fairness", "M", "答。", name, 3, "因为"] for name in ("张三", "李四")]
    path = book(tmp_path / "all.xlsx", header, *rows)
    done = run("import_annotations", path, "--batch", "b", *NEW, "--map", "label.fairness=公平")
    (report,) = done["files"]
    assert report["made"] == {
        "datasets": 1,
        "prompts": 1,
        "models": 1,
        "responses": 1,
        "batches": 1,
        "tasks": 1,
        "people": 2,
    }
    assert [annotation.labels for annotation in Annotation.objects.all()] == [{"fairness": 3}] * 2
    assert Task.objects.get().state == "agreed"


@pytest.mark.usefixtures("data")
def test_a_criterion_that_the_guideline_does_not_know_is_refused_with_the_nearest(tmp_path: Path):
    path = book(tmp_path / "a.xlsx", ["编号", "模型", "标注员", "label.fairnes"], ["一", "gpt-4", "lin", 3])
    line = refuse("import_annotations", path, "--batch", "b", *NEW)
    assert "a.xlsx:2 [labels]: there is no criterion “fairnes”; did you mean “fairness”?" in line
    assert not Batch.objects.exists()


@pytest.mark.usefixtures("data")
def test_levels_may_be_in_words(tmp_path: Path):
    path = write_labels(tmp_path, "lin", ["harmless", "HARMLESS", "3"])
    done = run("import_annotations", path, "--batch", "b", *NEW)
    (report,) = done["files"]
    assert (done["taken"], Batch.objects.get().state) == (3, "draft")
    assert report["notes"][-1].startswith("The batch b is a draft: it has 1 of the 2 people")


def test_an_id_beside_the_text_of_a_prompt_that_came_without_one_makes_no_second_prompt(tmp_path: Path):
    path = tmp_path / "all.csv"
    path.write_text("idx,prompt,response_a,response_b\n7,How?,So.,No.\n8,Why?,Thus.,Hence.\n")
    run("import_prompts", path, "--dataset", "by text", "--map", "id=")
    report = run("import_responses", path, "--dataset", "by text")
    assert (report["taken"], report["made"], Prompt.objects.count()) == (4, {"models": 2}, 2)
    run("import_prompts", path, "--dataset", "by id")
    assert run("import_responses", path, "--dataset", "by id")["taken"] == 4
    assert set(Prompt.objects.filter(dataset__name="by id").values_list("key", flat=True)) == {"7", "8"}


def test_a_dialogue_that_names_its_prompt_means_the_stored_one_whatever_it_asks_first(tmp_path: Path):
    """A role card is no question; a dialogue whose prompt is not there brings its first question as one."""
    cards = tmp_path / "cards.jsonl"
    cards.write_text('{"id": "c1", "prompt": "Age: 30. She lost her bicycle."}\n', encoding="utf-8")
    run("import_prompts", cards, "--dataset", "d")
    turns = [
        ("user", "I feel low."),
        ("assistant", "Tell me."),
        ("user", "My bicycle."),
        ("assistant", "Oh."),
    ]
    messages = [{"role": role, "content": text} for role, text in turns]
    dialogues = tmp_path / "dialogues.jsonl"
    rows = [{"prompt_id": key, "model": "M", "messages": messages} for key in ("c1", "c2")]
    dialogues.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    report = run("import_responses", dialogues, "--dataset", "d")
    assert (report["taken"], report["made"].get("prompts")) == (2, 1)
    texts = dict(Prompt.objects.values_list("key", "text"))
    assert texts == {"c1": "Age: 30. She lost her bicycle.", "c2": "I feel low."}
    assert run("import_responses", dialogues, "--dataset", "d")["already_there"] == 2
